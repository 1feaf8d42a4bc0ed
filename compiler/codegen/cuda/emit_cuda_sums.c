/* emit_cuda_sums: nests of a device whose loops all put together what they compute: sums over
 * everything, in two launches, and scatters, row by row of the target.
 *
 *     e[tokens[b,s],d] += x[b,s,d]       a block for each token; where it is the first that names
 * its row of e, it looks through those behind it for that row and adds what belongs to them, in
 * their order; where e has fewer rows than there are tokens, a block for each row does so
 */
#include "codegen/emit.h"
#include "schedule/nest.h"

#include <string.h>

/* Blocks of a sum in two launches; fewer operations than LEAST_WORK are not worth two. */
/* AT_ONCE: places that a thread looks at between two looks at what the others have found. */
enum { PARTS = 256, THREADS = 256, AT_ONCE = 8, LEAST_WORK = 1 << 18, MOST_ROWS = 1 << 20 };

/* ---- sums over everything ---- */

static bool sums_everything(const Emitter *emitter, const Nest *nest) {
    const Member *member;
    double work = 0;
    for (int i = 0; (member = member_at(emitter, i)) != NULL; i++) {
        if (!is_inside(member, nest)) continue;
        if (!reduces_at(member, nest)) return false;
        work += statement_work(member->statement);
    }
    return work >= LEAST_WORK;
}

bool sums_in_two(const Emitter *emitter, const Nest *nest) {
    for (const Nest *at = nest; at; at = at->children.items[0]) {
        if (at->member) return sums_everything(emitter, nest);
        if (at->children.count != 1 && !is_innermost(at)) return false;
    }
    return false;
}

void emit_parts_of_sums(Emitter *emitter, Nest *nest) {
    Member *member;
    int bindings = emitter->binding_count;
    emit_shared_loop(emitter, nest, 0, SHARED_BY_ALL);
    for (int i = 0, number = 0; (member = member_at(emitter, i)) != NULL; i++)
        if (reduces_at(member, nest))
            emit_line(emitter, "if (moec_thread() == 0) moec_parts[%d + moec_block()] = %s;",
                      PARTS * number++, member->sum);
    emitter->binding_count = bindings;
    const size_t bytes = (size_t)emitter->kernel->members.count * PARTS * 4;
    if (bytes > emitter->scratch_bytes) emitter->scratch_bytes = bytes;
}

Launch emit_sums_of_parts(Emitter *emitter, Nest *nest) {
    static const char *const joins[] = {"", "MoecSum", "MoecMax", "MoecMin"};
    static const char *const names[] = {"", "sum", "max", "min"};
    Member *member;
    emitter->owner = "moec_thread() == 0";
    begin_sums(emitter, nest, false);
    for (int i = 0, number = 0; (member = member_at(emitter, i)) != NULL; i++) {
        if (!reduces_at(member, nest)) continue;
        Reduction reduction = member->statement->reduction;
        emit_line(emitter, "%s = %s::join(%s, moec_parts[%d + moec_thread()]);", member->sum,
                  joins[reduction], member->sum, PARTS * number++);
        emit_line(emitter, "%s = moec_block_%s(%s);", member->sum, names[reduction], member->sum);
    }
    end_sums(emitter, nest);
    emitter->owner = NULL;
    return (Launch){"1", PARTS};
}

Launch launch_of_parts(void) {
    return (Launch){"256", THREADS};
}

/* ---- scatters ---- */

static long turns_of(const Member *member, int from, int to) {
    long turns = 1;
    for (int i = from; i < to; i++) turns *= member->path[i]->size;
    return turns;
}

/* Rows of the target: the places that computed subscripts can name. */
static long rows_of(const Member *member) {
    const Expr *target = member->statement->target;
    double rows = 1;
    for (int i = 0; i < target->count; i++)
        if (is_computed(target->args[i])) rows *= (double)target->tensor->axes[i]->size;
    return rows <= MOST_ROWS ? (long)rows : 0;
}

