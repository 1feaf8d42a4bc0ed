/* relation: packs and the int tensors over their rows.
 *
 * Each region that works on the rows of a mask has its own pack. Only the mask is therefore saved
 * from the forward to the backward part of a repeat. The packs of one mask share their keys and
 * have the same row order; a dispatched tensor may be written under one pack and read under
 * another.
 *
 *     chosen[b,s,n] = top...        n[r], s[r], ... = pack(chosen)        coordinates of rows
 *     picked[r,m] = top...    -->   c[q], m[q] = pack(picked[r,m], n[r])  rows of rows, grouped by
 *                                                                         (n, m)
 *                                   n_q[q] = n[c[q]]                      an outer coordinate,
 *                                                                         created at its first use
 */
#include "transform/route/route.h"
#include "analysis/access.h"
#include "base/must.h"

RowTensor *row_tensor_find(const Routing *routing, const Tensor *tensor) {
    return list_find_by(&routing->row_tensors, offsetof(RowTensor, tensor), tensor);
}

static Tensor *row_tensor_at(const Routing *routing, const Site *site, const Tensor *root,
                             int dimension) {
    LIST_EACH(RowTensor, item, &routing->row_tensors)
        if (item->site == site && item->root == root && item->dimension == dimension)
            return item->tensor;
    return NULL;
}

static void row_tensor_add(Routing *routing, Site *site, Tensor *tensor, Tensor *root,
                           int dimension) {
    RowTensor *item = arena_alloc(routing->program->arena, sizeof *item);
    *item = (RowTensor){.site = site, .tensor = tensor, .root = root, .dimension = dimension};
    list_push(routing->program->arena, &routing->row_tensors, item);
}

static Tensor *int_tensor(Routing *routing, const char *name, const char *part, int rank,
                          Axis *const *axes) {
    Program *program = routing->program;
    const char *full = arena_format(program->arena, "%s_%s", name, part);
    return tensor_new(program, full, ROLE_TEMP, TYPE_INT, rank, axes, routing->choice->span);
}

/* of[r] = outer[c[r]], where c[r] is the row of the outer relation that contains row r. */
static void add_gather(Routing *routing, Site *site, Tensor *target, Tensor *outer) {
    Program *program = routing->program;
    Block made = {{NULL, 0, 0}};
    Expr *row = expr_read_indices(
        program, site->relation->coordinate[rows_dimension(site->relation->mask)], &site->row);
    Expr *value = expr_read(program, outer, &row);
    statement_assign(program, &made, expr_read_indices(program, target, &site->row), value,
                     site->pack->span);
    target->vocabulary = outer->vocabulary;
    list_push(program->arena, &site->pending, made.statements.items[0]);
}

/* Coordinate `dimension` of `root` over the rows of the site; a coordinate of an outer mask is
 * created on demand. */
Tensor *row_tensor(Routing *routing, Site *site, Tensor *root, int dimension) {
    Tensor *tensor = row_tensor_at(routing, site, root, dimension);
    if (tensor) return tensor;
    MUST(site->outer);
    Tensor *outer = row_tensor(routing, site->outer, root, dimension);
    tensor = int_tensor(routing, site->relation->mask->name, outer->name, 1, &site->relation->rows);
    add_gather(routing, site, tensor, outer);
    row_tensor_add(routing, site, tensor, root, dimension);
    return tensor;
}

static Site *find_outer(const Routing *routing, const Statement *region) {
    int dimension = rows_dimension(routing->mask);
    if (dimension < 0) return NULL;
    const Axis *rows = routing->mask->axes[routing->mask_dims[dimension]];
    for (int i = 0; i < routing->first_site; i++) {
        Site *site = routing->sites.items[i];
        if (site->relation->rows == rows && (site->region == region || !site->region)) return site;
    }
    return NULL;
}

/* The axis of a table of boundaries: one entry more than groups. */
static Axis *bounds_axis(Routing *routing, const char *part, long count) {
    const char *name = arena_format(routing->program->arena, "%s_%s", routing->mask->name, part);
    return axis_new(routing->program, name, count + 1, AXIS_PLAIN, routing->choice->span);
}

/* The last boundary of the groups, whose number finish_site sets. */
static void add_row_bound(Routing *routing, Site *site) {
    Axis *groups = bounds_axis(routing, "groups", 0);
    Tensor *group = int_tensor(routing, routing->mask->name, "group", 1, &groups);
    Expr *last = expr_number(routing->program, 0);
    site->relation->group = group;
    site->bound = expr_read(routing->program, group, &last);
}

