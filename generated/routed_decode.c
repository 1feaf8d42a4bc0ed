/* Written by moec to stand alone. Comments hold the equations and where they stand. */
/* run_decode
   axes:    batch = 1, s = 1, v = 64, d = 32, block = 5, block = 4 (BLOCK_2), h = 4, e = 8, hk = 4, hv = 4,
        c = 8, n = 4, f = 48, chosen_rows = 2, s = 32, chosen_groups = 5, chosen_others = 2
   inputs:  tokens[batch, s], position
   outputs: logits[batch, s, v]
   work:    11 kernels and calls, 5 products
   memory:  2112 bytes of temporaries */
/* The kernels leave out what nothing here multiplies. */
#define MOEC_ROUNDED_PRODUCTS 0
#define MOEC_BF16_OPERANDS 0
#define MOEC_INT8_OPERANDS 0
#define MOEC_BYTE_OPERANDS 0
#include "kernels.h"

/* Sizes of axes. */
enum { D = 32, V = 64, BLOCK = 5, E = 8, BLOCK_2 = 4, H = 4, HK = 4, HV = 4, C = 8, S = 32, N = 4,
        CHOSEN_ROWS = 2, CHOSEN_GROUPS = 5, CHOSEN_OTHERS = 2, F = 48, D_2 = 2 };

/* Matrix products of fixed shape: see MoecProduct in abi.h. */
static const MoecProduct moec_products[] = {
    {.m = 1, .n = 32, .k = 32, .a_m = 32, .a_k = 1, .b_k = 32, .b_n = 1, .c_m = 32,
     .batch = {1, 1}, .accumulate = 0}, /* 0: attention_q */
    {.m = 1, .n = 32, .k = 32, .a_m = 32, .a_k = 1, .b_k = 32, .b_n = 1, .c_m = 32,
     .batch = {1, 1}, .accumulate = 0}, /* 1: attention_k */
    {.m = 1, .n = 32, .k = 32, .a_m = 32, .a_k = 1, .b_k = 32, .b_n = 1, .c_m = 32,
     .batch = {1, 1}, .accumulate = 0}, /* 2: attention_v */
    {.m = 1, .n = 32, .k = 32, .a_m = 32, .a_k = 1, .b_k = 32, .b_n = 1, .c_m = 32,
     .batch = {1, 1}, .accumulate = 0}, /* 3: attention_y */
    {.m = 1, .n = 64, .k = 32, .a_m = 32, .a_k = 1, .b_k = 64, .b_n = 1, .c_m = 64,
     .batch = {1, 1}, .accumulate = 0}, /* 4: logits */
};

/* x[b,s,d] = embedding[tokens[b,s],d]   -- std/decoder.moe:79
   x_2[0,b,s,d] = x[b,s,d]   -- std/decoder.moe:118
   query_rotary_angle_table[e] = 10000 ^ (-2 * (e % 4) / 8)   -- std/rotary.moe:18
   query_rotary_angle_2[s,e] = (position + s) * query_rotary_angle_table[e]   -- std/rotary.moe:18
   query_rotary_cosine[s,e] = cos(query_rotary_angle_2[s,e])   -- std/rotary.moe:24
   query_rotary_sine[s,e] = where(e < 4, -1, 1) * sin(query_rotary_angle_2[s,e])   -- std/rotary.moe:25 */
static void kernel_decode_0_query_rotary_sine(const int32_t *restrict tokens,
        const float *restrict embedding, float *restrict x_2, float *restrict query_rotary_cosine,
        float *restrict query_rotary_sine, const int32_t *restrict position)
{
    const long tokens_at = (long)tokens[0];
    const int32_t position_at = position[0];
    MOEC_OMP(simd)
    for (long d = 0; d < D; d++) {
        float x = embedding[tokens_at * D + d];
        x_2[d] = x;
    }
    MOEC_OMP(simd)
    for (long e = 0; e < E; e++) {
        double query_rotary_angle_table = moec_math(pow)(10000.0, (double)(-2 * (e % 4)) / 8.0);
        double query_rotary_angle_2 = (double)(long)position_at * query_rotary_angle_table;
        query_rotary_cosine[e] = (float)moec_math(cos)(query_rotary_angle_2);
        query_rotary_sine[e] = (float)((e < 4 ? -1.0 : 1.0) * moec_math(sin)(query_rotary_angle_2));
    }
}

