/* Written by moec to stand alone. Comments hold the equations and where they stand. */
/* run_decode
   axes:    batch = 1, s = 1, v = 64, d = 32, block = 5, block = 4 (BLOCK_2), h = 4, e = 8, hk = 1, hv = 2,
        c = 8, f = 48, s = 32
   inputs:  tokens[batch, s], position
   outputs: logits[batch, s, v]
   work:    10 kernels and calls, 9 products
   memory:  1088 bytes of temporaries */
/* The kernels leave out what nothing here multiplies. */
#define MOEC_ROUNDED_PRODUCTS 0
#define MOEC_BF16_OPERANDS 0
#define MOEC_INT8_OPERANDS 0
#define MOEC_BYTE_OPERANDS 0
#include "kernels.h"

/* Sizes of axes. */
enum { D = 32, V = 64, BLOCK = 5, E = 8, BLOCK_2 = 4, H = 4, HV = 2, C = 8, S = 32, F = 48 };

/* Matrix products of fixed shape: see MoecProduct in abi.h. */
static const MoecProduct moec_products[] = {
    {.m = 1, .n = 32, .k = 32, .a_m = 32, .a_k = 1, .b_k = 32, .b_n = 1, .c_m = 32,
     .batch = {1, 1}, .accumulate = 0}, /* 0: attention_q */
    {.m = 1, .n = 8, .k = 32, .a_m = 32, .a_k = 1, .b_k = 8, .b_n = 1, .c_m = 8,
     .batch = {1, 1}, .accumulate = 0}, /* 1: attention_k */
    {.m = 1, .n = 16, .k = 32, .a_m = 32, .a_k = 1, .b_k = 16, .b_n = 1, .c_m = 16,
     .batch = {1, 1}, .accumulate = 0}, /* 2: attention_v */
    {.m = 1, .n = 32, .k = 32, .a_m = 32, .a_k = 1, .b_k = 32, .b_n = 1, .c_m = 32,
     .batch = {1, 1}, .accumulate = 0}, /* 3: sdpa_gate_weight_product */
    {.m = 1, .n = 32, .k = 32, .a_m = 32, .a_k = 1, .b_k = 32, .b_n = 1, .c_m = 32,
     .batch = {1, 1}, .accumulate = 0}, /* 4: attention_y */
    {.m = 1, .n = 48, .k = 32, .a_m = 32, .a_k = 1, .b_k = 48, .b_n = 1, .c_m = 48,
     .batch = {1, 1}, .accumulate = 0}, /* 5: ffn_gate_product */
    {.m = 1, .n = 48, .k = 32, .a_m = 32, .a_k = 1, .b_k = 48, .b_n = 1, .c_m = 48,
     .batch = {1, 1}, .accumulate = 0}, /* 6: ffn_up_product */
    {.m = 1, .n = 32, .k = 48, .a_m = 48, .a_k = 1, .b_k = 32, .b_n = 1, .c_m = 32,
     .batch = {1, 1}, .accumulate = 0}, /* 7: ffn_y */
    {.m = 1, .n = 64, .k = 32, .a_m = 32, .a_k = 1, .b_k = 64, .b_n = 1, .c_m = 64,
     .batch = {1, 1}, .accumulate = 0}, /* 8: logits */
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
        }
    }
    for (long h = 0; h < H; h++) {
        MOEC_OMP(simd)
        for (long e = 0; e < E; e++) {
            query_rotary_y[h * E + e] = attention_q[h * E + e] * query_rotary_cosine[e]
                    + attention_q[h * E + (e + 4) % 8] * query_rotary_sine[e];
        }
    }
    MOEC_OMP(simd)
    for (long e = 0; e < E; e++) {
        float key_rotary_y = attention_k[e] * query_rotary_cosine[e]
                + attention_k[(e + 4) % 8] * query_rotary_sine[e];
        cache_key_rotary_y[(i * S + at) * E + e] = key_rotary_y;
    }
}

static const MoecAttend moec_options_decode_3 = {
    .batch = 1, .queries = 1, .keys = 32, .places = 32,
    .mask = MOEC_MASK_CAUSAL, .window = 0, .heads = 4, .key_heads = 1,
    .value_heads = 2, .width = 8, .value_width = 8,
    .scale = 0.353553391f, .cap = 0.0f, .best = 0,
};

/* act_y[b,s,h,c] = sigmoid(sdpa_gate_weight_product[b,s,h,c])   -- std/activations.moe:39
   sdpa_gate_y[b,s,h,c] = attended[b,s,h,c] * act_y[b,s,h,c]   -- std/gate.moe:92 */
