/* Numbers with units: digits, prefixes, rounding at the edges, scales of columns and lines. */
#include "abi/quantity.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_units(void **state) {
    (void)state;
    assert_string_equal(quantity(74343936, "B").text, "74.3 MB");
    assert_string_equal(quantity(0, "B").text, "0 B");
    assert_string_equal(quantity(128, "B").text, "128 B");
    assert_string_equal(quantity(999.4, "B").text, "999 B");
    assert_string_equal(quantity(999.6, "B").text, "1.00 kB");
    assert_string_equal(quantity(9.996e6, "B/s").text, "10.0 MB/s");
    assert_string_equal(quantity(99.96e9, "FLOP").text, "100 GFLOP");
    assert_string_equal(quantity(0.0421, "FLOP").text, "0.0421 FLOP");
    assert_string_equal(quantity(-4.06e6, "FLOP/token").text, "-4.06 MFLOP/token");
    assert_string_equal(quantity(NAN, "B").text, "-");
    assert_string_equal(quantity_count(7242e6).text, "7.24 B");
    assert_string_equal(quantity_count(512).text, "512");
    assert_string_equal(quantity_grouped(17959.6, 0).text, "17,960");
    assert_string_equal(quantity_grouped(-1179648.04, 1).text, "-1,179,648.0");
    assert_string_equal(quantity_grouped(-0.04, 1).text, "0.0");
    assert_string_equal(quantity_percent(0.118).text, "12 %");
    assert_string_equal(quantity_percent(0.0118).text, "1.2 %");
}

static void test_times(void **state) {
    (void)state;
    assert_string_equal(quantity_seconds(0.0125).text, "12.5 ms");
    assert_string_equal(quantity_seconds(0.99949).text, "999 ms");
    assert_string_equal(quantity_seconds(0.9996).text, "1.00 s");
    assert_string_equal(quantity_seconds(59.94).text, "59.9 s");
    assert_string_equal(quantity_seconds(59.96).text, "1m00s");
    assert_string_equal(quantity_seconds(200).text, "3m20s");
    assert_string_equal(quantity_seconds(3599.6).text, "1h00m");
    assert_string_equal(quantity_seconds(7500).text, "2h05m");
    assert_string_equal(quantity_whole_seconds(44.6).text, "45 s");
    assert_string_equal(quantity_whole_seconds(59.6).text, "1m00s");
    assert_string_equal(quantity_seconds(INFINITY).text, "-");
}

static void test_scales(void **state) {
    (void)state;
    QuantityScale column = quantity_column(1179648), line = quantity_line(1495680, 4);
    assert_string_equal(column.prefix, "k");
    assert_string_equal(quantity_in(1179648, column).text, "1,179.6");
    assert_string_equal(quantity_in(12, column).text, "<0.1");
    assert_string_equal(quantity_in(0, column).text, "0");
    assert_string_equal(quantity_in(1495680, line).text, "1.496");
    assert_string_equal(quantity_in(65536, line).text, "0.066");
    assert_string_equal(quantity_column(99999).prefix, "");
    assert_string_equal(quantity_in(99999, quantity_column(99999)).text, "99,999");
    assert_string_equal(quantity_counts(quantity_line(7242e6, 4)).prefix, "B");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_units), cmocka_unit_test(test_times),
                                       cmocka_unit_test(test_scales)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
