/* decode: the program of one decoding step, which computes a few new positions and caches the
 * tensors that later steps read.
 *
 * Needs:   an elaborated GRAPH_DECODE program over the whole sequence.
 * Leaves:  the sequence axis has `tokens` positions, the first of which is the input `position`.
 *          Caches hold exactly the tensors that attention and x[s-1] read. Sums and selections
 *          along the sequence are reported.
 *
 *     x[b,s,d] = embedding[tokens[b,s],d]        x[b,s,d] = embedding[tokens[b,s],d]
 *     k[b,s,h,e] = ...                           k[b,s,h,e] = ...            (s: new positions)
 *     o = attend(q, k, v)                 -->    cache_k[b,position + s,h,e] = k[b,s,h,e]
 *                                                o = attend(q, cache_k, cache_v, position)
 *
 * Blocks of positions are read after their last position. A sum over the positions of each block
 * is a state, to which a step adds its positions:
 *
 *     m[b,d] = sum[t] (floor(t / 4) == b) * x[t,d]
 * --> more[b,d] = sum[t] (floor((position + t) / 4) == b) * x[t,d]       (t: new positions)
 *     m[b,d] = where(position > 0, cache_m[b,d], 0) + more[b,d]
 *     cache_m[b,d] = m[b,d]
 */
#include "transform/decode/decode.h"

#include "ir/call.h"
#include "passes.h"
#include "base/must.h"

/* ---- the new axis ---- */

static void move_index(Expr *expr, void *data) {
    const Decode *decode = data;
    if (expr->kind == EXPR_INDEX && expr->index->axis == decode->past)
        expr->index->axis = decode->step;
}

/* Of an operand with several positions the current one. */
static void move_operands(const Decode *decode, const List *operands) {
    LIST_EACH(const Expr, operand, operands) {
        const int dimension = decode->all.dimension[operand->tensor->id];
        for (int j = 0; j < operand->count; j++)
            if (dimension < 0 || j == dimension || operand->tensor->axes[j] != decode->past)
                expr_walk(operand->args[j], move_index, (void *)(uintptr_t)decode);
    }
}

static void move_indices(Statement *statement, void *data) {
    const Decode *decode = data;
    const bool sums = makes_summary(&decode->all, statement);
    for (int i = 0; i < statement->loop_count && sums; i++)
        if (statement->loops[i]->axis == decode->past) statement->loops[i]->axis = decode->step;
    if (statement_is_scan(statement) && statement->index->axis == decode->past)
        statement->index->axis = decode->step;
    if (statement->kind == STATEMENT_LOOP) {
        Index *position = current_position(&decode->all, statement);
        if (position) position->axis = decode->step;
    }
    move_operands(decode, &statement->inputs);
    move_operands(decode, &statement->outputs);
}

/* Reduces every tensor except weights to the new positions; of several dimensions, the current
 * one. */
static void move_to_step(Decode *decode) {
    Program *program = decode->program;
    block_walk(&program->body, move_indices, decode);
    for (int i = 0; i < program->tensors.count; i++) {
        Tensor *tensor = program->tensors.items[i];
        if (decode->all.dimension[i] >= 0) tensor->axes[decode->all.dimension[i]] = decode->step;
    }
    program->sequence = decode->step;
}

/* ---- reads of earlier positions ---- */

/* A position used as a number counts from the start of the sequence, and so does a subscript of
 * weights. */
static Expr *step_expr(Decode *decode, Expr *expr, const Region *region) {
    Program *program = decode->program;
    if (expr->kind == EXPR_INDEX)
        return expr->index->axis == decode->step ? absolute_position(decode, expr) : expr;
    if (!expr->count) return expr;
    bool elsewhere = expr->kind == EXPR_READ && looks_elsewhere(decode, expr);
    Expr *args[MAX_RANK] = {NULL};
    for (int i = 0; i < expr->count; i++) {
        bool here = expr->kind == EXPR_READ && expr->args[i]->kind == EXPR_INDEX &&
                    expr->args[i]->index->axis == expr->tensor->axes[i];
        args[i] = here ? expr->args[i] : step_expr(decode, expr->args[i], region);
    }
    Expr *read = expr_with_args(program, expr, args);
    if (!elsewhere) return read;
    if (is_scanned(region->scan, read->tensor)) return state_read(decode, read, region);
    Expr *ring = ring_read(decode, expr, read, region);
    if (ring) return ring;
    return history_read(decode, read, cache(decode, expr->tensor),
                        args[dimension_of(expr->tensor, decode->step)], region->repeat);
}

