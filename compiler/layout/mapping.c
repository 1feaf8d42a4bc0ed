/* mapping: map the elements of the tensors of a model to the elements of file tensors.
 *
 *     "q.{i}"[(h,e), d] = block[i].query[d,h,e]     and     "block.3.query", 64 x 4 x 16
 *
 *     "q.3", 64 x 64: 4 x 16 x 64 elements, theirs with strides 1024, 64, 1, ours with 16, 1, 64
 *
 * A line has no effect if the model does not have its parameters.
 */
#include "layout/layout.h"

#include "base/table.h"

#include <stdlib.h>
#include <string.h>

typedef struct Size {
    const char *name;
    long size, value; /* value: of an index that the name fixes; else -1 */
    Span span;
} Size;

typedef struct Mapper {
    Unit *unit;
    Arena *arena;
    const Layout *layout;
    MoecCompiler *model;
    const MoecNamedTensor *tensors;
    int count;
    Table by_name;
    List found; /* MoecFileTensor * */
    /* of the current line */
    const LayoutLine *line;
    int part; /* the current part */
    int tensor[LAYOUT_PARTS];
    Size sizes[LAYOUT_PARTS][LAYOUT_INDICES];
    int size_count[LAYOUT_PARTS];
} Mapper;

static Size *size_within(Mapper *mapper, int part, const char *name) {
    for (int i = 0; i < mapper->size_count[part]; i++)
        if (strcmp(mapper->sizes[part][i].name, name) == 0) return &mapper->sizes[part][i];
    return NULL;
}

static Size *find_size(Mapper *mapper, const char *name) {
    return size_within(mapper, mapper->part, name);
}

/* An index that a part does not have has size 1 there. */
static long extent(Mapper *mapper, int part, const char *name) {
    const Size *size = size_within(mapper, part, name);
    return size ? size->size : 1;
}

static const LayoutPart *part_at_hand(const Mapper *mapper) {
    return &mapper->line->parts[mapper->part];
}

static Size *add_size(Mapper *mapper, const char *name, long size, Span span) {
    int *count = &mapper->size_count[mapper->part];
    if (*count == LAYOUT_INDICES) return NULL;
    Size *one = &mapper->sizes[mapper->part][(*count)++];
    *one = (Size){name, size, -1, span};
    return one;
}

/* Matches "block.{i}.query" with "block.3.query": the numbers become values of indices. */
static bool matches_path_pattern(Mapper *mapper, const char *name) {
    const char *pattern = part_at_hand(mapper)->path;
    mapper->size_count[mapper->part] = 0;
    while (*pattern && *name) {
        if (*pattern != '{') {
            if (*pattern++ != *name++) return false;
            continue;
        }
        size_t length = strcspn(pattern + 1, "}"), digits = strspn(name, "0123456789");
        if (!digits) return false;
        Size *one = add_size(mapper, arena_copy(mapper->arena, pattern + 1, length), 0,
                             part_at_hand(mapper)->node->span);
        if (!one) return false;
        one->value = atol(name);
        pattern += length + 2;
        name += digits;
    }
    return !*pattern && !*name;
}

/* The sizes that the layout declares. */
static void declared_sizes(Mapper *mapper) {
    const List *axes = &mapper->layout->axes;
    LIST_EACH(const Node, axis, axes) {
        double size;
        if (!find_size(mapper, axis->name) &&
            layout_number(mapper->arena, axis->kids[0], layout_option_number, mapper->model, &size))
            add_size(mapper, axis->name, (long)size, axis->span);
    }
}

static bool report_size(Mapper *mapper, const Node *sub, long shape, long known) {
    Reports *reports = mapper->unit->reports;
    report_error(reports, sub->span, "this subscript has size %ld, but the axis of %s has size %ld",
                 known, part_at_hand(mapper)->path, shape);
    bool reversed;
    for (int i = 0; i < layout_indices(sub); i++) {
        const Size *size = find_size(mapper, layout_index(sub, i, &reversed)->name);
        if (size && size->span.source)
            report_note(reports, size->span, "'%s' has size %ld here", size->name, size->size);
    }
    return report_help(reports, "compare the subscript with the shapes that `moec tensors` prints");
}

