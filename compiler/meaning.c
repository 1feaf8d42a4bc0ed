/* meaning: eval behind the public header. Tensors are found by their public names; a tensor stacked
 * over a repeat is given and returned turn by turn.
 */
#include "moec.h"

#include "passes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct MoecEval {
    Eval *eval;
    Program *program;
};

/* Part of a tensor: all of it, or one turn of a stacked one. */
typedef struct Slice {
    const Tensor *tensor;
    size_t start, count;
} Slice;

MoecEval *moec_eval_new(MoecCompiler *compiler, MoecProgram *program) {
    (void)compiler;
    MoecEval *eval = calloc(1, sizeof *eval);
    if (!eval) return NULL;
    eval->program = program;
    eval->eval = eval_new(program);
    return eval;
}

void moec_eval_free(MoecEval *eval) {
    if (!eval) return;
    eval_free(eval->eval);
    free(eval);
}

/* "{i}", "{i+3}", "{2*i}", "{2*i+1}" for turn i. */
static long turn_number(const char *brace, long turn) {
    long factor = 1, offset = 0;
    if (sscanf(brace, "{%ld*i", &factor) != 1) factor = 1;
    const char *plus = strchr(brace, '+'), *end = strchr(brace, '}');
    if (plus && plus < end) offset = strtol(plus + 1, NULL, 10);
    return factor * turn + offset;
}

static bool names_turn(const Tensor *tensor, const char *name, Slice *slice) {
    const char *brace = strchr(tensor->path, '{');
    size_t all = (size_t)tensor_elements(tensor);
    if (!brace) {
        *slice = (Slice){tensor, 0, all};
        return !strcmp(tensor->path, name);
    }
    size_t before = (size_t)(brace - tensor->path);
    const char *after = strchr(brace, '}') + 1;
    if (strncmp(tensor->path, name, before)) return false;
    char *end;
    long wanted = strtol(name + before, &end, 10);
    if (end == name + before || strcmp(end, after)) return false;
    long turns = tensor->axes[0]->size;
    for (long turn = 0; turn < turns; turn++)
        if (turn_number(brace, turn) == wanted) {
            size_t each = all / (size_t)turns;
            *slice = (Slice){tensor, (size_t)turn * each, each};
            return true;
        }
    return false;
}

/* What a name may begin with, and what it means then; any of the others is the first of the roles
 * in their order that has it. A spec may call a parameter or an input as an output or as a number
 * that the runtime sets. */
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
    *slice = (Slice){tensor, 0, (size_t)tensor_elements(tensor)};
    if (!by_path) return tensor->role != ROLE_GRADIENT && !strcmp(tensor->name, name);
    bool found = names_turn(named, name, slice);
    slice->tensor = tensor;
    return found;
}

static bool find_slice(const MoecEval *eval, const char *name, Slice *slice) {
    const List *tensors = &eval->program->tensors;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t prefix = strlen(kinds[i].prefix);
        if (strncmp(name, kinds[i].prefix, prefix) != 0) continue;
        for (int j = 0; j < tensors->count; j++) {
            const Tensor *tensor = tensors->items[j];
            bool scalar = tensor->role == ROLE_INPUT && tensor->input == INPUT_SCALAR;
            if (tensor->role == kinds[i].role && scalar == kinds[i].scalar &&
                is_called(tensor, name + prefix, slice))
                return true;
        }
    }
    return false;
}

bool moec_eval_set(MoecEval *eval, const char *name, const double *values, size_t count) {
    Slice slice;
    if (!find_slice(eval, name, &slice) || slice.count != count) return false;
    if (slice.tensor->type == TYPE_INT) {
        long *to = eval_int(eval->eval, slice.tensor);
        for (size_t i = 0; i < count; i++) to[slice.start + i] = (long)values[i];
    } else
        memcpy(eval_real(eval->eval, slice.tensor) + slice.start, values, count * sizeof *values);
    return true;
}

bool moec_eval_get(MoecEval *eval, const char *name, double *values, size_t count) {
    Slice slice;
    if (!find_slice(eval, name, &slice) || slice.count != count) return false;
    if (slice.tensor->type == TYPE_INT) {
        const long *from = eval_int(eval->eval, slice.tensor);
        for (size_t i = 0; i < count; i++) values[i] = (double)from[slice.start + i];
    } else
        memcpy(values, eval_real(eval->eval, slice.tensor) + slice.start, count * sizeof *values);
    return true;
}

const char *moec_eval_run(MoecEval *eval, uint64_t seed, bool last_micro_batch) {
    return eval_run(eval->eval, seed, last_micro_batch);
}

void moec_eval_noise(MoecEval *eval, double share, uint64_t seed) {
    eval_noise(eval->eval, share, seed);
}

void moec_eval_rounded(MoecEval *eval, int way) {
    eval_rounded(eval->eval, way);
}

void moec_eval_follow(MoecEval *eval, const MoecEval *other) {
    eval_follow(eval->eval, other->eval);
}

const double *moec_eval_margins(const MoecEval *eval, size_t *count) {
    return eval_margins(eval->eval, count);
}

static void find_best(Statement *statement, void *data) {
    bool attends = statement->kind == STATEMENT_CALL && statement->call == CALL_ATTEND;
    if (attends && statement->attention.position && statement->attention.best > 0)
        *(bool *)data = true;
}

bool moec_step_differs(MoecProgram *step) {
    bool found = step->by_decoding;
    block_walk(&step->body, find_best, &found);
    return found;
}
