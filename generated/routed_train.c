/* Written by moec to stand alone. Comments hold the equations and where they stand. */
/* run_train
   axes:    batch = 2, s = 32, v = 64, d = 32, block = 5, block = 4 (BLOCK_2), h = 4, e = 8, hk = 4, hv = 4,
        c = 8, n = 4, f = 48, chosen_rows = 128, chosen_groups = 5, chosen_others = 65
   inputs:  tokens[batch, s], targets[batch, s], loss_scale
   outputs: loss, balance, total, block.{i}.ffn.max_expert_load[block]
   work:    30 kernels and calls, 18 products
   memory:  598592 bytes of temporaries */
/* update: the optimizer's step of one parameter. */
/* The kernels leave out what nothing here multiplies. */
#define MOEC_ROUNDED_PRODUCTS 0
#define MOEC_BF16_OPERANDS 0
#define MOEC_INT8_OPERANDS 0
#define MOEC_BYTE_OPERANDS 0
#include "kernels.h"

/* Sizes of axes. */
enum { BATCH = 2, S = 32, D = 32, V = 64, BLOCK = 5, E = 8, BLOCK_2 = 4, H = 4, HK = 4, HV = 4, C = 8, N = 4,
        CHOSEN_ROWS = 128, CHOSEN_GROUPS = 5, CHOSEN_OTHERS = 65, F = 48, D_2 = 2 };

/* Matrix products of fixed shape: see MoecProduct in abi.h. */
static const MoecProduct moec_products[] = {
    {.m = 64, .n = 32, .k = 32, .a_m = 32, .a_k = 1, .b_k = 32, .b_n = 1, .c_m = 32,
     .batch = {1, 1}, .accumulate = 0}, /* 0: attention_q */
    {.m = 64, .n = 32, .k = 32, .a_m = 32, .a_k = 1, .b_k = 32, .b_n = 1, .c_m = 32,
     .batch = {1, 1}, .accumulate = 0}, /* 1: attention_k */
    {.m = 64, .n = 32, .k = 32, .a_m = 32, .a_k = 1, .b_k = 32, .b_n = 1, .c_m = 32,
     .batch = {1, 1}, .accumulate = 0}, /* 2: attention_v */
    {.m = 64, .n = 32, .k = 32, .a_m = 32, .a_k = 1, .b_k = 32, .b_n = 1, .c_m = 32,
     .batch = {1, 1}, .accumulate = 0}, /* 3: attention_y */
    {.m = 64, .n = 4, .k = 32, .a_m = 32, .a_k = 1, .b_k = 4, .b_n = 1, .c_m = 4,
     .batch = {1, 1}, .accumulate = 0}, /* 4: ffn_logit */
    {.m = 64, .n = 64, .k = 32, .a_m = 32, .a_k = 1, .b_k = 64, .b_n = 1, .c_m = 64,
     .batch = {1, 1}, .accumulate = 0}, /* 5: logits */
    {.m = 64, .n = 32, .k = 64, .a_m = 64, .a_k = 1, .b_k = 1, .b_n = 64, .c_m = 32,
     .batch = {1, 1}, .accumulate = 0}, /* 6: d_final_norm_y_2 */
    {.m = 32, .n = 64, .k = 64, .a_m = 1, .a_k = 32, .b_k = 64, .b_n = 1, .c_m = 64,
     .batch = {1, 1}, .accumulate = 1}, /* 7: d_unembedding */
    {.m = 32, .n = 64, .k = 64, .a_m = 1, .a_k = 32, .b_k = 64, .b_n = 1, .c_m = 64,
     .batch = {1, 1}, .accumulate = 0}, /* 8: d_unembedding */
    {.m = 64, .n = 32, .k = 4, .a_m = 4, .a_k = 1, .b_k = 1, .b_n = 4, .c_m = 32,
     .batch = {1, 1}, .accumulate = 1}, /* 9: d_ffn_norm_y_2 */
    {.m = 32, .n = 4, .k = 64, .a_m = 1, .a_k = 32, .b_k = 4, .b_n = 1, .c_m = 4,
     .batch = {1, 1}, .accumulate = 1}, /* 10: d_block_ffn_router */
    {.m = 32, .n = 4, .k = 64, .a_m = 1, .a_k = 32, .b_k = 4, .b_n = 1, .c_m = 4,
     .batch = {1, 1}, .accumulate = 0}, /* 11: d_block_ffn_router */
    {.m = 64, .n = 32, .k = 32, .a_m = 32, .a_k = 1, .b_k = 1, .b_n = 32, .c_m = 32,
     .batch = {1, 1}, .accumulate = 0}, /* 12: d_attended */
    {.m = 32, .n = 32, .k = 64, .a_m = 1, .a_k = 32, .b_k = 32, .b_n = 1, .c_m = 32,
     .batch = {1, 1}, .accumulate = 1}, /* 13: d_block_attention_output */
    {.m = 32, .n = 32, .k = 64, .a_m = 1, .a_k = 32, .b_k = 32, .b_n = 1, .c_m = 32,
     .batch = {1, 1}, .accumulate = 0}, /* 14: d_block_attention_output */
    {.m = 64, .n = 32, .k = 32, .a_m = 32, .a_k = 1, .b_k = 1, .b_n = 32, .c_m = 32,
     .batch = {1, 1}, .accumulate = 0}, /* 15: d_attention_norm_y_2 */
    {.m = 32, .n = 32, .k = 64, .a_m = 1, .a_k = 32, .b_k = 32, .b_n = 1, .c_m = 32,
     .batch = {1, 1}, .accumulate = 1}, /* 16: d_block_attention_value */
    {.m = 32, .n = 32, .k = 64, .a_m = 1, .a_k = 32, .b_k = 32, .b_n = 1, .c_m = 32,
     .batch = {1, 1}, .accumulate = 0}, /* 17: d_block_attention_value */
    {.m = 64, .n = 32, .k = 32, .a_m = 32, .a_k = 1, .b_k = 1, .b_n = 32, .c_m = 32,
     .batch = {1, 1}, .accumulate = 1}, /* 18: d_attention_norm_y_2 */
    {.m = 32, .n = 32, .k = 64, .a_m = 1, .a_k = 32, .b_k = 32, .b_n = 1, .c_m = 32,
     .batch = {1, 1}, .accumulate = 1}, /* 19: d_block_attention_key */
    {.m = 32, .n = 32, .k = 64, .a_m = 1, .a_k = 32, .b_k = 32, .b_n = 1, .c_m = 32,
     .batch = {1, 1}, .accumulate = 0}, /* 20: d_block_attention_key */
    {.m = 64, .n = 32, .k = 32, .a_m = 32, .a_k = 1, .b_k = 1, .b_n = 32, .c_m = 32,
     .batch = {1, 1}, .accumulate = 1}, /* 21: d_attention_norm_y_2 */
    {.m = 32, .n = 32, .k = 64, .a_m = 1, .a_k = 32, .b_k = 32, .b_n = 1, .c_m = 32,
     .batch = {1, 1}, .accumulate = 1}, /* 22: d_block_attention_query */
    {.m = 32, .n = 32, .k = 64, .a_m = 1, .a_k = 32, .b_k = 32, .b_n = 1, .c_m = 32,
     .batch = {1, 1}, .accumulate = 0}, /* 23: d_block_attention_query */
};

/* x[b,s,d] = embedding[tokens[b,s],d]   -- std/decoder.moe:79
   x_2[0,b,s,d] = x[b,s,d]   -- std/decoder.moe:118
   balance[0] = 0   -- std/moe.moe:125
   query_rotary_angle_table[e] = 10000 ^ (-2 * (e % 4) / 8)   -- std/rotary.moe:18
   query_rotary_angle_2[s,e] = s * query_rotary_angle_table[e]   -- std/rotary.moe:18
   query_rotary_cosine[s,e] = cos(query_rotary_angle_2[s,e])   -- std/rotary.moe:24
   query_rotary_sine[s,e] = where(e < 4, -1, 1) * sin(query_rotary_angle_2[s,e])   -- std/rotary.moe:25 */
static void kernel_train_0_query_rotary_sine(const int32_t *restrict tokens, const float *restrict embedding,
        float *restrict x_2, float *restrict query_rotary_cosine, float *restrict query_rotary_sine,
        float *restrict balance)
{
    double query_rotary_angle_table[8];
    for (long b = 0; b < BATCH; b++) {
        for (long s = 0; s < S; s++) {
            const long tokens_at = (long)tokens[b * S + s];
            MOEC_OMP(simd)
            for (long d = 0; d < D; d++) {
                float x = embedding[tokens_at * D + d];
                x_2[(b * S + s) * D + d] = x;
            }
        }
    }
    balance[0] = 0.0f;
    MOEC_OMP(simd)
    for (long e = 0; e < E; e++) {
        query_rotary_angle_table[e] = moec_math(pow)(10000.0, (double)(-2 * (e % 4)) / 8.0);
    }
    for (long s = 0; s < S; s++) {
        MOEC_OMP(simd)
        for (long e = 0; e < E; e++) {
            double query_rotary_angle_2 = (double)s * query_rotary_angle_table[e];
            query_rotary_cosine[s * E + e] = (float)moec_math(cos)(query_rotary_angle_2);
            query_rotary_sine[s * E + e] = (float)((e < 4 ? -1.0 : 1.0)
                    * moec_math(sin)(query_rotary_angle_2));
        }
    }
}

/* attention_norm_sum_of_squares[i,b,s] = sum[d] x_2[i,b,s,d] * x_2[i,b,s,d]   -- std/norms.moe:9
   attention_norm_root[b,s] = rsqrt(attention_norm_sum_of_squares[i,b,s] * 0.03125 + 1e-06)
          -- std/norms.moe:9
   attention_norm_y[b,s,d] = x_2[i,b,s,d] * attention_norm_root[b,s]   -- std/norms.moe:10
   attention_norm_y_2[b,s,d] = attention_norm_y[b,s,d] * block_attention_norm_weight[i,d]
          -- std/norms.moe:13 */
static void kernel_train_1_attention_norm_y_2(long i, const float *restrict x_2,
        float *restrict attention_norm_sum_of_squares, const float *restrict block_attention_norm_weight,
        float *restrict attention_norm_y_2)
{
    for (long b = 0; b < BATCH; b++) {
        for (long s = 0; s < S; s++) {
            float attention_norm_sum_of_squares_sum = 0.0f;
            MOEC_OMP(simd reduction(+:attention_norm_sum_of_squares_sum))
            for (long d = 0; d < D; d++) {
                const float x_2_at = x_2[((i * BATCH + b) * S + s) * D + d];
                attention_norm_sum_of_squares_sum += x_2_at * x_2_at;
            }
            float attention_norm_sum_of_squares_now = attention_norm_sum_of_squares_sum;
            attention_norm_sum_of_squares[(i * BATCH + b) * S + s] = attention_norm_sum_of_squares_now;
            float attention_norm_root = moec_rsqrt(attention_norm_sum_of_squares_now * 0.03125f + 1e-06f);
            MOEC_OMP(simd)
            for (long d = 0; d < D; d++) {
                float attention_norm_y = x_2[((i * BATCH + b) * S + s) * D + d] * attention_norm_root;
                attention_norm_y_2[(b * S + s) * D + d] = attention_norm_y
                        * block_attention_norm_weight[i * D + d];
            }
        }
    }
}

/* query_rotary_y[i,b,s,h,e] = attention_q[b,s,h,e] * query_rotary_cosine[s,e]
        + attention_q[b,s,h,(e + 4) % 8] * query_rotary_sine[s,e]   -- std/rotary.moe:31
   key_rotary_y[i,b,s,h,e] = attention_k[b,s,h,e] * query_rotary_cosine[s,e]
        + attention_k[b,s,h,(e + 4) % 8] * query_rotary_sine[s,e]   -- std/rotary.moe:31 */
static void kernel_train_2_key_rotary_y(long i, const float *restrict attention_q,
        const float *restrict attention_k, const float *restrict query_rotary_cosine,
        const float *restrict query_rotary_sine, float *restrict query_rotary_y, float *restrict key_rotary_y)
{
    MOEC_OMP(parallel for schedule(static))
    for (long iteration = 0; iteration < 256; iteration++) {
        const long b = iteration / 128;
        const long s = iteration / 4 % S;
        const long h = iteration % H;
        MOEC_OMP(simd)
        for (long e = 0; e < E; e++) {
            const float query_rotary_cosine_at = query_rotary_cosine[s * E + e];
            const float query_rotary_sine_at = query_rotary_sine[s * E + e];
            query_rotary_y[(((i * BATCH + b) * S + s) * H + h) * E + e] =
                    attention_q[((b * S + s) * H + h) * E + e] * query_rotary_cosine_at
                    + attention_q[((b * S + s) * H + h) * E + (e + 4) % 8] * query_rotary_sine_at;
            key_rotary_y[(((i * BATCH + b) * S + s) * HK + h) * E + e] =
                    attention_k[((b * S + s) * HK + h) * E + e] * query_rotary_cosine_at
                    + attention_k[((b * S + s) * HK + h) * E + (e + 4) % 8] * query_rotary_sine_at;
        }
    }
}

static const MoecAttend moec_options_train_3 = {
    .batch = 2, .queries = 32, .keys = 32, .places = 32,
    .mask = MOEC_MASK_CAUSAL, .window = 0, .heads = 4, .key_heads = 4,
    .value_heads = 4, .width = 8, .value_width = 8,
    .scale = 0.353553391f, .cap = 0.0f, .best = 0,
};

