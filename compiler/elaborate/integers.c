/* integers: keep named integers exact.
 *
 * Single precision represents all integers up to 2^24. Subscripts, remainders, quotients and
 * comparisons of integers are exact in 64 bits and cannot read a larger integer from a real.
 *
 *     one[s] = tokens[s - 1]                    int
 *     hash[s] = one[s] * 1000003                beyond 32 bits: inlined at its reads
 *     row[s] = hash[s] % 101              -->   row[s] = one[s] * 1000003 % 101       int
 *     y[s,d] = table[floor(row[s]),d]           y[s,d] = table[row[s],d]
 *
 * A temporary is an integer if all equations that write it are integers. Integers that an exact
 * operation reads have one of three forms. The others remain reals.
 *
 *     FORM_INT    the range fits 32 bits: TYPE_INT
 *     FORM_REAL   exact in f32: read as floor(t[s])
 *     FORM_INLINE the equation is inlined at each read; a sum term by term
 *
 * Needs:  an elaborated program.
 * Leaves: exact operations that read no rounded real; an error for each temporary without such a
 *         form.
 */
#include "analysis/def_use.h"
#include "analysis/range.h"
#include "elaborate/elaborate.h"
#include "base/must.h"

#include <math.h>

enum { MAX_TERMS = 64, MAX_NODES = 4096 };

static const int64_t f32_exact = 1 << 24;

typedef enum IntegerForm { FORM_REAL, FORM_INT, FORM_INLINE } IntegerForm;

typedef struct Whole {
    List writes;   /* Statement * */
    bool excluded; /* a call writes it, or an equation that adds */
    bool called;   /* a call reads it */
    bool needed;   /* an exact operation reads it */
    bool decided;
    bool assumed; /* read as an integer before its decision: by itself or by an earlier one */
    IntegerForm form;
    Expr *exact; /* FORM_INLINE */
} Whole;

typedef struct Integers {
    Program *program;
    const DefUse *def_use;
    Whole *facts; /* by tensor id */
    bool changed;
    Span span; /* of the statement that is read */
} Integers;

static Whole *fact_of(const Integers *integers, const Tensor *tensor) {
    return &integers->facts[tensor->id];
}

/* ---- integer temporaries ---- */

static void note_operands(Integers *integers, const List *operands, bool written) {
    for (int i = 0; i < operands->count; i++) {
        Whole *fact = fact_of(integers, ((const Expr *)operands->items[i])->tensor);
        if (written)
            fact->excluded = true;
        else
            fact->called = true;
    }
}

static void note_integer_uses(Statement *statement, void *data) {
    Integers *integers = data;
    if (statement->kind == STATEMENT_CALL && !statement_is_scan(statement)) {
        note_operands(integers, &statement->inputs, false);
        note_operands(integers, &statement->outputs, true);
    }
    if (statement->kind != STATEMENT_LOOP) return;
    Whole *fact = fact_of(integers, statement->target->tensor);
    list_push(integers->program->arena, &fact->writes, statement);
    if (statement->accumulate || statement->once || statement_is_scatter(statement))
        fact->excluded = true;
}

static bool is_whole_under(const Whole *fact) {
    for (int i = 0; i < fact->writes.count; i++)
        if (!expr_names_whole(((const Statement *)fact->writes.items[i])->value)) return false;
    return true;
}

/* The largest set of temporaries whose equations are integers if the temporaries of the set are. */
static void find_whole(Integers *integers) {
    const List *tensors = &integers->program->tensors;
    block_walk(&integers->program->body, note_integer_uses, integers);
    LIST_EACH(Tensor, tensor, tensors) {
        const Whole *fact = fact_of(integers, tensor);
        tensor->integer = tensor->role == ROLE_TEMP && tensor->type == TYPE_REAL &&
                          fact->writes.count && !fact->excluded;
    }
    do {
        integers->changed = false;
        LIST_EACH(Tensor, tensor, tensors) {
            if (!tensor->integer || is_whole_under(fact_of(integers, tensor))) continue;
            tensor->integer = false;
            integers->changed = true;
        }
    } while (integers->changed);
}

/* ---- ranges ---- */

static bool range_fits(Range range, int64_t least, int64_t most) {
    return range_is_known(range) && range.low >= least && range.high <= most;
}

static bool fits_f32(Range range) {
    return range_fits(range, -f32_exact, f32_exact);
}