static Member *only_member(const Emitter *emitter, const Nest *nest) {
    Member *member, *only = NULL;
    for (int i = 0; (member = member_at(emitter, i)) != NULL; i++) {
        if (!is_inside(member, nest)) continue;
        if (only) return NULL;
        only = member;
    }
    return only;
}

bool scatters_rows(const Emitter *emitter, const Nest *nest) {
    const Member *member = only_member(emitter, nest);
    if (!member || member->kept == member->depth || !member->statement->accumulate ||
        member->statement->reduction != REDUCE_NONE ||
        member->statement->target->tensor->type != TYPE_REAL)
        return false;
    return rows_of(member) > 1 && turns_of(member, member->kept, member->depth) < 1L << 31;
}

/* The row that an iteration adds to, and the condition under which there is one. */
static const char *row_text(Emitter *emitter, const Expr *target, const char **inside) {
    const char *row = NULL;
    element_text(emitter, target, inside);
    for (int i = 0; i < target->count; i++) {
        if (!is_computed(target->args[i])) continue;
        const char *sub = integer_text(emitter, target->args[i]);
        row = row ? arena_format(emitter->arena, "(%s) * %ld + %s", row,
                                 target->tensor->axes[i]->size, sub)
                  : sub;
    }
    return row;
}

static Text begin_text(Emitter *emitter, Text **out) {
    *out = emitter->out;
    return (Text){.arena = emitter->arena};
}

/* `found` becomes what `format` says of the row that turn `part` adds to, where there is one. */
static void emit_row_of_part(Emitter *emitter, const Member *member, const char *format) {
    Text body, *out;
    Nest *loops[MAX_LOOPS + 1];
    int count = member->depth - member->kept;
    const char *inside, *row = row_text(emitter, member->statement->target, &inside);
    for (int i = 0; i < count; i++) loops[i] = member->path[member->kept + i];
    body = begin_text(emitter, &out);
    emitter->out = &body;
    if (inside) emit_line(emitter, "if (%s)", inside);
    emitter->indent += inside != NULL;
    emit_line(emitter, format, row);
    emitter->indent -= inside != NULL;
    emitter->out = out;
    emit_places(emitter, loops, count, "part", &body);
    text_add_bytes(emitter->out, body.text, body.length);
}

/* Which of the next turns add to `row`: their numbers in order, in `hits`. */
static void emit_hits(Emitter *emitter, const Member *member, long turns) {
    emit_line(emitter, "const long part = from + moec_thread();");
    emit_line(emitter, "bool hit = false;");
    emit_line(emitter, "if (part < %ld) {", turns);
    emitter->indent++;
    emit_row_of_part(emitter, member, "hit = %s == row;");
    emitter->indent--;
    emit_line(emitter, "}");
    emit_line(emitter, "int found;");
    emit_line(emitter, "const int before = moec_block_before(hit, &found);");
    emit_line(emitter, "if (hit) hits[before] = (int)part;");
    emit_line(emitter, "moec_barrier();");
}

/* The turn whose number is `place`, as the loop variables that `body` names, and what it does. */
static void emit_turn(Emitter *emitter, const Member *member, const char *place, const Text *body) {
    emit_line(emitter, "const long of = %s;", place);
    emit_places(emitter, member->path + member->kept, member->depth - member->kept, "of", body);
    text_add_bytes(emitter->out, body->text, body->length);
}

/* What is done with `sum`, or with that of each lane. */
static Text lane_work(Emitter *emitter, Lanes *lanes, Member *member, bool store) {
    Text *out, text = begin_text(emitter, &out);
    const char *sum = lanes ? arena_format(emitter->arena, "sum[%s]", lanes_number(lanes)) : "sum";
    emitter->out = &text;
    if (lanes) begin_lanes(emitter, lanes);
    if (store)
        emit_store(emitter, member, sum);
    else
        emit_line(emitter, "%s += %s;", sum,
                  bare(emitter->arena, real_text(emitter, member->statement->value)));
    if (lanes) end_lanes(emitter, lanes);
    emitter->out = out;
    return text;
}

