#include "passes.h"

#include "base/embedded.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* resolve: parse a file and all files that it uses, and sort their items by kind. Each file is read
 * once; files can use each other.
 *
 * Needs:   a path, or the sources themselves.
 * Leaves:  a Unit with unique names; errors are in the reports.
 */

typedef struct Resolver {
    Unit *unit;
    const char *search;
    const Source *const *documents; /* files that are open in an editor */
    int document_count;
    bool given; /* all sources are given: nothing is read from disk */
    /* The defined names of each kind. Layers and models share a name space: a model is based on a
     * layer or on a model. */
    Table parts, optimizers, schedules, parametrizations, experiments, layouts, machines;
} Resolver;

static Source *add_source(Unit *unit, const char *path, const char *text, size_t length) {
    Source *source = arena_alloc(unit->arena, sizeof *source);
    *source = (Source){.path = path, .text = text, .length = length};
    list_push(unit->arena, &unit->sources, source);
    return source;
}

static Source *find_source(const Unit *unit, const char *path) {
    return list_named(&unit->sources, offsetof(Source, path), path);
}

/* Given sources are matched by file name alone: their folders may no longer exist. */
static bool is_given(const Unit *unit, const char *name) {
    LIST_EACH(const Source, source, &unit->sources) {
        const char *slash = strrchr(source->path, '/');
        const char *base = slash ? slash + 1 : source->path;
        size_t length = strlen(name);
        if (strncmp(base, name, length) == 0 && strcmp(base + length, ".moe") == 0) return true;
    }
    return false;
}

/* The folder of a path with its slash, or "". */
static const char *folder_of(Arena *arena, const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? arena_copy(arena, path, (size_t)(slash - path) + 1) : "";
}

static bool add_document(Resolver *resolver, const char *path) {
    for (int i = 0; i < resolver->document_count; i++) {
        const Source *document = resolver->documents[i];
        if (strcmp(document->path, path)) continue;
        add_source(resolver->unit, document->path, document->text, document->length);
        return true;
    }
    return false;
}

/* Reads FOLDER/NAME.moe once; returns false if the file does not exist. An unreadable file is an
 * error: a file of the same name in another folder is not a substitute. */
static bool use_from(Resolver *resolver, const char *folder, const Node *use) {
    Unit *unit = resolver->unit;
    const char *path = arena_format(unit->arena, "%s%s.moe", folder, use->name), *problem;
    if (find_source(unit, path) || add_document(resolver, path)) return true;
    size_t length = 0;
    if (access(path, F_OK) != 0) return false;
    char *text = read_source_text(unit->arena, path, &length, &problem);
    if (text)
        add_source(unit, path, text, length);
    else
        report_error(unit->reports, use->name_span, "cannot read '%s': %s", path, problem);
    return true;
}

static bool use_from_search(Resolver *resolver, const Node *use, Text *searched) {
    Arena *arena = resolver->unit->arena;
    for (const char *at = resolver->search; at && *at;) {
        size_t length = strcspn(at, ":");
        const char *slash = length > 0 && at[length - 1] == '/' ? "" : "/";
        const char *folder = arena_format(arena, "%.*s%s", (int)length, at, slash);
        if (path_is_standard(folder)) folder = arena_format(arena, "./%s", folder);
        if (length > 0 && use_from(resolver, folder, use)) return true;
        if (length > 0) text_add(searched, "%s'%s'", searched->length ? ", " : "", folder);
        at += length + (at[length] == ':');
    }
    return false;
}

static bool use_from_stdlib(Resolver *resolver, const char *name) {
    Unit *unit = resolver->unit;
    const char *path = arena_format(unit->arena, "std/%s.moe", name);
    if (find_source(unit, path)) return true;
    size_t length = 0;
    const char *text = stdlib_text(name, &length);
    if (text) add_source(unit, path, text, length);
    return text != NULL;
}

static const char *near_stdlib_name(Arena *arena, const char *name) {
    List names = {0};
    for (int i = 0; stdlib_files[i].name; i++) {
        const char *slash = strchr(stdlib_files[i].name, '/');
        const char *file = slash ? slash + 1 : stdlib_files[i].name;
        list_push(arena, &names, arena_copy(arena, file, strcspn(file, ".")));
    }
    return did_you_mean(name, (const char *const *)names.items, names.count);
}

