/* plain: the functions of calls.h in C99 for freestanding programs: one thread, no vectors, no
 * memory but a few small arrays. One token at a time: products have few rows and are bound by the
 * reading of the weights.
 *
 * Sums have a fixed order, so that results are the same on every machine whose compiler evaluates
 * floats as such and does not contract products and sums (FLT_EVAL_METHOD 0). */
#ifndef MOEC_PLAIN_H
#define MOEC_PLAIN_H

#include "calls.h"

/* Numbers that are converted at a time. */
enum { MOEC_PART = 64 };

static inline long moec_part(long size, long from) {
    return size - from < MOEC_PART ? size - from : MOEC_PART;
}

/* `count` adjacent numbers from element `at` on, at most MOEC_PART. All but floats are converted to
 * `room`. */
static const float *moec_numbers(const void *data, long at, long count, MoecType type,
                                 float *room) {
    if (type == MOEC_F32) return (const float *)data + at;
    if (type == MOEC_BF16) {
        const MoecBf16 *from = (const MoecBf16 *)data + at;
        for (long i = 0; i < count; i++) room[i] = moec_load(from[i]);
    } else if (type == MOEC_BYTE) {
        const signed char *from = (const signed char *)data + at;
        for (long i = 0; i < count; i++) room[i] = (float)from[i];
    } else {
        const MoecGroup *groups = (const MoecGroup *)data;
        for (long i = 0; i < count; i++) {
            const MoecGroup *group = &groups[(at + i) / MOEC_GROUP];
            room[i] = group->scale * (float)group->steps[(at + i) % MOEC_GROUP];
        }
    }
    return room;
}

static float moec_number(const void *data, long at, MoecType type) {
    float room[1];
    return moec_numbers(data, at, 1, type, room)[0];
}

/* Stores `count` numbers. */
static void moec_put(void *data, long at, long count, MoecType type, const float *from) {
    if (type == MOEC_BF16)
        for (long i = 0; i < count; i++) ((MoecBf16 *)data)[at + i] = moec_bf16(from[i]);
    else
        for (long i = 0; i < count; i++) ((float *)data)[at + i] = from[i];
}

/* The sum of products, in eight parts. */
static float moec_dot(const float *a, const float *b, long count) {
    float sum[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}, rest = 0.0f;
    long i = 0;
    for (; i + 8 <= count; i += 8)
        for (int j = 0; j < 8; j++) sum[j] += a[i + j] * b[i + j];
    for (; i < count; i++) rest += a[i] * b[i];
    return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7])) + rest;
}

/* ---- products ---- */

/* One row: c[n] (+)= sum over k of a[k] * b[k,n]. Indices of elements; strides by k and n. */
typedef struct MoecRowProduct {
    const void *a, *b;
    void *c;
    long a_at, b_at, c_at, a_k, b_k, b_n, n, k;
    MoecType a_type, b_type, c_type;
    int accumulate;
} MoecRowProduct;

/* Columns from `first` on, b by rows of k: four rows of floats at a time. Of other types at most
 * MOEC_PART columns. */
static void moec_sum_rows(const MoecRowProduct *p, long first, long count, float *restrict sum) {
    float room[MOEC_PART];
    long k = 0;
    for (; p->b_type == MOEC_F32 && k + 4 <= p->k; k += 4) {
        const float *b0 = (const float *)p->b + p->b_at + k * p->b_k + first, *b1 = b0 + p->b_k;
        const float *b2 = b1 + p->b_k, *b3 = b2 + p->b_k;
        const float a0 = moec_number(p->a, p->a_at + k * p->a_k, p->a_type);
        const float a1 = moec_number(p->a, p->a_at + (k + 1) * p->a_k, p->a_type);
        const float a2 = moec_number(p->a, p->a_at + (k + 2) * p->a_k, p->a_type);
        const float a3 = moec_number(p->a, p->a_at + (k + 3) * p->a_k, p->a_type);
        for (long i = 0; i < count; i++)
            sum[i] += (a0 * b0[i] + a1 * b1[i]) + (a2 * b2[i] + a3 * b3[i]);
    }
    for (; k < p->k; k++) {
        const float a = moec_number(p->a, p->a_at + k * p->a_k, p->a_type);
        const float *b = moec_numbers(p->b, p->b_at + k * p->b_k + first, count, p->b_type, room);
        for (long i = 0; i < count; i++) sum[i] += a * b[i];
    }
}

