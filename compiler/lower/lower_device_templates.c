/* lower_device_templates: templates with their arguments, kernels that call them, and their stores.
 *
 *     [&](long row, long column, float sum) {
 *         h[row * 64 + column] = moec_silu(g[row * 64 + column]) * sum;
 *     }
 */
#include "lower/lower_entry.h"

#include <stdarg.h>

/* ---- kernels ---- */

const TemplateInstance *template_of(Arena *arena, const char *name, const char *kinds, ...) {
    TemplateInstance *made = arena_alloc(arena, sizeof *made);
    made->name = name;
    va_list arguments;
    va_start(arguments, kinds);
    for (const char *c = kinds; *c; c++) {
        TemplateArgument *argument = arena_alloc(arena, sizeof *argument);
        if (*c == 'n') argument->value = term_whole(arena, va_arg(arguments, long));
        if (*c == 'b') argument->value = term_number(arena, T_BOOL, va_arg(arguments, int));
        if (*c == 'c') argument->template = va_arg(arguments, const TemplateInstance *);
        if (*c == 't') argument->type = element_type(va_arg(arguments, const Tensor *));
        list_push(arena, &made->arguments, argument);
    }
    va_end(arguments);
    return made;
}

TemplateKernel *add_template_kernel(EntryLowering *lowering, TemplateKernel kernel) {
    Arena *arena = lowering->lower.arena;
    TemplateKernel *added = arena_alloc(arena, sizeof *added);
    *added = kernel;
    add_section(arena, &lowering->module->device, (Section){.template = added});
    end_piece(lowering->module, kernel.name);
    return added;
}

void add_variant(Arena *arena, TemplateKernel *kernel, TemplateVariant variant) {
    list_copy(arena, &kernel->variants, &variant, sizeof variant);
}

void add_template_call(Arena *arena, TemplateVariant *variant, TemplateCall call) {
    list_copy(arena, &variant->calls, &call, sizeof call);
}

void add_template_argument(Arena *arena, List *arguments, const Term *argument) {
    list_push(arena, arguments, (void *)(uintptr_t)argument);
}

/* The parameters as arguments of the template. */
void add_params_as_arguments(Arena *arena, const List *params, List *arguments) {
    LIST_EACH(const Param, param, params)
        add_template_argument(arena, arguments, term_name(arena, param->type, param->name));
}

/* ---- stores ---- */

static void lower_members(EntryLowering *lowering, const Kernel *epilogue) {
    for (int i = 0; i < epilogue->members.count; i++)
        lower_member(&lowering->lower, epilogue->members.items[i]);
}

static void give_dual(EntryLowering *lowering, Kernel *epilogue, const Statement *dual,
                      const Term *sum) {
    for (int i = 1; i < epilogue->members.count; i++) {
        Member *member = epilogue->members.items[i];
        if (member->statement == dual) member_terms(&lowering->lower, member)->given = sum;
    }
}

/* The loops of the kernel, all of which are bound; returns their number. */
static int bind_loops(EntryLowering *lowering, const Kernel *kernel, Nest **loops) {
    int count = 0;
    for (Nest *nest = kernel->root; !((Nest *)nest->children.items[0])->member; count++) {
        nest = loops[count] = nest->children.items[0];
        bind_loop(&lowering->lower, nest);
    }
    return count;
}

static void lower_store_lines(EntryLowering *lowering, Kernel *epilogue, int rows,
                              const TemplateStore *store) {
    Nest *loops[MAX_LOOPS];
    Member *first = epilogue->members.items[0];
    member_terms(&lowering->lower, first)->given = store->sum;
    const int count = bind_loops(lowering, epilogue, loops);
    Nest *last = count ? loops[count - 1] : NULL;
    Lanes *lanes = lanes_of(&lowering->lower, last, store->width);
    const Term *variable = last ? nest_terms(&lowering->lower, last)->variable : NULL;
    if (lanes) nest_terms(&lowering->lower, last)->variable = lanes_from(lanes);
    lower_places(&lowering->lower, loops, rows, store->row);
    lower_places(&lowering->lower, loops + rows, count - rows, store->column);
    if (lanes) nest_terms(&lowering->lower, last)->variable = variable;
    if (lanes) {
        member_terms(&lowering->lower, first)->given =
            term_element(lowering->lower.arena, store->sum, lanes_number(lanes));
        lower_lanes(&lowering->lower, lanes, last, count - 1);
    } else {
        lower_members(lowering, epilogue);
    }
}

