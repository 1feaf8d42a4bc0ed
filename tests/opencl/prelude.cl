/* The operations of compiler/ir/op.def that the models of this folder use, in OpenCL C. */
#define __shared__ __local
#define MOEC_OMP(...)
#define moec_barrier() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define moec_min(a, b) fmin(a, b)
#define moec_max(a, b) fmax(a, b)
#define moec_exp(x) exp(x)
#define moec_log(x) log(x)
#define moec_sqrt(x) sqrt(x)
#define moec_rsqrt(x) rsqrt(x)
#define moec_tanh(x) tanh(x)
#define moec_sigmoid(x) (1.0f / (1.0f + exp(-(x))))
#define moec_math(name) name
#define moec_square(x) ((x) * (x))
#define moec_lt(a, b) ((a) < (b) ? 1.0f : 0.0f)
#define moec_le(a, b) ((a) <= (b) ? 1.0f : 0.0f)
#define moec_and(a, b) ((a) != 0.0f && (b) != 0.0f ? 1.0f : 0.0f)
#define moec_where(condition, a, b) ((condition) != 0.0f ? (a) : (b))
#define moec_mask(condition) ((condition) ? ~0u : 0u)
#define moec_masked(x, mask) as_float(as_uint(x) & (mask))
typedef int int32_t;