/* attention_norm_sum_of_squares[b,s] = sum[d] x_2[i,b,s,d] * x_2[i,b,s,d]   -- std/norms.moe:9
   attention_norm_root[b,s] = rsqrt(attention_norm_sum_of_squares[b,s] * 0.03125 + 1e-06)   -- std/norms.moe:9
   attention_norm_y[b,s,d] = x_2[i,b,s,d] * attention_norm_root[b,s]   -- std/norms.moe:10
   attention_norm_y_2[b,s,d] = attention_norm_y[b,s,d] * block_attention_norm_weight[i,d]
          -- std/norms.moe:13 */
static void kernel_decode_1_attention_norm_y_2(long i, const float *restrict x_2,
        const float *restrict block_attention_norm_weight, float *restrict attention_norm_y_2)
{
    float attention_norm_sum_of_squares = 0.0f;
    MOEC_OMP(simd reduction(+:attention_norm_sum_of_squares))
    for (long d = 0; d < D; d++) {
        const float x_2_at = x_2[(i & 1) * D + d];
        attention_norm_sum_of_squares += x_2_at * x_2_at;
    }
    float attention_norm_root = moec_rsqrt(attention_norm_sum_of_squares * 0.03125f + 1e-06f);
    MOEC_OMP(simd)
    for (long d = 0; d < D; d++) {
        float attention_norm_y = x_2[(i & 1) * D + d] * attention_norm_root;
        attention_norm_y_2[d] = attention_norm_y * block_attention_norm_weight[i * D + d];
    }
}

/* cache_attention_v[i,batch,position + s,hv,c] = attention_v[batch,s,hv,c]   -- std/attention.moe:85
   query_rotary_y[b,s,h,e] = attention_q[b,s,h,e] * query_rotary_cosine[s,e]
        + attention_q[b,s,h,(e + 4) % 8] * query_rotary_sine[s,e]   -- std/rotary.moe:31
   key_rotary_y[b,s,h,e] = attention_k[b,s,h,e] * query_rotary_cosine[s,e]
        + attention_k[b,s,h,(e + 4) % 8] * query_rotary_sine[s,e]   -- std/rotary.moe:31
   cache_key_rotary_y[i,batch,position + s,hk,e] = key_rotary_y[batch,s,hk,e]   -- std/rotary.moe:31 */
static void kernel_decode_2_cache_key_rotary_y(long i, const float *restrict attention_q,
        const float *restrict attention_k, const float *restrict attention_v,
        const float *restrict query_rotary_cosine, const float *restrict query_rotary_sine,
        float *restrict query_rotary_y, const int32_t *restrict position, float *restrict cache_key_rotary_y,
        float *restrict cache_attention_v)
{
    const int32_t position_at = position[0];
    const long at = (long)position_at;
    for (long hv = 0; hv < HV; hv++) {
        MOEC_OMP(simd)
        for (long c = 0; c < C; c++) {
            cache_attention_v[((i * S + at) * HV + hv) * C + c] = attention_v[hv * C + c];
            query_rotary_y[hv * E + c] = attention_q[hv * E + c] * query_rotary_cosine[c]
                    + attention_q[hv * E + (c + 4) % 8] * query_rotary_sine[c];
            float key_rotary_y = attention_k[hv * E + c] * query_rotary_cosine[c]
                    + attention_k[hv * E + (c + 4) % 8] * query_rotary_sine[c];
            cache_key_rotary_y[((i * S + at) * HK + hv) * E + c] = key_rotary_y;
        }
    }
}

static const MoecAttend moec_options_decode_3 = {
    .batch = 1, .queries = 1, .keys = 32, .places = 32,
    .mask = MOEC_MASK_CAUSAL, .window = 0, .heads = 4, .key_heads = 4,
    .value_heads = 4, .width = 8, .value_width = 8,
    .scale = 0.353553391f, .cap = 0.0f, .best = 0,
};

