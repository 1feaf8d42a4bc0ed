/* move_rows: rewrites the statements over rows for divided parameters, see mesh_rows.c. */
#include "ir/call.h"
#include "transform/mesh/move_rows.h"

/* Rows that were copied to the other side: the value of `source` for each row. */
typedef struct MovedRows {
    Expr *source;
    Index *loops[MAX_LOOPS]; /* the rows, then the dimensions of the result */
    int count;
    Tensor *result;
} MovedRows;

void refuse_rows(RowMove *move, const char *what) {
    Reports *reports = move->program->reports;
    if (move->keyed->failed) return;
    report_caused(reports, move->statement->asked, move->statement->span, "computed here",
                  "parameters cannot be divided over %s: %s", mesh_axis_name(MESH_EXPERT), what);
    report_help(reports, "omit %s in --mesh", mesh_axis_name(MESH_EXPERT));
    move->keyed->failed = true;
}

/* ---- kinds of expressions ---- */

static bool has_own_rows(const RowMove *move, const Tensor *tensor) {
    RowSides *sides;
    return rows_dimension_of(move->keyed, tensor, &sides) >= 0 && !on_key_side(move->keyed, tensor);
}

/* True if its value belongs to the process of the token. */
static bool needs_sender(const RowMove *move, const Expr *expr) {
    if (expr->kind == EXPR_INDEX) return expr->index == move->row;
    if (draws_numbers(move->keyed, expr)) return true;
    if (expr->kind == EXPR_READ) {
        if (key_number(move->keyed, expr) >= 0) return false;
        if (is_of_sender(move->keyed, expr->tensor) || has_own_rows(move, expr->tensor))
            return true;
        if (expr->tensor == move->program->mesh_index[MESH_DATA]) return true;
    }
    RowSides *sides;
    const int rows =
        expr->kind == EXPR_READ ? rows_dimension_of(move->keyed, expr->tensor, &sides) : -1;
    for (int i = 0; i < expr->count; i++)
        if (i != rows && needs_sender(move, expr->args[i])) return true;
    return false;
}

/* The loops of an expression other than the rows, in the order of the statement. */
static int loops_of_row(const RowMove *move, const Expr *expr, Index **loops) {
    int count = 0;
    for (int i = 0; i < move->statement->loop_count; i++) {
        Index *index = move->statement->loops[i];
        if (index != move->row && expr_uses_index(expr, index)) loops[count++] = index;
    }
    return count;
}

/* The most dimensions of a read of tokens in it. */
static int widest_read(const RowMove *move, const Expr *expr) {
    Index *loops[MAX_LOOPS];
    if (expr->kind == EXPR_READ)
        return needs_sender(move, expr) ? loops_of_row(move, expr, loops) : 0;
    int most = 0;
    for (int i = 0; i < expr->count; i++) {
        const int own = widest_read(move, expr->args[i]);
        if (own > most) most = own;
    }
    return most;
}

/* ---- copies of rows ---- */

static const MovedRows *find_moved(const RowMove *move, const Expr *source, Index *const *loops,
                                   int count) {
    LIST_EACH(const MovedRows, known, &move->moved)
        if (known->count == count && known->loops[0]->axis == loops[0]->axis &&
            expr_matches(known->source, known->loops, source, loops, count))
            return known;
    return NULL;
}

static void forget_moved(RowMove *move, const Tensor *written) {
    int kept = 0;
    LIST_EACH(MovedRows, known, &move->moved)
        if (!expr_reads(known->source, written)) move->moved.items[kept++] = known;
    move->moved.count = kept;
}

Tensor *rows_tensor(RowMove *move, const char *name, const char *part, Type type,
                    Index *const *loops, int count, Axis *rows) {
    Axis *axes[MAX_RANK] = {rows};
    if (count > MAX_RANK) {
        refuse_rows(move, "its rows would have too many dimensions");
        count = MAX_RANK;
    }
    for (int i = 1; i < count; i++) axes[i] = loops[i]->axis;
    const char *full = arena_format(move->program->arena, "%s_%s", name, part);
    return tensor_new(move->program, full, ROLE_TEMP, type, count, axes, move->statement->span);
}

Expr *whole_read(Program *program, Tensor *tensor) {
    Index *indices[MAX_RANK];
    for (int i = 0; i < tensor->rank; i++) indices[i] = index_over(program, tensor->axes[i]);
    return expr_read_indices(program, tensor, indices);
}

