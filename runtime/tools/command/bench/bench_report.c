/* bench_report: the report of `moec bench`, and the tokens and data of its measurements. */
#include "tools/command/bench/bench.h"

#include "abi/quantity.h"
#include "abi/json_make.h"
#include "base/memory.h"
#include "data/random.h"
#include "model/call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bench_tell(const Bench *bench, const char *name, double value) {
    json_object_set_new(bench->report, name, json_number(value));
}

void bench_tell_text(const Bench *bench, const char *name, const char *value) {
    json_object_set_new(bench->report, name, json_text(value));
}

void bench_fill(Call *call, bool alike) {
    long context = call_context(call), batch = call->graph->batch,
         vocabulary = call_vocabulary(call);
    long count = batch * (context + 1);
    AUTO_FREE int32_t *tokens = memory_new(sizeof *tokens * (size_t)count);
    for (long i = 0; i < count; i++)
        tokens[i] = (int32_t)(random_bits(3, (uint64_t)(alike ? i % (context + 1) : i)) %
                              (uint64_t)(vocabulary ? vocabulary : 256));
    call_set_windows(call, tokens);
}

/* A file of random bytes below the vocabulary, as data of the measured steps. */
Data *bench_data(long vocabulary) {
    char path[] = "/tmp/moec-bench-XXXXXX";
    int descriptor = mkstemp(path);
    if (descriptor < 0) return NULL;
    unsigned char bytes[1 << 16];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(random_bits(7, i) %
                                   (uint64_t)(vocabulary && vocabulary < 256 ? vocabulary : 256));
    FILE *file = fdopen(descriptor, "wb");
    bool good = file && fwrite(bytes, 1, sizeof bytes, file) == sizeof bytes;
    good = file && fclose(file) == 0 && good;
    Data *data = good ? data_open(path, vocabulary) : NULL;
    remove(path);
    return data;
}

/* One line of the report for readers. factor converts to the base unit of `unit`. */
typedef struct ReportRow {
    const char *key, *title, *unit;
    double factor;
} ReportRow;

static const ReportRow rows[] = {
    {"model", "model", NULL, 0},
    {"graph", "graph", NULL, 0},
    {"device", "device", NULL, 0},
    {"tokens_per_second", "throughput", "tokens/s", 1},
    {"median_tokens_per_second", "throughput, median", "tokens/s", 1},
    {"best_tokens_per_second", "throughput, best step", "tokens/s", 1},
    {"step_seconds", "step time, median", "s", 1},
    {"steps", "steps measured", "", 1},
    {"step_gflop", "computation per step", "FLOP", 1e9},
    {"step_product_gflop", "matmuls per step", "FLOP", 1e9},
    {"product_gflops", "matmul throughput", "FLOP/s", 1e9},
    {"ceiling_gflops", "matmul peak", "FLOP/s", 1e9},
    {"floor_tokens_per_second", "throughput at the peak", "tokens/s", 1},
    {"share_of_floor", "utilization, matmuls", "% of peak", 1},
    {"share_of_ceiling", "utilization", "% of peak", 1},
    {"bytes_per_token", "memory reads", "B/token", 1},
    {"read_gbytes_per_second", "memory bandwidth", "B/s", 1e9},
    {"ceiling_gbytes_per_second", "memory bandwidth, peak", "B/s", 1e9},
    {"share_of_bandwidth", "utilization", "% of peak", 1},
    {"first_step_cold_seconds", "first step, cold", "s", 1},
    {"start_cold_seconds", "start, cold", "s", 1},
    {"start_cold", "start, cold, phases", NULL, 0},
    {"compile_cold_seconds", "C compiler", "s", 1},
    {"first_step_warm_seconds", "first step, cached", "s", 1},
    {"start_warm_seconds", "start, cached", "s", 1},
    {"start_warm", "start, cached, phases", NULL, 0},
    {"startup", "start, this run", NULL, 0},
    {"kernels_seconds", "sum of kernels", "s", 1}};

static Quantity report_row_text(const ReportRow *row, double value) {
    Quantity text;
    if (!strcmp(row->unit, "s")) return quantity_seconds(value);
    if (!*row->unit) return quantity_grouped(value, 0);
    if (!strcmp(row->unit, "tokens/s")) {
        text = quantity_grouped(value, 0);
        snprintf(text.text + strlen(text.text), sizeof text.text - strlen(text.text), " %s",
                 row->unit);
        return text;
    }
    if (row->unit[0] != '%') return quantity(value * row->factor, row->unit);
    text = quantity_percent(value);
    snprintf(text.text + strlen(text.text), sizeof text.text - strlen(text.text), " of peak");
    return text;
}

/* The known row of a key; others are checks of the gradient, which are plain numbers. */
static const ReportRow *report_row(const char *key) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].key, key)) return &rows[i];
    return NULL;
}

void bench_print_report(const Bench *bench) {
    const char *key;
    json_t *value;
    if (bench->json) {
        json_dumpf(bench->report, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
        puts("");
        return;
    }
    json_object_foreach(bench->report, key, value) {
        const ReportRow *row = report_row(key);
        if (json_is_string(value))
            printf("%-26s %s\n", row ? row->title : key, json_string_value(value));
        else if (json_is_number(value) && row)
            printf("%-26s %s\n", row->title, report_row_text(row, json_number_value(value)).text);
        else if (json_is_number(value))
            printf("%-26s %.4g\n", key, json_number_value(value));
    }
}
