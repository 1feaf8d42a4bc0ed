/* inherit: the entries of an experiment, with those of the experiment that it is based on. */
#include "passes.h"

#include <string.h>

enum { MAX_EXPERIMENT_BASES = 100 };

/* True if both entries set the same thing. `vary { A = ..., B = ... }` has no name: it
 * replaces nothing. */
static bool replaces_entry(const Node *own, const Node *inherited) {
    if (own->kind != inherited->kind) return false;
    return own->kind == NODE_EQUALISE || (*own->name && !strcmp(own->name, inherited->name));
}

static const Node *based_on(const Unit *unit, const Node *experiment) {
    return experiment->count > 1 ? node_called(&unit->experiments, experiment->kids[1]->name)
                                 : NULL;
}

Node *inherited_plan(const Unit *unit, const Node *experiment) {
    const Node *chain[MAX_EXPERIMENT_BASES];
    int length = 0;
    for (const Node *at = experiment; at && length < MAX_EXPERIMENT_BASES; at = based_on(unit, at))
        chain[length++] = at;
    Node *plan = node_new(unit->arena, NODE_RECORD, experiment->kids[0]->span);
    while (length-- > 0) {
        const Node *own = chain[length]->kids[0];
        int inherited = plan->count;
        for (int i = 0; i < own->count; i++) {
            int at = 0;
            while (at < inherited && !replaces_entry(own->kids[i], plan->kids[at])) at++;
            if (at < inherited)
                plan->kids[at] = own->kids[i];
            else
                node_add(unit->arena, plan, own->kids[i]);
        }
    }
    return plan;
}

bool check_experiment_base(const Unit *unit, const Node *experiment) {
    const Node *base = experiment;
    for (int depth = 0; base->count > 1; depth++) {
        const Node *name = base->kids[1];
        base = node_called(&unit->experiments, name->name);
        if (base && depth < MAX_EXPERIMENT_BASES) continue;
        report_error(unit->reports, name->span,
                     base ? "experiment '%s' is based on itself" : "unknown experiment '%s'",
                     name->name);
        if (base)
            report_help(unit->reports, "remove one '= %s' of the cycle", name->name);
        else
            report_help(unit->reports, "declare experiment %s in this file or in one that it uses",
                        name->name);
        return false;
    }
    return true;
}
