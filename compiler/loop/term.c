/* term: creation, comparison, replacement and printing of terms. */
#include "loop/term.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

/* ---- the table ---- */

/* Rules for the type of a value: see term.def. */
typedef enum TermResult { T_FIRST = TERM_TYPES, T_WIDEST, T_CHOSEN, T_ANY } TermResult;

typedef struct TermRow {
    const char *arguments;
    int result; /* TermType or TermResult */
    TermLevel level, first, rest;
    const char *text;
} TermRow;

static const TermRow rows[] = {
#define TERM(name, arguments, result, level, first, rest, text)                                    \
    [TERM_##name] = {arguments, T_##result, LEVEL_##level, LEVEL_##first, LEVEL_##rest, text},
#include "loop/term.def"
#undef TERM
};

/* The definition of an operation in double precision as a call or as an expression, in which
 * operands with an operator get parentheses. */
static TermRow double_row(const OpRow *op) {
    TermRow row = {&"ddd"[3 - op->arity], T_F64, LEVEL_WHOLE, LEVEL_LOOSE, LEVEL_LOOSE, NULL};
    if (!strpbrk(op->value, "+-*/<>=!&|?")) return row;
    row.level = op->whole == WHOLE_ALWAYS ? LEVEL_PREFIX : LEVEL_LOOSE;
    row.first = row.rest = strpbrk(op->value, "+-*/") ? LEVEL_WHOLE : LEVEL_ADDED;
    return row;
}

static TermRow row_of(TermOp op) {
    if (op < TERM_REAL) return rows[op];
    const OpCode code = (OpCode)((op - TERM_REAL) % OP_COUNT);
    const OpRow *row = &op_table[code];
    if (op >= TERM_DOUBLE) return double_row(row);
    return (TermRow){op_is_random(code) ? "ii" : &"fff"[3 - row->arity],
                     T_F32,
                     LEVEL_WHOLE,
                     LEVEL_LOOSE,
                     LEVEL_LOOSE,
                     row -> c};
}

TermOp term_op(OpCode op, TermType type) {
    static const TermOp arithmetic[OP_COUNT] = {[OP_ADD] = TERM_ADD,
                                                [OP_SUB] = TERM_SUB,
                                                [OP_MUL] = TERM_MUL,
                                                [OP_DIV] = TERM_DIV,
                                                [OP_NEG] = TERM_NEG};
    static const TermOp of_integers[OP_COUNT] = {
        [OP_EQ] = TERM_EQ,     [OP_NE] = TERM_NE,        [OP_LT] = TERM_LT,
        [OP_LE] = TERM_LE,     [OP_GT] = TERM_GT,        [OP_GE] = TERM_GE,
        [OP_AND] = TERM_AND,   [OP_OR] = TERM_OR,        [OP_SIGN] = TERM_SIGN,
        [OP_MIN] = TERM_LEAST, [OP_MAX] = TERM_GREATEST, [OP_WHERE] = TERM_SELECT};
    if (arithmetic[op]) return arithmetic[op];
    if (type == T_I64) return of_integers[op];
    return (TermOp)((type == T_F64 ? TERM_DOUBLE : TERM_REAL) + (int)op);
}

/* ---- creation ---- */

static Term *term_new(Arena *arena, TermOp op, TermType type, int count) {
    Term *made = arena_alloc(arena, sizeof *made + (size_t)count * sizeof *made->args);
    made->op = op;
    made->type = type;
    made->count = count;
    return made;
}

static Term *term_copy(Arena *arena, const Term *term) {
    const size_t bytes = sizeof *term + (size_t)term->count * sizeof *term->args;
    return memcpy(arena_alloc(arena, bytes), term, bytes);
}

static const Term *variable_new(Arena *arena, Variable variable) {
    Term *made = term_new(arena, TERM_NAME, variable.type, 0);
    made->variable = arena_alloc(arena, sizeof *made->variable);
    *made->variable = variable;
    return made;
}

const Term *term_name(Arena *arena, TermType type, const char *name) {
    return variable_new(arena, (Variable){.name = name, .type = type});
}

const Term *term_variable(Arena *arena, TermType type, const char *wanted) {
    return variable_new(arena, (Variable){.wanted = wanted, .type = type});
}

const Term *term_variable_of(Arena *arena, const Term *base, const char *ending) {
    Variable made = {.wanted = ending, .base = base->variable, .type = base->type};
    return variable_new(arena, made);
}

const Term *term_constant(Arena *arena, long number, const char *name) {
    Term *made = term_new(arena, TERM_NUMBER, T_I64, 0);
    made->whole = number;
    made->constant = name;
    return made;
}

const Term *term_whole(Arena *arena, long number) {
    return term_constant(arena, number, NULL);
}

const Term *term_number(Arena *arena, TermType type, double number) {
    Term *made = term_new(arena, TERM_NUMBER, type, 0);
    if (type >= T_BF16)
        made->real = number;
    else
        made->whole = (long)number;
    return made;
}

static TermType result_of(const TermRow *row, const Term *made) {
    if (row->result == T_FIRST) return made->args[0]->type;
    if (row->result < TERM_TYPES) return (TermType)row->result;
    TermType type = T_NONE;
    for (int i = row->result == T_CHOSEN; i < made->count; i++)
        if (made->args[i]->type > type) type = made->args[i]->type;
    return type;
}

const Term *term(Arena *arena, TermOp op, ...) {
    const TermRow row = row_of(op);
    Term *made = term_new(arena, op, T_NONE, (int)strlen(row.arguments));
    va_list arguments;
    va_start(arguments, op);
    for (int i = 0; i < made->count; i++) made->args[i] = va_arg(arguments, const Term *);
    va_end(arguments);
    made->type = result_of(&row, made);
    return made;
}

const Term *term_cast(Arena *arena, TermType type, const Term *value) {
    Term *made = term_new(arena, TERM_CAST, type, 1);
    made->args[0] = value;
    return made;
}

const Term *term_element(Arena *arena, const Term *array, const Term *subscript) {
    return term(arena, TERM_ELEMENT, array, subscript);
}

const Term *term_invariant(Arena *arena, const Term *term, TermInvariant invariant) {
    if (!term->count) return term;
    Term *made = term_copy(arena, term);
    made->invariant = invariant;
    return made;
}

const Term *term_value(Arena *arena, const Term *term, TermValue value) {
    if (!term->count) return term;
    Term *made = term_copy(arena, term);
    made->value = value;
    return made;
}

const Term *term_offset(Arena *arena, const Term *a, const Term *size, const Term *b) {
    bool none = term_is_zero(b);
    if (term_is_zero(a)) return b;
    bool once = size->op == TERM_NUMBER && size->whole == 1;
    const Term *scaled = once ? a : term(arena, TERM_MUL, a, size);
    return none ? scaled : term(arena, TERM_ADD, scaled, b);
}

const Term *first_thread(Arena *arena) {
    return term(arena, TERM_EQ, term(arena, TERM_THREAD), term_whole(arena, 0));
}

/* ---- queries ---- */

bool term_equal(const Term *a, const Term *b) {
    if (a == b) return true;
    if (a->op != b->op || a->type != b->type || a->count != b->count) return false;
    if (a->op == TERM_NAME) return a->variable == b->variable;
    if (a->op == TERM_NUMBER) return memcmp(&a->real, &b->real, sizeof a->real) == 0;
    for (int i = 0; i < a->count; i++)
        if (!term_equal(a->args[i], b->args[i])) return false;
    return true;
}

bool term_is_zero(const Term *term) {
    return term->op == TERM_NUMBER && term->type < T_BF16 && term->whole == 0;
}

bool term_uses(const Term *term, const Term *name) {
    if (term->op == TERM_NAME) return term_equal(term, name);
    for (int i = 0; i < term->count; i++)
        if (term_uses(term->args[i], name)) return true;
    return false;
}

/* The tensor of an element that is converted, or read under a condition; or NULL. */
static const Tensor *tensor_read(const Term *term) {
    if (term->op == TERM_ELEMENT) return term->args[0]->variable->tensor;
    if (term->op == TERM_CAST || term->op == TERM_LOAD) return tensor_read(term->args[0]);
    bool guarded = term->op == TERM_GUARDED || (term->op == TERM_SELECT && term->type == T_F32);
    return guarded ? tensor_read(term->args[1]) : NULL;
}

const char *term_wanted(Arena *arena, const Term *term, const char *otherwise) {
    const Tensor *tensor = tensor_read(term);
    return tensor ? arena_format(arena, "%s_at", tensor->name) : otherwise;
}

const Term *term_stored(const Term *place) {
    while (place->count) place = place->args[0];
    return place;
}

int term_count(const Term *term, const Term *part) {
    if (term_equal(term, part)) return 1;
    const char *text = row_of(term->op).text;
    int count = 0;
    for (const char *c = text ? text : ""; *c; c++)
        if (c[0] == '$' && c[1] != 't') count += term_count(term->args[c[1] - '0'], part);
    return count;
}

int term_operations(const Term *term) {
    int count = term->count > 0;
    for (int i = 0; i < term->count; i++) count += term_operations(term->args[i]);
    return count;
}

const Term *term_replace(Arena *arena, const Term *term, const Term *part, const Term *by) {
    if (term_equal(term, part)) return by;
    Term *made = NULL;
    for (int i = 0; i < term->count; i++) {
        const Term *arg = term_replace(arena, term->args[i], part, by);
        if (arg == term->args[i]) continue;
        if (!made) made = term_copy(arena, term);
        made->args[i] = arg;
    }
    return made ? made : term;
}

/* ---- checking ---- */

/* The kind of a value: see term.def. */
static char kind_of(TermType type) {
    return type == T_F32 ? 'f' : type == T_F64 ? 'd' : type < T_BF16 && type != T_NONE ? 'i' : 0;
}

static bool is_address(const Term *term) {
    return term->op == TERM_NAME || term->op == TERM_ELEMENT || term->op == TERM_ADDRESS;
}

bool term_fits(const Term *term) {
    const TermRow row = row_of(term->op);
    char number = 0;
    if (row.result != T_ANY && term->type != result_of(&row, term)) return false;
    for (int i = 0; i < term->count; i++) {
        char wanted = row.arguments[i], kind = kind_of(term->args[i]->type);
        if (wanted == 'n' && !number) number = kind;
        if (wanted == 'n') wanted = number;
        if (wanted == 'a' ? !is_address(term->args[i]) : wanted != 'v' && wanted != kind)
            return false;
    }
    return true;
}

bool term_is_integer(const Term *term) {
    return kind_of(term->type) == 'i';
}

bool term_may_hold(const Term *target, const Term *value) {
    if (target->op != TERM_NAME && target->op != TERM_ELEMENT) return false;
    /* these are rounded when they are stored */
    bool rounds = (target->type >= T_BF16 && target->type <= T_E5M2) || target->type == T_I8;
    return kind_of(value->type) == (rounds ? 'f' : kind_of(target->type));
}

/* ---- printing ---- */

const char *term_type_name(TermType type) {
    static const char *const names[] = {
        [T_NONE] = "void",      [T_BOOL] = "bool",           [T_I8] = "signed char",
        [T_INT] = "int",        [T_I32] = "int32_t",         [T_U32] = "unsigned",
        [T_I64] = "long",       [T_U64] = "uint64_t",        [T_BF16] = "MoecBf16",
        [T_F32] = "float",      [T_F64] = "double",          [T_GROUP] = "MoecGroup",
        [T_INT4] = "MoecInt4",  [T_TERNARY] = "MoecTernary", [T_E4M3] = "MoecE4M3",
        [T_E5M2] = "MoecE5M2",  [T_FP8] = "MoecFp8",         [T_MXFP4] = "MoecMxfp4",
        [T_NVFP4] = "MoecNvfp4"};
    return names[type];
}

TermType element_type(const Tensor *tensor) {
    static const TermType types[] = {
        [TYPE_REAL] = T_F32,    [TYPE_INT] = T_I32,         [TYPE_BF16] = T_BF16,
        [TYPE_INT8] = T_GROUP,  [TYPE_INT4] = T_INT4,       [TYPE_DOUBLE] = T_F64,
        [TYPE_BYTE] = T_I8,     [TYPE_TERNARY] = T_TERNARY, [TYPE_E4M3] = T_E4M3,
        [TYPE_E5M2] = T_E5M2,   [TYPE_FP8] = T_FP8,         [TYPE_MXFP8] = T_FP8,
        [TYPE_MXFP4] = T_MXFP4, [TYPE_NVFP4] = T_NVFP4};
    return types[tensor->type];
}

const char *type_name(const Tensor *tensor) {
    return term_type_name(element_type(tensor));
}

/* With a decimal point in every locale, and `ending` after an integer. */
static const char *digits_of(Arena *arena, double number, int digits, const char *ending) {
    char *text = arena_format(arena, "%.*g", digits, number);
    for (char *c = text; *c; c++)
        if (*c == ',') *c = '.';
    return strpbrk(text, ".e") ? text : arena_format(arena, "%s%s", text, ending);
}

const char *number_text(Arena *arena, double number) {
    if (isnan(number)) return "NAN";
    if (isinf(number) || fabs(number) > 3.4e38) return number < 0 ? "-INFINITY" : "INFINITY";
    return arena_format(arena, "%sf", digits_of(arena, number, 9, ".0"));
}

static const char *leaf_text(Arena *arena, const Term *term) {
    const Variable *variable = term->variable;
    if (term->op == TERM_NAME) return variable->name ? variable->name : variable->wanted;
    if (term->op != TERM_NUMBER) return row_of(term->op).text;
    if (term->constant) return term->constant;
    if (term->type == T_BOOL) return term->whole ? "true" : "false";
    if (term->type < T_BF16)
        return arena_format(arena, term->type == T_U32 ? "%ldu" : "%ld", term->whole);
    if (term->type == T_F64 && isfinite(term->real)) return digits_of(arena, term->real, 17, ".0");
    return number_text(arena, term->real);
}

static TermLevel level_of(const Term *term) {
    if (term->op != TERM_NUMBER) return row_of(term->op).level;
    bool negative =
        term->type < T_BF16 ? term->whole < 0 : signbit(term->real) && !isnan(term->real);
    return negative && !term->constant ? LEVEL_PREFIX : LEVEL_WHOLE;
}

/* The text of an operation in double precision, from its definition: "pow(a, b)" becomes
 * "moec_math(pow)($0, $1)". Numbers of small formats are floats. */
static const char *double_text(Arena *arena, const OpRow *op) {
    Text text = {.arena = arena};
    if (!strncmp(op->value, "moec_", 5)) return arena_format(arena, "(double)%s", op->c);
    for (const char *c = op->value; *c;) {
        size_t length = strspn(c, "abcdefghijklmnopqrstuvwxyz0123456789");
        if (c[length] == '(' && length)
            text_add(&text, "moec_math(%.*s)", (int)length, c);
        else if (length == 1 && *c >= 'a')
            text_add(&text, "$%d", *c - 'a');
        else
            text_add_bytes(&text, c, length ? length : 1);
        c += length ? length : 1;
    }
    bool whole = op->whole == WHOLE_ALWAYS; /* comparisons are int in C */
    return whole ? arena_format(arena, "(double)(%s)", text.text) : text.text;
}

static void add_term(Text *text, const Term *term);

static void add_argument(Text *text, const Term *term, TermLevel needed) {
    bool parentheses = level_of(term) < needed;
    if (parentheses) text_add_bytes(text, "(", 1);
    add_term(text, term);
    if (parentheses) text_add_bytes(text, ")", 1);
}

static void add_term(Text *text, const Term *term) {
    const TermRow row = row_of(term->op);
    const char *from = row.text;
    if (!term->count) from = leaf_text(text->arena, term);
    if (!from) from = double_text(text->arena, &op_table[term->op - TERM_DOUBLE]);
    const char *c = from;
    for (; *c && term->count; c++) {
        if (*c != '$') continue;
        text_add_bytes(text, from, (size_t)(c - from));
        if (*++c == 't')
            text_add(text, "%s", term_type_name(term->type));
        else
            add_argument(text, term->args[*c - '0'], *c == '0' ? row.first : row.rest);
        from = c + 1;
    }
    text_add(text, "%s", from);
}

const char *term_text(Arena *arena, const Term *term) {
    Text text = {.arena = arena};
    if (!term->count) return leaf_text(arena, term);
    add_term(&text, term);
    return text.text;
}
