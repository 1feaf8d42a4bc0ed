/* tensors: which elements of the tensors of a model make up which tensor of theirs.
 *
 *     "q.{i}"[(h,e), d] = block[i].query[d,h,e]     and     "block.3.query", 64 x 4 x 16
 *
 *     "q.3", 64 x 64: 4 x 16 x 64 elements, theirs at steps 1024, 64, 1, ours at 16, 1, 64
 *
 * A line whose parameters the model has not says nothing of it.
 */
#include "layout/layout.h"

#include "base/table.h"

#include <stdlib.h>
#include <string.h>

typedef struct Size {
    const char *name;
    long size, value; /* value: of an index that the name fixes; -1: it runs */
    Span span;
} Size;

typedef struct Mapper {
    Unit *unit;
    Arena *arena;
    const Layout *layout;
    const MoecNamedTensor *tensors;
    int count;
    Table by_name;
    List found; /* MoecFileTensor * */
    /* of the line at hand */
    const LayoutLine *line;
    const LayoutPart *part;
    int part_number;
    Size sizes[LAYOUT_INDICES];
    int size_count;
} Mapper;

static Size *find_size(Mapper *mapper, const char *name) {
    for (int i = 0; i < mapper->size_count; i++)
        if (strcmp(mapper->sizes[i].name, name) == 0) return &mapper->sizes[i];
    return NULL;
}

static Size *add_size(Mapper *mapper, const char *name, long size, Span span) {
    if (mapper->size_count == LAYOUT_INDICES) return NULL;
    Size *one = &mapper->sizes[mapper->size_count++];
    *one = (Size){name, size, -1, span};
    return one;
}

/* "block.{i}.query" against "block.3.query": the numbers become values of indices. */
static bool matches(Mapper *mapper, const char *pattern, const char *name) {
    mapper->size_count = 0;
    while (*pattern && *name) {
        if (*pattern != '{') {
            if (*pattern++ != *name++) return false;
            continue;
        }
        size_t length = strcspn(pattern + 1, "}"), digits = strspn(name, "0123456789");
        if (!digits) return false;
        Size *one = add_size(mapper, arena_copy(mapper->arena, pattern + 1, length), 0,
                             mapper->part->node->span);
        if (!one) return false;
        one->value = atol(name);
        pattern += length + 2;
        name += digits;
    }
    return !*pattern && !*name;
}

static bool no_option(void *context, const char *path, double *value) {
    (void)context;
    (void)path;
    (void)value;
    return false;
}

/* The sizes that the layout declares, and that of the index over the parts. */
static void declared_sizes(Mapper *mapper) {
    const List *axes = &mapper->layout->axes;
    for (int i = 0; i < axes->count; i++) {
        const Node *axis = axes->items[i];
        double size;
        if (layout_number(mapper->arena, axis->kids[0], no_option, NULL, &size))
            add_size(mapper, axis->name, (long)size, axis->span);
    }
    if (mapper->line->choice) {
        Size *one = add_size(mapper, mapper->line->choice, mapper->line->part_count,
                             mapper->line->node->kids[1]->span);
        if (one) one->value = mapper->part_number;
    }
}

static int members(const Node *sub) {
    return sub->kind == NODE_TUPLE ? sub->count : 1;
}

static const Node *member(const Node *sub, int i) {
    return sub->kind == NODE_TUPLE ? sub->kids[i] : sub;
}

static bool report_size(Mapper *mapper, const Node *sub, long shape, long known) {
    Reports *reports = mapper->unit->reports;
    report_error(reports, sub->span, "this runs over %ld values, the axis of %s has %ld", known,
                 mapper->part->path, shape);
    for (int i = 0; i < members(sub); i++) {
        const Size *size = find_size(mapper, member(sub, i)->name);
        if (size && size->span.source)
            report_note(reports, size->span, "'%s' is %ld by this", size->name, size->size);
    }
    report_help(reports, "another model than the layout is for, or the wrong index: "
                         "`moec weights` lists the shapes");
    return false;
}

