/* inspect: moec check, transfer, fmt and dump: what the compiler alone can answer. */
#include "command/commands.h"
#include "base/message.h"
#include "base/files.h"
#include "command/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A file of layouts has no costs: it says which there are. */
static bool check_layouts(const char *file, bool json) {
    MoecCompiler *layouts = moec_open_layouts(file, getenv("MOEC_PATH"));
    bool good = json ? !moec_failed(layouts) : reports_good(layouts);
    int count;
    const char *const *names = moec_layouts(layouts, &count);
    if (json) {
        printf("%s", good ? "{\"layouts\": [" : moec_reports_json(layouts));
        for (int i = 0; good && i < count; i++) printf("%s\"%s\"", i ? ", " : "", names[i]);
        puts(good ? "]}" : "");
    }
    for (int i = 0; good && !json && i < count; i++) printf("layout %s\n", names[i]);
    moec_close(layouts);
    return good;
}

static bool check_experiment(const char *file, const char *name, bool json) {
    MoecCompiler *compiler = moec_open_experiment(file, name, NULL, 0, getenv("MOEC_PATH"));
    bool good = moec_check_experiment(compiler);
    if (!good && json)
        puts(moec_reports_json(compiler));
    else if (!good)
        reports_good(compiler);
    moec_close(compiler);
    return good;
}

/* The experiments of a file that was given without a model, until one is wrong. */
static bool check_experiments(MoecCompiler *compiler, const char *file, bool json) {
    int count;
    if (spec_is_run(file) || !file_exists(file)) return true;
    const char *const *names = moec_experiments(compiler, &count);
    for (int i = 0; i < count; i++)
        if (!check_experiment(file, names[i], json)) return false;
    return true;
}

int command_check(int argc, char **argv) {
    const Command *command = command_row("check");
    const char *operand;
    bool json = false;
    TextList sets = {0};
    const Option table[] = {
        {OPTION_LIST, "--set", "KEY=VALUE", &sets, "an option of the model, as in the file"},
        {OPTION_FLAG, "--json", NULL, &json, "the costs, or the errors, as JSON"},
        {.kind = OPTION_END},
    };
    int code = arguments_read(command, table, argc, argv, &operand);
    if (code >= 0) return code;
    MoecCompiler *compiler = spec_open_quietly(operand, &sets);
    if (!compiler) return EXIT_INPUT;
    bool good;
    if (moec_only_layouts(compiler)) {
        good = check_layouts(operand, json);
    } else if (json) {
        const char *text = moec_failed(compiler) ? NULL : moec_cost_json(compiler);
        good = text && !moec_failed(compiler);
        if (!good) puts(moec_reports_json(compiler));
        good = good && check_experiments(compiler, operand, true);
        if (good) puts(text);
    } else {
        const char *text = reports_good(compiler) ? moec_cost_text(compiler) : NULL;
        good = text && reports_good(compiler);
        if (good) fputs(text, stdout);
        fflush(stdout);
        if (good) fputs(moec_warnings(compiler), stderr);
        good = good && check_experiments(compiler, operand, false);
    }
    moec_close(compiler);
    return good ? 0 : EXIT_INPUT;
}

int command_transfer(int argc, char **argv) {
    const Command *command = command_row("transfer");
    const char *operand;
    bool json = false, verbose = false;
    TextList sets = {0};
    const Option table[] = {
        {OPTION_LIST, "--set", "KEY=VALUE", &sets, "an option of the model, as in the file"},
        {OPTION_FLAG, "--json", NULL, &json, "as JSON"},
        {OPTION_FLAG, "--verbose", NULL, &verbose, "every setting with its value and formula"},
        {.kind = OPTION_END},
    };
    int code = arguments_read(command, table, argc, argv, &operand);
    if (code >= 0) return code;
    MoecTransferForm form = json      ? MOEC_TRANSFER_JSON
                            : verbose ? MOEC_TRANSFER_FORMULAS
                                      : MOEC_TRANSFER_FACTORS;
    MoecCompiler *compiler = spec_open(operand, &sets);
    const char *text = compiler ? moec_transfer(compiler, form) : NULL;
    bool good = compiler && reports_good(compiler) && text;
    if (good)
        fputs(text, stdout);
    else if (compiler && reports_good(compiler))
        error_message("write model NAME = BASE { ... } transfer complete_mue from BASE",
                      "model '%s' has no transfer clause", moec_model(compiler));
    moec_close(compiler);
    return good ? 0 : EXIT_INPUT;
}

