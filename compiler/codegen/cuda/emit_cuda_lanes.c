/* emit_cuda_lanes: neighbours in memory read and written together.
 *
 * A thread takes several turns of an innermost loop at once. What the loop's index subscripts last
 * is read before them and written after them, 16 bytes at a time; in between each turn, a lane, has
 * its own.
 *
 *     for (long d_from = 4 * moec_thread(); d_from < 1024; d_from += 4 * moec_threads()) {
 *         float x_lanes[4], y_lanes[4];
 *         moec_read(x_lanes, &x[s * 1024 + d_from]);
 *         for (int lane = 0; lane < 4; lane++)
 *             y_lanes[lane] = x_lanes[lane] * root;
 *         moec_write(&y[s * 1024 + d_from], y_lanes);
 *     }
 *
 * Sizes divide evenly and tensors begin at multiples of 32 bytes, so there is nothing left over;
 * but of the elements of a parameter, of which only as many are read and written as there are, and
 * of a loop that stops short of the end of what it goes along (see pad.c), whose last lanes do
 * nothing. What is subscripted in any other way is read and written lane by lane.
 */
#include "codegen/emit.h"
#include "schedule/nest.h"

#include <string.h>

/* Reals to a lane's 16 bytes; twice as many where bf16 is read or written. */
enum { LANES = 4, MOST_LANES = 8 };

/* One address that is read or written by lanes. */
typedef struct LaneAccess {
    const Tensor *tensor;
    const char *address, *name;
    bool read, written;
} LaneAccess;

struct Lanes {
    const Nest *nest;
    int width;
    const char *from, *lane; /* names: of the first turn, of the number of a turn */
    bool *apart;             /* by tensor->id: one lane may touch what another writes */
    bool ends_early;         /* the last ones may be too many */
    List accesses;           /* LaneAccess * */
    Text body, *out;         /* of one turn, while it is written; where it goes */
};

/* ---- which accesses ---- */

static const Index *index_in(const Emitter *emitter, const Nest *nest, const Expr *expr) {
    if (expr->kind == EXPR_INDEX) {
        const char *name = bound_index(emitter, expr->index);
        return name && nest->text && strcmp(name, nest->text) == 0 ? expr->index : NULL;
    }
    const Index *found = NULL;
    for (int i = 0; i < expr->count && !found; i++) found = index_in(emitter, nest, expr->args[i]);
    return found;
}

static bool is_multiple(const Expr *expr, int width) {
    return expr->kind == EXPR_NUMBER && (long)expr->number % width == 0;
}

/* Neighbouring turns of the loop, beginning at a multiple of the width, are neighbours there. */
static bool goes_along(const Emitter *emitter, const Nest *nest, const Expr *sub, int width) {
    if (sub->kind == EXPR_INDEX) return index_in(emitter, nest, sub) != NULL;
    if (sub->kind != EXPR_APPLY) return false;
    bool shifts = sub->op == OP_ADD || sub->op == OP_SUB || sub->op == OP_MOD;
    return shifts && goes_along(emitter, nest, sub->args[0], width) &&
           is_multiple(sub->args[1], width);
}

static bool is_along(const Emitter *emitter, const Nest *nest, const Expr *access, int width) {
    const Tensor *tensor = access->tensor;
    int last = access->count - 1;
    const bool uneven = nest->size % width != 0; /* the last lanes may lie behind the end */
    if (uneven &&
        (last < 0 || !tensor->axes[last]->padded || access->args[last]->kind != EXPR_INDEX))
        return false;
    if (last < 0 || tensor->type == TYPE_INT ||
        (tensor->axes[last]->size % width != 0 && tensor->axes[last]->kind != AXIS_ELEMENTS) ||
        !goes_along(emitter, nest, access->args[last], width))
        return false;
    for (int i = 0; i < last; i++)
        if (index_in(emitter, nest, access->args[i])) return false;
    return true;
}

static bool is_in_variable(const Emitter *emitter, const Tensor *tensor, bool known) {
    for (int i = 0; i < emitter->kernel->locals.count; i++) {
        const Local *local = emitter->kernel->locals.items[i];
        if (local->tensor == tensor && local->kind == LOCAL_SCALAR)
            return known ? emitter->known[i] : !local->stored;
    }
    return false;
}

/* Where the first of the lanes has it, NULL when that is not certain to be there. */
static const char *address_of(Emitter *emitter, const Nest *nest, const char *from,
                              const Expr *access) {
    int bindings = emitter->binding_count;
    const char *inside, *address;
    bind_alias(emitter, index_in(emitter, nest, access->args[access->count - 1]), from);
    address = element_text(emitter, access, &inside);
    emitter->binding_count = bindings;
    return inside ? NULL : address;
}

