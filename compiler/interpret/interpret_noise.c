/* interpreter_noise: the same program with a perturbation of every value, or in f32.
 *
 * Rounding changes each computed value by at most half an ulp, relative to its
 * size. The effect on a result is a property of the program and its data: a sum that cancels, a
 * log-sum-exp close to zero. Runs with noise of that size measure the effect, which bounds the
 * expected deviation by rounding and by the range of floats. Integers are exact, because they are
 * not rounded and subscripts depend on them.
 */
#include "interpret/interpreter.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* A number in -1 .. 1, the same for the same value, like rounding: equal values that a program
 * computes several times have the same error. Fresh noise is that of other code, which may compute
 * them in different ways. */
static double noise_of(Interpreter *interpreter, double value) {
    uint64_t z;
    memcpy(&z, &value, sizeof z);
    if (interpreter->fresh) z = ++interpreter->noise_count;
    z = (z ^ interpreter->noise_seed) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-52 - 1;
}

/* The value as a float: no subnormals, and infinity beyond the largest number. */
static double in_range(double value) {
    if (fabs(value) < (double)FLT_MIN) return 0;
    return fabs(value) > (double)FLT_MAX ? copysign(INFINITY, value) : value;
}

void interpreter_disturb(Interpreter *interpreter, double *values, int count) {
    for (int i = 0; i < count; i++) {
        if (interpreter->single)
            values[i] = (double)(float)values[i];
        else if (values[i] != floor(values[i]))
            values[i] *= 1 + interpreter->noise * noise_of(interpreter, values[i]);
        values[i] = in_range(values[i]);
    }
}

/* A partial result of a sum. */
void interpreter_disturb_sum(Interpreter *interpreter, double *sum) {
    const double noise = interpreter->noise;
    interpreter->noise = interpreter->sum_noise;
    interpreter_disturb(interpreter, sum, 1);
    interpreter->noise = noise;
}

static void disturb_view(Interpreter *interpreter, const View *view, int dimension, double *part) {
    if (dimension == view->rank) {
        interpreter_disturb(interpreter, part, 1);
        return;
    }
    for (long i = 0; i < view->size[dimension]; i++)
        disturb_view(interpreter, view, dimension + 1, part + i * view->stride[dimension]);
}

void interpreter_disturb_results(Interpreter *interpreter, const Statement *call) {
    for (int i = 0; i < call->outputs.count; i++) {
        View view = interpreter_view(interpreter, call->outputs.items[i]);
        if (view.real) disturb_view(interpreter, &view, 0, view.real);
    }
}

/* interpreter_noise: perturbs later values by up to `share` of themselves, with numbers that depend
 * on the seed; 0: exact again. */
void interpreter_noise(Interpreter *interpreter, double share, uint64_t seed) {
    interpreter->noise = interpreter->sum_noise = share;
    interpreter->single = interpreter->fresh = false;
    interpreter->noise_seed = seed * 0x2545F4914F6CDD1Du;
}

/* interpreter_rounding: fresh noise, with another share for partial results of sums. */
void interpreter_rounding(Interpreter *interpreter, double share, double sums, uint64_t seed) {
    interpreter_noise(interpreter, share, seed);
    interpreter->sum_noise = sums;
    interpreter->fresh = true;
    interpreter->noise_count = 0;
}

/* interpreter_single: rounds later values to f32, a perturbation by up to 2^-24 of each. */
void interpreter_single(Interpreter *interpreter) {
    interpreter->noise = interpreter->sum_noise = 0x1p-24;
    interpreter->single = true;
}
