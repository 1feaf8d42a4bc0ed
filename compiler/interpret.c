/* interpret: the public interface of the interpreter. Tensors are found by their public names. A
 * tensor stacked over a repeat is set and returned one iteration at a time. */
#include "moec.h"

#include "abi/step_path.h"
#include "interpret/fault.h"
#include "passes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct MoecInterpreter {
    Interpreter *interpreter;
    Program *program;
};

/* A whole tensor, or one iteration of a stacked one. */
typedef struct Slice {
    const Tensor *tensor;
    size_t start, count;
} Slice;

MoecInterpreter *moec_interpreter_new(MoecCompiler *compiler, MoecProgram *program) {
    (void)compiler;
    MoecInterpreter *interpreter = calloc(1, sizeof *interpreter);
    if (!interpreter) return NULL;
    interpreter->program = program;
    interpreter->interpreter = interpreter_new(program);
    return interpreter;
}

void moec_interpreter_free(MoecInterpreter *interpreter) {
    if (!interpreter) return;
    interpreter_free(interpreter->interpreter);
    free(interpreter);
}

/* ---- cost ---- */

static double interpreted_operations(const Program *program, const Block *block) {
    double sum = 0;
    LIST_EACH(const Statement, statement, &block->statements) {
        double iterations = 1;
        for (int j = 0; j < statement->loop_count; j++)
            iterations *= (double)statement->loops[j]->axis->size;
        if (statement->kind == STATEMENT_REPEAT || statement_is_scan(statement))
            sum += (double)statement->index->axis->size *
                   interpreted_operations(program, &statement->body);
        else
            sum += fmax(iterations, statement_flops(program, statement));
    }
    return sum;
}

MoecInterpreterCost moec_interpreter_cost(const MoecProgram *program) {
    MoecInterpreterCost cost = {.operations = interpreted_operations(program, &program->body)};
    for (int i = 0; i < program->tensors.count; i++)
        cost.bytes += (double)sizeof(double) * (double)tensor_elements(program->tensors.items[i]);
    return cost;
}

/* ---- tensors by name ---- */

static bool names_step(const Tensor *tensor, const char *name, Slice *slice) {
    StepPath parts;
    size_t all = (size_t)tensor_elements(tensor);
    if (!step_path_read(tensor->path, &parts)) {
        *slice = (Slice){tensor, 0, all};
        return !strcmp(tensor->path, name);
    }
    if (strncmp(tensor->path, name, (size_t)parts.before)) return false;
    char *end;
    long wanted = strtol(name + parts.before, &end, 10);
    if (end == name + parts.before || strcmp(end, parts.after)) return false;
    long steps = tensor->axes[0]->size;
    for (long step = 0; step < steps; step++)
        if (step_path_number(&parts, step) == wanted) {
            size_t each = all / (size_t)steps;
            *slice = (Slice){tensor, (size_t)step * each, each};
            return true;
        }
    return false;
}

/* Prefixes of names and their roles. A name without a prefix means the first role in this order
 * that has it. A spec may use the name of a parameter for an input, an output or a number that
 * the runtime sets, too. */
static const struct {
    const char *prefix;
    Role role;
    bool scalar; /* of inputs */
} kinds[] = {
    {"gradient:", ROLE_GRADIENT, false},
    {"cache:", ROLE_CACHE, false},
    {"input:", ROLE_INPUT, false},
    {"scalar:", ROLE_INPUT, true},
    {"output:", ROLE_OUTPUT, false},
    {"", ROLE_PARAMETER, false},
    {"", ROLE_STATE, false},
    {"", ROLE_INPUT, false},
    {"", ROLE_INPUT, true},
    {"", ROLE_OUTPUT, false},
};

static bool is_called(const Tensor *tensor, const char *name, Slice *slice) {
    const Tensor *named = tensor->role == ROLE_GRADIENT ? tensor->of : tensor;
    bool by_path = named && named->path && tensor->role != ROLE_CACHE;
    *slice = (Slice){tensor, 0, (size_t)tensor_elements(named ? named : tensor)};
    if (!by_path) return tensor->role != ROLE_GRADIENT && !strcmp(tensor->name, name);
    bool found = names_step(named, name, slice);
    slice->tensor = tensor;
    return found;
}