static bool is_new_tensor(const Decode *decode, const Statement *statement) {
    MUST(statement->kind == STATEMENT_LOOP);
    const Tensor *target = statement->target->tensor;
    return target->role == ROLE_CACHE || list_find(&decode->spread, target) >= 0 ||
           (dimension_of(target, decode->past) >= 0 && dimension_of(target, decode->step) < 0);
}

typedef void Visit(Decode *decode, Statement *statement, const Region *region);

static void visit_call(Decode *decode, Statement *statement, const Region *region) {
    if (statement->row && statement->row->decode) statement->row->decode(decode, statement, region);
}

/* Cache entries of later positions are undefined. The equation therefore keeps only its value for
 * earlier ones: sum[t] x[t] * (t <= s) becomes sum[t] where(t <= s, x[t], 0). If nothing remains,
 * p[s,t] is itself undefined and needs no change. */
static void leave_out_ahead(Decode *decode, Statement *statement) {
    MUST(statement->kind == STATEMENT_LOOP);
    Program *program = decode->program;
    const Tensor *target = statement->target->tensor;
    Index *position = current_position(&decode->all, statement);
    for (int i = 0; i < statement->loop_count && !decode->all.open[target->id]; i++) {
        Index *other = statement->loops[i];
        Expr *value = statement->value;
        if (other->axis != decode->past || !past_reads(&decode->all, value, other)) continue;
        Expr *earlier = expr_apply(program, OP_LE, expr_index(program, other),
                                   expr_index(program, position), NULL);
        statement->value = expr_apply(program, OP_WHERE, earlier,
                                      value_behind(&decode->all, value, other, position),
                                      value_ahead(&decode->all, value, other, position));
    }
}

/* The sum of the new positions of each block becomes an addition to a state. */
static void keep_summary(Decode *decode, Statement *sum, const Region *region) {
    Program *program = decode->program;
    Block made = {{NULL, 0, 0}};
    const Expr *target = sum->target;
    Tensor *tensor = target->tensor, *state = state_cache(decode, tensor, region->repeat);
    Tensor *more = tensor_new(program, arena_format(program->arena, "%s_more", tensor->name),
                              ROLE_TEMP, TYPE_REAL, tensor->rank, tensor->axes, tensor->span);
    Expr *kept = state_element(decode, state, target, region->repeat);
    Expr *later = expr_apply(program, OP_GT, expr_read(program, decode->position, NULL),
                             expr_number(program, 0), NULL);
    Expr *value = expr_apply(program, OP_ADD,
                             expr_apply(program, OP_WHERE, later, kept, expr_number(program, 0)),
                             expr_read(program, more, target->args), NULL);
    for (int i = 0; i < tensor->rank; i++)
        tensor->axes[i]->of_blocks |= is_past_axis(&decode->all, tensor->axes[i]);
    statement_assign(program, &made, expr_read(program, tensor, target->args), value, sum->span);
    statement_assign(program, &made, kept, expr_read(program, tensor, target->args), sum->span);
    sum->target = expr_read(program, more, target->args);
    list_insert(program->arena, &region->block->statements,
                list_find(&region->block->statements, sum) + 1, &made.statements);
}

static void visit_loop(Decode *decode, Statement *statement, const Region *region) {
    if (statement_is_scan(statement)) {
        bool moves = statement->index->axis == decode->step;
        Region inside = {region->block, region->repeat, moves ? statement : NULL};
        for (int i = 0; i < statement->body.statements.count; i++)
            visit_loop(decode, statement->body.statements.items[i], &inside);
        scan_operands(decode->program, statement);
    }
    if (statement->kind != STATEMENT_LOOP || is_new_tensor(decode, statement)) return;
    const int id = statement->target->tensor->id;
    const bool sums =
        id < decode->all.count && decode->all.summary[id] && runs_over(statement, decode->step);
    if (!sums) leave_out_ahead(decode, statement);
    statement->value = step_expr(decode, statement->value, region);
    if (sums) keep_summary(decode, statement, region);
}

