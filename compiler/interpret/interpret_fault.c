/* interpreter_trace: for every value that is not finite, the operation that made it.
 *
 * Needs:   a prepared program.
 * Leaves:  each stored element that is not finite with the number of its fault, which an element
 *          computed from it takes over:
 *
 *     a[d] = log(w[d])        w[3] is 0, so a[3] is -inf: fault 1, log(0)
 *     y = sum[d] a[d] * x[d]  y is -inf: fault 1
 *
 * So the fault of a result is known however many statements are between, also where memory was
 * overwritten by later iterations. A finite value has no fault: exp(a[3]) is 0. Infinities that
 * the spec writes are constants. They are not faults unless an operation makes NaN of them.
 */
#include "interpret/fault.h"

#include "ir/call.h"

#include <math.h>
#include <string.h>

/* More values that are not finite count as the last one. */
enum { FAULT_LIMIT = 1 << 16 };

struct FaultLog {
    int **of;  /* by tensor and element: number of the fault from 1, 0: none; NULL: all finite */
    List list; /* Nonfinite * */
};

void interpreter_trace(Interpreter *interpreter) {
    interpreter->faults = arena_alloc(interpreter->arena, sizeof *interpreter->faults);
    interpreter->faults->of =
        arena_alloc(interpreter->arena,
                    (size_t)interpreter->program->tensors.count * sizeof *interpreter->faults->of);
}

/* ---- elements ---- */

static const Nonfinite *fault_numbered(const Interpreter *interpreter, int number) {
    return interpreter->faults->list.items[number - 1];
}

static bool is_spec_constant(const Interpreter *interpreter, int number) {
    return fault_numbered(interpreter, number)->kind == FAULT_CONSTANT;
}

static int *fault_number_at(const Interpreter *interpreter, const Tensor *tensor, long offset) {
    int **numbers = &interpreter->faults->of[tensor->id];
    if (!*numbers)
        *numbers =
            arena_alloc(interpreter->arena, (size_t)tensor_elements(tensor) * sizeof **numbers);
    return &(*numbers)[offset];
}

void interpreter_note_finite(Interpreter *interpreter, const Tensor *tensor, long offset) {
    int *numbers = interpreter->faults->of[tensor->id];
    if (numbers) numbers[offset] = 0;
}

/* The earlier of two faults; a constant only if there is no other; 0: none. */
static int earlier(const Interpreter *interpreter, int one, int other) {
    if (!one || !other) return one + other;
    const bool constant = is_spec_constant(interpreter, one);
    if (constant != is_spec_constant(interpreter, other)) return constant ? other : one;
    return one < other ? one : other;
}

/* ---- new faults ---- */

static const long *ints_of(const Interpreter *interpreter, const Tensor *tensor) {
    const List *tensors = &interpreter->program->tensors;
    const bool there =
        tensor && tensor->id < tensors->count && tensors->items[tensor->id] == tensor;
    return there ? interpreter->ints[tensor->id] : NULL;
}

/* Whether the rows have been assigned. Their last group ends at their number. */
static bool rows_are_assigned(const Interpreter *interpreter, const Relation *relation) {
    const long *group = ints_of(interpreter, relation->group);
    return group && group[tensor_elements(relation->group) - 1] > 0;
}

static void set_index(Interpreter *interpreter, Nonfinite *fault, const Index *index, long at) {
    const List *relations = &interpreter->program->relations;
    fault->index[fault->index_count] = index;
    fault->at[fault->index_count++] = at;
    LIST_EACH(const Relation, relation, relations) {
        if (relation->rows != index->axis || !rows_are_assigned(interpreter, relation)) continue;
        fault->relation = relation;
        fault->row = at;
        for (int j = 0; j < relation->mask->rank; j++) {
            const long *values = ints_of(interpreter, relation->coordinate[j]);
            fault->coordinate[j] = values ? values[at] : -1;
        }
    }
}

static int fault_new(Interpreter *interpreter, NonfiniteKind kind, const Statement *statement,
                     const PreparedStatement *step, TracedElement element) {
    const List *list = &interpreter->faults->list;
    if (list->count == FAULT_LIMIT) return list->count;
    Nonfinite *fault = arena_alloc(interpreter->arena, sizeof *fault);
    *fault = (Nonfinite){.kind = kind, .statement = statement, .element = element};
    for (int i = 0; i < interpreter->slot_count; i++)
        set_index(interpreter, fault, interpreter->slots[i], interpreter->at[i]);
    for (int i = 0; step && i < step->loop_count; i++)
        set_index(interpreter, fault, step->loops[i], interpreter->at[step->first_slot + i]);
    list_push(interpreter->arena, &interpreter->faults->list, fault);
    return interpreter->faults->list.count;
}

