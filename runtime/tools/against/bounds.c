/* bounds: compares results of foreign code with those of the definition in double precision.
 *
 * Both sides read the same values, which are numbers of the precision. The code rounds every
 * operation. How far that moves an element of a result is a property of the definition and the
 * data. It is measured: the definition runs RUNS times more, and each computed value moves by up to
 * `spreads` roundings at random, each given value by a quarter (Monte Carlo arithmetic, Parker
 * 1997). The bound of an element is `factor` times the largest deviation of these runs. In bf16
 * partial results of sums have the rounding of f32, because the code is expected to add in f32.
 *
 * A selection or a kink that rounding decides moves its elements far: they are undecided and have a
 * larger bound. A value that is not finite is a difference wherever the definition is finite and
 * within the range of the precision.
 */
#include "tools/against/against.h"

#include "base/memory.h"
#include "base/message.h"
#include "data/random.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

enum { RUNS = 8 };
static const double factor = 2, least = 0x1p-100;
/* Roundings by which a value moves. f32 and f64: those of the sums inside an operation, too, which
 * have no other; bf16: sums are in f32. */
static const double spreads[AGAINST_TYPES] = {32, 8, 32};
/* An element with a bound beyond this share of the root mean square of its tensor is undecided. Its
 * bound and that of its row are larger, because the code may make a selection that no run made. If
 * many elements of a tensor are undecided, a selection moves all of them. */
static const double undecided_share = 0.25, undecided_factor = 8, many_share = 0.1;

/* TensorValues by tensor: of results, or gradients of given tensors; NULL: none. */
typedef struct TensorValues {
    double **of;
} TensorValues;

static TensorValues values_new(const AgainstShape *shape) {
    TensorValues values = {memory_new(sizeof(double *) * (size_t)(shape->count + 1))};
    for (int i = 0; i < shape->count; i++) {
        const AgainstTensor *tensor = &shape->tensors[i];
        if (!tensor_is_given(tensor) || tensor->gradient)
            values.of[i] = memory_new(sizeof(double) * (tensor->count + 1));
    }
    return values;
}

static void values_free(const AgainstShape *shape, TensorValues values) {
    for (int i = 0; i < shape->count; i++) free(values.of[i]);
    free(values.of);
}

/* ---- the definition ---- */

/* A given value, moved by up to `share` of itself; a zero by almost nothing, for kinks at zero. */
static double moved_value(double value, double share, uint64_t seed, size_t j) {
    const double noise = 2 * random_uniform(seed, j) - 1;
    return value == 0 ? least * noise : value * (1 + share * noise);
}

static void set_values(MoecInterpreter *interpreter, const AgainstCase *one, double share,
                       uint64_t seed) {
    const double unit = 1;
    for (int i = 0; i < one->shape->count; i++) {
        const AgainstTensor *tensor = &one->shape->tensors[i];
        if (!one->values[i]) continue;
        AUTO_FREE char *path = tensor_is_given(tensor)
                                   ? memory_format("%s", tensor->path)
                                   : memory_format("input:cotangent_%s", tensor->name);
        AUTO_FREE double *values = memory_new(sizeof *values * (tensor->count + 1));
        const uint64_t own = random_seed_for(seed, path);
        for (size_t j = 0; j < tensor->count; j++)
            values[j] = share == 0 || tensor->integer
                            ? one->values[i][j]
                            : moved_value(one->values[i][j], share / 4, own, j);
        moec_interpreter_set(interpreter, path, values, tensor->count);
    }
    moec_interpreter_set(interpreter, "scalar:loss_scale", &unit, 1);
}

static bool run_program(MoecCompiler *compiler, MoecProgram *program, const AgainstCase *one,
                        uint64_t noise, TensorValues values) {
    const AgainstShape *shape = one->shape;
    const double unit = against_roundoff(one->type), share = noise ? spreads[one->type] * unit : 0;
    MoecInterpreter *interpreter = moec_interpreter_new(compiler, program);
    if (!interpreter) return error_message(NULL, "not enough memory for the interpreter");
    if (noise)
        moec_interpreter_rounding(interpreter, share, fmin(share, spreads[AGAINST_F32] * 0x1p-24),
                                  noise);
    set_values(interpreter, one, share, noise);
    const char *problem = moec_interpreter_run(interpreter, 1, true);
    for (int i = 0; i < shape->count && !problem; i++) {
        const AgainstTensor *tensor = &shape->tensors[i];
        const char *path = tensor_is_given(tensor) ? tensor->gradient : tensor->path;
        if (values.of[i]) moec_interpreter_get(interpreter, path, values.of[i], tensor->count);
    }
    moec_interpreter_free(interpreter);
    return !problem || error_message(NULL, "%s", problem);
}

/* The forward program of a model after its training program: both have its loss. */
static bool run_definition(const AgainstCase *one, uint64_t noise, TensorValues values) {
    const AgainstShape *shape = one->shape;
    return run_program(shape->compiler, shape->train, one, noise, values) &&
           (!shape->forward || run_program(shape->compiler, shape->forward, one, noise, values));
}

/* ---- bounds ---- */

static void note_deviations(const AgainstShape *shape, TensorValues exact, TensorValues noisy,
                            TensorValues bounds) {
    for (int i = 0; i < shape->count; i++)
        for (size_t j = 0; bounds.of[i] && j < shape->tensors[i].count; j++) {
            const double deviation = factor * fabs(noisy.of[i][j] - exact.of[i][j]);
            bounds.of[i][j] = isnan(deviation) ? INFINITY : fmax(bounds.of[i][j], deviation);
        }
}

