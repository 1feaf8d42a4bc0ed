/* dispatch: pack, the selected entries of a mask as rows. */
#include "calls/call_table.h"
#include "lower/lower_entry.h"
#include "interpret/interpreter.h"
#include "ir/well_formed.h"

#include <stdlib.h>
#include <string.h>

/* Checks one output of pack over rows; all of them have the same count. */
static void check_rows(Verify *verify, const Statement *statement, int place, long *rows) {
    CallShape shape = verify_operand(verify, call_output(statement, place));
    if (verify->message) return;
    if (shape.rank != 1) {
        verify_error(verify, "output %d of pack has %d dimensions", place, shape.rank);
        return;
    }
    if (*rows == 0) *rows = shape.size[0];
    verify_sizes(verify, "rows of pack", *rows, shape.size[0]);
}

static void check_length(Verify *verify, const Expr *output, const char *name, long length) {
    CallShape shape = verify_operand(verify, output);
    if (verify->message) return;
    if (shape.rank != 1) verify_error(verify, "%s of pack has %d dimensions", name, shape.rank);
    verify_sizes(verify, name, length, shape.size[0]);
}

/* Any number of inputs after the mask. */
static void check_pack(Verify *verify, const Statement *statement) {
    const List *in = &statement->inputs, *out = &statement->outputs;
    if (!verify_counts(verify, in->count >= 1)) return;
    CallShape mask = verify_operand(verify, call_input(statement, 0));
    if (verify->message) return;
    if (out->count != mask.rank + 5) {
        verify_error(verify, "pack of %d dimensions has %d outputs", mask.rank, out->count);
        return;
    }
    long rows = 0, groups = 1, others = 1;
    for (int i = 1; i < in->count && !verify->message; i++) {
        const Expr *part = call_input(statement, i);
        verify_operand(verify, part);
        if (part->tensor->type != TYPE_INT || part->tensor->vocabulary < 1)
            verify_error(verify, "%s groups rows and has no known number of values",
                         part->tensor->name);
        groups *= part->tensor->vocabulary;
    }
    for (int i = 0; i < mask.rank; i++)
        *(statement->pack.key[i] ? &groups : &others) *= mask.size[i];
    for (int i = 0; i < mask.rank; i++) check_rows(verify, statement, i, &rows);
    check_length(verify, call_output(statement, mask.rank), "group", groups + 1);
    CallShape row_of = verify_operand(verify, call_output(statement, mask.rank + 1));
    verify_like(verify, "row_of", &mask, &row_of);
    check_rows(verify, statement, mask.rank + 2, &rows);
    check_length(verify, call_output(statement, mask.rank + 3), "start", others + 1);
    check_rows(verify, statement, mask.rank + 4, &rows);
    for (int i = 0; i < out->count; i++)
        if (call_output(statement, i)->tensor->type != TYPE_INT)
            verify_error(verify, "output %d of pack is not of integers", i);
}

/* The key dimensions. */
static void print_pack(Text *text, const Statement *statement) {
    const Expr *mask = call_input(statement, 0);
    const char *comma = "; key = [";
    int dimension = 0; /* indices of repeats do not count */
    for (int i = 0; i < mask->count; i++) {
        if (mask->args[i]->kind != EXPR_INDEX || mask->args[i]->index->of_repeat) continue;
        if (!statement->pack.key[dimension++]) continue;
        text_add(text, "%s%s", comma, mask->args[i]->index->name);
        comma = ",";
    }
    text_add(text, "%s]", comma[0] == ';' ? comma : "");
}

/* ---- definition ---- */

typedef struct DispatchedRow {
    long group, other, entry; /* entry: row-major number in the mask */
    long coordinate[MAX_RANK];
} DispatchedRow;

typedef struct Pack {
    Interpreter *interpreter;
    const Statement *statement;
    View mask;
    DispatchedRow *rows;
    long count;
} Pack;

