#include "tools/experiment/experiment.h"

#include "abi/json_make.h"
#include "base/files.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/message.h"
#include "moec.h"
#include "training/checkpoint.h"

#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Looked for from `first` on, and then before it. */
static int column_from(const History *history, const char *name, int first) {
    for (int i = 0; i < history->columns; i++) {
        int column = (first + i) % history->columns;
        if (strcmp(history->names[column], name) == 0) return column;
    }
    return -1;
}

int history_column(const History *history, const char *name) {
    int column = column_from(history, name, 0);
    for (int i = 0; column < 0 && i < history->columns; i++)
        if (history->former[i] && strcmp(history->former[i], name) == 0) column = i;
    return column;
}

/* Lines usually have their names in the same order: checks the column after the last one first. */
static int column_for(History *history, const char *name) {
    int column = column_from(history, name, history->next);
    if (column >= 0) history->next = column + 1;
    if (column >= 0) return column;
    size_t count = (size_t)history->columns + 1;
    history->names = memory_grow(history->names, count * sizeof *history->names);
    history->values = memory_grow(history->values, count * sizeof *history->values);
    history->former = memory_grow(history->former, count * sizeof *history->former);
    history->former[history->columns] = NULL;
    history->names[history->columns] = memory_format("%s", name);
    double *values = memory_new((size_t)history->room * sizeof *values + 1);
    for (long row = 0; row < history->rows; row++) values[row] = NAN;
    history->values[history->columns] = values;
    return history->columns++;
}

static void add_step_row(History *history, double step) {
    if (history->rows == history->room) {
        history->room = 2 * history->room + 256;
        for (int i = 0; i < history->columns; i++)
            history->values[i] =
                memory_grow(history->values[i], (size_t)history->room * sizeof(double));
    }
    for (int i = 0; i < history->columns; i++) history->values[i][history->rows] = NAN;
    history->values[0][history->rows++] = step;
}

static double number_or_infinity(const json_t *value) {
    return json_is_number(value) ? json_number_value(value) : INFINITY;
}

static bool is_of_layers(const char *name) {
    size_t length = strlen(name);
    return length > 6 && !strcmp(name + length - 6, ".layer");
}

/* Each layer's value in a step has its own column: "gate.layer.0", "gate.layer.1". Several values
 * per layer have columns "expert_load.layer.0.0", "expert_load.layer.0.1" if they are requested. */
static void add_log_value(History *history, const char *name, const json_t *value) {
    bool parts = json_is_array(value) || json_is_object(value);
    if (parts && !history->whole && !is_of_layers(name)) return;
    size_t count = json_array_size(value);
    const char *key;
    json_t *one;
    json_object_foreach((json_t *)(uintptr_t)value, key, one) {
        AUTO_FREE char *part = memory_format("%s.%s", name, key);
        add_log_value(history, part, one);
    }
    for (size_t i = 0; i < count; i++) {
        AUTO_FREE char *part = memory_format("%s.%zu", name, i);
        add_log_value(history, part, json_array_get(value, i));
    }
    if (parts) return;
    int column = column_for(history, name);
    history->values[column][history->rows - 1] = number_or_infinity(value);
}

/* Lines of the same step, of training and of a measurement, are one row. */
static void add_log_line(History *history, json_t *line) {
    double step = number_or_infinity(json_object_get(line, "step"));
    if (!isfinite(step)) return;
    if (!history->rows || history->values[0][history->rows - 1] != step)
        add_step_row(history, step);
    const char *name, *diverged = json_field_text(line, "diverged");
    json_t *value;
    if (diverged) {
        free(history->diverged);
        history->diverged = memory_format("%s", diverged);
    }
    json_object_foreach(line, name, value) {
        if (strcmp(name, "step") != 0 && strcmp(name, "diverged") != 0 && !json_is_boolean(value))
            add_log_value(history, name, value);
    }
}

char *run_spec(const char *folder) {
    AUTO_FREE char *path = path_join(folder, "run.json");
    json_auto_t *account = file_json(path);
    const char *text = json_field_text(account, "spec");
    AUTO(Safetensors) *file = !text && checkpoint_within(folder) ? checkpoint_open(folder) : NULL;
    if (file) text = safetensors_note(file, "spec");
    return text ? memory_format("%s", text) : NULL;
}

/* Numbers under a former name of a probe join those under its current name. */
static void join_columns(History *history, int from, int to) {
    for (long row = 0; row < history->rows; row++)
        if (isnan(history->values[to][row])) history->values[to][row] = history->values[from][row];
    if (!history->former[to]) {
        history->former[to] = history->former[from];
        history->former[from] = NULL;
    }
    free(history->names[from]);
    free(history->former[from]);
    free(history->values[from]);
    history->columns--;
    for (int i = from; i < history->columns; i++) {
        history->names[i] = history->names[i + 1];
        history->former[i] = history->former[i + 1];
        history->values[i] = history->values[i + 1];
    }
}

