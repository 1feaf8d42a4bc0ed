/* comparison_print: a comparison as text, Markdown and CSV. */
#include "experiment/comparison.h"
#include "experiment/csv.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_COLUMNS = 12, CELL = 224 };

/* A table of short texts; the first column and the last are aligned on the left. */
typedef struct Cells {
    int columns, rows;
    char (*text)[MAX_COLUMNS][CELL]; /* [row][column]; row 0 is the head */
} Cells;

static double number_at(const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static const char *text_at(const json_t *object, const char *name) {
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static Cells cells_new(int rows, int columns, const char *const *head) {
    Cells cells = {columns, rows + 1, NULL};
    cells.text = memory_new((size_t)(rows + 1) * sizeof *cells.text);
    for (int i = 0; i < columns; i++) snprintf(cells.text[0][i], CELL, "%s", head[i]);
    return cells;
}

/* "1.496M" */
static void scaled(char cell[CELL], double number) {
    static const struct {
        double size;
        const char *letter;
    } units[] = {{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
    snprintf(cell, CELL, isfinite(number) ? "%.4g" : "-", number);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (!(number >= units[i].size) || !isfinite(number)) continue;
        snprintf(cell, CELL, "%.4g%s", number / units[i].size, units[i].letter);
        return;
    }
}

static void fixed(char cell[CELL], const char *format, double number) {
    if (isfinite(number))
        snprintf(cell, CELL, format, number);
    else
        snprintf(cell, CELL, "-");
}

static const char *metric_words(const char *metric) {
    static const char *const words[][2] = {{"val_bits_per_byte", "bits/byte"},
                                           {"val_bits_per_token", "bits/token"},
                                           {"val_loss", "held-out loss"},
                                           {"loss", "training loss"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(metric, words[i][0]) == 0) return words[i][1];
    return metric;
}

/* ---- the three tables ---- */

/* "3", "2 of 3, 1 diverged", "2 of 3" while one runs. */
static void print_seeds(char cell[CELL], const json_t *row) {
    int finished = (int)number_at(row, "finished"), diverged = (int)number_at(row, "diverged"),
        all = finished + diverged + (int)number_at(row, "unfinished");
    if (finished == all)
        snprintf(cell, CELL, "%d", all);
    else
        snprintf(cell, CELL, "%d of %d", finished, all);
}

static void print_difference(char cell[CELL], const json_t *row) {
    const json_t *difference = json_object_get(row, "difference");
    double mean = number_at(difference, "mean"), margin = number_at(difference, "margin_95");
    int diverged = (int)number_at(row, "diverged"), at = 0;
    if (isfinite(mean)) at = snprintf(cell, CELL, "%+.5f", mean);
    if (isfinite(margin)) at += snprintf(cell + at, (size_t)(CELL - at), " +- %.5f", margin);
    if (*text_at(difference, "verdict"))
        at += snprintf(cell + at, (size_t)(CELL - at), "  %s", text_at(difference, "verdict"));
    if (isfinite(number_at(row, "stopped")))
        at += snprintf(cell + at, (size_t)(CELL - at), "stopped at step %.0f, others were better",
                       number_at(row, "stopped"));
    if (diverged)
        snprintf(cell + at, (size_t)(CELL - at), "%sdiverged: %d of %d", at ? "  " : "", diverged,
                 diverged + (int)number_at(row, "finished") + (int)number_at(row, "unfinished"));
}

static void print_tuned(char *cell, size_t room, const json_t *row) {
    const char *tuned = text_at(row, "tuned"), *gap = *cell ? "  " : "";
    size_t at = strlen(cell);
    if (!*tuned) return;
    if (!json_is_true(json_object_get(row, "best")))
        snprintf(cell + at, room - at, "%s%s", gap, tuned);
    else
        snprintf(cell + at, room - at, "%s%s, the best of %d%s", gap, tuned,
                 (int)number_at(row, "choices"),
                 json_is_true(json_object_get(row, "at_edge")) ? ", at the edge of what was tried"
                                                               : "");
}

static Cells losses(const json_t *comparison) {
    const json_t *rows = json_object_get(comparison, "variants");
    const char *head[] = {"variant",
                          "seeds",
                          metric_words(text_at(comparison, "metric")),
                          "spread",
                          "nats",
                          "training",
                          "p",
                          "difference from the base, 95 %"};
    Cells cells = cells_new((int)json_array_size(rows), 8, head);
    for (int i = 1; i < cells.rows; i++) {
        const json_t *row = json_array_get(rows, (size_t)i - 1);
        char(*cell)[CELL] = cells.text[i];
        snprintf(cell[0], CELL, "%s", text_at(row, "variant"));
        print_seeds(cell[1], row);
        fixed(cell[2], "%.5f", number_at(row, "loss"));
        fixed(cell[3], "%.5f", number_at(row, "spread"));
        fixed(cell[4], "%.5f", number_at(row, "nats"));
        fixed(cell[5], "%.5f", number_at(row, "train_loss"));
        fixed(cell[6], "%.3f", number_at(json_object_get(row, "difference"), "chance"));
        print_difference(cell[7], row);
        print_tuned(cell[7], CELL, row);
    }
    return cells;
}

static Cells costs(const json_t *comparison) {
    static const char *const head[] = {"variant",     "parameters", "active",
                                       "FLOP/token",  "cache B",    "tokens",
                                       "FLOP in all", "tokens/s",   "seconds"};
    static const char *const names[] = {"parameters", "active",      "flops", "cache",
                                        "tokens",     "flops_total", "speed", "seconds"};
    const json_t *rows = json_object_get(comparison, "variants");
    Cells cells = cells_new((int)json_array_size(rows), 9, head);
    for (int i = 1; i < cells.rows; i++) {
        const json_t *row = json_array_get(rows, (size_t)i - 1);
        snprintf(cells.text[i][0], CELL, "%s", text_at(row, "variant"));
        for (int k = 0; k < 8; k++) scaled(cells.text[i][k + 1], number_at(row, names[k]));
    }
    return cells;
}

/* The probes that any variant has, as many as fit. */
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
    Cells cells = cells_new((int)json_array_size(rows), count, names);
    for (int i = 1; i < cells.rows; i++) {
        const json_t *row = json_array_get(rows, (size_t)i - 1);
        snprintf(cells.text[i][0], CELL, "%s", text_at(row, "variant"));
        for (int k = 1; k < count; k++)
            fixed(cells.text[i][k], "%.4g", number_at(json_object_get(row, "probes"), names[k]));
    }
    return cells;
}

/* ---- text and Markdown ---- */

static int width_of(const Cells *cells, int column) {
    int width = 0;
    for (int i = 0; i < cells->rows; i++)
        if ((int)strlen(cells->text[i][column]) > width)
            width = (int)strlen(cells->text[i][column]);
    return width;
}

static void write_text(FILE *file, const Cells *cells, int words) {
    for (int i = 0; i < cells->rows; i++) {
        char line[MAX_COLUMNS * CELL + 64];
        int at = 0;
        for (int k = 0; k < cells->columns; k++) {
            int width = width_of(cells, k) * (k == 0 || k == words ? -1 : 1);
            at += snprintf(line + at, sizeof line - (size_t)at, "  %*s", width, cells->text[i][k]);
        }
        while (at > 0 && line[at - 1] == ' ') at--;
        fprintf(file, "%.*s\n", at, line);
    }
}

static void write_markdown(FILE *file, const Cells *cells, int words) {
    for (int i = 0; i < cells->rows; i++) {
        for (int k = 0; k < cells->columns; k++) fprintf(file, "| %s ", cells->text[i][k]);
        fprintf(file, "|\n");
        for (int k = 0; i == 0 && k < cells->columns; k++)
            fprintf(file, k == 0 || k == words ? "|---" : "|--:");
        if (i == 0) fprintf(file, "|\n");
    }
}

typedef void Write(FILE *file, const Cells *cells, int words);

/* words: the column of words, aligned on the left like the first. */
static void write_table(FILE *file, Write *write, Cells cells, int words) {
    if (cells.columns) {
        write(file, &cells, words);
        fprintf(file, "\n");
    }
    free(cells.text);
}

static char *print(const json_t *comparison, Write *write) {
    char *text = NULL;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    if (!file) return memory_format("%s", "");
    write_table(file, write, losses(comparison), 7);
    write_table(file, write, costs(comparison), -1);
    write_table(file, write, probes(comparison), -1);
    fprintf(file,
            "%s: the last measure, its mean and spread (of a sample) over seeds. Differences are "
            "from %s, of equal\nseeds where both have them (Student's paired t), else by Welch's "
            "test; p is the chance of one as large if\nthere were none. Probes and the training "
            "loss are means of the last tenth of the steps.\n",
            metric_words(text_at(comparison, "metric")), text_at(comparison, "base"));
    fclose(file);
    return text;
}

char *comparison_text(const json_t *comparison) {
    return print(comparison, write_text);
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

/* Of a difference, each with a column of its own: "difference_mean". */
static const char *const parts[] = {"mean",   "margin_95", "low",   "high",
                                    "chance", "verdict",   "paired"};
enum { PARTS = sizeof parts / sizeof *parts, MAX_NAMES = 64 };

/* What the columns are: single values of a row, parts of its difference, probes. */
typedef struct Columns {
    const char *names[MAX_NAMES], *probes[MAX_COLUMNS];
    int count, probe_count;
} Columns;

static Columns columns_of(const json_t *rows) {
    Columns columns = {.probe_count = probe_names(rows, columns.probes)};
    const char *name;
    json_t *value;
    json_object_foreach(json_array_get(rows, 0), name, value) {
        bool one = !json_is_array(value) && !json_is_object(value) && strcmp(name, "sets") != 0;
        if (one && columns.count < MAX_NAMES) columns.names[columns.count++] = name;
    }
    return columns;
}

static void write_head(FILE *file, const Columns *columns) {
    for (int i = 0; i < columns->count; i++) fprintf(file, "%s%s", i ? "," : "", columns->names[i]);
    for (int i = 0; i < PARTS; i++) fprintf(file, ",difference_%s", parts[i]);
    for (int i = 1; i < columns->probe_count; i++) {
        fputc(',', file);
        csv_text(file, columns->probes[i]);
    }
    fprintf(file, "\n");
}

static void write_row(FILE *file, const Columns *columns, const json_t *row) {
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
    Columns columns = columns_of(rows);
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