static View output(Pack *pack, int place) {
    return interpreter_view(pack->interpreter, pack->statement->outputs.items[place]);
}

/* The part of the group that a further input contributes to a row, by the coordinates that its
 * subscripts share with the mask. */
static long group_part(Pack *pack, const Expr *input, const DispatchedRow *row) {
    View view = interpreter_view(pack->interpreter, input);
    long offset = 0;
    for (int i = 0; i < view.rank; i++)
        for (int j = 0; j < pack->mask.rank; j++)
            if (pack->mask.index[j] == view.index[i]) offset += row->coordinate[j] * view.stride[i];
    return view.ints[offset];
}

static DispatchedRow row_of_entry(Pack *pack, long entry) {
    const View *mask = &pack->mask;
    DispatchedRow row = {.entry = entry};
    for (int i = mask->rank - 1; i >= 0; i--) {
        row.coordinate[i] = entry % mask->size[i];
        entry /= mask->size[i];
    }
    const List *inputs = &pack->statement->inputs;
    for (int i = 1; i < inputs->count; i++) {
        const Expr *input = inputs->items[i];
        row.group = row.group * input->tensor->vocabulary + group_part(pack, input, &row);
    }
    for (int i = 0; i < mask->rank; i++) {
        long *number = pack->statement->pack.key[i] ? &row.group : &row.other;
        *number = *number * mask->size[i] + row.coordinate[i];
    }
    return row;
}

static bool is_marked(const View *mask, const DispatchedRow *row) {
    long offset = 0;
    for (int i = 0; i < mask->rank; i++) offset += row->coordinate[i] * mask->stride[i];
    return mask->real ? mask->real[offset] != 0 : mask->ints[offset] != 0;
}

static int compare_rows(const void *a, const void *b) {
    const DispatchedRow *left = a, *right = b;
    if (left->group != right->group) return left->group < right->group ? -1 : 1;
    return (left->entry > right->entry) - (left->entry < right->entry);
}

/* Collects and sorts the marked entries, and numbers all entries in row_of. */
static void collect_rows(Pack *pack, long entries) {
    View row_of = output(pack, pack->mask.rank + 1);
    pack->rows = malloc((size_t)entries * sizeof *pack->rows);
    if (!pack->rows) abort();
    for (long entry = 0; entry < entries; entry++) {
        DispatchedRow row = row_of_entry(pack, entry);
        if (is_marked(&pack->mask, &row)) pack->rows[pack->count++] = row;
        long offset = 0;
        for (int i = 0; i < row_of.rank; i++) offset += row.coordinate[i] * row_of.stride[i];
        row_of.ints[offset] = -1;
    }
    qsort(pack->rows, (size_t)pack->count, sizeof *pack->rows, compare_rows);
    for (long r = 0; r < pack->count; r++) {
        long offset = 0;
        for (int i = 0; i < row_of.rank; i++)
            offset += pack->rows[r].coordinate[i] * row_of.stride[i];
        row_of.ints[offset] = r;
    }
}

static void write_rows(Pack *pack) {
    int rank = pack->mask.rank;
    View group = output(pack, rank), other = output(pack, rank + 2), start = output(pack, rank + 3);
    for (int i = 0; i < rank; i++) {
        View coordinate = output(pack, i);
        for (long r = 0; r < pack->count; r++)
            coordinate.ints[r * coordinate.stride[0]] = pack->rows[r].coordinate[i];
    }
    for (long g = 0; g < group.size[0]; g++) group.ints[g] = 0;
    for (long o = 0; o < start.size[0]; o++) start.ints[o] = 0;
    for (long r = 0; r < pack->count; r++) {
        other.ints[r] = pack->rows[r].other;
        group.ints[pack->rows[r].group + 1]++;
        start.ints[pack->rows[r].other + 1]++;
    }
    for (long g = 1; g < group.size[0]; g++) group.ints[g] += group.ints[g - 1];
    for (long o = 1; o < start.size[0]; o++) start.ints[o] += start.ints[o - 1];
}

