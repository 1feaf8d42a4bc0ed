/* spec_text: moec check, transfer, fmt and dump: commands that need the compiler only. */
#include "tools/command/line/commands.h"
#include "abi/json_make.h"
#include "abi/text_find.h"
#include "base/message.h"
#include "base/files.h"
#include "training/run.h"
#include "training/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lists the layouts of a file that has layouts only. */
static bool check_layouts(const char *file, bool json) {
    AUTO(MoecCompiler) *layouts = moec_open_layouts(file, getenv("MOEC_PATH"));
    bool good = json ? !moec_failed(layouts) : reports_good(layouts);
    int count;
    const char *const *names = moec_layouts(layouts, &count);
    if (json) {
        printf("%s", good ? "{\"layouts\": [" : moec_reports_json(layouts));
        for (int i = 0; good && i < count; i++) printf("%s\"%s\"", i ? ", " : "", names[i]);
        puts(good ? "]}" : "");
    }
    for (int i = 0; good && !json && i < count; i++) printf("layout %s\n", names[i]);
    return good;
}

static bool check_experiment(const char *file, const char *name, bool json) {
    AUTO(MoecCompiler) *compiler = moec_open_experiment(file, name, NULL, 0, getenv("MOEC_PATH"));
    bool good = moec_check_experiment(compiler);
    if (!good && json)
        puts(moec_reports_json(compiler));
    else if (!good)
        reports_good(compiler);
    return good;
}

/* Checks the experiments of a file up to the first one with an error. */
static bool check_experiments(MoecCompiler *compiler, const char *file, bool json) {
    int count;
    if (spec_is_run(file) || !(file_exists(file) || file_is_standard(file))) return true;
    const char *const *names = moec_experiments(compiler, &count);
    for (int i = 0; i < count; i++)
        if (!check_experiment(file, names[i], json)) return false;
    return true;
}

/* The hand-written kernels of a spec and the programs that call them; adds them to the JSON object
 * in `json` if that is not NULL. False after an error. */
static bool check_externs(MoecCompiler *compiler, json_t *json) {
    int count;
    const MoecExternUse *uses = moec_extern_uses(compiler, &count);
    json_t *list = count && json ? json_array() : NULL;
    for (int i = 0; uses && i < count; i++) {
        const MoecExternUse *use = &uses[i];
        if (list) {
            json_array_append_new(list,
                                  json_make("{s:s, s:s, s:s, s:i, s:s?, s:s?, s:s?}", "target",
                                            use->target, "name", use->name, "file", use->spec,
                                            "line", use->line, "declaration", use->declaration,
                                            "programs", use->programs, "reason", use->reason));
            continue;
        }
        printf("%s  extern %s %s (%s:%d): %s%s\n", i ? "" : "\n", use->target, use->name, use->spec,
               use->line, use->programs ? "called in " : "not called",
               use->programs ? use->programs : "");
        if (use->declaration) printf("    %s\n", use->declaration);
        if (use->reason) printf("    the equations run in %s\n", use->reason);
    }
    if (list) json_object_set_new(json, "externs", list);
    return uses != NULL;
}