/* x_3[i,b,s,d] = x_2[i,b,s,d] + attention_y[b,s,d]   -- std/decoder.moe:113
   ffn_norm_sum_of_squares[i,b,s] = sum[d] x_3[i,b,s,d] * x_3[i,b,s,d]   -- std/norms.moe:9
   ffn_norm_root[b,s] = rsqrt(ffn_norm_sum_of_squares[i,b,s] * 0.03125 + 1e-06)   -- std/norms.moe:9
   ffn_norm_y[b,s,d] = x_3[i,b,s,d] * ffn_norm_root[b,s]   -- std/norms.moe:10
   ffn_norm_y_2[b,s,d] = ffn_norm_y[b,s,d] * block_ffn_norm_weight[i,d]   -- std/norms.moe:13 */
static void kernel_train_4_ffn_norm_y_2(long i, const float *restrict x_2, const float *restrict attention_y,
        float *restrict x_3, float *restrict ffn_norm_sum_of_squares,
        const float *restrict block_ffn_norm_weight, float *restrict ffn_norm_y_2)
{
    MOEC_OMP(parallel for schedule(static))
    for (long iteration = 0; iteration < 64; iteration++) {
        const long b = iteration / 32;
        const long s = iteration % S;
        float ffn_norm_sum_of_squares_sum = 0.0f;
        MOEC_OMP(simd reduction(+:ffn_norm_sum_of_squares_sum))
        for (long d = 0; d < D; d++) {
            x_3[((i * BATCH + b) * S + s) * D + d] = x_2[((i * BATCH + b) * S + s) * D + d]
                    + attention_y[(b * S + s) * D + d];
            const float x_3_at = x_3[((i * BATCH + b) * S + s) * D + d];
            ffn_norm_sum_of_squares_sum += x_3_at * x_3_at;
        }
        float ffn_norm_sum_of_squares_now = ffn_norm_sum_of_squares_sum;
        ffn_norm_sum_of_squares[(i * BATCH + b) * S + s] = ffn_norm_sum_of_squares_now;
        float ffn_norm_root = moec_rsqrt(ffn_norm_sum_of_squares_now * 0.03125f + 1e-06f);
        MOEC_OMP(simd)
        for (long d = 0; d < D; d++) {
            float ffn_norm_y = x_3[((i * BATCH + b) * S + s) * D + d] * ffn_norm_root;
            ffn_norm_y_2[(b * S + s) * D + d] = ffn_norm_y * block_ffn_norm_weight[i * D + d];
        }
    }
}

/* ffn_largest[b,s] = max[n] ffn_logit[b,s,n]   -- std/moe.moe:69
   ffn_value[i,b,s,n] = exp(ffn_logit[b,s,n] - stop_gradient(ffn_largest[b,s]))   -- std/moe.moe:69
   ffn_total[i,b,s] = sum[n] ffn_value[i,b,s,n]   -- std/moe.moe:69
   ffn_p[b,s,n] = ffn_value[i,b,s,n] / ffn_total[i,b,s]   -- std/moe.moe:69 */
static void kernel_train_5_ffn_p(long i, const float *restrict ffn_logit, float *restrict ffn_value,
        float *restrict ffn_total, float *restrict ffn_p)
{
    for (long b = 0; b < BATCH; b++) {
        for (long s = 0; s < S; s++) {
            float ffn_largest = -INFINITY;
            MOEC_OMP(simd reduction(max:ffn_largest))
            for (long n = 0; n < N; n++) {
                ffn_largest = moec_max(ffn_largest, ffn_logit[(b * S + s) * N + n]);
            }
            float ffn_total_sum = 0.0f;
            MOEC_OMP(simd reduction(+:ffn_total_sum))
            for (long n = 0; n < N; n++) {
                ffn_value[((i * BATCH + b) * S + s) * N + n] =
                        moec_exp(ffn_logit[(b * S + s) * N + n] - ffn_largest);
                ffn_total_sum += ffn_value[((i * BATCH + b) * S + s) * N + n];
            }
            float ffn_total_now = ffn_total_sum;
            ffn_total[(i * BATCH + b) * S + s] = ffn_total_now;
            MOEC_OMP(simd)
            for (long n = 0; n < N; n++) {
                ffn_p[(b * S + s) * N + n] = ffn_value[((i * BATCH + b) * S + s) * N + n] / ffn_total_now;
            }
        }
    }
}

static const MoecPack moec_options_train_6 = {
    .rank = 3, .shape = {2, 32, 4}, .key = {0, 0, 1}, .rows = 128,
};

/* ffn_total_2[n] = sum[b,s] chosen[i,b,s,n] / 2   -- std/moe.moe:93
   ffn_load[i,n] = ffn_total_2[n] * 0.015625   -- std/moe.moe:93
   ffn_total_3[i,b,s] = sum[n] chosen[i,b,s,n] * ffn_p[b,s,n]   -- std/moe.moe:101
   ffn_weight[b,s,n] = ffn_p[b,s,n] / where(ffn_total_3[i,b,s] > 0, ffn_total_3[i,b,s], 1)
          -- std/moe.moe:102
   ffn_y[b,s,d] = 0   -- std/moe.moe:109 */
static void kernel_train_7_ffn_y(long i, const float *restrict ffn_p, const float *restrict chosen,
        float *restrict ffn_load, float *restrict ffn_total_3, float *restrict ffn_weight,
        float *restrict ffn_y)
{
    float ffn_total_2[4];
    float ffn_total_2_sum[4] = {0.0f};
    for (long b = 0; b < BATCH; b++) {
        float ffn_total_2_part[4] = {0.0f};
        for (long s = 0; s < S; s += 4) {
            MOEC_OMP(simd)
            for (long n = 0; n < N; n++) {
                ffn_total_2_part[n] += chosen[((i * BATCH + b) * S + s) * N + n] / 2.0f;
                ffn_total_2_part[n] += chosen[((i * BATCH + b) * S + (s + 1)) * N + n] / 2.0f;
                ffn_total_2_part[n] += chosen[((i * BATCH + b) * S + (s + 2)) * N + n] / 2.0f;
                ffn_total_2_part[n] += chosen[((i * BATCH + b) * S + (s + 3)) * N + n] / 2.0f;
            }
        }
        for (int j = 0; j < 4; j++) ffn_total_2_sum[j] += ffn_total_2_part[j];
    }
    for (long n = 0; n < N; n++) {
        ffn_total_2[n] = ffn_total_2_sum[n];
    }
    MOEC_OMP(simd)
    for (long n = 0; n < N; n++) {
        ffn_load[i * N + n] = ffn_total_2[n] * 0.015625f;
    }
    for (long b = 0; b < BATCH; b++) {
        for (long s = 0; s < S; s++) {
            float ffn_total_3_sum = 0.0f;
            MOEC_OMP(simd reduction(+:ffn_total_3_sum))
            for (long n = 0; n < N; n++) {
                ffn_total_3_sum += chosen[((i * BATCH + b) * S + s) * N + n] * ffn_p[(b * S + s) * N + n];
            }
            float ffn_total_3_now = ffn_total_3_sum;
            ffn_total_3[(i * BATCH + b) * S + s] = ffn_total_3_now;
            const float fixed = moec_where(moec_lt(0.0f, ffn_total_3_now), ffn_total_3_now, 1.0f);
            MOEC_OMP(simd)
            for (long n = 0; n < N; n++) {
                ffn_weight[(b * S + s) * N + n] = ffn_p[(b * S + s) * N + n] / fixed;
            }
            MOEC_OMP(simd)
            for (long d = 0; d < D; d++) {
                ffn_y[(b * S + s) * D + d] = 0.0f;
            }
        }
    }
}

/* act_y[r,f] = expert_gate_product[i,r,f] * sigmoid(expert_gate_product[i,r,f])
          -- std/activations.moe:19 */
static void kernel_train_8_act_y(long i, const float *restrict expert_gate_product, float *restrict act_y)
{
    MOEC_OMP(parallel for schedule(static))
    for (long iteration = 0; iteration < 128; iteration++) {
        const long r = iteration;
        MOEC_OMP(simd)
        for (long f = 0; f < F; f++) {
            const float expert_gate_product_at = expert_gate_product[(i * CHOSEN_ROWS + r) * F + f];
            act_y[r * F + f] = expert_gate_product_at * moec_sigmoid(expert_gate_product_at);
        }
    }
}

/* expert_h[r,f] = act_y[r,f] * expert_up_product[i,r,f]   -- std/mlp.moe:57
   expert_h_weighed[r,f] = ffn_weight[chosen_batch[r],chosen_s[r],chosen_n[r]] * expert_h[r,f]
          -- std/moe.moe:109 */
static void kernel_train_9_expert_h_weighed(long i, const float *restrict ffn_weight,
        const float *restrict act_y, const float *restrict expert_up_product,
        float *restrict expert_h_weighed, const int32_t *restrict chosen_batch,
        const int32_t *restrict chosen_s, const int32_t *restrict chosen_n)
{
    MOEC_OMP(parallel for schedule(static))
    for (long iteration = 0; iteration < 128; iteration++) {
        const long r = iteration;
        const long chosen_batch_at = (long)chosen_batch[r];
        const long chosen_s_at = (long)chosen_s[r];
        const long chosen_n_at = (long)chosen_n[r];
        const float ffn_weight_at = ffn_weight[(chosen_batch_at * S + chosen_s_at) * N + chosen_n_at];
        MOEC_OMP(simd)
        for (long f = 0; f < F; f++) {
            float expert_h = act_y[r * F + f] * expert_up_product[(i * CHOSEN_ROWS + r) * F + f];
            expert_h_weighed[r * F + f] = ffn_weight_at * expert_h;
        }
    }
}

/* ffn_y[chosen_batch[r],chosen_s[r],d] += expert_y[r,d]   -- std/moe.moe:109
   ffn_total_4[n] = sum[b,s] ffn_p[b,s,n]   -- std/moe.moe:125
   ffn_product_3 = sum[n] stop_gradient(ffn_load[i,n]) * (ffn_total_4[n] * 0.015625)   -- std/moe.moe:125
   ffn_largest_2 = max[n] ffn_load[i,n]   -- std/moe.moe:129
   ffn_max_expert_load[i] = 4 * ffn_largest_2   -- std/moe.moe:129
   x_2[i + 1,b,s,d] = x_3[i,b,s,d] + ffn_y[b,s,d]   -- std/decoder.moe:118
   balance[i + 1] = balance[i] + 0.04 * ffn_product_3   -- std/moe.moe:125 */
static void kernel_train_10_balance(long i, float *restrict x_2, const float *restrict x_3,
        const float *restrict ffn_p, const float *restrict ffn_load, const float *restrict expert_y,
        float *restrict ffn_y, float *restrict ffn_max_expert_load, float *restrict balance,
        const int32_t *restrict chosen_batch, const int32_t *restrict chosen_s,
        const int32_t *restrict chosen_start, const int32_t *restrict chosen_list)
{
    float ffn_total_4[4];
    for (long place = 0; place < 64; place++) {
        for (long n = chosen_start[place]; n < chosen_start[place + 1]; n++) {
            const long r = chosen_list[n];
            MOEC_OMP(simd)
            for (long d = 0; d < D; d++) {
                ffn_y[((long)chosen_batch[r] * S + (long)chosen_s[r]) * D + d] += expert_y[r * D + d];
            }
        }
    }
    float ffn_total_4_sum[4] = {0.0f};
    for (long b = 0; b < BATCH; b++) {
        float ffn_total_4_part[4] = {0.0f};
        for (long s = 0; s < S; s += 4) {
            MOEC_OMP(simd)
            for (long n = 0; n < N; n++) {
                ffn_total_4_part[n] += ffn_p[(b * S + s) * N + n];
                ffn_total_4_part[n] += ffn_p[(b * S + (s + 1)) * N + n];
                ffn_total_4_part[n] += ffn_p[(b * S + (s + 2)) * N + n];
                ffn_total_4_part[n] += ffn_p[(b * S + (s + 3)) * N + n];
            }
        }
        for (int j = 0; j < 4; j++) ffn_total_4_sum[j] += ffn_total_4_part[j];
    }
    for (long n = 0; n < N; n++) {
        ffn_total_4[n] = ffn_total_4_sum[n];
    }
    float ffn_product_3 = 0.0f;
    float ffn_largest_2 = -INFINITY;
    MOEC_OMP(simd reduction(+:ffn_product_3) reduction(max:ffn_largest_2))
    for (long n = 0; n < N; n++) {
        const float ffn_load_at = ffn_load[i * N + n];
        ffn_product_3 += ffn_load_at * (ffn_total_4[n] * 0.015625f);
        ffn_largest_2 = moec_max(ffn_largest_2, ffn_load_at);
    }
    ffn_max_expert_load[i] = 4.0f * ffn_largest_2;
    for (long b = 0; b < BATCH; b++) {
        for (long s = 0; s < S; s++) {
            MOEC_OMP(simd)
            for (long d = 0; d < D; d++) {
                x_2[(((i + 1) * BATCH + b) * S + s) * D + d] = x_3[((i * BATCH + b) * S + s) * D + d]
                        + ffn_y[(b * S + s) * D + d];
            }
        }
    }
    balance[(i + 1) & 1] = balance[i & 1] + 0.04f * ffn_product_3;
}

