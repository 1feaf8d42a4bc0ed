/* rewrite: replacing reads in expressions and statements. */
#ifndef REWRITE_H
#define REWRITE_H

#include "ir/ir.h"

/* Replaces every read for which `replace` gives something else than NULL; the read handed over has
 * new subscripts already. */
typedef Expr *Replace(Program *program, Expr *read, void *data);
Expr *rewrite_expr(Program *program, Expr *expr, Replace *replace, void *data);
/* The same in all operands of a statement; targets and outputs too when `targets`. Repeats are
 * entered. */
void rewrite_statement(Program *program, Statement *statement, bool targets, Replace *replace,
                       void *data);
/* One tensor in place of another wherever the statement reads or writes it. */
void rewrite_tensor(Program *program, Statement *statement, const Tensor *from, Tensor *to);

#endif