int command_fmt(int argc, char **argv) {
    const Command *command = command_row("fmt");
    const char *operand;
    bool check = false;
    const Option table[] = {
        {OPTION_FLAG, "--check", NULL, &check,
         "write nothing; exit with 1 when the file is not in the one layout"},
        {.kind = OPTION_END},
    };
    int code = arguments_read(command, table, argc, argv, &operand);
    if (code >= 0) return code;
    Mapping now;
    if (!file_map(operand, "check the path", &now)) return EXIT_INPUT;
    MoecCompiler *compiler = moec_open(operand, NULL, NULL, 0, getenv("MOEC_PATH"));
    const char *text = moec_format(compiler);
    bool same = text && strlen(text) == now.length && memcmp(text, now.bytes, now.length) == 0;
    file_unmap(&now);
    bool good = text != NULL;
    if (!text)
        fputs(moec_reports(compiler), stderr);
    else if (check && !same)
        good = error_message("moec fmt writes it so", "%s is not in the one layout", operand);
    else if (!same)
        good = file_edit(operand, text, strlen(text));
    moec_close(compiler);
    return good ? 0 : EXIT_INPUT;
}

bool graph_named(const char *name, MoecGraph *graph) {
    static const char *const names[] = {
        [MOEC_FORWARD] = "forward", [MOEC_TRAIN] = "train",     [MOEC_DECODE] = "decode",
        [MOEC_UPDATE] = "update",   [MOEC_MEASURE] = "measure", [MOEC_GATHER] = "gather",
        [MOEC_STEP] = "step"};
    for (int i = 0; i < (int)(sizeof names / sizeof names[0]); i++)
        if (strcmp(names[i], name) == 0) {
            *graph = (MoecGraph)i;
            return true;
        }
    return false;
}

static void list_passes(void) {
    int count;
    const char *const *passes = moec_passes(&count);
    fprintf(stderr, "  help: the passes are");
    for (int i = 0; i < count; i++) fprintf(stderr, " %s", passes[i]);
    fputc('\n', stderr);
}

static bool is_pass(const char *name) {
    int count;
    const char *const *passes = moec_passes(&count);
    for (int i = 0; i < count; i++)
        if (strcmp(passes[i], name) == 0) return true;
    return false;
}

int command_dump(int argc, char **argv) {
    const Command *command = command_row("dump");
    const char *operand, *pass = NULL, *graph_name = "train", *target = "c";
    TextList sets = {0};
    const Option table[] = {
        {OPTION_TEXT, "--after", "PASS", &pass, "the pass"},
        {OPTION_TEXT, "--graph", "NAME", &graph_name, "forward, train (default), decode or update"},
        {OPTION_TEXT, "--target", "NAME", &target, "c (default) or cuda"},
        {OPTION_LIST, "--set", "KEY=VALUE", &sets, "an option of the model, as in the file"},
        {.kind = OPTION_END},
    };
    int code = arguments_read(command, table, argc, argv, &operand);
    if (code >= 0) return code;
    bool device = strcmp(target, "cuda") == 0;
    if (!device && strcmp(target, "c") != 0)
        return arguments_wrong(command, "c or cuda", "there is no target '%s'", target);
    MoecGraph graph;
    if (!graph_named(graph_name, &graph))
        return arguments_wrong(command, "forward, train, decode or update",
                               "there is no graph '%s'", graph_name);
    if (!pass || !is_pass(pass)) {
        code = pass ? arguments_wrong(command, NULL, "there is no pass '%s'", pass)
                    : arguments_wrong(command, NULL, "moec dump needs --after PASS");
        list_passes();
        return code;
    }
    MoecCompiler *compiler = spec_open(operand, &sets);
    const char *text = compiler ? moec_dump(compiler, graph, pass, device) : NULL;
    bool good = compiler && reports_good(compiler) && text;
    if (good) fputs(text, stdout);
    moec_close(compiler);
    return good ? 0 : EXIT_INPUT;
}