/* x_3[b,s,d] = x_2[i,b,s,d] + attention_y[b,s,d]   -- std/decoder.moe:113
   ffn_norm_sum_of_squares[b,s] = sum[d] x_3[b,s,d] * x_3[b,s,d]   -- std/norms.moe:9
   ffn_norm_root[b,s] = rsqrt(ffn_norm_sum_of_squares[b,s] * 0.03125 + 1e-06)   -- std/norms.moe:9
   ffn_norm_y[b,s,d] = x_3[b,s,d] * ffn_norm_root[b,s]   -- std/norms.moe:10
   ffn_norm_y_2[b,s,d] = ffn_norm_y[b,s,d] * block_ffn_norm_weight[i,d]   -- std/norms.moe:13
   ffn_logit[b,s,n] = sum[d] ffn_norm_y_2[b,s,d] * block_ffn_router[i,d,n]   -- std/moe.moe:67
   ffn_largest[b,s] = max[n] ffn_logit[b,s,n]   -- std/moe.moe:69
   ffn_value[b,s,n] = exp(ffn_logit[b,s,n] - stop_gradient(ffn_largest[b,s]))   -- std/moe.moe:69
   ffn_total[b,s] = sum[n] ffn_value[b,s,n]   -- std/moe.moe:69
   ffn_p[b,s,n] = ffn_value[b,s,n] / ffn_total[b,s]   -- std/moe.moe:69 */
static void kernel_decode_4_ffn_p(long i, const float *restrict x_2, const float *restrict attention_y,
        float *restrict x_3, const float *restrict block_ffn_norm_weight, float *restrict ffn_norm_y_2,
        const float *restrict block_ffn_router, float *restrict ffn_p)
{
    float ffn_logit[4];
    float ffn_value[4];
    float ffn_norm_sum_of_squares = 0.0f;
    MOEC_OMP(simd reduction(+:ffn_norm_sum_of_squares))
    for (long d = 0; d < D; d++) {
        x_3[d] = x_2[(i & 1) * D + d] + attention_y[d];
        ffn_norm_sum_of_squares += x_3[d] * x_3[d];
    }
    float ffn_norm_root = moec_rsqrt(ffn_norm_sum_of_squares * 0.03125f + 1e-06f);
    float ffn_logit_sum[4] = {0.0f};
    for (long d = 0; d < D; d++) {
        float ffn_norm_y = x_3[d] * ffn_norm_root;
        float ffn_norm_y_2_now = ffn_norm_y * block_ffn_norm_weight[i * D + d];
        ffn_norm_y_2[d] = ffn_norm_y_2_now;
        MOEC_OMP(simd)
        for (long n = 0; n < N; n++) {
            ffn_logit_sum[n] += ffn_norm_y_2_now * block_ffn_router[(i * D + d) * N + n];
        }
    }
    for (long n = 0; n < N; n++) {
        ffn_logit[n] = ffn_logit_sum[n];
    }
    float ffn_largest = -INFINITY;
    MOEC_OMP(simd reduction(max:ffn_largest))
    for (long n = 0; n < N; n++) {
        ffn_largest = moec_max(ffn_largest, ffn_logit[n]);
    }
    float ffn_total = 0.0f;
    MOEC_OMP(simd reduction(+:ffn_total))
    for (long n = 0; n < N; n++) {
        ffn_value[n] = moec_exp(ffn_logit[n] - ffn_largest);
        ffn_total += ffn_value[n];
    }
    MOEC_OMP(simd)
    for (long n = 0; n < N; n++) {
        ffn_p[n] = ffn_value[n] / ffn_total;
    }
}

static const MoecPack moec_options_decode_5 = {
    .rank = 3, .shape = {1, 1, 4}, .key = {0, 0, 1}, .rows = 2,
};

/* ffn_total_3[b,s] = sum[n] chosen[b,s,n] * ffn_p[b,s,n]   -- std/moe.moe:101
   ffn_weight[b,s,n] = ffn_p[b,s,n] / where(ffn_total_3[b,s] > 0, ffn_total_3[b,s], 1)   -- std/moe.moe:102 */
static void kernel_decode_6_ffn_weight(const float *restrict ffn_p, const float *restrict chosen,
        float *restrict ffn_weight)
{
    float ffn_total_3 = 0.0f;
    MOEC_OMP(simd reduction(+:ffn_total_3))
    for (long n = 0; n < N; n++) {
        ffn_total_3 += chosen[n] * ffn_p[n];
    }
    const float fixed = moec_where(moec_lt(0.0f, ffn_total_3), ffn_total_3, 1.0f);
    MOEC_OMP(simd)
    for (long n = 0; n < N; n++) {
        ffn_weight[n] = ffn_p[n] / fixed;
    }
}

