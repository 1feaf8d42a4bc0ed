/* Written by moec to stand alone: the kernels that the program beside it launches. */
/* run_train
   axes:    batch = 2, s = 32, v = 64, d = 32, block = 5, block = 4 (BLOCK_2), h = 4, e = 8, hk = 4, hv = 4,
        c = 8, n = 4, f = 48, chosen_rows = 128, chosen_groups = 5, chosen_others = 65
   inputs:  tokens[batch, s], targets[batch, s], loss_scale
   outputs: loss, balance, total, block.{i}.ffn.max_expert_load[block]
   work:    26 kernels and calls, 18 products
   memory:  582464 bytes of temporaries */
/* update: the optimizer's step of one parameter. */
#include "kernels.cuh"
#include "fixed.cuh"

/* Sizes of axes. */
enum { BATCH = 2, S = 32, V = 64, D = 32, BLOCK = 5, E = 8, BLOCK_2 = 4, H = 4, HK = 4, HV = 4, C = 8, N = 4,
        CHOSEN_ROWS = 128, CHOSEN_GROUPS = 5, CHOSEN_OTHERS = 65, F = 48 };

/* x[b,s,d] = embedding[tokens[b,s],d]   -- std/decoder.moe:79
   x_2[0,b,s,d] = x[b,s,d]   -- std/decoder.moe:118
   balance[0] = 0   -- std/moe.moe:125
   query_rotary_angle_table[e] = 10000 ^ (-2 * (e % 4) / 8)   -- std/rotary.moe:18
   query_rotary_angle_2[s,e] = s * query_rotary_angle_table[e]   -- std/rotary.moe:18
   query_rotary_cosine[s,e] = cos(query_rotary_angle_2[s,e])   -- std/rotary.moe:24
   query_rotary_sine[s,e] = where(e < 4, -1, 1) * sin(query_rotary_angle_2[s,e])   -- std/rotary.moe:25 */
extern "C" __global__ void __launch_bounds__(1024)
kernel_train_0_query_rotary_sine(const int32_t *__restrict__ tokens, const float *__restrict__ embedding,
        float *__restrict__ x_2, float *__restrict__ query_rotary_cosine,
        float *__restrict__ query_rotary_sine, float *__restrict__ balance)
{
    moec_begin();
    __shared__ __align__(16) double query_rotary_angle_table[8];
    for (long part = 4 * moec_thread(); part < 2048; part += 4 * moec_threads()) {
        const long b = (unsigned)part / 1024u;
        const long s = (unsigned)part / D % S;
        const long d_from = (unsigned)part % D;
        const long tokens_at = (long)tokens[b * S + s];
        float embedding_lanes[4];
        moec_read(embedding_lanes, &embedding[tokens_at * D + d_from]);
        float x_2_lanes[4];
#pragma unroll
        for (int lane = 0; lane < 4; lane++) {
            float x = embedding_lanes[lane];
            x_2_lanes[lane] = x;
        }
        moec_write(&x_2[(b * S + s) * D + d_from], x_2_lanes);
    }
    if (moec_thread() == 0) balance[0] = 0.0f;
    moec_barrier();
    for (long e = moec_thread(); e < E; e += moec_threads()) {
        query_rotary_angle_table[e] = moec_math(pow)(10000.0, (double)(-2 * (e % 4)) / 8.0);
    }
    moec_barrier();
    for (long part = 4 * moec_thread(); part < 256; part += 4 * moec_threads()) {
        const long s = (unsigned)part / E;
        const long e_from = (unsigned)part % E;
        float query_rotary_cosine_lanes[4];
        float query_rotary_sine_lanes[4];
#pragma unroll
        for (int lane = 0; lane < 4; lane++) {
            const long e = e_from + lane;
            double query_rotary_angle_2 = (double)s * query_rotary_angle_table[e];
            query_rotary_cosine_lanes[lane] = (float)moec_math(cos)(query_rotary_angle_2);
            query_rotary_sine_lanes[lane] = (float)((e < 4 ? -1.0 : 1.0)
                    * moec_math(sin)(query_rotary_angle_2));
        }
        moec_write(&query_rotary_cosine[s * E + e_from], query_rotary_cosine_lanes);
        moec_write(&query_rotary_sine[s * E + e_from], query_rotary_sine_lanes);
    }
}

/* attention_norm_sum_of_squares[i,b,s] = sum[d] x_2[i,b,s,d] * x_2[i,b,s,d]   -- std/norms.moe:9
   attention_norm_root[b,s] = rsqrt(attention_norm_sum_of_squares[i,b,s] * 0.03125 + 1e-06)
          -- std/norms.moe:9
   attention_norm_y[b,s,d] = x_2[i,b,s,d] * attention_norm_root[b,s]   -- std/norms.moe:10
   attention_norm_y_2[b,s,d] = attention_norm_y[b,s,d] * block_attention_norm_weight[i,d]
          -- std/norms.moe:13 */
extern "C" __global__ void kernel_train_1_attention_norm_y_2(long i, const float *__restrict__ x_2,
        float *__restrict__ attention_norm_sum_of_squares,
        const float *__restrict__ block_attention_norm_weight, float *__restrict__ attention_norm_y_2)
{
    moec_begin();
    for (long iteration = moec_block(); iteration < 64; iteration += moec_blocks()) {
        const long b = (unsigned)iteration / S;
        const long s = (unsigned)iteration % S;
        float attention_norm_sum_of_squares_sum = 0.0f;
        for (long d_from = 4 * moec_thread(); d_from < D; d_from += 4 * moec_threads()) {
            float x_2_lanes[4];
            moec_read(x_2_lanes, &x_2[((i * BATCH + b) * S + s) * D + d_from]);
#pragma unroll
            for (int lane = 0; lane < 4; lane++) {
                attention_norm_sum_of_squares_sum += x_2_lanes[lane] * x_2_lanes[lane];
            }
        }
        attention_norm_sum_of_squares_sum = moec_block_sum(attention_norm_sum_of_squares_sum);
        float attention_norm_sum_of_squares_now = attention_norm_sum_of_squares_sum;
        if (moec_thread() == 0) attention_norm_sum_of_squares[(i * BATCH + b) * S + s] =
                attention_norm_sum_of_squares_now;
        float attention_norm_root = moec_rsqrt(attention_norm_sum_of_squares_now * 0.03125f + 1e-06f);
        for (long d_from = 4 * moec_thread(); d_from < D; d_from += 4 * moec_threads()) {
            float x_2_lanes[4];
            moec_read(x_2_lanes, &x_2[((i * BATCH + b) * S + s) * D + d_from]);
            float block_attention_norm_weight_lanes[4];
            moec_read(block_attention_norm_weight_lanes, &block_attention_norm_weight[i * D + d_from]);
            float attention_norm_y_2_lanes[4];
#pragma unroll
            for (int lane = 0; lane < 4; lane++) {
                float attention_norm_y = x_2_lanes[lane] * attention_norm_root;
                attention_norm_y_2_lanes[lane] = attention_norm_y * block_attention_norm_weight_lanes[lane];
            }
            moec_write(&attention_norm_y_2[(b * S + s) * D + d_from], attention_norm_y_2_lanes);
        }
    }
}

extern "C" __global__ void __launch_bounds__(MOEC_TILE_THREADS) dense_exact(MoecProduct product, MoecEpilogue epilogue,
        const float *a, const float *b, float *c)
{
    moec_begin();
    moec_dense<MoecTileExact>(product, epilogue, a, b, c);
}

/* query_rotary_y[i,b,s,h,e] = attention_q[b,s,h,e] * query_rotary_cosine[s,e]
        + attention_q[b,s,h,(e + 4) % 8] * query_rotary_sine[s,e]   -- std/rotary.moe:31
   key_rotary_y[i,b,s,h,e] = attention_k[b,s,h,e] * query_rotary_cosine[s,e]
        + attention_k[b,s,h,(e + 4) % 8] * query_rotary_sine[s,e]   -- std/rotary.moe:31 */
extern "C" __global__ void __launch_bounds__(1024)
kernel_train_2_key_rotary_y(long i, const float *__restrict__ attention_q,
        const float *__restrict__ attention_k, const float *__restrict__ query_rotary_cosine,
        const float *__restrict__ query_rotary_sine, float *__restrict__ query_rotary_y,
        float *__restrict__ key_rotary_y)
{
    moec_begin();
    for (long part = 4 * moec_thread(); part < 2048; part += 4 * moec_threads()) {
        const long b = (unsigned)part / 1024u;
        const long s = (unsigned)part / 32u % S;
        const long h = (unsigned)part / E % H;
        const long e_from = (unsigned)part % E;
        float attention_q_lanes[4];
        moec_read(attention_q_lanes, &attention_q[((b * S + s) * H + h) * E + e_from]);
        float query_rotary_cosine_lanes[4];
        moec_read(query_rotary_cosine_lanes, &query_rotary_cosine[s * E + e_from]);
        float attention_q_lanes_2[4];
        moec_read(attention_q_lanes_2, &attention_q[((b * S + s) * H + h) * E + (e_from + 4) % 8]);
        float query_rotary_sine_lanes[4];
        moec_read(query_rotary_sine_lanes, &query_rotary_sine[s * E + e_from]);
        float query_rotary_y_lanes[4];
        float attention_k_lanes[4];
        moec_read(attention_k_lanes, &attention_k[((b * S + s) * HK + h) * E + e_from]);
        float attention_k_lanes_2[4];
        moec_read(attention_k_lanes_2, &attention_k[((b * S + s) * HK + h) * E + (e_from + 4) % 8]);
        float key_rotary_y_lanes[4];
#pragma unroll
        for (int lane = 0; lane < 4; lane++) {
            query_rotary_y_lanes[lane] = attention_q_lanes[lane] * query_rotary_cosine_lanes[lane]
                    + attention_q_lanes_2[lane] * query_rotary_sine_lanes[lane];
            key_rotary_y_lanes[lane] = attention_k_lanes[lane] * query_rotary_cosine_lanes[lane]
                    + attention_k_lanes_2[lane] * query_rotary_sine_lanes[lane];
        }
        moec_write(&query_rotary_y[(((i * BATCH + b) * S + s) * H + h) * E + e_from], query_rotary_y_lanes);
        moec_write(&key_rotary_y[(((i * BATCH + b) * S + s) * HK + h) * E + e_from], key_rotary_y_lanes);
    }
}