void add_exchange(RowMove *move, CollectiveKind kind, Expr *from, Expr *to) {
    Program *program = move->program;
    Statement *exchange = collective_new(program, move->made, kind, MESH_EXPERT,
                                         move->statement->span, move->statement->asked);
    exchange->application = move->statement->application;
    exchange->collective.keys = key_axis(move->sides->relation, 0)->size;
    exchange->collective.each = move->sides->each;
    list_push(program->arena, &exchange->inputs, from);
    list_push(program->arena, &exchange->inputs, whole_read(program, move->sides->table));
    list_push(program->arena, &exchange->outputs, to);
}

static void note_moved(RowMove *move, Expr *source, Index *const *loops, int count,
                       Tensor *result) {
    MovedRows moved = {.source = source, .count = count, .result = result};
    for (int i = 0; i < count; i++) moved.loops[i] = loops[i];
    list_copy(move->program->arena, &move->moved, &moved, sizeof moved);
}

/* rows[r, ...] = expr, for the rows of the own tokens. */
static Tensor *collect_rows_of(RowMove *move, Expr *expr, Index *const *loops, int count) {
    Program *program = move->program;
    const bool read = expr->kind == EXPR_READ;
    const Type type = read ? expr->tensor->type : expr_is_whole(expr) ? TYPE_INT : TYPE_REAL;
    Tensor *rows =
        rows_tensor(move, read ? expr->tensor->name : move->statement->target->tensor->name, "rows",
                    type, loops, count, move->sides->rows);
    Block block = {{NULL, 0, 0}};
    Statement *copy = statement_assign(program, &block, expr_read_indices(program, rows, loops),
                                       expr, move->statement->span);
    copy->asked = move->statement->asked;
    copy->application = move->statement->application;
    copy->bound = move->statement->bound;
    list_push(program->arena, move->made, copy);
    return rows;
}

/* The value of an expression of the tokens, at the received rows. */
static Expr *send(RowMove *move, Expr *expr) {
    Program *program = move->program;
    Index *loops[MAX_LOOPS] = {move->row};
    const int count = 1 + loops_of_row(move, expr, loops + 1);
    const MovedRows *known = find_moved(move, expr, loops, count);
    Tensor *result = known ? known->result : NULL;
    if (!known) {
        Tensor *rows = collect_rows_of(move, expr, loops, count);
        result =
            rows_tensor(move, rows->name, "here", rows->type, loops, count, move->sides->received);
        add_exchange(move, COLLECTIVE_DISPATCH, whole_read(program, rows),
                     whole_read(program, result));
        note_moved(move, expr, loops, count, result);
    }
    loops[0] = move->received;
    return expr_read_indices(program, result, loops);
}

/* A read of received rows, by the rows of the tokens. */
static Expr *bring_back(RowMove *move, Expr *read) {
    Program *program = move->program;
    RowSides *sides;
    const int rows = rows_dimension_of(move->keyed, read->tensor, &sides);
    Expr *from[MAX_RANK], *subs[MAX_RANK], *slice[MAX_RANK];
    Index *loops[MAX_LOOPS];
    int count = 0;
    for (int i = 0; i < read->count; i++) {
        Axis *axis = read->tensor->axes[i];
        const bool step = axis->kind == AXIS_REPEAT && read->args[i]->kind != EXPR_READ &&
                          !(read->args[i]->kind == EXPR_INDEX && !read->args[i]->index->of_repeat);
        from[i] = slice[i] = read->args[i];
        if (step) continue;
        if ((i == rows) != (count == 0)) refuse_rows(move, "the rows are not the first dimension");
        loops[count] = index_new(program, axis->name, i == rows ? sides->rows : axis);
        from[i] = expr_index(program, i == rows ? index_over(program, axis) : loops[count]);
        slice[i] = expr_index(program, loops[count]);
        subs[count++] = read->args[i];
    }
    Expr *source = arena_alloc(program->arena, sizeof *source);
    *source = *read;
    source->args = arena_alloc(program->arena, sizeof slice);
    for (int i = 0; i < read->count; i++) source->args[i] = slice[i];
    const MovedRows *known = count ? find_moved(move, source, loops, count) : NULL;
    Tensor *result = known ? known->result : NULL;
    RowSides *const own = move->sides;
    move->sides = sides;
    if (!known) {
        result = rows_tensor(move, read->tensor->name, "back", read->tensor->type, loops, count,
                             sides->rows);
        result->vocabulary = read->tensor->vocabulary;
        if (!sides->relation)
            refuse_rows(move, "a result is read before its rows are known");
        else
            add_exchange(move, COLLECTIVE_COMBINE, expr_read(program, read->tensor, from),
                         whole_read(program, result));
        note_moved(move, source, loops, count, result);
    }
    move->sides = own;
    return expr_read(program, result, subs);
}

