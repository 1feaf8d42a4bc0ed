/* emit_cuda_columns: sums of a few long columns of a device, in two launches.
 *
 *     g[d] += sum[b,s] x[b,s,d]
 *
 * 32 columns are one block's, and a few of those leave most of a device idle. So each column is cut
 * into slices: the blocks of the first launch leave the sum of each slice behind, the second adds
 * those in their order.
 */
#include "codegen/emit.h"
#include "schedule/nest.h"

enum {
    COLUMNS = 32,
    BLOCKS = 264,      /* keep a device busy */
    LEAST_SLICE = 128, /* terms */
    MOST_SLICES = 32,
    THREADS = 64,        /* of a block that adds slices */
    LEAST_WORK = 1 << 18 /* less is not worth two launches */
};

/* The columns of a nest and what is summed. */
typedef struct Columns {
    Nest *loops[MAX_LOOPS + 1];
    int length;
    Nest *last, *sum; /* the last loop of the columns, the first that is summed over */
    long turns, terms, slices;
} Columns;

/* How many there are of each sum; -1 where there is anything but sums, one loop in another. */
static long terms_of(const Emitter *emitter, const Nest *sum) {
    const Member *member;
    long terms = 1;
    for (const Nest *at = sum; at; at = is_innermost(at) ? NULL : at->children.items[0]) {
        if (!is_innermost(at) && at->children.count != 1) return -1;
        terms *= at->size;
    }
    for (int i = 0; (member = member_at(emitter, i)) != NULL; i++)
        if (is_inside(member, sum) &&
            (!reduces_at(member, sum) || member->column || member->running))
            return -1;
    return terms;
}

static bool find_columns(const Emitter *emitter, Nest *nest, Columns *columns) {
    *columns = (Columns){.length = chain_of(emitter, nest), .turns = 1};
    if (columns->length == 0) return false;
    for (int i = 0; i < columns->length; i++) {
        Nest *loop = i ? columns->loops[i - 1]->children.items[0] : nest;
        columns->turns *= loop->size;
        columns->loops[i] = columns->last = loop;
    }
    if (sharing_of(emitter, nest, columns->last, columns->length) != COLUMNS_OF_THREADS ||
        columns->last->children.count != 1 || is_innermost(columns->last))
        return false;
    columns->sum = columns->last->children.items[0];
    columns->terms = terms_of(emitter, columns->sum);
    long slices = BLOCKS / ((columns->turns + COLUMNS - 1) / COLUMNS);
    if (slices > columns->terms / LEAST_SLICE) slices = columns->terms / LEAST_SLICE;
    columns->slices = slices < MOST_SLICES ? slices : MOST_SLICES;
    return columns->slices > 1 && columns->terms * columns->turns >= LEAST_WORK;
}

bool columns_in_two(const Emitter *emitter, Nest *nest) {
    Columns columns;
    return find_columns(emitter, nest, &columns);
}

static void bind_columns(Emitter *emitter, const Columns *columns) {
    for (int i = 0; i < columns->length; i++) bind_loop(emitter, columns->loops[i]);
}

/* The loop variables of the columns, before what was written of them. */
static void end_columns(Emitter *emitter, const Columns *columns, Text *out, const Text *body,
                        int bindings) {
    emitter->out = out;
    emit_places(emitter, columns->loops, columns->length, "turn", body);
    text_add_bytes(emitter->out, body->text, body->length);
    close_loop(emitter, bindings);
}

Launch emit_parts_of_columns(Emitter *emitter, Nest *nest) {
    Columns columns;
    find_columns(emitter, nest, &columns);
    const Member *member;
    Text body = {.arena = emitter->arena}, *out = emitter->out;
    int bindings = emitter->binding_count;
    long pieces = (columns.turns + COLUMNS - 1) / COLUMNS;
    long each = (columns.terms + columns.slices - 1) / columns.slices;
    bind_columns(emitter, &columns);
    emit_line(emitter,
              "for (long moec_task = moec_block(); moec_task < %ld; moec_task += moec_blocks()) {",
              pieces * columns.slices);
    emitter->indent++;
    emit_line(emitter,
              "const long moec_from = moec_task %% %ld * %d, moec_slice = moec_task / %ld;", pieces,
              COLUMNS, pieces);
    emit_line(emitter, "const long turn = moec_column(moec_from, %ld);", columns.turns);
    emit_line(emitter, "const long moec_slice_from = moec_slice * %ld;", each);
    emit_line(emitter, "const long moec_slice_to = moec_least(moec_slice_from + %ld, %ld);", each,
              columns.terms);
    emitter->out = &body;
    emit_hoisted(emitter, columns.last, columns.length - 1);
    emit_shared_loop(emitter, columns.sum, columns.length, COLUMNS_IN_SLICES);
    for (int i = 0, number = 0; (member = member_at(emitter, i)) != NULL; i++)
        if (reduces_at(member, columns.sum))
            emit_line(emitter,
                      "if (moec_thread() < %d && moec_from + moec_thread() == turn) "
                      "moec_parts[(%ld + moec_slice) * %ld + turn] = %s;",
                      COLUMNS, columns.slices * number++, columns.turns, member->sum);
    end_columns(emitter, &columns, out, &body, bindings);
    const size_t floats =
        (size_t)(columns.slices * columns.turns) * (size_t)emitter->kernel->members.count;
    if (4 * floats > emitter->scratch_bytes) emitter->scratch_bytes = 4 * floats;
    return (Launch){arena_format(emitter->arena, "%ld", pieces * columns.slices), 1024};
}

Launch emit_sums_of_columns(Emitter *emitter, Nest *nest) {
    static const char *const joins[] = {"", "MoecSum", "MoecMax", "MoecMin"};
    Columns columns;
    find_columns(emitter, nest, &columns);
    const Member *member;
    Text body = {.arena = emitter->arena}, *out = emitter->out;
    int bindings = emitter->binding_count;
    bind_columns(emitter, &columns);
    emit_line(emitter, "for (long turn = moec_first(); turn < %ld; turn += moec_step()) {",
              columns.turns);
    emitter->indent++;
    emitter->out = &body;
    emit_hoisted(emitter, columns.last, columns.length - 1);
    begin_sums(emitter, columns.sum, false);
    emit_line(emitter, "for (long moec_slice = 0; moec_slice < %ld; moec_slice++) {",
              columns.slices);
    emitter->indent++;
    for (int i = 0, number = 0; (member = member_at(emitter, i)) != NULL; i++)
        if (reduces_at(member, columns.sum))
            emit_line(emitter, "%s = %s::join(%s, moec_parts[(%ld + moec_slice) * %ld + turn]);",
                      member->sum, joins[member->statement->reduction], member->sum,
                      columns.slices * number++, columns.turns);
    emitter->indent--;
    emit_line(emitter, "}");
    end_sums(emitter, columns.sum);
    end_columns(emitter, &columns, out, &body, bindings);
    return (Launch){arena_format(emitter->arena, "%ld", (columns.turns + THREADS - 1) / THREADS),
                    THREADS};
}
