/* form: terms and nodes of the lowered form, and queries about them. */
#include "loop/form.h"

#include <stdarg.h>
#include <string.h>

/* ---- terms ---- */

const char term_element[] = "$0[$1]", term_sum[] = "$0 + $1", term_product[] = "$0 * $1";
const char term_guarded[] = "$0 ? $1 : 0.0f", term_truth[] = "$0 ? 1.0f : 0.0f";

static Term *term_new(Arena *arena, TermKind kind, const char *text) {
    Term *made = arena_alloc(arena, sizeof *made);
    made->kind = kind;
    made->text = text;
    made->level = kind == TERM_NUMBER && text[0] == '-' ? LEVEL_PREFIX : LEVEL_WHOLE;
    return made;
}

const Term *term_name(Arena *arena, const char *name) {
    return term_new(arena, TERM_NAME, name);
}

const Term *term_variable_of(Arena *arena, const Term *base, const char *ending) {
    Term *made = term_new(arena, TERM_NAME, "");
    made->variable = arena_alloc(arena, sizeof *made->variable);
    made->variable->wanted =
        base && !base->variable ? arena_format(arena, "%s%s", base->text, ending) : ending;
    made->variable->base = base ? base->variable : NULL;
    return made;
}

const Term *term_variable(Arena *arena, const char *wanted) {
    return term_variable_of(arena, NULL, wanted);
}

const Term *term_number(Arena *arena, const char *text) {
    return term_new(arena, TERM_NUMBER, text);
}

const Term *term_whole(Arena *arena, long number) {
    return term_number(arena, arena_format(arena, "%ld", number));
}

const Term *term_constant(Arena *arena, long number, const char *name) {
    Term *made = term_new(arena, TERM_NUMBER, arena_format(arena, "%ld", number));
    made->constant = name;
    return made;
}

/* Operators with their surrounding spaces, by precedence. */
static const struct {
    const char *sign;
    TermLevel level;
} operators[] = {
    {"?", LEVEL_CHOICE}, {":", LEVEL_CHOICE},  {"||", LEVEL_EITHER}, {"&&", LEVEL_BOTH},
    {"&", LEVEL_BITS},   {"==", LEVEL_EQUAL},  {"!=", LEVEL_EQUAL},  {"<", LEVEL_LESS},
    {"<=", LEVEL_LESS},  {">", LEVEL_LESS},    {">=", LEVEL_LESS},   {"+", LEVEL_ADDED},
    {"-", LEVEL_ADDED},  {"*", LEVEL_FACTORS}, {"/", LEVEL_FACTORS}, {"%", LEVEL_FACTORS},
};

/* The operator that starts at `at` and ends with a space; LEVEL_WHOLE if there is none. */
static TermLevel operator_at(const char *at) {
    size_t length = strcspn(at, " ");
    for (size_t i = 0; at[length] && i < sizeof operators / sizeof *operators; i++)
        if (strlen(operators[i].sign) == length && strncmp(operators[i].sign, at, length) == 0)
            return operators[i].level;
    return LEVEL_WHOLE;
}

/* The operator with the lowest precedence outside of brackets. */
static TermLevel level_of(const char *spelling) {
    TermLevel level = strchr("-(&", spelling[0]) && spelling[1] ? LEVEL_PREFIX : LEVEL_WHOLE;
    int depth = 0;
    for (const char *c = spelling; *c; c++) {
        depth += (*c == '(' || *c == '[') - (*c == ')' || *c == ']');
        TermLevel here = depth == 0 && *c == ' ' ? operator_at(c + 1) : LEVEL_WHOLE;
        if (here < level) level = here;
    }
    return level;
}

const Term *term(Arena *arena, const char *spelling, ...) {
    Term *made = term_new(arena, TERM_APPLY, spelling);
    for (const char *c = spelling; *c; c++)
        if (c[0] == '$' && c[1] - '0' >= made->count) made->count = c[1] - '0' + 1;
    va_list arguments;
    va_start(arguments, spelling);
    for (int i = 0; i < made->count; i++) made->args[i] = va_arg(arguments, const Term *);
    va_end(arguments);
    if (strcmp(spelling, "$0") == 0) return made->args[0]; /* has the precedence of its argument */
    made->level = level_of(spelling);
    return made;
}