/* The number of terms of a reduction. */
static int64_t summed_terms(const Statement *statement) {
    MUST(statement->kind == STATEMENT_LOOP);
    int64_t terms = 1;
    for (int i = 0; i < statement->loop_count && terms < f32_exact; i++)
        if (!expr_uses_index(statement->target, statement->loops[i]))
            terms *= statement->loops[i]->axis->size;
    return terms;
}

static Range range_of_equation(const Integers *integers, const Statement *statement,
                               const Expr *value) {
    Range range = range_of(integers->program, value);
    if (statement->reduction != REDUCE_SUM || !range_is_known(range)) return range;
    int64_t terms = summed_terms(statement), most = INT64_MAX / f32_exact;
    if (terms >= f32_exact || !range_fits(range, -most, most)) return (Range){INT64_MIN, INT64_MAX};
    return (Range){terms * range.low, terms * range.high};
}

static void set_range(Tensor *tensor, Range range) {
    bool known = range_fits(range, 0, INT32_MAX);
    tensor->vocabulary = known ? range.high + 1 : 0;
}

/* Treats temporaries as integers with their known ranges, before any decision. */
static void estimate(Statement *statement, void *data) {
    Integers *integers = data;
    if (statement->kind != STATEMENT_LOOP) return;
    Tensor *tensor = statement->target->tensor;
    if (!tensor->integer) return;
    tensor->type = TYPE_INT;
    if (fact_of(integers, tensor)->writes.count == 1)
        set_range(tensor, range_of_equation(integers, statement, statement->value));
}

/* Whether a subexpression can exceed the exact range of f32. */
static bool is_wide(const Program *program, const Expr *expr) {
    if (!fits_f32(range_of(program, expr))) return true;
    for (int i = 0; expr->kind == EXPR_APPLY && i < expr->count; i++)
        if (is_wide(program, expr->args[i])) return true;
    return false;
}

/* ---- operands of exact operations ---- */

static bool names_whole(const Expr *expr, int first) {
    for (int i = first; i < expr->count; i++)
        if (!expr_names_whole(expr->args[i])) return false;
    return true;
}

static bool is_remainder(const Expr *expr) {
    if (expr->kind != EXPR_APPLY) return false;
    if (expr->op == OP_MOD) return names_whole(expr, 0);
    const Expr *inner = expr->args[0];
    return expr->op == OP_FLOOR && inner->kind == EXPR_APPLY && inner->op == OP_DIV &&
           names_whole(inner, 0);
}

static bool is_integer_comparison(const Expr *expr) {
    return expr->kind == EXPR_APPLY && expr->op >= OP_EQ && expr->op <= OP_GE &&
           names_whole(expr, 0);
}

static const Expr *inexact_literal(const Expr *expr) {
    const Expr *found = NULL;
    if (expr->kind == EXPR_NUMBER && fabs(expr->number) > WHOLE_MAX) return expr;
    for (int i = 0; i < expr->count && !found; i++) found = inexact_literal(expr->args[i]);
    return found;
}

static void check_numbers(const Integers *integers, const Expr *expr) {
    Reports *reports = integers->program->reports;
    const Expr *found = reports->errors ? NULL : inexact_literal(expr);
    if (!found) return;
    report_invalid(reports, integers->span,
                   "use constants up to 9007199254740991; products of indices and tokens can "
                   "be larger and wrap at 64 bits",
                   "constant %.17g in this integer arithmetic exceeds 2^53 - 1", found->number);
}

static void visit_value(Integers *integers, const Expr *expr);

static void need_exact(Integers *integers, const Expr *expr) {
    if (!expr_names_whole(expr)) {
        bool quotient = expr->kind == EXPR_APPLY && expr->op == OP_DIV && names_whole(expr, 0);
        if (!quotient) {
            visit_value(integers, expr);
            return;
        }
    }
    if (expr->kind == EXPR_READ && expr->tensor->integer) {
        Whole *fact = fact_of(integers, expr->tensor);
        integers->changed |= !fact->needed;
        fact->needed = true;
    }
    for (int i = 0; i < expr->count; i++) need_exact(integers, expr->args[i]);
}

/* Visits the reads of a real expression. */
static void visit_value(Integers *integers, const Expr *expr) {
    if (is_remainder(expr)) check_numbers(integers, expr);
    bool exact =
        is_remainder(expr) || (is_integer_comparison(expr) && is_wide(integers->program, expr));
    for (int i = 0; i < expr->count; i++) {
        if (exact || expr->kind == EXPR_READ)
            need_exact(integers, expr->args[i]);
        else
            visit_value(integers, expr->args[i]);
    }
}