struct options_train_3 {
    static constexpr long batch = 2, queries = 32, keys = 32, places = 32;
    static constexpr int heads = 4, key_heads = 4, value_heads = 4;
    static constexpr int width = 8, value_width = 8, mask = MOEC_MASK_CAUSAL;
    static constexpr bool documents = false;
    static constexpr long window = 0, best = 0, parts = 16;
    static constexpr float scale = 0.353553391f, cap = 0.0f;
};
extern "C" __global__ void __launch_bounds__(128, 1) attend_train_3(const float *q, const float *k,
        const float *v, const float *sink, const float *documents, float *o, float *lse)
{
    moec_begin();
    moec_attend<options_train_3>(q, k, v, sink, documents, MoecPlainRows<float>{o, 32}, lse);
}

/* ffn_norm_sum_of_squares[i,b,s] = sum[d] x_3[i,b,s,d] * x_3[i,b,s,d]   -- std/norms.moe:9
   ffn_norm_root[b,s] = rsqrt(ffn_norm_sum_of_squares[i,b,s] * 0.03125 + 1e-06)   -- std/norms.moe:9
   ffn_norm_y[b,s,d] = x_3[i,b,s,d] * ffn_norm_root[b,s]   -- std/norms.moe:10
   ffn_norm_y_2[b,s,d] = ffn_norm_y[b,s,d] * block_ffn_norm_weight[i,d]   -- std/norms.moe:13 */
extern "C" __global__ void kernel_train_4_ffn_norm_y_2(long i, const float *__restrict__ x_3,
        float *__restrict__ ffn_norm_sum_of_squares, const float *__restrict__ block_ffn_norm_weight,
        float *__restrict__ ffn_norm_y_2)
{
    moec_begin();
    for (long iteration = moec_block(); iteration < 64; iteration += moec_blocks()) {
        const long b = (unsigned)iteration / S;
        const long s = (unsigned)iteration % S;
        float ffn_norm_sum_of_squares_sum = 0.0f;
        for (long d_from = 4 * moec_thread(); d_from < D; d_from += 4 * moec_threads()) {
            float x_3_lanes[4];
            moec_read(x_3_lanes, &x_3[((i * BATCH + b) * S + s) * D + d_from]);
#pragma unroll
            for (int lane = 0; lane < 4; lane++) {
                ffn_norm_sum_of_squares_sum += x_3_lanes[lane] * x_3_lanes[lane];
            }
        }
        ffn_norm_sum_of_squares_sum = moec_block_sum(ffn_norm_sum_of_squares_sum);
        float ffn_norm_sum_of_squares_now = ffn_norm_sum_of_squares_sum;
        if (moec_thread() == 0) ffn_norm_sum_of_squares[(i * BATCH + b) * S + s] =
                ffn_norm_sum_of_squares_now;
        float ffn_norm_root = moec_rsqrt(ffn_norm_sum_of_squares_now * 0.03125f + 1e-06f);
        for (long d_from = 4 * moec_thread(); d_from < D; d_from += 4 * moec_threads()) {
            float x_3_lanes[4];
            moec_read(x_3_lanes, &x_3[((i * BATCH + b) * S + s) * D + d_from]);
            float block_ffn_norm_weight_lanes[4];
            moec_read(block_ffn_norm_weight_lanes, &block_ffn_norm_weight[i * D + d_from]);
            float ffn_norm_y_2_lanes[4];
#pragma unroll
            for (int lane = 0; lane < 4; lane++) {
                float ffn_norm_y = x_3_lanes[lane] * ffn_norm_root;
                ffn_norm_y_2_lanes[lane] = ffn_norm_y * block_ffn_norm_weight_lanes[lane];
            }
            moec_write(&ffn_norm_y_2[(b * S + s) * D + d_from], ffn_norm_y_2_lanes);
        }
    }
}

/* ffn_largest[b,s] = max[n] ffn_logit[b,s,n]   -- std/moe.moe:69
   ffn_value[i,b,s,n] = exp(ffn_logit[b,s,n] - stop_gradient(ffn_largest[b,s]))   -- std/moe.moe:69
   ffn_total[i,b,s] = sum[n] ffn_value[i,b,s,n]   -- std/moe.moe:69
   ffn_p[b,s,n] = ffn_value[i,b,s,n] / ffn_total[i,b,s]   -- std/moe.moe:69 */
extern "C" __global__ void kernel_train_5_ffn_p(long i, const float *__restrict__ ffn_logit,
        float *__restrict__ ffn_value, float *__restrict__ ffn_total, float *__restrict__ ffn_p)
{
    moec_begin();
    moec_barrier();
    for (long part = moec_thread(); part < 64; part += moec_threads()) {
        const long b = (unsigned)part / S;
        const long s = (unsigned)part % S;
        float ffn_largest = -INFINITY;
        for (long n = 0; n < N; n++) {
            ffn_largest = moec_max(ffn_largest, ffn_logit[(b * S + s) * N + n]);
        }
        float ffn_total_sum = 0.0f;
        for (long n = 0; n < N; n++) {
            ffn_value[((i * BATCH + b) * S + s) * N + n] =
                    moec_exp(ffn_logit[(b * S + s) * N + n] - ffn_largest);
            ffn_total_sum += ffn_value[((i * BATCH + b) * S + s) * N + n];
        }
        float ffn_total_now = ffn_total_sum;
        ffn_total[(i * BATCH + b) * S + s] = ffn_total_now;
        for (long n = 0; n < N; n++) {
            ffn_p[(b * S + s) * N + n] = ffn_value[((i * BATCH + b) * S + s) * N + n] / ffn_total_now;
        }
    }
    moec_barrier();
}

extern "C" __global__ void __launch_bounds__(MOEC_TILE_THREADS) rows_by_weight_exact(MoecGroupedOnDevice grouped, const int32_t *group, const int32_t *a_gather, const float *a, const float *b, float *c)
{
    moec_begin();
    moec_by_weight<MoecTileExact>(grouped, group, a_gather, a, b, MoecPlainStore<float>{grouped, c});
}

/* ffn_total_2[n] = sum[b,s] chosen[i,b,s,n] / 2   -- std/moe.moe:93
   ffn_load[i,n] = ffn_total_2[n] * 0.015625   -- std/moe.moe:93 */
extern "C" __global__ void __launch_bounds__(512)
kernel_train_6_ffn_load(long i, const float *__restrict__ chosen, float *__restrict__ ffn_load)
{
    moec_begin();
    for (long moec_from = 32 * moec_block(); moec_from < N; moec_from += 32 * moec_blocks()) {
        const long iteration = moec_column(moec_from, N);
        const long n = iteration;
        float ffn_total_2 = 0.0f;
        for (long part = moec_thread() / 32; part < 64; part += moec_threads() / 32) {
            const long b = (unsigned)part / S;
            const long s = (unsigned)part % S;
            ffn_total_2 += chosen[((i * BATCH + b) * S + s) * N + n] / 2.0f;
        }
        ffn_total_2 = moec_column_sum(ffn_total_2);
        if (moec_thread() < 32 && moec_from + moec_thread() == iteration) ffn_load[i * N + n] = ffn_total_2
                * 0.015625f;
    }
}

/* ffn_total_3[i,b,s] = sum[n] chosen[i,b,s,n] * ffn_p[b,s,n]   -- std/moe.moe:101
   ffn_weight[b,s,n] = ffn_p[b,s,n] / where(ffn_total_3[i,b,s] > 0, ffn_total_3[i,b,s], 1)
          -- std/moe.moe:102
   ffn_y[b,s,d] = 0   -- std/moe.moe:109 */
extern "C" __global__ void kernel_train_7_ffn_y(long i, const float *__restrict__ ffn_p,
        const float *__restrict__ chosen, float *__restrict__ ffn_total_3, float *__restrict__ ffn_weight,
        float *__restrict__ ffn_y)
{
    moec_begin();
    for (long iteration = moec_block(); iteration < 64; iteration += moec_blocks()) {
        const long b = (unsigned)iteration / S;
        const long s = (unsigned)iteration % S;
        float ffn_total_3_sum = 0.0f;
        for (long n_from = 4 * moec_thread(); n_from < N; n_from += 4 * moec_threads()) {
            float chosen_lanes[4];
            moec_read(chosen_lanes, &chosen[((i * BATCH + b) * S + s) * N + n_from]);
            float ffn_p_lanes[4];
            moec_read(ffn_p_lanes, &ffn_p[(b * S + s) * N + n_from]);
#pragma unroll
            for (int lane = 0; lane < 4; lane++) {
                ffn_total_3_sum += chosen_lanes[lane] * ffn_p_lanes[lane];
            }
        }
        ffn_total_3_sum = moec_block_sum(ffn_total_3_sum);
        float ffn_total_3_now = ffn_total_3_sum;
        if (moec_thread() == 0) ffn_total_3[(i * BATCH + b) * S + s] = ffn_total_3_now;
        for (long n_from = 4 * moec_thread(); n_from < N; n_from += 4 * moec_threads()) {
            float ffn_p_lanes[4];
            moec_read(ffn_p_lanes, &ffn_p[(b * S + s) * N + n_from]);
            float ffn_weight_lanes[4];
#pragma unroll
            for (int lane = 0; lane < 4; lane++) {
                ffn_weight_lanes[lane] = ffn_p_lanes[lane]
                        / moec_where(moec_lt(0.0f, ffn_total_3_now), ffn_total_3_now, 1.0f);
            }
            moec_write(&ffn_weight[(b * S + s) * N + n_from], ffn_weight_lanes);
        }
        for (long d_from = 4 * moec_thread(); d_from < D; d_from += 4 * moec_threads()) {
            float ffn_y_lanes[4];
#pragma unroll
            for (int lane = 0; lane < 4; lane++) {
                ffn_y_lanes[lane] = 0.0f;
            }
            moec_write(&ffn_y[(b * S + s) * D + d_from], ffn_y_lanes);
        }
    }
}