/* The rows of each value of `other`, in ascending order. */
static void write_list(Pack *pack) {
    View start = output(pack, pack->mask.rank + 3), list = output(pack, pack->mask.rank + 4);
    long *next = malloc((size_t)start.size[0] * sizeof *next);
    if (!next) abort();
    memcpy(next, start.ints, (size_t)start.size[0] * sizeof *next);
    for (long r = 0; r < pack->count; r++) list.ints[next[pack->rows[r].other]++] = r;
    free(next);
}

static void interpret_pack(Interpreter *interpreter, const Statement *statement) {
    Pack pack = {.interpreter = interpreter, .statement = statement};
    pack.mask = interpreter_view(interpreter, statement->inputs.items[0]);
    long entries = 1;
    for (int i = 0; i < pack.mask.rank; i++) entries *= pack.mask.size[i];
    collect_rows(&pack, entries);
    long rows = output(&pack, pack.mask.rank + 2).size[0];
    if (pack.count == rows || (pack.count < rows && statement->pack.bounded)) {
        write_rows(&pack);
        write_list(&pack);
    } else {
        interpreter->message =
            arena_format(interpreter->arena, "a mask has %ld nonzero entries, expected %s%ld",
                         pack.count, statement->pack.bounded ? "at most " : "", rows);
    }
    free(pack.rows);
}

/* ---- lowering ---- */

/* The outputs after the coordinates. */
static const char *const lists[] = {"group", "row_of", "other", "start", "list"};

enum { PACK_FEW = 32 }; /* maximum entries of a group if one block of a GPU packs */

typedef struct PackSizes {
    long keys, groups, others, rows;
} PackSizes;

static PackSizes pack_sizes(const Statement *statement, const CallShape *mask) {
    const Tensor *row = call_output(statement, 0)->tensor;
    PackSizes sizes = {1, 1, 1, row->axes[row->rank - 1]->size};
    for (int i = 0; i < mask->rank; i++) {
        long *part = statement->pack.key[i] ? &sizes.keys : &sizes.others;
        *part *= mask->size[i];
    }
    sizes.groups = sizes.keys;
    for (int i = 1; i < statement->inputs.count; i++)
        sizes.groups *= call_input(statement, i)->tensor->vocabulary;
    return sizes;
}

/* The row-major strides of a further part of the group, by dimension of the mask. */
static void add_strides_of(Arena *arena, List *values, const char *field, const CallShape *mask,
                           const Expr *through) {
    const CallShape shape = call_shape(through);
    long strides[MAX_RANK] = {0}, stride = 1;
    for (int i = shape.rank - 1; i >= 0; i--) {
        for (int j = 0; j < mask->rank; j++)
            if (mask->index[j] == shape.index[i]) strides[j] = stride;
        stride *= shape.size[i];
    }
    add_numbers(arena, values, field, strides, mask->rank);
}

/* The shape of the mask and its key dimensions. */
static void add_mask(Arena *arena, List *values, const Statement *statement,
                     const CallShape *mask) {
    long keys[MAX_RANK];
    for (int i = 0; i < mask->rank; i++) keys[i] = statement->pack.key[i];
    add_number(arena, values, "rank", mask->rank)->line = true;
    add_numbers(arena, values, "shape", mask->size, mask->rank);
    add_numbers(arena, values, "key", keys, mask->rank);
}