static void visit_integer_statement(Statement *statement, void *data) {
    Integers *integers = data;
    if (statement->kind != STATEMENT_LOOP) return;
    const Expr *target = statement->target;
    integers->span = statement->span;
    for (int i = 0; i < target->count; i++) need_exact(integers, target->args[i]);
    if (fact_of(integers, target->tensor)->needed) {
        check_numbers(integers, statement->value);
        need_exact(integers, statement->value);
    } else {
        visit_value(integers, statement->value);
    }
}

static void find_needed_integers(Integers *integers) {
    block_walk(&integers->program->body, estimate, integers);
    do {
        integers->changed = false;
        block_walk(&integers->program->body, visit_integer_statement, integers);
    } while (integers->changed);
    for (int i = 0; i < integers->program->tensors.count; i++) {
        Tensor *tensor = integers->program->tensors.items[i];
        if (!tensor->integer) continue;
        tensor->vocabulary = 0;
        if (!integers->facts[i].needed) tensor->type = TYPE_REAL;
    }
}

/* ---- expressions without reads of changed values ---- */

static Expr *real_value(Integers *integers, Expr *expr);

static Expr *both_exact(Program *program, Expr *a, Expr *b) {
    return a ? expr_apply(program, OP_AND, a, b, NULL) : b;
}

/* The equation of a tensor at the subscripts of a read; 0 outside its axes. */
static Expr *written_out(Integers *integers, const Expr *read) {
    MUST(read->kind == EXPR_READ);
    Program *program = integers->program;
    const Whole *fact = fact_of(integers, read->tensor);
    const Expr *target = ((const Statement *)fact->writes.items[0])->target;
    Index *from[MAX_RANK];
    Expr *to[MAX_RANK], *guard = NULL;
    int count = 0;
    for (int i = 0; i < read->count; i++) {
        Expr *sub = read->args[i];
        const Axis *axis = read->tensor->axes[i];
        if (target->args[i]->kind != EXPR_INDEX) continue;
        from[count] = target->args[i]->index;
        to[count++] = sub;
        if (sub->kind == EXPR_INDEX || sub_is_inside(sub, axis)) continue;
        Expr *zero = expr_number(program, 0), *size = expr_number(program, (double)axis->size);
        guard = both_exact(program, guard, expr_apply(program, OP_GE, sub, zero, NULL));
        guard = both_exact(program, guard, expr_apply(program, OP_LT, sub, size, NULL));
    }
    Expr *value = expr_substitute(program, fact->exact, from, to, count);
    return guard ? expr_apply(program, OP_WHERE, guard, value, expr_number(program, 0)) : value;
}

static Expr *exact_tensor_read(Integers *integers, Expr *read) {
    MUST(read->kind == EXPR_READ);
    Whole *fact = fact_of(integers, read->tensor);
    if (!fact->needed) return read;
    if (!fact->decided) {
        fact->assumed = true;
        return read;
    }
    if (fact->form == FORM_INLINE) return written_out(integers, read);
    if (fact->form == FORM_INT) return read;
    return expr_apply(integers->program, OP_FLOOR, read, NULL, NULL);
}

static Expr *rebuilt(Integers *integers, Expr *expr, Expr *const *args) {
    Program *program = integers->program;
    bool changed = expr->kind == EXPR_APPLY && expr->op == OP_FLOOR; /* of an integer: removed */
    for (int i = 0; i < expr->count; i++) changed |= args[i] != expr->args[i];
    if (!changed) return expr;
    Expr *made = expr->kind == EXPR_READ
                     ? expr_read(program, expr->tensor, args)
                     : expr_apply(program, expr->op, args[0], expr->count > 1 ? args[1] : NULL,
                                  expr->count > 2 ? args[2] : NULL);
    if (!made->span.source) made->span = expr->span;
    return made;
}

/* The exact value of an integer expression or of the division in a quotient. */
static Expr *exact_value(Integers *integers, Expr *expr) {
    Expr *args[MAX_RANK] = {NULL};
    bool quotient = expr->kind == EXPR_APPLY && expr->op == OP_DIV && names_whole(expr, 0);
    if (!quotient && !expr_names_whole(expr)) return real_value(integers, expr);
    for (int i = 0; i < expr->count; i++) args[i] = exact_value(integers, expr->args[i]);
    Expr *made = rebuilt(integers, expr, args);
    return made->kind == EXPR_READ ? exact_tensor_read(integers, made) : made;
}