static bool find_slice(const MoecInterpreter *interpreter, const char *name, Slice *slice) {
    const List *tensors = &interpreter->program->tensors;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t prefix = strlen(kinds[i].prefix);
        if (strncmp(name, kinds[i].prefix, prefix) != 0) continue;
        LIST_EACH(const Tensor, tensor, tensors) {
            bool scalar = tensor->role == ROLE_INPUT && tensor->input == MOEC_INPUT_SCALAR;
            if (tensor->role == kinds[i].role && scalar == kinds[i].scalar &&
                is_called(tensor, name + prefix, slice))
                return true;
        }
    }
    return false;
}

bool moec_interpreter_set(MoecInterpreter *interpreter, const char *name, const double *values,
                          size_t count) {
    Slice slice;
    if (!find_slice(interpreter, name, &slice) || slice.count != count) return false;
    if (slice.tensor->type == TYPE_INT) {
        long *to = interpreter_int(interpreter->interpreter, slice.tensor);
        for (size_t i = 0; i < count; i++) to[slice.start + i] = (long)values[i];
    } else
        memcpy(interpreter_real(interpreter->interpreter, slice.tensor) + slice.start, values,
               count * sizeof *values);
    return true;
}

bool moec_interpreter_get(MoecInterpreter *interpreter, const char *name, double *values,
                          size_t count) {
    Slice slice;
    if (!find_slice(interpreter, name, &slice) || slice.count != count) return false;
    if (slice.tensor->type == TYPE_INT) {
        const long *from = interpreter_int(interpreter->interpreter, slice.tensor);
        for (size_t i = 0; i < count; i++) values[i] = (double)from[slice.start + i];
    } else
        memcpy(values, interpreter_real(interpreter->interpreter, slice.tensor) + slice.start,
               count * sizeof *values);
    return true;
}

const char *moec_interpreter_run(MoecInterpreter *interpreter, uint64_t seed,
                                 bool last_micro_batch) {
    return interpreter_run(interpreter->interpreter, seed, last_micro_batch);
}

void moec_interpreter_noise(MoecInterpreter *interpreter, double share, uint64_t seed) {
    interpreter_noise(interpreter->interpreter, share, seed);
}

void moec_interpreter_rounding(MoecInterpreter *interpreter, double share, double sums,
                               uint64_t seed) {
    interpreter_rounding(interpreter->interpreter, share, sums, seed);
}

void moec_interpreter_trace(MoecInterpreter *interpreter) {
    interpreter_single(interpreter->interpreter);
    interpreter_trace(interpreter->interpreter);
}

const char *moec_interpreter_fault(const MoecInterpreter *interpreter) {
    const Nonfinite *fault = interpreter_fault(interpreter->interpreter);
    if (!fault) return NULL;
    Arena *arena = interpreter->program->arena;
    Reports reports = {.arena = arena};
    fault_report(&reports, fault);
    return reports_all(&reports, arena);
}

void moec_interpreter_rounded(MoecInterpreter *interpreter, int way) {
    interpreter_rounded(interpreter->interpreter, way);
}

void moec_interpreter_follow(MoecInterpreter *interpreter, const MoecInterpreter *other) {
    interpreter_follow(interpreter->interpreter, other->interpreter);
}

const double *moec_interpreter_margins(const MoecInterpreter *interpreter, size_t *count) {
    return interpreter_margins(interpreter->interpreter, count);
}

bool moec_interpreter_is_tied(const MoecInterpreter *interpreter) {
    return interpreter_is_tied(interpreter->interpreter);
}

bool moec_interpreter_decides_alike(const MoecInterpreter *one, const MoecInterpreter *other,
                                    double share) {
    return interpreter_decides_alike(one->interpreter, other->interpreter, share);
}

bool moec_step_differs(MoecProgram *step) {
    return step->by_decoding || step->caches != TYPE_REAL;
}

bool moec_step_returns(const MoecProgram *step) {
    return !step->has[HAS_RECURRENT_STATE] && !step->has[HAS_RING_CACHE];
}
