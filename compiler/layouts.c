/* layouts: the public interface of layouts: the layouts of a file or of the standard library, their
 * mapping of configurations and models, and the check that the mapping loses nothing.
 */
#include "layout/layout.h"

#include <string.h>

static const Layout *find_layout_named(MoecCompiler *compiler, const char *name) {
    const List *layouts = moec_layout_list(compiler);
    return list_named(layouts, offsetof(Layout, name), name);
}

const char *const *moec_layouts(MoecCompiler *compiler, int *count) {
    const List *layouts = moec_layout_list(compiler);
    const char **names =
        arena_alloc(moec_arena(compiler), sizeof *names * ((size_t)layouts->count + 1));
    for (int i = 0; i < layouts->count; i++) names[i] = ((Layout *)layouts->items[i])->name;
    *count = layouts->count;
    return names;
}

const char *moec_layout_of(MoecCompiler *compiler, const MoecPair *pairs, int count) {
    const List *layouts = moec_layout_list(compiler);
    const char *best = NULL;
    int most = 0;
    LIST_EACH(const Layout, layout, layouts) {
        int known = layout_recognises(moec_unit(compiler), layout, pairs, count);
        if (known > most) best = layout->name;
        if (known > most) most = known;
    }
    return best;
}

/* ---- the spec ---- */

/* Whether the source declares anything but layouts, outside of the standard library. */
static bool is_used_layout(const Unit *unit, const Source *source) {
    const List *lists[] = {&unit->layers, &unit->optimizers, &unit->schedules,
                           &unit->parametrizations};
    if (path_is_standard(source->path)) return false;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (int k = 0; k < lists[i]->count; k++)
            if (((const Node *)lists[i]->items[k])->span.source == source) return true;
    return false;
}

const MoecDocument *moec_layout_files(MoecCompiler *compiler, int *count) {
    const Unit *unit = moec_unit(compiler);
    MoecDocument *files =
        arena_alloc(moec_arena(compiler), sizeof *files * ((size_t)unit->sources.count + 1));
    *count = 0;
    LIST_EACH(const Source, source, &unit->sources)
        if (is_used_layout(unit, source))
            files[(*count)++] = (MoecDocument){source->path, source->text, source->length};
    return files;
}

bool moec_layout_name(MoecCompiler *compiler, const char *name) {
    Arena *arena = moec_arena(compiler);
    const char *text = arena_format(arena, "model %s = decoder { }", name);
    const Source source = {.path = "", .text = text, .length = strlen(text)};
    Reports reports = {.arena = arena};
    parse(arena, &reports, &source);
    int count;
    const MoecDocument *files = moec_layout_files(compiler, &count);
    const char *own = arena_format(arena, "%s.moe", name);
    for (int i = 0; i < count; i++) {
        const char *slash = strrchr(files[i].path, '/');
        if (!strcmp(slash ? slash + 1 : files[i].path, own)) return false;
    }
    return !reports.errors && !moec_standard_file(name);
}

const char *moec_layout_bundle(MoecCompiler *compiler, const char *name, const char *spec) {
    Arena *arena = moec_arena(compiler);
    Text text = {.arena = arena};
    int count;
    const MoecDocument *files = moec_layout_files(compiler, &count);
    text_add(&text, "moec-bundle 1\nmodel %s\n", name);
    bundle_add_file(&text, arena_format(arena, "%s.moe", name), spec, strlen(spec));
    for (int i = 0; i < count; i++)
        bundle_add_file(&text, files[i].path, files[i].text, files[i].length);
    return text.text;
}

/* Opens a model of this text like a saved spec. */
static MoecCompiler *open_text(MoecCompiler *layouts, const char *name, const char *spec) {
    const char *bundle = moec_layout_bundle(layouts, name, spec);
    return moec_open_bundle(bundle, strlen(bundle), NULL, 0);
}

/* The function that a program computes, independent of the names of its parameters. */
static char *layout_function_text(Arena *arena, MoecCompiler *model) {
    Program *program = moec_compile(model, MOEC_FORWARD, 1, 8, 0);
    if (!program) return NULL;
    Text text = {.arena = arena};
    char *all = print_program(arena, program);
    for (char *line = all, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        char *start = strstr(line, " ~ ");
        if (!strncmp(line, "program ", 8)) continue;
        text_add(&text, "%.*s\n", start ? (int)(start - line) : (int)strlen(line), line);
    }
    return text.text;
}

