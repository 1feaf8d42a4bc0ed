/* explain: moec explain: what the compiler made of a model. */
#include "base/files.h"
#include "base/message.h"
#include "command/commands.h"
#include "command/spec.h"
#include "device/device.h"
#include "device/ceiling.h"

#include <stdio.h>
#include <string.h>

/* Only what is asked for is written; the table is printed when nothing is. */
typedef struct Outputs {
    const char *svg, *dot;
    bool json;
} Outputs;

static bool write_form(MoecCompiler *compiler, MoecGraph graph, bool device, MoecCeilings ceilings,
                       MoecExplainForm form, const char *path) {
    const char *text = moec_explain(compiler, graph, device, ceilings, form);
    if (!text) return reports_good(compiler);
    if (!path) return fputs(text, stdout) >= 0;
    if (!file_write(path, text, strlen(text))) return false;
    written_message(path, form == MOEC_EXPLAIN_DOT ? "dot -Tsvg -O %s" : NULL, path);
    return true;
}

static bool write_all(MoecCompiler *compiler, MoecGraph graph, bool device, MoecCeilings ceilings,
                      const Outputs *outputs) {
    bool good = true;
    if (outputs->svg)
        good = write_form(compiler, graph, device, ceilings, MOEC_EXPLAIN_SVG, outputs->svg);
    if (good && outputs->dot)
        good = write_form(compiler, graph, device, ceilings, MOEC_EXPLAIN_DOT, outputs->dot);
    if (good && outputs->json)
        good = write_form(compiler, graph, device, ceilings, MOEC_EXPLAIN_JSON, NULL);
    if (outputs->svg || outputs->dot || outputs->json) return good;
    return write_form(compiler, graph, device, ceilings, MOEC_EXPLAIN_TEXT, NULL);
}

int command_explain(int argc, char **argv) {
    const Command *command = command_row("explain");
    const char *operand, *graph_name = "train", *target = "c";
    double products = 0, memory = 0;
    Outputs outputs = {0};
    TextList sets = {0};
    const Option table[] = {
        {OPTION_TEXT, "--graph", "NAME", &graph_name,
         "forward, train (default), decode or measure"},
        {OPTION_TEXT, "--target", "NAME", &target, "c (default) or cuda"},
        {OPTION_TEXT, "--svg", "FILE", &outputs.svg, "the layers, time and memory as a picture"},
        {OPTION_TEXT, "--dot", "FILE", &outputs.dot, "the graph of layers for Graphviz"},
        {OPTION_FLAG, "--json", NULL, &outputs.json, "all of it as JSON"},
        {OPTION_NUMBER, "--gflops", "N", &products,
         "the ceiling of products in GFLOP/s; else it is measured here"},
        {OPTION_NUMBER, "--gbytes", "N", &memory,
         "the ceiling of memory in GB/s; else it is measured here"},
        {OPTION_LIST, "--set", "KEY=VALUE", &sets, "an option of the model, as in the file"},
        {.kind = OPTION_END},
    };
    int code = arguments_read(command, table, argc, argv, &operand);
    if (code >= 0) return code;
    bool device = strcmp(target, "cuda") == 0;
    MoecGraph graph;
    if (!device && strcmp(target, "c") != 0)
        return arguments_wrong(command, "c or cuda", "there is no target '%s'", target);
    if (!graph_named(graph_name, &graph) || graph == MOEC_UPDATE)
        return arguments_wrong(command, "forward, train, decode or measure",
                               "there is no graph '%s' to explain", graph_name);
    if (products < 0 || memory < 0) return arguments_wrong(command, NULL, "a ceiling is above 0");
    MoecCompiler *compiler = spec_open(operand, &sets);
    if (!compiler) return EXIT_INPUT;
    if (products == 0) products = ceiling_products_quick(moec_rounded(compiler));
    if (memory == 0) memory = device_ceiling_read(device_cpu());
    bool good =
        write_all(compiler, graph, device, (MoecCeilings){products * 1e9, memory * 1e9}, &outputs);
    moec_close(compiler);
    return good ? 0 : EXIT_INPUT;
}