/* ---- before ---- */

typedef struct Survey {
    Emitter *emitter;
    const Lanes *lanes;
    const Tensor *tensor;
    const char *address; /* of all accesses so far */
    int count;
    bool written, apart;
} Survey;

static void survey_access(Survey *survey, const Expr *access, bool write) {
    if (access->tensor != survey->tensor) return;
    const Lanes *lanes = survey->lanes;
    const char *address = NULL;
    bool *used = &survey->emitter->used[access->tensor->id], was = *used;
    if (is_along(survey->emitter, lanes->nest, access, lanes->width))
        address = address_of(survey->emitter, lanes->nest, lanes->from, access);
    *used = was; /* looking is no use */
    bool same = address &&
                (survey->count == 0 || (survey->address && strcmp(address, survey->address) == 0));
    survey->apart |= !same;
    survey->written |= write;
    survey->address = address;
    survey->count++;
}

/* A tensor that is written may be read ahead and written behind only at one address. */
static bool stays_apart(Emitter *emitter, const Lanes *lanes, const Tensor *tensor) {
    Survey survey = {.emitter = emitter, .lanes = lanes, .tensor = tensor};
    const Member *member;
    for (int at = 0; (member = member_at(emitter, at)) != NULL; at++) {
        List reads = {0};
        if (!is_inside(member, lanes->nest)) continue;
        if (!member->given) reads_of(emitter->arena, member->statement, &reads);
        for (int i = 0; i < reads.count; i++) survey_access(&survey, reads.items[i], false);
        if (!reduces_at(member, lanes->nest))
            survey_access(&survey, member->statement->target, true);
    }
    return survey.written && survey.apart;
}

/* Whether any access goes by lanes of that width; *halves: one of them of bf16. */
static bool has_lanes(Emitter *emitter, const Nest *nest, int width, bool *halves) {
    const Member *member;
    bool found = false;
    *halves = false;
    for (int at = 0; (member = member_at(emitter, at)) != NULL; at++) {
        List list = {0};
        if (!is_inside(member, nest)) continue;
        if (!member->given) reads_of(emitter->arena, member->statement, &list);
        writes_of(emitter->arena, member->statement, &list);
        for (int i = 0; i < list.count; i++) {
            const Expr *access = list.items[i];
            if (is_in_variable(emitter, access->tensor, false) ||
                !is_along(emitter, nest, access, width))
                continue;
            found = true;
            *halves |= access->tensor->type == TYPE_BF16;
        }
    }
    return found;
}

/* Beyond the last element there are lanes with nothing in them: no sum and no access of its own may
 * see those. */
static bool may_end_early(Emitter *emitter, const Lanes *lanes) {
    const Member *member;
    for (int at = 0; (member = member_at(emitter, at)) != NULL; at++) {
        List list = {0};
        if (!is_inside(member, lanes->nest)) continue;
        if (member->statement->reduction != REDUCE_NONE) return false;
        reads_of(emitter->arena, member->statement, &list);
        writes_of(emitter->arena, member->statement, &list);
        for (int i = 0; i < list.count; i++) {
            const Expr *access = list.items[i];
            if (access->tensor->rank && (lanes->apart[access->tensor->id] ||
                                         !is_along(emitter, lanes->nest, access, lanes->width)))
                return false;
        }
    }
    return true;
}

Lanes *lanes_of(Emitter *emitter, const Nest *nest, bool alone) {
    bool halves;
    int width = LANES;
    if (nest->step > 1 || nest->block || (nest->size % width != 0 && !alone) ||
        !is_innermost(nest) || !has_lanes(emitter, nest, width, &halves))
        return NULL;
    if (halves && (nest->size % MOST_LANES == 0 || alone) &&
        has_lanes(emitter, nest, MOST_LANES, &halves) && halves)
        width = MOST_LANES;
    return lanes_of_width(emitter, nest, width);
}

Lanes *lanes_around(Emitter *emitter, const Nest *nest) {
    bool halves;
    if (nest->step > 1 || nest->block || nest->size % LANES != 0 ||
        !has_lanes(emitter, nest, LANES, &halves))
        return NULL;
    return lanes_of_width(emitter, nest, LANES);
}