static bool make_bounds(const AgainstCase *one, TensorValues exact, TensorValues bounds) {
    const AgainstShape *shape = one->shape;
    const double unit = against_roundoff(one->type);
    bool good = true;
    for (int i = 0; i < shape->count; i++)
        for (size_t j = 0; bounds.of[i] && j < shape->tensors[i].count; j++)
            bounds.of[i][j] = 2 * unit * fabs(exact.of[i][j]) + least;
    for (uint64_t run = 1; run <= RUNS && good; run++) {
        TensorValues noisy = values_new(shape);
        good = run_definition(one, run, noisy);
        if (good) note_deviations(shape, exact, noisy, bounds);
        values_free(shape, noisy);
    }
    return good;
}

/* ---- the verdict ---- */

static double rms(const double *values, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += isfinite(values[i]) ? values[i] * values[i] : 0;
    return sqrt(sum / (double)(count + !count));
}

/* Error by bound of one element; 0 where the definition is out of the range of the precision. */
static double bound_ratio(AgainstType type, double given, double exact, double bound) {
    const double most = type == AGAINST_F64 ? DBL_MAX : (double)FLT_MAX;
    if (!(fabs(exact) <= most)) return 0;
    if (!isfinite(given)) return INFINITY;
    return isfinite(bound) ? fabs(given - exact) / bound : 0;
}

static void note_difference(AgainstVerdict *verdict, AgainstDifference difference) {
    const size_t count = (size_t)++verdict->difference_count;
    verdict->differences = memory_grow(verdict->differences, sizeof difference * count);
    verdict->differences[count - 1] = difference;
}

/* The elements that rounding decides. */
typedef struct UndecidedElements {
    double from; /* bound */
    size_t count;
    double least; /* bound of all elements, if many are undecided */
} UndecidedElements;

static UndecidedElements undecided_elements(const AgainstTensor *tensor, const double *exact,
                                            const double *bound) {
    UndecidedElements undecided = {.from = undecided_share * rms(exact, tensor->count) + 0x1p-60};
    double sum = 0;
    size_t finite = 0;
    for (size_t j = 0; j < tensor->count; j++) {
        if (!(bound[j] > undecided.from)) continue;
        undecided.count++;
        if (isfinite(bound[j])) sum += bound[j] * bound[j], finite++;
    }
    if ((double)undecided.count > many_share * (double)tensor->count && finite)
        undecided.least = undecided_factor * sqrt(sum / (double)finite);
    return undecided;
}

/* The least bound of a row of elements: of a tie, some run may not have selected each of them. */
static double row_bound(const UndecidedElements *undecided, const double *bound, size_t count) {
    double most = 0;
    for (size_t j = 0; j < count; j++)
        if (bound[j] > undecided->from && isfinite(bound[j])) most = fmax(most, bound[j]);
    return fmax(undecided_factor * most, undecided->least);
}

static void judge_element(AgainstVerdict *verdict, AgainstDifference *difference, size_t j,
                          double ratio) {
    if (ratio <= 1) {
        if (ratio <= verdict->worst) return;
        verdict->worst = ratio;
        verdict->worst_tensor = difference->tensor;
        verdict->worst_gradient = difference->gradient;
        return;
    }
    if (!difference->count++) difference->first = j;
}

/* The elements of the second answer do not count again. */
static void judge_tensor(const AgainstCase *one, int which, const AgainstAnswer *answer,
                         TensorValues exact, TensorValues bounds, AgainstVerdict *verdict) {
    const AgainstTensor *tensor = &one->shape->tensors[which];
    const bool gradient = tensor_is_given(tensor), again = answer == &one->second;
    const double *given = gradient ? answer->gradients[which] : answer->results[which],
                 *right = exact.of[which], *bound = bounds.of[which];
    const UndecidedElements undecided = undecided_elements(tensor, right, bound);
    const size_t row = tensor->rank ? (size_t)tensor->shape[tensor->rank - 1] : 1;
    AgainstDifference difference = {.tensor = tensor,
                                    .gradient = gradient,
                                    .missing = gradient && answer->missing[which],
                                    .again = again};
    double floor = 0;
    for (size_t j = 0; j < tensor->count; j++) {
        if (j % row == 0) floor = row_bound(&undecided, bound + j, row);
        const double limit = fmax(bound[j], floor);
        const size_t before = difference.count;
        judge_element(verdict, &difference, j, bound_ratio(one->type, given[j], right[j], limit));
        if (!before && difference.count)
            difference.given = given[j], difference.exact = right[j], difference.bound = limit;
    }
    if (!again) verdict->elements += tensor->count, verdict->undecided += undecided.count;
    if (difference.count) note_difference(verdict, difference);
}

/* Results before gradients. */
static void judge_answer(const AgainstCase *one, const AgainstAnswer *answer, TensorValues exact,
                         TensorValues bounds, AgainstVerdict *verdict) {
    const int count = one->shape->count;
    for (int i = 0; i < count; i++)
        if (answer->results[i]) judge_tensor(one, i, answer, exact, bounds, verdict);
    for (int i = 0; i < count; i++) {
        if (!answer->gradients[i]) continue;
        verdict->gradients = true;
        judge_tensor(one, i, answer, exact, bounds, verdict);
    }
}

bool judge_case(const AgainstCase *one, AgainstVerdict *verdict) {
    const AgainstShape *shape = one->shape;
    TensorValues exact = values_new(shape), bounds = values_new(shape);
    *verdict = (AgainstVerdict){0};
    const bool good = run_definition(one, 0, exact) && make_bounds(one, exact, bounds);
    if (good) {
        judge_answer(one, &one->first, exact, bounds, verdict);
        if (one->second.results) judge_answer(one, &one->second, exact, bounds, verdict);
    }
    values_free(shape, exact);
    values_free(shape, bounds);
    return good;
}