/* The former name, or NULL for one that is current. */
static char *rename_one(MoecCompiler *spec, char **name) {
    const char *now = moec_log_name(spec, *name);
    char *former = *name;
    if (now == former) return NULL;
    *name = memory_format("%s", now);
    return former;
}

static void rename_columns(History *history, const char *folder) {
    AUTO_FREE char *text = run_spec(folder);
    if (!text) return;
    AUTO(MoecCompiler) *spec = moec_open_names(text);
    for (int i = 1; i < history->columns; i++) {
        history->former[i] = rename_one(spec, &history->names[i]);
        const char *name = history->names[i];
        for (int other = 1; other < history->columns; other++) {
            if (other == i || strcmp(history->names[other], name) != 0) continue;
            join_columns(history, other > i ? other : i, other > i ? i : other);
            i -= other < i;
            break;
        }
    }
    if (history->diverged) free(rename_one(spec, &history->diverged));
}

bool history_open(History *history, const char *folder, bool whole) {
    *history = (History){.whole = whole};
    AUTO_FREE char *path = path_join(folder, "log.jsonl"), *text = NULL;
    FILE *file = file_stream(path, "pass an output directory of moec train");
    size_t capacity = 0;
    if (!file) return false;
    column_for(history, "step");
    for (long number = 1; getline(&text, &capacity, file) > 0; number++) {
        json_auto_t *line = json_loads(text, 0, NULL);
        if (line)
            add_log_line(history, line);
        else if (strchr(text, '\n'))
            note_message("%s:%ld is ignored: it is not a JSON object", path, number);
    }
    fclose(file);
    rename_columns(history, folder);
    return true;
}

void history_free(History *history) {
    for (int i = 0; i < history->columns; i++) {
        free(history->names[i]);
        free(history->former[i]);
        free(history->values[i]);
    }
    free(history->names);
    free(history->former);
    free(history->values);
    free(history->diverged);
    *history = (History){0};
}

/* The existing values of a column as a new block. */
static double *numbers_of(const History *history, const char *name, long *count) {
    int column = history_column(history, name);
    double *numbers = memory_new((size_t)history->rows * sizeof *numbers + 1);
    *count = 0;
    for (long row = 0; column >= 0 && row < history->rows; row++)
        if (!isnan(history->values[column][row]))
            numbers[(*count)++] = history->values[column][row];
    return numbers;
}

double history_last(const History *history, const char *name) {
    long count;
    double *numbers = numbers_of(history, name, &count), last = count ? numbers[count - 1] : NAN;
    free(numbers);
    return last;
}

static double sum_of_row(const double *numbers, long count) {
    double sum = 0;
    for (long i = 0; i < count; i++) sum += numbers[i];
    return sum;
}

double history_tail(const History *history, const char *name) {
    long count;
    AUTO_FREE double *numbers = numbers_of(history, name, &count);
    long last = (count + 9) / 10;
    return count ? sum_of_row(numbers + count - last, last) / (double)last : NAN;
}

double history_reached(const History *history, const char *name, double goal, bool higher) {
    long count;
    double *numbers = numbers_of(history, name, &count), before = NAN, step_before = 0,
           reached = NAN;
    const int column = history_column(history, name);
    const long window = strcmp(name, "loss") == 0 && count ? (count + 9) / 10 : 1;
    for (long row = 0, at = 0; at < count && isnan(reached); row++) {
        if (isnan(history->values[column][row])) continue;
        if (++at < window) continue;
        const double value = sum_of_row(numbers + at - window, window) / (double)window,
                     step = history->values[0][row];
        if (higher ? value >= goal : value <= goal)
            reached = isnan(before)
                          ? step
                          : step_before + (goal - before) / (value - before) * (step - step_before);
        before = value;
        step_before = step;
    }
    free(numbers);
    return reached;
}

double history_total(const History *history, const char *name) {
    long count, steps = history_step(history);
    AUTO_FREE double *numbers = numbers_of(history, name, &count);
    const double sum = sum_of_row(numbers, count);
    return count && count < steps ? sum / (double)count * (double)steps : sum;
}

double history_median(const History *history, const char *name) {
    long count;
    AUTO_FREE double *numbers = numbers_of(history, name, &count);
    return count ? median(numbers, (size_t)count) : NAN;
}

long history_step(const History *history) {
    return history->rows ? (long)history->values[0][history->rows - 1] : 0;
}
