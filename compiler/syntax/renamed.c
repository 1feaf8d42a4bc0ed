/* renamed: words of the language that have other names now. A tree has the new ones after this
 * pass, so that no later stage knows the old ones, and the formatter writes the new ones.
 *
 *     option tied: flag = false      -->      option tied: bool = false
 *     c[s,n] = top[n](p[s,n], 2)     -->      c[s,n] = top_k[n](p[s,n], 2)
 *
 * Logs of earlier versions have former names of probes: "busiest" is "max_expert_load" now.
 */
#include "passes.h"

#include <pthread.h>
#include <string.h>

typedef struct Renamed {
    const char *old, *now;
} Renamed;

static const Renamed types[] = {
    {"real", "float"}, {"flag", "bool"}, {"word", "enum"}, {NULL, NULL}};
static const Renamed inputs[] = {{"real", "float"}, {"next", "next_token"}, {NULL, NULL}};
static const Renamed functions[] = {{"top", "top_k"}, {"stop", "stop_gradient"}, {NULL, NULL}};
static const Renamed attending[] = {
    {"cap", "softcap"}, {"documents", "document_ids"}, {"best", "top_values"}, {NULL, NULL}};
static const Renamed experiment[] = {
    {"base", "baseline"}, {"keep", "early_stopping"}, {NULL, NULL}};
static const Renamed metric[] = {{"better", "goal"}, {NULL, NULL}};
static const Renamed goals[] = {{"high", "maximize"}, {"low", "minimize"}, {NULL, NULL}};
static const Renamed facts[] = {
    {"product", "matmul"}, {"lookup", "embedding"}, {"joins", "residual"}, {NULL, NULL}};
static const Renamed ratios[] = {
    {"meets", "summed_fan_in"}, {"share", "route_weight"}, {"forward", "multiplier"}, {NULL, NULL}};

typedef struct Pass {
    Unit *unit;
    const Node *item; /* the optimizer or parametrization, or NULL */
} Pass;

/* The new name for a deprecated one, with the note; NULL: it is none. */
static const char *new_name(const Pass *pass, const Renamed *table, const char *what,
                            const Node *node) {
    for (const Renamed *row = table; row->old; row++) {
        if (strcmp(row->old, node->name) != 0) continue;
        report_renamed(pass->unit->reports, node->name_span, what, row->old, row->now);
        return row->now;
    }
    return NULL;
}

static void rename_node(const Pass *pass, const Renamed *table, const char *what, Node *node) {
    const char *now = new_name(pass, table, what, node);
    if (now) node->name = now;
}

static bool has_layer(const Unit *unit, const char *name) {
    return node_called(&unit->layers, name) != NULL;
}

static void rename_call(const Pass *pass, Node *call) {
    Node *callee = call->kids[0];
    if (callee->kind == NODE_INDEXED) callee = callee->kids[0];
    if (callee->kind != NODE_NAME || has_layer(pass->unit, callee->name)) return;
    rename_node(pass, functions, "function", callee);
    Node *options = strcmp(callee->name, "attend") ? NULL : call->kids[2];
    for (int i = 0; options && i < options->count; i++)
        rename_node(pass, attending, "option", options->kids[i]);
}

/* ---- probes ---- */

/* Each declares former names. */
static List probes; /* const Node * */

static void find_probes(Arena *arena, const Node *node) {
    if (node && node->kind == NODE_PROBE && node->aliases) list_push(arena, &probes, (void *)node);
    for (int i = 0; node && i < node->count; i++) find_probes(arena, node->kids[i]);
}

static void read_probes(void) {
    Arena *arena = arena_new();
    Unit *unit = arena_alloc(arena, sizeof *unit);
    unit->arena = arena;
    const List *layers = &standard_unit(unit)->layers;
    for (int i = 0; i < layers->count; i++) find_probes(arena, layers->items[i]);
}

const char *renamed_probe(const char *name) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_probes);
    LIST_EACH(const Node, probe, &probes) {
        for (int k = 0; k < probe->aliases->count; k++) {
            const Node *alias = probe->aliases->kids[k];
            if (alias->number != 1 && !strcmp(alias->name, name)) return probe->name;
        }
    }
    return NULL;
}

static bool has_probe(const Node *node, const char *name) {
    if (!node) return false;
    if (node->kind == NODE_PROBE && !strcmp(node->name, name)) return true;
    for (int i = 0; i < node->count; i++)
        if (has_probe(node->kids[i], name)) return true;
    return false;
}

static bool has_own_probe(const Unit *unit, const char *name) {
    LIST_EACH(const Node, layer, &unit->layers)
        if (!path_is_standard(layer->span.source->path) && has_probe(layer, name)) return true;
    return false;
}