static void resolve_use(Resolver *resolver, const Source *from, const Node *use) {
    Unit *unit = resolver->unit;
    Text searched = {.arena = unit->arena};

    if (resolver->given && is_given(unit, use->name)) return;
    if (!resolver->given && !path_is_standard(from->path)) {
        const char *folder = folder_of(unit->arena, from->path);
        if (use_from(resolver, folder, use)) return;
        text_add(&searched, "'%s'", *folder ? folder : "./");
        if (use_from_search(resolver, use, &searched)) return;
    }
    if (use_from_stdlib(resolver, use->name)) return;
    report_error(unit->reports, use->name_span, "cannot find '%s.moe'", use->name);
    report_note(unit->reports, (Span){NULL, 0, 0}, "searched %s%sthe standard library",
                searched.length ? searched.text : "", searched.length ? " and " : "");
    const char *near = near_stdlib_name(unit->arena, use->name);
    if (near)
        report_help(unit->reports, "did you mean '%s'?", near);
    else
        report_help(unit->reports, "add the folder of %s.moe to MOEC_PATH", use->name);
}

static const List *same_hash(const Table *names, const Node *node) {
    return table_find(names, hash_text(HASH_START, node->name));
}

static bool is_standard(const Node *node) {
    return path_is_standard(node->span.source->path);
}

static void list_replace(const List *list, const Node *from, Node *to) {
    for (int i = 0; i < list->count; i++)
        if (list->items[i] == from) list->items[i] = to;
}

/* Handles a name that a user file and the standard library both define. The definition of the user
 * has priority: a new standard layer breaks no spec. A model and a standard layer can have the same
 * name. */
static void define_over(Resolver *resolver, const Table *names, List *list, Node *node,
                        Node *earlier) {
    Unit *unit = resolver->unit;
    Node *own = is_standard(node) ? earlier : node, *standard = own == node ? earlier : node;
    list_replace(same_hash(names, node), earlier, own);
    if (own->kind != standard->kind)
        list_push(unit->arena, list, node);
    else if (own == node)
        list_replace(list, earlier, node);
    if (own->kind != standard->kind) return;
    report_warning(unit->reports, own->name_span, "%s '%s' replaces the %s of the standard library",
                   node_kind_name(own->kind), own->name, node_kind_name(own->kind));
    report_note(unit->reports, standard->name_span, "this %s '%s' is not used",
                node_kind_name(standard->kind), standard->name);
}

static void define_node(Resolver *resolver, Table *names, List *list, Node *node) {
    Unit *unit = resolver->unit;
    Node *earlier = (Node *)(uintptr_t)node_called(same_hash(names, node), node->name);
    if (earlier && is_standard(earlier) != is_standard(node)) {
        define_over(resolver, names, list, node, earlier);
        return;
    }
    if (earlier) {
        report_error(unit->reports, node->name_span, "duplicate definition of '%s'", node->name);
        report_note(unit->reports, earlier->name_span, "%s '%s' is first defined here",
                    node_kind_name(earlier->kind), earlier->name);
        report_help(unit->reports, "rename one of them");
        return;
    }
    table_add(unit->arena, names, hash_text(HASH_START, node->name), node);
    list_push(unit->arena, list, node);
}

/* Resolves the files that a layout adds to the specs of its models. */
static void resolve_layout(Resolver *resolver, const Source *source, const Node *layout) {
    const Node *body = layout->kids[1];
    for (int i = 0; i < body->count; i++)
        if (body->kids[i]->kind == NODE_USE) resolve_use(resolver, source, body->kids[i]);
}

static void resolve_item(Resolver *resolver, const Source *source, Node *item) {
    Unit *unit = resolver->unit;
    switch (item->kind) {
    case NODE_USE:
        resolve_use(resolver, source, item);
        break;
    case NODE_LAYER:
        define_node(resolver, &resolver->parts, &unit->layers, item);
        break;
    case NODE_MODEL:
        define_node(resolver, &resolver->parts, &unit->models, item);
        break;
    case NODE_OPTIMIZER:
        define_node(resolver, &resolver->optimizers, &unit->optimizers, item);
        break;
    case NODE_SCHEDULE:
        define_node(resolver, &resolver->schedules, &unit->schedules, item);
        break;
    case NODE_PARAMETRIZATION:
        define_node(resolver, &resolver->parametrizations, &unit->parametrizations, item);
        break;
    case NODE_MACHINE:
        define_node(resolver, &resolver->machines, &unit->machines, item);
        break;
    case NODE_LAYOUT:
        define_node(resolver, &resolver->layouts, &unit->layouts, item);
        resolve_layout(resolver, source, item);
        break;
    default:
        define_node(resolver, &resolver->experiments, &unit->experiments, item);
        break;
    }
}