/* The relation of the mask in a region; created at its first use. */
Site *site_for(Routing *routing, Statement *region) {
    Program *program = routing->program;
    if (!routing->home) region = NULL;
    for (int i = routing->first_site; i < routing->sites.count; i++) {
        Site *site = routing->sites.items[i];
        if (site->region == region) return site;
    }
    Site *site = arena_alloc(program->arena, sizeof *site);
    Relation *relation = arena_alloc(program->arena, sizeof *relation);
    Block made = {{NULL, 0, 0}};
    *site = (Site){.relation = relation, .region = region, .outer = find_outer(routing, region)};
    site->row = index_new(program, "r", routing->rows);
    site->pack = statement_call(program, &made, CALL_PACK, routing->choice->span);
    list_push(program->arena, &site->pending, site->pack);
    list_push(program->arena, &routing->sites, site);
    relation->mask = routing->mask;
    relation->rows = routing->rows;
    relation->assumed = routing->assumed;
    relation->outer = site->outer ? site->outer->relation : NULL;
    Axis *axes[MAX_RANK];
    for (int i = 0; i < routing->rank; i++) {
        axes[i] = routing->mask->axes[routing->mask_dims[i]];
        relation->coordinate[i] =
            int_tensor(routing, routing->mask->name, axes[i]->name, 1, &routing->rows);
        relation->coordinate[i]->vocabulary = axes[i]->size;
        row_tensor_add(routing, site, relation->coordinate[i], routing->mask, i);
    }
    relation->row_of = int_tensor(routing, routing->mask->name, "row", routing->rank, axes);
    if (routing->counted) add_row_bound(routing, site);
    return site;
}

/* ---- keys ---- */

static bool is_table(const Tensor *tensor) {
    for (int i = 0; i < tensor->rank; i++) {
        AxisKind kind = tensor->axes[i]->kind;
        if (kind == AXIS_BATCH || kind == AXIS_SEQUENCE || kind == AXIS_ROWS) return false;
    }
    return true;
}

typedef struct KeySearch {
    Routing *routing;
    List outer; /* RowTensor *, one for each outer coordinate that indexes a table */
} KeySearch;

static void note_key(KeySearch *search, RowTensor *found) {
    Routing *routing = search->routing;
    if (found->site->relation->mask != routing->mask) return;
    if (found->root == routing->mask) {
        routing->key[found->dimension] = true;
        return;
    }
    LIST_EACH(const RowTensor, known, &search->outer)
        if (known->root == found->root && known->dimension == found->dimension) return;
    list_push(routing->program->arena, &search->outer, found);
}

static void visit_key(Expr *expr, void *data) {
    KeySearch *search = data;
    if (expr->kind != EXPR_READ || !is_table(expr->tensor)) return;
    for (int i = 0; i < expr->count; i++) {
        if (expr->args[i]->kind != EXPR_READ) continue;
        RowTensor *found = row_tensor_find(search->routing, expr->args[i]->tensor);
        if (found) note_key(search, found);
    }
}

static void visit_statement(Statement *statement, void *data) {
    if (statement->kind != STATEMENT_LOOP) return;
    expr_walk(statement->target, visit_key, data);
    expr_walk(statement->value, visit_key, data);
}

/* The dimensions with which weights are indexed; without any, those that are not positions of the
 * data. */
static void find_keys(Routing *routing, KeySearch *search) {
    search->routing = routing;
    block_walk(&routing->program->body, visit_statement, search);
    bool any = search->outer.count > 0;
    for (int i = 0; i < routing->rank; i++) any |= routing->key[i];
    if (any) return;
    for (int i = 0; i < routing->rank; i++) {
        AxisKind kind = routing->mask->axes[routing->mask_dims[i]]->kind;
        routing->key[i] = kind != AXIS_BATCH && kind != AXIS_SEQUENCE && kind != AXIS_ROWS;
    }
}

/* ---- the complete pack ---- */

static void push_read(Routing *routing, List *list, Tensor *tensor, Index *const *indices) {
    list_push(routing->program->arena, list, expr_read_indices(routing->program, tensor, indices));
}

static Flat *flat_new(Routing *routing, Relation *relation, Tensor *table) {
    Flat *flat = arena_alloc(routing->program->arena, sizeof *flat);
    flat->table = table;
    list_push(routing->program->arena, &relation->flats, flat);
    return flat;
}

/* Outer tables stay valid if these rows use all their coordinates. */
static void carry_flats(Routing *routing, Site *site) {
    if (!site->outer) return;
    const List *flats = &site->outer->relation->flats;
    LIST_EACH(const Flat, outer, flats) {
        Flat carried = {.count = outer->count};
        bool all = true;
        for (int j = 0; j < outer->count && all; j++) {
            const RowTensor *of = row_tensor_find(routing, outer->of[j]);
            carried.of[j] = row_tensor_at(routing, site, of->root, of->dimension);
            all = carried.of[j] != NULL;
        }
        if (!all || !outer->count) continue;
        carried.table = int_tensor(routing, site->relation->mask->name, outer->table->name, 1,
                                   &site->relation->rows);
        add_gather(routing, site, carried.table, outer->table);
        *flat_new(routing, site->relation, carried.table) = carried;
    }
}

