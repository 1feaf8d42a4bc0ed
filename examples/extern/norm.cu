/* rms_norm: an RMS norm for `extern cuda` in norm.moe: one block of THREADS threads per row. */
#define THREADS 128
#define EPS 1e-6f

extern "C" __global__ void rms_norm(long rows, long d, const float *x, const float *gain, float *y)
{
    __shared__ float sums[THREADS];
    const float *from = x + blockIdx.x * d;
    const int thread = threadIdx.x;
    float sum = 0;
    for (long i = thread; i < d; i += THREADS) sum += from[i] * from[i];
    sums[thread] = sum;
    for (int half = THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (thread < half) sums[thread] += sums[thread + half];
    }
    __syncthreads();
    const float factor = 1 / sqrtf(sums[0] / (float)d + EPS);
    for (long i = thread; i < d; i += THREADS) y[blockIdx.x * d + i] = from[i] * factor * gain[i];
}
