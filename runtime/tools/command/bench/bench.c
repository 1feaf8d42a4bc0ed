/* bench: moec bench: speed of a model as a percentage of the hardware peak. Speeds are reported
 * only after the results of the program are verified. */
#include "tools/command/bench/bench.h"

#include "tools/command/line/commands.h"
#include "tools/command/line/arguments.h"
#include "base/memory.h"
#include "training/spec.h"

#include <stdlib.h>
#include <string.h>

static void read_cost(Bench *bench, MoecCompiler *compiler) {
    json_auto_t *cost = json_loads(moec_cost_json(compiler), 0, NULL);
    const json_t *params = json_object_get(cost, "params");
    bench->routed = json_number_value(json_object_get(params, "active")) <
                        json_number_value(json_object_get(params, "total")) ||
                    json_is_true(json_object_get(cost, "selects"));
}

/* Reads the training settings of the spec; false after a message. */
static bool read_spec(Bench *bench) {
    AUTO(MoecCompiler) *compiler = spec_open(bench->operand, &bench->sets);
    if (!compiler) return false;
    bench->settings = settings_of(compiler);
    bench->rounded = moec_rounded(compiler);
    bench->coarse = moec_rounded_coarsely(compiler);
    read_cost(bench, compiler);
    bench_tell_text(bench, "model", moec_model(compiler));
    bench_tell_text(bench, "graph", bench->graph);
    return true;
}

/* Start times are measured first, before a device is open and threads exist. */
static bool bench_measure(Bench *bench) {
    bool trains = strcmp(bench->graph, "train") == 0;
    if (!read_spec(bench) || (trains && !bench_starts(bench))) return false;
    bench->on = device_open(bench->device);
    if (!bench->on) return false;
    bench->on->brief = bench->quick;
    bench_tell_text(bench, "device", bench->on->name);
    bool good = trains ? bench_training(bench) : bench_decoding(bench);
    device_close(bench->on);
    return good;
}

int command_bench(const Command *command, int argc, char **argv) {
    Bench bench = {.graph = "train", .device = "cpu"};
    const Option table[] = {
        {OPTION_TEXT, "--mode", "train|decode", &bench.graph,
         "train: optimizer steps; decode: generation token by token (default train)"},
        DEVICE_OPTION(&bench.device),
        {OPTION_FLAG, "--json", NULL, &bench.json, "results as JSON"},
        {OPTION_FLAG, "--kernels", NULL, &bench.kernels,
         "time of each kernel; on the CPU as a percentage of both peaks"},
        {OPTION_TEXT, "--trace", "FILE", &bench.trace,
         "trace of one step for Perfetto (ui.perfetto.dev) or chrome://tracing; implies --kernels"},
        {OPTION_COUNT, "--prefix-length", "N", &bench.prefix,
         "decode: tokens in the KV cache at the start (default 0)"},
        {OPTION_COUNT, "--batch-size", "N", &bench.batch,
         "train: sequences per micro-batch (default train.batch_size); decode: sequences decoded "
         "together (default 1)"},
        {OPTION_FLAG, "--quick", NULL, &bench.quick,
         "few steps and small peaks, as a test of the measurement"},
        SET_OPTION(&bench.sets),
    };
    int code = arguments_read(command, OPTIONS(table), argc, argv, &bench.operand);
    if (code >= 0) return code;
    bool trains = strcmp(bench.graph, "train") == 0;
    bench.kernels |= bench.trace != NULL;
    if (trains && bench.prefix)
        return arguments_wrong(command, "add --mode decode", "--prefix-length is for decoding");
    AUTO_FREE char *batch = memory_format("%s=%ld", flag_path("--batch-size"), bench.batch);
    if (trains && bench.batch) bench.sets.items[bench.sets.count++] = batch;
    if (!bench.batch) bench.batch = 1;
    bench.report = json_object();
    bool good = bench_measure(&bench);
    if (good) bench_print_report(&bench);
    if (good && !bench.json) bench_print_kernels(&bench);
    json_decref(bench.report);
    return good ? 0 : EXIT_INPUT;
}