const char *renamed_log_name(const Unit *unit, const char *name) {
    const char *end = strstr(name, ".layer"), *from = strncmp(name, "val_", 4) ? name : name + 4;
    if (!end) end = name + strlen(name);
    for (const char *at = from; at < end; at++)
        if (*at == '.') from = at + 1;
    const char *old = arena_copy(unit->arena, from, (size_t)(end - from));
    const char *now = renamed_probe(old);
    if (!now || has_own_probe(unit, old)) return name;
    return arena_format(unit->arena, "%.*s%s%s", (int)(from - name), name, now, end);
}

static void rename_metric(const Pass *pass, Node *value) {
    if (value->kind != NODE_NAME && value->kind != NODE_STRING) return;
    const char *now = renamed_log_name(pass->unit, value->name);
    if (now == value->name) return;
    report_renamed(pass->unit->reports, value->span, "metric", value->name, now);
    value->name = now;
}

/* ---- experiments ---- */

static void rename_experiment_entries(const Pass *pass, Node *record) {
    for (int i = 0; i < record->count; i++) {
        Node *entry = record->kids[i], *value = entry->count ? entry->kids[0] : NULL;
        if (entry->kind != NODE_ENTRY) continue;
        rename_node(pass, experiment, "entry", entry);
        if (strcmp(entry->name, "metric") || !value) continue;
        rename_metric(pass, value);
        for (int k = 0; k < value->count && value->kind == NODE_RECORD; k++) {
            Node *own = value->kids[k];
            rename_node(pass, metric, "entry", own);
            if (!strcmp(own->name, "name")) rename_metric(pass, own->kids[0]);
            if (!strcmp(own->name, "goal") && own->kids[0]->kind == NODE_NAME)
                rename_node(pass, goals, "value", own->kids[0]);
        }
    }
}

/* ---- optimizers and parametrizations ---- */

/* Whether the body has a name of its own: an option, or an equation where those set nothing. */
static bool declares_name(const Node *node, const char *name, bool equations) {
    if (!node) return false;
    bool named = node->kind == NODE_OPTION || (equations && node->kind == NODE_EQUATION);
    if (named && !strcmp(node->name, name)) return true;
    for (int i = 0; i < node->count; i++)
        if (declares_name(node->kids[i], name, equations)) return true;
    return false;
}

/* The option of some optimizer that had the name. */
static const char *renamed_optimizer_option(const Unit *unit, const char *name) {
    const char *now = NULL;
    LIST_EACH(const Node, optimizer, &unit->optimizers) {
        const Node *body = optimizer->kids[0];
        for (int k = 0; k < body->count; k++) {
            const Node *option = body->kids[k];
            if (option->kind != NODE_OPTION) continue;
            if (!strcmp(option->name, name)) return NULL;
            for (int j = 0; option->aliases && j < option->aliases->count; j++) {
                const Node *alias = option->aliases->kids[j];
                if (!alias->count && alias->number != 1 && !strcmp(alias->name, name))
                    now = option->name;
            }
        }
    }
    return now;
}

static void rename_fact(const Pass *pass, Node *node) {
    const Node *body = pass->item->kids[0];
    bool rule = pass->item->kind == NODE_PARAMETRIZATION;
    if (node->kind == NODE_NAME && !declares_name(body, node->name, true))
        rename_node(pass, facts, "condition", node);
    if (!rule || declares_name(body, node->name, false)) return;
    bool setting = !strcmp(node->name, "forward");
    if (node->kind == NODE_NAME && (setting || !declares_name(body, node->name, true)))
        rename_node(pass, ratios, "setting", node);
    else if (node->kind == NODE_EQUATION && setting)
        rename_node(pass, ratios, "setting", node);
    const char *now = renamed_optimizer_option(pass->unit, node->name);
    if (!now) return;
    report_renamed(pass->unit->reports, node->name_span, "option", node->name, now);
    node->name = now;
}

/* ---- */

static void rename_in(const Pass *pass, Node *node) {
    if (!node) return;
    if (node->kind == NODE_TYPE) rename_node(pass, types, "type", node);
    if (node->kind == NODE_INPUT) rename_node(pass, inputs, "input kind", node->kids[1]);
    if (node->kind == NODE_CALL) rename_call(pass, node);
    if (node->kind == NODE_EXPERIMENT) rename_experiment_entries(pass, node->kids[0]);
    if (pass->item && (node->kind == NODE_NAME || node->kind == NODE_EQUATION))
        rename_fact(pass, node);
    Pass inner = *pass;
    if (node->kind == NODE_OPTIMIZER || node->kind == NODE_PARAMETRIZATION) inner.item = node;
    for (int i = 0; i < node->count; i++) rename_in(&inner, node->kids[i]);
}

void rename_words(Unit *unit, Node *file) {
    const Pass pass = {.unit = unit};
    rename_in(&pass, file);
}
