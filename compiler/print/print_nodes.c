/* print_nodes: the lowered form as lines of C or CUDA, which have the same syntax; differences are
 * in the terms and hints of the lowering. */
#include "print/print.h"

/* `width` times `each` times the value of an operation without arguments. */
static const Term *own_of(Arena *arena, const FormNode *loop, TermOp op) {
    const Term *own = term(arena, op), *warp = term_whole(arena, 32);
    if (loop->by == BY_COLUMNS) own = term(arena, TERM_MUL, warp, own);
    if (loop->by == BY_COLUMN) own = term(arena, TERM_DIV, own, warp);
    return loop->width > 1 ? term(arena, TERM_MUL, term_whole(arena, loop->width), own) : own;
}

/* The first iteration of a thread or block, and the step to its next one. */
static const struct {
    TermOp first, step;
} bounds[] = {[BY_ALL] = {TERM_FIRST, TERM_STEP},
              [BY_BLOCKS] = {TERM_BLOCK, TERM_BLOCKS},
              [BY_COLUMNS] = {TERM_BLOCK, TERM_BLOCKS},
              [BY_THREADS] = {TERM_THREAD, TERM_THREADS},
              [BY_COLUMN] = {TERM_THREAD, TERM_THREADS}};

static const Term *first_of(Arena *arena, const FormNode *loop) {
    const Term *from = loop->values[0];
    if (loop->by == BY_ONE) return from;
    if (loop->by == BY_THE_FIRST)
        return term(arena, TERM_SELECT, first_thread(arena), from, loop->values[1]);
    const Term *own = own_of(arena, loop, bounds[loop->by].first);
    return term_is_zero(from) ? own : term(arena, TERM_ADD, from, own);
}

static const Term *step_of(Arena *arena, const FormNode *loop) {
    if (loop->by == BY_ONE || loop->by == BY_THE_FIRST) return loop->values[2];
    return own_of(arena, loop, bounds[loop->by].step);
}

static const char *for_text(Arena *arena, const FormNode *node) {
    const char *name = term_text(arena, node->name);
    const Term *by = step_of(arena, node);
    const Term *while_ = term(arena, TERM_LT, node->name, node->values[1]);
    if (node->values[3]) while_ = term(arena, TERM_AND, while_, node->values[3]);
    const char *step = by ? arena_format(arena, "%s += %s", name, term_text(arena, by))
                          : arena_format(arena, "%s++", name);
    return arena_format(arena, "for (%s %s = %s; %s; %s)", term_type_name(node->name->type), name,
                        term_text(arena, first_of(arena, node)), term_text(arena, while_), step);
}

/* Rounding, maximum and minimum are calls. */
static const char *set_text(Arena *arena, const FormNode *node) {
    const Term *target = node->values[0], *value = node->values[1];
    bool added = node->reduces == REDUCE_SUM;
    if (node->rounds)
        return arena_format(arena, "%s;", term_text(arena, term(arena, TERM_STORE, target, value)));
    if (node->reduces != REDUCE_NONE && !added)
        value = term(arena, term_op(node->reduces == REDUCE_MAX ? OP_MAX : OP_MIN, T_F32), target,
                     value);
    return arena_format(arena, "%s %s %s;", term_text(arena, target), added ? "+=" : "=",
                        term_text(arena, value));
}

/* Adds the outer variables of one reduction in a block: "max:a, b". */
static void add_joined(Text *text, const FormBlock *block, Reduction reduction, const char *sign) {
    for (const FormNode *node = block->first; node; node = node->next) {
        const Term *target = node->values[0];
        if (node->reduces == reduction && target->op == TERM_NAME && !form_declares(block, target))
            text_add(text, "%s%s%s", text->length ? ", " : sign, text->length ? "" : ":",
                     term_text(text->arena, target));
        add_joined(text, &node->body, reduction, sign);
    }
}