/* ---- statements at the keys ---- */

Expr *access_at_keys(RowMove *move, Expr *access) {
    Program *program = move->program;
    const Tensor *tensor = access->tensor;
    RowSides *sides;
    const int rows = rows_dimension_of(move->keyed, tensor, &sides);
    Expr *subs[MAX_RANK] = {NULL};
    for (int i = 0; i < access->count; i++) {
        Expr *sub = access->args[i];
        if (i == rows) {
            if (sub->kind != EXPR_INDEX || sub->index != move->row)
                refuse_rows(move, "a row reads other rows");
            subs[i] = expr_index(program, move->received);
        } else if (is_keyed(tensor) && tensor->role == ROLE_GRADIENT &&
                   i == tensor->placed[MESH_EXPERT].dimension) {
            subs[i] = expr_read_indices(program, move->sides->slot, &move->received);
        } else {
            subs[i] = at_keys(move, sub);
        }
    }
    Expr *result = expr_read(program, access->tensor, subs);
    result->span = access->span;
    return result;
}

Expr *at_keys(RowMove *move, Expr *expr) {
    const int key = key_number(move->keyed, expr);
    if (key >= 0) return expr_read_indices(move->program, move->sides->keys[key], &move->received);
    if (draws_numbers(move->keyed, expr)) return send(move, expr);
    if (needs_sender(move, expr) && !reads_keyed(move->keyed, expr)) {
        Index *loops[MAX_LOOPS];
        const bool tokens = expr->kind != EXPR_READ || is_of_sender(move->keyed, expr->tensor) ||
                            has_own_rows(move, expr->tensor) ||
                            expr->tensor == move->program->mesh_index[MESH_DATA];
        if (tokens && loops_of_row(move, expr, loops) <= widest_read(move, expr))
            return send(move, expr);
        if (expr->kind == EXPR_INDEX) return send(move, expr);
    }
    if (expr->kind == EXPR_READ) return access_at_keys(move, expr);
    if (!expr->count) return expr;
    Expr *args[3] = {NULL};
    for (int i = 0; i < expr->count; i++) args[i] = at_keys(move, expr->args[i]);
    return expr_with_args(move->program, expr, args);
}

Expr *received_bound(const RowMove *move) {
    Expr *last = expr_number(move->program, (double)(move->sides->slots->axes[0]->size - 1));
    return expr_read(move->program, move->sides->slots, &last);
}

static void run_at_keys(RowMove *move) {
    Statement *statement = move->statement;
    Expr *value = at_keys(move, statement->value);
    statement->target = access_at_keys(move, statement->target);
    statement->value = value;
    statement->bound = received_bound(move);
    for (int i = 0; i < statement->loop_count; i++)
        if (statement->loops[i] == move->row) statement->loops[i] = move->received;
}

/* ---- statements of the tokens ---- */

static Expr *at_tokens(RowMove *move, Expr *expr) {
    if (!expr->count) return expr;
    if (expr->kind == EXPR_READ && has_nested_rows(move->keyed, expr->tensor))
        return return_nested(move, expr);
    Expr *args[MAX_RANK] = {NULL};
    for (int i = 0; i < expr->count; i++) args[i] = at_tokens(move, expr->args[i]);
    if (expr->kind == EXPR_READ) {
        Expr *read = arena_alloc(move->program->arena, sizeof *read);
        *read = *expr;
        read->args = arena_alloc(move->program->arena, sizeof args);
        for (int i = 0; i < expr->count; i++) read->args[i] = args[i];
        return on_key_side(move->keyed, expr->tensor) ? bring_back(move, read) : read;
    }
    return expr_with_args(move->program, expr, args);
}

static bool reads_keyed_parameters(const Expr *expr) {
    if (expr->kind == EXPR_READ && is_keyed(expr->tensor)) return true;
    for (int i = 0; i < expr->count; i++)
        if (reads_keyed_parameters(expr->args[i])) return true;
    return false;
}

/* A statement that adds to tokens and reads divided parameters: its value is computed at the keys
 * first. */