/* final_norm_sum_of_squares[b,s] = sum[d] x_2[4,b,s,d] * x_2[4,b,s,d]   -- std/norms.moe:9
   final_norm_root[b,s] = rsqrt(final_norm_sum_of_squares[b,s] * 0.03125 + 1e-06)   -- std/norms.moe:9
   final_norm_y[b,s,d] = x_2[4,b,s,d] * final_norm_root[b,s]   -- std/norms.moe:10
   final_norm_y_2[b,s,d] = final_norm_y[b,s,d] * final_norm_weight[d]   -- std/norms.moe:13 */
static void kernel_train_11_final_norm_y_2(const float *restrict x_2,
        float *restrict final_norm_sum_of_squares, float *restrict final_norm_root,
        float *restrict final_norm_y, const float *restrict final_norm_weight, float *restrict final_norm_y_2)
{
    for (long b = 0; b < BATCH; b++) {
        for (long s = 0; s < S; s++) {
            float final_norm_sum_of_squares_sum = 0.0f;
            MOEC_OMP(simd reduction(+:final_norm_sum_of_squares_sum))
            for (long d = 0; d < D; d++) {
                const float x_2_at = x_2[((4 * BATCH + b) * S + s) * D + d];
                final_norm_sum_of_squares_sum += x_2_at * x_2_at;
            }
            float final_norm_sum_of_squares_now = final_norm_sum_of_squares_sum;
            final_norm_sum_of_squares[b * S + s] = final_norm_sum_of_squares_now;
            float final_norm_root_now = moec_rsqrt(final_norm_sum_of_squares_now * 0.03125f + 1e-06f);
            final_norm_root[b * S + s] = final_norm_root_now;
            MOEC_OMP(simd)
            for (long d = 0; d < D; d++) {
                float final_norm_y_now = x_2[((4 * BATCH + b) * S + s) * D + d] * final_norm_root_now;
                final_norm_y[(b * S + s) * D + d] = final_norm_y_now;
                final_norm_y_2[(b * S + s) * D + d] = final_norm_y_now * final_norm_weight[d];
            }
        }
    }
}

/* largest[b,s] = max[v] logits[b,s,v]   -- std/decoder.moe:132
   sum_of_powers[b,s] = sum[v] exp(logits[b,s,v] - stop_gradient(largest[b,s]))   -- std/decoder.moe:132 */
static void kernel_train_12_sum_of_powers(const float *restrict logits, float *restrict largest,
        float *restrict sum_of_powers)
{
    MOEC_OMP(parallel for schedule(static))
    for (long iteration = 0; iteration < 64; iteration++) {
        const long b = iteration / 32;
        const long s = iteration % S;
        float largest_sum = -INFINITY;
        MOEC_OMP(simd reduction(max:largest_sum))
        for (long v = 0; v < V; v++) {
            largest_sum = moec_max(largest_sum, logits[(b * S + s) * V + v]);
        }
        float largest_now = largest_sum;
        largest[b * S + s] = largest_now;
        float sum_of_powers_sum = 0.0f;
        MOEC_OMP(simd reduction(+:sum_of_powers_sum))
        for (long v = 0; v < V; v++) {
            sum_of_powers_sum += moec_exp(logits[(b * S + s) * V + v] - largest_now);
        }
        sum_of_powers[b * S + s] = sum_of_powers_sum;
    }
}

/* total = sum[b,s] (stop_gradient(largest[b,s]) + log(sum_of_powers[b,s]) - logits[b,s,targets[b,s]])
          -- std/decoder.moe:132
   loss = total * 0.015625   -- std/decoder.moe:132
   balance_2 = balance[4]   -- std/moe.moe:125
   total_2 = total * 0.015625 + balance_2   -- std/decoder.moe:132
   d_total_3 = loss_scale * 0.015625   -- std/decoder.moe:132
   d_sum_of_powers[b,s] = d_total_3 * (1 / sum_of_powers[b,s])   -- std/decoder.moe:132
   d_logits[b,s,v] = d_sum_of_powers[b,s] * exp(logits[b,s,v] - stop_gradient(largest[b,s]))
          -- std/decoder.moe:127
   d_logits[b,s,targets[b,s]] += -d_total_3   -- std/decoder.moe:132 */
static void kernel_train_13_d_logits(const int32_t *restrict targets, const float *restrict balance,
        const float *restrict logits, const float *restrict largest, const float *restrict sum_of_powers,
        float *restrict loss, float *restrict balance_2, float *restrict total_2,
        const float *restrict loss_scale, float *restrict d_logits)
{
    const float loss_scale_at = loss_scale[0];
    float total_parts[2];
    MOEC_OMP(parallel for schedule(static))
    for (long chunk = 0; chunk < 2; chunk++) {
        float total_sum = 0.0f;
        const long b_to = (chunk + 1) * 1 < BATCH ? (chunk + 1) * 1 : BATCH;
        for (long b = chunk * 1; b < b_to; b++) {
            float total_part = 0.0f;
            MOEC_OMP(simd reduction(+:total_part))
            for (long s = 0; s < S; s++) {
                const long targets_at = (long)targets[b * S + s];
                total_part += largest[b * S + s] + moec_log(sum_of_powers[b * S + s])
                        - logits[(b * S + s) * V + targets_at];
            }
            total_sum += total_part;
        }
        total_parts[chunk] = total_sum;
    }
    float total = 0.0f;
    for (long chunk = 0; chunk < 2; chunk++) {
        total += total_parts[chunk];
    }
    loss[0] = total * 0.015625f;
    float balance_2_now = balance[0];
    balance_2[0] = balance_2_now;
    total_2[0] = total * 0.015625f + balance_2_now;
    float d_total_3 = loss_scale_at * 0.015625f;
    MOEC_OMP(parallel for schedule(static))
    for (long iteration = 0; iteration < 64; iteration++) {
        const long b = iteration / 32;
        const long s = iteration % S;
        const long targets_at = (long)targets[b * S + s];
        float d_sum_of_powers = d_total_3 * (1.0f / sum_of_powers[b * S + s]);
        const float largest_at = largest[b * S + s];
        MOEC_OMP(simd)
        for (long v = 0; v < V; v++) {
            d_logits[(b * S + s) * V + v] = d_sum_of_powers
                    * moec_exp(logits[(b * S + s) * V + v] - largest_at);
        }
        d_logits[(b * S + s) * V + targets_at] += -d_total_3;
    }
}

/* d_final_norm_weight[d] += sum[b,s] d_final_norm_y_2[b,s,d] * final_norm_y[b,s,d]   -- std/norms.moe:13
   d_final_norm_y_3[b,s,d] = d_final_norm_y_2[b,s,d] * final_norm_weight[d]   -- std/norms.moe:10
   d_final_norm_root[b,s] = sum[d] d_final_norm_y_3[b,s,d] * x_2[4,b,s,d]   -- std/norms.moe:10
   d_final_norm_sum_of_squares[b,s] = d_final_norm_root[b,s]
        * (-0.5 * final_norm_root[b,s] / (final_norm_sum_of_squares[b,s] * 0.03125 + 1e-06)) * 0.03125
          -- std/norms.moe:9 */
static void kernel_train_14_d_final_norm_sum_of_squares(const float *restrict x_2,
        const float *restrict final_norm_sum_of_squares, const float *restrict final_norm_root,
        const float *restrict final_norm_y, const float *restrict final_norm_weight,
        const float *restrict d_final_norm_y_2, float *restrict d_final_norm_y_3,
        float *restrict d_final_norm_weight, float *restrict d_final_norm_sum_of_squares)
{
    float d_final_norm_weight_sum[32] = {0.0f};
    for (long b = 0; b < BATCH; b++) {
        float d_final_norm_weight_part[32] = {0.0f};
        for (long s = 0; s < S; s++) {
            float d_final_norm_root = 0.0f;
            MOEC_OMP(simd reduction(+:d_final_norm_root))
            for (long d = 0; d < D; d++) {
                const float d_final_norm_y_2_at = d_final_norm_y_2[(b * S + s) * D + d];
                d_final_norm_weight_part[d] += d_final_norm_y_2_at * final_norm_y[(b * S + s) * D + d];
                float d_final_norm_y_3_now = d_final_norm_y_2_at * final_norm_weight[d];
                d_final_norm_y_3[(b * S + s) * D + d] = d_final_norm_y_3_now;
                d_final_norm_root += d_final_norm_y_3_now * x_2[((4 * BATCH + b) * S + s) * D + d];
            }
            d_final_norm_sum_of_squares[b * S + s] = d_final_norm_root
                    * (-0.5f * final_norm_root[b * S + s]
                    / (final_norm_sum_of_squares[b * S + s] * 0.03125f + 1e-06f)) * 0.03125f;
        }
        for (int j = 0; j < 32; j++) d_final_norm_weight_sum[j] += d_final_norm_weight_part[j];
    }
    for (long d = 0; d < D; d++) {
        d_final_norm_weight[d] += d_final_norm_weight_sum[d];
    }
}

/* d_x_2[4,b,s,d] = d_final_norm_y_3[b,s,d] * final_norm_root[b,s]
        + d_final_norm_sum_of_squares[b,s] * (x_2[4,b,s,d] + x_2[4,b,s,d])   -- std/decoder.moe:118
   d_balance_3[4] = loss_scale   -- std/moe.moe:125 */
static void kernel_train_15_d_balance_3(const float *restrict x_2, const float *restrict final_norm_root,
        const float *restrict loss_scale, float *restrict d_balance_3,
        const float *restrict d_final_norm_y_3, float *restrict d_x_2,
        const float *restrict d_final_norm_sum_of_squares)
{
    const float loss_scale_at = loss_scale[0];
    for (long b = 0; b < BATCH; b++) {
        for (long s = 0; s < S; s++) {
            const float final_norm_root_at = final_norm_root[b * S + s];
            const float d_final_norm_sum_of_squares_at = d_final_norm_sum_of_squares[b * S + s];
            MOEC_OMP(simd)
            for (long d = 0; d < D; d++) {
                const float x_2_at = x_2[((4 * BATCH + b) * S + s) * D + d];
                d_x_2[(b * S + s) * D + d] = d_final_norm_y_3[(b * S + s) * D + d] * final_norm_root_at
                        + d_final_norm_sum_of_squares_at * (x_2_at + x_2_at);
            }
        }
    }
    d_balance_3[0] = loss_scale_at;
}

static const MoecPack moec_options_train_16 = {
    .rank = 3, .shape = {2, 32, 4}, .key = {0, 0, 1}, .rows = 128,
};

/* d_ffn_product_3 = d_balance_3[i + 1] * 0.04   -- std/moe.moe:125
   d_ffn_total_4[n] = d_ffn_product_3 * stop_gradient(ffn_load[i,n]) * 0.015625   -- std/moe.moe:125 */
static void kernel_train_17_d_ffn_total_4(long i, const float *restrict ffn_load,
        const float *restrict d_balance_3, float *restrict d_ffn_total_4)
{
    float d_ffn_product_3 = d_balance_3[(i + 1) & 1] * 0.04f;
    MOEC_OMP(simd)
    for (long n = 0; n < N; n++) {
        d_ffn_total_4[n] = d_ffn_product_3 * ffn_load[i * N + n] * 0.015625f;
    }
}

/* act_y_again[r,f] = expert_gate_product[i,r,f] * sigmoid(expert_gate_product[i,r,f])
          -- std/activations.moe:19
   expert_h_again[r,f] = act_y_again[r,f] * expert_up_product[i,r,f]   -- std/mlp.moe:57 */
static void kernel_train_18_expert_h_again(long i, const float *restrict expert_gate_product,
        const float *restrict expert_up_product, float *restrict act_y_again, float *restrict expert_h_again)
{
    MOEC_OMP(parallel for schedule(static))
    for (long iteration = 0; iteration < 128; iteration++) {
        const long r = iteration;
        MOEC_OMP(simd)
        for (long f = 0; f < F; f++) {
            const float expert_gate_product_at = expert_gate_product[(i * CHOSEN_ROWS + r) * F + f];
            float act_y_again_now = expert_gate_product_at * moec_sigmoid(expert_gate_product_at);
            act_y_again[r * F + f] = act_y_again_now;
            expert_h_again[r * F + f] = act_y_again_now * expert_up_product[(i * CHOSEN_ROWS + r) * F + f];
        }
    }
}

/* ffn_p_again[b,s,n] = ffn_value[i,b,s,n] / ffn_total[i,b,s]   -- std/moe.moe:69
   ffn_weight_again[b,s,n] = ffn_p_again[b,s,n] / where(ffn_total_3[i,b,s] > 0, ffn_total_3[i,b,s], 1)
          -- std/moe.moe:102
   d_ffn_norm_y_2[b,s,d] = 0   -- std/mlp.moe:57 */