static void keep_operand(Nonfinite *fault, TracedElement element) {
    for (int i = 0; i < fault->operand_count; i++)
        if (fault->operands[i].tensor == element.tensor &&
            fault->operands[i].offset == element.offset)
            return;
    if (fault->operand_count < FAULT_OPERANDS) fault->operands[fault->operand_count++] = element;
}

/* The element that a prepared read has read; offset -1: outside of the tensor. */
static TracedElement element_read(Interpreter *interpreter, EvalNode *node) {
    TracedElement element = {.tensor = node->expr->tensor};
    interpreter_offsets(interpreter, &node->address, 1, &element.offset);
    if (element.offset >= 0)
        element.value = node->address.real ? node->address.real[element.offset]
                                           : (double)node->address.ints[element.offset];
    return element;
}

static void keep_operands(Interpreter *interpreter, Nonfinite *fault, EvalNode *node) {
    if (node->kind == EXPR_READ) {
        const TracedElement element = element_read(interpreter, node);
        if (element.offset >= 0) keep_operand(fault, element);
    }
    for (int i = 0; i < node->count; i++) keep_operands(interpreter, fault, node->args[i]);
}

/* ---- the fault of an expression, whose nodes have the values of one element ---- */

typedef struct FaultSearch {
    Interpreter *interpreter;
    const PreparedStatement *step;
    TracedElement element; /* that the statement computes */
} FaultSearch;

static int operation_fault(const FaultSearch *search, EvalNode *node, NonfiniteKind kind) {
    Interpreter *interpreter = search->interpreter;
    const int number =
        fault_new(interpreter, kind, search->step->statement, search->step, search->element);
    Nonfinite *fault = interpreter->faults->list.items[number - 1];
    fault->expr = node->expr;
    fault->value = node->out[0];
    for (int i = 0; i < node->count; i++) {
        const EvalNode *arg = node->args[i];
        fault->args[i] = arg->whole ? (double)arg->whole_out[0] : arg->out[0];
    }
    keep_operands(interpreter, fault, node);
    return number;
}

static int storing_fault(const FaultSearch *search, EvalNode *node, double value) {
    const int number = operation_fault(search, node, FAULT_STORE);
    ((Nonfinite *)search->interpreter->faults->list.items[number - 1])->value = value;
    return number;
}

static int reading_fault(const FaultSearch *search, EvalNode *node) {
    Interpreter *interpreter = search->interpreter;
    const TracedElement element = element_read(interpreter, node);
    if (isfinite(element.value)) return storing_fault(search, node, element.value);
    int *number = fault_number_at(interpreter, element.tensor, element.offset);
    if (!*number) {
        *number =
            fault_new(interpreter, FAULT_GIVEN, search->step->statement, search->step, element);
        ((Nonfinite *)interpreter->faults->list.items[*number - 1])->expr = node->expr;
    }
    return *number;
}

static double node_value(const EvalNode *node) {
    return node->whole ? (double)node->whole_out[0] : node->out[0];
}

static int node_fault(const FaultSearch *search, EvalNode *node) {
    int from_nan = 0, from_infinity = 0;
    if (node->kind == EXPR_READ) return reading_fault(search, node);
    if (node->kind != EXPR_APPLY) return operation_fault(search, node, FAULT_CONSTANT);
    for (int i = 0; i < node->count; i++) {
        const double value = node_value(node->args[i]);
        if (isfinite(value)) continue;
        int *from = isnan(value) ? &from_nan : &from_infinity;
        *from = earlier(search->interpreter, *from, node_fault(search, node->args[i]));
    }
    const bool is_nan = isnan(node->out[0]);
    const int same = is_nan ? from_nan : from_infinity, other = is_nan ? from_infinity : from_nan;
    const int found = same ? same : other;
    if (found && (found == same || !is_spec_constant(search->interpreter, found))) return found;
    return operation_fault(search, node, FAULT_OPERATION);
}