/* act_y[r,f] = expert_gate_product[r,f] * sigmoid(expert_gate_product[r,f])   -- std/activations.moe:19 */
static void kernel_decode_7_act_y(const float *restrict expert_gate_product, float *restrict act_y)
{
    for (long r = 0; r < CHOSEN_ROWS; r++) {
        MOEC_OMP(simd)
        for (long f = 0; f < F; f++) {
            const float expert_gate_product_at = expert_gate_product[r * F + f];
            act_y[r * F + f] = expert_gate_product_at * moec_sigmoid(expert_gate_product_at);
        }
    }
}

/* expert_h[r,f] = act_y[r,f] * expert_up_product[r,f]   -- std/mlp.moe:57
   ffn_y[b,s,d] = 0   -- std/moe.moe:109 */
static void kernel_decode_8_ffn_y(const float *restrict act_y, const float *restrict expert_up_product,
        float *restrict expert_h, float *restrict ffn_y)
{
    for (long r = 0; r < CHOSEN_ROWS; r++) {
        MOEC_OMP(simd)
        for (long f = 0; f < F; f++) {
            expert_h[r * F + f] = act_y[r * F + f] * expert_up_product[r * F + f];
        }
    }
    MOEC_OMP(simd)
    for (long d = 0; d < D; d++) {
        ffn_y[d] = 0.0f;
    }
}

/* ffn_y[chosen_batch[r],chosen_s[r],d] += ffn_weight[chosen_batch[r],chosen_s[r],chosen_n[r]]
        * expert_y[r,d]   -- std/moe.moe:109
   x_2[i + 1,b,s,d] = x_3[b,s,d] + ffn_y[b,s,d]   -- std/decoder.moe:118 */
static void kernel_decode_9_x_2(long i, float *restrict x_2, const float *restrict x_3,
        const float *restrict ffn_weight, const float *restrict expert_y, float *restrict ffn_y,
        const int32_t *restrict chosen_batch, const int32_t *restrict chosen_s,
        const int32_t *restrict chosen_n)
{
    for (long d_from = 0; d_from < 32; d_from += 16) {
        for (long r = 0; r < CHOSEN_ROWS; r++) {
            const long chosen_batch_at = (long)chosen_batch[r];
            const long chosen_s_at = (long)chosen_s[r];
            const long chosen_n_at = (long)chosen_n[r];
            const float ffn_weight_at = ffn_weight[(chosen_batch_at + chosen_s_at) * N + chosen_n_at];
            MOEC_OMP(simd)
            for (long d = d_from; d < d_from + 16; d++) {
                ffn_y[(chosen_batch_at + chosen_s_at) * D + d] += ffn_weight_at * expert_y[r * D + d];
            }
        }
    }
    MOEC_OMP(simd)
    for (long d = 0; d < D; d++) {
        x_2[((i + 1) & 1) * D + d] = x_3[d] + ffn_y[d];
    }
}

/* final_norm_sum_of_squares[b,s] = sum[d] x_2[4,b,s,d] * x_2[4,b,s,d]   -- std/norms.moe:9
   final_norm_root[b,s] = rsqrt(final_norm_sum_of_squares[b,s] * 0.03125 + 1e-06)   -- std/norms.moe:9
   final_norm_y[b,s,d] = x_2[4,b,s,d] * final_norm_root[b,s]   -- std/norms.moe:10
   final_norm_y_2[b,s,d] = final_norm_y[b,s,d] * final_norm_weight[d]   -- std/norms.moe:13 */
static void kernel_decode_10_final_norm_y_2(const float *restrict x_2,
        const float *restrict final_norm_weight, float *restrict final_norm_y_2)
{
    float final_norm_sum_of_squares = 0.0f;
    MOEC_OMP(simd reduction(+:final_norm_sum_of_squares))
    for (long d = 0; d < D; d++) {
        final_norm_sum_of_squares += x_2[d] * x_2[d];
    }
    float final_norm_root = moec_rsqrt(final_norm_sum_of_squares * 0.03125f + 1e-06f);
    MOEC_OMP(simd)
    for (long d = 0; d < D; d++) {
        float final_norm_y = x_2[d] * final_norm_root;
        final_norm_y_2[d] = final_norm_y * final_norm_weight[d];
    }
}

