/* comparison_print: a comparison as text, Markdown and CSV. */
#include "tools/experiment/experiment.h"

#include "abi/json_make.h"
#include "abi/quantity.h"
#include "abi/utf8_cut.h"
#include "base/memory.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_COLUMNS = 12, CELL = 224 };

/* A table of short texts. The first column and those from `words` on are aligned on the left. */
typedef struct Cells {
    int columns, rows, words;
    char (*text)[MAX_COLUMNS][CELL]; /* [row][column]; row 0 is the head */
} Cells;

static const char *field_text(const json_t *object, const char *name) {
    const char *text = json_field_text(object, name);
    return text ? text : "";
}

static Cells cells_new(int rows, int columns, int words, const char *const *head) {
    Cells cells = {columns, rows + 1, words, NULL};
    cells.text = memory_new((size_t)(rows + 1) * sizeof *cells.text);
    for (int i = 0; i < columns; i++) snprintf(cells.text[0][i], CELL, "%s", head[i]);
    return cells;
}

static void fixed(char cell[CELL], const char *format, double number) {
    if (isfinite(number))
        snprintf(cell, CELL, format, number);
    else
        snprintf(cell, CELL, "-");
}

static void drop_column(Cells *cells, int column) {
    for (int i = 0; i < cells->rows; i++)
        memmove(cells->text[i][column], cells->text[i][column + 1],
                (size_t)(cells->columns - column - 1) * CELL);
    cells->columns--;
    cells->words--;
}

static bool is_empty_column(const Cells *cells, int column) {
    for (int i = 1; i < cells->rows; i++)
        if (strcmp(cells->text[i][column], "-") != 0) return false;
    return true;
}