/* The same for a real expression. */
static Expr *real_value(Integers *integers, Expr *expr) {
    Expr *args[MAX_RANK] = {NULL};
    bool exact = is_remainder(expr) || is_integer_comparison(expr);
    for (int i = 0; i < expr->count; i++)
        args[i] = exact || expr->kind == EXPR_READ ? exact_value(integers, expr->args[i])
                                                   : real_value(integers, expr->args[i]);
    return rebuilt(integers, expr, args);
}

/* ---- the form of a temporary ---- */

static bool is_within_one(const Program *program, const Expr *expr) {
    return range_fits(range_of(program, expr), -1, 1);
}

/* Whether f32 arithmetic computes the value exactly. Integers derived from reals and counters of a
 * recurrence are assumed to be below 2^24; their products are not. */
static bool is_exact_in_f32(const Program *program, const Expr *expr, bool recurs) {
    if (expr->kind == EXPR_READ) return recurs || fits_f32(range_of(program, expr));
    if (expr->kind != EXPR_APPLY) return fits_f32(range_of(program, expr));
    if (expr_is_truth(expr) || expr->op == OP_SIGN) return true;
    if (expr->op == OP_FLOOR && !expr_is_quotient(expr) && !expr_is_whole(expr->args[0]))
        return true;
    bool checked = expr->op == OP_MUL || (expr_counts(expr) && !recurs);
    bool scaled = expr->op == OP_MUL &&
                  (is_within_one(program, expr->args[0]) || is_within_one(program, expr->args[1]));
    if (checked && !scaled && !fits_f32(range_of(program, expr))) return false;
    if (expr_is_exact(expr)) return fits_f32(range_of(program, expr));
    for (int i = expr->op == OP_WHERE; i < expr->count; i++)
        if (!is_exact_in_f32(program, expr->args[i], recurs)) return false;
    return true;
}

static int expression_size(const Expr *expr) {
    int nodes = 1;
    for (int i = 0; i < expr->count && nodes <= MAX_NODES; i++)
        nodes += expression_size(expr->args[i]);
    return nodes;
}

/* A reduction as a sum of terms; NULL for too many terms. */
static Expr *sum_of_terms(Integers *integers, const Statement *statement, Expr *value) {
    MUST(statement->kind == STATEMENT_LOOP);
    static const OpCode joins[] = {OP_ADD, OP_ADD, OP_MAX, OP_MIN};
    Program *program = integers->program;
    const int64_t terms = summed_terms(statement);
    if (terms > MAX_TERMS) return NULL;
    Expr *sum = NULL;
    for (int64_t term = 0; term < terms; term++) {
        Expr *made = value;
        int64_t rest = term;
        for (int i = 0; i < statement->loop_count; i++) {
            Index *index = statement->loops[i];
            if (expr_uses_index(statement->target, index)) continue;
            Expr *at = expr_number(program, (double)(rest % index->axis->size));
            rest /= index->axis->size;
            made = expr_substitute(program, made, &index, &at, 1);
        }
        sum = sum ? expr_apply(program, joins[statement->reduction], sum, made, NULL) : made;
    }
    return sum;
}

/* Whether all reads are in the same repeat as the equation. */
static bool is_read_locally(const Integers *integers, const Tensor *tensor) {
    const DefUse *def_use = integers->def_use;
    const TensorAccess *write = def_use->writes[tensor->id].items[0];
    return def_use_reads_in(def_use, tensor, def_use->points[write->position].repeat);
}

/* Whether the value is the same at every read of the tensor. */
static bool is_constant(const Integers *integers, const Expr *target, const Expr *value) {
    MUST(target->kind == EXPR_READ);
    if (value->kind == EXPR_INDEX && value->index->of_repeat)
        return expr_uses_index(target, value->index) || is_read_locally(integers, target->tensor);
    if (value->kind == EXPR_READ) {
        const Whole *fact = fact_of(integers, value->tensor);
        if (fact->writes.count > 1 || (fact->needed && !fact->decided)) return false;
    }
    for (int i = 0; i < value->count; i++)
        if (!is_constant(integers, target, value->args[i])) return false;
    return true;
}

