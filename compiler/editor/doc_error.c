#include "base/embedded.h"
#include "abi/json_make.h"
#include "moec.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* doc_error: the entry of an error code in compiler/ERRORS.md, which is embedded:
 *
 *     ## E0003
 *
 *     `--json and --markdown are mutually exclusive`
 *
 *     Help: `omit one of them`
 *
 *     Example, from [names.case](../tests/cases/doc/names.case):
 *
 *     (a code block)
 *
 * Help and example are optional. */

enum { CODE_LENGTH = 5 }; /* of "E0003" */

bool moec_is_error_code(const char *name) {
    bool fits = toupper((unsigned char)*name) == 'E' && strlen(name) == CODE_LENGTH;
    return fits && strspn(name + 1, "0123456789") == CODE_LENGTH - 1;
}

/* The entry of the code as a new string, or NULL. */
static char *error_page_of(const char *code) {
    char heading[CODE_LENGTH + 8];
    snprintf(heading, sizeof heading, "\n## E%s\n", code + 1);
    const char *start = strstr(error_pages->text, heading);
    if (!start) return NULL;
    const char *end = strstr(++start, "\n## ");
    return end ? strndup(start, (size_t)(end - start)) : strdup(start);
}

/* The text of the entry between two marks as a new string, or NULL. */
static char *between(const char *entry, const char *start, const char *end) {
    const char *from = strstr(entry, start), *to = from ? strstr(from + strlen(start), end) : NULL;
    return to ? strndup(from + strlen(start), (size_t)(to - from) - strlen(start)) : NULL;
}

static void print_indented(FILE *file, const char *text) {
    while (*text) {
        const int length = (int)strcspn(text, "\n");
        fprintf(file, "%s%.*s\n", length ? "  " : "", length, text);
        text += length + (text[length] == '\n');
    }
}

/* A new string. */
static char *entry_text(const json_t *found) {
    char *text = NULL;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    const char *message = json_field_text(found, "message"), *help = json_field_text(found, "help"),
               *path = json_field_text(found, "example_file"),
               *example = json_field_text(found, "example");
    fprintf(file, "%s\n", json_field_text(found, "code"));
    print_indented(file, message ? message : "retired: no longer printed");
    if (help) fprintf(file, "  help: %s\n", help);
    if (example) fprintf(file, "\nexample, from %s\n", path);
    if (example) print_indented(file, example);
    fclose(file);
    return text;
}

char *moec_error_doc(const char *code, MoecDocForm form) {
    char *entry = moec_is_error_code(code) ? error_page_of(code) : NULL;
    if (!entry || form == MOEC_DOC_MARKDOWN) return entry;
    char *parts[] = {between(entry, "\n\n`", "`\n"), between(entry, "\nHelp: `", "`\n"),
                     between(entry, "](../", ")"), between(entry, "```text\n", "\n```")};
    char name[CODE_LENGTH + 1];
    snprintf(name, sizeof name, "E%s", code + 1);
    json_t *found = json_make("{s:s, s:s, s:s, s:s, s:s}", "code", name, "message", parts[0],
                              "help", parts[1], "example_file", parts[2], "example", parts[3]);
    char *text = form == MOEC_DOC_JSON ? json_write(found, JSON_INDENT(2)) : entry_text(found);
    json_decref(found);
    for (int i = 0; i < 4; i++) free(parts[i]);
    free(entry);
    return text;
}
