#include "moec.h"
#include "passes.h"

#include <stdio.h>
#include <string.h>

/* bundle: a spec as one text, with all that it uses.
 *
 *     moec-bundle 1
 *     model NAME
 *     file LENGTH PATH
 *     ...text...
 *     set LENGTH
 *     ...text...
 */

const char *moec_bundle(MoecCompiler *compiler) {
    const Unit *unit = moec_unit(compiler);
    Text text = {.arena = moec_arena(compiler)};
    text_add(&text, "moec-bundle 1\nmodel %s\n", moec_model(compiler));
    for (int i = 0; i < unit->sources.count; i++) {
        const Source *source = unit->sources.items[i];
        bool set = !strcmp(source->path, "--set");
        if (set)
            text_add(&text, "set %zu\n", source->length);
        else
            text_add(&text, "file %zu %s\n", source->length, source->path);
        text_add_bytes(&text, source->text, source->length);
        text_add(&text, "\n");
    }
    return text.text;
}

typedef struct Bundle {
    const char *at, *end;
    List sources; /* Source * */
    List sets;    /* char * */
} Bundle;

static char *bundle_line(Arena *arena, Bundle *bundle) {
    const char *newline = memchr(bundle->at, '\n', (size_t)(bundle->end - bundle->at));
    if (!newline) return NULL;
    char *line = arena_copy(arena, bundle->at, (size_t)(newline - bundle->at));
    bundle->at = newline + 1;
    return line;
}

static bool bundle_part(Arena *arena, Bundle *bundle, const char *line) {
    size_t length = 0;
    int read = 0;
    bool file = !strncmp(line, "file ", 5);
    if (sscanf(line, file ? "file %zu %n" : "set %zu%n", &length, &read) != 1 || !read)
        return false;
    if (length >= (size_t)(bundle->end - bundle->at) || bundle->at[length] != '\n') return false;
    char *text = arena_copy(arena, bundle->at, length);
    bundle->at += length + 1;
    if (!file) {
        list_push(arena, &bundle->sets, text);
        return true;
    }
    Source *source = arena_alloc(arena, sizeof *source);
    *source = (Source){.path = line + read, .text = text, .length = length};
    list_push(arena, &bundle->sources, source);
    return true;
}

const char *bundle_read(Arena *arena, const char *text, size_t length, List *sources, List *sets) {
    Bundle bundle = {.at = text, .end = text + length};
    const char *line = bundle_line(arena, &bundle);
    if (!line || strcmp(line, "moec-bundle 1")) return NULL;
    const char *model = bundle_line(arena, &bundle);
    if (!model || strncmp(model, "model ", 6)) return NULL;
    while (bundle.at < bundle.end) {
        line = bundle_line(arena, &bundle);
        if (!line || !bundle_part(arena, &bundle, line)) return NULL;
    }
    *sources = bundle.sources;
    *sets = bundle.sets;
    return model + 6;
}