static void kernel_train_19_d_ffn_norm_y_2(long i, const float *restrict ffn_value,
        const float *restrict ffn_total, const float *restrict ffn_total_3, float *restrict d_ffn_norm_y_2,
        float *restrict ffn_p_again, float *restrict ffn_weight_again)
{
    for (long b = 0; b < BATCH; b++) {
        for (long s = 0; s < S; s++) {
            const float ffn_total_at = ffn_total[(i * BATCH + b) * S + s];
            const float ffn_total_3_at = ffn_total_3[(i * BATCH + b) * S + s];
            const float fixed = moec_where(moec_lt(0.0f, ffn_total_3_at), ffn_total_3_at, 1.0f);
            MOEC_OMP(simd)
            for (long n = 0; n < N; n++) {
                float ffn_p_again_now = ffn_value[((i * BATCH + b) * S + s) * N + n] / ffn_total_at;
                ffn_p_again[(b * S + s) * N + n] = ffn_p_again_now;
                ffn_weight_again[(b * S + s) * N + n] = ffn_p_again_now / fixed;
            }
            MOEC_OMP(simd)
            for (long d = 0; d < D; d++) {
                d_ffn_norm_y_2[(b * S + s) * D + d] = 0.0f;
            }
        }
    }
}

/* expert_h_weighed_again[r,f] = ffn_weight_again[chosen_batch_2[r],chosen_s_2[r],chosen_n_2[r]]
        * expert_h_again[r,f]   -- std/moe.moe:109
   d_ffn_weight[r] = sum[f] d_expert_h_weighed[r,f] * expert_h_again[r,f]   -- std/moe.moe:109
   d_expert_h[r,f] = d_expert_h_weighed[r,f]
        * ffn_weight_again[chosen_batch_2[r],chosen_s_2[r],chosen_n_2[r]]   -- std/mlp.moe:57
   d_expert_up_product[r,f] = d_expert_h[r,f] * act_y_again[r,f]   -- std/mlp.moe:57
   d_act_y[r,f] = d_expert_h[r,f] * expert_up_product[i,r,f]   -- std/activations.moe:19
   d_expert_gate_product[r,f] = d_act_y[r,f]
        * (sigmoid(expert_gate_product[i,r,f])
        + expert_gate_product[i,r,f] * (sigmoid(expert_gate_product[i,r,f])
        * (1 - sigmoid(expert_gate_product[i,r,f]))))   -- std/mlp.moe:57 */
static void kernel_train_20_d_expert_gate_product(long i, const float *restrict expert_gate_product,
        const float *restrict expert_up_product, const float *restrict d_expert_h_weighed,
        float *restrict d_ffn_weight, float *restrict d_expert_up_product,
        float *restrict d_expert_gate_product, const float *restrict ffn_weight_again,
        const float *restrict act_y_again, const float *restrict expert_h_again,
        float *restrict expert_h_weighed_again, const int32_t *restrict chosen_batch_2,
        const int32_t *restrict chosen_s_2, const int32_t *restrict chosen_n_2)
{
    MOEC_OMP(parallel for schedule(static))
    for (long iteration = 0; iteration < 128; iteration++) {
        const long r = iteration;
        const long chosen_batch_2_at = (long)chosen_batch_2[r];
        const long chosen_s_2_at = (long)chosen_s_2[r];
        const long chosen_n_2_at = (long)chosen_n_2[r];
        float d_ffn_weight_sum = 0.0f;
        const float ffn_weight_again_at = ffn_weight_again[(chosen_batch_2_at * S + chosen_s_2_at) * N
                + chosen_n_2_at];
        MOEC_OMP(simd reduction(+:d_ffn_weight_sum))
        for (long f = 0; f < F; f++) {
            const float expert_h_again_at = expert_h_again[r * F + f];
            expert_h_weighed_again[r * F + f] = ffn_weight_again_at * expert_h_again_at;
            const float d_expert_h_weighed_at = d_expert_h_weighed[r * F + f];
            d_ffn_weight_sum += d_expert_h_weighed_at * expert_h_again_at;
            float d_expert_h = d_expert_h_weighed_at * ffn_weight_again_at;
            d_expert_up_product[r * F + f] = d_expert_h * act_y_again[r * F + f];
            float d_act_y = d_expert_h * expert_up_product[(i * CHOSEN_ROWS + r) * F + f];
            const float expert_gate_product_at = expert_gate_product[(i * CHOSEN_ROWS + r) * F + f];
            const float part = moec_sigmoid(expert_gate_product_at);
            d_expert_gate_product[r * F + f] = d_act_y
                    * (part + expert_gate_product_at * (part * (1.0f - part)));
        }
        d_ffn_weight[r] = d_ffn_weight_sum;
    }
}

/* ffn_norm_root_again[b,s] = rsqrt(ffn_norm_sum_of_squares[i,b,s] * 0.03125 + 1e-06)   -- std/norms.moe:9
   ffn_norm_y_again[b,s,d] = x_3[i,b,s,d] * ffn_norm_root_again[b,s]   -- std/norms.moe:10
   ffn_norm_y_2_again[b,s,d] = ffn_norm_y_again[b,s,d] * block_ffn_norm_weight[i,d]   -- std/norms.moe:13 */
static void kernel_train_21_ffn_norm_y_2_again(long i, const float *restrict x_3,
        const float *restrict ffn_norm_sum_of_squares, const float *restrict block_ffn_norm_weight,
        float *restrict ffn_norm_root_again, float *restrict ffn_norm_y_again,
        float *restrict ffn_norm_y_2_again)
{
    for (long b = 0; b < BATCH; b++) {
        for (long s = 0; s < S; s++) {
            float ffn_norm_root_again_now = moec_rsqrt(ffn_norm_sum_of_squares[(i * BATCH + b) * S + s]
                    * 0.03125f + 1e-06f);
            ffn_norm_root_again[b * S + s] = ffn_norm_root_again_now;
            MOEC_OMP(simd)
            for (long d = 0; d < D; d++) {
                float ffn_norm_y_again_now = x_3[((i * BATCH + b) * S + s) * D + d] * ffn_norm_root_again_now;
                ffn_norm_y_again[(b * S + s) * D + d] = ffn_norm_y_again_now;
                ffn_norm_y_2_again[(b * S + s) * D + d] = ffn_norm_y_again_now
                        * block_ffn_norm_weight[i * D + d];
            }
        }
    }
}

/* d_ffn_norm_y_2[chosen_batch_2[r],chosen_s_2[r],d] += d_ffn_norm_y_2_rows[r,d]   -- std/mlp.moe:57
   d_ffn_total_3_sum[b,s] = sum[n] d_ffn_weight[chosen_row_2[b,s,n]] * ffn_weight_again[b,s,n]
          -- std/moe.moe:102
   d_ffn_total_3[b,s] = -where(ffn_total_3[i,b,s] > 0,
        1 / where(ffn_total_3[i,b,s] > 0, ffn_total_3[i,b,s], 1) * d_ffn_total_3_sum[b,s], 0)
          -- std/moe.moe:102
   d_ffn_p[b,s,n] = d_ffn_total_4[n]
        + d_ffn_weight[chosen_row_2[b,s,n]] * (1 / where(ffn_total_3[i,b,s] > 0, ffn_total_3[i,b,s], 1))
        + d_ffn_total_3[b,s] * chosen[i,b,s,n]   -- std/moe.moe:69
   d_ffn_total_5_sum[b,s] = sum[n] d_ffn_p[b,s,n] * ffn_p_again[b,s,n]   -- std/moe.moe:69
   d_ffn_total_5[b,s] = -(1 / ffn_total[i,b,s] * d_ffn_total_5_sum[b,s])   -- std/moe.moe:69
   d_ffn_value[b,s,n] = d_ffn_p[b,s,n] * (1 / ffn_total[i,b,s]) + d_ffn_total_5[b,s]   -- std/moe.moe:69
   d_ffn_logit[b,s,n] = d_ffn_value[b,s,n] * ffn_value[i,b,s,n]   -- std/moe.moe:67 */
static void kernel_train_22_d_ffn_logit(long i, const float *restrict ffn_value,
        const float *restrict ffn_total, const float *restrict chosen, const float *restrict ffn_total_3,
        const float *restrict d_ffn_total_4, const float *restrict d_ffn_weight,
        float *restrict d_ffn_norm_y_2, float *restrict d_ffn_logit, const float *restrict ffn_p_again,
        const float *restrict ffn_weight_again, const int32_t *restrict chosen_batch_2,
        const int32_t *restrict chosen_s_2, const int32_t *restrict chosen_row_2,
        const float *restrict d_ffn_norm_y_2_rows, const int32_t *restrict chosen_start_2,
        const int32_t *restrict chosen_list_2)
{
    for (long place = 0; place < 64; place++) {
        for (long n = chosen_start_2[place]; n < chosen_start_2[place + 1]; n++) {
            const long r = chosen_list_2[n];
            MOEC_OMP(simd)
            for (long d = 0; d < D; d++) {
                d_ffn_norm_y_2[((long)chosen_batch_2[r] * S + (long)chosen_s_2[r]) * D + d] +=
                        d_ffn_norm_y_2_rows[r * D + d];
            }
        }
    }
    for (long b = 0; b < BATCH; b++) {
        for (long s = 0; s < S; s++) {
            float d_ffn_p[4];
            float d_ffn_total_3_sum = 0.0f;
            MOEC_OMP(simd reduction(+:d_ffn_total_3_sum))
            for (long n = 0; n < N; n++) {
                const long chosen_row_2_at = (long)chosen_row_2[(b * S + s) * N + n];
                d_ffn_total_3_sum += (chosen_row_2_at >= 0 ? d_ffn_weight[chosen_row_2_at] : 0.0f)
                        * ffn_weight_again[(b * S + s) * N + n];
            }
            const float ffn_total_3_at = ffn_total_3[(i * BATCH + b) * S + s];
            float d_ffn_total_3 = -moec_where(moec_lt(0.0f, ffn_total_3_at),
                    1.0f / moec_where(moec_lt(0.0f, ffn_total_3_at), ffn_total_3_at, 1.0f)
                    * d_ffn_total_3_sum, 0.0f);
            float d_ffn_total_5_sum = 0.0f;
            const float ffn_total_3_at_2 = ffn_total_3[(i * BATCH + b) * S + s];
            const float fixed = 1.0f / moec_where(moec_lt(0.0f, ffn_total_3_at_2), ffn_total_3_at_2, 1.0f);
            MOEC_OMP(simd reduction(+:d_ffn_total_5_sum))
            for (long n = 0; n < N; n++) {
                const long chosen_row_2_at = (long)chosen_row_2[(b * S + s) * N + n];
                d_ffn_p[n] = d_ffn_total_4[n] + (chosen_row_2_at >= 0 ? d_ffn_weight[chosen_row_2_at] : 0.0f)
                        * fixed + d_ffn_total_3 * chosen[((i * BATCH + b) * S + s) * N + n];
                d_ffn_total_5_sum += d_ffn_p[n] * ffn_p_again[(b * S + s) * N + n];
            }
            float d_ffn_total_5 = -(1.0f / ffn_total[(i * BATCH + b) * S + s] * d_ffn_total_5_sum);
            const float fixed_2 = 1.0f / ffn_total[(i * BATCH + b) * S + s];
            MOEC_OMP(simd)
            for (long n = 0; n < N; n++) {
                float d_ffn_value = d_ffn_p[n] * fixed_2 + d_ffn_total_5;
                d_ffn_logit[(b * S + s) * N + n] = d_ffn_value * ffn_value[((i * BATCH + b) * S + s) * N + n];
            }
        }
    }
}

/* d_block_ffn_norm_weight[i,d] += sum[b,s] d_ffn_norm_y_2[b,s,d] * ffn_norm_y_again[b,s,d]
          -- std/norms.moe:13
   d_ffn_norm_y_3[b,s,d] = d_ffn_norm_y_2[b,s,d] * block_ffn_norm_weight[i,d]   -- std/norms.moe:10
   d_ffn_norm_root[b,s] = sum[d] d_ffn_norm_y_3[b,s,d] * x_3[i,b,s,d]   -- std/norms.moe:10
   d_ffn_norm_sum_of_squares[b,s] = d_ffn_norm_root[b,s]
        * (-0.5 * ffn_norm_root_again[b,s] / (ffn_norm_sum_of_squares[i,b,s] * 0.03125 + 1e-06)) * 0.03125
          -- std/norms.moe:9 */
static void kernel_train_23_d_ffn_norm_sum_of_squares(long i, const float *restrict x_3,
        const float *restrict ffn_norm_sum_of_squares, const float *restrict block_ffn_norm_weight,
        const float *restrict d_ffn_norm_y_2, float *restrict d_ffn_norm_y_3,
        float *restrict d_block_ffn_norm_weight, float *restrict d_ffn_norm_sum_of_squares,
        const float *restrict ffn_norm_root_again, const float *restrict ffn_norm_y_again)
{
    float d_block_ffn_norm_weight_sum[32] = {0.0f};
    for (long b = 0; b < BATCH; b++) {
        float d_block_ffn_norm_weight_part[32] = {0.0f};
        for (long s = 0; s < S; s++) {
            float d_ffn_norm_root = 0.0f;
            MOEC_OMP(simd reduction(+:d_ffn_norm_root))
            for (long d = 0; d < D; d++) {
                const float d_ffn_norm_y_2_at = d_ffn_norm_y_2[(b * S + s) * D + d];
                d_block_ffn_norm_weight_part[d] += d_ffn_norm_y_2_at * ffn_norm_y_again[(b * S + s) * D + d];
                float d_ffn_norm_y_3_now = d_ffn_norm_y_2_at * block_ffn_norm_weight[i * D + d];
                d_ffn_norm_y_3[(b * S + s) * D + d] = d_ffn_norm_y_3_now;
                d_ffn_norm_root += d_ffn_norm_y_3_now * x_3[((i * BATCH + b) * S + s) * D + d];
            }
            d_ffn_norm_sum_of_squares[b * S + s] = d_ffn_norm_root
                    * (-0.5f * ffn_norm_root_again[b * S + s]
                    / (ffn_norm_sum_of_squares[(i * BATCH + b) * S + s] * 0.03125f + 1e-06f)) * 0.03125f;
        }
        for (int j = 0; j < 32; j++) d_block_ffn_norm_weight_sum[j] += d_block_ffn_norm_weight_part[j];
    }
    for (long d = 0; d < D; d++) {
        d_block_ffn_norm_weight[i * D + d] += d_block_ffn_norm_weight_sum[d];
    }
}