bool term_equal(const Term *a, const Term *b) {
    if (a == b) return true;
    if (a->variable || b->variable) return a->variable == b->variable;
    if (a->kind != b->kind || a->count != b->count || strcmp(a->text, b->text) != 0) return false;
    for (int i = 0; i < a->count; i++)
        if (!term_equal(a->args[i], b->args[i])) return false;
    return true;
}

static bool is_number(const Term *term, const char *text) {
    return term->kind == TERM_NUMBER && strcmp(term->text, text) == 0;
}

bool term_is_zero(const Term *term) {
    return is_number(term, "0");
}

bool term_uses(const Term *term, const Term *name) {
    if (term->kind == TERM_NAME) return term_equal(term, name);
    for (int i = 0; i < term->count; i++)
        if (term_uses(term->args[i], name)) return true;
    return false;
}

const Term *term_invariant(Arena *arena, const Term *term, TermInvariant invariant,
                           const char *type, const char *of) {
    if (term->kind != TERM_APPLY) return term;
    Term *made = arena_alloc(arena, sizeof *made);
    *made = *term;
    made->invariant = invariant;
    made->type = type;
    made->of = of;
    return made;
}

const Term *term_value(Arena *arena, const Term *term, TermValue value, const char *of) {
    if (term->kind != TERM_APPLY) return term;
    Term *made = arena_alloc(arena, sizeof *made);
    *made = *term;
    made->value = value;
    if (!made->of) made->of = of;
    return made;
}

const Term *term_replace(Arena *arena, const Term *term, const Term *part, const Term *by) {
    if (term_equal(term, part)) return by;
    Term *made = NULL;
    for (int i = 0; i < term->count; i++) {
        const Term *arg = term_replace(arena, term->args[i], part, by);
        if (arg == term->args[i]) continue;
        if (!made) {
            made = arena_alloc(arena, sizeof *made);
            *made = *term;
        }
        made->args[i] = arg;
    }
    return made ? made : term;
}

const Term *term_stored(const Term *place) {
    while (place->kind == TERM_APPLY && place->count) place = place->args[0];
    return place;
}

int term_count(const Term *term, const Term *part) {
    if (term_equal(term, part)) return 1;
    int count = 0;
    for (const char *c = term->text; term->count && *c; c++)
        if (*c == '$') count += term_count(term->args[*++c - '0'], part);
    return count;
}

int term_operations(const Term *term) {
    int count = term->kind == TERM_APPLY;
    for (int i = 0; i < term->count; i++) count += term_operations(term->args[i]);
    return count;
}

const Term *term_offset(Arena *arena, const Term *a, const Term *size, const Term *b) {
    bool none = term_is_zero(b);
    if (term_is_zero(a)) return b;
    if (is_number(size, "1")) return none ? a : term(arena, term_sum, a, b);
    const Term *scaled = term(arena, term_product, a, size);
    return none ? scaled : term(arena, term_sum, scaled, b);
}

/* The precedence that an operand needs to stay without parentheses: on the left that of the
 * operator, on the right a higher one. "a + b & c" and "a && b || c" get parentheses for
 * readability. */
static TermLevel needed_by(TermLevel level, bool right) {
    if (level == LEVEL_BITS) return LEVEL_PREFIX;
    if (level == LEVEL_EITHER) return LEVEL_BITS;
    if (level == LEVEL_EQUAL) return LEVEL_ADDED; /* compilers warn about a < b == c */
    bool chains = level == LEVEL_BOTH || level == LEVEL_ADDED || level == LEVEL_FACTORS;
    return chains && !right ? level : level + 1;
}

/* The same for the operand at `at` in a spelling; no requirement between brackets and commas. */
static TermLevel level_at(const char *spelling, const char *at) {
    TermLevel left = LEVEL_LOOSE, right = LEVEL_LOOSE;
    const char *from = at > spelling ? at - 1 : "";
    if (*from && strchr("&!)", *from)) left = LEVEL_PREFIX;
    if (*from == '-') left = LEVEL_WHOLE; /* avoid two adjacent signs */
    if (*from == ' ') {
        while (from > spelling && from[-1] != ' ') from--;
        TermLevel before = operator_at(from);
        if (before != LEVEL_WHOLE) left = needed_by(before, true);
    }
    if (at[2] == '[') right = LEVEL_WHOLE;
    if (at[2] == ' ') {
        TermLevel behind = operator_at(at + 3);
        if (behind != LEVEL_WHOLE) right = needed_by(behind, false);
    }
    return left > right ? left : right;
}

