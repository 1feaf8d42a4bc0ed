/* experiment: what an experiment compares, as a list: every combination of what it varies, each
 * made equal to the base in size where it asks for that.
 */
#include "moec.h"

#include "passes.h"
#include "base/table.h"
#include "syntax/format.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

enum { MAX_VARIANTS = 256, MAX_SOLVED = 1 << 24, HOLES = 64, NAME_BYTES = 60 };

typedef struct Expansion {
    MoecCompiler *compiler;
    Arena *arena;
    Reports *reports;
    const Experiment *asked;
    MoecVariant *variants;
    int count;
} Expansion;

/* ---- one variant ---- */

/* The program, and how it is trained: other options are in the program, however they are written.
 */
static uint64_t fingerprint_of(MoecCompiler *compiler, const Program *forward) {
    const List *settings = moec_settings(compiler);
    uint64_t hash = hash_text(HASH_START, print_program(moec_arena(compiler), forward));
    for (int i = 0; i < settings->count; i++) {
        const Setting *setting = settings->items[i];
        if (strncmp(setting->path, "train.", 6)) continue;
        hash = hash_text(hash_text(hash, setting->path), setting->text);
    }
    return hash;
}

/* What the model with these overrides costs; false when there is no such model. */
static bool describe(const Expansion *expansion, const List *overrides, bool tell,
                     MoecVariant *variant) {
    MoecCompiler *compiler = moec_vary(expansion->compiler, overrides, tell);
    Program *forward = moec_compile(compiler, MOEC_FORWARD, 0, 0, 0);
    if (forward) {
        const Cost *total = cost(moec_arena(compiler), forward);
        variant->parameters = total->parameters;
        variant->active = total->active;
        variant->flops_train = total->flops_train;
        variant->steps = moec_option_number(compiler, "train.steps", 0);
        variant->tokens = variant->steps * moec_option_number(compiler, "train.batch", 0) *
                          moec_option_number(compiler, "train.context", 0) *
                          moec_option_number(compiler, "train.accumulate", 1);
        variant->fingerprint = fingerprint_of(compiler, forward);
    }
    moec_close(compiler);
    return forward != NULL;
}

/* ---- equal sizes ---- */

typedef struct Solution {
    const Expansion *expansion;
    const List *overrides;
    const Node *match;
    const char *name; /* of the variant */
    double wanted;
} Solution;

/* A number of the option that makes a model, and the size of that. */
typedef struct Candidate {
    long number;
    double size;
    bool good;
} Candidate;

static Node *number_entry(const Solution *solution, long number) {
    Arena *arena = solution->expansion->arena;
    const Node *path = solution->match->kids[0];
    Node *value = node_new(arena, NODE_NUMBER, path->span);
    value->number = (double)number;
    value->name = arena_format(arena, "%ld", number);
    Node *entry = node_named(arena, NODE_ENTRY, path->span, path->name, path->span);
    node_add(arena, entry, value);
    return entry;
}

static bool size_of(const Solution *solution, long number, bool tell, double *size) {
    Arena *arena = solution->expansion->arena;
    List overrides = {0};
    MoecVariant variant = {0};
    for (int i = 0; i < solution->overrides->count; i++)
        list_push(arena, &overrides, solution->overrides->items[i]);
    list_push(arena, &overrides, number_entry(solution, number));
    bool good = describe(solution->expansion, &overrides, tell, &variant);
    *size = strcmp(solution->match->name, "active") ? variant.parameters : variant.active;
    return good;
}

/* The first number from `number` on that makes a model: not all divide what they have to. */
static Candidate candidate_from(const Solution *solution, long number) {
    Candidate candidate = {.number = number};
    for (; candidate.number < number + HOLES; candidate.number++) {
        candidate.good = size_of(solution, candidate.number, false, &candidate.size);
        if (candidate.good) break;
    }
    return candidate;
}

static const char *what_is_matched(const Node *match) {
    return strcmp(match->name, "active") ? "parameters" : "active parameters";
}