/* ---- statements ---- */

static bool next_term(Interpreter *interpreter, const PreparedStatement *step) {
    for (int i = step->loop_count - 1; i >= step->outer_count; i--) {
        long *at = &interpreter->at[step->first_slot + i];
        if (++*at < step->loops[i]->axis->size) return true;
        *at = 0;
    }
    return false;
}

static bool same_kind(double one, double other) {
    return isnan(one) ? isnan(other) : one == other;
}

/* The fault of the first term that is not finite: like the result, or else any; 0: all finite. */
static int term_fault(const FaultSearch *search, double result, bool any) {
    const PreparedStatement *step = search->step;
    Interpreter *interpreter = search->interpreter;
    int found = 0;
    bool more = true;
    while (more && !found) {
        const double value = *interpreter_strip(interpreter, step->value, 1);
        if (!isfinite(value) && (any || same_kind(value, result)))
            found = node_fault(search, step->value);
        more = next_term(interpreter, step);
    }
    while (more) more = next_term(interpreter, step); /* back to the first */
    return found;
}

/* A new fault with the largest term as operands. */
static int sum_fault(const FaultSearch *search) {
    const PreparedStatement *step = search->step;
    Interpreter *interpreter = search->interpreter;
    long largest[MAX_LOOPS], first[MAX_LOOPS];
    double most = -1;
    long *at = &interpreter->at[step->first_slot];
    memcpy(first, at, sizeof(long) * (size_t)step->loop_count);
    do {
        const double value = fabs(*interpreter_strip(interpreter, step->value, 1));
        if (!(value > most)) continue;
        most = value;
        memcpy(largest, at, sizeof(long) * (size_t)step->loop_count);
    } while (next_term(interpreter, step));
    if (most >= 0) memcpy(at, largest, sizeof(long) * (size_t)step->loop_count);
    interpreter_strip(interpreter, step->value, 1);
    const int number = operation_fault(search, step->value, FAULT_SUM);
    memcpy(at, first, sizeof(long) * (size_t)step->loop_count);
    return number;
}

static int statement_fault(const FaultSearch *search, double result) {
    const PreparedStatement *step = search->step;
    if (step->statement->reduction == REDUCE_NONE) {
        interpreter_strip(search->interpreter, step->value, 1);
        return node_fault(search, step->value);
    }
    int found = term_fault(search, result, false);
    if (!found) found = term_fault(search, result, true);
    const bool made = isnan(result) && found && is_spec_constant(search->interpreter, found);
    return found && !made ? found : sum_fault(search);
}

void interpreter_note_fault(Interpreter *interpreter, PreparedStatement *step, long offset,
                            double computed) {
    const Tensor *tensor = step->statement->target->tensor;
    const double before = step->target.real[offset];
    const FaultSearch search = {interpreter, step, {tensor, offset, computed}};
    int *number = fault_number_at(interpreter, tensor, offset), found = 0;
    if (step->statement->accumulate && !isfinite(before)) found = *number;
    if (!isfinite(computed))
        found = earlier(interpreter, found, statement_fault(&search, computed));
    if (!found)
        found = step->statement->accumulate ? operation_fault(&search, step->value, FAULT_SUM)
                                            : storing_fault(&search, step->value, computed);
    *number = found;
}

/* ---- calls ---- */

/* The elements of an operand of a call. */
typedef struct OperandWalk {
    Interpreter *interpreter;
    const Statement *call;
    const Tensor *tensor;
    View view;
    long base;
    long at[MAX_RANK];
    /* An element of another operand with the same indices; NULL: any. */
    const struct OperandWalk *result;
    int found;
    TracedElement largest;
} OperandWalk;

static OperandWalk walk_of(Interpreter *interpreter, const Statement *call, const Expr *operand) {
    OperandWalk walk = {.interpreter = interpreter,
                        .call = call,
                        .tensor = operand->tensor,
                        .view = interpreter_view(interpreter, operand),
                        .largest = {.value = -1}};
    if (walk.view.real) walk.base = walk.view.real - interpreter->real[walk.tensor->id];
    return walk;
}

/* The coordinate that the result prescribes for a dimension, or -1. */
static long prescribed(const OperandWalk *walk, int dimension) {
    for (int i = 0; walk->result && i < walk->result->view.rank; i++)
        if (walk->result->view.index[i] == walk->view.index[dimension]) return walk->result->at[i];
    return -1;
}