/* expert_up_product[i,r,f] = sum[d] ffn_norm_y_2[chosen_batch[r],chosen_s[r],d]
        * block_ffn_expert_up[i,chosen_n[r],d,f]   -- std/mlp.moe:57
   act_y[r,f] = expert_gate_product[i,r,f] * sigmoid(expert_gate_product[i,r,f])   -- std/activations.moe:19
   expert_h[r,f] = act_y[r,f] * expert_up_product[i,r,f]   -- std/mlp.moe:57
   expert_h_weighed[r,f] = ffn_weight[chosen_batch[r],chosen_s[r],chosen_n[r]] * expert_h[r,f]
          -- std/moe.moe:109 */
extern "C" __global__ void __launch_bounds__(MOEC_TILE_THREADS) product_train_8(MoecGroupedOnDevice grouped,
        const int32_t *group, const int32_t *a_gather, const float *a, const float *b, long i,
        const float *__restrict__ ffn_weight, const float *__restrict__ expert_gate_product,
        float *__restrict__ expert_up_product, float *__restrict__ expert_h_weighed,
        const int32_t *__restrict__ chosen_batch, const int32_t *__restrict__ chosen_s,
        const int32_t *__restrict__ chosen_n)
{
    moec_begin();
    moec_by_weight<MoecTileExact>(grouped, group, a_gather, a, b, [&](long row, long column, float sum) {
        const long r = row;
        const long f = column;
        float expert_up_product_now = sum;
        expert_up_product[(i * CHOSEN_ROWS + r) * F + f] = expert_up_product_now;
        const float expert_gate_product_at = expert_gate_product[(i * CHOSEN_ROWS + r) * F + f];
        float act_y = expert_gate_product_at * moec_sigmoid(expert_gate_product_at);
        float expert_h = act_y * expert_up_product_now;
        expert_h_weighed[r * F + f] = ffn_weight[((long)chosen_batch[r] * S + (long)chosen_s[r]) * N
                + (long)chosen_n[r]] * expert_h;
    });
}

/* ffn_y[chosen_batch[r],chosen_s[r],d] += expert_y[r,d]   -- std/moe.moe:109
   ffn_total_4[n] = sum[b,s] ffn_p[b,s,n]   -- std/moe.moe:125
   ffn_product_3 = sum[n] stop_gradient(ffn_load[i,n]) * (ffn_total_4[n] * 0.015625)   -- std/moe.moe:125
   ffn_largest_2 = max[n] ffn_load[i,n]   -- std/moe.moe:129
   ffn_max_expert_load[i] = 4 * ffn_largest_2   -- std/moe.moe:129
   x_2[i + 1,b,s,d] = x_3[i,b,s,d] + ffn_y[b,s,d]   -- std/decoder.moe:118
   balance[i + 1] = balance[i] + 0.04 * ffn_product_3   -- std/moe.moe:125 */
extern "C" __global__ void __launch_bounds__(1024)
kernel_train_9_balance(long i, float *__restrict__ x_2, const float *__restrict__ x_3,
        const float *__restrict__ ffn_p, const float *__restrict__ ffn_load,
        const float *__restrict__ expert_y, float *__restrict__ ffn_y,
        float *__restrict__ ffn_max_expert_load, float *__restrict__ balance,
        const int32_t *__restrict__ chosen_batch, const int32_t *__restrict__ chosen_s)
{
    moec_begin();
    moec_barrier();
    for (long d = moec_thread(); d < D; d += moec_threads()) {
        for (long r = 0; r < CHOSEN_ROWS; r++) {
            const long chosen_batch_at = (long)chosen_batch[r];
            const long chosen_s_at = (long)chosen_s[r];
            ffn_y[(chosen_batch_at * S + chosen_s_at) * D + d] += expert_y[r * D + d];
        }
    }
    moec_barrier();
    float ffn_product_3 = 0.0f;
    float ffn_largest_2 = -INFINITY;
    for (long n = moec_thread(); n < N; n += moec_threads()) {
        float ffn_total_4 = 0.0f;
        for (long b = 0; b < BATCH; b++) {
            float ffn_total_4_part = 0.0f;
            for (long s = 0; s < S; s++) {
                ffn_total_4_part += ffn_p[(b * S + s) * N + n];
            }
            ffn_total_4 += ffn_total_4_part;
        }
        const float ffn_load_at = ffn_load[i * N + n];
        ffn_product_3 += ffn_load_at * (ffn_total_4 * 0.015625f);
        ffn_largest_2 = moec_max(ffn_largest_2, ffn_load_at);
    }
    ffn_product_3 = moec_block_sum(ffn_product_3);
    ffn_largest_2 = moec_block_max(ffn_largest_2);
    if (moec_thread() == 0) ffn_max_expert_load[i] = 4.0f * ffn_largest_2;
    for (long part = 4 * moec_thread(); part < 2048; part += 4 * moec_threads()) {
        const long b = (unsigned)part / 1024u;
        const long s = (unsigned)part / D % S;
        const long d_from = (unsigned)part % D;
        float x_3_lanes[4];
        moec_read(x_3_lanes, &x_3[((i * BATCH + b) * S + s) * D + d_from]);
        float ffn_y_lanes[4];
        moec_read(ffn_y_lanes, &ffn_y[(b * S + s) * D + d_from]);
        float x_2_lanes[4];
#pragma unroll
        for (int lane = 0; lane < 4; lane++) {
            x_2_lanes[lane] = x_3_lanes[lane] + ffn_y_lanes[lane];
        }
        moec_write(&x_2[(((i + 1) * BATCH + b) * S + s) * D + d_from], x_2_lanes);
    }
    moec_barrier();
    if (moec_thread() == 0) balance[(i + 1) & 1] = balance[i & 1] + 0.04f * ffn_product_3;
    moec_barrier();
}

/* final_norm_sum_of_squares[b,s] = sum[d] x_2[4,b,s,d] * x_2[4,b,s,d]   -- std/norms.moe:9
   final_norm_root[b,s] = rsqrt(final_norm_sum_of_squares[b,s] * 0.03125 + 1e-06)   -- std/norms.moe:9
   final_norm_y[b,s,d] = x_2[4,b,s,d] * final_norm_root[b,s]   -- std/norms.moe:10
   final_norm_y_2[b,s,d] = final_norm_y[b,s,d] * final_norm_weight[d]   -- std/norms.moe:13 */
extern "C" __global__ void kernel_train_10_final_norm_y_2(const float *__restrict__ x_2,
        float *__restrict__ final_norm_sum_of_squares, float *__restrict__ final_norm_root,
        float *__restrict__ final_norm_y, const float *__restrict__ final_norm_weight,
        float *__restrict__ final_norm_y_2)
{
    moec_begin();
    for (long iteration = moec_block(); iteration < 64; iteration += moec_blocks()) {
        const long b = (unsigned)iteration / S;
        const long s = (unsigned)iteration % S;
        float final_norm_sum_of_squares_sum = 0.0f;
        for (long d_from = 4 * moec_thread(); d_from < D; d_from += 4 * moec_threads()) {
            float x_2_lanes[4];
            moec_read(x_2_lanes, &x_2[((4 * BATCH + b) * S + s) * D + d_from]);
#pragma unroll
            for (int lane = 0; lane < 4; lane++) {
                final_norm_sum_of_squares_sum += x_2_lanes[lane] * x_2_lanes[lane];
            }
        }
        final_norm_sum_of_squares_sum = moec_block_sum(final_norm_sum_of_squares_sum);
        float final_norm_sum_of_squares_now = final_norm_sum_of_squares_sum;
        if (moec_thread() == 0) final_norm_sum_of_squares[b * S + s] = final_norm_sum_of_squares_now;
        float final_norm_root_now = moec_rsqrt(final_norm_sum_of_squares_now * 0.03125f + 1e-06f);
        if (moec_thread() == 0) final_norm_root[b * S + s] = final_norm_root_now;
        for (long d_from = 4 * moec_thread(); d_from < D; d_from += 4 * moec_threads()) {
            float x_2_lanes[4];
            moec_read(x_2_lanes, &x_2[((4 * BATCH + b) * S + s) * D + d_from]);
            float final_norm_y_lanes[4];
            float final_norm_weight_lanes[4];
            moec_read(final_norm_weight_lanes, &final_norm_weight[d_from]);
            float final_norm_y_2_lanes[4];
#pragma unroll
            for (int lane = 0; lane < 4; lane++) {
                float final_norm_y_now = x_2_lanes[lane] * final_norm_root_now;
                final_norm_y_lanes[lane] = final_norm_y_now;
                final_norm_y_2_lanes[lane] = final_norm_y_now * final_norm_weight_lanes[lane];
            }
            moec_write(&final_norm_y[(b * S + s) * D + d_from], final_norm_y_lanes);
            moec_write(&final_norm_y_2[(b * S + s) * D + d_from], final_norm_y_2_lanes);
        }
    }
}