/* Solves for the sizes of the indices of one subscript from the size of its axis; one may be
 * unknown. */
static bool solve_sub(Mapper *mapper, const Node *sub, long shape) {
    const Node *open = NULL;
    long known = 1;
    bool reversed;
    for (int i = 0; i < layout_indices(sub); i++) {
        const Node *index = layout_index(sub, i, &reversed);
        const Size *size = find_size(mapper, index->name);
        if (size)
            known *= size->size;
        else if (!open)
            open = index;
        else {
            report_error(mapper->unit->reports, index->span,
                         "the sizes of '%s' and '%s' are unknown", open->name, index->name);
            return report_help(mapper->unit->reports,
                               "declare the size of one of them: axis %s = 2", open->name);
        }
    }
    if (open ? known <= 0 || shape % known != 0 : known != shape)
        return report_size(mapper, sub, shape, known);
    return !open || add_size(mapper, open->name, shape / known, open->span);
}

static bool solve_sizes(Mapper *mapper, const MoecNamedTensor *tensor) {
    const Node *subs = part_at_hand(mapper)->subs;
    int rank = subs ? subs->count : 0;
    if (rank != tensor->rank) {
        report_error(mapper->unit->reports, part_at_hand(mapper)->node->span,
                     "%s has %d axes (%s), got %d subscripts", tensor->name, tensor->rank,
                     tensor->axes, rank);
        return report_help(mapper->unit->reports, "write one subscript per axis: [%s]",
                           tensor->axes);
    }
    for (int i = 0; i < rank; i++)
        if (!solve_sub(mapper, subs->kids[i], tensor->shape[i])) return false;
    return true;
}

/* "(model.)embed" without the parentheses and, unless `prefix`, without their contents. */
static char *without_parentheses(Arena *arena, const char *name, bool prefix) {
    const char *open = strchr(name, '('), *close = open ? strchr(open, ')') : NULL;
    if (!close) return arena_format(arena, "%s", name);
    return arena_format(arena, "%.*s%.*s%s", (int)(open - name), name,
                        prefix ? (int)(close - open - 1) : 0, open + 1, close + 1);
}

