/* equal_size: solve for the integer value of an option that makes a variant as large as the base.
 * If one option is too coarse, a second one compensates for the remainder.
 *
 *     match params by ffn.hidden_dim              the nearest size
 *     match params by [layers, ffn.hidden_dim]    layers about right, then the other
 *
 * A variant that lacks one of two options is solved by the other one.
 */
#include "experiment/experiment.h"

#include <math.h>
#include <string.h>

enum { MAX_SOLVED = 1 << 24, HOLES = 64, NEIGHBOURS = 2 };

/* Units of the sizes. */
static const struct {
    const char *word, *unit;
} measures[] = {{"params", "parameters"},
                {"active", "activated parameters"},
                {"flops", "FLOP/token"},
                {"cache", "bytes of KV cache per token"},
                {"time", "ns/token at peak"}};

enum { MEASURES = sizeof measures / sizeof *measures };

typedef struct Solution {
    const Expansion *expansion;
    List overrides;
    const Node *path, *second; /* the options; second: NULL with one option */
    const char *name;          /* of the variant */
    double wanted;
    bool tell; /* report the reason of a failure */
} Solution;

/* A value of the option with a valid model, and the size of the model. */
typedef struct SizedModel {
    long number;
    double size;
    bool good;
} SizedModel;

static const char *size_unit_of(const Expansion *expansion) {
    for (int i = 0; i < MEASURES; i++)
        if (!strcmp(measures[i].word, expansion->asked->match->name)) return measures[i].unit;
    return "";
}

static double matched_size(const Expansion *expansion, const MoecVariant *variant) {
    const char *what = expansion->asked->match->name;
    return !strcmp(what, "params")   ? variant->parameters
           : !strcmp(what, "active") ? variant->active
           : !strcmp(what, "flops")  ? variant->flops_train
           : !strcmp(what, "cache")  ? variant->cache
                                     : variant->nanoseconds;
}

Node *number_entry(Arena *arena, const Node *path, double number) {
    Node *value = node_new(arena, NODE_NUMBER, path->span);
    value->number = number;
    value->name = arena_format(arena, "%.17g", number);
    Node *entry = node_named(arena, NODE_ENTRY, path->span, path->name, path->span);
    node_add(arena, entry, value);
    return entry;
}

static bool model_size_at(const Solution *solution, long number, bool tell, double *size) {
    Arena *arena = solution->expansion->arena;
    List overrides = {0};
    MoecVariant variant = {0};
    list_append(arena, &overrides, &solution->overrides);
    list_push(arena, &overrides, number_entry(arena, solution->path, (double)number));
    bool good = variant_describe(solution->expansion, &overrides, tell, &variant);
    *size = matched_size(solution->expansion, &variant);
    return good;
}

/* The first value from `number` on with a valid model. Some values violate divisibility
 * conditions. */
static SizedModel candidate_from(const Solution *solution, long number) {
    SizedModel candidate = {.number = number};
    for (; candidate.number < number + HOLES; candidate.number++) {
        candidate.good = model_size_at(solution, candidate.number, false, &candidate.size);
        if (candidate.good) break;
    }
    return candidate;
}

static bool tell_unreachable(const Solution *solution, SizedModel nearest, const char *why) {
    const Expansion *expansion = solution->expansion;
    if (!solution->tell) return false;
    report_error(expansion->reports, expansion->asked->match->span,
                 "no value of '%s' makes variant '%s' as large as the base (%.0f %s)",
                 solution->path->name, solution->name, solution->wanted, size_unit_of(expansion));
    report_note(expansion->reports, (Span){0}, "%s = %ld results in %.0f %s: %s",
                solution->path->name, nearest.number, nearest.size, size_unit_of(expansion), why);
    return report_help(expansion->reports, "match by another option, or remove match");
}

/* Two values of the option whose sizes enclose the required size; the size of the lower one is not
 * above it. */
static bool bracket(const Solution *solution, SizedModel *low, SizedModel *high) {
    double size;
    *low = candidate_from(solution, 1);
    if (!low->good) return model_size_at(solution, 1, solution->tell, &size);
    *high = candidate_from(solution, low->number + 1);
    if (!high->good) return tell_unreachable(solution, *low, "no larger value is valid");
    if (high->size == low->size)
        return tell_unreachable(solution, *high, "the option does not change the size");
    if (low->size > solution->wanted && low->size - solution->wanted > (high->size - low->size) / 2)
        return tell_unreachable(solution, *low, "the smallest valid value is already too large");
    while (high->size < solution->wanted) {
        *low = *high;
        *high = candidate_from(solution, 2 * low->number);
        if (!high->good || high->number > MAX_SOLVED)
            return tell_unreachable(solution, *low, "no larger value is valid");
    }
    return true;
}

/* The nearer of the two values that enclose the required size. */
static bool solve_for_size(const Solution *solution, SizedModel *found) {
    SizedModel low, high;
    if (!bracket(solution, &low, &high)) return false;
    while (high.number - low.number > 1) {
        SizedModel middle = candidate_from(solution, low.number + (high.number - low.number) / 2);
        if (!middle.good || middle.number >= high.number) {
            /* No valid value between the middle and the upper end: search below it. */
            long below = low.number + (high.number - low.number) / 2;
            while (--below > low.number && !model_size_at(solution, below, false, &middle.size))
                continue;
            if (below <= low.number) break;
            middle.number = below;
        }
        *(middle.size <= solution->wanted ? &low : &high) = middle;
    }
    *found = high.size - solution->wanted < fabs(solution->wanted - low.size) ? high : low;
    return true;
}

/* ---- two options ---- */

/* The values of both options, and the resulting size. */
typedef struct SizedPair {
    long first, second;
    double size;
} SizedPair;