/* largest[b,s] = max[v] logits[b,s,v]   -- std/decoder.moe:132
   sum_of_powers[b,s] = sum[v] exp(logits[b,s,v] - stop_gradient(largest[b,s]))   -- std/decoder.moe:132
   total = sum[b,s] (stop_gradient(largest[b,s]) + log(sum_of_powers[b,s]) - logits[b,s,targets[b,s]])
          -- std/decoder.moe:132
   loss = total * 0.015625   -- std/decoder.moe:132
   balance_2 = balance[4]   -- std/moe.moe:125
   total_2 = total * 0.015625 + balance_2   -- std/decoder.moe:132
   d_total_3 = loss_scale * 0.015625   -- std/decoder.moe:132
   d_sum_of_powers[b,s] = d_total_3 * (1 / sum_of_powers[b,s])   -- std/decoder.moe:132 */
extern "C" __global__ void __launch_bounds__(1024)
kernel_train_11_d_sum_of_powers(const int32_t *__restrict__ targets, const float *__restrict__ balance,
        const float *__restrict__ logits, float *__restrict__ largest, float *__restrict__ loss,
        float *__restrict__ balance_2, float *__restrict__ total_2, const float *__restrict__ loss_scale,
        float *__restrict__ d_total_3, float *__restrict__ d_sum_of_powers)
{
    moec_begin();
    __shared__ __align__(16) float sum_of_powers[64];
    const float loss_scale_at = loss_scale[0];
    float total = 0.0f;
    moec_barrier();
    for (long part = moec_thread(); part < 64; part += moec_threads()) {
        const long b = (unsigned)part / S;
        const long s = (unsigned)part % S;
        const long targets_at = (long)targets[b * S + s];
        float largest_sum = -INFINITY;
        for (long v = 0; v < V; v++) {
            largest_sum = moec_max(largest_sum, logits[(b * S + s) * V + v]);
        }
        float largest_now = largest_sum;
        largest[b * S + s] = largest_now;
        float sum_of_powers_sum = 0.0f;
        for (long v = 0; v < V; v++) {
            sum_of_powers_sum += moec_exp(logits[(b * S + s) * V + v] - largest_now);
        }
        sum_of_powers[b * S + s] = sum_of_powers_sum;
        total += largest_now + moec_log(sum_of_powers[b * S + s]) - logits[(b * S + s) * V + targets_at];
    }
    total = moec_block_sum(total);
    moec_barrier();
    if (moec_thread() == 0) loss[0] = total * 0.015625f;
    float balance_2_now = balance[0];
    if (moec_thread() == 0) balance_2[0] = balance_2_now;
    if (moec_thread() == 0) total_2[0] = total * 0.015625f + balance_2_now;
    float d_total_3_now = loss_scale_at * 0.015625f;
    if (moec_thread() == 0) d_total_3[0] = d_total_3_now;
    for (long part = 4 * moec_thread(); part < 64; part += 4 * moec_threads()) {
        const long b = (unsigned)part / S;
        const long s_from = (unsigned)part % S;
        float sum_of_powers_lanes[4];
        moec_read(sum_of_powers_lanes, &sum_of_powers[b * S + s_from]);
        float d_sum_of_powers_lanes[4];
#pragma unroll
        for (int lane = 0; lane < 4; lane++) {
            d_sum_of_powers_lanes[lane] = d_total_3_now * (1.0f / sum_of_powers_lanes[lane]);
        }
        moec_write(&d_sum_of_powers[b * S + s_from], d_sum_of_powers_lanes);
    }
}

/* d_logits[b,s,v] = d_sum_of_powers[b,s] * exp(logits[b,s,v] - stop_gradient(largest[b,s]))
        + where(v == targets[b,s], -d_total_3, 0)   -- std/decoder.moe:127 */
extern "C" __global__ void kernel_train_12_d_logits(const int32_t *__restrict__ targets,
        const float *__restrict__ logits, const float *__restrict__ largest,
        const float *__restrict__ d_total_3, const float *__restrict__ d_sum_of_powers,
        float *__restrict__ d_logits)
{
    moec_begin();
    for (long iteration = 4 * moec_first(); iteration < 4096; iteration += 4 * moec_step()) {
        const long b = (unsigned)iteration / 2048u;
        const long s = (unsigned)iteration / V % S;
        const long v_from = (unsigned)iteration % V;
        const float d_total_3_at = d_total_3[0];
        float logits_lanes[4];
        moec_read(logits_lanes, &logits[(b * S + s) * V + v_from]);
        float d_logits_lanes[4];
#pragma unroll
        for (int lane = 0; lane < 4; lane++) {
            const long v = v_from + lane;
            d_logits_lanes[lane] = d_sum_of_powers[b * S + s]
                    * moec_exp(logits_lanes[lane] - largest[b * S + s])
                    + moec_where(v == (long)targets[b * S + s] ? 1.0f : 0.0f, -d_total_3_at, 0.0f);
        }
        moec_write(&d_logits[(b * S + s) * V + v_from], d_logits_lanes);
    }
}

/* d_final_norm_weight[d] += sum[b,s] d_final_norm_y_2[b,s,d] * final_norm_y[b,s,d]   -- std/norms.moe:13
   d_final_norm_y_3[b,s,d] = d_final_norm_y_2[b,s,d] * final_norm_weight[d]   -- std/norms.moe:10
   d_final_norm_root[b,s] = sum[d] d_final_norm_y_3[b,s,d] * x_2[4,b,s,d]   -- std/norms.moe:10
   d_final_norm_sum_of_squares[b,s] = d_final_norm_root[b,s]
        * (-0.5 * final_norm_root[b,s] / (final_norm_sum_of_squares[b,s] * 0.03125 + 1e-06)) * 0.03125
          -- std/norms.moe:9
   d_x_2[4,b,s,d] = d_final_norm_y_3[b,s,d] * final_norm_root[b,s]
        + d_final_norm_sum_of_squares[b,s] * (x_2[4,b,s,d] + x_2[4,b,s,d])   -- std/decoder.moe:118
   d_balance_3[4] = loss_scale   -- std/moe.moe:125 */
extern "C" __global__ void __launch_bounds__(1024)
kernel_train_13_d_balance_3(const float *__restrict__ x_2,
        const float *__restrict__ final_norm_sum_of_squares, const float *__restrict__ final_norm_root,
        const float *__restrict__ final_norm_y, const float *__restrict__ final_norm_weight,
        const float *__restrict__ loss_scale, float *__restrict__ d_balance_3,
        const float *__restrict__ d_final_norm_y_2, float *__restrict__ d_final_norm_weight,
        float *__restrict__ d_x_2)
{
    moec_begin();
    const float loss_scale_at = loss_scale[0];
    moec_barrier();
    for (long d = moec_thread(); d < D; d += moec_threads()) {
        float d_final_norm_weight_sum = 0.0f;
        for (long b = 0; b < BATCH; b++) {
            float d_final_norm_weight_part = 0.0f;
            for (long s = 0; s < S; s++) {
                d_final_norm_weight_part += d_final_norm_y_2[(b * S + s) * D + d]
                        * final_norm_y[(b * S + s) * D + d];
            }
            d_final_norm_weight_sum += d_final_norm_weight_part;
        }
        d_final_norm_weight[d] += d_final_norm_weight_sum;
    }
    moec_barrier();
    for (long part = moec_thread(); part < 64; part += moec_threads()) {
        const long b = (unsigned)part / S;
        const long s = (unsigned)part % S;
        float d_final_norm_y_3[32];
        float d_final_norm_root = 0.0f;
        for (long d = 0; d < D; d++) {
            d_final_norm_y_3[d] = d_final_norm_y_2[(b * S + s) * D + d] * final_norm_weight[d];
            d_final_norm_root += d_final_norm_y_3[d] * x_2[((4 * BATCH + b) * S + s) * D + d];
        }
        float d_final_norm_sum_of_squares = d_final_norm_root
                * (-0.5f * final_norm_root[b * S + s]
                / (final_norm_sum_of_squares[b * S + s] * 0.03125f + 1e-06f)) * 0.03125f;
        for (long d = 0; d < D; d++) {
            const float x_2_at = x_2[((4 * BATCH + b) * S + s) * D + d];
            d_x_2[(b * S + s) * D + d] = d_final_norm_y_3[d] * final_norm_root[b * S + s]
                    + d_final_norm_sum_of_squares * (x_2_at + x_2_at);
        }
    }
    moec_barrier();
    if (moec_thread() == 0) d_balance_3[0] = loss_scale_at;
}

/* d_ffn_product_3 = d_balance_3[i + 1] * 0.04   -- std/moe.moe:125
   d_ffn_total_4[n] = d_ffn_product_3 * stop_gradient(ffn_load[i,n]) * 0.015625   -- std/moe.moe:125
   ffn_p_again[b,s,n] = ffn_value[i,b,s,n] / ffn_total[i,b,s]   -- std/moe.moe:69
   ffn_weight_again[b,s,n] = ffn_p_again[b,s,n] / where(ffn_total_3[i,b,s] > 0, ffn_total_3[i,b,s], 1)
          -- std/moe.moe:102 */