/* Prints the hint for the C compiler in the line before a loop. */
static void print_run(Text *text, const FormNode *node, int indent) {
    static const char *const signs[] = {"", "+", "max", "min"};
    Text line = {.arena = text->arena};
    if (node->run & RUN_UNROLLED) print_line(text, 0, "#pragma unroll");
    if (node->run & RUN_ROLLED) print_line(text, 0, "#pragma unroll 1");
    if (!(node->run & (RUN_PARALLEL | RUN_VECTOR))) return;
    text_add(&line, "MOEC_OMP(%s%s%s%s", node->run & RUN_PARALLEL ? "parallel for" : "",
             node->run == (RUN_PARALLEL | RUN_VECTOR) ? " " : "",
             node->run & RUN_VECTOR ? "simd" : "",
             node->run & RUN_PARALLEL ? " schedule(static)" : "");
    if (node->alone)
        text_add(&line, " if(%s > %ld)", term_text(text->arena, node->values[1]), node->alone);
    for (int i = REDUCE_SUM; i <= REDUCE_MIN && node->run & RUN_VECTOR; i++) {
        Text joined = {.arena = text->arena};
        add_joined(&joined, &node->body, (Reduction)i, signs[i]);
        if (joined.length) text_add(&line, " reduction(%s)", joined.text);
    }
    text_add(&line, ")");
    print_line(text, indent, line.text);
}

/* With the lets in the same declaration. Rows in shared memory are read 16 bytes at a time. */
const char *let_text(Arena *arena, const FormNode *node) {
    Text text = {.arena = arena};
    text_add(&text, "%s%s%s%s", node->shared ? "__shared__ " : "",
             node->shared && node->head ? "__align__(16) " : "", node->constant ? "const " : "",
             term_type_name(node->name->type));
    for (const char *sign = " "; node; sign = ", ") {
        text_add(&text, "%s%s", sign, declared_text(arena, node));
        if (node->values[0]) text_add(&text, " = %s", term_text(arena, node->values[0]));
        node = node->next && node->next->joined ? node->next : NULL;
    }
    text_add(&text, ";");
    return text.text;
}

/* The line of a node, without its body. */
static const char *node_text(Arena *arena, const FormNode *node) {
    switch (node->kind) {
    case FORM_FOR:
        return for_text(arena, node);
    case FORM_LET:
        return let_text(arena, node);
    case FORM_SET:
        return set_text(arena, node);
    case FORM_IF:
        return arena_format(arena, "if (%s)", term_text(arena, node->values[0]));
    case FORM_SCOPE:
    case FORM_GROUP:
        return "{";
    case FORM_BARRIER:
        return "moec_barrier();";
    case FORM_DO:
        return arena_format(arena, "%s;", term_text(arena, node->values[0]));
    }
    return "";
}

static void print_node(Text *text, const FormNode *node, int indent) {
    Arena *arena = text->arena;
    const char *line = node_text(arena, node);
    bool opens = node->body.first || node->kind == FORM_FOR || node->kind == FORM_IF;
    if (node->kind == FORM_FOR) print_run(text, node, indent);
    if (!opens) {
        print_line(text, indent, line);
    } else if (node->kind == FORM_SCOPE) {
        print_line(text, indent, "{");
        print_block(text, &node->body, indent + 1);
        print_line(text, indent, "}");
    } else if (node->layout == ON_SAME_LINE) {
        print_line(text, indent,
                   arena_format(arena, "%s %s", line, node_text(arena, node->body.first)));
    } else {
        bool braces = node->layout == IN_BRACES;
        print_line(text, indent, braces ? arena_format(arena, "%s {", line) : line);
        print_block(text, &node->body, indent + 1);
        if (braces) print_line(text, indent, "}");
    }
}

void print_block(Text *text, const FormBlock *block, int indent) {
    for (const FormNode *node = block->first; node; node = node->next)
        if (!node->joined) print_node(text, node, indent);
}