/* Iterates over a copy of the list, because the block grows during the rewrite. */
static void decode_block(Decode *decode, Region region, Visit *visit) {
    List statements = {NULL, 0, 0};
    list_append(decode->program->arena, &statements, &region.block->statements);
    LIST_EACH(Statement, statement, &statements) {
        if (statement->kind == STATEMENT_REPEAT)
            decode_block(decode, (Region){.block = &statement->body, .repeat = statement}, visit);
        else
            visit(decode, statement, &region);
    }
}

/* A cache that grows has an entry per token, or per block of tokens; the size of a state is
 * independent of their number. */
static bool grows(const Tensor *cache) {
    for (int i = 0; i < cache->rank; i++)
        if (cache->axes[i]->kind == AXIS_SEQUENCE || cache->axes[i]->of_blocks) return true;
    return false;
}

/* Of a sequence: of the caches that grow, per position, or of the others. */
static long cache_bytes(const Program *program, bool growing) {
    const long positions = growing ? program->context : 1;
    long bytes = 0, sequences = program->batch ? program->batch->size : 1;
    LIST_EACH(const Tensor, tensor, &program->tensors)
        if (tensor->role == ROLE_CACHE && grows(tensor) == growing)
            bytes += type_bytes(tensor->type) * tensor_elements(tensor) / positions;
    return bytes / sequences;
}

long cache_bytes_per_token(const Program *program) {
    return cache_bytes(program, true);
}

long constant_bytes(const Program *program) {
    return cache_bytes(program, false);
}

/* Parameters and states stay, because all graphs share them. */
void drop_unused(Program *program) {
    bool *roots = arena_alloc(program->arena, ((size_t)program->tensors.count + 1) * sizeof *roots);
    for (int i = 0; i < program->outputs.count; i++)
        roots[((Tensor *)program->outputs.items[i])->id] = true;
    bool *kept = dead_code(program, roots);
    for (int i = 0; i < program->tensors.count; i++) {
        Role role = ((const Tensor *)program->tensors.items[i])->role;
        kept[i] |= role == ROLE_PARAMETER || role == ROLE_STATE;
    }
    tensors_keep(program, kept);
}

bool reads_examples(const Program *program) {
    LIST_EACH(const Tensor, input, &program->tensors) {
        bool token = input->declared == MOEC_INPUT_TOKEN || input->declared == MOEC_INPUT_NEXT;
        if (input->role != ROLE_INPUT || !token || input->input == input->declared) continue;
        report_invalid(
            program->reports, input->span, "use --mode forward",
            "cannot decode: the input of this model is an example, not a sequence of tokens");
        return true;
    }
    return false;
}

/* decode: see the head of this file. */
void decode(Program *program, long tokens) {
    program->loss = NULL;
    drop_unused(program);
    if (!program->sequence) {
        report_invalid(program->reports, (Span){0},
                       "train and evaluate it; it cannot generate text",
                       "cannot decode: model '%s' has no sequence", program->name);
        return;
    }
    Axis *past = program->sequence;
    Decode decode = {.program = program, .all = past_of(program), .past = past};
    if (position_values(&decode)) {
        drop_unused(program);
        decode.all = past_of(program);
    }
    if (!check_causal(program, &decode.all)) return;
    decode.step = axis_new(program, past->name, tokens, AXIS_SEQUENCE, past->span);
    program->context = past->size;
    move_to_step(&decode);
    decode.position = tensor_new(program, "position", ROLE_INPUT, TYPE_INT, 0, NULL, past->span);
    decode.position->path = "position";
    decode.position->input = MOEC_INPUT_SCALAR;
    decode.position->scalar = MOEC_SCALAR_POSITION;
    /* Recomputation copies equations that still count positions from the start. */
    decode_block(&decode, (Region){.block = &program->body}, visit_call);
    find_back(&decode);
    decode_block(&decode, (Region){.block = &program->body}, visit_loop);
    store_caches(&decode);
}