extern "C" __global__ void kernel_train_14_ffn_weight_again(long i, const float *__restrict__ ffn_value,
        const float *__restrict__ ffn_total, const float *__restrict__ ffn_load,
        const float *__restrict__ ffn_total_3, const float *__restrict__ d_balance_3,
        float *__restrict__ d_ffn_total_4, float *__restrict__ ffn_p_again,
        float *__restrict__ ffn_weight_again)
{
    moec_begin();
    float d_ffn_product_3 = d_balance_3[(i + 1) & 1] * 0.04f;
    for (long n_from = 4 * moec_thread(); n_from < N; n_from += 4 * moec_threads()) {
        float ffn_load_lanes[4];
        moec_read(ffn_load_lanes, &ffn_load[i * N + n_from]);
        float d_ffn_total_4_lanes[4];
#pragma unroll
        for (int lane = 0; lane < 4; lane++) {
            d_ffn_total_4_lanes[lane] = d_ffn_product_3 * ffn_load_lanes[lane] * 0.015625f;
        }
        moec_write(&d_ffn_total_4[n_from], d_ffn_total_4_lanes);
    }
    for (long part = 4 * moec_thread(); part < 256; part += 4 * moec_threads()) {
        const long b = (unsigned)part / 128u;
        const long s = (unsigned)part / N % S;
        const long n_from = (unsigned)part % N;
        float ffn_value_lanes[4];
        moec_read(ffn_value_lanes, &ffn_value[((i * BATCH + b) * S + s) * N + n_from]);
        float ffn_p_again_lanes[4];
        float ffn_weight_again_lanes[4];
#pragma unroll
        for (int lane = 0; lane < 4; lane++) {
            float ffn_p_again_now = ffn_value_lanes[lane] / ffn_total[(i * BATCH + b) * S + s];
            ffn_p_again_lanes[lane] = ffn_p_again_now;
            const float ffn_total_3_at = ffn_total_3[(i * BATCH + b) * S + s];
            ffn_weight_again_lanes[lane] = ffn_p_again_now
                    / moec_where(moec_lt(0.0f, ffn_total_3_at), ffn_total_3_at, 1.0f);
        }
        moec_write(&ffn_p_again[(b * S + s) * N + n_from], ffn_p_again_lanes);
        moec_write(&ffn_weight_again[(b * S + s) * N + n_from], ffn_weight_again_lanes);
    }
}

/* d_expert_h_weighed[r,f] = sum[d] d_x_2[i + 1,chosen_batch_2[r],chosen_s_2[r],d]
        * block_ffn_expert_down[i,chosen_n_2[r],f,d]   -- std/mlp.moe:58
   act_y_again[r,f] = expert_gate_product[i,r,f] * sigmoid(expert_gate_product[i,r,f])
          -- std/activations.moe:19
   expert_h_again[r,f] = act_y_again[r,f] * expert_up_product[i,r,f]   -- std/mlp.moe:57
   expert_h_weighed_again[r,f] = ffn_weight_again[chosen_batch_2[r],chosen_s_2[r],chosen_n_2[r]]
        * expert_h_again[r,f]   -- std/moe.moe:109
   d_expert_h[r,f] = d_expert_h_weighed[r,f]
        * ffn_weight_again[chosen_batch_2[r],chosen_s_2[r],chosen_n_2[r]]   -- std/mlp.moe:57
   d_expert_up_product[r,f] = d_expert_h[r,f] * act_y_again[r,f]   -- std/mlp.moe:57
   d_act_y[r,f] = d_expert_h[r,f] * expert_up_product[i,r,f]   -- std/activations.moe:19
   d_expert_gate_product[r,f] = d_act_y[r,f]
        * (sigmoid(expert_gate_product[i,r,f])
        + expert_gate_product[i,r,f] * (sigmoid(expert_gate_product[i,r,f])
        * (1 - sigmoid(expert_gate_product[i,r,f]))))   -- std/mlp.moe:57 */
extern "C" __global__ void __launch_bounds__(MOEC_TILE_THREADS) product_train_15(MoecGroupedOnDevice grouped,
        const int32_t *group, const int32_t *a_gather, const float *a, const float *b, long i,
        const float *__restrict__ expert_gate_product, const float *__restrict__ expert_up_product,
        float *__restrict__ d_expert_h_weighed, float *__restrict__ d_expert_up_product,
        float *__restrict__ d_expert_gate_product, const float *__restrict__ ffn_weight_again,
        float *__restrict__ expert_h_again, float *__restrict__ expert_h_weighed_again,
        const int32_t *__restrict__ chosen_batch_2, const int32_t *__restrict__ chosen_s_2,
        const int32_t *__restrict__ chosen_n_2)
{
    moec_begin();
    moec_by_weight<MoecTileExact>(grouped, group, a_gather, a, b, [&](long row, long column, float sum) {
        const long r = row;
        const long f = column;
        float d_expert_h_weighed_now = sum;
        d_expert_h_weighed[r * F + f] = d_expert_h_weighed_now;
        const float expert_gate_product_at = expert_gate_product[(i * CHOSEN_ROWS + r) * F + f];
        const float part = moec_sigmoid(expert_gate_product_at);
        float act_y_again = expert_gate_product_at * part;
        const float expert_up_product_at = expert_up_product[(i * CHOSEN_ROWS + r) * F + f];
        float expert_h_again_now = act_y_again * expert_up_product_at;
        expert_h_again[r * F + f] = expert_h_again_now;
        const float ffn_weight_again_at = ffn_weight_again[((long)chosen_batch_2[r] * S
                + (long)chosen_s_2[r]) * N + (long)chosen_n_2[r]];
        expert_h_weighed_again[r * F + f] = ffn_weight_again_at * expert_h_again_now;
        float d_expert_h = d_expert_h_weighed_now * ffn_weight_again_at;
        d_expert_up_product[r * F + f] = d_expert_h * act_y_again;
        float d_act_y = d_expert_h * expert_up_product_at;
        d_expert_gate_product[r * F + f] = d_act_y * (part + expert_gate_product_at * (part * (1.0f - part)));
    });
}

extern "C" __global__ void __launch_bounds__(MOEC_TILE_THREADS) rows_by_rows_exact(MoecGroupedOnDevice grouped, const int32_t *group, const int32_t *a_gather, const int32_t *b_gather, const float *a, const float *b, float *c)
{
    moec_begin();
    moec_by_rows<MoecTileExact>(grouped, group, a_gather, b_gather, a, b, MoecPlainStore<float>{grouped, c});
}

/* d_ffn_weight[r] = sum[f] d_expert_h_weighed[r,f] * expert_h_again[r,f]   -- std/moe.moe:109 */
extern "C" __global__ void kernel_train_16_d_ffn_weight(const float *__restrict__ d_expert_h_weighed,
        float *__restrict__ d_ffn_weight, const float *__restrict__ expert_h_again)
{
    moec_begin();
    for (long iteration = moec_block(); iteration < CHOSEN_ROWS; iteration += moec_blocks()) {
        const long r = iteration;
        float d_ffn_weight_sum = 0.0f;
        for (long f_from = 4 * moec_thread(); f_from < F; f_from += 4 * moec_threads()) {
            float d_expert_h_weighed_lanes[4];
            moec_read(d_expert_h_weighed_lanes, &d_expert_h_weighed[r * F + f_from]);
            float expert_h_again_lanes[4];
            moec_read(expert_h_again_lanes, &expert_h_again[r * F + f_from]);
#pragma unroll
            for (int lane = 0; lane < 4; lane++) {
                d_ffn_weight_sum += d_expert_h_weighed_lanes[lane] * expert_h_again_lanes[lane];
            }
        }
        d_ffn_weight_sum = moec_block_sum(d_ffn_weight_sum);
        if (moec_thread() == 0) d_ffn_weight[r] = d_ffn_weight_sum;
    }
}

/* d_ffn_norm_y_2[b,s,d] = 0   -- std/mlp.moe:57
   ffn_norm_root_again[b,s] = rsqrt(ffn_norm_sum_of_squares[i,b,s] * 0.03125 + 1e-06)   -- std/norms.moe:9
   ffn_norm_y_again[b,s,d] = x_3[i,b,s,d] * ffn_norm_root_again[b,s]   -- std/norms.moe:10
   ffn_norm_y_2_again[b,s,d] = ffn_norm_y_again[b,s,d] * block_ffn_norm_weight[i,d]   -- std/norms.moe:13 */
extern "C" __global__ void kernel_train_17_ffn_norm_y_2_again(long i, const float *__restrict__ x_3,
        const float *__restrict__ ffn_norm_sum_of_squares, const float *__restrict__ block_ffn_norm_weight,
        float *__restrict__ d_ffn_norm_y_2, float *__restrict__ ffn_norm_root_again,
        float *__restrict__ ffn_norm_y_again, float *__restrict__ ffn_norm_y_2_again)
{
    moec_begin();
    for (long iteration = moec_block(); iteration < 64; iteration += moec_blocks()) {
        const long b = (unsigned)iteration / S;
        const long s = (unsigned)iteration % S;
        for (long d_from = 4 * moec_thread(); d_from < D; d_from += 4 * moec_threads()) {
            float d_ffn_norm_y_2_lanes[4];
#pragma unroll
            for (int lane = 0; lane < 4; lane++) {
                d_ffn_norm_y_2_lanes[lane] = 0.0f;
            }
            moec_write(&d_ffn_norm_y_2[(b * S + s) * D + d_from], d_ffn_norm_y_2_lanes);
        }
        float ffn_norm_root_again_now = moec_rsqrt(ffn_norm_sum_of_squares[(i * BATCH + b) * S + s]
                * 0.03125f + 1e-06f);
        if (moec_thread() == 0) ffn_norm_root_again[b * S + s] = ffn_norm_root_again_now;
        for (long d_from = 4 * moec_thread(); d_from < D; d_from += 4 * moec_threads()) {
            float x_3_lanes[4];
            moec_read(x_3_lanes, &x_3[((i * BATCH + b) * S + s) * D + d_from]);
            float ffn_norm_y_again_lanes[4];
            float block_ffn_norm_weight_lanes[4];
            moec_read(block_ffn_norm_weight_lanes, &block_ffn_norm_weight[i * D + d_from]);
            float ffn_norm_y_2_again_lanes[4];
#pragma unroll
            for (int lane = 0; lane < 4; lane++) {
                float ffn_norm_y_again_now = x_3_lanes[lane] * ffn_norm_root_again_now;
                ffn_norm_y_again_lanes[lane] = ffn_norm_y_again_now;
                ffn_norm_y_2_again_lanes[lane] = ffn_norm_y_again_now * block_ffn_norm_weight_lanes[lane];
            }
            moec_write(&ffn_norm_y_again[(b * S + s) * D + d_from], ffn_norm_y_again_lanes);
            moec_write(&ffn_norm_y_2_again[(b * S + s) * D + d_from], ffn_norm_y_2_again_lanes);
        }
    }
}