/* The sizes of the indices of one subscript, from the size of its axis; one may be open. */
static bool solve_sub(Mapper *mapper, const Node *sub, long shape) {
    const Node *open = NULL;
    long known = 1;
    for (int i = 0; i < members(sub); i++) {
        const Size *size = find_size(mapper, member(sub, i)->name);
        if (size)
            known *= size->size;
        else if (!open)
            open = member(sub, i);
        else {
            report_error(mapper->unit->reports, member(sub, i)->span,
                         "nothing tells how large '%s' and '%s' are", open->name,
                         member(sub, i)->name);
            report_help(mapper->unit->reports, "declare one of them: axis %s = 2", open->name);
            return false;
        }
    }
    if (open ? known <= 0 || shape % known != 0 : known != shape)
        return report_size(mapper, sub, shape, known);
    return !open || add_size(mapper, open->name, shape / known, open->span);
}

static bool solve_sizes(Mapper *mapper, const MoecNamedTensor *tensor) {
    const Node *subs = mapper->part->subs;
    int rank = subs ? subs->count : 0;
    if (rank != tensor->rank) {
        report_error(mapper->unit->reports, mapper->part->node->span,
                     "%s has %d axes (%s), %d subscripts are given", tensor->name, tensor->rank,
                     tensor->axes, rank);
        return false;
    }
    for (int i = 0; i < rank; i++)
        if (!solve_sub(mapper, subs->kids[i], tensor->shape[i])) return false;
    return true;
}

/* "(model.)embed" without the parentheses, or without what they hold, too. */
static char *without(Arena *arena, const char *name, bool prefix) {
    const char *open = strchr(name, '('), *close = open ? strchr(open, ')') : NULL;
    if (!close) return arena_format(arena, "%s", name);
    return arena_format(arena, "%.*s%.*s%s", (int)(open - name), name,
                        prefix ? (int)(close - open - 1) : 0, open + 1, close + 1);
}

/* The name of their tensor with the values of its indices. */
static char *their_name(Mapper *mapper, bool prefix) {
    Text text = {.arena = mapper->arena};
    const char *at = without(mapper->arena, mapper->line->node->name, prefix);
    text_add(&text, "%s", "");
    for (const char *open; (open = strchr(at, '{')); at = open + strcspn(open, "}") + 1) {
        text_add_bytes(&text, at, (size_t)(open - at));
        const Size *size =
            find_size(mapper, arena_copy(mapper->arena, open + 1, strcspn(open + 1, "}")));
        text_add(&text, "%ld", size ? size->value : 0);
    }
    text_add(&text, "%s", at);
    return text.text;
}

static void their_shape(Mapper *mapper, MoecFileTensor *file) {
    const Node *subs = mapper->line->node->kids[0];
    file->rank = subs ? subs->count : 0;
    for (int i = 0; i < file->rank; i++) {
        file->shape[i] = 1;
        for (int j = 0; j < members(subs->kids[i]); j++) {
            const Size *size = find_size(mapper, member(subs->kids[i], j)->name);
            file->shape[i] *= size ? size->size : 1;
        }
    }
}

static MoecFileTensor *their_tensor(Mapper *mapper) {
    char *name = their_name(mapper, true);
    const List *same = table_find(&mapper->by_name, hash_text(HASH_START, name));
    for (int i = 0; i < same->count; i++) {
        MoecFileTensor *file = same->items[i];
        if (strcmp(file->name, name) == 0) return file;
    }
    MoecFileTensor *file = arena_alloc(mapper->arena, sizeof *file);
    file->name = name;
    file->other_name = their_name(mapper, false);
    their_shape(mapper, file);
    file->pieces =
        arena_alloc(mapper->arena, sizeof *file->pieces * (size_t)mapper->line->part_count);
    table_add(mapper->arena, &mapper->by_name, hash_text(HASH_START, name), file);
    list_push(mapper->arena, &mapper->found, file);
    return file;
}

