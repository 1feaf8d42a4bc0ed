/* mesh_sizes: the text of a mesh. */
#include "passes.h"

#include <stdlib.h>
#include <string.h>

enum { MESH_MOST = 1024 };

static Span mesh_text_span(const Source *source, const char *start, size_t length) {
    const int first = (int)(start - source->text);
    return (Span){source, first, first + (int)length};
}

static void unknown_axis(Reports *reports, Span span, const char *name) {
    const char *axes[MESH_AXES];
    for (int i = 0; i < MESH_AXES; i++) axes[i] = mesh_axis_name((MeshAxis)i);
    if (!strcmp(name, "tensor") || !strcmp(name, "context")) {
        report_error(reports, span, "the mesh axis '%s' is not supported yet", name);
        report_help(reports, "use %s and %s", axes[0], axes[1]);
        return;
    }
    report_error(reports, span, "a mesh has no axis '%s'", name);
    report_choices(reports, name, axes, MESH_AXES, "axes");
}

/* One "data=2"; false after an error. */
static bool read_size(Reports *reports, MeshSizes *sizes, const Source *source, const char *item,
                      size_t length) {
    const char *equals = memchr(item, '=', length);
    const size_t name_length = equals ? (size_t)(equals - item) : length;
    const char *name = arena_copy(reports->arena, item, name_length);
    const Span span = mesh_text_span(source, item, name_length ? name_length : 1);
    int axis = 0;
    while (axis < MESH_AXES && strcmp(name, mesh_axis_name((MeshAxis)axis)) != 0) axis++;
    if (axis == MESH_AXES) {
        unknown_axis(reports, span, name);
        return false;
    }
    if (axis == MESH_DATA && equals && !strncmp(equals, "=auto", length - name_length) &&
        length - name_length == 5)
        return true;
    char *end = NULL;
    const long size = equals ? strtol(equals + 1, &end, 10) : 0;
    if (equals && end == item + length && size >= 1 && size <= MESH_MOST) {
        sizes->size[axis] = size;
        sizes->span[axis] = mesh_text_span(source, item, length);
        return true;
    }
    report_error(reports, span, "the size of mesh axis '%s' is a number from 1 to %d", name,
                 (int)MESH_MOST);
    return report_help(reports, "for example --mesh %s=2", name);
}

bool mesh_sizes_read(Reports *reports, MeshSizes *sizes, const char *text, long data_size) {
    Source *source = arena_alloc(reports->arena, sizeof *source);
    *source = (Source){
        .path = "--mesh", .text = arena_format(reports->arena, "%s", text), .length = strlen(text)};
    for (int i = 0; i < MESH_AXES; i++) sizes->size[i] = i == MESH_DATA ? data_size : 1;
    for (const char *item = source->text;; item++) {
        const size_t length = strcspn(item, ",");
        if (!read_size(reports, sizes, source, item, length)) return false;
        item += length;
        if (!*item) break;
    }
    if (!sizes->size[MESH_DATA]) sizes->size[MESH_DATA] = sizes->size[MESH_EXPERT];
    const long data = sizes->size[MESH_DATA], keys = sizes->size[MESH_EXPERT];
    if (data % keys == 0) return true;
    report_error(reports, sizes->span[MESH_EXPERT],
                 "groups of %s = %ld processes cannot be made of data = %ld",
                 mesh_axis_name(MESH_EXPERT), keys, data);
    return report_help(reports, "use --mesh data=%ld,%s=%ld", (data / keys + 1) * keys,
                       mesh_axis_name(MESH_EXPERT), keys);
}