/* d_ffn_norm_y_2[chosen_batch_2[r],chosen_s_2[r],d] += d_ffn_norm_y_2_rows[r,d]   -- std/mlp.moe:57 */
extern "C" __global__ void kernel_train_18_d_ffn_norm_y_2(float *__restrict__ d_ffn_norm_y_2,
        const float *__restrict__ d_ffn_norm_y_2_rows, const int32_t *__restrict__ chosen_start_2,
        const int32_t *__restrict__ chosen_list_2)
{
    moec_begin();
    moec_add_rows<4>(chosen_start_2, chosen_list_2, 64, 32, d_ffn_norm_y_2_rows, d_ffn_norm_y_2);
}

/* d_ffn_total_3_sum[b,s] = sum[n] d_ffn_weight[chosen_row_2[b,s,n]] * ffn_weight_again[b,s,n]
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
extern "C" __global__ void kernel_train_19_d_ffn_logit(long i, const float *__restrict__ ffn_value,
        const float *__restrict__ ffn_total, const float *__restrict__ chosen,
        const float *__restrict__ ffn_total_3, const float *__restrict__ d_ffn_total_4,
        const float *__restrict__ d_ffn_weight, float *__restrict__ d_ffn_logit,
        const float *__restrict__ ffn_p_again, const float *__restrict__ ffn_weight_again,
        const int32_t *__restrict__ chosen_row_2)
{
    moec_begin();
    for (long iteration = moec_block(); iteration < 64; iteration += moec_blocks()) {
        const long b = (unsigned)iteration / S;
        const long s = (unsigned)iteration % S;
        __shared__ __align__(16) float d_ffn_p[4];
        float d_ffn_total_3_sum = 0.0f;
        for (long n_from = 4 * moec_thread(); n_from < N; n_from += 4 * moec_threads()) {
            float ffn_weight_again_lanes[4];
            moec_read(ffn_weight_again_lanes, &ffn_weight_again[(b * S + s) * N + n_from]);
#pragma unroll
            for (int lane = 0; lane < 4; lane++) {
                const long n = n_from + lane;
                const long chosen_row_2_at = (long)chosen_row_2[(b * S + s) * N + n];
                d_ffn_total_3_sum += (chosen_row_2_at >= 0 ? d_ffn_weight[chosen_row_2_at] : 0.0f)
                        * ffn_weight_again_lanes[lane];
            }
        }
        d_ffn_total_3_sum = moec_block_sum(d_ffn_total_3_sum);
        const float ffn_total_3_at = ffn_total_3[(i * BATCH + b) * S + s];
        float d_ffn_total_3 = -moec_where(moec_lt(0.0f, ffn_total_3_at),
                1.0f / moec_where(moec_lt(0.0f, ffn_total_3_at), ffn_total_3_at, 1.0f) * d_ffn_total_3_sum,
                0.0f);
        float d_ffn_total_5_sum = 0.0f;
        moec_barrier();
        for (long n_from = 4 * moec_thread(); n_from < N; n_from += 4 * moec_threads()) {
            float d_ffn_total_4_lanes[4];
            moec_read(d_ffn_total_4_lanes, &d_ffn_total_4[n_from]);
            float chosen_lanes[4];
            moec_read(chosen_lanes, &chosen[((i * BATCH + b) * S + s) * N + n_from]);
            float d_ffn_p_lanes[4];
            float ffn_p_again_lanes[4];
            moec_read(ffn_p_again_lanes, &ffn_p_again[(b * S + s) * N + n_from]);
#pragma unroll
            for (int lane = 0; lane < 4; lane++) {
                const long n = n_from + lane;
                const long chosen_row_2_at = (long)chosen_row_2[(b * S + s) * N + n];
                const float ffn_total_3_at_2 = ffn_total_3[(i * BATCH + b) * S + s];
                d_ffn_p_lanes[lane] = d_ffn_total_4_lanes[lane]
                        + (chosen_row_2_at >= 0 ? d_ffn_weight[chosen_row_2_at] : 0.0f)
                        * (1.0f / moec_where(moec_lt(0.0f, ffn_total_3_at_2), ffn_total_3_at_2, 1.0f))
                        + d_ffn_total_3 * chosen_lanes[lane];
                d_ffn_total_5_sum += d_ffn_p_lanes[lane] * ffn_p_again_lanes[lane];
            }
            moec_write(&d_ffn_p[n_from], d_ffn_p_lanes);
        }
        d_ffn_total_5_sum = moec_block_sum(d_ffn_total_5_sum);
        moec_barrier();
        float d_ffn_total_5 = -(1.0f / ffn_total[(i * BATCH + b) * S + s] * d_ffn_total_5_sum);
        for (long n_from = 4 * moec_thread(); n_from < N; n_from += 4 * moec_threads()) {
            float d_ffn_p_lanes[4];
            moec_read(d_ffn_p_lanes, &d_ffn_p[n_from]);
            float ffn_value_lanes[4];
            moec_read(ffn_value_lanes, &ffn_value[((i * BATCH + b) * S + s) * N + n_from]);
            float d_ffn_logit_lanes[4];
#pragma unroll
            for (int lane = 0; lane < 4; lane++) {
                float d_ffn_value = d_ffn_p_lanes[lane] * (1.0f / ffn_total[(i * BATCH + b) * S + s])
                        + d_ffn_total_5;
                d_ffn_logit_lanes[lane] = d_ffn_value * ffn_value_lanes[lane];
            }
            moec_write(&d_ffn_logit[(b * S + s) * N + n_from], d_ffn_logit_lanes);
        }
    }
}

/* d_block_ffn_norm_weight[i,d] += sum[b,s] d_ffn_norm_y_2[b,s,d] * ffn_norm_y_again[b,s,d]
          -- std/norms.moe:13 */
extern "C" __global__ void __launch_bounds__(512)
kernel_train_20_d_block_ffn_norm_weight(long i, const float *__restrict__ d_ffn_norm_y_2,
        float *__restrict__ d_block_ffn_norm_weight, const float *__restrict__ ffn_norm_y_again)
{
    moec_begin();
    for (long moec_from = 32 * moec_block(); moec_from < D; moec_from += 32 * moec_blocks()) {
        const long iteration = moec_column(moec_from, D);
        const long d = iteration;
        float d_block_ffn_norm_weight_sum = 0.0f;
        for (long part = moec_thread() / 32; part < 64; part += moec_threads() / 32) {
            const long b = (unsigned)part / S;
            const long s = (unsigned)part % S;
            d_block_ffn_norm_weight_sum += d_ffn_norm_y_2[(b * S + s) * D + d]
                    * ffn_norm_y_again[(b * S + s) * D + d];
        }
        d_block_ffn_norm_weight_sum = moec_column_sum(d_block_ffn_norm_weight_sum);
        moec_barrier();
        if (moec_thread() < 32 && moec_from + moec_thread() == iteration) d_block_ffn_norm_weight[i * D
                + d] += d_block_ffn_norm_weight_sum;
        moec_barrier();
    }
}

/* d_ffn_norm_y_3[b,s,d] = d_ffn_norm_y_2[b,s,d] * block_ffn_norm_weight[i,d]   -- std/norms.moe:10
   d_ffn_norm_root[b,s] = sum[d] d_ffn_norm_y_3[b,s,d] * x_3[i,b,s,d]   -- std/norms.moe:10
   d_ffn_norm_sum_of_squares[b,s] = d_ffn_norm_root[b,s]
        * (-0.5 * ffn_norm_root_again[b,s] / (ffn_norm_sum_of_squares[i,b,s] * 0.03125 + 1e-06)) * 0.03125
          -- std/norms.moe:9
   d_x_3[b,s,d] = d_x_2[i + 1,b,s,d] + d_ffn_norm_y_3[b,s,d] * ffn_norm_root_again[b,s]
        + d_ffn_norm_sum_of_squares[b,s] * (x_3[i,b,s,d] + x_3[i,b,s,d])   -- std/decoder.moe:113 */