/* True if all options are equal. Options of a layer are compared one by one; the name of a layer is
 * compared only if the layer is never applied. */
static bool same_options(MoecCompiler *before, MoecCompiler *now) {
    const List *all = moec_settings(before), *others = moec_settings(now);
    for (int i = 0; i < all->count && all->count == others->count; i++) {
        const Setting *one = all->items[i], *other = others->items[i];
        size_t length = strcspn(one->text, " {");
        bool layer =
            one->kind == VALUE_OTHER && *one->text != '[' && length == strcspn(other->text, " {");
        if (strcmp(one->path, other->path) != 0 ||
            (layer ? strncmp(one->text, other->text, length) : strcmp(one->text, other->text)) != 0)
            return false;
    }
    return all->count == others->count;
}

/* True if the model is the same without an option: all other options keep their values and the
 * option is not visible in them, or nothing reads it. */
static bool can_go(Arena *arena, const LayoutOption *option, MoecCompiler *with,
                   MoecCompiler *without) {
    if (moec_failed(without)) return false;
    if (same_options(with, without)) return !option->kept;
    if (strlen(moec_warnings(without)) >= strlen(moec_warnings(with))) return false;
    const char *one = layout_function_text(arena, with),
               *other = layout_function_text(arena, without);
    return one && other && strcmp(one, other) == 0;
}

/* Leaves out options with their default value, except the sizes of a model. */
static void leave_defaults_out(MoecCompiler *compiler, const Layout *layout, const char *name,
                               List *options) {
    Arena *arena = moec_arena(compiler);
    MoecCompiler *whole = open_text(compiler, name, layout_spec(arena, layout, name, options));
    for (int i = options->count - 1; i >= 0 && !moec_failed(whole); i--) {
        List others = {0};
        for (int k = 0; k < options->count; k++)
            if (k != i) list_push(arena, &others, options->items[k]);
        MoecCompiler *less = open_text(compiler, name, layout_spec(arena, layout, name, &others));
        bool gone = can_go(arena, options->items[i], whole, less);
        moec_close(gone ? whole : less);
        if (!gone) continue;
        whole = less;
        *options = others;
    }
    moec_close(whole);
}

const char *moec_layout_spec(MoecCompiler *compiler, const char *name, const char *model,
                             const MoecPair *pairs, int count, const char *const **others,
                             int *other_count) {
    const Layout *layout = find_layout_named(compiler, name);
    Arena *arena = moec_arena(compiler);
    List unknown = {0};
    if (!layout || moec_failed(compiler)) return NULL;
    List options = layout_options(moec_unit(compiler), layout, pairs, count, &unknown);
    if (others) {
        *others = (const char *const *)unknown.items;
        *other_count = unknown.count;
    }
    if (moec_failed(compiler)) return NULL;
    leave_defaults_out(compiler, layout, model, &options);
    const char *text = layout_spec(arena, layout, model, &options);
    MoecCompiler *opened = open_text(compiler, model, text);
    const char *formatted = moec_format(opened);
    if (formatted) text = arena_copy(arena, formatted, strlen(formatted));
    moec_close(opened);
    return text;
}

/* ---- export ---- */

/* Reports the options that differ, without those of initialization and training. */
static void report_differences(MoecCompiler *compiler, const Layout *layout, MoecCompiler *model,
                               MoecCompiler *again) {
    Reports *reports = moec_unit(compiler)->reports;
    report_error(reports, layout->node->name_span,
                 "layout '%s' cannot represent this model: options would change", layout->name);
    const List *settings = moec_settings(model);
    int told = 0;
    for (int i = 0; i < settings->count && told < 8; i++) {
        const Setting *setting = settings->items[i];
        const Setting *other = find_setting(again, setting->path);
        if (!strncmp(setting->path, "train", 5) || setting->kind == VALUE_OTHER) continue;
        if (other && same_value(moec_unit(compiler), setting, other)) continue;
        report_note(reports, (Span){0}, "%s is %s, but %s after export",
                    other ? other->path : setting->path, setting->text,
                    other ? other->text : "nothing");
        told++;
    }
    if (!told && moec_transfer(model, MOEC_TRANSFER_FACTORS))
        report_note(
            reports, (Span){0},
            "multipliers of the transfer of model '%s' would be lost: moec transfer prints them",
            moec_model(model));
    report_help(reports, "write a custom layout, or train a model of this family");
}