/* d_x_3[b,s,d] = d_x_2[i + 1,b,s,d] + d_ffn_norm_y_3[b,s,d] * ffn_norm_root_again[b,s]
        + d_ffn_norm_sum_of_squares[b,s] * (x_3[i,b,s,d] + x_3[i,b,s,d])   -- std/decoder.moe:113 */
static void kernel_train_24_d_x_3(long i, const float *restrict x_3, const float *restrict d_x_2,
        float *restrict d_x_3, const float *restrict d_ffn_norm_y_3,
        const float *restrict d_ffn_norm_sum_of_squares, const float *restrict ffn_norm_root_again)
{
    MOEC_OMP(parallel for schedule(static))
    for (long iteration = 0; iteration < 64; iteration++) {
        const long b = iteration / 32;
        const long s = iteration % S;
        const float ffn_norm_root_again_at = ffn_norm_root_again[b * S + s];
        const float d_ffn_norm_sum_of_squares_at = d_ffn_norm_sum_of_squares[b * S + s];
        MOEC_OMP(simd)
        for (long d = 0; d < D; d++) {
            const float x_3_at = x_3[((i * BATCH + b) * S + s) * D + d];
            d_x_3[(b * S + s) * D + d] = d_x_2[((((i + 1) & 1) * BATCH + b) * S + s) * D + d]
                    + d_ffn_norm_y_3[(b * S + s) * D + d] * ffn_norm_root_again_at
                    + d_ffn_norm_sum_of_squares_at * (x_3_at + x_3_at);
        }
    }
}

static const MoecAttend moec_options_train_25 = {
    .batch = 2, .queries = 32, .keys = 32, .places = 32,
    .mask = MOEC_MASK_CAUSAL, .window = 0, .heads = 4, .key_heads = 4,
    .value_heads = 4, .width = 8, .value_width = 8,
    .scale = 0.353553391f, .cap = 0.0f, .best = 0,
};

/* attention_norm_root_again[b,s] = rsqrt(attention_norm_sum_of_squares[i,b,s] * 0.03125 + 1e-06)
          -- std/norms.moe:9
   attention_norm_y_again[b,s,d] = x_2[i,b,s,d] * attention_norm_root_again[b,s]   -- std/norms.moe:10
   attention_norm_y_2_again[b,s,d] = attention_norm_y_again[b,s,d] * block_attention_norm_weight[i,d]
          -- std/norms.moe:13
   d_attention_k[b,s,h,e] = d_key_rotary_y[b,s,h,e] * query_rotary_cosine[s,e]
        + d_key_rotary_y[b,s,h,(e + 4) % 8] * query_rotary_sine[s,(e + 4) % 8]   -- std/attention.moe:84
   d_attention_q[b,s,h,e] = d_query_rotary_y[b,s,h,e] * query_rotary_cosine[s,e]
        + d_query_rotary_y[b,s,h,(e + 4) % 8] * query_rotary_sine[s,(e + 4) % 8]   -- std/attention.moe:82 */
static void kernel_train_26_d_attention_q(long i, const float *restrict x_2,
        const float *restrict attention_norm_sum_of_squares,
        const float *restrict block_attention_norm_weight, const float *restrict query_rotary_cosine,
        const float *restrict query_rotary_sine, const float *restrict d_query_rotary_y,
        const float *restrict d_key_rotary_y, float *restrict d_attention_k, float *restrict d_attention_q,
        float *restrict attention_norm_root_again, float *restrict attention_norm_y_again,
        float *restrict attention_norm_y_2_again)
{
    MOEC_OMP(parallel for schedule(static))
    for (long iteration = 0; iteration < 64; iteration++) {
        const long b = iteration / 32;
        const long s = iteration % S;
        float attention_norm_root_again_now =
                moec_rsqrt(attention_norm_sum_of_squares[(i * BATCH + b) * S + s] * 0.03125f + 1e-06f);
        attention_norm_root_again[b * S + s] = attention_norm_root_again_now;
        MOEC_OMP(simd)
        for (long d = 0; d < D; d++) {
            float attention_norm_y_again_now = x_2[((i * BATCH + b) * S + s) * D + d]
                    * attention_norm_root_again_now;
            attention_norm_y_again[(b * S + s) * D + d] = attention_norm_y_again_now;
            attention_norm_y_2_again[(b * S + s) * D + d] = attention_norm_y_again_now
                    * block_attention_norm_weight[i * D + d];
        }
        for (long h = 0; h < HK; h++) {
            MOEC_OMP(simd)
            for (long e = 0; e < E; e++) {
                const float query_rotary_cosine_at = query_rotary_cosine[s * E + e];
                const float query_rotary_sine_at = query_rotary_sine[s * E + (e + 4) % 8];
                d_attention_k[((b * S + s) * HK + h) * E + e] =
                        d_key_rotary_y[((b * S + s) * HK + h) * E + e] * query_rotary_cosine_at
                        + d_key_rotary_y[((b * S + s) * HK + h) * E + (e + 4) % 8] * query_rotary_sine_at;
                d_attention_q[((b * S + s) * H + h) * E + e] =
                        d_query_rotary_y[((b * S + s) * H + h) * E + e] * query_rotary_cosine_at
                        + d_query_rotary_y[((b * S + s) * H + h) * E + (e + 4) % 8] * query_rotary_sine_at;
            }
        }
    }
}

/* d_block_attention_norm_weight[i,d] += sum[b,s] d_attention_norm_y_2[b,s,d] * attention_norm_y_again[b,s,d]
          -- std/norms.moe:13
   d_attention_norm_y_3[b,s,d] = d_attention_norm_y_2[b,s,d] * block_attention_norm_weight[i,d]
          -- std/norms.moe:10
   d_attention_norm_root[b,s] = sum[d] d_attention_norm_y_3[b,s,d] * x_2[i,b,s,d]   -- std/norms.moe:10
   d_attention_norm_sum_of_squares[b,s] = d_attention_norm_root[b,s]
        * (-0.5 * attention_norm_root_again[b,s] / (attention_norm_sum_of_squares[i,b,s] * 0.03125 + 1e-06))
        * 0.03125   -- std/norms.moe:9 */
static void kernel_train_27_d_attention_norm_sum_of_squares(long i, const float *restrict x_2,
        const float *restrict attention_norm_sum_of_squares,
        const float *restrict block_attention_norm_weight, const float *restrict d_attention_norm_y_2,
        float *restrict d_attention_norm_y_3, float *restrict d_block_attention_norm_weight,
        float *restrict d_attention_norm_sum_of_squares, const float *restrict attention_norm_root_again,
        const float *restrict attention_norm_y_again)
{
    float d_block_attention_norm_weight_sum[32] = {0.0f};
    for (long b = 0; b < BATCH; b++) {
        float d_block_attention_norm_weight_part[32] = {0.0f};
        for (long s = 0; s < S; s++) {
            float d_attention_norm_root = 0.0f;
            MOEC_OMP(simd reduction(+:d_attention_norm_root))
            for (long d = 0; d < D; d++) {
                const float d_attention_norm_y_2_at = d_attention_norm_y_2[(b * S + s) * D + d];
                d_block_attention_norm_weight_part[d] += d_attention_norm_y_2_at
                        * attention_norm_y_again[(b * S + s) * D + d];
                float d_attention_norm_y_3_now = d_attention_norm_y_2_at
                        * block_attention_norm_weight[i * D + d];
                d_attention_norm_y_3[(b * S + s) * D + d] = d_attention_norm_y_3_now;
                d_attention_norm_root += d_attention_norm_y_3_now * x_2[((i * BATCH + b) * S + s) * D + d];
            }
            d_attention_norm_sum_of_squares[b * S + s] = d_attention_norm_root
                    * (-0.5f * attention_norm_root_again[b * S + s]
                    / (attention_norm_sum_of_squares[(i * BATCH + b) * S + s] * 0.03125f + 1e-06f))
                    * 0.03125f;
        }
        for (int j = 0; j < 32; j++) d_block_attention_norm_weight_sum[j] +=
                d_block_attention_norm_weight_part[j];
    }
    for (long d = 0; d < D; d++) {
        d_block_attention_norm_weight[i * D + d] += d_block_attention_norm_weight_sum[d];
    }
}

/* d_x_2[i,b,s,d] = d_x_3[b,s,d] + d_attention_norm_y_3[b,s,d] * attention_norm_root_again[b,s]
        + d_attention_norm_sum_of_squares[b,s] * (x_2[i,b,s,d] + x_2[i,b,s,d])   -- std/decoder.moe:118
   d_balance_3[i] = d_balance_3[i + 1]   -- std/moe.moe:125 */
static void kernel_train_28_d_balance_3(long i, const float *restrict x_2, float *restrict d_balance_3,
        float *restrict d_x_2, const float *restrict d_x_3, const float *restrict d_attention_norm_y_3,
        const float *restrict d_attention_norm_sum_of_squares,
        const float *restrict attention_norm_root_again)
{
    for (long b = 0; b < BATCH; b++) {
        for (long s = 0; s < S; s++) {
            const float attention_norm_root_again_at = attention_norm_root_again[b * S + s];
            const float d_attention_norm_sum_of_squares_at = d_attention_norm_sum_of_squares[b * S + s];
            MOEC_OMP(simd)
            for (long d = 0; d < D; d++) {
                const float x_2_at = x_2[((i * BATCH + b) * S + s) * D + d];
                d_x_2[(((i & 1) * BATCH + b) * S + s) * D + d] = d_x_3[(b * S + s) * D + d]
                        + d_attention_norm_y_3[(b * S + s) * D + d] * attention_norm_root_again_at
                        + d_attention_norm_sum_of_squares_at * (x_2_at + x_2_at);
            }
        }
    }
    d_balance_3[i & 1] = d_balance_3[(i + 1) & 1];
}

/* d_embedding[tokens[b,s],d] += d_x_2[0,b,s,d]   -- std/decoder.moe:79 */
static void kernel_train_29_d_embedding(const int32_t *restrict tokens, const float *restrict d_x_2,
        float *restrict d_embedding)
{
    for (long d_from = 0; d_from < 32; d_from += 16) {
        for (long b = 0; b < BATCH; b++) {
            for (long s = 0; s < S; s++) {
                const long tokens_at = (long)tokens[b * S + s];
                MOEC_OMP(simd)
                for (long d = d_from; d < d_from + 16; d++) {
                    d_embedding[tokens_at * D + d] += d_x_2[(b * S + s) * D + d];
                }
            }
        }
    }
}