static void index_names(Unit *unit) {
    const List *lists[] = {&unit->layers, &unit->optimizers, &unit->schedules};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        LIST_EACH(Node, node, lists[i]) {
            list_push(unit->arena, &unit->declared, node);
            table_add(unit->arena, &unit->layers_by_name, hash_text(HASH_START, node->name), node);
        }
}

/* Reads all sources, the files that they use, and the overrides. The list of sources grows during
 * the loop.
 */
static Unit *resolve_all(Resolver *resolver, const char *const *sets, int set_count) {
    Unit *unit = resolver->unit;
    List files = {0};
    LIST_EACH(const Source, source, &unit->sources) {
        Node *file = parse(unit->arena, unit->reports, source);
        for (int k = 0; file && k < file->count; k++) resolve_item(resolver, source, file->kids[k]);
        if (file) resolve_externs(unit, source, file, resolver->given);
        if (file && (unit->reports->saved || !path_is_standard(source->path)))
            list_push(unit->arena, &files, file);
    }
    for (int i = 0; i < files.count; i++) rename_words(unit, files.items[i]);
    index_names(unit);
    for (int i = 0; i < set_count; i++) {
        const Source *source = add_source(unit, "--set", sets[i], strlen(sets[i]));
        Node *entry = parse_entry(unit->arena, unit->reports, source);
        if (entry) list_push(unit->arena, &unit->overrides, entry);
    }
    return unit;
}

static Unit *new_unit(Arena *arena, Reports *reports) {
    Unit *unit = arena_alloc(arena, sizeof *unit);
    unit->arena = arena;
    unit->reports = reports;
    return unit;
}

Unit *resolve_documents(Arena *arena, Reports *reports, const Source *const *documents, int count,
                        const char *search) {
    Resolver resolver = {.unit = new_unit(arena, reports),
                         .search = search,
                         .documents = documents,
                         .document_count = count};
    add_document(&resolver, documents[0]->path);
    return resolve_all(&resolver, NULL, 0);
}

Unit *resolve_sources(Arena *arena, Reports *reports, const Source *const *sources,
                      int source_count, const char *const *sets, int set_count) {
    Resolver resolver = {.unit = new_unit(arena, reports), .given = true};
    for (int i = 0; i < source_count; i++)
        if (sources[i]->is_kernel)
            list_push(arena, &resolver.unit->kernels, (void *)(uintptr_t)sources[i]);
        else
            add_source(resolver.unit, sources[i]->path, sources[i]->text, sources[i]->length);
    return resolve_all(&resolver, sets, set_count);
}

Unit *resolve(Arena *arena, Reports *reports, const char *path, const char *search,
              const char *const *sets, int set_count) {
    Resolver resolver = {.unit = new_unit(arena, reports), .search = search};
    size_t length = 0;
    const char *problem;
    char *text = read_source_text(arena, path, &length, &problem);
    /* A user folder can have the name of the standard library. */
    if (text) {
        add_source(resolver.unit,
                   arena_format(arena, "%s%s", path_is_standard(path) ? "./" : "", path), text,
                   length);
    } else
        report_invalid(reports, (Span){NULL, 0, 0}, "check the path", "cannot read '%s': %s", path,
                       problem);
    return resolve_all(&resolver, sets, set_count);
}

Unit *standard_unit(Unit *unit) {
    if (unit->standard) return unit->standard;
    Reports *reports = arena_alloc(unit->arena, sizeof *reports);
    *reports = (Reports){.arena = unit->arena, .saved = true};
    Resolver resolver = {.unit = new_unit(unit->arena, reports), .given = true};
    for (const EmbeddedFile *file = stdlib_files; file->name; file++)
        if (!strchr(file->name, '/'))
            add_source(resolver.unit, arena_format(unit->arena, "std/%s", file->name), file->text,
                       file->length);
    unit->standard = resolve_all(&resolver, NULL, 0);
    return unit->standard;
}