Lanes *lanes_of_width(Emitter *emitter, const Nest *nest, int width) {
    Lanes *lanes = arena_alloc(emitter->arena, sizeof *lanes);
    size_t tensors = (size_t)emitter->program->tensors.count + 1;
    *lanes = (Lanes){.nest = nest, .width = width};
    lanes->from =
        bind_name(emitter, NULL, NULL, arena_format(emitter->arena, "%s_from", nest->text));
    lanes->lane = bind_name(emitter, NULL, NULL, "lane");
    lanes->apart = arena_alloc(emitter->arena, tensors * sizeof *lanes->apart);
    for (int i = 0; i < emitter->program->tensors.count; i++)
        lanes->apart[i] = stays_apart(emitter, lanes, emitter->program->tensors.items[i]);
    lanes->ends_early = nest->index->axis->kind == AXIS_ELEMENTS;
    if (lanes->ends_early && !may_end_early(emitter, lanes)) return NULL;
    return lanes;
}

int lanes_width(const Lanes *lanes) {
    return lanes ? lanes->width : 1;
}

const char *lanes_from(const Lanes *lanes) {
    return lanes->from;
}

const char *lanes_number(const Lanes *lanes) {
    return lanes->lane;
}

/* ---- inside ---- */

const char *lane_text(Emitter *emitter, const Expr *access, bool read, bool write) {
    Lanes *lanes = emitter->lanes;
    if (!lanes || lanes->apart[access->tensor->id] ||
        is_in_variable(emitter, access->tensor, true) ||
        !is_along(emitter, lanes->nest, access, lanes->width))
        return NULL;
    const char *address = address_of(emitter, lanes->nest, lanes->from, access);
    if (!address) return NULL;
    LaneAccess *found = NULL;
    for (int i = 0; i < lanes->accesses.count && !found; i++) {
        LaneAccess *one = lanes->accesses.items[i];
        if (strcmp(one->address, address) == 0) found = one;
    }
    if (!found) {
        found = arena_alloc(emitter->arena, sizeof *found);
        const char *wanted = arena_format(emitter->arena, "%s_lanes", access->tensor->name);
        *found = (LaneAccess){access->tensor, address, bind_name(emitter, NULL, NULL, wanted),
                              false, false};
        list_push(emitter->arena, &lanes->accesses, found);
    }
    if (read && !found->written) found->read = true;
    if (write) found->written = true;
    return arena_format(emitter->arena, "%s[%s]", found->name, lanes->lane);
}

/* ---- the text ---- */

/* What reads and writes are told of the elements that are left. */
static const char *left_text(const Emitter *emitter, const Lanes *lanes) {
    return lanes->ends_early ? arena_format(emitter->arena, ", elements - %s", lanes->from) : "";
}

static void emit_reads(Emitter *emitter, const Lanes *lanes) {
    const char *left = left_text(emitter, lanes);
    for (int i = 0; i < lanes->accesses.count; i++) {
        const LaneAccess *one = lanes->accesses.items[i];
        emit_line(emitter, "float %s[%d];", one->name, lanes->width);
        if (one->read) emit_line(emitter, "moec_read(%s, &%s%s);", one->name, one->address, left);
    }
}

static void emit_writes(Emitter *emitter, const Lanes *lanes) {
    for (int i = 0; i < lanes->accesses.count; i++) {
        const LaneAccess *one = lanes->accesses.items[i];
        if (one->written)
            emit_line(emitter, "moec_write(&%s, %s%s);", one->address, one->name,
                      left_text(emitter, lanes));
    }
}

void begin_lanes(Emitter *emitter, Lanes *lanes) {
    lanes->body = (Text){.arena = emitter->arena};
    lanes->accesses = (List){0};
    lanes->out = emitter->out;
    emitter->lanes = lanes;
    emitter->out = &lanes->body;
    emitter->indent++;
}

void end_lanes(Emitter *emitter, Lanes *lanes) {
    const Nest *nest = lanes->nest;
    const Text *body = &lanes->body;
    emitter->indent--;
    emitter->out = lanes->out;
    emitter->lanes = NULL;
    emit_reads(emitter, lanes);
    text_add(emitter->out, "#pragma unroll\n");
    emit_line(emitter, "for (int %s = 0; %s < %d; %s++) {", lanes->lane, lanes->lane, lanes->width,
              lanes->lane);
    emitter->indent++;
    if (nest->size % lanes->width && !lanes->ends_early)
        emit_line(emitter, "if (%s + %s >= %ld) break;", lanes->from, lanes->lane, nest->size);
    if (body->text && occurs(body->text, nest->text))
        emit_line(emitter, "const long %s = %s + %s;", nest->text, lanes->from, lanes->lane);
    if (body->text) text_add_bytes(emitter->out, body->text, body->length);
    emitter->indent--;
    emit_line(emitter, "}");
    emit_writes(emitter, lanes);
}

void emit_lanes(Emitter *emitter, Lanes *lanes, Nest *nest, int level) {
    emit_hoisted(emitter, nest, level - 1);
    begin_lanes(emitter, lanes);
    emit_body(emitter, nest, level);
    end_lanes(emitter, lanes);
}