/* The text of a term without operands. */
static const char *spelling_of(const Term *term) {
    if (term->variable) return term->variable->name;
    return term->constant ? term->constant : term->text;
}

static void add_term(Text *text, const Term *term) {
    const char *from = spelling_of(term), *c = from;
    for (; *c; c++) {
        if (*c != '$' || !term->count) continue;
        const Term *inner = term->args[c[1] - '0'];
        bool parentheses = inner->level < level_at(term->text, c);
        text_add_bytes(text, from, (size_t)(c - from));
        if (parentheses) text_add_bytes(text, "(", 1);
        add_term(text, inner);
        if (parentheses) text_add_bytes(text, ")", 1);
        from = ++c + 1;
    }
    text_add_bytes(text, from, (size_t)(c - from));
}

const char *term_text(Arena *arena, const Term *term) {
    Text text = {.arena = arena};
    if (term->kind != TERM_APPLY) return spelling_of(term);
    add_term(&text, term);
    return text.length ? text.text : "";
}

/* ---- nodes ---- */

FormNode *form_add(Arena *arena, FormBlock *block, FormKind kind) {
    FormNode *node = arena_alloc(arena, sizeof *node);
    node->kind = kind;
    node->body.outer = block;
    if (block->last)
        block->last->next = node;
    else
        block->first = node;
    block->last = node;
    return node;
}

FormNode *form_add_loop(Arena *arena, FormBlock *block, const char *name, long count) {
    FormNode *loop = form_add(arena, block, FORM_FOR);
    loop->type = "long";
    loop->name = term_name(arena, name);
    loop->values[0] = term_whole(arena, 0);
    loop->values[1] = term_whole(arena, count);
    return loop;
}

FormNode *form_insert(Arena *arena, FormBlock *block, FormNode *before, FormKind kind) {
    FormBlock rest = {.first = before ? before->next : block->first, .last = block->last};
    if (before) before->next = NULL;
    block->last = before;
    if (!before) block->first = NULL;
    FormNode *node = form_add(arena, block, kind);
    node->next = rest.first;
    if (rest.first) block->last = rest.last;
    return node;
}

void form_replace(Arena *arena, FormNode *first, const Term *part, const Term *by) {
    for (FormNode *node = first; node; node = node->next) {
        for (int i = 0; i < 3; i++)
            if (node->values[i]) node->values[i] = term_replace(arena, node->values[i], part, by);
        form_replace(arena, node->body.first, part, by);
    }
}

void form_rename(Arena *arena, FormNode *first, const Term *name, const Term *by) {
    form_replace(arena, first, name, by);
    for (FormNode *node = first; node; node = node->next) {
        if (node->name && term_equal(node->name, name)) node->name = by;
        form_rename(arena, node->body.first, name, by);
    }
}

FormBlock form_copy(Arena *arena, const FormBlock *block) {
    FormBlock copy = {0};
    for (const FormNode *node = block->first; node; node = node->next) {
        FormNode *made = form_add(arena, &copy, node->kind);
        *made = *node;
        made->body = form_copy(arena, &node->body);
        made->next = NULL;
    }
    return copy;
}

void form_append(FormBlock *block, FormBlock *body) {
    if (!body->first) return;
    if (block->last)
        block->last->next = body->first;
    else
        block->first = body->first;
    block->last = body->last;
    *body = (FormBlock){.outer = body->outer};
}

bool form_has(const FormBlock *block, bool (*wanted)(const FormNode *node)) {
    for (const FormNode *node = block->first; node; node = node->next)
        if (wanted(node) || form_has(&node->body, wanted)) return true;
    return false;
}

bool form_is_loop(const FormNode *node) {
    return node->kind == FORM_FOR;
}

bool form_uses(const FormBlock *block, const Term *name) {
    for (const FormNode *node = block->first; node; node = node->next) {
        for (int i = 0; i < 3; i++)
            if (node->values[i] && term_uses(node->values[i], name)) return true;
        if (form_uses(&node->body, name)) return true;
    }
    return false;
}

bool form_declares(const FormBlock *block, const Term *name) {
    for (const FormNode *node = block->first; node; node = node->next)
        if (node->kind == FORM_LET && term_equal(node->name, name)) return true;
    return false;
}
