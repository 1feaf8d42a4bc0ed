/* explain: moec explain, the compiled program of a model; moec plan, its time on many processes. */
#include "base/files.h"
#include "tools/command/line/commands.h"
#include "training/spec.h"
#include "device/device.h"

#include <stdio.h>
#include <string.h>

/* Requested outputs; without any, the table is printed. */
typedef struct Outputs {
    const char *svg, *dot;
    bool json;
} Outputs;

static bool write_form(MoecCompiler *compiler, MoecGraph graph, const char *target,
                       MoecCeilings ceilings, MoecExplainForm form, const char *path) {
    moec_use_externs(compiler, target);
    const char *text = moec_explain(compiler, graph, moec_target(target), ceilings, form);
    if (!text) return reports_good(compiler);
    if (!path) return fputs(text, stdout) >= 0;
    if (!file_write(path, text, strlen(text))) return false;
    written_message(path, form == MOEC_EXPLAIN_DOT ? "dot -Tsvg -O %s" : NULL, path);
    return true;
}

static bool write_pictures(MoecCompiler *compiler, MoecGraph graph, const char *target,
                           MoecCeilings ceilings, const Outputs *outputs) {
    bool good = true;
    if (outputs->svg)
        good = write_form(compiler, graph, target, ceilings, MOEC_EXPLAIN_SVG, outputs->svg);
    if (good && outputs->dot)
        good = write_form(compiler, graph, target, ceilings, MOEC_EXPLAIN_DOT, outputs->dot);
    if (good && outputs->json)
        good = write_form(compiler, graph, target, ceilings, MOEC_EXPLAIN_JSON, NULL);
    if (outputs->svg || outputs->dot || outputs->json) return good;
    return write_form(compiler, graph, target, ceilings, MOEC_EXPLAIN_TEXT, NULL);
}

/* The collectives of a mesh, instead of the units of work. */
static bool write_mesh(MoecCompiler *compiler, MoecGraph graph, const char *mesh,
                       const char *machine) {
    const char *text =
        moec_set_mesh(compiler, mesh, 0) ? moec_mesh_explain(compiler, graph, machine) : NULL;
    return text ? fputs(text, stdout) >= 0 : reports_good(compiler);
}

int command_explain(const Command *command, int argc, char **argv) {
    const char *operand, *graph_name = "train", *target = "c", *mesh = NULL, *machine = NULL;
    double products = 0, memory = 0;
    Outputs outputs = {0};
    TextList sets = {0};
    const Option table[] = {
        {OPTION_TEXT, "--mode", "forward|train|decode|eval", &graph_name,
         "program variant (default train)"},
        {OPTION_TEXT, "--target", "c|cuda", &target, "target language (default c)"},
        {OPTION_TEXT, "--svg", "FILE", &outputs.svg,
         "picture of layers, time and memory; - for stdout"},
        {OPTION_TEXT, "--dot", "FILE", &outputs.dot, "layer graph for Graphviz; - for stdout"},
        {OPTION_FLAG, "--json", NULL, &outputs.json, "result as JSON"},
        {OPTION_NUMBER, "--peak-gflops", "N", &products,
         "peak of matrix products in GFLOP/s (default: measured)"},
        {OPTION_NUMBER, "--peak-gbytes", "N", &memory,
         "peak memory bandwidth in GB/s (default: measured)"},
        {OPTION_TEXT, "--mesh", "AXES", &mesh,
         "collectives of a process of this mesh, data=2,expert=2"},
        {OPTION_TEXT, "--machine", "NAME", &machine,
         "with --mesh: times on a declared machine, of the spec or of std/machines.moe"},
        SET_OPTION(&sets),
    };
    int code = arguments_read(command, OPTIONS(table), argc, argv, &operand);
    if (code >= 0) return code;
    MoecGraph graph = MOEC_TRAIN;
    graph_named(graph_name, &graph);
    if (products < 0 || memory < 0)
        return arguments_wrong(command, "omit them: the peaks of this machine are measured",
                               "--peak-gflops and --peak-gbytes must be above 0");
    if (mesh && (outputs.svg || outputs.dot || outputs.json || graph == MOEC_DECODE ||
                 strcmp(target, "cuda") == 0))
        return arguments_wrong(
            command, "omit them, or --mesh",
            "--mesh has no --svg, --dot, --json, --target cuda or --mode decode");
    if (machine && !mesh)
        return arguments_wrong(command, "add --mesh, or omit --machine",
                               "--machine requires --mesh");
    AUTO(MoecCompiler) *compiler = spec_open(operand, &sets);
    if (!compiler) return EXIT_INPUT;
    if (mesh) return write_mesh(compiler, graph, mesh, machine) ? 0 : EXIT_INPUT;
    if (products == 0) products = ceiling_products_quick(moec_rounded(compiler));
    if (memory == 0) memory = device_ceiling_read(device_cpu());
    bool good = write_pictures(compiler, graph, target,
                               (MoecCeilings){products * 1e9, memory * 1e9}, &outputs);
    return good ? 0 : EXIT_INPUT;
}

int command_plan(const Command *command, int argc, char **argv) {
    const char *operand, *machine = "h100";
    double processes = 0;
    bool json = false;
    TextList sets = {0};
    const Option table[] = {
        {OPTION_NUMBER, "--ranks", "N", &processes, "number of processes"},
        {OPTION_TEXT, "--machine", "NAME", &machine,
         "declared machine, of the spec or of std/machines.moe (default h100)"},
        {OPTION_FLAG, "--json", NULL, &json, "result as JSON"},
        SET_OPTION(&sets),
    };
    int code = arguments_read(command, OPTIONS(table), argc, argv, &operand);
    if (code >= 0) return code;
    if (processes < 1 || processes != (double)(long)processes)
        return arguments_wrong(command, "add --ranks N, for example --ranks 64",
                               "--ranks expects the number of processes");
    AUTO(MoecCompiler) *compiler = spec_open(operand, &sets);
    if (!compiler) return EXIT_INPUT;
    const char *text = moec_plan(compiler, (long)processes, machine, json);
    const bool written = text ? fputs(text, stdout) >= 0 : reports_good(compiler);
    return written ? 0 : EXIT_INPUT;
}
