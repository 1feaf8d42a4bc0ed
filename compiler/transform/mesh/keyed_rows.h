/* keyed_rows: declarations shared by the files that divide the parameters which the key of a row
 * selects. mesh_rows.c decides, move_rows.c rewrites. */
#ifndef KEYED_ROWS_H
#define KEYED_ROWS_H

#include "transform/mesh/mesh.h"

/* The rows of a relation: those of the tokens of a process, and those that it receives because it
 * has the parameters of their keys. */
typedef struct RowSides {
    Axis *rows, *received;
    const Relation *relation; /* of the last pack, or NULL */
    Tensor *table;            /* first rows of the groups of all processes under this pack */
    /* of the received rows: group, keys; where their process adds to a gradient of the first key;
     * first row of each slot and other keys */
    Tensor *number, *keys[MAX_RANK], *slot, *slots;
    long each; /* rows of each process for each one; 0: depends on the data */
} RowSides;

/* Rows that are selected among the rows of a relation: of the process that receives these. */
typedef struct NestedRows {
    Axis *rows;
    RowSides *outer;
    /* of the last pack, or NULL: its relation, the slots of the outer rows, and the tensors with
     * keys of the outer rows that are defined so far */
    const Relation *relation;
    Tensor *slot;
    List defined;
} NestedRows;

typedef struct Keyed {
    Program *program;
    long size;         /* processes of a group */
    List sides;        /* RowSides * */
    List nested;       /* NestedRows * */
    List outer_values; /* see nested_rows.c */
    List axes;         /* Axis *: of keys */
    bool *key_side;    /* by id of the tensors before the rows move: it has received rows */
    bool *varies;      /* the same: differs between the processes of a group */
    bool apart;        /* the processes of a group have different micro-batches */
    /* by id of the tensors before the rows move: the axis along which equally many values are
     * selected; NULL: another tensor */
    const Axis **selected_along;
    int count;
    bool changed, failed;
} Keyed;

/* The axis of a key, from 0; NULL: the rows have fewer keys. */
const Axis *key_axis(const Relation *relation, int number);
/* Rows of tokens, all of whose keys are coordinates of their own. */
bool has_own_keys(const Relation *relation);
RowSides *sides_of(const Keyed *keyed, const Axis *rows);
/* The dimension of a tensor that has rows, or -1. */
int rows_dimension_of(const Keyed *keyed, const Tensor *tensor, RowSides **sides);
/* True if the value of a tensor, or of an expression, belongs to the process of the token. */
bool is_of_sender(const Keyed *keyed, const Tensor *tensor);
bool draws_numbers(const Keyed *keyed, const Expr *expr);
/* True for divided parameters and their gradients. */
bool is_keyed(const Tensor *tensor);
/* The number of a key that an expression reads: n[r]; -1: another expression. */
int key_number(const Keyed *keyed, const Expr *sub);
bool on_key_side(const Keyed *keyed, const Tensor *tensor);
/* True if it reads divided parameters, or received rows. */
bool reads_keyed(const Keyed *keyed, const Expr *expr);
bool runs_on_key_side(const Keyed *keyed, const Statement *statement);

/* The coordinate of a nested relation that is the outer row. */
Tensor *outer_row(const Relation *relation);

/* Finds rows among the rows of `sides`. */
void find_nested_rows(Keyed *keyed);
/* Drops those whose outer rows stay with their tokens; sizes for all rows of a group. */
void widen_nested_rows(Keyed *keyed);
NestedRows *nested_of(const Keyed *keyed, const Axis *rows);
bool has_nested_rows(const Keyed *keyed, const Tensor *tensor);
/* The tensor over outer rows whose values a tensor over nested rows has, or NULL. */
const Tensor *outer_tensor(const Keyed *keyed, const Tensor *own);

/* ---- move_rows.c ---- */

void move_rows(Keyed *keyed, Block *block);

#endif