static void kernel_decode_4_sdpa_gate_y(const float *restrict attended,
        const float *restrict sdpa_gate_weight_product, float *restrict sdpa_gate_y)
{
    for (long h = 0; h < H; h++) {
        MOEC_OMP(simd)
        for (long c = 0; c < C; c++) {
            float act_y = moec_sigmoid(sdpa_gate_weight_product[h * C + c]);
            sdpa_gate_y[h * C + c] = attended[h * C + c] * act_y;
        }
    }
}

/* x_3[b,s,d] = x_2[i,b,s,d] + attention_y[b,s,d]   -- std/decoder.moe:113
   ffn_norm_sum_of_squares[b,s] = sum[d] x_3[b,s,d] * x_3[b,s,d]   -- std/norms.moe:9
   ffn_norm_root[b,s] = rsqrt(ffn_norm_sum_of_squares[b,s] * 0.03125 + 1e-06)   -- std/norms.moe:9
   ffn_norm_y[b,s,d] = x_3[b,s,d] * ffn_norm_root[b,s]   -- std/norms.moe:10
   ffn_norm_y_2[b,s,d] = ffn_norm_y[b,s,d] * block_ffn_norm_weight[i,d]   -- std/norms.moe:13 */
static void kernel_decode_5_ffn_norm_y_2(long i, const float *restrict x_2,
        const float *restrict attention_y, float *restrict x_3, const float *restrict block_ffn_norm_weight,
        float *restrict ffn_norm_y_2)
{
    float ffn_norm_sum_of_squares = 0.0f;
    MOEC_OMP(simd reduction(+:ffn_norm_sum_of_squares))
    for (long d = 0; d < D; d++) {
        x_3[d] = x_2[(i & 1) * D + d] + attention_y[d];
        ffn_norm_sum_of_squares += x_3[d] * x_3[d];
    }
    float ffn_norm_root = moec_rsqrt(ffn_norm_sum_of_squares * 0.03125f + 1e-06f);
    MOEC_OMP(simd)
    for (long d = 0; d < D; d++) {
        float ffn_norm_y = x_3[d] * ffn_norm_root;
        ffn_norm_y_2[d] = ffn_norm_y * block_ffn_norm_weight[i * D + d];
    }
}

/* act_y_2[b,s,f] = ffn_gate_product[b,s,f] * sigmoid(ffn_gate_product[b,s,f])   -- std/activations.moe:19 */
static void kernel_decode_6_act_y_2(const float *restrict ffn_gate_product, float *restrict act_y_2)
{
    MOEC_OMP(simd)
    for (long f = 0; f < F; f++) {
        act_y_2[f] = ffn_gate_product[f] * moec_sigmoid(ffn_gate_product[f]);
    }
}

/* ffn_h[b,s,f] = act_y_2[b,s,f] * ffn_up_product[b,s,f]   -- std/mlp.moe:57 */
static void kernel_decode_7_ffn_h(const float *restrict act_y_2, const float *restrict ffn_up_product,
        float *restrict ffn_h)
{
    MOEC_OMP(simd)
    for (long f = 0; f < F; f++) {
        ffn_h[f] = act_y_2[f] * ffn_up_product[f];
    }
}

/* x_2[i + 1,b,s,d] = x_3[b,s,d] + ffn_y[b,s,d]   -- std/decoder.moe:118 */
static void kernel_decode_8_x_2(long i, float *restrict x_2, const float *restrict x_3,
        const float *restrict ffn_y)
{
    MOEC_OMP(simd)
    for (long d = 0; d < D; d++) {
        x_2[((i + 1) & 1) * D + d] = x_3[d] + ffn_y[d];
    }
}

/* final_norm_sum_of_squares[b,s] = sum[d] x_2[4,b,s,d] * x_2[4,b,s,d]   -- std/norms.moe:9
   final_norm_root[b,s] = rsqrt(final_norm_sum_of_squares[b,s] * 0.03125 + 1e-06)   -- std/norms.moe:9
   final_norm_y[b,s,d] = x_2[4,b,s,d] * final_norm_root[b,s]   -- std/norms.moe:10
   final_norm_y_2[b,s,d] = final_norm_y[b,s,d] * final_norm_weight[d]   -- std/norms.moe:13 */
