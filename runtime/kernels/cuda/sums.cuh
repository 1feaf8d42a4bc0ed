/* sums: sums of squares of the chunks of a block of numbers, sums of two blocks; how far apart two
 * blocks are.
 *
 * A thread block adds up a chunk in one fixed order. Sums of a few are kept in float, sums of those
 * in double. */
#ifndef MOEC_SUMS_CUH
#define MOEC_SUMS_CUH

enum { MOEC_SUM_CHUNK = 1 << 16, MOEC_SUM_THREADS = 256 };

/* The sum over the threads of a block, in the first thread. */
static __device__ double moec_sum_block(double value, double *warps /* shared, [32] */) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(0xffffffffu, value, step);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
    __syncthreads();
    double sum = 0;
    for (unsigned i = 0; threadIdx.x == 0 && i < blockDim.x / 32; i++) sum += warps[i];
    return sum;
}

/* sums[block] = the sum of squares of its chunk. values are 16-byte aligned, count a multiple of
 * 4. */
extern "C" __global__ void moec_square_chunks(const float *values, long long count, double *sums) {
    __shared__ double warps[32];
    const float4 *fours = (const float4 *)values;
    const long long first = (long long)blockIdx.x * (MOEC_SUM_CHUNK / 4), all = count / 4;
    const long long end = first + MOEC_SUM_CHUNK / 4 < all ? first + MOEC_SUM_CHUNK / 4 : all;
    double sum = 0;
    for (long long i = first + threadIdx.x; i < end; i += blockDim.x) {
        float4 one = fours[i];
        sum += (double)(one.x * one.x + one.y * one.y + (one.z * one.z + one.w * one.w));
    }
    sum = moec_sum_block(sum, warps);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/* to = left + right, which may be one of them; count is a multiple of 4. */
extern "C" __global__ void moec_add(float *to, const float *left, const float *right,
                                    long long count) {
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count / 4;
         i += (long long)gridDim.x * blockDim.x) {
        const float4 a = ((const float4 *)left)[i], b = ((const float4 *)right)[i];
        const float4 sum = {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
        ((float4 *)to)[i] = sum;
    }
}

static __device__ float moec_number_at(const void *numbers, long long i, int rounded) {
    if (!rounded) return ((const float *)numbers)[i];
    return __uint_as_float((unsigned)((const unsigned short *)numbers)[i] << 16);
}

static __device__ double moec_largest_of_block(double value, double *warps /* shared, [32] */) {
    for (int step = 16; step > 0; step /= 2)
        value = fmax(value, __shfl_down_sync(0xffffffffu, value, step));
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
    __syncthreads();
    for (unsigned i = 1; threadIdx.x == 0 && i < blockDim.x / 32; i++)
        value = fmax(value, warps[i]);
    return value;
}

/* parts[4 block ..]: of a part of the numbers the maxima of |one| and |one - other|, the sums of
 * one^2 and (one - other)^2. A NaN on only one side is an infinite difference. rounded: the
 * operands are bf16. */
extern "C" __global__ void moec_compare(const void *one, const void *other, long long count,
                                        int rounded, double *parts) {
    __shared__ double warps[4][32];
    double largest = 0, apart = 0, squares = 0, apart_squares = 0;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count;
         i += (long long)gridDim.x * blockDim.x) {
        const double x = moec_number_at(one, i, rounded), y = moec_number_at(other, i, rounded);
        const bool equal = x == y || (x != x && y != y);
        const double difference = equal ? 0 : x - y == x - y ? fabs(x - y) : INFINITY;
        largest = fmax(largest, fabs(x)); /* which ignores NaN */
        apart = fmax(apart, difference);
        squares += x == x ? x * x : 0;
        apart_squares += difference * difference;
    }
    largest = moec_largest_of_block(largest, warps[0]);
    apart = moec_largest_of_block(apart, warps[1]);
    squares = moec_sum_block(squares, warps[2]);
    apart_squares = moec_sum_block(apart_squares, warps[3]);
    if (threadIdx.x > 0) return;
    double *part = parts + 4 * blockIdx.x;
    part[0] = largest, part[1] = apart, part[2] = squares, part[3] = apart_squares;
}

#endif