static void lower_host_pack(EntryLowering *lowering, const Statement *statement,
                            const CallShape *mask) {
    Arena *arena = lowering->lower.arena;
    const int in = statement->inputs.count;
    HostStep *step = add_call(lowering, statement, STEP_CALL, false);
    List *values = &step->call.values, *options = add_options(lowering, step, "MoecPack");
    step->call.function = "moec_pack";
    add_mask(arena, options, statement, mask);
    add_number(arena, options, "rows", pack_sizes(statement, mask).rows);
    if (in > 1) {
        add_number(arena, options, "through_count", in - 1)->line = true;
        HostValue *strides = add_array(arena, options, "through_stride", NULL),
                  *sizes = add_array(arena, options, "through_size", NULL);
        for (int i = 1; i < in; i++) {
            const Expr *through = call_input(statement, i);
            add_strides_of(arena, &strides->values, NULL, mask, through);
            add_number(arena, &sizes->values, NULL, through->tensor->vocabulary);
        }
    }
    add_operand(arena, values, NULL, step, 0);
    HostValue *through = in > 1 ? add_array(arena, values, NULL, "const int *const[]")
                                : add_operand(arena, values, NULL, step, -1);
    for (int i = 1; i < in; i++) add_operand(arena, &through->values, NULL, step, i);
    HostValue *packed = add_array(arena, values, NULL, "const MoecPacked");
    packed->address = packed->line = true;
    HostValue *coordinates = add_array(arena, &packed->values, "coordinate", "int *const[]");
    for (int i = 0; i < mask->rank; i++)
        add_operand(arena, &coordinates->values, NULL, step, in + i);
    for (int i = 0; i < 5; i++)
        add_operand(arena, &packed->values, lists[i], step, in + mask->rank + i)->line = i == 2;
}

static const DeviceField pack_fields[] = {
    DEVICE_FIELD(MoecPackOnDevice, rank, int, 0),
    DEVICE_FIELD(MoecPackOnDevice, shape, long, 0),
    DEVICE_FIELD(MoecPackOnDevice, key, int, 0),
    DEVICE_FIELD(MoecPackOnDevice, rows, long, 0),
    DEVICE_FIELD(MoecPackOnDevice, keys, long, 0),
    DEVICE_FIELD(MoecPackOnDevice, groups, long, 0),
    DEVICE_FIELD(MoecPackOnDevice, others, long, 0),
    DEVICE_FIELD(MoecPackOnDevice, in_order, int, 0),
    DEVICE_FIELD(MoecPackOnDevice, mask, void *, 0),
    DEVICE_FIELD(MoecPackOnDevice, through_count, int, 0),
    DEVICE_FIELD(MoecPackOnDevice, through, void *, sizeof(void *)),
    DEVICE_FIELD(MoecPackOnDevice, through_size, long, sizeof(long)),
    DEVICE_FIELD(MoecPackOnDevice, through_stride, long, sizeof(long[MOEC_MAX_RANK])),
    DEVICE_FIELD(MoecPackOnDevice, coordinate, void *, sizeof(void *)),
    DEVICE_FIELD(MoecPackOnDevice, group, void *, 0),
    DEVICE_FIELD(MoecPackOnDevice, row_of, void *, 0),
    DEVICE_FIELD(MoecPackOnDevice, other, void *, 0),
    DEVICE_FIELD(MoecPackOnDevice, start, void *, 0),
    DEVICE_FIELD(MoecPackOnDevice, list, void *, 0),
    {0},
};