static void kernel_decode_9_final_norm_y_2(const float *restrict x_2,
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
    float *const x_2 = (void *)(run->arena + 0); /* [block, batch, s, d], two slots */
    const float *const block_attention_norm_weight = run->weights + 2048; /* [block, d] */
    float *const attention_norm_y_2 = (void *)(run->arena + 256); /* [batch, s, d] */
    const float *const block_attention_query = run->weights + 2176; /* [block, d, h, e] */
    const float *const block_attention_key = run->weights + 6272; /* [block, d, hk, e] */
    const float *const block_attention_value = run->weights + 7296; /* [block, d, hv, c] */
    const float *const block_attention_output = run->weights + 9344; /* [block, h, c, d] */
    float *const attention_q = (void *)(run->arena + 384); /* [batch, s, h, e] */
    float *const attention_k = (void *)(run->arena + 640); /* [batch, s, hk, e] */
    float *const attention_v = (void *)(run->arena + 704); /* [batch, s, hv, c] */
    float *const query_rotary_cosine = (void *)(run->arena + 960); /* [s, e] */
    float *const query_rotary_sine = (void *)(run->arena + 1024); /* [s, e] */
    float *const query_rotary_y = (void *)(run->arena + 512); /* [batch, s, h, e] */
    float *const attended = (void *)(run->arena + 384); /* [batch, s, h, c] */
    float *const attended_lse = (void *)(run->arena + 640); /* [batch, s, h] */
    const float *const block_attention_sdpa_gate_weight = run->weights + 13440; /* [block, d, h, c] */
    float *const sdpa_gate_weight_product = (void *)(run->arena + 512); /* [batch, s, h, c] */
    float *const sdpa_gate_y = (void *)(run->arena + 256); /* [batch, s, h, c] */
    float *const attention_y = (void *)(run->arena + 384); /* [batch, s, d] */
    float *const x_3 = (void *)(run->arena + 832); /* [batch, s, d] */
    const float *const block_ffn_norm_weight = run->weights + 17536; /* [block, d] */
    float *const ffn_norm_y_2 = (void *)(run->arena + 640); /* [batch, s, d] */
    const float *const block_ffn_up = run->weights + 17664; /* [block, d, f] */
    const float *const block_ffn_gate = run->weights + 23808; /* [block, d, f] */
    const float *const block_ffn_down = run->weights + 29952; /* [block, f, d] */
    float *const ffn_gate_product = (void *)(run->arena + 256); /* [batch, s, f] */
    float *const act_y_2 = (void *)(run->arena + 448); /* [batch, s, f] */
    float *const ffn_up_product = (void *)(run->arena + 256); /* [batch, s, f] */
    float *const ffn_h = (void *)(run->arena + 640); /* [batch, s, f] */
    float *const ffn_y = (void *)(run->arena + 256); /* [batch, s, d] */
    const float *const final_norm_weight = run->weights + 36096; /* [d] */
    float *const final_norm_y_2 = (void *)(run->arena + 256); /* [batch, s, d] */
    const float *const unembedding = run->weights + 36128; /* [d, v] */
    float *const logits = run->outputs[0]; /* [batch, s, v] */
    const int32_t *const position = run->inputs[1]; /* [] */
    float *const cache_key_rotary_y = run->cache + 0; /* [block, batch, s, hk, e] */
    float *const cache_attention_v = run->cache + 1024; /* [block, batch, s, hv, c] */

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
        moec_product(run, 1, &moec_products[1], attention_norm_y_2, block_attention_key + i * D * E,
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
                &(const MoecAttendWork){.q = query_rotary_y, .k = cache_key_rotary_y + i * S * E,
                .v = cache_attention_v + i * S * HV * C, .o = attended, .lse = attended_lse});
        /* sdpa_gate_weight_product[b,s,h,c] = sum[d] attention_norm_y_2[b,s,d]
                * block_attention_sdpa_gate_weight[i,d,h,c]   -- std/gate.moe:66 */
        moec_product(run, 3, &moec_products[3], attention_norm_y_2,
                block_attention_sdpa_gate_weight + i * D * H * C, sdpa_gate_weight_product);
        kernel_decode_4_sdpa_gate_y(attended, sdpa_gate_weight_product, sdpa_gate_y);
        /* attention_y[b,s,d] = sum[h,c] sdpa_gate_y[b,s,h,c] * block_attention_output[i,h,c,d]
                  -- std/attention.moe:154 */
        moec_product(run, 4, &moec_products[4], sdpa_gate_y, block_attention_output + i * H * C * D,
                attention_y);
        kernel_decode_5_ffn_norm_y_2(i, x_2, attention_y, x_3, block_ffn_norm_weight, ffn_norm_y_2);
        /* ffn_gate_product[b,s,f] = sum[d] ffn_norm_y_2[b,s,d] * block_ffn_gate[i,d,f]   -- std/mlp.moe:57 */
        moec_product(run, 5, &moec_products[5], ffn_norm_y_2, block_ffn_gate + i * D * F, ffn_gate_product);
        kernel_decode_6_act_y_2(ffn_gate_product, act_y_2);
        /* ffn_up_product[b,s,f] = sum[d] ffn_norm_y_2[b,s,d] * block_ffn_up[i,d,f]   -- std/mlp.moe:57 */
        moec_product(run, 6, &moec_products[6], ffn_norm_y_2, block_ffn_up + i * D * F, ffn_up_product);
        kernel_decode_7_ffn_h(act_y_2, ffn_up_product, ffn_h);
        /* ffn_y[b,s,d] = sum[f] ffn_h[b,s,f] * block_ffn_down[i,f,d]   -- std/mlp.moe:58 */
        moec_product(run, 7, &moec_products[7], ffn_h, block_ffn_down + i * F * D, ffn_y);
        kernel_decode_8_x_2(i, x_2, x_3, ffn_y);
    }
    kernel_decode_9_final_norm_y_2(x_2, final_norm_weight, final_norm_y_2);
    /* logits[b,s,v] = sum[d] final_norm_y_2[b,s,d] * unembedding[d,v]   -- std/decoder.moe:127 */
    moec_product(run, 8, &moec_products[8], final_norm_y_2, unembedding, logits);
}