static void run_decode(const MoecRun *run)
{
    const int32_t *const tokens = run->inputs[0]; /* [batch, s] */
    const float *const embedding = run->weights + 0; /* [v, d] */
    float *const x_2 = (void *)(run->arena + 1152); /* [block, batch, s, d], two slots */
    const float *const block_attention_norm_weight = run->weights + 2048; /* [block, d] */
    float *const attention_norm_y_2 = (void *)(run->arena + 0); /* [batch, s, d] */
    const float *const block_attention_query = run->weights + 2176; /* [block, d, h, e] */
    const float *const block_attention_key = run->weights + 6272; /* [block, d, hk, e] */
    const float *const block_attention_value = run->weights + 10368; /* [block, d, hv, c] */
    const float *const block_attention_output = run->weights + 14464; /* [block, h, c, d] */
    float *const attention_q = (void *)(run->arena + 128); /* [batch, s, h, e] */
    float *const attention_k = (void *)(run->arena + 256); /* [batch, s, hk, e] */
    float *const attention_v = (void *)(run->arena + 384); /* [batch, s, hv, c] */
    float *const query_rotary_cosine = (void *)(run->arena + 1664); /* [s, e] */
    float *const query_rotary_sine = (void *)(run->arena + 1728); /* [s, e] */
    float *const query_rotary_y = (void *)(run->arena + 0); /* [batch, s, h, e] */
    float *const attended = (void *)(run->arena + 128); /* [batch, s, h, c] */
    float *const attended_lse = (void *)(run->arena + 256); /* [batch, s, h] */
    float *const attention_y = (void *)(run->arena + 0); /* [batch, s, d] */
    float *const x_3 = (void *)(run->arena + 1408); /* [batch, s, d] */
    const float *const block_ffn_norm_weight = run->weights + 18560; /* [block, d] */
    float *const ffn_norm_y_2 = (void *)(run->arena + 768); /* [batch, s, d] */
    const float *const block_ffn_router = run->weights + 18688; /* [block, d, n] */
    float *const ffn_p = (void *)(run->arena + 128); /* [batch, s, n] */
    float *const chosen = (void *)(run->arena + 0); /* [batch, s, n] */
    float *const ffn_weight = (void *)(run->arena + 1792); /* [batch, s, n] */
    const float *const block_ffn_expert_up = run->weights + 19200; /* [block, n, d, f] */
    const float *const block_ffn_expert_gate = run->weights + 43776; /* [block, n, d, f] */
    const float *const block_ffn_expert_down = run->weights + 68352; /* [block, n, f, d] */
    float *const expert_gate_product = (void *)(run->arena + 0); /* [chosen_rows, f] */
    float *const act_y = (void *)(run->arena + 384); /* [chosen_rows, f] */
    float *const expert_up_product = (void *)(run->arena + 0); /* [chosen_rows, f] */
    float *const expert_h = (void *)(run->arena + 768); /* [chosen_rows, f] */
    float *const expert_y = (void *)(run->arena + 0); /* [chosen_rows, d] */
    float *const ffn_y = (void *)(run->arena + 1536); /* [batch, s, d] */
    const float *const final_norm_weight = run->weights + 92928; /* [d] */
    float *const final_norm_y_2 = (void *)(run->arena + 0); /* [batch, s, d] */
    const float *const unembedding = run->weights + 92960; /* [d, v] */
    float *const logits = run->outputs[0]; /* [batch, s, v] */
    const int32_t *const position = run->inputs[1]; /* [] */
    float *const cache_key_rotary_y = run->cache + 0; /* [block, batch, s, hk, e] */
    float *const cache_attention_v = run->cache + 4096; /* [block, batch, s, hv, c] */
    int32_t *const chosen_batch = (void *)(run->arena + 1856); /* [chosen_rows] */
    int32_t *const chosen_s = (void *)(run->arena + 1920); /* [chosen_rows] */
    int32_t *const chosen_n = (void *)(run->arena + 1984); /* [chosen_rows] */
    int32_t *const chosen_row = (void *)(run->arena + 64); /* [batch, s, n] */
    int32_t *const chosen_other = (void *)(run->arena + 896); /* [chosen_rows] */
    int32_t *const chosen_group = (void *)(run->arena + 2048); /* [chosen_groups] */
    int32_t *const chosen_start = (void *)(run->arena + 192); /* [chosen_others] */
    int32_t *const chosen_list = (void *)(run->arena + 256); /* [chosen_rows] */

    kernel_decode_0_query_rotary_sine(tokens, embedding, x_2, query_rotary_cosine, query_rotary_sine,
            position);
    for (long i = 0; i < BLOCK_2; i++) {
        kernel_decode_1_attention_norm_y_2(i, x_2, block_attention_norm_weight, attention_norm_y_2);
        /* attention_q[b,s,h,e] = sum[d] attention_norm_y_2[b,s,d] * block_attention_query[i,d,h,e]
                  -- std/attention.moe:82 */
        moec_product(run, 0, &moec_products[0], attention_norm_y_2, block_attention_query + i * D * H * E,
                attention_q);
        /* attention_k[b,s,hk,e] = sum[d] attention_norm_y_2[b,s,d] * block_attention_key[i,d,hk,e]
                  -- std/attention.moe:84 */
        moec_product(run, 1, &moec_products[1], attention_norm_y_2, block_attention_key + i * D * HK * E,
                attention_k);
        /* attention_v[b,s,hv,c] = sum[d] attention_norm_y_2[b,s,d] * block_attention_value[i,d,hv,c]
                  -- std/attention.moe:85 */
        moec_product(run, 2, &moec_products[2], attention_norm_y_2, block_attention_value + i * D * HV * C,
                attention_v);
        kernel_decode_2_cache_key_rotary_y(i, attention_q, attention_k, attention_v, query_rotary_cosine,
                query_rotary_sine, query_rotary_y, position, cache_key_rotary_y, cache_attention_v);
        /* attended[b,s,h,c], attended_lse[b,s,h] =
                attend(query_rotary_y[b,s,h,e], cache_key_rotary_y[i,b,t,hk,e],
                cache_attention_v[i,b,t,hv,c], position; scale = 0.353553391, mask = causal, position)
                  -- std/attention.moe:125 */
        moec_attend_step(&moec_options_decode_3, (long)position[0],
                &(const MoecAttendWork){.q = query_rotary_y, .k = cache_key_rotary_y + i * S * HK * E,
                .v = cache_attention_v + i * S * HV * C, .o = attended, .lse = attended_lse});
        /* attention_y[b,s,d] = sum[h,c] attended[b,s,h,c] * block_attention_output[i,h,c,d]
                  -- std/attention.moe:154 */
        moec_product(run, 3, &moec_products[3], attended, block_attention_output + i * H * C * D,
                attention_y);
        kernel_decode_4_ffn_p(i, x_2, attention_y, x_3, block_ffn_norm_weight, ffn_norm_y_2,
                block_ffn_router, ffn_p);
        /* chosen[b,s,n] = top_k(ffn_p[b,s,n]; k = 2, dimension = 2)   -- std/moe.moe:90 */
        moec_top(1, 4, 1, 2, ffn_p, chosen);
        /* chosen_batch[r], chosen_s[r], chosen_n[r], chosen_group[g], chosen_row[batch,s,n],
                chosen_other[r], chosen_start[o], chosen_list[r] = pack(chosen[batch,s,n]; key = [n])
                  -- std/moe.moe:90 */
        moec_pack(&moec_options_decode_5, chosen, NULL,
                &(const MoecPacked){.coordinate = (int *const[]){chosen_batch, chosen_s, chosen_n},
                        .group = chosen_group, .row_of = chosen_row,
                                    .other = chosen_other, .start = chosen_start, .list = chosen_list});
        kernel_decode_6_ffn_weight(ffn_p, chosen, ffn_weight);
        /* expert_gate_product[r,f] = sum[d] ffn_norm_y_2[chosen_batch[r],chosen_s[r],d]
                * block_ffn_expert_gate[i,chosen_n[r],d,f]   -- std/mlp.moe:57 */
        moec_grouped_product(
                &(const MoecGrouped){.kind = MOEC_ROWS_BY_WEIGHT, .groups = 4, .n = 48, .k = 32, .a_row = 32,
                    .b_group = 1536, .b_k = 48, .b_n = 1, .c_row = 48, .accumulate = 0},
                &(const MoecRows){.group = chosen_group, .a_gather = chosen_other, .b_gather = NULL},
                ffn_norm_y_2, block_ffn_expert_gate + i * N * D * F, expert_gate_product);
        kernel_decode_7_act_y(expert_gate_product, act_y);
        /* expert_up_product[r,f] = sum[d] ffn_norm_y_2[chosen_batch[r],chosen_s[r],d]
                * block_ffn_expert_up[i,chosen_n[r],d,f]   -- std/mlp.moe:57 */
        moec_grouped_product(
                &(const MoecGrouped){.kind = MOEC_ROWS_BY_WEIGHT, .groups = 4, .n = 48, .k = 32, .a_row = 32,
                    .b_group = 1536, .b_k = 48, .b_n = 1, .c_row = 48, .accumulate = 0},
                &(const MoecRows){.group = chosen_group, .a_gather = chosen_other, .b_gather = NULL},
                ffn_norm_y_2, block_ffn_expert_up + i * N * D * F, expert_up_product);
        kernel_decode_8_ffn_y(act_y, expert_up_product, expert_h, ffn_y);
        /* expert_y[r,d] = sum[f] expert_h[r,f] * block_ffn_expert_down[i,chosen_n[r],f,d]
                  -- std/mlp.moe:58 */
        moec_grouped_product(
                &(const MoecGrouped){.kind = MOEC_ROWS_BY_WEIGHT, .groups = 4, .n = 32, .k = 48, .a_row = 48,
                    .b_group = 1536, .b_k = 32, .b_n = 1, .c_row = 32, .accumulate = 0},
                &(const MoecRows){.group = chosen_group, .a_gather = NULL, .b_gather = NULL},
                expert_h, block_ffn_expert_down + i * N * F * D, expert_y);
        kernel_decode_9_x_2(i, x_2, x_3, ffn_weight, expert_y, ffn_y, chosen_batch, chosen_s, chosen_n);
    }
    kernel_decode_10_final_norm_y_2(x_2, final_norm_weight, final_norm_y_2);
    /* logits[b,s,v] = sum[d] final_norm_y_2[b,s,d] * unembedding[d,v]   -- std/decoder.moe:127 */
    moec_product(run, 4, &moec_products[4], final_norm_y_2, unembedding, logits);
}