extern "C" __global__ void kernel_train_21_d_x_3(long i, const float *__restrict__ x_3,
        const float *__restrict__ ffn_norm_sum_of_squares, const float *__restrict__ block_ffn_norm_weight,
        const float *__restrict__ d_x_2, float *__restrict__ d_x_3, const float *__restrict__ d_ffn_norm_y_2,
        const float *__restrict__ ffn_norm_root_again)
{
    moec_begin();
    for (long iteration = moec_block(); iteration < 64; iteration += moec_blocks()) {
        const long b = (unsigned)iteration / S;
        const long s = (unsigned)iteration % S;
        __shared__ __align__(16) float d_ffn_norm_y_3[32];
        float d_ffn_norm_root = 0.0f;
        moec_barrier();
        for (long d_from = 4 * moec_thread(); d_from < D; d_from += 4 * moec_threads()) {
            float d_ffn_norm_y_2_lanes[4];
            moec_read(d_ffn_norm_y_2_lanes, &d_ffn_norm_y_2[(b * S + s) * D + d_from]);
            float block_ffn_norm_weight_lanes[4];
            moec_read(block_ffn_norm_weight_lanes, &block_ffn_norm_weight[i * D + d_from]);
            float d_ffn_norm_y_3_lanes[4];
            float x_3_lanes[4];
            moec_read(x_3_lanes, &x_3[((i * BATCH + b) * S + s) * D + d_from]);
#pragma unroll
            for (int lane = 0; lane < 4; lane++) {
                d_ffn_norm_y_3_lanes[lane] = d_ffn_norm_y_2_lanes[lane] * block_ffn_norm_weight_lanes[lane];
                d_ffn_norm_root += d_ffn_norm_y_3_lanes[lane] * x_3_lanes[lane];
            }
            moec_write(&d_ffn_norm_y_3[d_from], d_ffn_norm_y_3_lanes);
        }
        d_ffn_norm_root = moec_block_sum(d_ffn_norm_root);
        moec_barrier();
        float d_ffn_norm_sum_of_squares = d_ffn_norm_root
                * (-0.5f * ffn_norm_root_again[b * S + s]
                / (ffn_norm_sum_of_squares[(i * BATCH + b) * S + s] * 0.03125f + 1e-06f)) * 0.03125f;
        for (long d_from = 4 * moec_thread(); d_from < D; d_from += 4 * moec_threads()) {
            float d_x_2_lanes[4];
            moec_read(d_x_2_lanes, &d_x_2[((((i + 1) & 1) * BATCH + b) * S + s) * D + d_from]);
            float d_ffn_norm_y_3_lanes[4];
            moec_read(d_ffn_norm_y_3_lanes, &d_ffn_norm_y_3[d_from]);
            float x_3_lanes[4];
            moec_read(x_3_lanes, &x_3[((i * BATCH + b) * S + s) * D + d_from]);
            float d_x_3_lanes[4];
#pragma unroll
            for (int lane = 0; lane < 4; lane++) {
                d_x_3_lanes[lane] = d_x_2_lanes[lane]
                        + d_ffn_norm_y_3_lanes[lane] * ffn_norm_root_again[b * S + s]
                        + d_ffn_norm_sum_of_squares * (x_3_lanes[lane] + x_3_lanes[lane]);
            }
            moec_write(&d_x_3[(b * S + s) * D + d_from], d_x_3_lanes);
        }
    }
}

struct options_train_22 {
    static constexpr long batch = 2, queries = 32, keys = 32, places = 32;
    static constexpr int heads = 4, key_heads = 4, value_heads = 4;
    static constexpr int width = 8, value_width = 8, mask = MOEC_MASK_CAUSAL;
    static constexpr bool documents = false;
    static constexpr long window = 0, best = 0, parts = 16;
    static constexpr float scale = 0.353553391f, cap = 0.0f;
};
extern "C" __global__ void __launch_bounds__(128, 1) attend_grad_query_train_22(const float *q,
        const float *k, const float *v, const float *sink, const float *documents, const float *o,
        const float *lse, const float *output_grad, float *dq)
{
    moec_begin();
    moec_attend_grad_query<options_train_22>(q, k, v, sink, documents, o, lse, output_grad, dq);
}
extern "C" __global__ void __launch_bounds__(128, 1) attend_grad_both_train_22(const float *q,
        const float *k, const float *v, const float *sink, const float *documents, const float *o,
        const float *lse, const float *output_grad, float *dk, float *dv)
{
    moec_begin();
    moec_attend_grad_both<options_train_22>(q, k, v, sink, documents, o, lse, output_grad, dk, dv);
}

/* attention_norm_root_again[b,s] = rsqrt(attention_norm_sum_of_squares[i,b,s] * 0.03125 + 1e-06)
          -- std/norms.moe:9
   attention_norm_y_again[b,s,d] = x_2[i,b,s,d] * attention_norm_root_again[b,s]   -- std/norms.moe:10
   attention_norm_y_2_again[b,s,d] = attention_norm_y_again[b,s,d] * block_attention_norm_weight[i,d]
          -- std/norms.moe:13
   d_attention_k[b,s,h,e] = d_key_rotary_y[b,s,h,e] * query_rotary_cosine[s,e]
        + d_key_rotary_y[b,s,h,(e + 4) % 8] * query_rotary_sine[s,(e + 4) % 8]   -- std/attention.moe:84
   d_attention_q[b,s,h,e] = d_query_rotary_y[b,s,h,e] * query_rotary_cosine[s,e]
        + d_query_rotary_y[b,s,h,(e + 4) % 8] * query_rotary_sine[s,(e + 4) % 8]   -- std/attention.moe:82 */