static void split_value(RowMove *move) {
    Program *program = move->program;
    Statement *statement = move->statement;
    Index *loops[MAX_LOOPS] = {move->received};
    const int count = 1 + loops_of_row(move, statement->value, loops + 1);
    if (statement->reduction != REDUCE_NONE) {
        refuse_rows(move, "a sum over keys is not over rows");
        return;
    }
    Expr *value = at_keys(move, statement->value);
    Tensor *here = rows_tensor(move, statement->target->tensor->name, "here", TYPE_REAL, loops,
                               count, move->sides->received);
    Block block = {{NULL, 0, 0}};
    Statement *first = statement_assign(program, &block, expr_read_indices(program, here, loops),
                                        value, statement->span);
    first->asked = statement->asked;
    first->application = statement->application;
    first->bound = received_bound(move);
    list_push(program->arena, move->made, first);
    loops[0] = move->row;
    Tensor *back =
        rows_tensor(move, here->name, "back", TYPE_REAL, loops, count, move->sides->rows);
    add_exchange(move, COLLECTIVE_COMBINE, whole_read(program, here), whole_read(program, back));
    statement->value = expr_read_indices(program, back, loops);
}

static void move_loop(RowMove *move) {
    Statement *statement = move->statement;
    move->sides = NULL;
    move->row = NULL;
    for (int i = 0; i < statement->loop_count; i++) {
        RowSides *sides = sides_of(move->keyed, statement->loops[i]->axis);
        NestedRows *nested = nested_of(move->keyed, statement->loops[i]->axis);
        if (nested) {
            move_nested_loop(move, nested, statement->loops[i]);
            forget_moved(move, statement->target->tensor);
            return;
        }
        if (sides) move->sides = sides, move->row = statement->loops[i];
    }
    if (move->sides && !move->sides->relation) {
        refuse_rows(move, "a statement over rows is before its selection");
        return;
    }
    if (move->sides) move->received = index_new(move->program, "q", move->sides->received);
    if (move->sides && runs_on_key_side(move->keyed, statement)) {
        run_at_keys(move);
    } else {
        if (move->sides && reads_keyed_parameters(statement->value)) split_value(move);
        statement->value = at_tokens(move, statement->value);
        for (int i = 0; i < statement->target->count; i++)
            statement->target->args[i] = at_tokens(move, statement->target->args[i]);
    }
    forget_moved(move, statement->target->tensor);
    list_push(move->program->arena, move->made, statement);
}

/* ---- calls ---- */

/* An output of the exchange of counts. */
static Tensor *count_tensor(RowMove *move, const Relation *relation, Statement *counts,
                            const char *part, int rank, Axis **axes, long values) {
    Program *program = move->program;
    Tensor *made =
        tensor_new(program, arena_format(program->arena, "%s_%s", relation->mask->name, part),
                   ROLE_TEMP, TYPE_INT, rank, axes, move->statement->span);
    made->vocabulary = values;
    list_push(program->arena, &counts->outputs, whole_read(program, made));
    return made;
}

/* Rows in the order of slots and of the keys after the first one, for products: each sum is over
 * rows of one process. */
static void add_received(RowMove *move, const RowSides *sides, Tensor *first, bool by_row) {
    Relation received = {.mask = sides->relation->mask,
                         .rows = sides->received,
                         .group = sides->slots,
                         .number = by_row ? sides->number : NULL};
    for (int i = 0; key_axis(sides->relation, i); i++)
        received.group_of[received.group_of_count++] = i ? sides->keys[i] : first;
    list_copy(move->program->arena, &move->program->relations, &received, sizeof received);
}

/* A selection of equally many values, not among the first key: each value of that key has equally
 * many rows. */
static long rows_for_each(const RowMove *move, const Relation *relation, const Statement *pack) {
    const Axis *along = move->keyed->selected_along[relation->mask->id];
    const bool even = along && along != key_axis(relation, 0) && !pack->pack.bounded;
    return even ? relation->rows->size / move->keyed->size : 0;
}