static const MoecTensor parameters[] = {
    {.name = "embedding", .axes = "v,d", .block = MOEC_WEIGHTS, .offset = 0,
     .rank = 2, .shape = {64, 32}, .init = MOEC_INIT_NORMAL, .a = 0, .b = 1, .matrix = 1},
    {.name = "block.{i}.attention_norm.weight", .axes = "block,d", .block = MOEC_WEIGHTS, .offset = 8192,
     .rank = 2, .shape = {4, 32}, .init = MOEC_INIT_CONSTANT, .a = 1, .b = 0, .matrix = 0},
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
     .rank = 2, .shape = {4, 32}, .init = MOEC_INIT_CONSTANT, .a = 1, .b = 0, .matrix = 0},
    {.name = "block.{i}.ffn.up", .axes = "block,d,f", .block = MOEC_WEIGHTS, .offset = 70656,
     .rank = 3, .shape = {4, 32, 48}, .init = MOEC_INIT_NORMAL, .a = 0, .b = 0.17677669529663687, .matrix = 1},
    {.name = "block.{i}.ffn.gate", .axes = "block,d,f", .block = MOEC_WEIGHTS, .offset = 95232,
     .rank = 3, .shape = {4, 32, 48}, .init = MOEC_INIT_NORMAL, .a = 0, .b = 0.17677669529663687, .matrix = 1},
    {.name = "block.{i}.ffn.down", .axes = "block,f,d", .block = MOEC_WEIGHTS, .offset = 119808,
     .rank = 3, .shape = {4, 48, 32}, .init = MOEC_INIT_NORMAL, .a = 0, .b = 0.14433756729740643, .matrix = 1},
    {.name = "final_norm.weight", .axes = "d", .block = MOEC_WEIGHTS, .offset = 144384,
     .rank = 1, .shape = {32}, .init = MOEC_INIT_CONSTANT, .a = 1, .b = 0, .matrix = 0},
    {.name = "unembedding", .axes = "d,v", .block = MOEC_WEIGHTS, .offset = 144512,
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
     .rank = 5, .shape = {4, 1, 32, 1, 8}},
    {.name = "attention_v", .axes = "block,batch,s,hv,c", .block = MOEC_CACHE, .offset = 4096,
     .rank = 5, .shape = {4, 1, 32, 2, 8}},
};

static const MoecGraphEntry graphs[] = {
    {.kind = MOEC_GRAPH_DECODE, .run = run_decode, .batch = 1, .context = 32, .tokens = 1,
     .arena_bytes = 1088, .cache_bytes = 12288,
     .inputs = decode_inputs, .input_count = 2,
     .outputs = decode_outputs, .output_count = 1,
     .caches = decode_caches, .cache_count = 2,
     .first_product = 0, .product_count = 9, .flops = 79872, .product_flops = 71680},
};

const MoecTable moec_table = {
    .abi = MOEC_ABI,
    .model = "dense",
    .parameters = parameters, .parameter_count = 13,
    .weight_bytes = 152704, .state_bytes = 0,
    .graphs = graphs, .graph_count = 1,
    .products = moec_products, .product_count = 9,
};