extern "C" __global__ void kernel_train_23_d_attention_q(long i, const float *__restrict__ x_2,
        const float *__restrict__ attention_norm_sum_of_squares,
        const float *__restrict__ block_attention_norm_weight, const float *__restrict__ query_rotary_cosine,
        const float *__restrict__ query_rotary_sine, const float *__restrict__ d_query_rotary_y,
        const float *__restrict__ d_key_rotary_y, float *__restrict__ d_attention_k,
        float *__restrict__ d_attention_q, float *__restrict__ attention_norm_root_again,
        float *__restrict__ attention_norm_y_again, float *__restrict__ attention_norm_y_2_again)
{
    moec_begin();
    for (long iteration = moec_block(); iteration < 64; iteration += moec_blocks()) {
        const long b = (unsigned)iteration / S;
        const long s = (unsigned)iteration % S;
        float attention_norm_root_again_now =
                moec_rsqrt(attention_norm_sum_of_squares[(i * BATCH + b) * S + s] * 0.03125f + 1e-06f);
        if (moec_thread() == 0) attention_norm_root_again[b * S + s] = attention_norm_root_again_now;
        for (long d_from = 4 * moec_thread(); d_from < D; d_from += 4 * moec_threads()) {
            float x_2_lanes[4];
            moec_read(x_2_lanes, &x_2[((i * BATCH + b) * S + s) * D + d_from]);
            float attention_norm_y_again_lanes[4];
            float block_attention_norm_weight_lanes[4];
            moec_read(block_attention_norm_weight_lanes, &block_attention_norm_weight[i * D + d_from]);
            float attention_norm_y_2_again_lanes[4];
#pragma unroll
            for (int lane = 0; lane < 4; lane++) {
                float attention_norm_y_again_now = x_2_lanes[lane] * attention_norm_root_again_now;
                attention_norm_y_again_lanes[lane] = attention_norm_y_again_now;
                attention_norm_y_2_again_lanes[lane] = attention_norm_y_again_now
                        * block_attention_norm_weight_lanes[lane];
            }
            moec_write(&attention_norm_y_again[(b * S + s) * D + d_from], attention_norm_y_again_lanes);
            moec_write(&attention_norm_y_2_again[(b * S + s) * D + d_from], attention_norm_y_2_again_lanes);
        }
        for (long part = 4 * moec_thread(); part < 32; part += 4 * moec_threads()) {
            const long h = (unsigned)part / E;
            const long e_from = (unsigned)part % E;
            float d_key_rotary_y_lanes[4];
            moec_read(d_key_rotary_y_lanes, &d_key_rotary_y[((b * S + s) * HK + h) * E + e_from]);
            float query_rotary_cosine_lanes[4];
            moec_read(query_rotary_cosine_lanes, &query_rotary_cosine[s * E + e_from]);
            float d_key_rotary_y_lanes_2[4];
            moec_read(d_key_rotary_y_lanes_2, &d_key_rotary_y[((b * S + s) * HK + h) * E + (e_from + 4) % 8]);
            float query_rotary_sine_lanes[4];
            moec_read(query_rotary_sine_lanes, &query_rotary_sine[s * E + (e_from + 4) % 8]);
            float d_attention_k_lanes[4];
            float d_query_rotary_y_lanes[4];
            moec_read(d_query_rotary_y_lanes, &d_query_rotary_y[((b * S + s) * H + h) * E + e_from]);
            float d_query_rotary_y_lanes_2[4];
            moec_read(d_query_rotary_y_lanes_2,
                    &d_query_rotary_y[((b * S + s) * H + h) * E + (e_from + 4) % 8]);
            float d_attention_q_lanes[4];
#pragma unroll
            for (int lane = 0; lane < 4; lane++) {
                d_attention_k_lanes[lane] = d_key_rotary_y_lanes[lane] * query_rotary_cosine_lanes[lane]
                        + d_key_rotary_y_lanes_2[lane] * query_rotary_sine_lanes[lane];
                d_attention_q_lanes[lane] = d_query_rotary_y_lanes[lane] * query_rotary_cosine_lanes[lane]
                        + d_query_rotary_y_lanes_2[lane] * query_rotary_sine_lanes[lane];
            }
            moec_write(&d_attention_k[((b * S + s) * HK + h) * E + e_from], d_attention_k_lanes);
            moec_write(&d_attention_q[((b * S + s) * H + h) * E + e_from], d_attention_q_lanes);
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
        * 0.03125   -- std/norms.moe:9
   d_x_2[i,b,s,d] = d_x_3[b,s,d] + d_attention_norm_y_3[b,s,d] * attention_norm_root_again[b,s]
        + d_attention_norm_sum_of_squares[b,s] * (x_2[i,b,s,d] + x_2[i,b,s,d])   -- std/decoder.moe:118
   d_balance_3[i] = d_balance_3[i + 1]   -- std/moe.moe:125 */
extern "C" __global__ void __launch_bounds__(1024)
kernel_train_24_d_balance_3(long i, const float *__restrict__ x_2,
        const float *__restrict__ attention_norm_sum_of_squares,
        const float *__restrict__ block_attention_norm_weight, float *__restrict__ d_balance_3,
        float *__restrict__ d_x_2, const float *__restrict__ d_x_3,
        const float *__restrict__ d_attention_norm_y_2, float *__restrict__ d_block_attention_norm_weight,
        const float *__restrict__ attention_norm_root_again, const float *__restrict__ attention_norm_y_again)
{
    moec_begin();
    moec_barrier();
    for (long d = moec_thread(); d < D; d += moec_threads()) {
        float d_block_attention_norm_weight_sum = 0.0f;
        for (long b = 0; b < BATCH; b++) {
            float d_block_attention_norm_weight_part = 0.0f;
            for (long s = 0; s < S; s++) {
                d_block_attention_norm_weight_part += d_attention_norm_y_2[(b * S + s) * D + d]
                        * attention_norm_y_again[(b * S + s) * D + d];
            }
            d_block_attention_norm_weight_sum += d_block_attention_norm_weight_part;
        }
        d_block_attention_norm_weight[i * D + d] += d_block_attention_norm_weight_sum;
    }
    moec_barrier();
    for (long part = moec_thread(); part < 64; part += moec_threads()) {
        const long b = (unsigned)part / S;
        const long s = (unsigned)part % S;
        float d_attention_norm_y_3[32];
        float d_attention_norm_root = 0.0f;
        for (long d = 0; d < D; d++) {
            d_attention_norm_y_3[d] = d_attention_norm_y_2[(b * S + s) * D + d]
                    * block_attention_norm_weight[i * D + d];
            d_attention_norm_root += d_attention_norm_y_3[d] * x_2[((i * BATCH + b) * S + s) * D + d];
        }
        float d_attention_norm_sum_of_squares = d_attention_norm_root
                * (-0.5f * attention_norm_root_again[b * S + s]
                / (attention_norm_sum_of_squares[(i * BATCH + b) * S + s] * 0.03125f + 1e-06f)) * 0.03125f;
        for (long d = 0; d < D; d++) {
            const float x_2_at = x_2[((i * BATCH + b) * S + s) * D + d];
            d_x_2[(((i & 1) * BATCH + b) * S + s) * D + d] = d_x_3[(b * S + s) * D + d]
                    + d_attention_norm_y_3[d] * attention_norm_root_again[b * S + s]
                    + d_attention_norm_sum_of_squares * (x_2_at + x_2_at);
        }
    }
    moec_barrier();
    if (moec_thread() == 0) d_balance_3[i & 1] = d_balance_3[(i + 1) & 1];
    moec_barrier();
}

/* d_embedding[tokens[b,s],d] += d_x_2[0,b,s,d]   -- std/decoder.moe:79 */
extern "C" __global__ void __launch_bounds__(1024)
kernel_train_25_d_embedding(const int32_t *__restrict__ tokens, const float *__restrict__ d_x_2,
        float *__restrict__ d_embedding)
{
    moec_begin();
    moec_barrier();
    for (long d = moec_thread(); d < D; d += moec_threads()) {
        for (long b = 0; b < BATCH; b++) {
            for (long s = 0; s < S; s++) {
                const long tokens_at = (long)tokens[b * S + s];
                d_embedding[tokens_at * D + d] += d_x_2[(b * S + s) * D + d];
            }
        }
    }
    moec_barrier();
}

/* unbias1 = 1 / (1 - 0.9 ^ step)   -- std/adamw.moe:16
   unbias2 = 1 / (1 - 0.95 ^ step)   -- std/adamw.moe:17
   share = 0.1 * matrix   -- std/adamw.moe:18
   g[elements] = clip * grad[elements]   -- std/adamw.moe:15
   m[i] = 0.9 * m[i] + 0.1 * g[i]   -- std/adamw.moe:19
   v[i] = 0.95 * v[i] + 0.05 * g[i] * g[i]   -- std/adamw.moe:20
   weight[i] = weight[i] - lr * (m[i] * unbias1 / (sqrt(v[i] * unbias2) + 1e-08) + share * weight[i])   -- std/adamw.moe:21 */
static __device__ const MoecShare update_shares[] = {
    {0, 0, 2048, 0}, /* embedding */
    {1, 2048, 128, 1}, /* block_attention_norm_weight */
    {2, 2176, 4096, 0}, /* block_attention_query */
    {3, 6272, 4096, 0}, /* block_attention_key */
    {4, 10368, 4096, 0}, /* block_attention_value */
    {5, 14464, 4096, 0}, /* block_attention_output */
    {6, 18560, 128, 1}, /* block_ffn_norm_weight */
    {7, 18688, 512, 0}, /* block_ffn_router */
    {8, 19200, 24576, 0}, /* block_ffn_expert_up */
    {11, 43776, 24576, 0}, /* block_ffn_expert_gate */
    {14, 68352, 24576, 0}, /* block_ffn_expert_down */
    {17, 92928, 32, 1}, /* final_norm_weight */
    {18, 92960, 2048, 0}, /* unembedding */
};

extern "C" __global__ void __launch_bounds__(256) update_step(
        float *__restrict__ moec_weights, const float *__restrict__ moec_gradients, float *__restrict__ moec_state_0, float *__restrict__ moec_state_1,
        const float *__restrict__ moec_numbers)
{
    moec_begin();
    int moec_at = 0; /* the last share that begins here or before */
    for (int step = 8; step > 0; step /= 2)
        if (moec_at + step < 13 && update_shares[moec_at + step].block <= moec_block())
            moec_at += step;
    const MoecShare moec_share = update_shares[moec_at];
    const long moec_before = (moec_block() - moec_share.block) * 8192;
    const long moec_from = moec_share.first + moec_before;
    const long elements = moec_least(moec_share.count - moec_before, 8192);
    float *const weight = moec_weights + moec_from;
    const float *const gradient = moec_gradients + moec_from;
    const float *const scalars = moec_numbers + moec_share.group * 4;
    float *const state[] = {moec_state_0 + moec_from, moec_state_1 + moec_from};
    const float *const lr = scalars + 0;
    const float *const step_2 = scalars + 1;
    const float *const matrix = scalars + 2;
    const float *const clip = scalars + 3;
    float *const m = state[0];
    float *const v = state[1];
    float unbias1 = 1.0f / (1.0f - moec_pow(0.9f, step_2[0]));
    float unbias2 = 1.0f / (1.0f - moec_pow(0.95f, step_2[0]));
    float share = 0.1f * matrix[0];
    for (long iteration = 4 * moec_thread(); iteration < elements; iteration += 4 * moec_threads()) {
        const long elements_2_from = iteration;
        const float clip_at = clip[0];
        const float lr_at = lr[0];
        float grad_lanes[4];
        moec_read(grad_lanes, &gradient[elements_2_from], elements - elements_2_from);
        float m_lanes[4];
        moec_read(m_lanes, &m[elements_2_from], elements - elements_2_from);
        float v_lanes[4];
        moec_read(v_lanes, &v[elements_2_from], elements - elements_2_from);
        float weight_lanes[4];
        moec_read(weight_lanes, &weight[elements_2_from], elements - elements_2_from);
#pragma unroll
        for (int lane = 0; lane < 4; lane++) {
            float g = clip_at * grad_lanes[lane];
            float m_now = 0.9f * m_lanes[lane] + 0.1f * g;
            m_lanes[lane] = m_now;
            float v_now = 0.95f * v_lanes[lane] + 0.05f * g * g;
            v_lanes[lane] = v_now;
            float weight_now = weight_lanes[lane]
                    - lr_at * (m_now * unbias1 / (moec_sqrt(v_now * unbias2) + 1e-08f)
                    + share * weight_lanes[lane]);
            weight_lanes[lane] = weight_now;
        }
        moec_write(&m[elements_2_from], m_lanes, elements - elements_2_from);
        moec_write(&v[elements_2_from], v_lanes, elements - elements_2_from);
        moec_write(&weight[elements_2_from], weight_lanes, elements - elements_2_from);
    }
}

extern "C" {
extern const void *const moec_kernel_functions[] = {
    (const void *)kernel_train_0_query_rotary_sine,
    (const void *)kernel_train_1_attention_norm_y_2,
    (const void *)dense_exact,
    (const void *)kernel_train_2_key_rotary_y,
    (const void *)attend_train_3,
    (const void *)kernel_train_4_ffn_norm_y_2,
    (const void *)kernel_train_5_ffn_p,
    (const void *)moec_top_of_few,
    (const void *)moec_pack_count,
    (const void *)moec_pack_begin,
    (const void *)moec_pack_fill,
    (const void *)moec_pack_count_others,
    (const void *)moec_pack_begin_others,
    (const void *)moec_pack_list,
    (const void *)rows_by_weight_exact,
    (const void *)kernel_train_6_ffn_load,
    (const void *)kernel_train_7_ffn_y,
    (const void *)product_train_8,
    (const void *)kernel_train_9_balance,
    (const void *)kernel_train_10_final_norm_y_2,
    (const void *)kernel_train_11_d_sum_of_powers,
    (const void *)kernel_train_12_d_logits,
    (const void *)kernel_train_13_d_balance_3,
    (const void *)kernel_train_14_ffn_weight_again,
    (const void *)product_train_15,
    (const void *)rows_by_rows_exact,
    (const void *)kernel_train_16_d_ffn_weight,
    (const void *)kernel_train_17_ffn_norm_y_2_again,
    (const void *)kernel_train_18_d_ffn_norm_y_2,
    (const void *)kernel_train_19_d_ffn_logit,
    (const void *)kernel_train_20_d_block_ffn_norm_weight,
    (const void *)kernel_train_21_d_x_3,
    (const void *)attend_grad_query_train_22,
    (const void *)attend_grad_both_train_22,
    (const void *)kernel_train_23_d_attention_q,
    (const void *)kernel_train_24_d_balance_3,
    (const void *)kernel_train_25_d_embedding,
    (const void *)update_step,
};
}