/* The places of the columns that a thread takes, and what it does there. */
static void emit_columns(Emitter *emitter, const Member *member, Lanes *lanes, const Text *inner) {
    Nest *last = lanes ? member->path[member->kept - 1] : NULL;
    const char *text = last ? last->text : NULL;
    const char *times = lanes ? arena_format(emitter->arena, "%d * ", lanes_width(lanes)) : "";
    emit_line(emitter,
              "for (long column = %smoec_thread(); column < %ld; column += %smoec_threads()) {",
              times, turns_of(member, 0, member->kept), times);
    emitter->indent++;
    if (last) last->text = lanes_from(lanes);
    emit_places(emitter, member->path, member->kept, "column", inner);
    if (last) last->text = text;
    emitter->indent--;
    text_add_bytes(emitter->out, inner->text, inner->length);
    emit_line(emitter, "}");
}

/* Adds up what belongs to a row, column by column, and adds the sum to it. first: the number of one
 * of its turns; loop: over all, `place` is the number of each. */
static void emit_additions(Emitter *emitter, Member *member, const char *first, const char *loop,
                           const char *place) {
    Text work, *out, inner = begin_text(emitter, &out);
    Lanes *lanes = member->kept ? lanes_around(emitter, member->path[member->kept - 1]) : NULL;
    emitter->out = &inner;
    if (lanes)
        emit_line(emitter, "    float sum[%d] = {};", lanes_width(lanes));
    else
        emit_line(emitter, "    float sum = 0.0f;");
    emit_line(emitter, "    %s", loop);
    emitter->indent += 2;
    work = lane_work(emitter, lanes, member, false);
    emit_turn(emitter, member, place, &work);
    emitter->indent--;
    emit_line(emitter, "}");
    work = lane_work(emitter, lanes, member, true);
    emit_turn(emitter, member, first, &work);
    emitter->indent--;
    emitter->out = out;
    emit_columns(emitter, member, lanes, &inner);
}

/* The row of the block's own turn, and whether one before has it already: then that one's block
 * adds to it. */
static void emit_first(Emitter *emitter, const Member *member) {
    emit_line(emitter, "long row = -1;");
    emit_line(emitter, "{");
    emitter->indent++;
    emit_line(emitter, "const long part = own;");
    emit_row_of_part(emitter, member, "row = %s;");
    emitter->indent--;
    emit_line(emitter, "}");
    emit_line(emitter, "int earlier = row < 0;");
    emit_line(emitter, "for (long from = 0; from < own && !earlier; from += %d * moec_threads()) {",
              AT_ONCE);
    emitter->indent++;
    emit_line(emitter, "const long end = moec_least(own, from + %d * moec_threads());", AT_ONCE);
    emit_line(emitter, "bool hit = false;");
    emit_line(emitter,
              "for (long part = from + moec_thread(); part < end; part += moec_threads()) {");
    emitter->indent++;
    emit_row_of_part(emitter, member, "hit |= %s == row;");
    emitter->indent--;
    emit_line(emitter, "}");
    emit_line(emitter, "moec_block_before(hit, &earlier);");
    emitter->indent--;
    emit_line(emitter, "}");
    emit_line(emitter, "if (earlier) continue;");
}

static void emit_searched(Emitter *emitter, Member *member, const char *first, long turns) {
    emit_line(emitter, "for (long from = %s; from < %ld; from += moec_threads()) {", first, turns);
    emitter->indent++;
    emit_hits(emitter, member, turns);
    emit_line(emitter, "if (found > 0)");
    emitter->indent++;
    emit_additions(emitter, member, "hits[0]", "for (int n = 0; n < found; n++) {", "hits[n]");
    emitter->indent--;
    emit_line(emitter, "moec_barrier();");
    emitter->indent--;
    emit_line(emitter, "}");
}

