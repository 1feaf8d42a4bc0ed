#include "passes.h"

/* externs: calls of hand-written kernels stop reading the results of their equations.
 *
 * Needs:   gradient: until then the gradient of these results is that of the call.
 * Leaves:  equations that nothing reads, unless the backward pass reads them.
 *
 *     y_2 = extern c norm.c:norm(x, gain, y)   -->   y_2 = extern c norm.c:norm(x, gain)
 */
static void drop_equations(Statement *statement, void *data) {
    (void)data;
    if (statement->kind != STATEMENT_CALL || !statement->external) return;
    const int own = statement->external->inputs.count +
                    statement->external->backward * statement->external->outputs.count;
    if (statement->inputs.count > own) statement->inputs.count = own;
}

void externs(Program *program) {
    block_walk(&program->body, drop_equations, NULL);
}