/* The same, b by columns: of adjacent k. */
static void moec_sum_columns(const MoecRowProduct *p, long first, long count, float *sum) {
    float a_room[MOEC_PART], b_room[MOEC_PART];
    for (long k = 0; k < p->k; k += MOEC_PART) {
        const long part = moec_part(p->k, k);
        const float *a = a_room;
        if (p->a_k == 1)
            a = moec_numbers(p->a, p->a_at + k, part, p->a_type, a_room);
        else
            for (long j = 0; j < part; j++)
                a_room[j] = moec_number(p->a, p->a_at + (k + j) * p->a_k, p->a_type);
        for (long i = 0; i < count; i++) {
            const long at = p->b_at + (first + i) * p->b_n + k;
            sum[i] += moec_dot(a, moec_numbers(p->b, at, part, p->b_type, b_room), part);
        }
    }
}

/* Terms of a column that share a scale in a panel; 0: the type has no panels. */
static long moec_scale_terms(MoecType type) {
    switch (type) {
    case MOEC_INT4:
    case MOEC_FP8:
    case MOEC_MXFP8:
    case MOEC_MXFP4:
        return MOEC_PANEL_DEPTH;
    case MOEC_NVFP4:
        return MOEC_PANEL_DEPTH / 2;
    case MOEC_TERNARY:
        return MOEC_TERNARY_DEPTH;
    default:
        return 0;
    }
}

static uint32_t moec_four_bits(const uint32_t (*words)[MOEC_PANEL], long j, long i) {
    return words[j / 8][i] >> j % 8 * 4 & 15u;
}

/* The numbers of column i of part `part`, whose terms share a scale; returns the scale. */
static float moec_part_numbers(const void *parts, long part, long i, MoecType type, float *number) {
    if (type == MOEC_INT4) {
        const MoecInt4 *from = (const MoecInt4 *)parts + part;
        for (long j = 0; j < MOEC_PANEL_DEPTH; j++)
            number[j] = (float)((int32_t)moec_four_bits(from->steps, j, i) - 8);
        return moec_from_half(from->scale[i]);
    }
    if (type == MOEC_TERNARY) {
        const MoecTernary *from = (const MoecTernary *)parts + part;
        for (int j = 0; j < MOEC_TERNARY_DEPTH; j++)
            number[j] = (float)((int32_t)(from->steps[j / 16][i] >> MOEC_TERNARY_BIT(j) & 3u) - 1);
        return from->scale[i];
    }
    if (type == MOEC_MXFP4) {
        const MoecMxfp4 *from = (const MoecMxfp4 *)parts + part;
        for (long j = 0; j < MOEC_PANEL_DEPTH; j++)
            number[j] = moec_from_e2m1(moec_four_bits(from->codes, j, i));
        return moec_from_exponent(from->scale[i]);
    }
    if (type == MOEC_NVFP4) {
        const MoecNvfp4 *from = (const MoecNvfp4 *)parts + part / 2;
        const long half = part % 2, terms = MOEC_PANEL_DEPTH / 2;
        for (long j = 0; j < terms; j++)
            number[j] = moec_from_e2m1(moec_four_bits(from->codes, half * terms + j, i));
        return moec_from_exponent(from->scale[i]) * moec_from_e4m3(from->factor[half][i]);
    }
    const MoecFp8 *from = (const MoecFp8 *)parts + part;
    for (int j = 0; j < MOEC_PANEL_DEPTH; j++) number[j] = moec_from_e4m3(from->codes[j][i]);
    return moec_from_exponent(from->scale[i]);
}

/* Columns of a panel from `first` on, each with the sum of a part at a time. */
static void moec_sum_panel(const MoecRowProduct *p, long first, long count, float *sum) {
    float a_room[MOEC_PART], number[MOEC_PART];
    const long deep = moec_scale_terms(p->b_type);
    long part = (p->b_at + first * p->k) / (MOEC_PANEL * deep);
    for (long k = 0; k < p->k; k += deep, part++) {
        const float *a = a_room;
        if (p->a_k == 1)
            a = moec_numbers(p->a, p->a_at + k, deep, p->a_type, a_room);
        else
            for (long j = 0; j < deep; j++)
                a_room[j] = moec_number(p->a, p->a_at + (k + j) * p->a_k, p->a_type);
        for (long i = 0; i < count; i++) {
            const float scale = moec_part_numbers(p->b, part, i, p->b_type, number);
            sum[i] += scale * moec_dot(a, number, deep);
        }
    }
}