static void run_train(const MoecRun *run)
{
    const int32_t *const tokens = run->inputs[0]; /* [batch, s] */
    const int32_t *const targets = run->inputs[1]; /* [batch, s] */
    const float *const embedding = run->weights + 0; /* [v, d] */
    float *const x_2 = (void *)(run->arena + 196608); /* [block, batch, s, d] */
    float *const attention_norm_sum_of_squares = (void *)(run->arena + 585728); /* [block, batch, s] */
    const float *const block_attention_norm_weight = run->weights + 2048; /* [block, d] */
    float *const attention_norm_y_2 = (void *)(run->arena + 401408); /* [batch, s, d] */
    const float *const block_attention_query = run->weights + 2176; /* [block, d, h, e] */
    const float *const block_attention_key = run->weights + 6272; /* [block, d, hk, e] */
    const float *const block_attention_value = run->weights + 10368; /* [block, d, hv, c] */
    const float *const block_attention_output = run->weights + 14464; /* [block, h, c, d] */
    float *const attention_q = (void *)(run->arena + 409600); /* [batch, s, h, e] */
    float *const attention_k = (void *)(run->arena + 417792); /* [batch, s, hk, e] */
    float *const attention_v = (void *)(run->arena + 237568); /* [block, batch, s, hv, c] */
    float *const query_rotary_cosine = (void *)(run->arena + 586752); /* [s, e] */
    float *const query_rotary_sine = (void *)(run->arena + 587776); /* [s, e] */
    float *const query_rotary_y = (void *)(run->arena + 270336); /* [block, batch, s, h, e] */
    float *const key_rotary_y = (void *)(run->arena + 303104); /* [block, batch, s, hk, e] */
    float *const attended = (void *)(run->arena + 335872); /* [block, batch, s, h, c] */
    float *const attended_lse = (void *)(run->arena + 573440); /* [block, batch, s, h] */
    float *const attention_y = (void *)(run->arena + 401408); /* [batch, s, d] */
    float *const x_3 = (void *)(run->arena + 368640); /* [block, batch, s, d] */
    float *const ffn_norm_sum_of_squares = (void *)(run->arena + 588800); /* [block, batch, s] */
    const float *const block_ffn_norm_weight = run->weights + 18560; /* [block, d] */
    float *const ffn_norm_y_2 = (void *)(run->arena + 425984); /* [batch, s, d] */
    const float *const block_ffn_router = run->weights + 18688; /* [block, d, n] */
    float *const ffn_logit = (void *)(run->arena + 401408); /* [batch, s, n] */
    float *const ffn_value = (void *)(run->arena + 577536); /* [block, batch, s, n] */
    float *const ffn_total = (void *)(run->arena + 589824); /* [block, batch, s] */
    float *const ffn_p = (void *)(run->arena + 458752); /* [batch, s, n] */
    float *const chosen = (void *)(run->arena + 581632); /* [block, batch, s, n] */
    float *const ffn_load = (void *)(run->arena + 598336); /* [block, n] */
    float *const ffn_total_3 = (void *)(run->arena + 590848); /* [block, batch, s] */
    float *const ffn_weight = (void *)(run->arena + 459776); /* [batch, s, n] */
    const float *const block_ffn_expert_up = run->weights + 19200; /* [block, n, d, f] */
    const float *const block_ffn_expert_gate = run->weights + 43776; /* [block, n, d, f] */
    const float *const block_ffn_expert_down = run->weights + 68352; /* [block, n, f, d] */
    float *const expert_gate_product = (void *)(run->arena + 0); /* [block, chosen_rows, f] */
    float *const act_y = (void *)(run->arena + 401408); /* [chosen_rows, f] */
    float *const expert_up_product = (void *)(run->arena + 98304); /* [block, chosen_rows, f] */
    float *const expert_y = (void *)(run->arena + 401408); /* [chosen_rows, d] */
    float *const ffn_y = (void *)(run->arena + 450560); /* [batch, s, d] */
    float *const ffn_max_expert_load = run->outputs[3]; /* [block] */
    float *const balance = (void *)(run->arena + 463168); /* [block], two slots */
    float *const final_norm_sum_of_squares = (void *)(run->arena + 450560); /* [batch, s] */
    float *const final_norm_root = (void *)(run->arena + 450816); /* [batch, s] */
    float *const final_norm_y = (void *)(run->arena + 434176); /* [batch, s, d] */
    const float *const final_norm_weight = run->weights + 92928; /* [d] */
    float *const final_norm_y_2 = (void *)(run->arena + 442368); /* [batch, s, d] */
    const float *const unembedding = run->weights + 92960; /* [d, v] */
    float *const logits = (void *)(run->arena + 401408); /* [batch, s, v] */
    float *const largest = (void *)(run->arena + 451072); /* [batch, s] */
    float *const sum_of_powers = (void *)(run->arena + 451328); /* [batch, s] */
    float *const loss = run->outputs[0]; /* [] */
    float *const balance_2 = run->outputs[1]; /* [] */
    float *const total_2 = run->outputs[2]; /* [] */
    float *const expert_h_weighed = (void *)(run->arena + 425984); /* [chosen_rows, f] */
    const float *const loss_scale = run->inputs[2]; /* [] */
    float *const d_balance_3 = (void *)(run->arena + 598400); /* [block], two slots */
    float *const d_logits = (void *)(run->arena + 417792); /* [batch, s, v] */
    float *const d_final_norm_y_2 = (void *)(run->arena + 401408); /* [batch, s, d] */
    float *const d_unembedding = run->gradients + 92960; /* [d, v] */
    float *const d_final_norm_y_3 = (void *)(run->arena + 409600); /* [batch, s, d] */
    float *const d_final_norm_weight = run->gradients + 92928; /* [d] */
    float *const d_x_2 = (void *)(run->arena + 548864); /* [block, batch, s, d], two slots */
    float *const d_final_norm_sum_of_squares = (void *)(run->arena + 417792); /* [batch, s] */
    float *const d_x_3 = (void *)(run->arena + 401408); /* [batch, s, d] */
    float *const d_ffn_total_4 = (void *)(run->arena + 598464); /* [n] */
    float *const d_expert_h_weighed = (void *)(run->arena + 401408); /* [chosen_rows, f] */
    float *const d_block_ffn_expert_down = run->gradients + 68352; /* [block, n, f, d] */
    float *const d_ffn_weight = (void *)(run->arena + 594944); /* [chosen_rows] */
    float *const d_expert_up_product = (void *)(run->arena + 425984); /* [chosen_rows, f] */
    float *const d_ffn_norm_y_2 = (void *)(run->arena + 565248); /* [batch, s, d] */
    float *const d_block_ffn_expert_up = run->gradients + 19200; /* [block, n, d, f] */
    float *const d_expert_gate_product = (void *)(run->arena + 450560); /* [chosen_rows, f] */
    float *const d_block_ffn_expert_gate = run->gradients + 43776; /* [block, n, d, f] */
    float *const d_ffn_logit = (void *)(run->arena + 425984); /* [batch, s, n] */
    float *const d_block_ffn_router = run->gradients + 18688; /* [block, d, n] */
    float *const d_ffn_norm_y_3 = (void *)(run->arena + 409600); /* [batch, s, d] */
    float *const d_block_ffn_norm_weight = run->gradients + 18560; /* [block, d] */
    float *const d_ffn_norm_sum_of_squares = (void *)(run->arena + 425984); /* [batch, s] */
    float *const d_attended = (void *)(run->arena + 409600); /* [batch, s, h, c] */
    float *const d_block_attention_output = run->gradients + 14464; /* [block, h, c, d] */
    float *const d_query_rotary_y = (void *)(run->arena + 417792); /* [batch, s, h, e] */
    float *const d_key_rotary_y = (void *)(run->arena + 425984); /* [batch, s, hk, e] */
    float *const d_attention_v = (void *)(run->arena + 434176); /* [batch, s, hv, c] */
    float *const d_attention_k = (void *)(run->arena + 409600); /* [batch, s, hk, e] */
    float *const d_attention_q = (void *)(run->arena + 442368); /* [batch, s, h, e] */
    float *const d_attention_norm_y_2 = (void *)(run->arena + 450560); /* [batch, s, d] */
    float *const d_block_attention_value = run->gradients + 10368; /* [block, d, hv, c] */
    float *const d_block_attention_key = run->gradients + 6272; /* [block, d, hk, e] */
    float *const d_block_attention_query = run->gradients + 2176; /* [block, d, h, e] */
    float *const d_attention_norm_y_3 = (void *)(run->arena + 409600); /* [batch, s, d] */
    float *const d_block_attention_norm_weight = run->gradients + 2048; /* [block, d] */
    float *const d_attention_norm_sum_of_squares = (void *)(run->arena + 417792); /* [batch, s] */
    float *const attention_norm_root_again = (void *)(run->arena + 475136); /* [batch, s] */
    float *const attention_norm_y_again = (void *)(run->arena + 458752); /* [batch, s, d] */
    float *const attention_norm_y_2_again = (void *)(run->arena + 466944); /* [batch, s, d] */
    float *const ffn_norm_root_again = (void *)(run->arena + 483328); /* [batch, s] */
    float *const ffn_norm_y_again = (void *)(run->arena + 417792); /* [batch, s, d] */
    float *const ffn_norm_y_2_again = (void *)(run->arena + 475136); /* [batch, s, d] */
    float *const ffn_p_again = (void *)(run->arena + 591872); /* [batch, s, n] */
    float *const ffn_weight_again = (void *)(run->arena + 592896); /* [batch, s, n] */
    float *const act_y_again = (void *)(run->arena + 475136); /* [chosen_rows, f] */
    float *const expert_h_again = (void *)(run->arena + 499712); /* [chosen_rows, f] */
    float *const expert_h_weighed_again = (void *)(run->arena + 524288); /* [chosen_rows, f] */
    float *const d_embedding = run->gradients + 0; /* [v, d] */
    int32_t *const chosen_batch = (void *)(run->arena + 460800); /* [chosen_rows] */
    int32_t *const chosen_s = (void *)(run->arena + 461312); /* [chosen_rows] */
    int32_t *const chosen_n = (void *)(run->arena + 461824); /* [chosen_rows] */
    int32_t *const chosen_row = (void *)(run->arena + 401408); /* [batch, s, n] */
    int32_t *const chosen_batch_2 = (void *)(run->arena + 595456); /* [chosen_rows] */
    int32_t *const chosen_s_2 = (void *)(run->arena + 595968); /* [chosen_rows] */
    int32_t *const chosen_n_2 = (void *)(run->arena + 596480); /* [chosen_rows] */
    int32_t *const chosen_row_2 = (void *)(run->arena + 593920); /* [batch, s, n] */
    float *const d_ffn_norm_y_2_rows = (void *)(run->arena + 401408); /* [chosen_rows, d] */
    int32_t *const chosen_other = (void *)(run->arena + 434176); /* [chosen_rows] */
    int32_t *const chosen_group = (void *)(run->arena + 463232); /* [chosen_groups] */
    int32_t *const chosen_start = (void *)(run->arena + 462848); /* [chosen_others] */
    int32_t *const chosen_list = (void *)(run->arena + 462336); /* [chosen_rows] */
    int32_t *const chosen_other_2 = (void *)(run->arena + 596992); /* [chosen_rows] */
    int32_t *const chosen_group_2 = (void *)(run->arena + 598528); /* [chosen_groups] */
    int32_t *const chosen_start_2 = (void *)(run->arena + 598016); /* [chosen_others] */
    int32_t *const chosen_list_2 = (void *)(run->arena + 597504); /* [chosen_rows] */
    const int moec_first = run->first_micro_batch != 0;
    if (moec_first) {
        moec_clear(run->gradients + 0, 8704);
        moec_clear(run->gradients + 18560, 512);
        moec_clear(run->gradients + 92928, 128);
    }

    kernel_train_0_query_rotary_sine(tokens, embedding, x_2, query_rotary_cosine, query_rotary_sine, balance);
    for (long i = 0; i < BLOCK_2; i++) {
        kernel_train_1_attention_norm_y_2(i, x_2, attention_norm_sum_of_squares, block_attention_norm_weight,
                attention_norm_y_2);
        /* attention_q[b,s,h,e] = sum[d] attention_norm_y_2[b,s,d] * block_attention_query[i,d,h,e]
                  -- std/attention.moe:82 */
        moec_product(run, 0, &moec_products[0], attention_norm_y_2, block_attention_query + i * D * H * E,
                attention_q);
        /* attention_k[b,s,hk,e] = sum[d] attention_norm_y_2[b,s,d] * block_attention_key[i,d,hk,e]
                  -- std/attention.moe:84 */
        moec_product(run, 1, &moec_products[1], attention_norm_y_2, block_attention_key + i * D * HK * E,
                attention_k);
        /* attention_v[i,b,s,hv,c] = sum[d] attention_norm_y_2[b,s,d] * block_attention_value[i,d,hv,c]
                  -- std/attention.moe:85 */
        moec_product(run, 2, &moec_products[2], attention_norm_y_2, block_attention_value + i * D * HV * C,
                attention_v + i * BATCH * S * HV * C);
        kernel_train_2_key_rotary_y(i, attention_q, attention_k, query_rotary_cosine, query_rotary_sine,
                query_rotary_y, key_rotary_y);
        /* attended[i,b,s,h,c], attended_lse[i,b,s,h] =
                attend(query_rotary_y[i,b,s,h,e], key_rotary_y[i,b,s,hk,e],
                attention_v[i,b,s,hv,c]; scale = 0.353553391, mask = causal)   -- std/attention.moe:125 */
        moec_attend(&moec_options_train_3, query_rotary_y + i * BATCH * S * H * E,
                key_rotary_y + i * BATCH * S * HK * E, attention_v + i * BATCH * S * HV * C, NULL, NULL,
                attended + i * BATCH * S * H * C, attended_lse + i * BATCH * S * H);
        /* attention_y[b,s,d] = sum[h,c] attended[i,b,s,h,c] * block_attention_output[i,h,c,d]
                  -- std/attention.moe:154 */
        moec_product(run, 3, &moec_products[3], attended + i * BATCH * S * H * C,
                block_attention_output + i * H * C * D, attention_y);
        kernel_train_4_ffn_norm_y_2(i, x_2, attention_y, x_3, ffn_norm_sum_of_squares, block_ffn_norm_weight,
                ffn_norm_y_2);
        /* ffn_logit[b,s,n] = sum[d] ffn_norm_y_2[b,s,d] * block_ffn_router[i,d,n]   -- std/moe.moe:67 */
        moec_product(run, 4, &moec_products[4], ffn_norm_y_2, block_ffn_router + i * D * N, ffn_logit);
        kernel_train_5_ffn_p(i, ffn_logit, ffn_value, ffn_total, ffn_p);
        /* chosen[i,b,s,n] = top_k(ffn_p[b,s,n]; k = 2, dimension = 2)   -- std/moe.moe:90 */
        moec_top(64, 4, 1, 2, ffn_p, chosen + i * BATCH * S * N);
        /* chosen_batch[r], chosen_s[r], chosen_n[r], chosen_group[g], chosen_row[batch,s,n],
                chosen_other[r], chosen_start[o], chosen_list[r] = pack(chosen[i,batch,s,n]; key = [n])
                  -- std/moe.moe:90 */
        moec_pack(&moec_options_train_6, chosen + i * BATCH * S * N, NULL,
                &(const MoecPacked){.coordinate = (int *const[]){chosen_batch, chosen_s, chosen_n},
                        .group = chosen_group, .row_of = chosen_row,
                                    .other = chosen_other, .start = chosen_start, .list = chosen_list});
        kernel_train_7_ffn_y(i, ffn_p, chosen, ffn_load, ffn_total_3, ffn_weight, ffn_y);
        /* expert_gate_product[i,r,f] = sum[d] ffn_norm_y_2[chosen_batch[r],chosen_s[r],d]
                * block_ffn_expert_gate[i,chosen_n[r],d,f]   -- std/mlp.moe:57 */
        moec_grouped_product(
                &(const MoecGrouped){.kind = MOEC_ROWS_BY_WEIGHT, .groups = 4, .n = 48, .k = 32, .a_row = 32,
                    .b_group = 1536, .b_k = 48, .b_n = 1, .c_row = 48, .accumulate = 0},
                &(const MoecRows){.group = chosen_group, .a_gather = chosen_other, .b_gather = NULL},
                ffn_norm_y_2, block_ffn_expert_gate + i * N * D * F,
                        expert_gate_product + i * CHOSEN_ROWS * F);
        kernel_train_8_act_y(i, expert_gate_product, act_y);
        /* expert_up_product[i,r,f] = sum[d] ffn_norm_y_2[chosen_batch[r],chosen_s[r],d]
                * block_ffn_expert_up[i,chosen_n[r],d,f]   -- std/mlp.moe:57 */
        moec_grouped_product(
                &(const MoecGrouped){.kind = MOEC_ROWS_BY_WEIGHT, .groups = 4, .n = 48, .k = 32, .a_row = 32,
                    .b_group = 1536, .b_k = 48, .b_n = 1, .c_row = 48, .accumulate = 0},
                &(const MoecRows){.group = chosen_group, .a_gather = chosen_other, .b_gather = NULL},
                ffn_norm_y_2, block_ffn_expert_up + i * N * D * F, expert_up_product + i * CHOSEN_ROWS * F);
        kernel_train_9_expert_h_weighed(i, ffn_weight, act_y, expert_up_product, expert_h_weighed,
                chosen_batch, chosen_s, chosen_n);
        /* expert_y[r,d] = sum[f] expert_h_weighed[r,f] * block_ffn_expert_down[i,chosen_n[r],f,d]
                  -- std/mlp.moe:58 */
        moec_grouped_product(
                &(const MoecGrouped){.kind = MOEC_ROWS_BY_WEIGHT, .groups = 4, .n = 32, .k = 48, .a_row = 48,
                    .b_group = 1536, .b_k = 32, .b_n = 1, .c_row = 32, .accumulate = 0},
                &(const MoecRows){.group = chosen_group, .a_gather = NULL, .b_gather = NULL},
                expert_h_weighed, block_ffn_expert_down + i * N * F * D, expert_y);
        kernel_train_10_balance(i, x_2, x_3, ffn_p, ffn_load, expert_y, ffn_y, ffn_max_expert_load, balance,
                chosen_batch, chosen_s, chosen_start, chosen_list);
    }
    kernel_train_11_final_norm_y_2(x_2, final_norm_sum_of_squares, final_norm_root, final_norm_y,
            final_norm_weight, final_norm_y_2);
    /* logits[b,s,v] = sum[d] final_norm_y_2[b,s,d] * unembedding[d,v]   -- std/decoder.moe:127 */
    moec_product(run, 5, &moec_products[5], final_norm_y_2, unembedding, logits);
    kernel_train_12_sum_of_powers(logits, largest, sum_of_powers);
    kernel_train_13_d_logits(targets, balance, logits, largest, sum_of_powers, loss, balance_2, total_2,
            loss_scale, d_logits);
    /* d_final_norm_y_2[b,s,d] = sum[v] d_logits[b,s,v] * unembedding[d,v]   -- std/decoder.moe:127 */
    moec_product(run, 6, &moec_products[6], d_logits, unembedding, d_final_norm_y_2);
    /* d_unembedding[d,v] += sum[b,s] d_logits[b,s,v] * final_norm_y_2[b,s,d]   -- std/decoder.moe:127 */
    moec_product(run, 7 + moec_first, &moec_products[7 + moec_first], final_norm_y_2, d_logits,
            d_unembedding);
    kernel_train_14_d_final_norm_sum_of_squares(x_2, final_norm_sum_of_squares, final_norm_root,
            final_norm_y, final_norm_weight, d_final_norm_y_2, d_final_norm_y_3, d_final_norm_weight,
            d_final_norm_sum_of_squares);
    kernel_train_15_d_balance_3(x_2, final_norm_root, loss_scale, d_balance_3, d_final_norm_y_3, d_x_2,
            d_final_norm_sum_of_squares);
    for (long i = BLOCK_2 - 1; i >= 0; i--) {
        /* chosen_batch_2[r], chosen_s_2[r], chosen_n_2[r], chosen_group_2[g], chosen_row_2[batch,s,n],
                chosen_other_2[r], chosen_start_2[o], chosen_list_2[r] = pack(chosen[i,batch,s,n]; key = [n])
                  -- std/moe.moe:90 */
        moec_pack(&moec_options_train_16, chosen + i * BATCH * S * N, NULL,
                &(const MoecPacked){.coordinate = (int *const[]){chosen_batch_2, chosen_s_2, chosen_n_2},
                        .group = chosen_group_2, .row_of = chosen_row_2,
                                    .other = chosen_other_2, .start = chosen_start_2, .list = chosen_list_2});
        kernel_train_17_d_ffn_total_4(i, ffn_load, d_balance_3, d_ffn_total_4);
        /* d_expert_h_weighed[r,f] = sum[d] d_x_2[i + 1,chosen_batch_2[r],chosen_s_2[r],d]
                * block_ffn_expert_down[i,chosen_n_2[r],f,d]   -- std/mlp.moe:58 */
        moec_grouped_product(
                &(const MoecGrouped){.kind = MOEC_ROWS_BY_WEIGHT, .groups = 4, .n = 48, .k = 32, .a_row = 32,
                    .b_group = 1536, .b_k = 1, .b_n = 32, .c_row = 48, .accumulate = 0},
                &(const MoecRows){.group = chosen_group_2, .a_gather = chosen_other_2, .b_gather = NULL},
                d_x_2 + ((i + 1) & 1) * BATCH * S * D, block_ffn_expert_down + i * N * F * D,
                        d_expert_h_weighed);
        kernel_train_18_expert_h_again(i, expert_gate_product, expert_up_product, act_y_again,
                expert_h_again);
        kernel_train_19_d_ffn_norm_y_2(i, ffn_value, ffn_total, ffn_total_3, d_ffn_norm_y_2, ffn_p_again,
                ffn_weight_again);
        kernel_train_20_d_expert_gate_product(i, expert_gate_product, expert_up_product, d_expert_h_weighed,
                d_ffn_weight, d_expert_up_product, d_expert_gate_product, ffn_weight_again, act_y_again,
                expert_h_again, expert_h_weighed_again, chosen_batch_2, chosen_s_2, chosen_n_2);
        /* d_block_ffn_expert_down[i,chosen_n_2[r],f,d] += d_x_2[i + 1,chosen_batch_2[r],chosen_s_2[r],d]
                * expert_h_weighed_again[r,f]   -- std/mlp.moe:58 */
        moec_grouped_product(
                &(const MoecGrouped){.kind = MOEC_ROWS_BY_ROWS, .groups = 4, .n = 32, .k = 48, .a_row = 48,
                    .b_group = 1536, .b_k = 32, .b_n = 1, .c_row = 32, .accumulate = !moec_first},
                &(const MoecRows){.group = chosen_group_2, .a_gather = NULL, .b_gather = chosen_other_2},
                expert_h_weighed_again, d_x_2 + ((i + 1) & 1) * BATCH * S * D,
                        d_block_ffn_expert_down + i * N * F * D);
        /* d_ffn_norm_y_2_rows[r,d] = sum[f] d_expert_up_product[r,f]
                * block_ffn_expert_up[i,chosen_n_2[r],d,f]   -- std/mlp.moe:57 */
        moec_grouped_product(
                &(const MoecGrouped){.kind = MOEC_ROWS_BY_WEIGHT, .groups = 4, .n = 32, .k = 48, .a_row = 48,
                    .b_group = 1536, .b_k = 1, .b_n = 48, .c_row = 32, .accumulate = 0},
                &(const MoecRows){.group = chosen_group_2, .a_gather = NULL, .b_gather = NULL},
                d_expert_up_product, block_ffn_expert_up + i * N * D * F, d_ffn_norm_y_2_rows);
        kernel_train_21_ffn_norm_y_2_again(i, x_3, ffn_norm_sum_of_squares, block_ffn_norm_weight,
                ffn_norm_root_again, ffn_norm_y_again, ffn_norm_y_2_again);
        /* d_block_ffn_expert_up[i,chosen_n_2[r],d,f] += d_expert_up_product[r,f]
                * ffn_norm_y_2_again[chosen_batch_2[r],chosen_s_2[r],d]   -- std/mlp.moe:57 */
        moec_grouped_product(
                &(const MoecGrouped){.kind = MOEC_ROWS_BY_ROWS, .groups = 4, .n = 48, .k = 32, .a_row = 32,
                    .b_group = 1536, .b_k = 48, .b_n = 1, .c_row = 48, .accumulate = !moec_first},
                &(const MoecRows){.group = chosen_group_2, .a_gather = chosen_other_2, .b_gather = NULL},
                ffn_norm_y_2_again, d_expert_up_product, d_block_ffn_expert_up + i * N * D * F);
        /* d_ffn_norm_y_2_rows[r,d] += sum[f] d_expert_gate_product[r,f]
                * block_ffn_expert_gate[i,chosen_n_2[r],d,f]   -- std/mlp.moe:57 */
        moec_grouped_product(
                &(const MoecGrouped){.kind = MOEC_ROWS_BY_WEIGHT, .groups = 4, .n = 32, .k = 48, .a_row = 48,
                    .b_group = 1536, .b_k = 1, .b_n = 48, .c_row = 32, .accumulate = 1},
                &(const MoecRows){.group = chosen_group_2, .a_gather = NULL, .b_gather = NULL},
                d_expert_gate_product, block_ffn_expert_gate + i * N * D * F, d_ffn_norm_y_2_rows);
        kernel_train_22_d_ffn_logit(i, ffn_value, ffn_total, chosen, ffn_total_3, d_ffn_total_4,
                d_ffn_weight, d_ffn_norm_y_2, d_ffn_logit, ffn_p_again, ffn_weight_again, chosen_batch_2,
                chosen_s_2, chosen_row_2, d_ffn_norm_y_2_rows, chosen_start_2, chosen_list_2);
        /* d_block_ffn_expert_gate[i,chosen_n_2[r],d,f] += d_expert_gate_product[r,f]
                * ffn_norm_y_2_again[chosen_batch_2[r],chosen_s_2[r],d]   -- std/mlp.moe:57 */
        moec_grouped_product(
                &(const MoecGrouped){.kind = MOEC_ROWS_BY_ROWS, .groups = 4, .n = 48, .k = 32, .a_row = 32,
                    .b_group = 1536, .b_k = 48, .b_n = 1, .c_row = 48, .accumulate = !moec_first},
                &(const MoecRows){.group = chosen_group_2, .a_gather = chosen_other_2, .b_gather = NULL},
                ffn_norm_y_2_again, d_expert_gate_product, d_block_ffn_expert_gate + i * N * D * F);
        /* d_ffn_norm_y_2[b,s,d] += sum[n] d_ffn_logit[b,s,n] * block_ffn_router[i,d,n]   -- std/moe.moe:67 */
        moec_product(run, 9, &moec_products[9], d_ffn_logit, block_ffn_router + i * D * N, d_ffn_norm_y_2);
        /* d_block_ffn_router[i,d,n] += sum[b,s] d_ffn_logit[b,s,n] * ffn_norm_y_2_again[b,s,d]
                  -- std/moe.moe:67 */
        moec_product(run, 10 + moec_first, &moec_products[10 + moec_first], ffn_norm_y_2_again, d_ffn_logit,
                d_block_ffn_router + i * D * N);
        kernel_train_23_d_ffn_norm_sum_of_squares(i, x_3, ffn_norm_sum_of_squares, block_ffn_norm_weight,
                d_ffn_norm_y_2, d_ffn_norm_y_3, d_block_ffn_norm_weight, d_ffn_norm_sum_of_squares,
                ffn_norm_root_again, ffn_norm_y_again);
        kernel_train_24_d_x_3(i, x_3, d_x_2, d_x_3, d_ffn_norm_y_3, d_ffn_norm_sum_of_squares,
                ffn_norm_root_again);
        /* d_attended[b,s,h,c] = sum[d] d_x_3[b,s,d] * block_attention_output[i,h,c,d]
                  -- std/attention.moe:154 */
        moec_product(run, 12, &moec_products[12], d_x_3, block_attention_output + i * H * C * D, d_attended);
        /* d_block_attention_output[i,h,c,d] += sum[b,s] d_x_3[b,s,d] * attended[i,b,s,h,c]
                  -- std/attention.moe:154 */
        moec_product(run, 13 + moec_first, &moec_products[13 + moec_first], attended + i * BATCH * S * H * C,
                d_x_3, d_block_attention_output + i * H * C * D);
        /* d_query_rotary_y[b,s,h,e], d_key_rotary_y[b,s,hk,e],
                d_attention_v[b,s,hv,c] = attend_grad(query_rotary_y[i,b,s,h,e], key_rotary_y[i,b,s,hk,e],
                attention_v[i,b,s,hv,c], attended[i,b,s,h,c], attended_lse[i,b,s,h],
                d_attended[b,s,h,c]; scale = 0.353553391, mask = causal)   -- std/attention.moe:125 */
        moec_attend_grad(&moec_options_train_25,
                &(const MoecAttendSaved){.q = query_rotary_y + i * BATCH * S * H * E,
                        .k = key_rotary_y + i * BATCH * S * HK * E,
                        .v = attention_v + i * BATCH * S * HV * C, .sink = NULL,
                        .o = attended + i * BATCH * S * H * C, .lse = attended_lse + i * BATCH * S * H,
                                         .documents = NULL, .output_grad = d_attended},
                d_query_rotary_y, d_key_rotary_y, d_attention_v, NULL);
        /* d_attention_norm_y_2[b,s,d] = sum[hv,c] d_attention_v[b,s,hv,c] * block_attention_value[i,d,hv,c]
                  -- std/attention.moe:85 */
        moec_product(run, 15, &moec_products[15], d_attention_v, block_attention_value + i * D * HV * C,
                d_attention_norm_y_2);
        kernel_train_26_d_attention_q(i, x_2, attention_norm_sum_of_squares, block_attention_norm_weight,
                query_rotary_cosine, query_rotary_sine, d_query_rotary_y, d_key_rotary_y, d_attention_k,
                d_attention_q, attention_norm_root_again, attention_norm_y_again, attention_norm_y_2_again);
        /* d_block_attention_value[i,d,hv,c] += sum[b,s] d_attention_v[b,s,hv,c]
                * attention_norm_y_2_again[b,s,d]   -- std/attention.moe:85 */
        moec_product(run, 16 + moec_first, &moec_products[16 + moec_first], attention_norm_y_2_again,
                d_attention_v, d_block_attention_value + i * D * HV * C);
        /* d_attention_norm_y_2[b,s,d] += sum[hk,e] d_attention_k[b,s,hk,e] * block_attention_key[i,d,hk,e]
                  -- std/attention.moe:84 */
        moec_product(run, 18, &moec_products[18], d_attention_k, block_attention_key + i * D * HK * E,
                d_attention_norm_y_2);
        /* d_block_attention_key[i,d,hk,e] += sum[b,s] d_attention_k[b,s,hk,e]
                * attention_norm_y_2_again[b,s,d]   -- std/attention.moe:84 */
        moec_product(run, 19 + moec_first, &moec_products[19 + moec_first], attention_norm_y_2_again,
                d_attention_k, d_block_attention_key + i * D * HK * E);
        /* d_attention_norm_y_2[b,s,d] += sum[h,e] d_attention_q[b,s,h,e] * block_attention_query[i,d,h,e]
                  -- std/attention.moe:82 */
        moec_product(run, 21, &moec_products[21], d_attention_q, block_attention_query + i * D * H * E,
                d_attention_norm_y_2);
        /* d_block_attention_query[i,d,h,e] += sum[b,s] d_attention_q[b,s,h,e]
                * attention_norm_y_2_again[b,s,d]   -- std/attention.moe:82 */
        moec_product(run, 22 + moec_first, &moec_products[22 + moec_first], attention_norm_y_2_again,
                d_attention_q, d_block_attention_query + i * D * H * E);
        kernel_train_27_d_attention_norm_sum_of_squares(i, x_2, attention_norm_sum_of_squares,
                block_attention_norm_weight, d_attention_norm_y_2, d_attention_norm_y_3,
                d_block_attention_norm_weight, d_attention_norm_sum_of_squares, attention_norm_root_again,
                attention_norm_y_again);
        kernel_train_28_d_balance_3(i, x_2, d_balance_3, d_x_2, d_x_3, d_attention_norm_y_3,
                d_attention_norm_sum_of_squares, attention_norm_root_again);
    }
    kernel_train_29_d_embedding(tokens, d_x_2, d_embedding);
}

