/* counterpart: match the parameters of a model with those of another model.
 *
 * Counterparts have the same use: in a matrix product, in a lookup, or in neither. They have axes
 * of the same names and uses, the same position relative to all others, the same relation to the
 * residual stream, and both are inside or outside of a repeat. Among those, the one with the most
 * similar path is the counterpart.
 *
 *     block.*.ffn.each.down[n,f,d]   matches block.*.ffn.down[f,d]
 *     block.*.ffn.router[d,n]        matches none: no axis n there
 */
#include "analysis/parameter_facts.h"
#include "elaborate/transfer/transfer.h"

#include <ctype.h>
#include <string.h>

const char *pattern_of(Arena *arena, const char *path) {
    Text text = text_new(arena);
    for (const char *at = path; *at;) {
        size_t length = strcspn(at, ".");
        bool step = *at == '{' || isdigit((unsigned char)*at);
        text_add(&text, "%.*s%s", step ? 1 : (int)length, step ? "*" : at, at[length] ? "." : "");
        at += length + (at[length] == '.');
    }
    return text.text;
}

static unsigned use_of(const Tensor *tensor, int axis) {
    return tensor->facts->axes[axis] & (AXIS_SUMMED | AXIS_KEPT | AXIS_LOOKED_UP | AXIS_SHARED);
}

/* The number of own axes with an axis of the same name and use in the other tensor. */
static int common_axes(const Tensor *a, const Tensor *b) {
    int common = 0;
    for (int i = a->lead; i < a->rank; i++) {
        bool found = false;
        for (int j = b->lead; j < b->rank; j++)
            found |= !strcmp(a->axes[i]->name, b->axes[j]->name) && use_of(a, i) == use_of(b, j);
        common += found;
    }
    return common;
}

static bool may_stand_for(const ParameterFlow *a, const ParameterFlow *b) {
    const Tensor *x = a->tensor, *y = b->tensor;
    if (a->product != b->product || a->lookup != b->lookup || a->joins != b->joins ||
        a->last != b->last || a->first != b->first || !x->repeats != !y->repeats)
        return false;
    int own = x->rank - x->lead, common = common_axes(x, y);
    if (own != y->rank - y->lead) return false;
    return common == own || (a->joins && common > 0);
}

/* Similarity of two paths: equality, else the common prefix and an equal last part. */
static int likeness(const char *a, const char *b) {
    int score = 1;
    if (!strcmp(a, b)) return 1000;
    for (int i = 0; a[i] && a[i] == b[i]; i++) score += a[i] == '.' ? 2 : 0;
    return score + (strcmp(short_name(a), short_name(b)) ? 0 : 100);
}

const ParameterFlow **match_parameters(Arena *arena, const List *flows, const List *base) {
    const ParameterFlow **found = arena_alloc(arena, ((size_t)flows->count + 1) * sizeof *found);
    for (int i = 0; i < flows->count; i++) {
        const ParameterFlow *flow = flows->items[i];
        const char *path = pattern_of(arena, flow->tensor->path);
        int best = 0;
        LIST_EACH(const ParameterFlow, other, base) {
            if (!may_stand_for(flow, other)) continue;
            int score = likeness(path, pattern_of(arena, other->tensor->path));
            bool vector = !flow->product && !flow->lookup;
            if (score > best && (!vector || score >= 100)) {
                found[i] = other;
                best = score;
            }
        }
    }
    return found;
}
