/* find_products: records which statements are matrix products.
 *
 * Needs:   gather_fusion.
 * Leaves:  Statement.product. Later passes keep it: a product never becomes loops, except where a
 *          pass that changes the loops or axes of its operands finds it again.
 */
#include "analysis/contraction.h"
#include "passes.h"

void find_product(Program *program, Statement *statement) {
    ProductForm form, *product = NULL;
    if (product_form(program, statement, &form)) {
        product = arena_alloc(program->arena, sizeof *product);
        *product = form;
    }
    statement->product = product;
}

static void find_product_of(Statement *statement, void *data) {
    find_product(data, statement);
}

void find_products(Program *program) {
    program->properties |= HAS_PRODUCTS;
    block_walk(&program->body, find_product_of, program);
}

/* ---- verification ---- */

typedef struct Verification {
    const Program *program;
    const Statement *wrong;
} Verification;

static bool same_form(const ProductForm *one, const ProductForm *other) {
    bool same = one->kind == other->kind && one->swapped == other->swapped &&
                one->relation == other->relation;
    for (int i = 0; i < MAX_LOOPS; i++) same &= one->moves[i] == other->moves[i];
    return same;
}

static void verify_product(Statement *statement, void *data) {
    Verification *verification = data;
    ProductForm form;
    bool found = product_form(verification->program, statement, &form);
    if (found ? !statement->product || !same_form(statement->product, &form)
              : statement->product != NULL)
        verification->wrong = statement;
}

const Statement *changed_product(Program *program) {
    Verification verification = {.program = program};
    if (program->properties & HAS_PRODUCTS)
        block_walk(&program->body, verify_product, &verification);
    return verification.wrong;
}