/* The name of the file tensor with the values of its indices. */
static char *their_name(Mapper *mapper, bool prefix) {
    Text text = {.arena = mapper->arena};
    const char *at = without_parentheses(mapper->arena, mapper->line->node->name, prefix);
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

static bool is_choice(const Mapper *mapper, const char *name) {
    return mapper->line->choice && !strcmp(mapper->line->choice, name);
}

/* For the subscript `sub` of the file tensor: in each part, the product of the sizes of the indices
 * after the index that numbers the parts. The parts are consecutive. False: the subscript does not
 * contain that index. */
static bool parts_within(Mapper *mapper, const Node *sub, long *widths) {
    bool reversed, found = false;
    for (int k = 0; k < mapper->line->part_count; k++) widths[k] = 1;
    for (int i = 0; i < layout_indices(sub); i++) {
        const char *name = layout_index(sub, i, &reversed)->name;
        for (int k = 0; found && k < mapper->line->part_count; k++)
            widths[k] *= extent(mapper, k, name);
        found = found || is_choice(mapper, name);
    }
    return found;
}

static long sum(const long *values, int count) {
    long total = 0;
    for (int i = 0; i < count; i++) total += values[i];
    return total;
}

/* The product of the sizes of the indices before the index that numbers the parts, or of all
 * indices. */
static long outer_values(Mapper *mapper, const Node *sub) {
    bool reversed;
    long values = 1;
    for (int i = 0; i < layout_indices(sub); i++) {
        const char *name = layout_index(sub, i, &reversed)->name;
        if (is_choice(mapper, name)) break;
        values *= extent(mapper, mapper->part, name);
    }
    return values;
}

static void their_shape(Mapper *mapper, MoecFileTensor *file) {
    const Node *subs = mapper->line->node->kids[0];
    long widths[LAYOUT_PARTS];
    file->rank = subs ? subs->count : 0;
    for (int i = 0; i < file->rank; i++) {
        file->shape[i] = outer_values(mapper, subs->kids[i]);
        if (parts_within(mapper, subs->kids[i], widths))
            file->shape[i] *= sum(widths, mapper->line->part_count);
    }
}

static MoecFileTensor *their_tensor(Mapper *mapper) {
    char *name = their_name(mapper, true);
    const List *same = table_find(&mapper->by_name, hash_text(HASH_START, name));
    MoecFileTensor *file = list_named(same, offsetof(MoecFileTensor, name), name);
    if (file) return file;
    file = arena_alloc(mapper->arena, sizeof *file);
    file->name = name;
    file->other_name = their_name(mapper, false);
    their_shape(mapper, file);
    file->slices =
        arena_alloc(mapper->arena, sizeof *file->slices * (size_t)mapper->line->part_count);
    table_add(mapper->arena, &mapper->by_name, hash_text(HASH_START, name), file);
    list_push(mapper->arena, &mapper->found, file);
    return file;
}

/* The strides of the indices of some subscripts; the last index has the smallest. An index with a
 * value adds to the offset. Another index is iterated, from the end if it is reversed. */
typedef struct Steps {
    const char *names[LAYOUT_INDICES];
    long steps[LAYOUT_INDICES];
    int count;
    long offset;
} Steps;

static void add_index_stride(Mapper *mapper, const Node *index, bool reversed, long *step,
                             Steps *steps) {
    const Size *size = find_size(mapper, index->name);
    if (!size) return;
    if (size->value >= 0)
        steps->offset += *step * (reversed ? size->size - 1 - size->value : size->value);
    else {
        if (reversed) steps->offset += *step * (size->size - 1);
        steps->names[steps->count] = size->name;
        steps->steps[steps->count++] = reversed ? -*step : *step;
    }
    *step *= size->size;
}

static void subscript_strides(Mapper *mapper, const Node *subs, Steps *steps) {
    long step = 1, widths[LAYOUT_PARTS];
    for (int i = subs ? subs->count - 1 : -1; i >= 0; i--) {
        const Node *sub = subs->kids[i];
        bool parts = parts_within(mapper, sub, widths), reversed;
        long least = step; /* stride of the indices within a part */
        for (int j = layout_indices(sub) - 1; j >= 0; j--) {
            const Node *index = layout_index(sub, j, &reversed);
            if (!parts || !is_choice(mapper, index->name)) {
                add_index_stride(mapper, index, reversed, &step, steps);
                continue;
            }
            steps->offset += least * sum(widths, mapper->part);
            step = least * sum(widths, mapper->line->part_count);
        }
    }
}

static void add_slice(Mapper *mapper, int tensor) {
    MoecFileTensor *file = their_tensor(mapper);
    if (file->slice_count >= mapper->line->part_count) return;
    MoecSlice *slice = &file->slices[file->slice_count++];
    Steps theirs = {.count = 0}, ours = {.count = 0};
    subscript_strides(mapper, mapper->line->node->kids[0], &theirs);
    subscript_strides(mapper, part_at_hand(mapper)->subs, &ours);
    *slice = (MoecSlice){.tensor = tensor,
                         .factor = part_at_hand(mapper)->factor,
                         .shift = part_at_hand(mapper)->shift,
                         .rank = theirs.count,
                         .theirs = theirs.offset,
                         .ours = ours.offset};
    for (int i = 0; i < theirs.count; i++) {
        int to = theirs.count - 1 - i;
        slice->size[to] = find_size(mapper, theirs.names[i])->size;
        slice->their_step[to] = theirs.steps[i];
        for (int j = 0; j < ours.count; j++)
            if (strcmp(ours.names[j], theirs.names[i]) == 0) slice->our_step[to] = ours.steps[j];
    }
}

/* Each value of an index in the name that has no value yet selects a file tensor of its own. */
static void all_slices(Mapper *mapper, const char *at, int tensor) {
    for (; (at = strchr(at, '{')); at++) {
        Size *size = find_size(mapper, arena_copy(mapper->arena, at + 1, strcspn(at + 1, "}")));
        if (!size || size->value >= 0) continue;
        for (long value = 0; value < size->size; value++) {
            size->value = value;
            all_slices(mapper, at + 1, tensor);
        }
        size->value = -1;
        return;
    }
    add_slice(mapper, tensor);
}

/* Finds the tensor of part `k` whose name has the same numbers as the first part. */
static bool find_part_tensor(Mapper *mapper, int k) {
    mapper->part = k;
    for (int i = 0; i < mapper->count; i++) {
        if (!matches_path_pattern(mapper, mapper->tensors[i].name)) continue;
        bool same = true;
        for (int j = 0; j < mapper->size_count[k]; j++) {
            const Size *other = size_within(mapper, 0, mapper->sizes[k][j].name);
            same = same && other && other->value == mapper->sizes[k][j].value;
        }
        mapper->tensor[k] = i;
        if (same) return true;
    }
    return false;
}

/* Checks that the indices before the parts have the same size in all of them. */
static bool same_outside(Mapper *mapper) {
    const Node *subs = mapper->line->node->kids[0];
    for (int i = 0; subs && i < subs->count; i++) {
        mapper->part = 0;
        long values = outer_values(mapper, subs->kids[i]);
        for (int k = 1; k < mapper->line->part_count; k++) {
            mapper->part = k;
            long own = outer_values(mapper, subs->kids[i]);
            if (own == values) continue;
            report_error(mapper->unit->reports, ((Node *)subs->kids[i])->span,
                         "this subscript has size %ld in %s, but %ld in %s", values,
                         mapper->line->parts[0].path, own, mapper->line->parts[k].path);
            return report_help(mapper->unit->reports,
                               "move the differing indices into the parentheses of '%s', after it",
                               mapper->line->choice);
        }
    }
    return true;
}

static bool has_index(const Node *subs, const char *name) {
    bool reversed;
    for (int i = 0; subs && i < subs->count; i++)
        for (int j = 0; j < layout_indices(subs->kids[i]); j++)
            if (!strcmp(layout_index(subs->kids[i], j, &reversed)->name, name)) return true;
    return false;
}

/* The indices before the parts have the same size as in the first part. */
static void known_outside(Mapper *mapper) {
    const Node *subs = mapper->line->node->kids[0];
    for (int i = 0; subs && i < subs->count; i++) {
        bool reversed;
        for (int j = 0; j < layout_indices(subs->kids[i]); j++) {
            const Node *index = layout_index(subs->kids[i], j, &reversed);
            const Size *first = size_within(mapper, 0, index->name);
            if (is_choice(mapper, index->name)) break;
            if (!first || !mapper->part || find_size(mapper, index->name)) continue;
            if (has_index(part_at_hand(mapper)->subs, index->name))
                add_size(mapper, index->name, first->size, first->span);
        }
    }
}

/* Maps the tensors of a line after the first of its parts is found. */
static bool map_parts(Mapper *mapper) {
    int count = mapper->line->part_count;
    for (int k = 1; k < count; k++) {
        if (find_part_tensor(mapper, k)) continue;
        return report_invalid(mapper->unit->reports, mapper->line->node->span,
                              "compare the names with those of `moec tensors`",
                              "the model has %s, but no matching '%s'",
                              mapper->tensors[mapper->tensor[0]].name, mapper->line->parts[k].path);
    }
    for (int k = 0; k < count; k++) {
        mapper->part = k;
        declared_sizes(mapper);
        known_outside(mapper);
        if (!solve_sizes(mapper, &mapper->tensors[mapper->tensor[k]])) return false;
    }
    if (!same_outside(mapper)) return false;
    for (int k = 0; k < count; k++) {
        mapper->part = k;
        all_slices(mapper, mapper->line->node->name, mapper->tensor[k]);
    }
    return true;
}

static bool map_line(Mapper *mapper) {
    for (int i = 0; i < mapper->count; i++) {
        mapper->part = 0;
        if (!matches_path_pattern(mapper, mapper->tensors[i].name)) continue;
        mapper->tensor[0] = i;
        if (!map_parts(mapper)) return false;
    }
    return true;
}

List layout_tensors(Unit *unit, const Layout *layout, MoecCompiler *model,
                    const MoecNamedTensor *tensors, int count) {
    Mapper mapper = {.unit = unit,
                     .arena = unit->arena,
                     .layout = layout,
                     .model = model,
                     .tensors = tensors,
                     .count = count};
    for (int i = 0; i < layout->lines.count; i++) {
        mapper.line = layout->lines.items[i];
        if (mapper.line->part_count) map_line(&mapper);
    }
    return mapper.found;
}