/* The factor of the learning rate at a step (from 0) of `steps`. */
static double update_rate(double step, double steps)
{
    (void)step, (void)steps;
    const float schedule_step[1] = {(float)step};
    float rate_2[1];
    const float schedule_step_at = schedule_step[0];
    float rate = moec_where(moec_lt(schedule_step_at, 0.0f), schedule_step_at + 1.0f, 1.0f);
    rate_2[0] = rate;
    return (double)rate_2[0];
}

/* For each group of parameters its own lr, step, matrix, clip. */
static const float update_own[] = {
    1, 1, 1, 1,
    1, 1, 0, 1,
};

/* unbias1 = 1 / (1 - 0.9 ^ step)   -- std/adamw.moe:16
   unbias2 = 1 / (1 - 0.95 ^ step)   -- std/adamw.moe:17
   share = 0.1 * matrix   -- std/adamw.moe:18
   g[elements] = clip * grad[elements]   -- std/adamw.moe:15
   m[i] = 0.9 * m[i] + 0.1 * g[i]   -- std/adamw.moe:19
   v[i] = 0.95 * v[i] + 0.05 * g[i] * g[i]   -- std/adamw.moe:20
   weight[i] = weight[i] - lr * (m[i] * unbias1 / (sqrt(v[i] * unbias2) + 1e-08) + share * weight[i])   -- std/adamw.moe:21 */