static const MoecTensor parameters[] = {
    {.name = "embedding", .axes = "v,d", .block = MOEC_WEIGHTS, .offset = 0,
     .rank = 2, .shape = {64, 32}, .init = MOEC_INIT_NORMAL, .a = 0, .b = 1, .matrix = 1},
    {.name = "block.{i}.attention_norm.weight", .axes = "block,d", .block = MOEC_WEIGHTS, .offset = 8192,
     .rank = 2, .shape = {4, 32}, .init = MOEC_INIT_CONSTANT, .a = 1, .b = 0, .matrix = 0},
    {.name = "block.{i}.attention.query", .axes = "block,d,h,e", .block = MOEC_WEIGHTS, .offset = 8704,
     .rank = 4, .shape = {4, 32, 4, 8}, .init = MOEC_INIT_NORMAL, .a = 0, .b = 0.17677669529663687, .matrix = 1},
    {.name = "block.{i}.attention.key", .axes = "block,d,hk,e", .block = MOEC_WEIGHTS, .offset = 25088,
     .rank = 4, .shape = {4, 32, 4, 8}, .init = MOEC_INIT_NORMAL, .a = 0, .b = 0.17677669529663687, .matrix = 1},
    {.name = "block.{i}.attention.value", .axes = "block,d,hv,c", .block = MOEC_WEIGHTS, .offset = 41472,
     .rank = 4, .shape = {4, 32, 4, 8}, .init = MOEC_INIT_NORMAL, .a = 0, .b = 0.17677669529663687, .matrix = 1},
    {.name = "block.{i}.attention.output", .axes = "block,h,c,d", .block = MOEC_WEIGHTS, .offset = 57856,
     .rank = 4, .shape = {4, 4, 8, 32}, .init = MOEC_INIT_NORMAL, .a = 0, .b = 0.17677669529663689, .matrix = 1},
    {.name = "block.{i}.ffn_norm.weight", .axes = "block,d", .block = MOEC_WEIGHTS, .offset = 74240,
     .rank = 2, .shape = {4, 32}, .init = MOEC_INIT_CONSTANT, .a = 1, .b = 0, .matrix = 0},
    {.name = "block.{i}.ffn.router", .axes = "block,d,n", .block = MOEC_WEIGHTS, .offset = 74752,
     .rank = 3, .shape = {4, 32, 4}, .init = MOEC_INIT_NORMAL, .a = 0, .b = 0.17677669529663689, .matrix = 1},
    {.name = "block.{i}.ffn.expert.up", .axes = "block,n,d,f", .block = MOEC_WEIGHTS, .offset = 76800,
     .rank = 4, .shape = {4, 4, 32, 48}, .init = MOEC_INIT_NORMAL, .a = 0, .b = 0.17677669529663687, .matrix = 1},
    {.name = "block.{i}.ffn.expert.gate", .axes = "block,n,d,f", .block = MOEC_WEIGHTS, .offset = 175104,
     .rank = 4, .shape = {4, 4, 32, 48}, .init = MOEC_INIT_NORMAL, .a = 0, .b = 0.17677669529663687, .matrix = 1},
    {.name = "block.{i}.ffn.expert.down", .axes = "block,n,f,d", .block = MOEC_WEIGHTS, .offset = 273408,
     .rank = 4, .shape = {4, 4, 48, 32}, .init = MOEC_INIT_NORMAL, .a = 0, .b = 0.14433756729740643, .matrix = 1},
    {.name = "final_norm.weight", .axes = "d", .block = MOEC_WEIGHTS, .offset = 371712,
     .rank = 1, .shape = {32}, .init = MOEC_INIT_CONSTANT, .a = 1, .b = 0, .matrix = 0},
    {.name = "unembedding", .axes = "d,v", .block = MOEC_WEIGHTS, .offset = 371840,
     .rank = 2, .shape = {32, 64}, .init = MOEC_INIT_NORMAL, .a = 0, .b = 0.02, .matrix = 1},
};

