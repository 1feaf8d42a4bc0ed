/* Packed operands of products: words of panels against their definition, for every form. Compiled
 * for this CPU, as programs are; panels for AMX are tested without AMX, too. */
#include "kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static long up_to(long most) {
    return 1 + lrand48() % most;
}

static float *some_numbers(long count) {
    float *x = malloc((size_t)count * sizeof *x);
    assert_non_null(x);
    for (long i = 0; i < count; i++) x[i] = (float)drand48() - 0.5f;
    return x;
}

static int *random_indices(long count, long among) {
    int *x = malloc((size_t)count * sizeof *x);
    assert_non_null(x);
    for (long i = 0; i < count; i++) x[i] = (int)(lrand48() % among);
    return x;
}

/* Element at depth p of lane i of packed panels. Of a pair, the even one is in the lower half. */
static float packed_number(const float *panels, long i, long p, MoecForm form, int of_a,
                           long words) {
    const long width = of_a ? moec_tile_height(form) : (long)MOEC_TILE_N, lane = i % width;
    const float *panel = panels + i / width * width * words;
    if (form == MOEC_FLOATS) return panel[p * width + lane];
    const int by_lanes = of_a && form == MOEC_PAIRS_AMX;
    const uint32_t pair =
        moec_bits(by_lanes ? panel[lane * words + p / 2] : panel[p / 2 * width + lane]);
    return moec_from_bits(p % 2 ? pair & 0xFFFF0000u : pair << 16);
}

static float operand_number(const MoecOperand *x, long i, long p, MoecForm form) {
    const float number = moec_element_value(x, i, p);
    return form == MOEC_FLOATS ? number : moec_load(moec_bf16(number));
}

/* The padding of the lanes, and of the depth to whole words, is zero. */
static void check_panels(const MoecOperand *x, long lanes, long depth, MoecForm form, int of_a) {
    const long words = moec_words(form, depth), deep = form == MOEC_FLOATS ? words : 2 * words,
               width = of_a ? moec_tile_height(form) : (long)MOEC_TILE_N,
               all = moec_ceil_div(lanes, width) * width;
    float *panels = some_numbers(all * words + MOEC_LANES);
    moec_pack_panels(x, lanes, lanes, depth, form, of_a, panels);
    for (long i = 0; i < all; i++)
        for (long p = 0; p < deep; p++) {
            const float right = i < lanes && p < depth ? operand_number(x, i, p, form) : 0.0f;
            assert_true(packed_number(panels, i, p, form, of_a, words) == right);
        }
    free(panels);
}

/* By lanes or by words, with or without an index table, for every supported form. */
static void panels_hold_operands(void **state) {
    (void)state;
    for (int run = 0; run < 200; run++) {
        const long lanes = up_to(run % 3 ? 20 : 90), depth = up_to(run % 4 ? 40 : 150);
        const int by_lanes = run % 2, table = run / 2 % 2, short_type = run / 4 % 2;
        const long side = lanes + depth + 7;
        float *numbers = some_numbers(side * side);
        for (long i = 0; i < side * side && short_type; i++)
            ((MoecBf16 *)(void *)numbers)[i] = moec_bf16(numbers[i]);
        int *gather = random_indices(by_lanes ? lanes : depth, side);
        const MoecOperand x = {numbers,
                               by_lanes ? side : 1,
                               by_lanes ? 1 : side,
                               table && by_lanes ? gather : NULL,
                               table && !by_lanes ? gather : NULL,
                               short_type ? MOEC_BF16 : MOEC_F32};
        const MoecForm last = MOEC_HAS_PAIRS ? MOEC_PAIRS_AMX : MOEC_FLOATS;
        for (int form = MOEC_FLOATS; form <= (int)last; form++)
            for (int of_a = 0; of_a < 2; of_a++)
                check_panels(&x, lanes, depth, (MoecForm)form, of_a);
        free(numbers), free(gather);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(panels_hold_operands)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