static const char *metric_words(const char *metric) {
    static const char *const words[][2] = {{"val_bits_per_byte", "val bits/byte"},
                                           {"val_bits_per_token", "val bits/token"},
                                           {"val_loss", "val loss"},
                                           {"loss", "train loss"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(metric, words[i][0]) == 0) return words[i][1];
    return metric;
}

/* ---- the three tables ---- */

/* "3"; "2 of 3" if one diverged or is unfinished. */
static void print_seeds(char cell[CELL], const json_t *row) {
    int finished = (int)json_field_number(row, "finished"),
        diverged = (int)json_field_number(row, "diverged"),
        all = finished + diverged + (int)json_field_number(row, "unfinished");
    if (finished == all)
        snprintf(cell, CELL, "%d", all);
    else
        snprintf(cell, CELL, "%d of %d", finished, all);
}

/* "-0.0900 [-0.1148, -0.0652]" */
static void print_difference(char cell[CELL], const json_t *difference) {
    double mean = json_field_number(difference, "mean"), low = json_field_number(difference, "low"),
           high = json_field_number(difference, "high");
    int at = 0;
    fixed(cell, "%+.4f", mean);
    at = (int)strlen(cell);
    if (isfinite(mean) && isfinite(low))
        snprintf(cell + at, (size_t)(CELL - at), " [%+.4f, %+.4f]", low, high);
}

__attribute__((format(printf, 2, 3))) static void add_text(char cell[CELL], const char *format,
                                                           ...) {
    size_t at = strlen(cell);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(cell + at, CELL - at, format, arguments);
    va_end(arguments);
}

static const char *note_gap(const char *cell) {
    return *cell ? ", " : "";
}

/* The tuned setting, halving and divergence. */
static void print_notes(char cell[CELL], const json_t *row) {
    const char *tuned = field_text(row, "tuned");
    int diverged = (int)json_field_number(row, "diverged");
    if (*tuned) add_text(cell, "%s%s", note_gap(cell), tuned);
    if (json_is_true(json_object_get(row, "best")))
        add_text(cell, "%sbest of %d", note_gap(cell), (int)json_field_number(row, "choices"));
    if (json_is_true(json_object_get(row, "at_edge")))
        add_text(cell, "%sat the edge of the tested values", note_gap(cell));
    if (isfinite(json_field_number(row, "stopped")))
        add_text(cell, "%sstopped at step %.0f by halving", note_gap(cell),
                 json_field_number(row, "stopped"));
    if (diverged)
        add_text(cell, "%s%d of %d diverged", note_gap(cell), diverged,
                 diverged + (int)json_field_number(row, "finished") +
                     (int)json_field_number(row, "unfinished"));
}

static void print_chance(char cell[CELL], double p) {
    fixed(cell, p < 0.0005 ? "<0.001" : "%.3f", p);
}

static bool is_corrected(const json_t *comparison) {
    return json_field_number(comparison, "comparisons") > 1 &&
           strcmp(field_text(comparison, "correction"), correction_name(CORRECTION_NONE)) != 0;
}

static Cells losses(const json_t *comparison) {
    const json_t *rows = json_object_get(comparison, "variants");
    const char *head[] = {"variant",
                          "seeds",
                          metric_words(field_text(comparison, "metric")),
                          "std",
                          "val loss",
                          "train loss",
                          "difference (95 % CI)",
                          "p",
                          "adjusted p",
                          "seeds needed",
                          "verdict",
                          "notes"};
    enum { NOTES = 11 };
    Cells cells = cells_new((int)json_array_size(rows), NOTES + 1, NOTES - 1, head);
    bool noted = false;
    for (int i = 1; i < cells.rows; i++) {
        const json_t *row = json_array_get(rows, (size_t)i - 1),
                     *difference = json_object_get(row, "difference");
        char(*cell)[CELL] = cells.text[i];
        snprintf(cell[0], CELL, "%s", field_text(row, "variant"));
        print_seeds(cell[1], row);
        fixed(cell[2], "%.4f", json_field_number(row, "loss"));
        fixed(cell[3], "%.4f", json_field_number(row, "spread"));
        fixed(cell[4], "%.4f", json_field_number(row, "nats"));
        fixed(cell[5], "%.4f", json_field_number(row, "train_loss"));
        print_difference(cell[6], difference);
        print_chance(cell[7], json_field_number(difference, "chance"));
        print_chance(cell[8], json_field_number(difference, "adjusted"));
        fixed(cell[9], "%.0f", json_field_number(difference, "seeds_needed"));
        snprintf(cell[NOTES - 1], CELL, "%s",
                 difference ? field_text(difference, "verdict") : "baseline");
        print_notes(cell[NOTES], row);
        noted |= *cell[NOTES] != '\0';
    }
    if (!noted) cells.columns--;
    if (!json_object_get(comparison, "detect")) drop_column(&cells, 9);
    if (!is_corrected(comparison)) drop_column(&cells, 8);
    for (int k = 5; k >= 4; k--)
        if (!strcmp(head[k], head[2]) || is_empty_column(&cells, k)) drop_column(&cells, k);
    return cells;
}

/* A column of costs: the name of the number and its unit, NULL for counts. */
typedef struct CostColumn {
    const char *head, *name, *unit;
} CostColumn;

/* One unit for the whole column, in the head: "MFLOP/token". */
static void fill_cost_column(Cells *cells, int column, const json_t *rows, const CostColumn *cost) {
    double largest = 0;
    for (int i = 1; i < cells->rows; i++) {
        double number = json_field_number(json_array_get(rows, (size_t)i - 1), cost->name);
        if (number > largest) largest = number;
    }
    QuantityScale scale = quantity_column(largest);
    if (cost->unit)
        snprintf(cells->text[0][column], CELL, "%s%s%s", cost->head, scale.prefix, cost->unit);
    for (int i = 1; i < cells->rows; i++) {
        double number = json_field_number(json_array_get(rows, (size_t)i - 1), cost->name);
        Quantity text = cost->unit ? quantity_in(number, scale)
                                   : quantity_prefixed(number, quantity_counts(scale));
        snprintf(cells->text[i][column], CELL, "%s", isfinite(number) ? text.text : "-");
    }
}

/* "412 of 600" */
static void print_steps_to_base(char cell[CELL], const json_t *row) {
    const double reached = json_field_number(row, "steps_to_base"),
                 steps = json_field_number(row, "steps");
    fixed(cell, "%.0f", reached);
    if (isfinite(reached) && isfinite(steps)) add_text(cell, " of %.0f", steps);
}

static Cells costs(const json_t *comparison) {
    static const CostColumn columns[] = {
        {"parameters", "parameters", NULL}, {"activated", "active", NULL},
        {"", "flops", "FLOP/token"},        {"KV cache ", "cache", "B/token"},
        {"tokens", "tokens", NULL},         {"training ", "flops_total", "FLOP"}};
    enum { COUNT = sizeof columns / sizeof *columns };
    const char *head[COUNT + 4] = {"variant"};
    for (int k = 0; k < COUNT; k++) head[k + 1] = columns[k].head;
    head[COUNT + 1] = "tokens/s";
    head[COUNT + 2] = "time";
    head[COUNT + 3] = "steps to baseline's loss";
    const json_t *rows = json_object_get(comparison, "variants");
    Cells cells = cells_new((int)json_array_size(rows), COUNT + 4, COUNT + 4, head);
    for (int k = 0; k < COUNT; k++) fill_cost_column(&cells, k + 1, rows, &columns[k]);
    for (int i = 1; i < cells.rows; i++) {
        const json_t *row = json_array_get(rows, (size_t)i - 1);
        snprintf(cells.text[i][0], CELL, "%s", field_text(row, "variant"));
        snprintf(cells.text[i][COUNT + 1], CELL, "%s",
                 quantity_grouped(json_field_number(row, "speed"), 0).text);
        snprintf(cells.text[i][COUNT + 2], CELL, "%s",
                 quantity_seconds(json_field_number(row, "seconds")).text);
        print_steps_to_base(cells.text[i][COUNT + 3], row);
    }
    for (int k = cells.columns - 1; k > 0; k--)
        if (is_empty_column(&cells, k)) drop_column(&cells, k);
    if (cells.columns > 1) return cells;
    free(cells.text);
    return (Cells){0};
}

/* Names of the probes of all variants, as many as fit. */
static int probe_names(const json_t *rows, const char **names) {
    int count = 1;
    const char *name;
    json_t *row, *value;
    size_t number;
    names[0] = "variant";
    json_array_foreach(rows, number, row) {
        json_object_foreach(json_object_get(row, "probes"), name, value) {
            int at = 1;
            while (at < count && strcmp(names[at], name) != 0) at++;
            if (at == count && count < MAX_COLUMNS) names[count++] = name;
        }
    }
    return count;
}

static Cells probes(const json_t *comparison) {
    const json_t *rows = json_object_get(comparison, "variants");
    const char *names[MAX_COLUMNS];
    int count = probe_names(rows, names);
    if (count == 1) return (Cells){0};
    Cells cells = cells_new((int)json_array_size(rows), count, count, names);
    for (int i = 1; i < cells.rows; i++) {
        const json_t *row = json_array_get(rows, (size_t)i - 1);
        snprintf(cells.text[i][0], CELL, "%s", field_text(row, "variant"));
        for (int k = 1; k < count; k++)
            fixed(cells.text[i][k], "%.4g",
                  json_field_number(json_object_get(row, "probes"), names[k]));
    }
    return cells;
}

/* ---- effects of a grid ---- */

static Cells variances(const json_t *effects) {
    const json_t *rows = json_object_get(effects, "variance");
    static const char *const head[] = {"effect", "df", "F", "p", "adjusted p"};
    if (!rows) return (Cells){0};
    Cells cells = cells_new((int)json_array_size(rows), 5, 5, head);
    for (int i = 1; i < cells.rows; i++) {
        const json_t *row = json_array_get(rows, (size_t)i - 1);
        snprintf(cells.text[i][0], CELL, "%s", field_text(row, "effect"));
        fixed(cells.text[i][1], "%.0f", json_field_number(row, "freedom"));
        fixed(cells.text[i][2], "%.2f", json_field_number(row, "f"));
        print_chance(cells.text[i][3], json_field_number(row, "chance"));
        print_chance(cells.text[i][4], json_field_number(row, "adjusted"));
    }
    return cells;
}

static Cells level_effects(const json_t *effects) {
    const json_t *rows = json_object_get(effects, "levels");
    static const char *const head[] = {"factor", "effect (95 % CI)", "value"};
    if (!rows) return (Cells){0};
    Cells cells = cells_new((int)json_array_size(rows), 3, 2, head);
    for (int i = 1; i < cells.rows; i++) {
        const json_t *row = json_array_get(rows, (size_t)i - 1);
        snprintf(cells.text[i][0], CELL, "%s", field_text(row, "factor"));
        print_difference(cells.text[i][1], row);
        snprintf(cells.text[i][2], CELL, "%s", field_text(row, "value"));
    }
    return cells;
}

/* ---- optima of a tuned option ---- */

/* "0.0041 [0.0032, 0.0052]"; ">0.016" at an edge of the tested values. */
static void print_optimum(char cell[CELL], const json_t *row) {
    const char *edge = field_text(row, "edge");
    fixed(cell, "%.3g", json_field_number(row, "optimum"));
    if (*edge)
        snprintf(cell, CELL, *edge == 'l' ? "<%.3g" : ">%.3g", json_field_number(row, "best"));
    else if (isfinite(json_field_number(row, "low")))
        add_text(cell, " [%.3g, %.3g]", json_field_number(row, "low"),
                 json_field_number(row, "high"));
}

/* Mean losses of all tested values, then the optimum. A star marks the best value. */
static Cells optima_table(const json_t *optima) {
    const json_t *rows = json_object_get(optima, "curves"),
                 *values = json_object_get(json_array_get(rows, 0), "values");
    int tested = (int)json_array_size(values), columns = tested + 3;
    if (!optima || columns > MAX_COLUMNS) return (Cells){0};
    char numbers[MAX_COLUMNS][32];
    const char *head[MAX_COLUMNS] = {field_text(optima, "option")};
    for (int k = 0; k < tested; k++) {
        snprintf(numbers[k], sizeof *numbers, "%.6g",
                 json_number_value(json_array_get(values, (size_t)k)));
        head[k + 1] = numbers[k];
    }
    head[tested + 1] = "optimum (95 % CI)";
    head[tested + 2] = "drift in factors of two (95 % CI)";
    Cells cells = cells_new((int)json_array_size(rows), columns, tested + 1, head);
    for (int i = 1; i < cells.rows; i++) {
        const json_t *row = json_array_get(rows, (size_t)i - 1),
                     *losses = json_object_get(row, "losses");
        double best = json_field_number(row, "best");
        snprintf(cells.text[i][0], CELL, "%s", field_text(row, "structure"));
        for (int k = 0; k < tested; k++) {
            double value = json_number_value(json_array_get(values, (size_t)k));
            const json_t *loss = json_array_get(losses, (size_t)k);
            fixed(cells.text[i][k + 1], value == best ? "*%.4f" : "%.4f",
                  json_is_number(loss) ? json_number_value(loss) : NAN);
        }
        print_optimum(cells.text[i][tested + 1], row);
        print_difference(cells.text[i][tested + 2], json_object_get(row, "drift"));
    }
    return cells;
}

/* ---- curves of a ladder ---- */

/* "0.342 [0.310, 0.371]" */
static void print_interval(char cell[CELL], int digits, double value, const json_t *interval) {
    double low = json_number_value(json_array_get(interval, 0)),
           high = json_number_value(json_array_get(interval, 1));
    fixed(cell, "%.4f", value);
    if (!isfinite(value)) return;
    snprintf(cell, CELL, "%.*f", digits, value);
    if (json_is_number(json_array_get(interval, 0)))
        add_text(cell, " [%.*f, %.*f]", digits, low, digits, high);
}

static void print_crossing(char cell[CELL], const json_t *crossing) {
    double at = json_field_number(crossing, "parameters"), low = json_field_number(crossing, "low"),
           high = json_field_number(crossing, "high");
    if (!crossing) return;
    if (!isfinite(at)) {
        snprintf(cell, CELL, "none");
        return;
    }
    snprintf(cell, CELL, "%s", quantity_count(at).text);
    if (isfinite(low))
        add_text(cell, " [%s, %s]", quantity_count(low).text, quantity_count(high).text);
}

static Cells scaling_curves(const json_t *rows) {
    static const char *const head[] = {"curve",
                                       "sizes",
                                       "limit E (95 % CI)",
                                       "alpha (95 % CI)",
                                       "beta (95 % CI)",
                                       "error",
                                       "forecast (95 % CI)",
                                       "measured",
                                       "crosses at (95 % CI)"};
    if (!rows) return (Cells){0};
    Cells cells = cells_new((int)json_array_size(rows), 9, 9, head);
    for (int i = 1; i < cells.rows; i++) {
        const json_t *row = json_array_get(rows, (size_t)i - 1), *fit = json_object_get(row, "fit"),
                     *forecast = json_object_get(row, "forecast");
        char(*cell)[CELL] = cells.text[i];
        snprintf(cell[0], CELL, "%s", field_text(row, "curve"));
        snprintf(cell[1], CELL, "%zu", json_array_size(json_object_get(row, "points")));
        print_interval(cell[2], 4, json_field_number(fit, "limit"),
                       json_object_get(fit, "limit_95"));
        print_interval(cell[3], 3, json_field_number(fit, "alpha"),
                       json_object_get(fit, "alpha_95"));
        print_interval(cell[4], 3, json_field_number(fit, "beta"), json_object_get(fit, "beta_95"));
        fixed(cell[5], "%.2g %%", 100 * json_field_number(fit, "error"));
        fixed(cell[6], "%.4f", json_field_number(forecast, "loss"));
        if (isfinite(json_field_number(forecast, "low")))
            add_text(cell[6], " [%.4f, %.4f]", json_field_number(forecast, "low"),
                     json_field_number(forecast, "high"));
        fixed(cell[7], "%.4f", json_field_number(forecast, "measured"));
        if (json_is_boolean(json_object_get(forecast, "within")))
            add_text(cell[7],
                     json_is_true(json_object_get(forecast, "within")) ? ", within" : ", outside");
        snprintf(cell[8], CELL, "-");
        print_crossing(cell[8], json_object_get(row, "crossing"));
    }
    for (int k = cells.columns - 1; k > 1; k--)
        if (is_empty_column(&cells, k)) drop_column(&cells, k);
    return cells;
}

/* ---- text and Markdown ---- */

static int column_width(const Cells *cells, int column) {
    int width = 0;
    for (int i = 0; i < cells->rows; i++)
        if ((int)strlen(cells->text[i][column]) > width)
            width = (int)strlen(cells->text[i][column]);
    return width;
}

static bool is_left(const Cells *cells, int column) {
    return column == 0 || column >= cells->words;
}

static void write_cells(FILE *file, const Cells *cells) {
    for (int i = 0; i < cells->rows; i++) {
        char line[MAX_COLUMNS * CELL + 64];
        int at = 0;
        for (int k = 0; k < cells->columns; k++) {
            int width = column_width(cells, k) * (is_left(cells, k) ? -1 : 1);
            at += snprintf(line + at, sizeof line - (size_t)at, "  %*s", width, cells->text[i][k]);
        }
        while (at > 0 && line[at - 1] == ' ') at--;
        fprintf(file, "%.*s\n", at, line);
    }
}

static void write_markdown(FILE *file, const Cells *cells) {
    for (int i = 0; i < cells->rows; i++) {
        for (int k = 0; k < cells->columns; k++) fprintf(file, "| %s ", cells->text[i][k]);
        fprintf(file, "|\n");
        for (int k = 0; i == 0 && k < cells->columns; k++)
            fprintf(file, is_left(cells, k) ? "|---" : "|--:");
        if (i == 0) fprintf(file, "|\n");
    }
}

typedef void Write(FILE *file, const Cells *cells);

static void write_table(FILE *file, Write *write, Cells cells) {
    if (cells.columns) {
        write(file, &cells);
        fprintf(file, "\n");
    }
    free(cells.text);
}

static void print_test_rules(FILE *file, const json_t *comparison) {
    if (is_corrected(comparison))
        fprintf(file, "adjusted p: for %.0f comparisons, by %s. Verdicts use it at 0.05.\n",
                json_field_number(comparison, "comparisons"),
                !strcmp(field_text(comparison, "correction"), correction_name(CORRECTION_HOLM))
                    ? "Holm's method"
                    : "the method of Benjamini and Hochberg");
    if (json_object_get(comparison, "equivalence"))
        fprintf(file,
                "equivalent: the difference is within +-%g, by two one-sided tests at 0.05; not "
                "worse: by less than that.\n",
                json_field_number(comparison, "equivalence"));
    if (json_object_get(comparison, "effects"))
        fprintf(file, "F: analysis of variance of the grid with seeds as blocks. effect: mean of "
                      "the variants with the value\nless the mean of all.\n");
    if (json_object_get(comparison, "scaling"))
        fprintf(file,
                "limit, alpha, beta: fit of loss = E + A / N^alpha (+ B / D^beta) over activated "
                "parameters N and tokens D.\nerror: root mean square, relative. forecast: of the "
                "largest size, from the others, before it was trained.\ncrosses at: size at which "
                "the loss equals that of the first curve, up to 100 times the largest.\n");
    if (json_object_get(comparison, "optima"))
        fprintf(
            file,
            "optimum: of a parabola through the best value of each seed and its neighbors, over "
            "the logarithm of the\nvalue. drift: its difference from that of the first model, "
            "paired over seeds. *: best mean.\n");
    if (json_object_get(comparison, "detect"))
        fprintf(file,
                "Seeds needed: runs per variant that find a difference of %g with a probability of "
                "%.0f %%, at the\nmeasured standard deviation.\n",
                json_field_number(comparison, "detect"),
                100 * json_field_number(comparison, "power"));
}

/* The first digits of a hash. */
static const char *short_hash(char text[16], const json_t *object) {
    const char *hash = field_text(object, "hash");
    snprintf(text, 16, "%.*s", utf8_cut(hash, 12), hash);
    return text;
}

/* item: the start of a line. */
static void print_registry(FILE *file, const json_t *plan, const char *item) {
    const json_t *plans = json_object_get(plan, "plans"),
                 *aside = json_object_get(plan, "set_aside");
    char hash[16];
    if (!plan) return;
    if (*field_text(plan, "hypothesis"))
        fprintf(file, "%shypothesis: %s\n", item, field_text(plan, "hypothesis"));
    for (size_t i = 0; i < json_array_size(plans); i++) {
        const json_t *own = json_array_get(plans, i);
        double runs = json_field_number(own, "finished_runs");
        fprintf(file, "%splan %s, %s %s ", item, short_hash(hash, own),
                i ? "changed" : "registered", field_text(own, "time"));
        if (runs > 0)
            fprintf(file, "after %.0f finished run%s", runs, runs == 1 ? "" : "s");
        else
            fprintf(file, "before the first run");
        fprintf(file, i ? ": %s\n" : "\n", field_text(own, "reason"));
    }
    if (!json_is_true(json_object_get(plan, "registered")))
        fprintf(file, "%splan %s in sweep.json is not registered: the file was changed\n", item,
                short_hash(hash, plan));
    for (size_t i = 0; i < json_array_size(aside); i++)
        fprintf(file, "%s%s%s (%.0f runs)%s", i ? "" : item, i ? ", " : "no longer in the plan: ",
                field_text(json_array_get(aside, i), "variant"),
                json_field_number(json_array_get(aside, i), "finished_runs"),
                i + 1 == json_array_size(aside) ? "\n" : "");
}

static char *print(const json_t *comparison, Write *write) {
    char *text = NULL;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    if (!file) return memory_format("%s", "");
    const json_t *effects = json_object_get(comparison, "effects");
    write_table(file, write, losses(comparison));
    write_table(file, write, variances(effects));
    write_table(file, write, level_effects(effects));
    write_table(file, write, optima_table(json_object_get(comparison, "optima")));
    write_table(file, write, scaling_curves(json_object_get(comparison, "scaling")));
    write_table(file, write, costs(comparison));
    write_table(file, write, probes(comparison));
    fprintf(file,
            "%s: mean and standard deviation of the last evaluation over seeds. difference: from "
            "%s, by a paired\nt-test over equal seeds, else by Welch's t-test. p: two-sided "
            "p-value. Losses in nats. Probes and train loss:\nmeans over the last tenth of the "
            "steps.\n",
            metric_words(field_text(comparison, "metric")), field_text(comparison, "base"));
    if (json_object_get(comparison, "scaling"))
        fprintf(file, "Each size of the ladder is compared with the first curve at that size.\n");
    print_test_rules(file, comparison);
    const json_t *plan = json_object_get(comparison, "plan");
    const bool markdown = write == write_markdown;
    if (plan && markdown) fprintf(file, "\n");
    print_registry(file, plan, markdown ? "- " : "");
    fclose(file);
    return text;
}

char *comparison_text(const json_t *comparison) {
    return print(comparison, write_cells);
}

char *comparison_markdown(const json_t *comparison) {
    return print(comparison, write_markdown);
}

/* ---- CSV ---- */

static void write_field(FILE *file, const json_t *value) {
    const char *text = json_string_value(value);
    if (text) {
        csv_text(file, text);
    } else if (json_is_number(value)) {
        fprintf(file, "%.9g", json_number_value(value));
    } else if (json_is_boolean(value)) {
        fputs(json_is_true(value) ? "true" : "false", file);
    }
}

/* Columns of a difference: "difference_mean". */
static const char *const parts[] = {"mean",   "margin_95", "low",     "high",
                                    "chance", "adjusted",  "verdict", "paired"};
enum { PARTS = sizeof parts / sizeof *parts, MAX_NAMES = 64 };

/* Columns: single values of a row, parts of its difference, probes. */
typedef struct TableColumns {
    const char *names[MAX_NAMES], *probes[MAX_COLUMNS];
    int count, probe_count;
} TableColumns;

static TableColumns columns_of(const json_t *rows) {
    TableColumns columns = {.probe_count = probe_names(rows, columns.probes)};
    const char *name;
    json_t *value;
    json_object_foreach(json_array_get(rows, 0), name, value) {
        bool one = !json_is_array(value) && !json_is_object(value) && strcmp(name, "sets") != 0;
        if (one && columns.count < MAX_NAMES) columns.names[columns.count++] = name;
    }
    return columns;
}

static void write_head(FILE *file, const TableColumns *columns) {
    for (int i = 0; i < columns->count; i++) fprintf(file, "%s%s", i ? "," : "", columns->names[i]);
    for (int i = 0; i < PARTS; i++) fprintf(file, ",difference_%s", parts[i]);
    for (int i = 1; i < columns->probe_count; i++) {
        fputc(',', file);
        csv_text(file, columns->probes[i]);
    }
    fprintf(file, "\n");
}

static void write_row(FILE *file, const TableColumns *columns, const json_t *row) {
    const json_t *difference = json_object_get(row, "difference"),
                 *probe = json_object_get(row, "probes");
    for (int i = 0; i < columns->count; i++) {
        if (i) fputc(',', file);
        write_field(file, json_object_get(row, columns->names[i]));
    }
    for (int i = 0; i < PARTS; i++) {
        fputc(',', file);
        write_field(file, json_object_get(difference, parts[i]));
    }
    for (int i = 1; i < columns->probe_count; i++) {
        fputc(',', file);
        write_field(file, json_object_get(probe, columns->probes[i]));
    }
    fprintf(file, "\n");
}

char *comparison_csv(const json_t *comparison) {
    const json_t *rows = json_object_get(comparison, "variants");
    TableColumns columns = columns_of(rows);
    char *text = NULL;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    if (!file) return memory_format("%s", "");
    write_head(file, &columns);
    for (size_t i = 0; i < json_array_size(rows); i++)
        write_row(file, &columns, json_array_get(rows, i));
    fclose(file);
    return text;
}