/* The received rows of a pack. */
static void add_counts(RowMove *move, RowSides *sides, const Relation *relation) {
    Program *program = move->program;
    Axis *groups = relation->group->axes[0],
         *processes = axis_new(program, mesh_axis_name(MESH_EXPERT), move->keyed->size, AXIS_PLAIN,
                               move->statement->span);
    Statement *counts = collective_new(program, move->made, COLLECTIVE_COUNTS, MESH_EXPERT,
                                       move->statement->span, move->statement->asked);
    counts->application = move->statement->application;
    list_push(program->arena, &counts->inputs, whole_read(program, relation->group));
    sides->relation = relation;
    sides->each = rows_for_each(move, relation, move->statement);
    sides->table =
        count_tensor(move, relation, counts, "table", 2, (Axis *[]){processes, groups}, 0);
    sides->number =
        count_tensor(move, relation, counts, "group_here", 1, &sides->received, groups->size - 1);
    sides->slots = count_tensor(move, relation, counts, "slots", 1, &groups, 0);
    sides->slot = count_tensor(move, relation, counts, "slot", 1, &sides->received,
                               key_axis(relation, 0)->size);
    sides->keys[0] = sides->number;
    for (int i = 0; key_axis(relation, 1) && key_axis(relation, i); i++)
        sides->keys[i] =
            count_tensor(move, relation, counts,
                         arena_format(program->arena, "%s_here", key_axis(relation, i)->name), 1,
                         &sides->received, key_axis(relation, i)->size);
    add_received(move, sides, sides->keys[0], true);
    add_received(move, sides, sides->slot, false);
}

static void begin_packs(RowMove *move, const Statement *call) {
    const int count = move->program->relations.count;
    for (int i = 0; i < count; i++) {
        const Relation *relation = move->program->relations.items[i];
        RowSides *sides = sides_of(move->keyed, relation->rows);
        for (int j = 0; j < call->outputs.count && sides; j++)
            if (call_output(call, j)->tensor == relation->group) add_counts(move, sides, relation);
    }
}

/* Operands of a call that runs on the received rows. */
static void read_received(RowMove *move, List *operands, Index **rows, Expr **received) {
    for (int i = 0; i < operands->count; i++) {
        Expr *operand = operands->items[i];
        for (int j = 0; j < operand->count; j++) {
            RowSides *sides = sides_of(move->keyed, operand->tensor->axes[j]);
            const Expr *sub = operand->args[j];
            if (!sides || sub->kind != EXPR_INDEX) continue;
            if (!*rows) {
                *rows = sub->index;
                *received =
                    expr_index(move->program, index_new(move->program, "q", sides->received));
            }
            operands->items[i] = expr_substitute(move->program, operand, rows, received, 1);
        }
    }
}

/* Calls over rows run where their operands are; all of them have to be on one side. */
static void move_call(RowMove *move) {
    Statement *call = move->statement;
    bool keys = false, tokens = false;
    if (move_nested_pack(move)) return;
    const List *lists[] = {&call->inputs, &call->outputs};
    for (int list = 0; list < 2; list++)
        LIST_EACH(const Expr, operand, lists[list]) {
            keys |= on_key_side(move->keyed, operand->tensor) || is_keyed(operand->tensor);
            tokens |=
                is_of_sender(move->keyed, operand->tensor) || has_own_rows(move, operand->tensor);
        }
    if (keys && (tokens || statement_is_scan(call)))
        refuse_rows(move, "an operation reads rows of both sides");
    Index *rows = NULL;
    Expr *received = NULL;
    if (keys) {
        read_received(move, &call->inputs, &rows, &received);
        read_received(move, &call->outputs, &rows, &received);
    }
    list_push(move->program->arena, move->made, call);
    for (int i = 0; i < call->outputs.count; i++) forget_moved(move, call_output(call, i)->tensor);
    if (!call->body.statements.count) begin_packs(move, call);
}

/* ---- blocks ---- */

/* The body of a repeat: its packs end with it. */
static void move_body(Keyed *keyed, Block *body) {
    RowSides *before =
        arena_alloc(keyed->program->arena, (size_t)keyed->sides.count * sizeof *before);
    for (int i = 0; i < keyed->sides.count; i++)
        before[i] = *(const RowSides *)keyed->sides.items[i];
    move_rows(keyed, body);
    for (int i = 0; i < keyed->sides.count; i++) *(RowSides *)keyed->sides.items[i] = before[i];
    for (int i = 0; i < keyed->nested.count; i++)
        ((NestedRows *)keyed->nested.items[i])->relation = NULL;
}

void move_rows(Keyed *keyed, Block *block) {
    const List statements = block->statements;
    RowMove move = {.keyed = keyed, .program = keyed->program};
    block->statements = (List){0};
    move.made = &block->statements;
    for (int i = 0; i < statements.count && !keyed->failed; i++) {
        move.statement = statements.items[i];
        if (move.statement->kind == STATEMENT_REPEAT) {
            move_body(keyed, &move.statement->body);
            list_push(keyed->program->arena, move.made, move.statement);
            move.moved.count = 0;
        } else if (move.statement->kind == STATEMENT_CALL) {
            move_call(&move);
        } else {
            move_loop(&move);
        }
    }
}
