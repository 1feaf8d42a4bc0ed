/* compare: moec compare: finished runs beside each other. */
#include "abi/json_make.h"
#include "base/message.h"
#include "command/commands.h"
#include "command/spec.h"
#include "base/files.h"
#include "experiment/comparison.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A spec is no run: what a device computes of it is held beside what it means, as ever. */
static bool is_spec(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *dot = strrchr(argv[i], '.');
        if (argv[i][0] != '-' && dot && strncmp(dot, ".moe", 4) == 0 && !file_is_folder(argv[i]))
            return true;
    }
    return false;
}

static char *indented_json(const json_t *comparison) {
    char *text = json_write(comparison, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    size_t length = strlen(text);
    text = realloc(text, length + 2);
    if (text) strcpy(text + length, "\n");
    return text;
}

typedef char *Print(const json_t *comparison);

static int compare(const TextList *folders, const char *base, Print *print) {
    Gathering gathering;
    bool good = gather(&gathering, folders->items, folders->count);
    int number = good && base ? gathering_find(&gathering, base) : -1;
    good = good && (!base || number >= 0);
    if (good) {
        json_t *comparison = comparison_json(&gathering, number, false);
        char *text = print(comparison);
        fputs(text, stdout);
        free(text);
        json_decref(comparison);
    }
    gathering_free(&gathering);
    return good ? 0 : EXIT_INPUT;
}

int command_compare(int argc, char **argv) {
    if (is_spec(argc, argv)) return command_verify(argc, argv);
    const Command *command = command_row("compare");
    const char *base = NULL;
    bool markdown = false, csv = false, json = false, svg = false;
    TextList folders = {0};
    const Option table[] = {
        {OPTION_TEXT, "--base", "NAME", &base, "what differences are from (the first one)"},
        {OPTION_FLAG, "--markdown", NULL, &markdown, "the tables as Markdown"},
        {OPTION_FLAG, "--csv", NULL, &csv, "one line a model, with a head"},
        {OPTION_FLAG, "--json", NULL, &json, "all figures, those of each run as well"},
        {OPTION_FLAG, "--svg", NULL, &svg, "the losses of all seeds as a picture"},
        {.kind = OPTION_END},
    };
    int code = arguments_read_all(command, table, argc, argv, &folders);
    if (code >= 0) return code;
    if (markdown + csv + json + svg > 1)
        return arguments_wrong(command, NULL, "choose one of --markdown, --csv, --json and --svg");
    return compare(&folders, base,
                   json       ? indented_json
                   : csv      ? comparison_csv
                   : svg      ? comparison_svg
                   : markdown ? comparison_markdown
                              : comparison_text);
}