static bool says_all(MoecCompiler *compiler, const Layout *layout, MoecCompiler *model,
                     const List *pairs) {
    Arena *arena = moec_arena(compiler);
    MoecPair *values = arena_alloc(arena, sizeof *values * ((size_t)pairs->count + 1));
    for (int i = 0; i < pairs->count; i++) values[i] = *(MoecPair *)pairs->items[i];
    List unknown = {0};
    List options = layout_options(moec_unit(compiler), layout, values, pairs->count, &unknown);
    if (moec_failed(compiler)) return false;
    MoecCompiler *again =
        open_text(compiler, "again", layout_spec(arena, layout, "again", &options));
    char *here = layout_function_text(arena, model), *there = layout_function_text(arena, again);
    bool same = here && there && strcmp(here, there) == 0;
    if (!same) report_differences(compiler, layout, model, again);
    moec_close(again);
    return same;
}

const MoecPair *moec_layout_pairs(MoecCompiler *compiler, const char *name, MoecCompiler *model,
                                  int *count) {
    const Layout *layout = find_layout_named(compiler, name);
    if (!layout || moec_failed(compiler)) return NULL;
    List pairs = layout_pairs(moec_unit(compiler), layout, model);
    if (!says_all(compiler, layout, model, &pairs)) return NULL;
    MoecPair *values = arena_alloc(moec_arena(compiler), sizeof *values * (size_t)pairs.count);
    for (int i = 0; i < pairs.count; i++) values[i] = *(MoecPair *)pairs.items[i];
    *count = pairs.count;
    return values;
}

bool moec_layout_unread(MoecCompiler *compiler, const char *name, const char *key) {
    const Layout *layout = find_layout_named(compiler, name);
    return layout && layout_unread(layout, key);
}

/* ---- tensors ---- */

const MoecFileTensor *const *moec_layout_tensors(MoecCompiler *compiler, const char *name,
                                                 MoecCompiler *model,
                                                 const MoecNamedTensor *tensors, int tensor_count,
                                                 int *count) {
    const Layout *layout = find_layout_named(compiler, name);
    if (!layout || moec_failed(compiler)) return NULL;
    List found = layout_tensors(moec_unit(compiler), layout, model, tensors, tensor_count);
    *count = found.count;
    list_push(moec_arena(compiler), &found, NULL);
    return moec_failed(compiler) ? NULL : (const MoecFileTensor *const *)found.items;
}

/* "(model.)h.{i}.bias" against "model.h.3.bias" or "h.3.bias"; "mtp.*" against "mtp.fc.weight" */
static bool layout_fits(const char *pattern, const char *name, bool prefix) {
    while (*pattern && *name) {
        if (*pattern == '(' && !prefix) pattern += strcspn(pattern, ")");
        if (*pattern == '(' || *pattern == ')') {
            pattern++;
            continue;
        }
        if (*pattern == '*') return true;
        if (*pattern != '{') {
            if (*pattern++ != *name++) return false;
            continue;
        }
        size_t digits = strspn(name, "0123456789");
        if (!digits) return false;
        pattern += strcspn(pattern, "}");
        pattern += *pattern == '}';
        name += digits;
    }
    return !*pattern && !*name;
}

bool moec_layout_ignores(MoecCompiler *compiler, const char *name, const char *tensor) {
    const Layout *layout = find_layout_named(compiler, name);
    for (int i = 0; layout && i < layout->lines.count; i++) {
        const LayoutLine *line = layout->lines.items[i];
        if (line->part_count) continue;
        const char *pattern = line->node->name;
        if (layout_fits(pattern, tensor, true) || layout_fits(pattern, tensor, false)) return true;
    }
    return false;
}
