#include "moec.h"
#include "base/utf8.h"
#include "passes.h"

#include <stdio.h>
#include <string.h>

/* bundle: a spec as one text, with all that it uses.
 *
 *     moec-bundle 1
 *     model NAME
 *     file LENGTH PATH       control characters, backslashes and invalid UTF-8 as \xHH
 *     ...text...
 *     extern LENGTH PATH     a file of hand-written kernels
 *     ...text...
 *     set LENGTH
 *     ...text...
 */

/* Adds a path as one line of UTF-8 that does not begin with a space, for any bytes. */
static void add_source_path(Text *text, const char *path) {
    size_t length = strlen(path);
    for (size_t at = 0; at < length;) {
        unsigned character = 0;
        int bytes = utf8_decode(path + at, length - at, &character);
        bool plain =
            bytes && character >= ' ' + (at == 0) && character != 0x7F && character != '\\';
        if (plain)
            text_add_bytes(text, path + at, (size_t)bytes);
        else
            text_add(text, "\\x%02x", (unsigned)(unsigned char)path[at]);
        at += plain ? (size_t)bytes : 1;
    }
}

/* Decodes a path written by add_source_path, in the same buffer. */
static char *read_path(char *path) {
    char *to = path;
    for (const char *at = path; *at; at++) {
        unsigned byte = 0;
        bool escaped = at[0] == '\\' && at[1] == 'x' && strspn(at + 2, "0123456789abcdef") >= 2 &&
                       sscanf(at + 2, "%2x", &byte) == 1 && byte;
        *to++ = escaped ? (char)byte : *at;
        if (escaped) at += 3;
    }
    *to = 0;
    return path;
}

static void bundle_add(Text *text, const char *word, const char *path, const char *bytes,
                       size_t length) {
    text_add(text, "%s %zu ", word, length);
    add_source_path(text, path);
    text_add(text, "\n");
    text_add_bytes(text, bytes, length);
    text_add(text, "\n");
}

void bundle_add_file(Text *text, const char *path, const char *bytes, size_t length) {
    bundle_add(text, "file", path, bytes, length);
}

const char *moec_bundle(MoecCompiler *compiler) {
    const Unit *unit = moec_unit(compiler);
    Text text = {.arena = moec_arena(compiler)};
    text_add(&text, "moec-bundle 1\nmodel %s\n", moec_model(compiler));
    LIST_EACH(const Source, source, &unit->kernels)
        bundle_add(&text, "extern", source->path, source->text, source->length);
    LIST_EACH(const Source, source, &unit->sources) {
        if (strcmp(source->path, "--set")) {
            bundle_add_file(&text, source->path, source->text, source->length);
            continue;
        }
        text_add(&text, "set %zu\n", source->length);
        text_add_bytes(&text, source->text, source->length);
        text_add(&text, "\n");
    }
    return text.text;
}

const MoecDocument *moec_extern_files(MoecCompiler *compiler, int *count) {
    const List *kernels = &moec_unit(compiler)->kernels;
    MoecDocument *files =
        arena_alloc(moec_arena(compiler), ((size_t)kernels->count + 1) * sizeof *files);
    for (int i = 0; i < kernels->count; i++) {
        const Source *source = kernels->items[i];
        files[i] = (MoecDocument){source->path, source->text, strlen(source->text)};
    }
    *count = kernels->count;
    return files;
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

static bool bundle_part(Arena *arena, Bundle *bundle, char *line) {
    size_t length = 0;
    int read = 0;
    const bool file = !strncmp(line, "file ", 5), kernel = !strncmp(line, "extern ", 7);
    const char *form = file ? "file %zu %n" : kernel ? "extern %zu %n" : "set %zu%n";
    if (sscanf(line, form, &length, &read) != 1 || !read) return false;
    if (length >= (size_t)(bundle->end - bundle->at) || bundle->at[length] != '\n') return false;
    char *text = arena_copy(arena, bundle->at, length);
    bundle->at += length + 1;
    if (!file && !kernel) {
        list_push(arena, &bundle->sets, text);
        return true;
    }
    Source *source = arena_alloc(arena, sizeof *source);
    *source = (Source){
        .path = read_path(line + read), .text = text, .length = length, .is_kernel = kernel};
    list_push(arena, &bundle->sources, source);
    return true;
}

const char *bundle_read(Arena *arena, const char *text, size_t length, List *sources, List *sets) {
    Bundle bundle = {.at = text, .end = text + length};
    char *line = bundle_line(arena, &bundle);
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
