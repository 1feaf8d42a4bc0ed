/* nested_rows: rows that are selected among dispatched rows, for mesh_rows.c.
 *
 * They belong to the process that receives the outer row: its pack runs there. The groups of the
 * pack are those of the slots of outer rows, so that each sum is over rows of one process.
 *
 *     c[r], m[r], group[g] = pack(picked[o,m], n[o]; key = [m])      o: rows of the tokens
 *     n_r[r] = n[c[r]]
 *     low[r] = sum[d] x[s_r[r],d] * a[n_r[r],m[r],d]
 *
 *                              |
 *                              v
 *
 *     exists[q,m] = where(q < rows, picked[q,m], 0)                  q: received rows
 *     c[r], m[r], group[g] = pack(exists[q,m], slot[q]; key = [m])
 *     n_r[r] = n_here[c[r]]
 *     low[r] = sum[d] x_here[c[r],d] * a[n_r[r],m[r],d]
 */
#include "ir/call.h"
#include "transform/mesh/move_rows.h"

/* While a statement is rewritten: its subscripts that depend on the outer row have an index of
 * outer rows, its coordinates have indices of their own. */
typedef struct Unnesting {
    RowMove *move;
    const NestedRows *nested;
    Index *row, *keys[MAX_RANK]; /* of nested rows; by dimension of the mask */
    bool defines;                /* the statement defines an outer value */
} Unnesting;

static bool reads_row(const Expr *expr, const Index *row) {
    return expr->kind == EXPR_READ && expr->count == 1 && expr->args[0]->kind == EXPR_INDEX &&
           expr->args[0]->index == row;
}

/* The dimension of the mask of a coordinate; -1: none. */
static int coordinate_number(const Relation *relation, const Tensor *tensor) {
    for (int i = 0; i < MAX_RANK; i++)
        if (relation->coordinate[i] && relation->coordinate[i] == tensor) return i;
    return -1;
}

static Expr *unnest(Unnesting *unnesting, Expr *expr) {
    Program *program = unnesting->move->program;
    const Relation *relation = unnesting->nested->relation;
    if (reads_row(expr, unnesting->row)) {
        const Tensor *outer = outer_tensor(unnesting->move->keyed, expr->tensor);
        const int coordinate = coordinate_number(relation, expr->tensor);
        if (outer) return expr_read_indices(program, (Tensor *)outer, &unnesting->move->row);
        if (expr->tensor == outer_row(relation)) return expr_index(program, unnesting->move->row);
        if (coordinate >= 0) return expr_index(program, unnesting->keys[coordinate]);
    }
    if (!expr->count) return expr;
    Expr *args[MAX_RANK] = {NULL};
    for (int i = 0; i < expr->count; i++) args[i] = unnest(unnesting, expr->args[i]);
    return expr_with_args(program, expr, args);
}

/* The value of received rows that nested rows have a tensor for, or NULL. */
static Tensor *own_tensor(const Unnesting *unnesting, const Tensor *here) {
    const RowMove *move = unnesting->move;
    const RowSides *sides = unnesting->nested->outer;
    if (here == sides->slot) return unnesting->nested->slot;
    for (int i = 0; i < unnesting->nested->defined.count && !unnesting->defines; i++) {
        Tensor *own = unnesting->nested->defined.items[i];
        const Expr *read =
            expr_read_indices(move->program, (Tensor *)outer_tensor(move->keyed, own), &move->row);
        if (sides->keys[key_number(move->keyed, read)] == here) return own;
    }
    return NULL;
}

static Expr *renest(Unnesting *unnesting, Expr *expr) {
    Program *program = unnesting->move->program;
    const Relation *relation = unnesting->nested->relation;
    if (reads_row(expr, unnesting->move->received)) {
        Tensor *own = own_tensor(unnesting, expr->tensor);
        if (own) return expr_read_indices(program, own, &unnesting->row);
    }
    if (expr->kind == EXPR_INDEX) {
        if (expr->index == unnesting->move->received)
            return expr_read_indices(program, outer_row(relation), &unnesting->row);
        for (int i = 0; i < MAX_RANK; i++)
            if (unnesting->keys[i] && expr->index == unnesting->keys[i])
                return expr_read_indices(program, relation->coordinate[i], &unnesting->row);
    }
    if (!expr->count) return expr;
    Expr *args[MAX_RANK] = {NULL};
    for (int i = 0; i < expr->count; i++) args[i] = renest(unnesting, expr->args[i]);
    return expr_with_args(program, expr, args);
}

