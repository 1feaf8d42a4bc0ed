/* compare: moec compare: tables of several runs. */
#include "abi/json_make.h"
#include "base/message.h"
#include "tools/command/line/commands.h"
#include "base/files.h"
#include "base/memory.h"
#include "tools/experiment/experiment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first argument that is a spec instead of a run, or NULL. */
static const char *spec_among(const TextList *operands) {
    for (int i = 0; i < operands->count; i++) {
        const char *dot = strrchr(operands->items[i], '.');
        if (dot && strncmp(dot, ".moe", 4) == 0 && !file_is_folder(operands->items[i]))
            return operands->items[i];
    }
    return NULL;
}

static char *indented_json(const json_t *comparison) {
    return memory_append(json_write(comparison, JSON_INDENT(2) | JSON_REAL_PRECISION(9)), "\n");
}

typedef char *Print(const json_t *comparison);

static int compare_runs(const TextList *folders, const char *base, Print *print) {
    AUTO(Gathering) gathering;
    bool good = gather(&gathering, folders->items, folders->count);
    int number = good && base ? gathering_find(&gathering, base) : -1;
    good = good && (!base || number >= 0);
    if (good) {
        json_auto_t *comparison = comparison_json(&gathering, number, false);
        AUTO_FREE char *text = print(comparison);
        fputs(text, stdout);
    }
    return good ? 0 : EXIT_INPUT;
}

int command_compare(const Command *command, int argc, char **argv) {
    const char *base = NULL;
    bool markdown = false, csv = false, json = false, svg = false;
    TextList folders = {0};
    const Option table[] = {
        {OPTION_TEXT, "--baseline", "NAME", &base,
         "model to compare with (default: the first one)"},
        {OPTION_FLAG, "--markdown", NULL, &markdown, "tables as Markdown"},
        {OPTION_FLAG, "--csv", NULL, &csv, "one CSV line per model, with a header"},
        {OPTION_FLAG, "--json", NULL, &json, "all values as JSON, including those of each run"},
        {OPTION_FLAG, "--svg", NULL, &svg, "loss curves of all seeds as SVG"},
    };
    int code = arguments_read_all(command, OPTIONS(table), argc, argv, &folders);
    if (code >= 0) return code;
    const char *spec = spec_among(&folders);
    if (spec) {
        AUTO_FREE char *help =
            memory_format("to compare a device with the reference: moec verify %s", spec);
        error_message(help, "%s is a spec, not a run", spec);
        return EXIT_INPUT;
    }
    if (markdown + csv + json + svg > 1)
        return arguments_wrong(command, "use one of them",
                               "--markdown, --csv, --json and --svg exclude each other");
    return compare_runs(&folders, base,
                        json       ? indented_json
                        : csv      ? comparison_csv
                        : svg      ? comparison_svg
                        : markdown ? comparison_markdown
                                   : comparison_text);
}