/* The operands that group the rows: outer coordinates first, then key dimensions. Returns the
 * number of groups. */
static long add_keys(Routing *routing, Site *site, const KeySearch *search, Index *const *indices) {
    Relation *relation = site->relation;
    long groups = 1;
    LIST_EACH(const RowTensor, key, &search->outer) {
        Tensor *outer = row_tensor(routing, site->outer, key->root, key->dimension);
        Tensor *own = row_tensor(routing, site, key->root, key->dimension);
        push_read(routing, &site->pack->inputs, outer, &indices[rows_dimension(relation->mask)]);
        relation->group_of[relation->group_of_count++] = own;
        groups *= outer->vocabulary;
    }
    for (int i = 0; i < routing->rank; i++) {
        site->pack->pack.key[i] = relation->key[i] = routing->key[i];
        if (!routing->key[i]) continue;
        relation->group_of[relation->group_of_count++] = relation->coordinate[i];
        groups *= relation->coordinate[i]->vocabulary;
    }
    return groups;
}

static void finish_site(Routing *routing, Site *site, const KeySearch *search) {
    Program *program = routing->program;
    Relation *relation = site->relation;
    const char *name = relation->mask->name;
    Index *indices[MAX_RANK], *all[MAX_RANK];
    for (int i = 0; i < relation->mask->rank; i++)
        all[i] = site->region ? site->region->index : NULL;
    for (int i = 0; i < routing->rank; i++) {
        Axis *axis = relation->mask->axes[routing->mask_dims[i]];
        all[routing->mask_dims[i]] = indices[i] = index_over(program, axis);
    }
    push_read(routing, &site->pack->inputs, relation->mask, all);
    long groups = add_keys(routing, site, search, indices), others = 1;
    Flat *flat =
        flat_new(routing, relation, int_tensor(routing, name, "other", 1, &relation->rows));
    for (int i = 0; i < routing->rank; i++) {
        if (routing->key[i]) continue;
        flat->of[flat->count++] = relation->coordinate[i];
        others *= relation->coordinate[i]->vocabulary;
    }
    flat->table->vocabulary = others;
    if (site->bound) {
        site->bound->args[0] = expr_number(program, (double)groups);
        relation->group->axes[0]->size = groups + 1;
        site->pack->pack.bounded = true;
    } else {
        Axis *group = bounds_axis(routing, "groups", groups);
        relation->group = int_tensor(routing, name, "group", 1, &group);
    }
    Axis *start = bounds_axis(routing, "others", others), *group = relation->group->axes[0];
    relation->start = int_tensor(routing, name, "start", 1, &start);
    relation->list = int_tensor(routing, name, "list", 1, &relation->rows);
    List *outputs = &site->pack->outputs;
    for (int i = 0; i < routing->rank; i++)
        push_read(routing, outputs, relation->coordinate[i], &site->row);
    push_read(routing, outputs, relation->group, &(Index *){index_new(program, "g", group)});
    push_read(routing, outputs, relation->row_of, indices);
    push_read(routing, outputs, flat->table, &site->row);
    push_read(routing, outputs, relation->start, &(Index *){index_new(program, "o", start)});
    push_read(routing, outputs, relation->list, &site->row);
    carry_flats(routing, site);
    list_push(program->arena, &program->relations, relation);
}

/* ---- insertion ---- */

/* Inserts the pending statements of the site after its previous ones; the first time after the top,
 * after the outer rows or at the start. */
static void insert_pending(Routing *routing, Site *site) {
    Block *block = site->region ? &site->region->body : &routing->program->body;
    const Statement *after = site->last                      ? site->last
                             : site->region == routing->home ? routing->choice
                                                             : NULL;
    if (!after && site->outer && site->outer->region == site->region) after = site->outer->last;
    int position = after ? list_find(&block->statements, after) + 1 : 0,
        count = site->pending.count;
    if (!count) return;
    MUST(!after || position > 0);
    list_insert(routing->program->arena, &block->statements, position, &site->pending);
    site->last = site->pending.items[count - 1];
    site->pending.count = 0;
}

/* relation_finish: sets the keys of the current mask, completes its packs and inserts them into the
 * program. */
void relation_finish(Routing *routing) {
    KeySearch search = {.routing = routing};
    find_keys(routing, &search);
    for (int i = routing->first_site; i < routing->sites.count; i++)
        finish_site(routing, routing->sites.items[i], &search);
    for (int i = 0; i < routing->sites.count; i++) insert_pending(routing, routing->sites.items[i]);
}