/* The bound of loops over nested rows: the end of the last group. */
static Expr *nested_bound(Program *program, const Relation *relation) {
    Expr *last = expr_number(program, (double)(relation->group->axes[0]->size - 1));
    return expr_read(program, relation->group, &last);
}

/* The statement has the loops of the coordinates while its values are sent. */
static void begin_unnesting(Unnesting *unnesting, Statement *statement) {
    RowMove *move = unnesting->move;
    const Relation *relation = unnesting->nested->relation;
    int dimension = 0;
    for (int i = 0; i < relation->mask->rank; i++) {
        Axis *axis = relation->mask->axes[i];
        if (axis->kind == AXIS_REPEAT) continue;
        if (axis->kind != AXIS_ROWS && !sides_of(move->keyed, axis)) {
            unnesting->keys[dimension] = index_over(move->program, axis);
            if (statement->loop_count == MAX_LOOPS)
                refuse_rows(move, "its rows would have too many dimensions");
            else
                statement->loops[statement->loop_count++] = unnesting->keys[dimension];
        }
        dimension++;
    }
    move->sides = unnesting->nested->outer;
    move->row = index_new(move->program, "r", move->sides->rows);
    move->received = index_new(move->program, "q", move->sides->received);
}

static Statement *made_loop(RowMove *move, Expr *target, Expr *value, Expr *bound) {
    Block block = {{NULL, 0, 0}};
    Statement *made = statement_assign(move->program, &block, target, value, move->statement->span);
    made->asked = move->statement->asked;
    made->application = move->statement->application;
    made->bound = bound;
    list_push(move->program->arena, move->made, made);
    return made;
}

/* True if the statement writes only values of nested rows, of received rows or of their slots. */
static bool stays_with_keys(const RowMove *move, const Tensor *target) {
    RowSides *sides;
    return has_nested_rows(move->keyed, target) || is_keyed(target) ||
           rows_dimension_of(move->keyed, target, &sides) >= 0;
}

void move_nested_loop(RowMove *move, NestedRows *nested, Index *row) {
    Statement *statement = move->statement;
    Program *program = move->program;
    Expr *target = statement->target;
    Unnesting unnesting = {.move = move, .nested = nested, .row = row};
    const int count = statement->loop_count;
    if (!nested->relation || !stays_with_keys(move, target->tensor)) {
        refuse_rows(move, nested->relation ? "rows of rows add to values of tokens"
                                           : "a statement over rows is before its selection");
        return;
    }
    begin_unnesting(&unnesting, statement);
    if (move->keyed->failed) return;
    Expr *subs[MAX_RANK];
    for (int i = 0; i < target->count; i++) subs[i] = unnest(&unnesting, target->args[i]);
    const Tensor *outer = outer_tensor(move->keyed, target->tensor);
    unnesting.defines = outer != NULL;
    if (outer) {
        const Expr *key = expr_read_indices(program, (Tensor *)outer, &move->row);
        if (key_number(move->keyed, key) < 0) return; /* of a token: not read any more */
    }
    Expr *value = at_keys(move, unnest(&unnesting, statement->value));
    target = access_at_keys(move, expr_read(program, target->tensor, subs));
    for (int i = 0; i < target->count; i++) subs[i] = renest(&unnesting, target->args[i]);
    statement->value = renest(&unnesting, value);
    statement->target = expr_read(program, target->tensor, subs);
    statement->loop_count = count;
    statement->bound = nested_bound(program, nested->relation);
    if (outer) list_push(program->arena, &nested->defined, target->tensor);
    list_push(program->arena, move->made, statement);
}

/* ---- values of tokens ---- */

/* The row of an entry in a subscript, row[o,m], or where(exists, row[o,m], -1); NULL: another. */
static const Expr *entry_row(const RowMove *move, const NestedRows *nested, const Expr *sub) {
    if (sub->kind == EXPR_APPLY && sub->op == OP_WHERE) sub = sub->args[1];
    for (int i = 0; sub->kind == EXPR_READ && i < move->program->relations.count; i++) {
        const Relation *relation = move->program->relations.items[i];
        if (relation->rows == nested->rows && relation->row_of == sub->tensor) return sub;
    }
    return NULL;
}