static void moec_row_multiply(const MoecRowProduct *p) {
    float sum[MOEC_PART];
    if (p->b_n == 1 && p->b_type == MOEC_F32 && p->c_type == MOEC_F32) { /* whole rows */
        float *c = (float *)p->c + p->c_at;
        for (long i = 0; i < p->n && !p->accumulate; i++) c[i] = 0.0f;
        moec_sum_rows(p, 0, p->n, c);
        return;
    }
    const long most = moec_scale_terms(p->b_type) ? MOEC_PANEL : MOEC_PART;
    for (long n = 0; n < p->n; n += most) {
        const long count = p->n - n < most ? p->n - n : most;
        for (long i = 0; i < count; i++)
            sum[i] = p->accumulate ? moec_number(p->c, p->c_at + n + i, p->c_type) : 0.0f;
        if (moec_scale_terms(p->b_type))
            moec_sum_panel(p, n, count, sum);
        else if (p->b_n == 1)
            moec_sum_rows(p, n, count, sum);
        else
            moec_sum_columns(p, n, count, sum);
        moec_put(p->c, p->c_at + n, count, p->c_type, sum);
    }
}

/* A dense product, see MoecProduct. */
static void moec_multiply(const MoecProduct *product, const void *a, const void *b, void *c) {
    MoecRowProduct row = {.a = a,
                          .b = b,
                          .c = c,
                          .a_k = product->a_k,
                          .b_k = product->b_k,
                          .b_n = product->b_n,
                          .n = product->n,
                          .k = product->k,
                          .a_type = product->a_type,
                          .b_type = product->b_type,
                          .c_type = product->c_type,
                          .accumulate = product->accumulate};
    for (long i = 0; i < product->batch[0]; i++) {
        for (long j = 0; j < product->batch[1]; j++) {
            row.b_at = i * product->b_batch[0] + j * product->b_batch[1];
            for (long m = 0; m < product->m; m++) {
                row.a_at = i * product->a_batch[0] + j * product->a_batch[1] + m * product->a_m;
                row.c_at = i * product->c_batch[0] + j * product->c_batch[1] + m * product->c_m;
                moec_row_multiply(&row);
            }
        }
    }
}

/* Rows of each group times the weight of the group. Programs that decode have no other kind. */
static void moec_grouped_product(const MoecGrouped *grouped, const MoecRows *rows, const void *a,
                                 const void *b, void *c) {
    MoecRowProduct row = {.a = a,
                          .b = b,
                          .c = c,
                          .a_k = 1,
                          .b_k = grouped->b_k,
                          .b_n = grouped->b_n,
                          .n = grouped->n,
                          .k = grouped->k,
                          .a_type = grouped->a_type,
                          .b_type = grouped->b_type,
                          .c_type = grouped->c_type,
                          .accumulate = grouped->accumulate};
    for (long g = 0; g < grouped->groups; g++) {
        row.b_at = g * grouped->b_group;
        for (long r = rows->group[g]; r < rows->group[g + 1]; r++) {
            row.a_at = (rows->a_gather != NULL ? rows->a_gather[r] : r) * grouped->a_row;
            row.c_at = r * grouped->c_row;
            moec_row_multiply(&row);
        }
    }
}

/* ---- attention of one token over a cache ---- */

/* One head: its elements in q, k, v and o, and the strides between keys. */
typedef struct MoecHeadStep {
    const MoecAttend *attend;
    const MoecAttendWork *work;
    long q_at, k_at, v_at, o_at, k_step, v_step, key_head, value_head;
} MoecHeadStep;

/* The scaled and capped product of the query and the key in row `row` of the cache. */
static float moec_step_score(const MoecHeadStep *head, long row) {
    const MoecAttend *attend = head->attend;
    float q_room[MOEC_PART], k_room[MOEC_PART], sum = 0.0f;
    const long key = head->k_at + row * head->k_step;
    for (long c = 0; c < attend->width; c += MOEC_PART) {
        const long part = moec_part(attend->width, c);
        sum += moec_dot(moec_numbers(head->work->q, head->q_at + c, part, attend->q_type, q_room),
                        moec_numbers(head->work->k, key + c, part, attend->k_type, k_room), part);
    }
    if (head->work->k_scale != NULL)
        sum *= head->work->k_scale[row * attend->key_heads + head->key_head];
    sum *= attend->scale;
    return attend->cap == 0.0f ? sum : attend->cap * moec_tanh(sum / attend->cap);
}

/* output += weight * v of a row, from value `first` on. */
static void moec_step_add(const MoecHeadStep *head, long row, long first, long count, float weight,
                          float *output) {
    const long at = head->v_at + row * head->v_step + first;
    float room[MOEC_PART];
    for (long c = 0; c < count; c += MOEC_PART) {
        const long part = moec_part(count, c);
        const float *v = moec_numbers(head->work->v, at + c, part, head->attend->v_type, room);
        for (long i = 0; i < part; i++) output[c + i] += weight * v[i];
    }
}

/* True if head h attends to the key of this position; one sequence and query, see
 * attention_chosen.h. */
static int moec_step_sees(const MoecAttend *attend, const MoecAttendWork *work, long h, long key) {
    if (work->chosen == NULL) return 1;
    const long *block = attend->chosen_block, keys = (attend->places + block[2] - 1) / block[2];
    return work->chosen[h / block[1] * keys + key / block[2]] != 0.0f;
}