static void report_inexact(const Integers *integers, const Tensor *tensor) {
    const Statement *first = fact_of(integers, tensor)->writes.items[0];
    Reports *reports = integers->program->reports;
    const bool sum = first->reduction != REDUCE_NONE;
    report_error(reports, first->span,
                 sum ? "this sum of integers can exceed 2^24, the limit of exact f32 integers"
                     : "this integer can exceed 32 bits, the limit of a tensor");
    report_help(reports, sum ? "reduce the terms with sum[...] ((...) %% N): subscripts, "
                               "remainders and comparisons need the exact value"
                             : "reduce it with (...) %% N: subscripts, remainders and comparisons "
                               "need the exact value");
}

/* The forms that all equations of a tensor allow. */
typedef struct Allowed {
    bool stored, real;
    Range range;
} Allowed;

static Expr *allow(Integers *integers, const Statement *statement, Allowed *allowed) {
    MUST(statement->kind == STATEMENT_LOOP);
    const Whole *fact = fact_of(integers, statement->target->tensor);
    const bool reduces = statement->reduction != REDUCE_NONE;
    Expr *value = exact_value(integers, statement->value);
    const Range range = range_of_equation(integers, statement, value);
    const bool recurs = fact->writes.count > 1 || fact->assumed;
    allowed->stored &= !reduces && range_fits(range, INT32_MIN, INT32_MAX);
    allowed->real &= is_exact_in_f32(integers->program, value, recurs) &&
                     (!reduces || !expr_counts(value) || fits_f32(range));
    if (range.low < allowed->range.low) allowed->range.low = range.low;
    if (range.high > allowed->range.high) allowed->range.high = range.high;
    return reduces ? sum_of_terms(integers, statement, value) : value;
}

static void decide_integer(Integers *integers, Tensor *tensor) {
    Whole *fact = fact_of(integers, tensor);
    const bool earlier = fact->assumed;
    Allowed allowed = {!fact->called, true, {INT64_MAX, INT64_MIN}};
    for (int i = 0; i < fact->writes.count; i++)
        fact->exact = allow(integers, fact->writes.items[i], &allowed);
    fact->form = allowed.stored ? FORM_INT : allowed.real && !earlier ? FORM_REAL : FORM_INLINE;
    if (fact->form == FORM_INT)
        set_range(tensor, allowed.range);
    else
        tensor->type = TYPE_REAL;
    const Statement *first = fact->writes.items[0];
    if (fact->form == FORM_INLINE && (fact->writes.count > 1 || fact->assumed || !fact->exact ||
                                      expression_size(fact->exact) > MAX_NODES ||
                                      !is_constant(integers, first->target, fact->exact)))
        report_inexact(integers, tensor);
    fact->decided = true;
}

static void decide_target(Statement *statement, void *data) {
    Integers *integers = data;
    if (statement->kind != STATEMENT_LOOP) return;
    Tensor *tensor = statement->target->tensor;
    const Whole *fact = fact_of(integers, tensor);
    if (fact->needed && !fact->decided) decide_integer(integers, tensor);
}

/* ---- statements ---- */

static void rewrite(Statement *statement, void *data) {
    Integers *integers = data;
    if (statement->kind != STATEMENT_LOOP) return;
    Expr *subs[MAX_RANK];
    Expr *target = statement->target;
    for (int i = 0; i < target->count; i++) subs[i] = exact_value(integers, target->args[i]);
    statement->target = rebuilt(integers, target, subs);
    const Whole *fact = fact_of(integers, target->tensor);
    const bool stored = fact->decided && fact->form == FORM_INT;
    if (fact->decided && statement->reduction != REDUCE_NONE) statement->exact = true;
    statement->value =
        stored ? exact_value(integers, statement->value) : real_value(integers, statement->value);
}

static void update_scan(Statement *statement, void *data) {
    const Integers *integers = data;
    if (statement_is_scan(statement)) scan_operands(integers->program, statement);
}

void keep_integers(Program *program) {
    Integers integers = {.program = program};
    integers.def_use = def_use_new(program);
    integers.facts =
        arena_alloc(program->arena, ((size_t)program->tensors.count + 1) * sizeof *integers.facts);
    find_whole(&integers);
    find_needed_integers(&integers);
    if (program->reports->errors) return;
    block_walk(&program->body, decide_target, &integers);
    if (program->reports->errors) return;
    block_walk(&program->body, rewrite, &integers);
    block_walk(&program->body, update_scan, &integers);
}
