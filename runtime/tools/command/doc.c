/* doc: moec doc: declarations of .moe files, built-in functions, error codes. */
#include "tools/command/line/commands.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/message.h"
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NAME.moe in the working directory or in a directory of MOEC_PATH; a new string, or NULL. */
static char *file_called(const char *name, const char *search) {
    char *path = NULL;
    if (asprintf(&path, "%s.moe", name) < 0) return NULL;
    if (file_exists(path)) return path;
    for (const char *at = search; at && *at;) {
        size_t length = strcspn(at, ":");
        free(path);
        if (asprintf(&path, "%.*s/%s.moe", (int)length, at, name) < 0) return NULL;
        if (length && file_exists(path)) return path;
        at += length + (at[length] == ':');
    }
    free(path);
    return NULL;
}

/* The FILE of an operand FILE or FILE:NAME, with the NAME or NULL; a new string, or NULL. */
static char *file_of(const char *operand, const char **name) {
    size_t length = strlen(operand);
    *name = NULL;
    if (length > 4 && !strcmp(operand + length - 4, ".moe")) return strdup(operand);
    const char *end = strstr(operand, ".moe:");
    *name = end ? end + 5 : operand;
    return end ? strndup(operand, (size_t)(end + 4 - operand)) : NULL;
}

static int print_doc(const char *file, const char *name, const char *search, MoecDocForm form,
                     bool *known) {
    AUTO(MoecCompiler) *compiler = moec_open_declarations(file, search);
    int code = moec_failed(compiler) ? EXIT_INPUT : 0;
    if (code && form == MOEC_DOC_JSON)
        puts(moec_reports_json(compiler));
    else if (code)
        reports_good(compiler);
    const char *text = code ? NULL : moec_doc(compiler, name, form);
    *known = code || text;
    if (text) fputs(text, stdout);
    return code;
}

static int unknown_name(const char *file, const char *name) {
    char remedy[256] = "moec doc lists all names";
    AUTO(MoecCompiler) *compiler = moec_open_declarations(file, getenv("MOEC_PATH"));
    const char *near = name ? moec_doc_nearest(compiler, name) : NULL;
    if (near) snprintf(remedy, sizeof remedy, "did you mean '%s'?", near);
    if (name)
        error_message(remedy, "no layer, optimizer, schedule, function or option is named '%s'",
                      name);
    else
        error_message(remedy, "%s declares no layer, optimizer or schedule", file);
    return EXIT_INPUT;
}

static int print_error(const char *code, MoecDocForm form) {
    char *text = moec_error_doc(code, form);
    if (text) printf("%s%s", text, form == MOEC_DOC_JSON ? "\n" : "");
    if (!text)
        error_message("compiler/ERRORS.md lists the codes", "no error has the code '%s'", code);
    free(text);
    return text ? 0 : EXIT_INPUT;
}

static bool has_operand(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (argv[i][0] != '-') return true;
    return false;
}

int command_doc(const Command *command, int argc, char **argv) {
    bool json = false, markdown = false;
    const Option table[] = {
        {OPTION_FLAG, "--json", NULL, &json, "result as JSON"},
        {OPTION_FLAG, "--markdown", NULL, &markdown, "result as Markdown, as in stdlib/OPTIONS.md"},
    };
    const char *operand = NULL;
    int code = arguments_read(command, OPTIONS(table), argc, argv,
                              has_operand(argc, argv) ? &operand : NULL);
    if (code >= 0) return code;
    if (json && markdown)
        return arguments_wrong(command, "omit one of them",
                               "--json and --markdown are mutually exclusive");
    MoecDocForm form = json ? MOEC_DOC_JSON : markdown ? MOEC_DOC_MARKDOWN : MOEC_DOC_TEXT;
    if (operand && moec_is_error_code(operand)) return print_error(operand, form);
    const char *search = getenv("MOEC_PATH"), *name = NULL;
    AUTO_FREE char *file = operand ? file_of(operand, &name) : NULL;
    bool known;
    code = print_doc(file, name, search, form, &known);
    if (!known && !file && (file = file_called(name, search))) {
        code = print_doc(file, name, search, form, &known);
        if (!known) code = print_doc(file, NULL, search, form, &known);
    }
    if (!known) code = unknown_name(file, name);
    return code;
}