/* Solves the second option for the values of the first option around its best value. On entry
 * `best` has the first option alone, and second = 0. */
static void refine(const Solution *solution, SizedPair *best) {
    const Expansion *expansion = solution->expansion;
    const long middle = best->first;
    for (long i = 0; i <= 2L * NEIGHBOURS && best->size != solution->wanted; i++) {
        long number = middle + (i % 2 ? -(i + 1) / 2 : i / 2);
        if (number < 1) continue;
        Solution own = *solution;
        SizedModel found;
        own.path = solution->second;
        own.tell = false;
        own.overrides = (List){0};
        list_append(expansion->arena, &own.overrides, &solution->overrides);
        list_push(expansion->arena, &own.overrides,
                  number_entry(expansion->arena, solution->path, (double)number));
        if (!solve_for_size(&own, &found)) continue;
        if (fabs(found.size - solution->wanted) >= fabs(best->size - solution->wanted)) continue;
        *best = (SizedPair){number, found.number, found.size};
    }
}

static const char *solved_text(const Solution *solution, SizedPair pair) {
    Arena *arena = solution->expansion->arena;
    double rest = pair.size - solution->wanted;
    const char *second = "";
    if (pair.second)
        second = arena_format(arena, " and %s = %ld", solution->second->name, pair.second);
    return arena_format(arena, "%s = %ld%s; remaining difference %+.0f %s (%+.3f %%)",
                        solution->path->name, pair.first, second, rest,
                        size_unit_of(solution->expansion), 100 * rest / solution->wanted);
}

/* The longest prefix of a path that is an option of the model: "mixer" of mixer.part.width if the
 * layer of that option has no `part`; NULL without one. */
static const char *known_part(MoecCompiler *compiler, Arena *arena, const char *path) {
    size_t length = strlen(path);
    while (length && path[length] != '.') length--;
    for (; length; length--) {
        const char *outer = path[length] == '.' ? arena_copy(arena, path, length) : NULL;
        if (outer && moec_option(compiler, outer)) return outer;
    }
    return NULL;
}

bool variant_same_size(const Expansion *expansion, const MoecVariant *a, const MoecVariant *b) {
    return !expansion->asked->match || matched_size(expansion, a) == matched_size(expansion, b);
}

static void help_with_path(const Expansion *expansion, MoecCompiler *variant, const char *path,
                           const char *name) {
    const List *settings = moec_settings(variant);
    const char **paths =
        arena_alloc(expansion->arena, ((size_t)settings->count + 1) * sizeof *paths);
    for (int i = 0; i < settings->count; i++)
        paths[i] = ((const Setting *)settings->items[i])->path;
    const char *near = did_you_mean(path, paths, settings->count);
    if (near)
        report_help(expansion->reports, "did you mean '%s'?", near);
    else
        report_help(expansion->reports,
                    "match by an option that all variants have or by [ONE, OTHER], or move '%s' to "
                    "another experiment",
                    name);
}

/* The options of the match that the variant has; false after a report that it has none. */
static bool own_options(const Expansion *expansion, const List *overrides, const char *name,
                        const Node *own[2]) {
    const Experiment *asked = expansion->asked;
    MoecCompiler *variant = moec_vary(expansion->compiler, overrides, false);
    bool failed = moec_failed(variant); /* which is reported elsewhere */
    int count = 0;
    own[0] = failed ? asked->solved[0] : NULL;
    own[1] = failed ? asked->solved[1] : NULL;
    for (int i = 0; i < 2 && !failed; i++)
        if (asked->solved[i] && moec_option(variant, asked->solved[i]->name))
            own[count++] = asked->solved[i];
    if (!failed && !count) {
        const Node *path = asked->solved[0];
        const char *outer = known_part(variant, expansion->arena, path->name);
        const char *value = outer ? moec_option(variant, outer) : NULL;
        if (value) value = arena_copy(expansion->arena, value, strcspn(value, " "));
        report_error(expansion->reports, path->span, "variant '%s' has no option '%s'%s", name,
                     path->name,
                     value ? arena_format(expansion->arena, ": its %s is %s", outer, value) : "");
        help_with_path(expansion, variant, path->name, name);
    }
    moec_close(variant);
    return failed || count;
}

bool variant_has_solved(const Expansion *expansion, const List *overrides, const char *name) {
    const Node *own[2];
    return own_options(expansion, overrides, name, own);
}

bool variant_equalise(const Expansion *expansion, List *overrides, MoecVariant *variant) {
    const Experiment *asked = expansion->asked;
    if (!asked->match || !expansion->count) return true;
    Solution solution = {.expansion = expansion,
                         .overrides = *overrides,
                         .name = variant->name,
                         .wanted = matched_size(expansion, &expansion->variants[0])};
    const Node *own[2];
    MoecVariant given = {0};
    SizedModel found;
    if (!variant_describe(expansion, overrides, true, &given)) return false;
    if (matched_size(expansion, &given) == solution.wanted) return true;
    if (!own_options(expansion, overrides, variant->name, own)) return false;
    solution.path = own[0];
    solution.second = own[1];
    solution.tell = !own[1];
    SizedPair pair = {0, 0, INFINITY};
    if (solve_for_size(&solution, &found))
        pair = (SizedPair){found.number, 0, found.size};
    else if (solution.tell)
        return false;
    else
        pair.first = 1;
    if (own[1]) refine(&solution, &pair);
    solution.tell = true;
    if (!isfinite(pair.size)) return solve_for_size(&solution, &found);
    variant->solved = solved_text(&solution, pair);
    list_push(expansion->arena, overrides,
              number_entry(expansion->arena, own[0], (double)pair.first));
    if (pair.second)
        list_push(expansion->arena, overrides,
                  number_entry(expansion->arena, own[1], (double)pair.second));
    return true;
}
