/* rows: declarations shared by the files that divide experts: mesh_rows.c decides, move_rows.c
 * rewrites. */
#ifndef MESH_ROWS_H
#define MESH_ROWS_H

#include "transform/mesh/mesh.h"

/* The rows of a relation: those of the tokens of a process, and those that its experts receive. */
typedef struct RowSides {
    Axis *rows, *received;
    const Relation *relation; /* of the last pack, or NULL */
    Tensor *group, *number;   /* of the received rows under this pack: first rows, local expert */
} RowSides;

typedef struct Experts {
    Program *program;
    long size;  /* processes of a group */
    List sides; /* RowSides * */
    List axes;  /* LocalAxis *: of experts */
    bool *expert_side; /* by id of the tensors before the rows move: it has received rows */
    int count;
    bool changed, failed;
} Experts;

/* The dimension of the mask that is the only key; -1: there are none or several. */
int key_dimension(const Relation *relation);
RowSides *sides_of(const Experts *experts, const Axis *rows);
/* The dimension of a tensor that has rows, or -1. */
int rows_dimension_of(const Experts *experts, const Tensor *tensor, RowSides **sides);
/* True for parameters of experts and their gradients. */
bool is_of_experts(const Tensor *tensor);
/* True for the key of rows. */
bool reads_key(const Experts *experts, const Expr *sub);
bool on_expert_side(const Experts *experts, const Tensor *tensor);
/* True if it reads parameters of experts, or received rows. */
bool reads_experts(const Experts *experts, const Expr *expr);
bool runs_on_expert_side(const Experts *experts, const Statement *statement);

/* ---- move_rows.c ---- */

void move_rows(Experts *experts, Block *block);

#endif
