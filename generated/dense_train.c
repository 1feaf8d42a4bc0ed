/* Written by moec to stand alone. Comments hold the equations and where they stand. */
/* run_train
   axes:    batch = 2, s = 32, v = 64, d = 32, block = 5, block = 4 (BLOCK_2), h = 4, e = 8, hk = 1, hv = 2,
        c = 8, f = 48
   inputs:  tokens[batch, s], targets[batch, s], loss_scale
   outputs: loss
   work:    25 kernels and calls, 27 products
   memory:  381184 bytes of temporaries */
/* update: the optimizer's step of one parameter. */
/* The kernels leave out what nothing here multiplies. */
#define MOEC_ROUNDED_PRODUCTS 0
#define MOEC_BF16_OPERANDS 0
#define MOEC_INT8_OPERANDS 0
#define MOEC_BYTE_OPERANDS 0
#include "kernels.h"

/* Sizes of axes. */
enum { BATCH = 2, S = 32, D = 32, V = 64, BLOCK = 5, E = 8, BLOCK_2 = 4, H = 4, HV = 2, C = 8, F = 48,
        D_2 = 2 };

/* Matrix products of fixed shape: see MoecProduct in abi.h. */
static const MoecProduct moec_products[] = {
    {.m = 64, .n = 32, .k = 32, .a_m = 32, .a_k = 1, .b_k = 32, .b_n = 1, .c_m = 32,
     .batch = {1, 1}, .accumulate = 0}, /* 0: attention_q */
    {.m = 64, .n = 8, .k = 32, .a_m = 32, .a_k = 1, .b_k = 8, .b_n = 1, .c_m = 8,
     .batch = {1, 1}, .accumulate = 0}, /* 1: attention_k */
    {.m = 64, .n = 16, .k = 32, .a_m = 32, .a_k = 1, .b_k = 16, .b_n = 1, .c_m = 16,
     .batch = {1, 1}, .accumulate = 0}, /* 2: attention_v */
    {.m = 64, .n = 32, .k = 32, .a_m = 32, .a_k = 1, .b_k = 32, .b_n = 1, .c_m = 32,
     .batch = {1, 1}, .accumulate = 0}, /* 3: sdpa_gate_weight_product */
    {.m = 64, .n = 32, .k = 32, .a_m = 32, .a_k = 1, .b_k = 32, .b_n = 1, .c_m = 32,
     .batch = {1, 1}, .accumulate = 0}, /* 4: attention_y */
    {.m = 64, .n = 48, .k = 32, .a_m = 32, .a_k = 1, .b_k = 48, .b_n = 1, .c_m = 48,
     .batch = {1, 1}, .accumulate = 0}, /* 5: ffn_gate_product */
    {.m = 64, .n = 48, .k = 32, .a_m = 32, .a_k = 1, .b_k = 48, .b_n = 1, .c_m = 48,
     .batch = {1, 1}, .accumulate = 0}, /* 6: ffn_up_product */
    {.m = 64, .n = 32, .k = 48, .a_m = 48, .a_k = 1, .b_k = 32, .b_n = 1, .c_m = 32,
     .batch = {1, 1}, .accumulate = 0}, /* 7: ffn_y */
    {.m = 64, .n = 64, .k = 32, .a_m = 32, .a_k = 1, .b_k = 64, .b_n = 1, .c_m = 64,
     .batch = {1, 1}, .accumulate = 0}, /* 8: logits */
    {.m = 64, .n = 32, .k = 64, .a_m = 64, .a_k = 1, .b_k = 1, .b_n = 64, .c_m = 32,
     .batch = {1, 1}, .accumulate = 0}, /* 9: d_final_norm_y_2 */
    {.m = 32, .n = 64, .k = 64, .a_m = 1, .a_k = 32, .b_k = 64, .b_n = 1, .c_m = 64,
     .batch = {1, 1}, .accumulate = 1}, /* 10: d_unembedding */
    {.m = 32, .n = 64, .k = 64, .a_m = 1, .a_k = 32, .b_k = 64, .b_n = 1, .c_m = 64,
     .batch = {1, 1}, .accumulate = 0}, /* 11: d_unembedding */
    {.m = 64, .n = 48, .k = 32, .a_m = 32, .a_k = 1, .b_k = 1, .b_n = 32, .c_m = 48,
     .batch = {1, 1}, .accumulate = 0}, /* 12: d_ffn_h */
    {.m = 48, .n = 32, .k = 64, .a_m = 1, .a_k = 48, .b_k = 32, .b_n = 1, .c_m = 32,
     .batch = {1, 1}, .accumulate = 1}, /* 13: d_block_ffn_down */
    {.m = 48, .n = 32, .k = 64, .a_m = 1, .a_k = 48, .b_k = 32, .b_n = 1, .c_m = 32,
     .batch = {1, 1}, .accumulate = 0}, /* 14: d_block_ffn_down */
    {.m = 64, .n = 32, .k = 48, .a_m = 48, .a_k = 1, .b_k = 1, .b_n = 48, .c_m = 32,
     .batch = {1, 1}, .accumulate = 0}, /* 15: d_ffn_norm_y_2 */
    {.m = 32, .n = 48, .k = 64, .a_m = 1, .a_k = 32, .b_k = 48, .b_n = 1, .c_m = 48,
     .batch = {1, 1}, .accumulate = 1}, /* 16: d_block_ffn_up */
    {.m = 32, .n = 48, .k = 64, .a_m = 1, .a_k = 32, .b_k = 48, .b_n = 1, .c_m = 48,
     .batch = {1, 1}, .accumulate = 0}, /* 17: d_block_ffn_up */
    {.m = 64, .n = 32, .k = 48, .a_m = 48, .a_k = 1, .b_k = 1, .b_n = 48, .c_m = 32,
     .batch = {1, 1}, .accumulate = 1}, /* 18: d_ffn_norm_y_2 */
    {.m = 32, .n = 48, .k = 64, .a_m = 1, .a_k = 32, .b_k = 48, .b_n = 1, .c_m = 48,
     .batch = {1, 1}, .accumulate = 1}, /* 19: d_block_ffn_gate */
    {.m = 32, .n = 48, .k = 64, .a_m = 1, .a_k = 32, .b_k = 48, .b_n = 1, .c_m = 48,
     .batch = {1, 1}, .accumulate = 0}, /* 20: d_block_ffn_gate */
    {.m = 64, .n = 32, .k = 32, .a_m = 32, .a_k = 1, .b_k = 1, .b_n = 32, .c_m = 32,
     .batch = {1, 1}, .accumulate = 0}, /* 21: d_sdpa_gate_y */
    {.m = 32, .n = 32, .k = 64, .a_m = 1, .a_k = 32, .b_k = 32, .b_n = 1, .c_m = 32,
     .batch = {1, 1}, .accumulate = 1}, /* 22: d_block_attention_output */
    {.m = 32, .n = 32, .k = 64, .a_m = 1, .a_k = 32, .b_k = 32, .b_n = 1, .c_m = 32,
     .batch = {1, 1}, .accumulate = 0}, /* 23: d_block_attention_output */
    {.m = 64, .n = 32, .k = 32, .a_m = 32, .a_k = 1, .b_k = 1, .b_n = 32, .c_m = 32,
     .batch = {1, 1}, .accumulate = 0}, /* 24: d_attention_norm_y_2 */
    {.m = 32, .n = 32, .k = 64, .a_m = 1, .a_k = 32, .b_k = 32, .b_n = 1, .c_m = 32,
     .batch = {1, 1}, .accumulate = 1}, /* 25: d_block_attention_sdpa_gate_weight */
    {.m = 32, .n = 32, .k = 64, .a_m = 1, .a_k = 32, .b_k = 32, .b_n = 1, .c_m = 32,
     .batch = {1, 1}, .accumulate = 0}, /* 26: d_block_attention_sdpa_gate_weight */
    {.m = 64, .n = 32, .k = 16, .a_m = 16, .a_k = 1, .b_k = 1, .b_n = 16, .c_m = 32,
     .batch = {1, 1}, .accumulate = 1}, /* 27: d_attention_norm_y_2 */
    {.m = 32, .n = 16, .k = 64, .a_m = 1, .a_k = 32, .b_k = 16, .b_n = 1, .c_m = 16,
     .batch = {1, 1}, .accumulate = 1}, /* 28: d_block_attention_value */
    {.m = 32, .n = 16, .k = 64, .a_m = 1, .a_k = 32, .b_k = 16, .b_n = 1, .c_m = 16,
     .batch = {1, 1}, .accumulate = 0}, /* 29: d_block_attention_value */
    {.m = 64, .n = 32, .k = 8, .a_m = 8, .a_k = 1, .b_k = 1, .b_n = 8, .c_m = 32,
     .batch = {1, 1}, .accumulate = 1}, /* 30: d_attention_norm_y_2 */
    {.m = 32, .n = 8, .k = 64, .a_m = 1, .a_k = 32, .b_k = 8, .b_n = 1, .c_m = 8,
     .batch = {1, 1}, .accumulate = 1}, /* 31: d_block_attention_key */
    {.m = 32, .n = 8, .k = 64, .a_m = 1, .a_k = 32, .b_k = 8, .b_n = 1, .c_m = 8,
     .batch = {1, 1}, .accumulate = 0}, /* 32: d_block_attention_key */
    {.m = 64, .n = 32, .k = 32, .a_m = 32, .a_k = 1, .b_k = 1, .b_n = 32, .c_m = 32,
     .batch = {1, 1}, .accumulate = 1}, /* 33: d_attention_norm_y_2 */
    {.m = 32, .n = 32, .k = 64, .a_m = 1, .a_k = 32, .b_k = 32, .b_n = 1, .c_m = 32,
     .batch = {1, 1}, .accumulate = 1}, /* 34: d_block_attention_query */
    {.m = 32, .n = 32, .k = 64, .a_m = 1, .a_k = 32, .b_k = 32, .b_n = 1, .c_m = 32,
     .batch = {1, 1}, .accumulate = 0}, /* 35: d_block_attention_query */
};