/* Values of the output from `value` on: sums over the keys `first` to `end` with a running
 * maximum. */
static void moec_step_values(const MoecHeadStep *head, long first, long end, long value, long count,
                             float *output) {
    const MoecAttend *attend = head->attend;
    const MoecAttendWork *work = head->work;
    const long h = head->o_at / attend->value_width;
    float largest = work->sink != NULL ? work->sink[h] : -3.402823466e+38f;
    float sum = work->sink != NULL ? 1.0f : 0.0f;
    for (long i = 0; i < count; i++) output[i] = 0.0f;
    for (long key = first; key < end; key++) {
        if (work->documents != NULL && work->documents[key] != work->documents[end - 1]) continue;
        if (!moec_step_sees(attend, work, h, key)) continue;
        const long row = attend->mask == MOEC_MASK_WINDOW ? key % attend->keys : key;
        const float score = moec_step_score(head, row);
        if (score > largest) {
            const float fade = moec_exp(largest - score);
            for (long i = 0; i < count; i++) output[i] *= fade;
            sum *= fade;
            largest = score;
        }
        float weight = moec_exp(score - largest);
        sum += weight;
        if (work->v_scale != NULL)
            weight *= work->v_scale[row * attend->value_heads + head->value_head];
        moec_step_add(head, row, value, count, weight, output);
    }
    for (long i = 0; i < count && sum > 0.0f; i++) output[i] = output[i] / sum;
    work->lse[h] = sum > 0.0f ? largest + moec_log(sum) : MOEC_NO_KEY;
}

/* An output that is not of floats is computed in parts. */
static void moec_step_head(const MoecHeadStep *head, long first, long end) {
    const MoecAttend *attend = head->attend;
    float room[MOEC_PART];
    if (attend->o_type == MOEC_F32) {
        float *output = (float *)head->work->o + head->o_at;
        moec_step_values(head, first, end, 0, attend->value_width, output);
        return;
    }
    for (long c = 0; c < attend->value_width; c += MOEC_PART) {
        const long part = moec_part(attend->value_width, c);
        moec_step_values(head, first, end, c, part, room);
        moec_put(head->work->o, head->o_at + c, part, attend->o_type, room);
    }
}

/* One sequence, one query: see calls.h. */
static void moec_attend_step(const MoecAttend *options, long position, const MoecAttendWork *work) {
    const long seen = options->mask == MOEC_MASK_WINDOW ? position - options->window + 1 : 0;
    const long end = position + 1 < options->places ? position + 1 : options->places;
    MoecHeadStep head = {.attend = options, .work = work};
    head.k_step = options->key_heads * options->width;
    head.v_step = options->value_heads * options->value_width;
    for (long h = 0; h < options->heads; h++) {
        head.key_head = h * options->key_heads / options->heads;
        head.value_head = h * options->value_heads / options->heads;
        head.q_at = h * options->width;
        head.k_at = head.key_head * options->width;
        head.v_at = head.value_head * options->value_width;
        head.o_at = h * options->value_width;
        moec_step_head(&head, seen > 0 ? seen : 0, end);
    }
}

/* ---- choices, memory ---- */

/* How many of the values have at least that order. */
static long moec_count_from(long size, long stride, const float *p, uint32_t order) {
    long count = 0;
    for (long i = 0; i < size; i++) count += moec_order(p[i * stride]) >= order;
    return count;
}

/* All values above the k-th largest, whose order is found bit by bit, and the first of those equal
 * to it. */
static void moec_top_of(long size, long stride, long k, const float *p, float *mask) {
    uint32_t least = 0;
    for (int bit = 31; bit >= 0; bit--)
        if (moec_count_from(size, stride, p, least | (uint32_t)1 << bit) >= k)
            least |= (uint32_t)1 << bit;
    long equal = least < UINT32_MAX ? k - moec_count_from(size, stride, p, least + 1) : k;
    for (long i = 0; i < size; i++) {
        const uint32_t order = moec_order(p[i * stride]);
        const int chosen = order > least || (order == least && equal > 0);
        if (order == least && chosen) equal--;
        mask[i * stride] = chosen ? 1.0f : 0.0f;
    }
}

static void moec_top(long outer, long size, long inner, long k, const float *p, float *mask) {
    for (long choice = 0; choice < outer * inner; choice++) {
        const long first = choice / inner * size * inner + choice % inner;
        moec_top_of(size, inner, k, p + first, mask + first);
    }
}

static void moec_clear(void *memory, size_t bytes) {
    unsigned char *byte = (unsigned char *)memory;
    for (size_t i = 0; i < bytes; i++) byte[i] = 0;
}

#endif
