/* rewrite: replacing reads in expressions and statements. */
#ifndef REWRITE_H
#define REWRITE_H

#include "ir/ir.h"

/* Replaces every read for which `replace` returns an expression, not NULL. The subscripts of the
 * read are already rewritten. */
typedef Expr *Replace(Program *program, Expr *read, void *data);
Expr *rewrite_expr(Program *program, Expr *expr, Replace *replace, void *data);
/* The same in all operands of a statement, including bodies of repeats; with `targets` also in
 * targets and outputs. */
void rewrite_statement(Program *program, Statement *statement, bool targets, Replace *replace,
                       void *data);
/* Replaces one tensor by another wherever the statement reads or writes it. */
void rewrite_tensor(Program *program, Statement *statement, const Tensor *from, Tensor *to);

#endif