/* x[b,s,d] = embedding[tokens[b,s],d]   -- std/decoder.moe:79
   x_2[0,b,s,d] = x[b,s,d]   -- std/decoder.moe:118
   query_rotary_angle_table[e] = 10000 ^ (-2 * (e % 4) / 8)   -- std/rotary.moe:18
   query_rotary_angle_2[s,e] = s * query_rotary_angle_table[e]   -- std/rotary.moe:18
   query_rotary_cosine[s,e] = cos(query_rotary_angle_2[s,e])   -- std/rotary.moe:24
   query_rotary_sine[s,e] = where(e < 4, -1, 1) * sin(query_rotary_angle_2[s,e])   -- std/rotary.moe:25 */
static void kernel_train_0_query_rotary_sine(const int32_t *restrict tokens, const float *restrict embedding,
        float *restrict x_2, float *restrict query_rotary_cosine, float *restrict query_rotary_sine)
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
    for (long iteration = 0; iteration < 64; iteration++) {
        const long b = iteration / 32;
        const long s = iteration % S;
        for (long h = 0; h < H; h++) {
            MOEC_OMP(simd)
            for (long e = 0; e < E; e++) {
                query_rotary_y[(((i * BATCH + b) * S + s) * H + h) * E + e] =
                        attention_q[((b * S + s) * H + h) * E + e] * query_rotary_cosine[s * E + e]
                        + attention_q[((b * S + s) * H + h) * E + (e + 4) % 8] * query_rotary_sine[s * E + e];
            }
        }
        MOEC_OMP(simd)
        for (long e = 0; e < E; e++) {
            key_rotary_y[((i * BATCH + b) * S + s) * E + e] = attention_k[(b * S + s) * E + e]
                    * query_rotary_cosine[s * E + e]
                    + attention_k[(b * S + s) * E + (e + 4) % 8] * query_rotary_sine[s * E + e];
        }
    }
}

static const MoecAttend moec_options_train_3 = {
    .batch = 2, .queries = 32, .keys = 32, .places = 32,
    .mask = MOEC_MASK_CAUSAL, .window = 0, .heads = 4, .key_heads = 1,
    .value_heads = 2, .width = 8, .value_width = 8,
    .scale = 0.353553391f, .cap = 0.0f, .best = 0,
};

/* act_y[i,b,s,h,c] = sigmoid(sdpa_gate_weight_product[b,s,h,c])   -- std/activations.moe:39
   sdpa_gate_y[b,s,h,c] = attended[i,b,s,h,c] * act_y[i,b,s,h,c]   -- std/gate.moe:92 */
static void kernel_train_4_sdpa_gate_y(long i, const float *restrict attended,
        const float *restrict sdpa_gate_weight_product, float *restrict act_y, float *restrict sdpa_gate_y)
{
    MOEC_OMP(parallel for schedule(static))
    for (long iteration = 0; iteration < 256; iteration++) {
        const long b = iteration / 128;
        const long s = iteration / 4 % S;
        const long h = iteration % H;
        MOEC_OMP(simd)
        for (long c = 0; c < C; c++) {
            float act_y_now = moec_sigmoid(sdpa_gate_weight_product[((b * S + s) * H + h) * C + c]);
            act_y[(((i * BATCH + b) * S + s) * H + h) * C + c] = act_y_now;
            sdpa_gate_y[((b * S + s) * H + h) * C + c] =
                    attended[(((i * BATCH + b) * S + s) * H + h) * C + c] * act_y_now;
        }
    }
}

/* x_3[i,b,s,d] = x_2[i,b,s,d] + attention_y[b,s,d]   -- std/decoder.moe:113
   ffn_norm_sum_of_squares[i,b,s] = sum[d] x_3[i,b,s,d] * x_3[i,b,s,d]   -- std/norms.moe:9
   ffn_norm_root[b,s] = rsqrt(ffn_norm_sum_of_squares[i,b,s] * 0.03125 + 1e-06)   -- std/norms.moe:9
   ffn_norm_y[b,s,d] = x_3[i,b,s,d] * ffn_norm_root[b,s]   -- std/norms.moe:10
   ffn_norm_y_2[b,s,d] = ffn_norm_y[b,s,d] * block_ffn_norm_weight[i,d]   -- std/norms.moe:13 */
