/* lower_device_ahead: prefetches of weights by launches of row products.
 *
 * The weights of all row products of a program form a stream, in the order of their launches. A
 * launch requests a part of the stream that starts after its own weights: memory is then busy while
 * later launches wait for their rows. moec_read_ahead in runtime/kernels/product_row.cuh selects
 * the part.
 *
 *     moec_read_ahead<2097152, 25690112, 0, 11534336, 5767168>(up + i * D * F);
 *     if (i + 1 < 16) {
 *         moec_read_ahead<2097152, 25690112, 17301504, 6291456, 2097152>(query + (i + 1) * D * H);
 */
#include "lower/lower_entry.h"

/* The farthest byte of the stream after the own weights that a launch can request. */
enum { AHEAD_LIMIT = 48 << 20 };

/* The launches after the current one. */
typedef struct WeightStream {
    EntryLowering *lowering;
    TemplateVariant *variant;
    long own, reach, at; /* bytes of the current launch; of all that are known; since the current */
    const Term *condition; /* of the next launches, or NULL */
} WeightStream;

/* The bytes of the matrix of a row product, all of which its launch reads; 0 if a launch before may
 * write it, or if other bytes are in between. */
static long matrix_bytes(const ScheduleUnit *unit) {
    const Product *product = &unit->contraction->product;
    const Tensor *tensor = unit->contraction->b->tensor;
    const bool along = product->b_k == 1;
    if (!row_matrix_is_fixed(tensor)) return 0;
    if ((along ? product->b_n : product->b_k) != (along ? product->k : product->n)) return 0;
    return product->n * product->k * type_bytes(tensor->type);
}

/* The same of a launch. */
static long launch_bytes(const List *units, int first, int count) {
    long bytes = 0;
    for (int i = first; i < first + count; i++) {
        const ScheduleUnit *unit = units->items[i];
        bytes += matrix_bytes(unit);
        if (unit->paired_row) bytes += matrix_bytes(unit->paired_row);
    }
    return bytes;
}

static void read_matrix(WeightStream *stream, const ScheduleUnit *unit, long all) {
    Lowering *lower = &stream->lowering->lower;
    Arena *arena = lower->arena;
    const long bytes = matrix_bytes(unit);
    if (!bytes) return;
    TemplateCall call = {.blocks = stream->condition,
                         .function = template_of(arena, "moec_read_ahead", "nnnnn", stream->own,
                                                 stream->reach, stream->at, all, bytes)};
    add_template_argument(arena, &call.arguments, pointer_term(lower, unit->contraction->b));
    list_copy(arena, &stream->variant->ahead, &call, sizeof call);
}

static int launch_end(const List *units, int at) {
    do at++;
    while (at < units->count && ((const ScheduleUnit *)units->items[at])->beside);
    return at;
}

/* Adds the row products of units first .. end - 1, which are in program order. */
static void read_units(WeightStream *stream, const List *units, int first, int end) {
    for (int at = first, next; at < end && stream->at < AHEAD_LIMIT; at = next) {
        const ScheduleUnit *unit = units->items[at];
        next = launch_end(units, at);
        if (unit->kind == UNIT_REPEAT) return;
        if (unit->kind != UNIT_CONTRACTION || !unit->row) continue;
        const long bytes = launch_bytes(units, at, next - at);
        for (int i = at; i < next; i++) {
            const ScheduleUnit *row = units->items[i];
            read_matrix(stream, row, bytes);
            if (row->paired_row) read_matrix(stream, row->paired_row, bytes);
        }
        stream->at += bytes;
    }
}

/* The launches of the next iteration of the enclosing repeat; after the last one, those after the
 * repeat. */
static void read_around(WeightStream *stream, int end) {
    EntryLowering *lowering = stream->lowering;
    Lowering *lower = &lowering->lower;
    Arena *arena = lower->arena;
    const EnclosingRepeat *around = lowering->around;
    const Index *index = around->repeat->statement->index;
    const int bindings = lower->binding_count;
    const long at = stream->at;
    if (around->repeat->statement->reverse) return;
    const Term *next = term(arena, TERM_ADD, index_term(lower, (Index *)(uintptr_t)index),
                            whole(lower, 1)),
               *count = whole(lower, index->axis->size);
    stream->condition = term(arena, TERM_EQ, next, count);
    read_units(stream, around->units, around->at + 1, around->units->count);
    stream->condition = term(arena, TERM_LT, next, count);
    stream->at = at;
    bind_index(lower, index, next);
    read_units(stream, &around->repeat->body, 0, end);
    lower->binding_count = bindings;
}

/* Bytes of an iteration of the body of a repeat. */
static long iteration_bytes(const List *units) {
    long bytes = 0;
    for (int at = 0, next; at < units->count; at = next) {
        next = launch_end(units, at);
        if (((const ScheduleUnit *)units->items[at])->row)
            bytes += launch_bytes(units, at, next - at);
    }
    return bytes;
}

/* Weights of the prologue. */
typedef struct Early {
    EntryLowering *lowering;
    TemplateVariant *variant;
    List done; /* const Expr * */
} Early;

static void read_early(Expr *read, void *data) {
    Early *early = data;
    Lowering *lower = &early->lowering->lower;
    if (read->kind != EXPR_READ || read->tensor->role != ROLE_PARAMETER || !read->count) return;
    const Axis *last = read->tensor->axes[read->tensor->rank - 1];
    const long bytes = last->size * type_bytes(read->tensor->type);
    for (int i = 0; i < early->done.count; i++)
        if (expr_equal(early->done.items[i], read)) return;
    if (read->args[read->count - 1]->kind != EXPR_INDEX || bytes % 16 ||
        place_alignment(lower, read) < 16)
        return;
    list_push(lower->arena, &early->done, read);
    TemplateCall call = {.function = template_of(lower->arena, "moec_read_early", "n", bytes)};
    add_template_argument(lower->arena, &call.arguments, pointer_term(lower, read));
    list_copy(lower->arena, &early->variant->ahead, &call, sizeof call);
}

void add_weights_early(EntryLowering *lowering, TemplateVariant *variant, const Kernel *prologue) {
    Early early = {.lowering = lowering, .variant = variant};
    for (int i = 0; i < prologue->members.count; i++)
        expr_walk(((const Member *)prologue->members.items[i])->statement->value, read_early,
                  &early);
}

void add_weights_ahead(EntryLowering *lowering, TemplateVariant *variant, const List *units,
                       int first, int count) {
    const bool repeated = lowering->around && units == &lowering->around->repeat->body;
    WeightStream stream = {.lowering = lowering,
                           .variant = variant,
                           .own = launch_bytes(units, first, count),
                           .reach = AHEAD_LIMIT};
    if (repeated && iteration_bytes(units) < AHEAD_LIMIT) stream.reach = iteration_bytes(units);
    if (!stream.own) return;
    read_units(&stream, units, first + count, units->count);
    if (repeated) read_around(&stream, first + count);
}