static void run_update(float *weight, const float *gradient, float *const *state, long elements,
                       const float *scalars, void *moec_rounded)
{
    (void)weight, (void)gradient, (void)state, (void)elements, (void)scalars, (void)moec_rounded;
    const float *const lr = scalars + 0;
    const float *const step_2 = scalars + 1;
    const float *const matrix = scalars + 2;
    const float *const clip = scalars + 3;
    float *const m = state[0];
    float *const v = state[1];
    const float step_at = step_2[0];
    const float matrix_at = matrix[0];
    const float clip_at = clip[0];
    const float lr_at = lr[0];
    float unbias1 = 1.0f / (1.0f - moec_pow(0.9f, step_at));
    float unbias2 = 1.0f / (1.0f - moec_pow(0.95f, step_at));
    float share = 0.1f * matrix_at;
    MOEC_OMP(parallel for simd schedule(static) if(elements > 16384))
    for (long elements_2 = 0; elements_2 < elements; elements_2++) {
        float g = clip_at * gradient[elements_2];
        float m_now = 0.9f * m[elements_2] + 0.1f * g;
        m[elements_2] = m_now;
        float v_now = 0.95f * v[elements_2] + 0.05f * g * g;
        v[elements_2] = v_now;
        float weight_now = weight[elements_2]
                - lr_at * (m_now * unbias1 / (moec_sqrt(v_now * unbias2) + 1e-08f)
                + share * weight[elements_2]);
        weight[elements_2] = weight_now;
    }
}

static const char *const update_states[] = {"m", "v"};
static const MoecUpdateScalar update_scalars[] = {
    {MOEC_SCALAR_RATE, "lr"},
    {MOEC_SCALAR_STEP, "step"},
    {MOEC_SCALAR_MATRIX, "matrix"},
    {MOEC_SCALAR_CLIP, "clip"},
};
static const MoecUpdate update = {
    .run = run_update, .rate = update_rate, .state_names = update_states, .state_count = 2,
    .scalars = update_scalars, .scalar_count = 4,
    .own = update_own, .group_count = 2,
};

static const MoecTensor parameters[] = {
    {.name = "embedding", .axes = "v,d", .block = MOEC_WEIGHTS, .offset = 0,
     .rank = 2, .shape = {64, 32}, .init = MOEC_INIT_NORMAL, .a = 0, .b = 1, .matrix = 1},
    {.name = "block.{i}.attention_norm.weight", .axes = "block,d", .block = MOEC_WEIGHTS, .offset = 8192,
     .rank = 2, .shape = {4, 32}, .init = MOEC_INIT_CONSTANT, .a = 1, .b = 0, .matrix = 0, .group = 1},
    {.name = "block.{i}.attention.query", .axes = "block,d,h,e", .block = MOEC_WEIGHTS, .offset = 8704,
     .rank = 4, .shape = {4, 32, 4, 8}, .init = MOEC_INIT_NORMAL, .a = 0, .b = 0.17677669529663687, .matrix = 1},
    {.name = "block.{i}.attention.key", .axes = "block,d,hk,e", .block = MOEC_WEIGHTS, .offset = 25088,
     .rank = 4, .shape = {4, 32, 4, 8}, .init = MOEC_INIT_NORMAL, .a = 0, .b = 0.17677669529663687, .matrix = 1},
    {.name = "block.{i}.attention.value", .axes = "block,d,hv,c", .block = MOEC_WEIGHTS, .offset = 41472,
     .rank = 4, .shape = {4, 32, 4, 8}, .init = MOEC_INIT_NORMAL, .a = 0, .b = 0.17677669529663687, .matrix = 1},
    {.name = "block.{i}.attention.output", .axes = "block,h,c,d", .block = MOEC_WEIGHTS, .offset = 57856,
     .rank = 4, .shape = {4, 4, 8, 32}, .init = MOEC_INIT_NORMAL, .a = 0, .b = 0.17677669529663689, .matrix = 1},
    {.name = "block.{i}.ffn_norm.weight", .axes = "block,d", .block = MOEC_WEIGHTS, .offset = 74240,
     .rank = 2, .shape = {4, 32}, .init = MOEC_INIT_CONSTANT, .a = 1, .b = 0, .matrix = 0, .group = 1},
    {.name = "block.{i}.ffn.router", .axes = "block,d,n", .block = MOEC_WEIGHTS, .offset = 74752,
     .rank = 3, .shape = {4, 32, 4}, .init = MOEC_INIT_NORMAL, .a = 0, .b = 0.17677669529663689, .matrix = 1},
    {.name = "block.{i}.ffn.expert.up", .axes = "block,n,d,f", .block = MOEC_WEIGHTS, .offset = 76800,
     .rank = 4, .shape = {4, 4, 32, 48}, .init = MOEC_INIT_NORMAL, .a = 0, .b = 0.17677669529663687, .matrix = 1},
    {.name = "block.{i}.ffn.expert.gate", .axes = "block,n,d,f", .block = MOEC_WEIGHTS, .offset = 175104,
     .rank = 4, .shape = {4, 4, 32, 48}, .init = MOEC_INIT_NORMAL, .a = 0, .b = 0.17677669529663687, .matrix = 1},
    {.name = "block.{i}.ffn.expert.down", .axes = "block,n,f,d", .block = MOEC_WEIGHTS, .offset = 273408,
     .rank = 4, .shape = {4, 4, 48, 32}, .init = MOEC_INIT_NORMAL, .a = 0, .b = 0.14433756729740643, .matrix = 1},
    {.name = "final_norm.weight", .axes = "d", .block = MOEC_WEIGHTS, .offset = 371712,
     .rank = 1, .shape = {32}, .init = MOEC_INIT_CONSTANT, .a = 1, .b = 0, .matrix = 0, .group = 1},
    {.name = "unembedding", .axes = "d,v", .block = MOEC_WEIGHTS, .offset = 371840,
     .rank = 2, .shape = {32, 64}, .init = MOEC_INIT_NORMAL, .a = 0, .b = 0.02, .matrix = 1},
};

static const MoecTensor train_inputs[] = {
    {.name = "tokens", .axes = "batch,s", .block = MOEC_INPUTS, .offset = 0,
     .rank = 2, .shape = {2, 32}, .is_int = 1, .input = MOEC_INPUT_TOKEN, .vocabulary = 64},
    {.name = "targets", .axes = "batch,s", .block = MOEC_INPUTS, .offset = 1,
     .rank = 2, .shape = {2, 32}, .is_int = 1, .input = MOEC_INPUT_NEXT, .vocabulary = 64},
    {.name = "loss_scale", .axes = "", .block = MOEC_INPUTS, .offset = 2,
     .rank = 0, .shape = {0}, .input = MOEC_INPUT_SCALAR, .vocabulary = 0, .scalar = MOEC_SCALAR_LOSS_SCALE},
};

static const MoecTensor train_outputs[] = {
    {.name = "loss", .axes = "", .block = MOEC_OUTPUTS, .offset = 0,
     .rank = 0, .shape = {0}},
    {.name = "balance", .axes = "", .block = MOEC_OUTPUTS, .offset = 1,
     .rank = 0, .shape = {0}},
    {.name = "total", .axes = "", .block = MOEC_OUTPUTS, .offset = 2,
     .rank = 0, .shape = {0}},
    {.name = "block.{i}.ffn.max_expert_load", .axes = "block", .block = MOEC_OUTPUTS, .offset = 3,
     .rank = 1, .shape = {4}, .probe = MOEC_PROBE_MEAN},
};

static const MoecGraphEntry graphs[] = {
    {.kind = MOEC_GRAPH_TRAIN, .run = run_train, .batch = 2, .context = 32, .tokens = 32,
     .arena_bytes = 598592, .cache_bytes = 0,
     .inputs = train_inputs, .input_count = 3,
     .outputs = train_outputs, .output_count = 4,
     .first_product = 0, .product_count = 24, .flops = 23322624, .product_flops = 21430272},
};

const MoecTable moec_table = {
    .abi = MOEC_ABI,
    .model = "routed",
    .parameters = parameters, .parameter_count = 13,
    .weight_bytes = 380032, .state_bytes = 0,
    .graphs = graphs, .graph_count = 1,
    .update = &update,
    .products = moec_products, .product_count = 24,
};