/* A parameter of a store. */
static const Term *given(EntryLowering *lowering, TermType type, const char *wanted) {
    return named(&lowering->lower, type, bind_name(&lowering->lower, NULL, wanted));
}

/* A function of a row and a column, which receives nodes. */
static TemplateStore *begin_function(EntryLowering *lowering) {
    TemplateStore *store = arena_alloc(lowering->lower.arena, sizeof *store);
    store->loops = arena_alloc(lowering->lower.arena, sizeof *store->loops);
    store->width = 1;
    store->row = given(lowering, T_I64, "row");
    store->column = given(lowering, T_I64, "column");
    lowering->lower.block = &store->loops->form.block;
    return store;
}

static void end_function(EntryLowering *lowering, const TemplateStore *store, int bindings) {
    lowering->lower.in_template = true;
    add_loops(lowering, store->loops, "store");
    lowering->lower.in_template = false;
    lowering->lower.binding_count = bindings;
}

TemplateStore *add_store(EntryLowering *lowering, Kernel *epilogue, int rows, int width,
                         const Statement *dual) {
    int bindings = lowering->lower.binding_count;
    TemplateStore *store = begin_function(lowering);
    store->width = width;
    store->sum = given(lowering, T_F32, width > 1 ? "sums" : "sum");
    if (dual) {
        store->other = given(lowering, T_F32, "other");
        give_dual(lowering, epilogue, dual, store->other);
    }
    lower_store_lines(lowering, epilogue, rows, store);
    end_function(lowering, store, bindings);
    return store;
}

TemplateStore *add_element(EntryLowering *lowering, const Kernel *kernel, int rows, bool returns) {
    Lowering *lower = &lowering->lower;
    int bindings = lower->binding_count;
    Nest *loops[MAX_LOOPS];
    Member *last = kernel->members.items[kernel->members.count - 1];
    Local *local;
    TemplateStore *store = begin_function(lowering);
    const int count = bind_loops(lowering, kernel, loops);
    for (int i = 0; i < lower->kernel->locals.count; i++) lower->known[i] = false;
    lower_places(lower, loops, rows, store->row);
    lower_places(lower, loops + rows, count - rows, store->column);
    lower_members(lowering, kernel);
    if (returns) store->result = scalar_of(lower, last, &local);
    end_function(lowering, store, bindings);
    return store;
}

void end_stores(EntryLowering *lowering, List *params, int bindings) {
    add_params(lowering, params);
    lowering->lower.kernel = NULL;
    lowering->lower.used = lowering->declared;
    lowering->lower.binding_count = bindings;
}

TemplateStore *store_of(EntryLowering *lowering, Kernel *epilogue, int rows, int width,
                        List *params) {
    int bindings = lowering->lower.binding_count;
    begin_kernel(&lowering->lower, epilogue);
    TemplateStore *store = add_store(lowering, epilogue, rows, width, NULL);
    end_stores(lowering, params, bindings);
    return store;
}

TemplateStore *plain_store(EntryLowering *lowering, const char *object, const Expr *target,
                           const Term *first, const Term *second) {
    Arena *arena = lowering->lower.arena;
    TemplateStore *store = arena_alloc(arena, sizeof *store);
    store->object = template_of(arena, object, "t", target->tensor);
    add_template_argument(arena, &store->fields, first);
    add_template_argument(arena, &store->fields, second);
    return store;
}

TemplateStore *no_store(Arena *arena, const char *object) {
    TemplateStore *store = arena_alloc(arena, sizeof *store);
    store->object = template_of(arena, object, "");
    return store;
}
