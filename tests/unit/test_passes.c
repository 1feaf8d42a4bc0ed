/* The table of passes: every row finds the properties that it needs, and wrong orders are found. */
#include "driver/driver.h"
#include "module/lowered.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_ROWS = 64 };

/* The first row whose needs are not met in a run of the whole table, for any graph and machine; NULL: there is none. */
static const char *fault_of(const PassRow *rows, int count) {
    for (int graph = GRAPH_FORWARD; graph <= GRAPH_REFINE; graph++)
        for (int machine = ANY; machine <= DEVICE; machine++) {
            unsigned properties = 0;
            for (int i = 0; i < count; i++) {
                const PassRow *row = &rows[i];
                if (!(row->graphs & 1 << graph) || (row->machine && (int)row->machine != machine)) continue;
                if (pass_missing(rows, count, row, graph, machine, properties)) return row->name;
                properties = (properties & ~row->breaks) | row->leaves;
            }
        }
    return NULL;
}

static int row_of(const PassRow *rows, int count, const char *name) {
    int row = 0;
    while (row < count && strcmp(rows[row].name, name) != 0) row++;
    assert_true(row < count);
    return row;
}

/* The table with row `name` moved before row `before`. */
static const char *fault_if_moved(const char *name, const char *before) {
    PassRow moved[MAX_ROWS];
    int count, next = 0;
    const PassRow *rows = pass_rows(&count);
    const int row = row_of(rows, count, name), place = row_of(rows, count, before);
    assert_true(count <= MAX_ROWS);
    for (int i = 0; i < count; i++) {
        if (i == place) moved[next++] = rows[row];
        if (i != row) moved[next++] = rows[i];
    }
    return fault_of(moved, count);
}

static void test_order(void **state) {
    (void)state;
    int count;
    const PassRow *rows = pass_rows(&count);
    assert_null(fault_of(rows, count));
}

/* name, moved before a row: the row that finds it. */
static void test_wrong_orders(void **state) {
    (void)state;
    static const char *const moves[][3] = {{"gradient", "chunk_scan", "chunk_scan"},
                                           {"tables", "decode", "tables"},
                                           {"simplify", "tables", "simplify"},
                                           {"route", "simplify", "route"},
                                           {"products", "gather_fusion", "products"},
                                           {"strip_mine", "products", "strip_mine"},
                                           {"storage", "precision", "storage"},
                                           {"pad", "storage", "pad"},
                                           {"plan", "fuse", "plan"},
                                           {"map", "plan", "map"},
                                           {"licm", "owners", "licm"},
                                           {"blocks", "vectors", "blocks"},
                                           {"guards", "vectors", "guards"},
                                           {"barriers", "shared", "barriers"},
                                           {"names", "barriers", "names"},
                                           {"emit", "names", "emit"}};
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
        const char *fault = fault_if_moved(moves[i][0], moves[i][1]);
        if (!fault) fail_msg("%s before %s is not found", moves[i][0], moves[i][1]);
        assert_string_equal(fault, moves[i][2]);
    }
}

/* The driver itself refuses a program without a property. */
static void test_refused(void **state) {
    (void)state;
    int count;
    const PassRow *rows = pass_rows(&count);
    const PassRow *plan = &rows[row_of(rows, count, "plan")];
    assert_int_equal(pass_missing(rows, count, plan, GRAPH_TRAIN, ANY, ~0u & ~IS_SCHEDULED), IS_SCHEDULED);
    assert_int_equal(pass_missing(rows, count, plan, GRAPH_TRAIN, ANY, IS_SCHEDULED), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order), cmocka_unit_test(test_wrong_orders),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
