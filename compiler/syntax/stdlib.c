#include "passes.h"

#include "base/embedded.h"

#include <string.h>

static const char layouts_folder[] = "layouts/";

static bool is_layout(const EmbeddedFile *file) {
    return strncmp(file->name, layouts_folder, strlen(layouts_folder)) == 0;
}

List standard_sources(Arena *arena, bool layouts) {
    List sources = {0};
    for (const EmbeddedFile *file = stdlib_files; file->name; file++) {
        if (is_layout(file) != layouts) continue;
        Source *source = arena_alloc(arena, sizeof *source);
        const char *path =
            arena_format(arena, "std/%s", file->name + (layouts ? strlen(layouts_folder) : 0));
        *source = (Source){.path = path, .text = file->text, .length = file->length};
        list_push(arena, &sources, source);
    }
    return sources;
}

const char *stdlib_text(const char *name, size_t *length) {
    size_t size = strlen(name);
    for (const EmbeddedFile *file = stdlib_files; file->name; file++) {
        const char *own = file->name + (is_layout(file) ? strlen(layouts_folder) : 0);
        if (strncmp(own, name, size) != 0 || strcmp(own + size, ".moe") != 0) continue;
        *length = file->length;
        return file->text;
    }
    return NULL;
}

bool moec_standard_file(const char *name) {
    size_t size = strlen(name);
    for (const EmbeddedFile *file = stdlib_files; file->name; file++)
        if (strncmp(file->name, name, size) == 0 && strcmp(file->name + size, ".moe") == 0)
            return true;
    return false;
}

/* Whether a line of the text declares `name`. */
static bool file_declares(const char *text, const char *name) {
    static const char *const kinds[] = {"layer ", "optimizer ", "schedule ", "parametrization "};
    size_t size = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        for (int i = 0; i < 4; i++) {
            const char *at = line + strlen(kinds[i]);
            if (strncmp(line, kinds[i], strlen(kinds[i])) == 0 && strncmp(at, name, size) == 0 &&
                (at[size] == ' ' || at[size] == '('))
                return true;
        }
    }
    return false;
}

bool help_with_use(Reports *reports, const char *name) {
    for (const EmbeddedFile *file = stdlib_files; file->name; file++) {
        if (is_layout(file) || !file_declares(file->text, name)) continue;
        report_help(reports, "add 'use %.*s' at the beginning of the file",
                    (int)strcspn(file->name, "."), file->name);
        return true;
    }
    return false;
}
