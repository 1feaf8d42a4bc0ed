/* move_rows: declarations shared by move_rows.c and nested_rows.c, which rewrite statements. */
#ifndef MOVE_ROWS_H
#define MOVE_ROWS_H

#include "transform/mesh/keyed_rows.h"

typedef struct RowMove {
    Keyed *keyed;
    Program *program;
    List moved; /* MovedRows *, in this block */
    List *made;
    /* the current statement */
    Statement *statement;
    RowSides *sides; /* of its loop over rows, or NULL */
    Index *row, *received;
} RowMove;

/* Reports once that the statement cannot be moved. */
void refuse_rows(RowMove *move, const char *what);
/* An expression, or an access, of rows of the tokens at the received rows. */
Expr *at_keys(RowMove *move, Expr *expr);
Expr *access_at_keys(RowMove *move, Expr *access);
/* A tensor over rows, then over the other loops. */
Tensor *rows_tensor(RowMove *move, const char *name, const char *part, Type type,
                    Index *const *loops, int count, Axis *rows);
/* Fresh indices over all of a tensor. */
Expr *whole_read(Program *program, Tensor *tensor);
/* A collective that copies rows of the current sides. */
void add_exchange(RowMove *move, CollectiveKind kind, Expr *from, Expr *to);
/* The number of received rows. */
Expr *received_bound(const RowMove *move);

/* ---- nested_rows.c ---- */

/* A statement with a loop over nested rows. */
void move_nested_loop(RowMove *move, NestedRows *nested, Index *row);
/* The value of a nested row that belongs to a token. */
Expr *return_nested(RowMove *move, const Expr *read);
/* True if the statement is a pack of nested rows, which runs on the received rows then. */
bool move_nested_pack(RowMove *move);

#endif