static bool tell_unreachable(const Solution *solution, Candidate nearest, const char *why) {
    const Expansion *expansion = solution->expansion;
    const Node *path = solution->match->kids[0];
    report_error(expansion->reports, solution->match->span,
                 "no %s gives variant '%s' the %.0f %s of the base", path->name, solution->name,
                 solution->wanted, what_is_matched(solution->match));
    report_help(expansion->reports, "with %s = %ld it has %.0f: %s", path->name, nearest.number,
                nearest.size, why);
    return false;
}

/* Two numbers of the option with the wanted size between them, the lower one below or at it. */
static bool bracket(const Solution *solution, Candidate *low, Candidate *high) {
    double size;
    *low = candidate_from(solution, 1);
    if (!low->good) return size_of(solution, 1, true, &size);
    *high = candidate_from(solution, low->number + 1);
    if (!high->good) return tell_unreachable(solution, *low, "no larger number makes a model");
    if (high->size == low->size)
        return tell_unreachable(solution, *high, "the option does not change the size");
    if (low->size > solution->wanted && low->size - solution->wanted > (high->size - low->size) / 2)
        return tell_unreachable(solution, *low, "even the least number is too many");
    while (high->size < solution->wanted) {
        *low = *high;
        *high = candidate_from(solution, 2 * low->number);
        if (!high->good || high->number > MAX_SOLVED)
            return tell_unreachable(solution, *low, "no larger number makes a model");
    }
    return true;
}

/* The nearer of the two numbers that the wanted size lies between. */
static bool solve(const Solution *solution, Candidate *found) {
    Candidate low, high;
    if (!bracket(solution, &low, &high)) return false;
    while (high.number - low.number > 1) {
        Candidate middle = candidate_from(solution, low.number + (high.number - low.number) / 2);
        if (!middle.good || middle.number >= high.number) {
            /* Nothing between the middle and the upper end: look below it. */
            long below = low.number + (high.number - low.number) / 2;
            while (--below > low.number && !size_of(solution, below, false, &middle.size)) continue;
            if (below <= low.number) break;
            middle.number = below;
        }
        *(middle.size <= solution->wanted ? &low : &high) = middle;
    }
    *found = high.size - solution->wanted < fabs(solution->wanted - low.size) ? high : low;
    return true;
}

static const char *solved_text(const Solution *solution, Candidate found) {
    double rest = found.size - solution->wanted;
    return arena_format(solution->expansion->arena, "%s = %ld leaves %+.0f %s (%+.3f %%)",
                        solution->match->kids[0]->name, found.number, rest,
                        what_is_matched(solution->match), 100 * rest / solution->wanted);
}

/* Adds what makes the variant as large as the base; false after an error. */
static bool equalise(const Expansion *expansion, List *overrides, MoecVariant *variant) {
    const Node *match = expansion->asked->match;
    if (!match) return true;
    const MoecVariant *base = &expansion->variants[0];
    bool active = !strcmp(match->name, "active");
    Solution solution = {expansion, overrides, match, variant->name,
                         active ? base->active : base->parameters};
    MoecVariant given = {0};
    if (!describe(expansion, overrides, true, &given)) return false;
    if ((active ? given.active : given.parameters) == solution.wanted) return true;
    Candidate found;
    if (!solve(&solution, &found)) return false;
    variant->solved = solved_text(&solution, found);
    list_push(expansion->arena, overrides, number_entry(&solution, found.number));
    return true;
}

/* ---- all of them ---- */

static const char *value_on_line(Arena *arena, const Node *value) {
    Line line = {.arena = arena, .text = {.arena = arena}};
    line_expr(&line, value);
    return line.text.text;
}

/* "rotary_theta_1e4" of attention.rotary = { theta = 1e4 }. */
static void add_name(Text *name, const Node *entry, const char *value) {
    const char *dot = strrchr(entry->name, '.');
    const char *parts[] = {dot ? dot + 1 : entry->name, value};
    if (name->length) text_add(name, "-");
    bool gap = false, begun = false;
    for (int i = 0; i < 2; i++, gap = begun) {
        for (const char *at = parts[i]; *at && name->length < NAME_BYTES; at++) {
            bool plain = isalnum((unsigned char)*at) || *at == '.' || *at == '-';
            if (plain) text_add(name, "%s%c", gap ? "_" : "", *at);
            begun = begun || plain;
            gap = !plain && begun;
        }
    }
}