/* v[row[o,m],f] for values of tokens: here[q,m,f] = v[row[q,m],f] returns to the rows o. */
Expr *return_nested(RowMove *move, const Expr *read) {
    Program *program = move->program;
    NestedRows *nested = NULL;
    const Expr *row = NULL;
    int along = -1;
    for (int i = 0; i < read->count; i++) {
        NestedRows *found = nested_of(move->keyed, read->tensor->axes[i]);
        if (!found) continue;
        nested = found, along = i;
        row = entry_row(move, found, read->args[i]);
    }
    if (!row || !nested->outer->relation) {
        refuse_rows(move, "values of tokens depend on rows of rows");
        return (Expr *)read;
    }
    RowSides *const own = move->sides;
    Expr *from[MAX_RANK], *rows[MAX_RANK], *to[MAX_RANK] = {NULL};
    Index *loops[MAX_LOOPS] = {index_new(program, "q", nested->outer->received)};
    int count = 1;
    for (int i = 0; i < row->count; i++) {
        const bool outer = sides_of(move->keyed, row->tensor->axes[i]) != NULL;
        if (!outer) loops[count] = index_over(program, row->tensor->axes[i]);
        rows[i] = expr_index(program, loops[outer ? 0 : count]);
        to[outer ? 0 : count++] = row->args[i];
    }
    for (int i = 0; i < read->count; i++) {
        from[i] = read->args[i];
        if (i == along)
            from[i] = expr_read(program, row->tensor, rows);
        else if (read->tensor->axes[i]->kind != AXIS_REPEAT) {
            loops[count] = index_over(program, read->tensor->axes[i]);
            from[i] = expr_index(program, loops[count]);
            to[count++] = read->args[i];
        }
    }
    move->sides = nested->outer;
    Tensor *here = rows_tensor(move, read->tensor->name, "here", read->tensor->type, loops, count,
                               nested->outer->received);
    made_loop(move, expr_read_indices(program, here, loops), expr_read(program, read->tensor, from),
              received_bound(move));
    Tensor *back =
        rows_tensor(move, here->name, "back", here->type, loops, count, nested->outer->rows);
    add_exchange(move, COLLECTIVE_COMBINE, whole_read(program, here), whole_read(program, back));
    move->sides = own;
    const Expr *sub = read->args[along];
    Expr *value = expr_read(program, back, to);
    return sub == row ? value
                      : expr_apply(program, OP_WHERE, sub->args[0], value, expr_number(program, 0));
}

/* ---- packs ---- */

static Tensor *int_of_rows(RowMove *move, const Relation *relation, const char *part, long values) {
    const char *name = arena_format(move->program->arena, "%s_%s", relation->mask->name, part);
    Tensor *made = tensor_new(move->program, name, ROLE_TEMP, TYPE_INT, 1, (Axis **)&relation->rows,
                              move->statement->span);
    made->vocabulary = values;
    return made;
}

/* The mask at the received rows, without rows that do not exist. */
static Expr *mask_here(RowMove *move, const Expr *operand) {
    Program *program = move->program;
    Tensor *mask = operand->tensor;
    Expr *from[MAX_RANK], *to[MAX_RANK];
    Axis *axes[MAX_RANK];
    int rank = 0;
    Index **const own = move->statement->loops;
    move->row = index_new(program, "r", move->sides->rows);
    move->received = index_new(program, "q", move->sides->received);
    for (int i = 0; i < operand->count; i++) {
        from[i] = operand->args[i];
        if (from[i]->kind != EXPR_INDEX || from[i]->index->of_repeat) continue;
        const bool row = sides_of(move->keyed, mask->axes[i]) != NULL;
        own[rank] = row ? move->row : index_over(program, mask->axes[i]);
        from[i] = expr_index(program, own[rank]);
        axes[rank] = row ? move->sides->received : mask->axes[i];
        to[rank++] = row ? expr_index(program, move->received) : from[i];
    }
    move->statement->loop_count = rank;
    Expr *value = at_keys(move, expr_read(program, mask, from));
    move->statement->loop_count = 0;
    Tensor *exists = tensor_new(program, arena_format(program->arena, "%s_here", mask->name),
                                ROLE_TEMP, mask->type, rank, axes, mask->span);
    exists->selects = true;
    exists->share = mask->share;
    Expr *received =
        expr_apply(program, OP_LT, expr_index(program, move->received), received_bound(move), NULL);
    made_loop(move, expr_read(program, exists, to),
              expr_apply(program, OP_WHERE, received, value, expr_number(program, 0)), NULL);
    return expr_read(program, exists, to);
}