/* The steps of the indices of some subscripts, the last one's the smallest. An index that has a
 * value is a place; another one runs. */
typedef struct Steps {
    const char *names[LAYOUT_INDICES];
    long steps[LAYOUT_INDICES];
    int count;
    long offset;
} Steps;

static void steps_of(Mapper *mapper, const Node *subs, Steps *steps) {
    long step = 1;
    for (int i = subs ? subs->count - 1 : -1; i >= 0; i--) {
        for (int j = members(subs->kids[i]) - 1; j >= 0; j--) {
            const Size *size = find_size(mapper, member(subs->kids[i], j)->name);
            if (size->value >= 0)
                steps->offset += step * size->value;
            else {
                steps->names[steps->count] = size->name;
                steps->steps[steps->count++] = step;
            }
            step *= size->size;
        }
    }
}

static void add_piece(Mapper *mapper, int tensor) {
    MoecFileTensor *file = their_tensor(mapper);
    if (file->piece_count >= mapper->line->part_count) return;
    MoecPiece *piece = &file->pieces[file->piece_count++];
    Steps theirs = {.count = 0}, ours = {.count = 0};
    steps_of(mapper, mapper->line->node->kids[0], &theirs);
    steps_of(mapper, mapper->part->subs, &ours);
    *piece = (MoecPiece){.tensor = tensor,
                         .factor = mapper->part->factor,
                         .shift = mapper->part->shift,
                         .rank = theirs.count,
                         .theirs = theirs.offset,
                         .ours = ours.offset};
    for (int i = 0; i < theirs.count; i++) {
        int to = theirs.count - 1 - i;
        piece->size[to] = find_size(mapper, theirs.names[i])->size;
        piece->their_step[to] = theirs.steps[i];
        for (int j = 0; j < ours.count; j++)
            if (strcmp(ours.names[j], theirs.names[i]) == 0) piece->our_step[to] = ours.steps[j];
    }
}

/* Indices in the name that run are fixed to each of their values: a tensor of theirs for each. */
static void slices(Mapper *mapper, const char *at, int tensor) {
    for (; (at = strchr(at, '{')); at++) {
        Size *size = find_size(mapper, arena_copy(mapper->arena, at + 1, strcspn(at + 1, "}")));
        if (!size || size->value >= 0) continue;
        for (long value = 0; value < size->size; value++) {
            size->value = value;
            slices(mapper, at + 1, tensor);
        }
        size->value = -1;
        return;
    }
    add_piece(mapper, tensor);
}

static bool map_part(Mapper *mapper) {
    for (int i = 0; i < mapper->count; i++) {
        if (!matches(mapper, mapper->part->path, mapper->tensors[i].name)) continue;
        declared_sizes(mapper);
        if (!solve_sizes(mapper, &mapper->tensors[i])) return false;
        slices(mapper, mapper->line->node->name, i);
    }
    return true;
}

/* A tensor of several parts has all of them. */
static void check_whole(Mapper *mapper, int from) {
    for (int i = from; i < mapper->found.count; i++) {
        const MoecFileTensor *file = mapper->found.items[i];
        if (file->piece_count == mapper->line->part_count) continue;
        report_error(mapper->unit->reports, mapper->line->node->span,
                     "the model has %d of the %d parts of %s", file->piece_count,
                     mapper->line->part_count, file->name);
        return;
    }
}

List layout_tensors(Unit *unit, const Layout *layout, const MoecNamedTensor *tensors, int count) {
    Mapper mapper = {
        .unit = unit, .arena = unit->arena, .layout = layout, .tensors = tensors, .count = count};
    for (int i = 0; i < layout->lines.count; i++) {
        mapper.line = layout->lines.items[i];
        int from = mapper.found.count;
        bool good = true;
        for (int k = 0; good && k < mapper.line->part_count; k++) {
            mapper.part = &mapper.line->parts[k];
            mapper.part_number = k;
            good = map_part(&mapper);
        }
        if (good) check_whole(&mapper, from);
    }
    return mapper.found;
}