/* The cost as JSON, with the kernels if there are some; false after printing the errors. */
static bool print_cost_json(MoecCompiler *compiler, const char *text) {
    json_auto_t *json = json_loads(text, 0, NULL);
    const bool good = check_externs(compiler, json);
    if (!good)
        puts(moec_reports_json(compiler));
    else if (json_object_get(json, "externs")) {
        json_dumpf(json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
        puts("");
    } else
        puts(text);
    return good;
}

/* Whether the model can be trained on a mesh of processes, NULL: that of the spec; false after
 * reports or a message. */
static bool fits_mesh(MoecCompiler *compiler, const char *mesh) {
    char own[32];
    const long processes = settings_of(compiler).processes;
    if (!mesh && processes < 2) return true;
    snprintf(own, sizeof own, "data=%ld", processes);
    if (!mesh) mesh = own;
    return moec_set_mesh(compiler, mesh, 0) &&
           run_parts_fit(settings_of(compiler).accumulate, moec_mesh(compiler).data) &&
           moec_mesh_explain(compiler, MOEC_TRAIN, NULL);
}

int command_check(const Command *command, int argc, char **argv) {
    const char *operand, *mesh = NULL;
    bool json = false;
    TextList sets = {0};
    const Option table[] = {
        SET_OPTION(&sets),
        {OPTION_TEXT, "--mesh", "AXES", &mesh,
         "whether the model can be trained on this mesh of processes, data=4,expert=2"},
        {OPTION_FLAG, "--json", NULL, &json, "costs, or errors, as JSON"},
    };
    int code = arguments_read(command, OPTIONS(table), argc, argv, &operand);
    if (code >= 0) return code;
    AUTO(MoecCompiler) *compiler = spec_open_quietly(operand, &sets);
    if (!compiler) return EXIT_INPUT;
    bool good;
    if (moec_only_layouts(compiler)) {
        good = check_layouts(operand, json);
    } else if (json) {
        const char *text = moec_failed(compiler) ? NULL : moec_cost_json(compiler);
        good = text && fits_mesh(compiler, mesh) && !moec_failed(compiler);
        if (!good) puts(moec_reports_json(compiler));
        good = good && check_experiments(compiler, operand, true);
        good = good && print_cost_json(compiler, text);
    } else {
        const char *text = reports_good(compiler) ? moec_cost_text(compiler) : NULL;
        const bool fits = text && fits_mesh(compiler, mesh);
        good = text && reports_good(compiler) && fits;
        if (good) fputs(text, stdout);
        good = good && (check_externs(compiler, NULL) || reports_good(compiler));
        fflush(stdout);
        if (good && !message_is_quiet()) message_reports(moec_warnings(compiler));
        good = good && check_experiments(compiler, operand, false);
    }
    return good ? 0 : EXIT_INPUT;
}

int command_transfer(const Command *command, int argc, char **argv) {
    const char *operand;
    bool json = false;
    TextList sets = {0};
    const Option table[] = {
        SET_OPTION(&sets),
        {OPTION_FLAG, "--json", NULL, &json, "result as JSON"},
    };
    int code = arguments_read(command, OPTIONS(table), argc, argv, &operand);
    if (code >= 0) return code;
    MoecTransferForm form = json                   ? MOEC_TRANSFER_JSON
                            : message_is_verbose() ? MOEC_TRANSFER_FORMULAS
                                                   : MOEC_TRANSFER_FACTORS;
    AUTO(MoecCompiler) *compiler = spec_open(operand, &sets);
    const char *text = compiler ? moec_transfer(compiler, form) : NULL;
    bool good = compiler && reports_good(compiler) && text;
    if (good)
        fputs(text, stdout);
    else if (compiler && reports_good(compiler))
        error_message("write model NAME = BASE { ... } transfer complete_mue from BASE",
                      "model '%s' has no transfer clause", moec_model(compiler));
    return good ? 0 : EXIT_INPUT;
}

static bool format_file(const char *path, bool check) {
    Mapping now;
    if (!file_map(path, "check the path", &now)) return false;
    AUTO(MoecCompiler) *compiler = moec_open(path, NULL, NULL, 0, getenv("MOEC_PATH"));
    const char *text = moec_format(compiler);
    bool same = text && strlen(text) == now.length && memcmp(text, now.bytes, now.length) == 0;
    file_unmap(&now);
    bool good = text != NULL;
    if (!text)
        message_reports(moec_reports(compiler));
    else if (check && !same)
        good = error_message("run moec fmt without --check", "%s is not in the canonical format",
                             path);
    else if (file_is_standard(path) && !check)
        fputs(text, stdout);
    else if (!same)
        good = file_edit(path, text, strlen(text));
    return good;
}

/* A file with an error does not stop the others. */
int command_fmt(const Command *command, int argc, char **argv) {
    TextList paths = {0};
    bool check = false, good = true;
    const Option table[] = {
        {OPTION_FLAG, "--check", NULL, &check,
         "check only: exit code 1 if a file is not in the canonical format"},
    };
    int code = arguments_read_all(command, OPTIONS(table), argc, argv, &paths);
    if (code >= 0) return code;
    for (int i = 0; i < paths.count; i++) good &= format_file(paths.items[i], check);
    return good ? 0 : EXIT_INPUT;
}

bool graph_named(const char *name, MoecGraph *graph) {
    static const char *const names[] = {
        [MOEC_FORWARD] = "forward", [MOEC_TRAIN] = "train",  [MOEC_DECODE] = "decode",
        [MOEC_UPDATE] = "update",   [MOEC_MEASURE] = "eval", [MOEC_GATHER] = "gather",
        [MOEC_REFINE] = "refine",   [MOEC_STEP] = "step"};
    const int which = text_find(names, sizeof names / sizeof *names, name);
    if (which >= 0) *graph = (MoecGraph)which;
    return which >= 0;
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
    return text_find(passes, count, name) >= 0;
}

int command_dump(const Command *command, int argc, char **argv) {
    const char *operand, *pass = NULL, *graph_name = "train", *target = "c", *mesh = NULL;
    TextList sets = {0};
    const Option table[] = {
        {OPTION_TEXT, "--after", "PASS", &pass, "name of a pass"},
        {OPTION_TEXT, "--mode", "forward|train|decode|eval|update|gather|step|refine", &graph_name,
         "program variant (default train)"},
        {OPTION_TEXT, "--target", "c|cuda", &target, "target language (default c)"},
        {OPTION_TEXT, "--mesh", "AXES", &mesh,
         "program of a process of this mesh, data=2,expert=2"},
        SET_OPTION(&sets),
    };
    int code = arguments_read(command, OPTIONS(table), argc, argv, &operand);
    if (code >= 0) return code;
    MoecGraph graph = MOEC_TRAIN;
    graph_named(graph_name, &graph);
    if (!pass || !is_pass(pass)) {
        code = pass ? arguments_wrong(command, "use one of the passes below", "unknown pass '%s'",
                                      pass)
                    : arguments_wrong(command, "use one of the passes below",
                                      "moec dump requires --after PASS");
        list_passes();
        return code;
    }
    AUTO(MoecCompiler) *compiler = spec_open(operand, &sets);
    if (compiler) moec_use_externs(compiler, target);
    bool good = compiler && (!mesh || moec_set_mesh(compiler, mesh, 0));
    if (good && mesh) moec_divide(compiler, 0);
    const char *text = good ? moec_dump(compiler, graph, pass, moec_target(target)) : NULL;
    good = compiler && reports_good(compiler) && text;
    if (good) fputs(text, stdout);
    return good ? 0 : EXIT_INPUT;
}