static const MoecTensor decode_inputs[] = {
    {.name = "tokens", .axes = "batch,s", .block = MOEC_INPUTS, .offset = 0,
     .rank = 2, .shape = {1, 1}, .is_int = 1, .input = MOEC_INPUT_TOKEN, .vocabulary = 64},
    {.name = "position", .axes = "", .block = MOEC_INPUTS, .offset = 1,
     .rank = 0, .shape = {0}, .is_int = 1, .input = MOEC_INPUT_SCALAR, .vocabulary = 0, .scalar = MOEC_SCALAR_POSITION},
};

static const MoecTensor decode_outputs[] = {
    {.name = "logits", .axes = "batch,s,v", .block = MOEC_OUTPUTS, .offset = 0,
     .rank = 3, .shape = {1, 1, 64}},
};

static const MoecTensor decode_caches[] = {
    {.name = "key_rotary_y", .axes = "block,batch,s,hk,e", .block = MOEC_CACHE, .offset = 0,
     .rank = 5, .shape = {4, 1, 32, 4, 8}},
    {.name = "attention_v", .axes = "block,batch,s,hv,c", .block = MOEC_CACHE, .offset = 16384,
     .rank = 5, .shape = {4, 1, 32, 4, 8}},
};

static const MoecGraphEntry graphs[] = {
    {.kind = MOEC_GRAPH_DECODE, .run = run_decode, .batch = 1, .context = 32, .tokens = 1,
     .arena_bytes = 2112, .cache_bytes = 32768,
     .inputs = decode_inputs, .input_count = 2,
     .outputs = decode_outputs, .output_count = 1,
     .caches = decode_caches, .cache_count = 2,
     .first_product = 0, .product_count = 5, .flops = 118784, .product_flops = 110592},
};

const MoecTable moec_table = {
    .abi = MOEC_ABI,
    .model = "routed",
    .parameters = parameters, .parameter_count = 13,
    .weight_bytes = 380032, .state_bytes = 0,
    .graphs = graphs, .graph_count = 1,
    .products = moec_products, .product_count = 5,
};
