/* emit_cuda_stores: the epilogue of a template's store, as a lambda:
 *
 *     [&](long row, long column, float sum) {
 *         h[row * 64 + column] = moec_silu(g[row * 64 + column]) * sum;
 *     }
 */
#include "codegen/emit.h"

/* The names of its parameters, which the template sets. */
typedef struct Given {
    const char *row, *column, *sum, *other;
} Given;

static void emit_members(Emitter *emitter, Kernel *epilogue) {
    for (int i = 0; i < epilogue->members.count; i++)
        lower_member(&emitter->lower, epilogue->members.items[i]);
}

static void give_dual(Emitter *emitter, Kernel *epilogue, const Statement *dual, const Term *sum) {
    for (int i = 1; i < epilogue->members.count; i++) {
        Member *member = epilogue->members.items[i];
        if (member->statement == dual) member_terms(&emitter->lower, member)->given = sum;
    }
}

static void emit_lines(Emitter *emitter, Kernel *epilogue, const Store *store, const Given *given) {
    Nest *loops[MAX_LOOPS];
    int count = 0, rows = store->rows;
    Member *first = epilogue->members.items[0];
    member_terms(&emitter->lower, first)->given = named(&emitter->lower, T_F32, given->sum);
    if (store->dual)
        give_dual(emitter, epilogue, store->dual, named(&emitter->lower, T_F32, given->other));
    for (Nest *nest = epilogue->root; !((Nest *)nest->children.items[0])->member; count++) {
        nest = loops[count] = nest->children.items[0];
        bind_loop(&emitter->lower, nest);
    }
    Nest *last = count ? loops[count - 1] : NULL;
    Lanes *lanes = store->width > 1 ? lanes_of_width(&emitter->lower, last, store->width) : NULL;
    const Term *variable = last ? nest_terms(&emitter->lower, last)->variable : NULL;
    if (lanes) nest_terms(&emitter->lower, last)->variable = lanes_from(lanes);
    lower_places(&emitter->lower, loops, rows, named(&emitter->lower, T_I64, given->row));
    lower_places(&emitter->lower, loops + rows, count - rows,
                 named(&emitter->lower, T_I64, given->column));
    if (lanes) nest_terms(&emitter->lower, last)->variable = variable;
    if (lanes) {
        member_terms(&emitter->lower, first)->given = term_element(
            emitter->lower.arena, named(&emitter->lower, T_F32, given->sum), lanes_number(lanes));
        lower_lanes(&emitter->lower, lanes, last, count - 1);
    } else {
        emit_members(emitter, epilogue);
    }
}

const char *store_text(Emitter *emitter, Kernel *epilogue, Store store, LoopKernel **loops) {
    int bindings = emitter->lower.binding_count;
    LoopKernel *made = *loops = arena_alloc(emitter->lower.arena, sizeof *made);
    made->indent = store.indent + 1;
    Given given = {bind_name(&emitter->lower, NULL, "row"),
                   bind_name(&emitter->lower, NULL, "column"),
                   bind_name(&emitter->lower, NULL, store.width > 1 ? "sums" : "sum"),
                   store.dual ? bind_name(&emitter->lower, NULL, "other") : NULL};
    emitter->lower.block = &made->form.block;
    emit_lines(emitter, epilogue, &store, &given);
    emitter->lower.in_template = true;
    add_loops(emitter, made, "store");
    emitter->lower.in_template = false;
    const char *sum = arena_format(emitter->lower.arena, "float %s", given.sum);
    if (store.width > 1)
        sum = arena_format(emitter->lower.arena, "const float (&%s)[%d]", given.sum, store.width);
    if (store.dual) sum = arena_format(emitter->lower.arena, "%s, float %s", sum, given.other);
    emitter->lower.binding_count = bindings;
    return arena_format(emitter->lower.arena, "[&](long %s, long %s, %s) {\n" LOOPS_HERE "%*s}",
                        given.row, given.column, sum, 4 * store.indent, "");
}

List end_stores(Emitter *emitter, int bindings) {
    List params = {0};
    add_params(emitter, &params);
    emitter->lower.kernel = NULL;
    emitter->lower.used = emitter->declared;
    emitter->lower.binding_count = bindings;
    return params;
}

Functor emit_functor(Emitter *emitter, Kernel *epilogue, int rows, int width) {
    int bindings = emitter->lower.binding_count;
    Functor functor = {0};
    begin_kernel(&emitter->lower, epilogue);
    functor.text = store_text(emitter, epilogue, (Store){rows, width, NULL, 1}, &functor.loops);
    functor.params = end_stores(emitter, bindings);
    return functor;
}

void emit_equations_above(Emitter *emitter, const Kernel *epilogue) {
    Text text = {.arena = emitter->lower.arena};
    List statements = {0};
    add_statements(text.arena, epilogue, NULL, &statements);
    print_equations(&text, &statements);
    function_text(emitter, "%s", text.text);
}