static void each_element(OperandWalk *walk, int dimension, long offset,
                         void (*visit)(OperandWalk *walk, TracedElement element)) {
    if (dimension == walk->view.rank) {
        visit(walk, (TracedElement){walk->tensor, walk->base + offset, walk->view.real[offset]});
        return;
    }
    const long only = prescribed(walk, dimension), size = walk->view.size[dimension];
    for (long i = only < 0 ? 0 : only; i < (only < 0 ? size : only + 1); i++) {
        walk->at[dimension] = i;
        each_element(walk, dimension + 1, offset + i * walk->view.stride[dimension], visit);
    }
}

static void visit_operand(OperandWalk *walk, TracedElement element) {
    if (isfinite(element.value)) {
        if (fabs(element.value) > fabs(walk->largest.value)) walk->largest = element;
        return;
    }
    int *number = fault_number_at(walk->interpreter, element.tensor, element.offset);
    if (!*number) *number = fault_new(walk->interpreter, FAULT_GIVEN, walk->call, NULL, element);
    walk->found = earlier(walk->interpreter, walk->found, *number);
}

/* The fault in the operands at the indices of the result; `whole`: anywhere in them. */
static int operand_fault(const OperandWalk *result, bool whole) {
    int found = 0;
    for (int i = 0; i < result->call->inputs.count && !found; i++) {
        OperandWalk walk = walk_of(result->interpreter, result->call, call_input(result->call, i));
        walk.result = whole ? NULL : result;
        if (walk.view.real) each_element(&walk, 0, 0, visit_operand);
        found = walk.found && !is_spec_constant(walk.interpreter, walk.found) ? walk.found : 0;
    }
    return found;
}

static int call_fault(const OperandWalk *result, TracedElement element) {
    Interpreter *interpreter = result->interpreter;
    const int number = fault_new(interpreter, FAULT_CALL, result->call, NULL, element);
    Nonfinite *fault = interpreter->faults->list.items[number - 1];
    for (int i = 0; i < result->call->inputs.count; i++) {
        OperandWalk walk = walk_of(interpreter, result->call, call_input(result->call, i));
        walk.result = result;
        if (walk.view.real) each_element(&walk, 0, 0, visit_operand);
        if (walk.largest.tensor) keep_operand(fault, walk.largest);
    }
    return number;
}

static void visit_result(OperandWalk *walk, TracedElement element) {
    if (isfinite(element.value)) {
        interpreter_note_finite(walk->interpreter, element.tensor, element.offset);
        return;
    }
    int found = operand_fault(walk, false);
    if (!found) found = operand_fault(walk, true);
    if (!found) found = call_fault(walk, element);
    *fault_number_at(walk->interpreter, element.tensor, element.offset) = found;
}

void interpreter_note_call(Interpreter *interpreter, const Statement *call) {
    for (int i = 0; i < call->outputs.count; i++) {
        OperandWalk walk = walk_of(interpreter, call, call_output(call, i));
        if (walk.view.real) each_element(&walk, 0, 0, visit_result);
    }
}

/* ---- results ---- */

static int first_fault(const Interpreter *interpreter, const Tensor *tensor) {
    const int *numbers = interpreter->faults->of[tensor->id];
    int found = 0;
    for (long i = 0; numbers && i < tensor_elements(tensor); i++)
        found = earlier(interpreter, found, numbers[i]);
    return found;
}

bool interpreter_fault_known(const Interpreter *interpreter) {
    const Tensor *loss = interpreter->program->loss;
    const int *number = loss ? interpreter->faults->of[loss->id] : NULL;
    return number && *number;
}

const Nonfinite *interpreter_fault(const Interpreter *interpreter) {
    const Program *program = interpreter->program;
    int found = program->loss ? first_fault(interpreter, program->loss) : 0;
    static const Role roles[] = {ROLE_GRADIENT, ROLE_OUTPUT};
    for (int i = 0; i < 2 && !found; i++)
        LIST_EACH(const Tensor, tensor, &program->tensors)
            if (tensor->role == roles[i])
                found = earlier(interpreter, found, first_fault(interpreter, tensor));
    return found && !is_spec_constant(interpreter, found) ? fault_numbered(interpreter, found)
                                                          : NULL;
}