/* A folder of its own for each. */
static const char *name_apart(const Expansion *expansion, const char *name) {
    const char *apart = name;
    for (int number = 2, i = 0; i < expansion->count; i++) {
        if (strcmp(expansion->variants[i].name, apart)) continue;
        apart = arena_format(expansion->arena, "%s_%d", name, number++);
        i = -1;
    }
    return apart;
}

static void keep_sets(const Expansion *expansion, const List *overrides, MoecVariant *variant) {
    Arena *arena = expansion->arena;
    const char **sets = arena_alloc(arena, ((size_t)overrides->count + 1) * sizeof *sets);
    for (int i = 0; i < overrides->count; i++) {
        const Node *entry = overrides->items[i];
        sets[i] = arena_format(arena, "%s=%s", entry->name, value_on_line(arena, entry->kids[0]));
    }
    variant->sets = sets;
    variant->set_count = overrides->count;
}

static void add_variant(Expansion *expansion, const List *overrides, MoecVariant *variant) {
    keep_sets(expansion, overrides, variant);
    variant->name = name_apart(expansion, variant->name);
    for (int i = 0; i < expansion->count && !variant->same; i++)
        if (expansion->variants[i].fingerprint == variant->fingerprint)
            variant->same = expansion->variants[i].name;
    expansion->variants[expansion->count++] = *variant;
}

/* Number `at` of the combinations: the last of what varies changes fastest. */
static bool add_combination(Expansion *expansion, int at) {
    const Experiment *asked = expansion->asked;
    Arena *arena = expansion->arena;
    List overrides = {0};
    Text name = {.arena = arena};
    for (int i = 0; i < asked->overrides.count; i++)
        list_push(arena, &overrides, asked->overrides.items[i]);
    int after = 1;
    for (int i = 0; i < asked->vary.count; i++)
        after *= ((const Node *)asked->vary.items[i])->kids[0]->count;
    for (int i = 0; i < asked->vary.count; i++) {
        const Node *vary = asked->vary.items[i], *list = vary->kids[0];
        after /= list->count;
        Node *value = list->kids[at / after % list->count];
        Node *entry = node_named(arena, NODE_ENTRY, value->span, vary->name, vary->name_span);
        node_add(arena, entry, value);
        list_push(arena, &overrides, entry);
        add_name(&name, vary, value_on_line(arena, value));
    }
    MoecVariant variant = {.name = name.text};
    if (!equalise(expansion, &overrides, &variant) ||
        !describe(expansion, &overrides, true, &variant))
        return false;
    add_variant(expansion, &overrides, &variant);
    return true;
}

static double combinations(const Experiment *asked) {
    double count = asked->vary.count ? 1 : 0;
    for (int i = 0; i < asked->vary.count; i++)
        count *= ((const Node *)asked->vary.items[i])->kids[0]->count;
    return count;
}

const MoecExperiment *moec_expand(MoecCompiler *compiler) {
    const Experiment *asked = moec_asked(compiler);
    if (moec_failed(compiler) || !asked) return NULL;
    Unit *unit = moec_unit(compiler);
    Expansion expansion = {compiler, unit->arena, unit->reports, asked, NULL, 0};
    double count = combinations(asked);
    if (count > MAX_VARIANTS) {
        report_error(unit->reports, asked->node->name_span, "%.0f variants, more than %d", count,
                     MAX_VARIANTS);
        return NULL;
    }
    expansion.variants = arena_alloc(unit->arena, ((size_t)count + 1) * sizeof(MoecVariant));
    MoecVariant base = {.name = "base"};
    if (!describe(&expansion, &asked->overrides, true, &base)) return NULL;
    add_variant(&expansion, &asked->overrides, &base);
    for (int i = 0; i < (int)count; i++)
        if (!add_combination(&expansion, i)) return NULL;
    MoecExperiment *experiment = arena_alloc(unit->arena, sizeof *experiment);
    *experiment = (MoecExperiment){asked->node->name, asked->base, asked->seeds, expansion.variants,
                                   expansion.count};
    return experiment;
}