/* The numbers of nested rows for products: of their parameters, and of their slots. */
static void add_numbers_of(RowMove *move, NestedRows *nested, Relation *relation) {
    Program *program = move->program;
    Unnesting unnesting = {.move = move, .nested = nested};
    unnesting.row = index_new(program, "r", nested->rows);
    const Tensor *first =
        relation->group_of_count ? outer_tensor(move->keyed, relation->group_of[0]) : NULL;
    Expr *key = first ? expr_read_indices(program, (Tensor *)first, &move->row) : NULL,
         *number = expr_number(program, 0);
    if (!key || key_number(move->keyed, key) != 0) return;
    nested->slot = int_of_rows(move, relation, "slot", move->sides->slot->vocabulary);
    Expr *row = expr_read_indices(program, outer_row(relation), &unnesting.row);
    made_loop(move, expr_read_indices(program, nested->slot, &unnesting.row),
              expr_read(program, move->sides->slot, &row), nested_bound(program, relation));
    for (int i = 0; i < relation->group_of_count; i++) {
        const Tensor *outer = outer_tensor(move->keyed, relation->group_of[i]);
        Expr *part = expr_read_indices(program, relation->group_of[i], &unnesting.row);
        if (outer) {
            const Expr *read = expr_read_indices(program, (Tensor *)outer, &move->row);
            part = expr_read(program, move->sides->keys[key_number(move->keyed, read)], &row);
        }
        Expr *size = expr_number(program, (double)relation->group_of[i]->vocabulary);
        number = expr_apply(program, OP_ADD, expr_apply(program, OP_MUL, number, size, NULL), part,
                            NULL);
    }
    Tensor *numbers = int_of_rows(move, relation, "group_here", relation->group->axes[0]->size - 1);
    made_loop(move, expr_read_indices(program, numbers, &unnesting.row), number,
              nested_bound(program, relation));
    Relation slots = *relation;
    slots.group_of[0] = nested->slot;
    list_copy(program->arena, &program->relations, &slots, sizeof slots);
    relation->number = numbers;
}

/* The relation that a pack makes among the nested ones, or NULL. */
static Relation *nested_relation(const RowMove *move, const Statement *call) {
    for (int i = 0; call->kind == STATEMENT_CALL && i < move->program->relations.count; i++) {
        Relation *relation = move->program->relations.items[i];
        if (!nested_of(move->keyed, relation->rows)) continue;
        for (int j = 0; j < call->outputs.count; j++)
            if (call_output(call, j)->tensor == relation->row_of) return relation;
    }
    return NULL;
}

bool move_nested_pack(RowMove *move) {
    Program *program = move->program;
    Statement *call = move->statement;
    Relation *relation = nested_relation(move, call);
    if (!relation) return false;
    NestedRows *nested = nested_of(move->keyed, relation->rows);
    move->sides = nested->outer;
    if (!move->sides->relation) {
        refuse_rows(move, "a statement over rows is before its selection");
        return true;
    }
    Expr *mask = mask_here(move, call_input(call, 0));
    const List through = call->inputs, outputs = call->outputs;
    call->inputs = call->outputs = (List){0};
    list_push(program->arena, &call->inputs, mask);
    for (int i = 1; i < through.count; i++) {
        const Expr *operand = through.items[i];
        const Expr *read = expr_read_indices(program, operand->tensor, &move->row);
        const int key = key_number(move->keyed, read);
        if (key < 0) refuse_rows(move, "its groups depend on values of tokens");
        Tensor *here = key > 0 ? move->sides->keys[key] : move->sides->slot;
        list_push(program->arena, &call->inputs, expr_read_indices(program, here, &move->received));
    }
    LIST_EACH(Expr, output, &outputs) {
        if (output->tensor == relation->row_of)
            output = expr_read(program, output->tensor, mask->args);
        list_push(program->arena, &call->outputs, output);
    }
    call->pack.bounded = true;
    nested->relation = relation;
    nested->defined.count = 0;
    list_push(program->arena, move->made, call);
    if (!move->keyed->failed) add_numbers_of(move, nested, relation);
    return true;
}