/* The same where a relation has listed the rows of each entry. */
static void emit_listed(Emitter *emitter, Member *member, const Relation *relation) {
    const char *start = emitter->names[relation->start->id],
               *list = emitter->names[relation->list->id];
    emitter->used[relation->start->id] = emitter->used[relation->list->id] = true;
    emit_line(emitter, "const long from = %s[row], end = %s[row + 1];", start, start);
    emit_line(emitter, "if (from < end)");
    emitter->indent++;
    emit_additions(emitter, member, arena_format(emitter->arena, "%s[from]", list),
                   "for (long n = from; n < end; n++) {",
                   arena_format(emitter->arena, "%s[n]", list));
    emitter->indent--;
}

/* The last dimensions are the columns, whole and in order; returns how many dimensions are left, or
 * -1. */
static int before_columns(const Expr *access, const Member *member) {
    int left = access->count;
    for (int i = member->kept - 1; i >= 0; i--) {
        const Expr *sub = left > 0 ? access->args[left - 1] : NULL;
        if (!sub || sub->kind != EXPR_INDEX || sub->index != member->order[i] ||
            access->tensor->axes[left - 1]->size != member->path[i]->size)
            return -1;
        left--;
    }
    return left;
}

/* Whole rows of a tensor are added to whole rows of the target. */
static bool adds_rows(const Member *member) {
    const Expr *value = member->statement->value, *target = member->statement->target;
    if (value->kind != EXPR_READ) return false;
    int row = before_columns(value, member) - 1, last = before_columns(target, member) - 1;
    if (row < 0 || last < 0 || value->args[row]->kind != EXPR_INDEX ||
        value->args[row]->index != member->order[member->kept] || !is_computed(target->args[last]))
        return false;
    while (last >= 0 && is_computed(target->args[last])) last--;
    for (; last >= 0; last--)
        if (is_computed(target->args[last])) return false;
    return true;
}

/* By a template, several columns at a time; rows: of the target. False when that cannot be. */
static bool emit_added_rows(Emitter *emitter, const Member *member, const Relation *relation,
                            long rows, Launch *launch) {
    const Expr *value = member->statement->value, *target = member->statement->target;
    const long columns = turns_of(member, 0, member->kept);
    if (!adds_rows(member)) return false;
    const int width = value->tensor->type == TYPE_BF16 ? 8 : 4;
    if (columns % width) return false;
    const Tensor *lists[] = {relation->start, relation->list};
    for (int i = 0; i < 2; i++) emitter->used[lists[i]->id] = true;
    emitter->written[target->tensor->id] = true;
    emit_line(emitter, "moec_add_rows<%d>(%s, %s, %ld, %ld, %s, %s);", width,
              emitter->names[lists[0]->id], emitter->names[lists[1]->id], rows, columns,
              pointer_text(emitter, value), pointer_text(emitter, target));
    long blocks = (rows * columns / width + THREADS - 1) / THREADS;
    *launch = (Launch){arena_format(emitter->arena, "%ld", blocks), THREADS};
    return true;
}

Launch emit_scatter(Emitter *emitter, Nest *nest) {
    Member *member = only_member(emitter, nest);
    const Relation *relation = listed_rows(emitter->program, member->statement);
    Launch launch;
    if (member->depth - member->kept != 1) relation = NULL;
    if (relation && emit_added_rows(emitter, member, relation, rows_of(member), &launch))
        return launch;
    long rows = rows_of(member), turns = turns_of(member, member->kept, member->depth);
    bool by_turn = !relation && rows > turns;
    long blocks = by_turn ? turns : rows;
    const char *block = by_turn ? "own" : "row";
    int bindings = emitter->binding_count;
    bind_scatter_names(emitter);
    for (int i = 0; i < member->depth; i++) bind_loop(emitter, member->path[i]);
    if (!relation) emit_line(emitter, "__shared__ int hits[%d];", THREADS);
    emit_line(emitter, "for (long %s = moec_block(); %s < %ld; %s += moec_blocks()) {", block,
              block, blocks, block);
    emitter->indent++;
    if (by_turn) emit_first(emitter, member);
    if (relation)
        emit_listed(emitter, member, relation);
    else
        emit_searched(emitter, member, by_turn ? "own" : "0", turns);
    close_loop(emitter, bindings);
    return (Launch){arena_format(emitter->arena, "%ld", blocks), THREADS};
}