/* The sizes and all tensors as one parameter of the kernels. */
static HostRecord *pack_record(Arena *arena, const HostStep *step, const Statement *statement,
                               const CallShape *mask) {
    const int in = statement->inputs.count;
    const PackSizes sizes = pack_sizes(statement, mask);
    HostRecord *record = arena_alloc(arena, sizeof *record);
    List *values = &record->values;
    bool in_order = true;
    for (int i = 1; i < mask->rank; i++)
        in_order &= statement->pack.key[i] >= statement->pack.key[i - 1];
    record->type = "const MoecPackOnDevice";
    record->name = "pack";
    record->fields = pack_fields;
    record->bytes = sizeof(MoecPackOnDevice);
    add_mask(arena, values, statement, mask);
    add_number(arena, values, "rows", sizes.rows)->line = true;
    add_number(arena, values, "keys", sizes.keys);
    add_number(arena, values, "groups", sizes.groups);
    add_number(arena, values, "others", sizes.others);
    add_number(arena, values, "in_order", in_order)->line = true;
    add_operand(arena, values, "mask", step, 0);
    add_number(arena, values, "through_count", in - 1);
    for (int i = 1; i < in; i++) {
        const Expr *through = call_input(statement, i);
        add_operand(arena, values, arena_format(arena, "through[%d]", i - 1), step, i)->line = true;
        add_number(arena, values, arena_format(arena, "through_size[%d]", i - 1),
                   through->tensor->vocabulary);
        add_strides_of(arena, values, arena_format(arena, "through_stride[%d]", i - 1), mask,
                       through);
    }
    for (int i = 0; i < mask->rank; i++)
        add_operand(arena, values, arena_format(arena, "coordinate[%d]", i), step, in + i)->line =
            true;
    for (int i = 0; i < 5; i++)
        add_operand(arena, values, lists[i], step, in + mask->rank + i)->line = true;
    return record;
}

static void lower_device_pack(EntryLowering *lowering, const Statement *statement,
                              const CallShape *mask) {
    Arena *arena = lowering->lower.arena;
    const PackSizes sizes = pack_sizes(statement, mask);
    const long others = ceil_div(sizes.others, MOEC_CHOICE_THREADS);
    const Launch by_group = launch_of(sizes.groups, MOEC_PACK_THREADS),
                 by_other = launch_of(others, MOEC_CHOICE_THREADS), one = {1, MOEC_PACK_THREADS};
    const struct {
        const char *kernel;
        Launch launch;
    } few[] = {{"moec_pack_of_few", one}},
      many[] = {{"moec_pack_count", by_group},          {"moec_pack_sum_in_place", one},
                {"moec_pack_fill", by_group},           {"moec_pack_count_others", by_other},
                {"moec_pack_sum_others_in_place", one}, {"moec_pack_list", by_other}};
    const bool is_few = sizes.others <= PACK_FEW;
    List *steps = lowering->steps, arguments = {0};
    add_param(arena, &arguments, (Param){.kind = PARAM_RECORD, .name = "pack"});
    HostStep *scope = add_call(lowering, statement, STEP_SCOPE, false);
    scope->record = pack_record(arena, scope, statement, mask);
    lowering->steps = &scope->body;
    for (size_t i = 0; i < (is_few ? 1 : sizeof many / sizeof *many); i++)
        add_launch(lowering, device_kernel(lowering, (is_few ? few : many)[i].kernel),
                   (is_few ? few : many)[i].launch, &arguments);
    lowering->steps = steps;
}

static void lower_pack(EntryLowering *lowering, const ScheduleUnit *unit) {
    const Statement *statement = unit->statement;
    const CallShape mask = call_shape(call_input(statement, 0));
    add_equation(lowering, statement);
    (lowering->target->apart ? lower_device_pack : lower_host_pack)(lowering, statement, &mask);
}

/* ---- the row ---- */

const CallRow call_pack = {
    .name = "pack",
    .kind = "pack",
    .title = "dispatch",
    .has_body = false,
    .selects = false,
    .fuses_store = false,
    .recomputed = true,
    .exchanges = false,
    .form = NULL, /* DISPATCHED, which route notes */
    .backward = 0,
    .function = {0},
    .check = check_pack,
    .print = print_pack,
    .flops = NULL,
    .along = NULL,
    .sees = NULL,
    .ahead = NULL,
    .remedy = NULL,
    .sums = NULL,
    .interpret = interpret_pack,
    .gradient = NULL,
    .decode = NULL,
    .store_caches = NULL,
    .adds_up = NULL,
    .rounds = NULL,
    .fuses_operands = NULL,
    .lower = lower_pack,
};
