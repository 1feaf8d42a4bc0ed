/* norm: an RMS norm of `rows` vectors of `d` numbers, for `extern c` in norm.moe. A norm of one row reads it twice while it is
 * in a cache. A function returns 0; any other number refuses the sizes. */
#include <math.h>
#include <string.h>

#define EPS 1e-6f

/* The factor of a row: 1 / sqrt(mean of squares + EPS). */
static float factor_of(long d, const float *x)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (long i = 0; i < d; i++) sum += x[i] * x[i];
    return 1 / sqrtf(sum / (float)d + EPS);
}

int norm(long rows, long d, const float *x, const float *gain, float *y)
{
#pragma omp parallel for if (rows * d > 100000)
    for (long r = 0; r < rows; r++) {
        const float *from = x + r * d, factor = factor_of(d, from);
        for (long i = 0; i < d; i++) y[r * d + i] = from[i] * factor * gain[i];
    }
    return 0;
}

/* The gradients of the inputs from that of the output; it sets every element. */
int norm_gradient(long rows, long d, const float *x, const float *gain, const float *d_y, float *d_x, float *d_gain)
{
    memset(d_gain, 0, sizeof *d_gain * (unsigned long)d);
    for (long r = 0; r < rows; r++) {
        const float *from = x + r * d, *up = d_y + r * d, factor = factor_of(d, from);
        float *to = d_x + r * d, sum = 0;
#pragma omp simd reduction(+ : sum)
        for (long i = 0; i < d; i++) sum += up[i] * gain[i] * from[i];
        const float share = sum * factor * factor * factor / (float)d;
        for (long i = 0; i < d; i++) {
            to[i] = up[i] * gain[i] * factor - share * from[i];
            d_gain[i] += up[i] * from[i] * factor;
        }
    }
    return 0;
}