static void kernel_train_5_ffn_norm_y_2(long i, const float *restrict x_2, const float *restrict attention_y,
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

/* act_y_2[b,s,f] = ffn_gate_product[i,b,s,f] * sigmoid(ffn_gate_product[i,b,s,f])
          -- std/activations.moe:19 */
static void kernel_train_6_act_y_2(long i, const float *restrict ffn_gate_product, float *restrict act_y_2)
{
    MOEC_OMP(parallel for schedule(static))
    for (long iteration = 0; iteration < 64; iteration++) {
        const long b = iteration / 32;
        const long s = iteration % S;
        MOEC_OMP(simd)
        for (long f = 0; f < F; f++) {
            const float ffn_gate_product_at = ffn_gate_product[((i * BATCH + b) * S + s) * F + f];
            act_y_2[(b * S + s) * F + f] = ffn_gate_product_at * moec_sigmoid(ffn_gate_product_at);
        }
    }
}

/* ffn_h[b,s,f] = act_y_2[b,s,f] * ffn_up_product[i,b,s,f]   -- std/mlp.moe:57 */
static void kernel_train_7_ffn_h(long i, const float *restrict act_y_2, const float *restrict ffn_up_product,
        float *restrict ffn_h)
{
    for (long b = 0; b < BATCH; b++) {
        for (long s = 0; s < S; s++) {
            MOEC_OMP(simd)
            for (long f = 0; f < F; f++) {
                ffn_h[(b * S + s) * F + f] = act_y_2[(b * S + s) * F + f]
                        * ffn_up_product[((i * BATCH + b) * S + s) * F + f];
            }
        }
    }
}

/* x_2[i + 1,b,s,d] = x_3[i,b,s,d] + ffn_y[b,s,d]   -- std/decoder.moe:118 */
static void kernel_train_8_x_2(long i, float *restrict x_2, const float *restrict x_3,
        const float *restrict ffn_y)
{
    for (long b = 0; b < BATCH; b++) {
        for (long s = 0; s < S; s++) {
            MOEC_OMP(simd)
            for (long d = 0; d < D; d++) {
                x_2[(((i + 1) * BATCH + b) * S + s) * D + d] = x_3[((i * BATCH + b) * S + s) * D + d]
                        + ffn_y[(b * S + s) * D + d];
            }
        }
    }
}

/* final_norm_sum_of_squares[b,s] = sum[d] x_2[4,b,s,d] * x_2[4,b,s,d]   -- std/norms.moe:9
   final_norm_root[b,s] = rsqrt(final_norm_sum_of_squares[b,s] * 0.03125 + 1e-06)   -- std/norms.moe:9
   final_norm_y[b,s,d] = x_2[4,b,s,d] * final_norm_root[b,s]   -- std/norms.moe:10
   final_norm_y_2[b,s,d] = final_norm_y[b,s,d] * final_norm_weight[d]   -- std/norms.moe:13 */
static void kernel_train_9_final_norm_y_2(const float *restrict x_2,
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
static void kernel_train_10_sum_of_powers(const float *restrict logits, float *restrict largest,
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
   d_total = loss_scale * 0.015625   -- std/decoder.moe:132
   d_sum_of_powers[b,s] = d_total * (1 / sum_of_powers[b,s])   -- std/decoder.moe:132
   d_logits[b,s,v] = d_sum_of_powers[b,s] * exp(logits[b,s,v] - stop_gradient(largest[b,s]))
          -- std/decoder.moe:127
   d_logits[b,s,targets[b,s]] += -d_total   -- std/decoder.moe:132 */
static void kernel_train_11_d_logits(const int32_t *restrict targets, const float *restrict logits,
        const float *restrict largest, const float *restrict sum_of_powers, float *restrict loss,
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
    float d_total = loss_scale_at * 0.015625f;
    MOEC_OMP(parallel for schedule(static))
    for (long iteration = 0; iteration < 64; iteration++) {
        const long b = iteration / 32;
        const long s = iteration % S;
        const long targets_at = (long)targets[b * S + s];
        float d_sum_of_powers = d_total * (1.0f / sum_of_powers[b * S + s]);
        const float largest_at = largest[b * S + s];
        MOEC_OMP(simd)
        for (long v = 0; v < V; v++) {
            d_logits[(b * S + s) * V + v] = d_sum_of_powers
                    * moec_exp(logits[(b * S + s) * V + v] - largest_at);
        }
        d_logits[(b * S + s) * V + targets_at] += -d_total;
    }
}

/* d_final_norm_weight[d] += sum[b,s] d_final_norm_y_2[b,s,d] * final_norm_y[b,s,d]   -- std/norms.moe:13
   d_final_norm_y_3[b,s,d] = d_final_norm_y_2[b,s,d] * final_norm_weight[d]   -- std/norms.moe:10
   d_final_norm_root[b,s] = sum[d] d_final_norm_y_3[b,s,d] * x_2[4,b,s,d]   -- std/norms.moe:10
   d_final_norm_sum_of_squares[b,s] = d_final_norm_root[b,s]
        * (-0.5 * final_norm_root[b,s] / (final_norm_sum_of_squares[b,s] * 0.03125 + 1e-06)) * 0.03125
          -- std/norms.moe:9 */
static void kernel_train_12_d_final_norm_sum_of_squares(const float *restrict x_2,
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
        + d_final_norm_sum_of_squares[b,s] * (x_2[4,b,s,d] + x_2[4,b,s,d])   -- std/decoder.moe:118 */
static void kernel_train_13_d_x_2(const float *restrict x_2, const float *restrict final_norm_root,
        const float *restrict d_final_norm_y_3, float *restrict d_x_2,
        const float *restrict d_final_norm_sum_of_squares)
{
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
}

/* act_y_2_again[b,s,f] = ffn_gate_product[i,b,s,f] * sigmoid(ffn_gate_product[i,b,s,f])
          -- std/activations.moe:19
   ffn_h_again[b,s,f] = act_y_2_again[b,s,f] * ffn_up_product[i,b,s,f]   -- std/mlp.moe:57
   d_ffn_up_product[b,s,f] = d_ffn_h[b,s,f] * act_y_2_again[b,s,f]   -- std/mlp.moe:57 */
static void kernel_train_14_d_ffn_up_product(long i, const float *restrict ffn_gate_product,
        const float *restrict ffn_up_product, const float *restrict d_ffn_h,
        float *restrict d_ffn_up_product, float *restrict ffn_h_again)
{
    MOEC_OMP(parallel for schedule(static))
    for (long iteration = 0; iteration < 64; iteration++) {
        const long b = iteration / 32;
        const long s = iteration % S;
        MOEC_OMP(simd)
        for (long f = 0; f < F; f++) {
            const float ffn_gate_product_at = ffn_gate_product[((i * BATCH + b) * S + s) * F + f];
            float act_y_2_again = ffn_gate_product_at * moec_sigmoid(ffn_gate_product_at);
            ffn_h_again[(b * S + s) * F + f] = act_y_2_again
                    * ffn_up_product[((i * BATCH + b) * S + s) * F + f];
            d_ffn_up_product[(b * S + s) * F + f] = d_ffn_h[(b * S + s) * F + f] * act_y_2_again;
        }
    }
}

/* ffn_norm_root_again[b,s] = rsqrt(ffn_norm_sum_of_squares[i,b,s] * 0.03125 + 1e-06)   -- std/norms.moe:9
   ffn_norm_y_again[b,s,d] = x_3[i,b,s,d] * ffn_norm_root_again[b,s]   -- std/norms.moe:10
   ffn_norm_y_2_again[b,s,d] = ffn_norm_y_again[b,s,d] * block_ffn_norm_weight[i,d]   -- std/norms.moe:13
   d_act_y_2[b,s,f] = d_ffn_h[b,s,f] * ffn_up_product[i,b,s,f]   -- std/activations.moe:19
   d_ffn_gate_product[b,s,f] = d_act_y_2[b,s,f]
        * (sigmoid(ffn_gate_product[i,b,s,f])
        + ffn_gate_product[i,b,s,f] * (sigmoid(ffn_gate_product[i,b,s,f])
        * (1 - sigmoid(ffn_gate_product[i,b,s,f]))))   -- std/mlp.moe:57 */
static void kernel_train_15_d_ffn_gate_product(long i, const float *restrict x_3,
        const float *restrict ffn_norm_sum_of_squares, const float *restrict block_ffn_norm_weight,
        const float *restrict ffn_gate_product, const float *restrict ffn_up_product,
        const float *restrict d_ffn_h, float *restrict d_ffn_gate_product,
        float *restrict ffn_norm_root_again, float *restrict ffn_norm_y_again,
        float *restrict ffn_norm_y_2_again)
{
    MOEC_OMP(parallel for schedule(static))
    for (long iteration = 0; iteration < 64; iteration++) {
        const long b = iteration / 32;
        const long s = iteration % S;
        float ffn_norm_root_again_now = moec_rsqrt(ffn_norm_sum_of_squares[(i * BATCH + b) * S + s]
                * 0.03125f + 1e-06f);
        ffn_norm_root_again[b * S + s] = ffn_norm_root_again_now;
        MOEC_OMP(simd)
        for (long d = 0; d < D; d++) {
            float ffn_norm_y_again_now = x_3[((i * BATCH + b) * S + s) * D + d] * ffn_norm_root_again_now;
            ffn_norm_y_again[(b * S + s) * D + d] = ffn_norm_y_again_now;
            ffn_norm_y_2_again[(b * S + s) * D + d] = ffn_norm_y_again_now * block_ffn_norm_weight[i * D + d];
        }
        MOEC_OMP(simd)
        for (long f = 0; f < F; f++) {
            float d_act_y_2 = d_ffn_h[(b * S + s) * F + f]
                    * ffn_up_product[((i * BATCH + b) * S + s) * F + f];
            const float ffn_gate_product_at = ffn_gate_product[((i * BATCH + b) * S + s) * F + f];
            const float part = moec_sigmoid(ffn_gate_product_at);
            d_ffn_gate_product[(b * S + s) * F + f] = d_act_y_2
                    * (part + ffn_gate_product_at * (part * (1.0f - part)));
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
static void kernel_train_16_d_ffn_norm_sum_of_squares(long i, const float *restrict x_3,
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
static void kernel_train_17_d_x_3(long i, const float *restrict x_3, const float *restrict d_x_2,
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

/* sdpa_gate_y_again[b,s,h,c] = attended[i,b,s,h,c] * act_y[i,b,s,h,c]   -- std/gate.moe:92
   d_act_y_3[b,s,h,c] = d_sdpa_gate_y[b,s,h,c] * attended[i,b,s,h,c]   -- std/activations.moe:39
   d_sdpa_gate_weight_product[b,s,h,c] = d_act_y_3[b,s,h,c] * (act_y[i,b,s,h,c] * (1 - act_y[i,b,s,h,c]))
          -- std/gate.moe:66 */
static void kernel_train_18_d_sdpa_gate_weight_product(long i, const float *restrict attended,
        const float *restrict act_y, const float *restrict d_sdpa_gate_y,
        float *restrict d_sdpa_gate_weight_product, float *restrict sdpa_gate_y_again)
{
    MOEC_OMP(parallel for schedule(static))
    for (long iteration = 0; iteration < 256; iteration++) {
        const long b = iteration / 128;
        const long s = iteration / 4 % S;
        const long h = iteration % H;
        MOEC_OMP(simd)
        for (long c = 0; c < C; c++) {
            const float attended_at = attended[(((i * BATCH + b) * S + s) * H + h) * C + c];
            const float act_y_at = act_y[(((i * BATCH + b) * S + s) * H + h) * C + c];
            sdpa_gate_y_again[((b * S + s) * H + h) * C + c] = attended_at * act_y_at;
            float d_act_y_3 = d_sdpa_gate_y[((b * S + s) * H + h) * C + c] * attended_at;
            d_sdpa_gate_weight_product[((b * S + s) * H + h) * C + c] = d_act_y_3
                    * (act_y_at * (1.0f - act_y_at));
        }
    }
}

/* attention_norm_root_again[b,s] = rsqrt(attention_norm_sum_of_squares[i,b,s] * 0.03125 + 1e-06)
          -- std/norms.moe:9
   attention_norm_y_again[b,s,d] = x_2[i,b,s,d] * attention_norm_root_again[b,s]   -- std/norms.moe:10
   attention_norm_y_2_again[b,s,d] = attention_norm_y_again[b,s,d] * block_attention_norm_weight[i,d]
          -- std/norms.moe:13
   d_attended[b,s,h,c] = d_sdpa_gate_y[b,s,h,c] * act_y[i,b,s,h,c]   -- std/attention.moe:125 */
static void kernel_train_19_d_attended(long i, const float *restrict x_2,
        const float *restrict attention_norm_sum_of_squares,
        const float *restrict block_attention_norm_weight, const float *restrict act_y,
        const float *restrict d_sdpa_gate_y, float *restrict d_attended,
        float *restrict attention_norm_root_again, float *restrict attention_norm_y_again,
        float *restrict attention_norm_y_2_again)
{
    for (long b = 0; b < BATCH; b++) {
        for (long s = 0; s < S; s++) {
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
            for (long h = 0; h < H; h++) {
                MOEC_OMP(simd)
                for (long c = 0; c < C; c++) {
                    d_attended[((b * S + s) * H + h) * C + c] = d_sdpa_gate_y[((b * S + s) * H + h) * C + c]
                            * act_y[(((i * BATCH + b) * S + s) * H + h) * C + c];
                }
            }
        }
    }
}

static const MoecAttend moec_options_train_20 = {
    .batch = 2, .queries = 32, .keys = 32, .places = 32,
    .mask = MOEC_MASK_CAUSAL, .window = 0, .heads = 4, .key_heads = 1,
    .value_heads = 2, .width = 8, .value_width = 8,
    .scale = 0.353553391f, .cap = 0.0f, .best = 0,
};

/* d_attention_k[b,s,h,e] = d_key_rotary_y[b,s,h,e] * query_rotary_cosine[s,e]
        + d_key_rotary_y[b,s,h,(e + 4) % 8] * query_rotary_sine[s,(e + 4) % 8]   -- std/attention.moe:84
   d_attention_q[b,s,h,e] = d_query_rotary_y[b,s,h,e] * query_rotary_cosine[s,e]
        + d_query_rotary_y[b,s,h,(e + 4) % 8] * query_rotary_sine[s,(e + 4) % 8]   -- std/attention.moe:82 */
static void kernel_train_21_d_attention_q(const float *restrict query_rotary_cosine,
        const float *restrict query_rotary_sine, const float *restrict d_query_rotary_y,
        const float *restrict d_key_rotary_y, float *restrict d_attention_k, float *restrict d_attention_q)
{
    MOEC_OMP(parallel for schedule(static))
    for (long iteration = 0; iteration < 64; iteration++) {
        const long b = iteration / 32;
        const long s = iteration % S;
        MOEC_OMP(simd)
        for (long e = 0; e < E; e++) {
            d_attention_k[(b * S + s) * E + e] = d_key_rotary_y[(b * S + s) * E + e]
                    * query_rotary_cosine[s * E + e]
                    + d_key_rotary_y[(b * S + s) * E + (e + 4) % 8] * query_rotary_sine[s * E + (e + 4) % 8];
        }
        for (long h = 0; h < H; h++) {
            MOEC_OMP(simd)
            for (long e = 0; e < E; e++) {
                d_attention_q[((b * S + s) * H + h) * E + e] =
                        d_query_rotary_y[((b * S + s) * H + h) * E + e] * query_rotary_cosine[s * E + e]
                        + d_query_rotary_y[((b * S + s) * H + h) * E + (e + 4) % 8]
                        * query_rotary_sine[s * E + (e + 4) % 8];
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
static void kernel_train_22_d_attention_norm_sum_of_squares(long i, const float *restrict x_2,
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
        + d_attention_norm_sum_of_squares[b,s] * (x_2[i,b,s,d] + x_2[i,b,s,d])   -- std/decoder.moe:118 */
static void kernel_train_23_d_x_2(long i, const float *restrict x_2, float *restrict d_x_2,
        const float *restrict d_x_3, const float *restrict d_attention_norm_y_3,
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
}

/* d_embedding[tokens[b,s],d] += d_x_2[0,b,s,d]   -- std/decoder.moe:79 */
static void kernel_train_24_d_embedding(const int32_t *restrict tokens, const float *restrict d_x_2,
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
    float *const x_2 = (void *)(run->arena + 98304); /* [block, batch, s, d] */
    float *const attention_norm_sum_of_squares = (void *)(run->arena + 376832); /* [block, batch, s] */
    const float *const block_attention_norm_weight = run->weights + 2048; /* [block, d] */
    float *const attention_norm_y_2 = (void *)(run->arena + 286720); /* [batch, s, d] */
    const float *const block_attention_query = run->weights + 2176; /* [block, d, h, e] */
    const float *const block_attention_key = run->weights + 6272; /* [block, d, hk, e] */
    const float *const block_attention_value = run->weights + 7296; /* [block, d, hv, c] */
    const float *const block_attention_output = run->weights + 9344; /* [block, h, c, d] */
    float *const attention_q = (void *)(run->arena + 294912); /* [batch, s, h, e] */
    float *const attention_k = (void *)(run->arena + 303104); /* [batch, s, hk, e] */
    float *const attention_v = (void *)(run->arena + 270336); /* [block, batch, s, hv, c] */
    float *const query_rotary_cosine = (void *)(run->arena + 377856); /* [s, e] */
    float *const query_rotary_sine = (void *)(run->arena + 378880); /* [s, e] */
    float *const query_rotary_y = (void *)(run->arena + 139264); /* [block, batch, s, h, e] */
    float *const key_rotary_y = (void *)(run->arena + 339968); /* [block, batch, s, hk, e] */
    float *const attended = (void *)(run->arena + 172032); /* [block, batch, s, h, c] */
    float *const attended_lse = (void *)(run->arena + 372736); /* [block, batch, s, h] */
    const float *const block_attention_sdpa_gate_weight = run->weights + 13440; /* [block, d, h, c] */
    float *const sdpa_gate_weight_product = (void *)(run->arena + 294912); /* [batch, s, h, c] */
    float *const act_y = (void *)(run->arena + 204800); /* [block, batch, s, h, c] */
    float *const sdpa_gate_y = (void *)(run->arena + 286720); /* [batch, s, h, c] */
    float *const attention_y = (void *)(run->arena + 294912); /* [batch, s, d] */
    float *const x_3 = (void *)(run->arena + 237568); /* [block, batch, s, d] */
    float *const ffn_norm_sum_of_squares = (void *)(run->arena + 379904); /* [block, batch, s] */
    const float *const block_ffn_norm_weight = run->weights + 17536; /* [block, d] */
    float *const ffn_norm_y_2 = (void *)(run->arena + 303104); /* [batch, s, d] */
    const float *const block_ffn_up = run->weights + 17664; /* [block, d, f] */
    const float *const block_ffn_gate = run->weights + 23808; /* [block, d, f] */
    const float *const block_ffn_down = run->weights + 29952; /* [block, f, d] */
    float *const ffn_gate_product = (void *)(run->arena + 0); /* [block, batch, s, f] */
    float *const act_y_2 = (void *)(run->arena + 286720); /* [batch, s, f] */
    float *const ffn_up_product = (void *)(run->arena + 49152); /* [block, batch, s, f] */
    float *const ffn_h = (void *)(run->arena + 299008); /* [batch, s, f] */
    float *const ffn_y = (void *)(run->arena + 286720); /* [batch, s, d] */
    float *const final_norm_sum_of_squares = (void *)(run->arena + 335872); /* [batch, s] */
    float *const final_norm_root = (void *)(run->arena + 336128); /* [batch, s] */
    float *const final_norm_y = (void *)(run->arena + 319488); /* [batch, s, d] */
    const float *const final_norm_weight = run->weights + 36096; /* [d] */
    float *const final_norm_y_2 = (void *)(run->arena + 327680); /* [batch, s, d] */
    const float *const unembedding = run->weights + 36128; /* [d, v] */
    float *const logits = (void *)(run->arena + 286720); /* [batch, s, v] */
    float *const largest = (void *)(run->arena + 336384); /* [batch, s] */
    float *const sum_of_powers = (void *)(run->arena + 336640); /* [batch, s] */
    float *const loss = run->outputs[0]; /* [] */
    const float *const loss_scale = run->inputs[2]; /* [] */
    float *const d_logits = (void *)(run->arena + 303104); /* [batch, s, v] */
    float *const d_final_norm_y_2 = (void *)(run->arena + 286720); /* [batch, s, d] */
    float *const d_unembedding = run->gradients + 36128; /* [d, v] */
    float *const d_final_norm_y_3 = (void *)(run->arena + 303104); /* [batch, s, d] */
    float *const d_final_norm_weight = run->gradients + 36096; /* [d] */
    float *const d_x_2 = (void *)(run->arena + 286720); /* [block, batch, s, d], two slots */
    float *const d_final_norm_sum_of_squares = (void *)(run->arena + 311296); /* [batch, s] */
    float *const d_x_3 = (void *)(run->arena + 303104); /* [batch, s, d] */
    float *const d_ffn_h = (void *)(run->arena + 303104); /* [batch, s, f] */
    float *const d_block_ffn_down = run->gradients + 29952; /* [block, f, d] */
    float *const d_ffn_up_product = (void *)(run->arena + 315392); /* [batch, s, f] */
    float *const d_ffn_norm_y_2 = (void *)(run->arena + 348160); /* [batch, s, d] */
    float *const d_block_ffn_up = run->gradients + 17664; /* [block, d, f] */
    float *const d_ffn_gate_product = (void *)(run->arena + 327680); /* [batch, s, f] */
    float *const d_block_ffn_gate = run->gradients + 23808; /* [block, d, f] */
    float *const d_ffn_norm_y_3 = (void *)(run->arena + 311296); /* [batch, s, d] */
    float *const d_block_ffn_norm_weight = run->gradients + 17536; /* [block, d] */
    float *const d_ffn_norm_sum_of_squares = (void *)(run->arena + 319488); /* [batch, s] */
    float *const d_sdpa_gate_y = (void *)(run->arena + 311296); /* [batch, s, h, c] */
    float *const d_block_attention_output = run->gradients + 9344; /* [block, h, c, d] */
    float *const d_attended = (void *)(run->arena + 319488); /* [batch, s, h, c] */
    float *const d_sdpa_gate_weight_product = (void *)(run->arena + 327680); /* [batch, s, h, c] */
    float *const d_attention_norm_y_2 = (void *)(run->arena + 348160); /* [batch, s, d] */
    float *const d_block_attention_sdpa_gate_weight = run->gradients + 13440; /* [block, d, h, c] */
    float *const d_query_rotary_y = (void *)(run->arena + 311296); /* [batch, s, h, e] */
    float *const d_key_rotary_y = (void *)(run->arena + 331776); /* [batch, s, hk, e] */
    float *const d_attention_v = (void *)(run->arena + 327680); /* [batch, s, hv, c] */
    float *const d_attention_k = (void *)(run->arena + 327680); /* [batch, s, hk, e] */
    float *const d_attention_q = (void *)(run->arena + 319488); /* [batch, s, h, e] */
    float *const d_block_attention_value = run->gradients + 7296; /* [block, d, hv, c] */
    float *const d_block_attention_key = run->gradients + 6272; /* [block, d, hk, e] */
    float *const d_block_attention_query = run->gradients + 2176; /* [block, d, h, e] */
    float *const d_attention_norm_y_3 = (void *)(run->arena + 311296); /* [batch, s, d] */
    float *const d_block_attention_norm_weight = run->gradients + 2048; /* [block, d] */
    float *const d_attention_norm_sum_of_squares = (void *)(run->arena + 319488); /* [batch, s] */
    float *const attention_norm_root_again = (void *)(run->arena + 335872); /* [batch, s] */
    float *const attention_norm_y_again = (void *)(run->arena + 356352); /* [batch, s, d] */
    float *const attention_norm_y_2_again = (void *)(run->arena + 364544); /* [batch, s, d] */
    float *const sdpa_gate_y_again = (void *)(run->arena + 319488); /* [batch, s, h, c] */
    float *const ffn_norm_root_again = (void *)(run->arena + 380928); /* [batch, s] */
    float *const ffn_norm_y_again = (void *)(run->arena + 356352); /* [batch, s, d] */
    float *const ffn_norm_y_2_again = (void *)(run->arena + 364544); /* [batch, s, d] */
    float *const ffn_h_again = (void *)(run->arena + 327680); /* [batch, s, f] */
    float *const d_embedding = run->gradients + 0; /* [v, d] */
    const int moec_first = run->first_micro_batch != 0;
    if (moec_first) {
        moec_clear(run->gradients + 0, 8704);
        moec_clear(run->gradients + 17536, 512);
        moec_clear(run->gradients + 36096, 128);
    }

    kernel_train_0_query_rotary_sine(tokens, embedding, x_2, query_rotary_cosine, query_rotary_sine);
    for (long i = 0; i < BLOCK_2; i++) {
        kernel_train_1_attention_norm_y_2(i, x_2, attention_norm_sum_of_squares, block_attention_norm_weight,
                attention_norm_y_2);
        /* attention_q[b,s,h,e] = sum[d] attention_norm_y_2[b,s,d] * block_attention_query[i,d,h,e]
                  -- std/attention.moe:82 */
        moec_product(run, 0, &moec_products[0], attention_norm_y_2, block_attention_query + i * D * H * E,
                attention_q);
        /* attention_k[b,s,hk,e] = sum[d] attention_norm_y_2[b,s,d] * block_attention_key[i,d,hk,e]
                  -- std/attention.moe:84 */
        moec_product(run, 1, &moec_products[1], attention_norm_y_2, block_attention_key + i * D * E,
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
                key_rotary_y + i * BATCH * S * E, attention_v + i * BATCH * S * HV * C, NULL, NULL,
                attended + i * BATCH * S * H * C, attended_lse + i * BATCH * S * H);
        /* sdpa_gate_weight_product[b,s,h,c] = sum[d] attention_norm_y_2[b,s,d]
                * block_attention_sdpa_gate_weight[i,d,h,c]   -- std/gate.moe:66 */
        moec_product(run, 3, &moec_products[3], attention_norm_y_2,
                block_attention_sdpa_gate_weight + i * D * H * C, sdpa_gate_weight_product);
        kernel_train_4_sdpa_gate_y(i, attended, sdpa_gate_weight_product, act_y, sdpa_gate_y);
        /* attention_y[b,s,d] = sum[h,c] sdpa_gate_y[b,s,h,c] * block_attention_output[i,h,c,d]
                  -- std/attention.moe:154 */
        moec_product(run, 4, &moec_products[4], sdpa_gate_y, block_attention_output + i * H * C * D,
                attention_y);
        kernel_train_5_ffn_norm_y_2(i, x_2, attention_y, x_3, ffn_norm_sum_of_squares, block_ffn_norm_weight,
                ffn_norm_y_2);
        /* ffn_gate_product[i,b,s,f] = sum[d] ffn_norm_y_2[b,s,d] * block_ffn_gate[i,d,f]
                  -- std/mlp.moe:57 */
        moec_product(run, 5, &moec_products[5], ffn_norm_y_2, block_ffn_gate + i * D * F,
                ffn_gate_product + i * BATCH * S * F);
        kernel_train_6_act_y_2(i, ffn_gate_product, act_y_2);
        /* ffn_up_product[i,b,s,f] = sum[d] ffn_norm_y_2[b,s,d] * block_ffn_up[i,d,f]   -- std/mlp.moe:57 */
        moec_product(run, 6, &moec_products[6], ffn_norm_y_2, block_ffn_up + i * D * F,
                ffn_up_product + i * BATCH * S * F);
        kernel_train_7_ffn_h(i, act_y_2, ffn_up_product, ffn_h);
        /* ffn_y[b,s,d] = sum[f] ffn_h[b,s,f] * block_ffn_down[i,f,d]   -- std/mlp.moe:58 */
        moec_product(run, 7, &moec_products[7], ffn_h, block_ffn_down + i * F * D, ffn_y);
        kernel_train_8_x_2(i, x_2, x_3, ffn_y);
    }
    kernel_train_9_final_norm_y_2(x_2, final_norm_sum_of_squares, final_norm_root, final_norm_y,
            final_norm_weight, final_norm_y_2);
    /* logits[b,s,v] = sum[d] final_norm_y_2[b,s,d] * unembedding[d,v]   -- std/decoder.moe:127 */
    moec_product(run, 8, &moec_products[8], final_norm_y_2, unembedding, logits);
    kernel_train_10_sum_of_powers(logits, largest, sum_of_powers);
    kernel_train_11_d_logits(targets, logits, largest, sum_of_powers, loss, loss_scale, d_logits);
    /* d_final_norm_y_2[b,s,d] = sum[v] d_logits[b,s,v] * unembedding[d,v]   -- std/decoder.moe:127 */
    moec_product(run, 9, &moec_products[9], d_logits, unembedding, d_final_norm_y_2);
    /* d_unembedding[d,v] += sum[b,s] d_logits[b,s,v] * final_norm_y_2[b,s,d]   -- std/decoder.moe:127 */
    moec_product(run, 10 + moec_first, &moec_products[10 + moec_first], final_norm_y_2, d_logits,
            d_unembedding);
    kernel_train_12_d_final_norm_sum_of_squares(x_2, final_norm_sum_of_squares, final_norm_root,
            final_norm_y, final_norm_weight, d_final_norm_y_2, d_final_norm_y_3, d_final_norm_weight,
            d_final_norm_sum_of_squares);
    kernel_train_13_d_x_2(x_2, final_norm_root, d_final_norm_y_3, d_x_2, d_final_norm_sum_of_squares);
    for (long i = BLOCK_2 - 1; i >= 0; i--) {
        /* d_ffn_h[b,s,f] = sum[d] d_x_2[i + 1,b,s,d] * block_ffn_down[i,f,d]   -- std/mlp.moe:58 */
        moec_product(run, 12, &moec_products[12], d_x_2 + ((i + 1) & 1) * BATCH * S * D,
                block_ffn_down + i * F * D, d_ffn_h);
        kernel_train_14_d_ffn_up_product(i, ffn_gate_product, ffn_up_product, d_ffn_h, d_ffn_up_product,
                ffn_h_again);
        /* d_block_ffn_down[i,f,d] += sum[b,s] d_x_2[i + 1,b,s,d] * ffn_h_again[b,s,f]   -- std/mlp.moe:58 */
        moec_product(run, 13 + moec_first, &moec_products[13 + moec_first], ffn_h_again,
                d_x_2 + ((i + 1) & 1) * BATCH * S * D, d_block_ffn_down + i * F * D);
        /* d_ffn_norm_y_2[b,s,d] = sum[f] d_ffn_up_product[b,s,f] * block_ffn_up[i,d,f]   -- std/mlp.moe:57 */
        moec_product(run, 15, &moec_products[15], d_ffn_up_product, block_ffn_up + i * D * F, d_ffn_norm_y_2);
        kernel_train_15_d_ffn_gate_product(i, x_3, ffn_norm_sum_of_squares, block_ffn_norm_weight,
                ffn_gate_product, ffn_up_product, d_ffn_h, d_ffn_gate_product, ffn_norm_root_again,
                ffn_norm_y_again, ffn_norm_y_2_again);
        /* d_block_ffn_up[i,d,f] += sum[b,s] d_ffn_up_product[b,s,f] * ffn_norm_y_2_again[b,s,d]
                  -- std/mlp.moe:57 */
        moec_product(run, 16 + moec_first, &moec_products[16 + moec_first], ffn_norm_y_2_again,
                d_ffn_up_product, d_block_ffn_up + i * D * F);
        /* d_ffn_norm_y_2[b,s,d] += sum[f] d_ffn_gate_product[b,s,f] * block_ffn_gate[i,d,f]
                  -- std/mlp.moe:57 */
        moec_product(run, 18, &moec_products[18], d_ffn_gate_product, block_ffn_gate + i * D * F,
                d_ffn_norm_y_2);
        /* d_block_ffn_gate[i,d,f] += sum[b,s] d_ffn_gate_product[b,s,f] * ffn_norm_y_2_again[b,s,d]
                  -- std/mlp.moe:57 */
        moec_product(run, 19 + moec_first, &moec_products[19 + moec_first], ffn_norm_y_2_again,
                d_ffn_gate_product, d_block_ffn_gate + i * D * F);
        kernel_train_16_d_ffn_norm_sum_of_squares(i, x_3, ffn_norm_sum_of_squares, block_ffn_norm_weight,
                d_ffn_norm_y_2, d_ffn_norm_y_3, d_block_ffn_norm_weight, d_ffn_norm_sum_of_squares,
                ffn_norm_root_again, ffn_norm_y_again);
        kernel_train_17_d_x_3(i, x_3, d_x_2, d_x_3, d_ffn_norm_y_3, d_ffn_norm_sum_of_squares,
                ffn_norm_root_again);
        /* d_sdpa_gate_y[b,s,h,c] = sum[d] d_x_3[b,s,d] * block_attention_output[i,h,c,d]
                  -- std/attention.moe:154 */
        moec_product(run, 21, &moec_products[21], d_x_3, block_attention_output + i * H * C * D,
                d_sdpa_gate_y);
        kernel_train_18_d_sdpa_gate_weight_product(i, attended, act_y, d_sdpa_gate_y,
                d_sdpa_gate_weight_product, sdpa_gate_y_again);
        /* d_block_attention_output[i,h,c,d] += sum[b,s] d_x_3[b,s,d] * sdpa_gate_y_again[b,s,h,c]
                  -- std/attention.moe:154 */
        moec_product(run, 22 + moec_first, &moec_products[22 + moec_first], sdpa_gate_y_again, d_x_3,
                d_block_attention_output + i * H * C * D);
        /* d_attention_norm_y_2[b,s,d] = sum[h,c] d_sdpa_gate_weight_product[b,s,h,c]
                * block_attention_sdpa_gate_weight[i,d,h,c]   -- std/gate.moe:66 */
        moec_product(run, 24, &moec_products[24], d_sdpa_gate_weight_product,
                block_attention_sdpa_gate_weight + i * D * H * C, d_attention_norm_y_2);
        kernel_train_19_d_attended(i, x_2, attention_norm_sum_of_squares, block_attention_norm_weight, act_y,
                d_sdpa_gate_y, d_attended, attention_norm_root_again, attention_norm_y_again,
                attention_norm_y_2_again);
        /* d_block_attention_sdpa_gate_weight[i,d,h,c] += sum[b,s] d_sdpa_gate_weight_product[b,s,h,c]
                * attention_norm_y_2_again[b,s,d]   -- std/gate.moe:66 */
        moec_product(run, 25 + moec_first, &moec_products[25 + moec_first], attention_norm_y_2_again,
                d_sdpa_gate_weight_product, d_block_attention_sdpa_gate_weight + i * D * H * C);
        /* d_query_rotary_y[b,s,h,e], d_key_rotary_y[b,s,hk,e],
                d_attention_v[b,s,hv,c] = attend_grad(query_rotary_y[i,b,s,h,e], key_rotary_y[i,b,s,hk,e],
                attention_v[i,b,s,hv,c], attended[i,b,s,h,c], attended_lse[i,b,s,h],
                d_attended[b,s,h,c]; scale = 0.353553391, mask = causal)   -- std/attention.moe:125 */
        moec_attend_grad(&moec_options_train_20,
                &(const MoecAttendSaved){.q = query_rotary_y + i * BATCH * S * H * E,
                        .k = key_rotary_y + i * BATCH * S * E, .v = attention_v + i * BATCH * S * HV * C,
                        .sink = NULL, .o = attended + i * BATCH * S * H * C,
                        .lse = attended_lse + i * BATCH * S * H,
                                         .documents = NULL, .output_grad = d_attended},
                d_query_rotary_y, d_key_rotary_y, d_attention_v, NULL);
        /* d_attention_norm_y_2[b,s,d] += sum[hv,c] d_attention_v[b,s,hv,c] * block_attention_value[i,d,hv,c]
                  -- std/attention.moe:85 */
        moec_product(run, 27, &moec_products[27], d_attention_v, block_attention_value + i * D * HV * C,
                d_attention_norm_y_2);
        /* d_block_attention_value[i,d,hv,c] += sum[b,s] d_attention_v[b,s,hv,c]
                * attention_norm_y_2_again[b,s,d]   -- std/attention.moe:85 */
        moec_product(run, 28 + moec_first, &moec_products[28 + moec_first], attention_norm_y_2_again,
                d_attention_v, d_block_attention_value + i * D * HV * C);
        kernel_train_21_d_attention_q(query_rotary_cosine, query_rotary_sine, d_query_rotary_y,
                d_key_rotary_y, d_attention_k, d_attention_q);
        /* d_attention_norm_y_2[b,s,d] += sum[hk,e] d_attention_k[b,s,hk,e] * block_attention_key[i,d,hk,e]
                  -- std/attention.moe:84 */
        moec_product(run, 30, &moec_products[30], d_attention_k, block_attention_key + i * D * E,
                d_attention_norm_y_2);
        /* d_block_attention_key[i,d,hk,e] += sum[b,s] d_attention_k[b,s,hk,e]
                * attention_norm_y_2_again[b,s,d]   -- std/attention.moe:84 */
        moec_product(run, 31 + moec_first, &moec_products[31 + moec_first], attention_norm_y_2_again,
                d_attention_k, d_block_attention_key + i * D * E);
        /* d_attention_norm_y_2[b,s,d] += sum[h,e] d_attention_q[b,s,h,e] * block_attention_query[i,d,h,e]
                  -- std/attention.moe:82 */
        moec_product(run, 33, &moec_products[33], d_attention_q, block_attention_query + i * D * H * E,
                d_attention_norm_y_2);
        /* d_block_attention_query[i,d,h,e] += sum[b,s] d_attention_q[b,s,h,e]
                * attention_norm_y_2_again[b,s,d]   -- std/attention.moe:82 */
        moec_product(run, 34 + moec_first, &moec_products[34 + moec_first], attention_norm_y_2_again,
                d_attention_q, d_block_attention_query + i * D * H * E);
        kernel_train_22_d_attention_norm_sum_of_squares(i, x_2, attention_norm_sum_of_squares,
                block_attention_norm_weight, d_attention_norm_y_2, d_attention_norm_y_3,
                d_block_attention_norm_weight, d_attention_norm_sum_of_squares, attention_norm_root_again,
                attention_norm_y_again);
        kernel_train_23_d_x_2(i, x_2, d_x_2, d_x_3, d_attention_norm_y_3, d_attention_norm_sum_of_squares,
                attention_norm_root_again);
    }
    kernel_train_24_d_embedding(tokens, d_x_2, d_embedding);
}

/* The factor of the learning rate at a step (from 0) of `steps`. */
static double update_rate(double step, double steps)
{
    (void)step, (void)steps;
    const float schedule_step[1] = {(float)step};
    const float steps_2[1] = {(float)steps};
    float rate_2[1];
    const float schedule_step_at = schedule_step[0];
    const float steps_at = steps_2[0];
    float rate = moec_where(moec_lt(schedule_step_at, 10.0f), (schedule_step_at + 1.0f) / 10.0f,
            0.1f + 0.45f * (1.0f + moec_cos(3.14159265f
            * moec_min(1.0f, (schedule_step_at - 10.0f) / moec_max(1.0f, steps_at - 10.0f)))));
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
     .rank = 4, .shape = {4, 32, 1, 8}, .init = MOEC_INIT_NORMAL, .a = 0, .b = 0.17677669529663687, .matrix = 1},
    {.name = "block.{i}.attention.value", .axes = "block,d,hv,c", .block = MOEC_WEIGHTS, .offset = 29184,
     .rank = 4, .shape = {4, 32, 2, 8}, .init = MOEC_INIT_NORMAL, .a = 0, .b = 0.17677669529663687, .matrix = 1},
    {.name = "block.{i}.attention.output", .axes = "block,h,c,d", .block = MOEC_WEIGHTS, .offset = 37376,
     .rank = 4, .shape = {4, 4, 8, 32}, .init = MOEC_INIT_NORMAL, .a = 0, .b = 0.17677669529663689, .matrix = 1},
    {.name = "block.{i}.attention.sdpa_gate.weight", .axes = "block,d,h,c", .block = MOEC_WEIGHTS, .offset = 53760,
     .rank = 4, .shape = {4, 32, 4, 8}, .init = MOEC_INIT_NORMAL, .a = 0, .b = 0.17677669529663689, .matrix = 1},
    {.name = "block.{i}.ffn_norm.weight", .axes = "block,d", .block = MOEC_WEIGHTS, .offset = 70144,
     .rank = 2, .shape = {4, 32}, .init = MOEC_INIT_CONSTANT, .a = 1, .b = 0, .matrix = 0, .group = 1},
    {.name = "block.{i}.ffn.up", .axes = "block,d,f", .block = MOEC_WEIGHTS, .offset = 70656,
     .rank = 3, .shape = {4, 32, 48}, .init = MOEC_INIT_NORMAL, .a = 0, .b = 0.17677669529663687, .matrix = 1},
    {.name = "block.{i}.ffn.gate", .axes = "block,d,f", .block = MOEC_WEIGHTS, .offset = 95232,
     .rank = 3, .shape = {4, 32, 48}, .init = MOEC_INIT_NORMAL, .a = 0, .b = 0.17677669529663687, .matrix = 1},
    {.name = "block.{i}.ffn.down", .axes = "block,f,d", .block = MOEC_WEIGHTS, .offset = 119808,
     .rank = 3, .shape = {4, 48, 32}, .init = MOEC_INIT_NORMAL, .a = 0, .b = 0.14433756729740643, .matrix = 1},
    {.name = "final_norm.weight", .axes = "d", .block = MOEC_WEIGHTS, .offset = 144384,
     .rank = 1, .shape = {32}, .init = MOEC_INIT_CONSTANT, .a = 1, .b = 0, .matrix = 0, .group = 1},
    {.name = "unembedding", .axes = "d,v", .block = MOEC_WEIGHTS, .offset = 144512,
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
};

static const MoecGraphEntry graphs[] = {
    {.kind = MOEC_GRAPH_TRAIN, .run = run_train, .batch = 2, .context = 32, .tokens = 32,
     .arena_bytes = 381184, .cache_bytes = 0,
     .inputs = train_inputs, .input_count = 3,
     .outputs = train_outputs, .output_count = 1,
     .first_product = 0, .product_count = 36, .flops = 15654912, .product_flops = 13762560},
};

const MoecTable moec_table = {
    .abi = MOEC_ABI,
    .model = "dense",
    .parameters = parameters, .parameter_count = 13,
    .weight_bytes = 152704, .state_bytes = 0,
    .graphs = graphs, .graph_count = 1,
    .update = &update,
    .products = moec_products, .product_count = 36,
};
