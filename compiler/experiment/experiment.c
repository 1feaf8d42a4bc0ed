/* experiment: the list of variants of an experiment: every combination of its choices, solved for
 * the size of the base if the experiment matches one.
 */
#include "experiment/experiment.h"

#include "base/table.h"
#include "describe/describe.h"
#include "explain/explain.h"
#include "syntax/format.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

enum { MAX_VARIANTS = 256, NAME_BYTES = 60 };

/* ---- one variant ---- */

/* A tree without its locations: comments and line breaks do not count. */
static uint64_t hash_tree(uint64_t hash, const Node *node) {
    if (!node) return hash_word(hash, 0);
    hash = hash_word(hash_word(hash, (uint64_t)node->kind + 1), (uint64_t)node->count);
    hash = hash_text(hash, node->name ? node->name : "");
    hash = hash_bytes(hash, (const char *)&node->number, sizeof node->number);
    for (int i = 0; i < node->count; i++) hash = hash_tree(hash, node->kids[i]);
    return hash;
}

/* The optimizers and schedules of the user. */
static uint64_t hash_written(uint64_t hash, const List *declarations) {
    LIST_EACH(const Node, node, declarations)
        if (is_written(node->span)) hash = hash_tree(hash, node);
    return hash;
}

/* A hash of the program, of the files of its hand-written kernels, of the optimizers and schedules
 * of the user and of the training options. The other options are part of the program. */
static uint64_t fingerprint_of(MoecCompiler *compiler, const Program *forward) {
    uint64_t hash = hash_text(HASH_START, print_program(moec_arena(compiler), forward));
    const Unit *unit = moec_unit(compiler);
    hash = hash_written(hash_written(hash, &unit->optimizers), &unit->schedules);
    LIST_EACH(const Source, kernel, &unit->kernels) hash = hash_text(hash, kernel->text);
    LIST_EACH(const Setting, setting, moec_settings(compiler)) {
        if (strncmp(setting->path, "train.", 6)) continue;
        hash = hash_text(hash_text(hash, setting->path), setting->text);
    }
    return hash;
}

/* The cache size requires the decoding program, which is compiled only if the experiment matches
 * it. */
static bool needs_cache(const Expansion *expansion) {
    return expansion->asked->match && !strcmp(expansion->asked->match->name, "cache");
}

static bool needs_time(const Expansion *expansion) {
    return expansion->asked->match && !strcmp(expansion->asked->match->name, "time");
}

/* A sequence can be another than the context, as the patches of an image. */
static double step_tokens(MoecCompiler *compiler, const Program *forward) {
    return moec_option_number(compiler, "train.batch_size", 0) *
           (forward->sequence ? (double)forward->sequence->size : 1) *
           moec_option_number(compiler, "train.gradient_accumulation_steps", 1);
}

/* The last checkpoint with optimizer state and EMA, and the best one without. */
static double checkpoint_bytes(MoecCompiler *compiler, double parameters) {
    double weights = sizeof(float) * parameters,
           average = moec_option_number(compiler, "train.ema_decay", 0) > 0 ? weights : 0;
    return 2 * weights + average + optimizer_bytes(compiler, weights);
}

bool variant_describe(const Expansion *expansion, const List *overrides, bool tell,
                      MoecVariant *variant) {
    MoecCompiler *compiler = moec_vary(expansion->compiler, overrides, tell);
    Program *forward = moec_compile(compiler, MOEC_FORWARD, 0, 0, 0);
    if (forward) {
        const Cost *total = cost(moec_arena(compiler), forward);
        variant->parameters = total->parameters;
        variant->active = total->active;
        variant->flops_train = training_flops(compiler, forward);
        variant->cache =
            needs_cache(expansion) ? (double)moec_decoding(compiler).bytes_per_token : 0;
        variant->steps = moec_option_number(compiler, "train.steps", 0);
        variant->rounded = moec_rounded(compiler);
        variant->step_tokens = step_tokens(compiler, forward);
        variant->tokens = variant->steps * variant->step_tokens;
        variant->fingerprint = fingerprint_of(compiler, forward);
        if (tell) variant->disk = checkpoint_bytes(compiler, total->parameters);
        if (needs_time(expansion)) {
            MoecCeilings ceilings = {1e9 * expansion->asked->gflops,
                                     1e9 * expansion->asked->gbytes};
            double parts = moec_option_number(compiler, "train.gradient_accumulation_steps", 1);
            variant->nanoseconds =
                1e9 * explain_seconds(compiler, ceilings) * parts / variant->step_tokens;
        }
    }
    moec_close(compiler);
    return forward != NULL;
}

/* ---- all of them ---- */

static const char *value_on_line(Arena *arena, const Node *value) {
    Line line = {.arena = arena, .text = {.arena = arena}};
    line_expr(&line, value);
    return line.text.text;
}

/* "rotary_theta_1e4" of attention.rotary = { theta = 1e4 }, "ffn_layers.0_mlp" of
 * ffn_layers.0 = mlp. */
static void add_name_part(Text *name, const Node *entry, const char *value) {
    const char *last = entry->name;
    for (const char *at = last; *at; at++)
        if (*at == '.' && !isdigit((unsigned char)at[1])) last = at + 1;
    const char *parts[] = {last, value};
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

/* A unique name, because each variant has its own folder. */
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

static void append_variant(Expansion *expansion, const List *overrides, MoecVariant *variant) {
    keep_sets(expansion, overrides, variant);
    variant->name = name_apart(expansion, variant->name);
    for (int i = 0; i < expansion->count && !variant->same; i++)
        if (expansion->variants[i].fingerprint == variant->fingerprint)
            variant->same = expansion->variants[i].name;
    expansion->variants[expansion->count++] = *variant;
}

/* ---- budgets ---- */

/* The training steps of a budget; 0: limited by the measured time. */
static double step_budget_of(const Experiment *asked, const MoecVariant *variant) {
    double tokens = variant->step_tokens;
    switch (asked->budget) {
    case BUDGET_TOKENS:
        return asked->amount / tokens;
    case BUDGET_TOKENS_PER_PARAMETER:
        return asked->amount * variant->active / tokens;
    case BUDGET_STEPS:
        return asked->amount;
    case BUDGET_FLOPS:
        return asked->amount / (tokens * variant->flops_train);
    default:
        return 0;
    }
}

static bool add_budget(const Expansion *expansion, List *overrides, MoecVariant *variant) {
    const Experiment *asked = expansion->asked;
    if (asked->budget == BUDGET_NONE || asked->budget == BUDGET_SECONDS) return true;
    MoecVariant given = {0};
    if (!variant_describe(expansion, overrides, true, &given)) return false;
    double steps = floor(step_budget_of(asked, &given) + 0.5);
    const Node path = {.name = "train.steps", .span = asked->node->name_span};
    if (steps >= 1 && steps < 1e15) {
        list_push(expansion->arena, overrides, number_entry(expansion->arena, &path, steps));
        return true;
    }
    report_error(expansion->reports, asked->node->name_span,
                 "the budget of experiment '%s' is %s for variant '%s'", asked->node->name,
                 steps < 1 ? "less than one step" : "not a valid number of steps", variant->name);
    return report_help(expansion->reports,
                       steps < 1 ? "increase the budget" : "write a smaller budget");
}

/* ---- combinations ---- */

/* One choice of each dimension. */
typedef struct Combination {
    List overrides; /* Node * */
    const char *name;
} Combination;

static double combinations(const List *dimensions) {
    double count = 1;
    for (int i = 0; i < dimensions->count; i++)
        count *= ((const Dimension *)dimensions->items[i])->choices.count;
    return count;
}

/* Number `at`: the last dimension changes fastest. */
static Combination combination_at(const Expansion *expansion, const List *dimensions, int at) {
    Arena *arena = expansion->arena;
    Combination made = {0};
    Text name = {.arena = arena};
    int after = (int)combinations(dimensions);
    for (int i = 0; i < dimensions->count; i++) {
        const List *choices = &((const Dimension *)dimensions->items[i])->choices;
        after /= choices->count;
        const Alternative *choice = choices->items[at / after % choices->count];
        if (choice->label) text_add(&name, "%s%s", name.length ? "-" : "", choice->label);
        for (int k = 0; k < choice->overrides.count; k++) {
            const Node *entry = choice->overrides.items[k];
            list_push(arena, &made.overrides, choice->overrides.items[k]);
            if (!choice->label) add_name_part(&name, entry, value_on_line(arena, entry->kids[0]));
        }
    }
    made.name = name.text;
    return made;
}

static void append_list(Arena *arena, List *list, const List *more) {
    list_append(arena, list, more);
}

/* The tuned options as text: "train.lr = 1e-3, train.decay = 0.1". */
static const char *tuned_text(Arena *arena, const List *overrides) {
    Text text = {.arena = arena};
    for (int i = 0; i < overrides->count; i++) {
        const Node *entry = overrides->items[i];
        text_add(&text, "%s%s = %s", i ? ", " : "", entry->name,
                 value_on_line(arena, entry->kids[0]));
    }
    return text.text;
}

/* Adds one structure, solved for the size of the base, with each combination of tuned options. */
static bool add_structure(Expansion *expansion, const char *name, const List *own,
                          const int *levels) {
    const Experiment *asked = expansion->asked;
    Arena *arena = expansion->arena;
    List overrides = {0};
    MoecVariant structure = {.name = name, .structure = name, .levels = levels};
    const List common = sets_after(expansion);
    append_list(arena, &overrides, &common);
    append_list(arena, &overrides, own);
    if (!variant_equalise(expansion, &overrides, &structure)) return false;
    for (int i = 0; i < (int)combinations(&asked->tune); i++) {
        MoecVariant variant = structure;
        List all = {0};
        Combination tuned = combination_at(expansion, &asked->tune, i);
        append_list(arena, &all, &overrides);
        append_list(arena, &all, &tuned.overrides);
        if (tuned.name) variant.name = arena_format(arena, "%s-%s", name, tuned.name);
        variant.tuned = tuned.name ? tuned_text(arena, &tuned.overrides) : NULL;
        if (!add_budget(expansion, &all, &variant) ||
            !variant_describe(expansion, &all, true, &variant))
            return false;
        append_variant(expansion, &all, &variant);
    }
    return true;
}

/* ---- factors ---- */

/* Two or more crossed dimensions are factors, and a ladder alone. */
static int factor_count(const Experiment *asked) {
    return asked->vary.count > 1 || asked->ladder ? asked->vary.count : 0;
}

int experiment_ladder(Arena *arena, const Experiment *experiment) {
    const char *path = value_on_line(arena, experiment->ladder->kids[0]);
    for (int i = 0; i < experiment->vary.count; i++) {
        const Dimension *dimension = experiment->vary.items[i];
        const Alternative *choice = dimension->choices.items[0];
        for (int k = 0; k < choice->overrides.count; k++)
            if (!strcmp(((const Node *)choice->overrides.items[k])->name, path)) return i;
    }
    return -1;
}

/* "none", "{ at = sdpa }"; of paired options "64, 2"; else the name of the choice. */
static const char *choice_text(Arena *arena, const Alternative *choice) {
    Text text = {.arena = arena};
    if (choice->label) return choice->label;
    for (int i = 0; i < choice->overrides.count; i++) {
        const Node *entry = choice->overrides.items[i];
        text_add(&text, "%s%s", i ? ", " : "", value_on_line(arena, entry->kids[0]));
    }
    return text.text;
}

/* "train.lr"; of paired options "dim, layers"; "variants". */
static const char *dimension_text(Arena *arena, const Dimension *dimension) {
    const Alternative *choice = dimension->choices.items[0];
    Text text = {.arena = arena};
    if (choice->label) return "variants";
    for (int i = 0; i < choice->overrides.count; i++)
        text_add(&text, "%s%s", i ? ", " : "", ((const Node *)choice->overrides.items[i])->name);
    return text.text;
}

static const MoecFactor *experiment_factors(const Expansion *expansion) {
    Arena *arena = expansion->arena;
    const List *dimensions = &expansion->asked->vary;
    MoecFactor *factors = arena_alloc(arena, ((size_t)dimensions->count + 1) * sizeof *factors);
    for (int i = 0; i < dimensions->count; i++) {
        const Dimension *dimension = dimensions->items[i];
        int count = dimension->choices.count;
        const char **values = arena_alloc(arena, (size_t)count * sizeof *values);
        for (int k = 0; k < count; k++) values[k] = choice_text(arena, dimension->choices.items[k]);
        factors[i] = (MoecFactor){dimension_text(arena, dimension), values, count};
    }
    return factors;
}

/* The choices of combination `at`; NULL without factors. */
static const int *levels_at(const Expansion *expansion, int at) {
    const List *dimensions = &expansion->asked->vary;
    if (!factor_count(expansion->asked)) return NULL;
    int *levels = arena_alloc(expansion->arena, (size_t)dimensions->count * sizeof *levels);
    for (int i = dimensions->count - 1; i >= 0; i--) {
        int count = ((const Dimension *)dimensions->items[i])->choices.count;
        levels[i] = at % count;
        at /= count;
    }
    return levels;
}

static const MoecExperiment *expansion_result(const Expansion *expansion) {
    const Experiment *asked = expansion->asked;
    MoecExperiment *experiment = arena_alloc(expansion->arena, sizeof *experiment);
    double *shares =
        arena_alloc(expansion->arena, ((size_t)asked->halvings.count + 1) * sizeof *shares);
    for (int i = 0; i < asked->halvings.count; i++)
        shares[i] = *(const double *)asked->halvings.items[i];
    *experiment = (MoecExperiment){
        .name = asked->node->name,
        .base = asked->base,
        .model = asked->model,
        .seeds = asked->seeds,
        .variants = expansion->variants,
        .count = expansion->count,
        .metric = asked->metric,
        .higher = asked->higher,
        .hypothesis = asked->hypothesis,
        .statistics = asked->statistics,
        .factors = experiment_factors(expansion),
        .factor_count = factor_count(asked),
        .ladder = asked->ladder ? experiment_ladder(expansion->arena, asked) : -1,
        .limit = asked->limit,
        .seconds = asked->budget == BUDGET_SECONDS ? asked->amount : 0,
        .halvings = shares,
        .halving_count = asked->halvings.count,
    };
    return experiment;
}

/* The number of structures other than the base; -1 after a report. */
static int count_structures(const Expansion *expansion) {
    const Experiment *asked = expansion->asked;
    double structures = asked->vary.count ? combinations(&asked->vary) : 0;
    double count = (structures + 1) * combinations(&asked->tune);
    if (count <= MAX_VARIANTS) return (int)structures;
    report_invalid(expansion->reports, asked->node->name_span,
                   "vary fewer options, or split the experiment",
                   "too many variants: %.0f, the maximum is %d", count, MAX_VARIANTS);
    return -1;
}

/* Whether the choices result in a valid model; `base`: the variant of equal size, or NULL. */
static bool check_choices(const Expansion *expansion, const char *name, const List *own,
                          MoecVariant *base) {
    List overrides = {0};
    MoecVariant variant = {0};
    append_list(expansion->arena, &overrides, &expansion->asked->overrides);
    append_list(expansion->arena, &overrides, own);
    if (!variant_describe(expansion, &overrides, true, &variant)) return false;
    if (!base || variant_same_size(expansion, base, &variant)) return true;
    return variant_has_solved(expansion, &overrides, name);
}

/* Each choice of `tune` separately: a tuned option changes no size. */
static bool check_tuned(const Expansion *expansion) {
    const List *dimensions = &expansion->asked->tune;
    for (int i = 0; i < dimensions->count; i++) {
        const List *choices = &((const Dimension *)dimensions->items[i])->choices;
        LIST_EACH(const Alternative, choice, choices)
            if (!check_choices(expansion, NULL, &choice->overrides, NULL)) return false;
    }
    return true;
}

bool moec_check_experiment(MoecCompiler *compiler) {
    const Experiment *asked = moec_asked(compiler);
    if (moec_failed(compiler) || !asked) return false;
    Unit *unit = moec_unit(compiler);
    Expansion expansion = {compiler, unit->arena, unit->reports, asked, NULL, 0};
    MoecVariant base = {.name = "base"};
    List overrides = {0};
    int structures = count_structures(&expansion);
    append_list(unit->arena, &overrides, &asked->overrides);
    if (structures < 0 || !variant_describe(&expansion, &overrides, true, &base) ||
        !add_budget(&expansion, &overrides, &base) || !check_tuned(&expansion))
        return false;
    for (int i = 0; i < structures; i++) {
        Combination made = combination_at(&expansion, &asked->vary, i);
        if (!check_choices(&expansion, made.name, &made.overrides, &base)) return false;
    }
    return true;
}

const char *const *moec_experiments(MoecCompiler *compiler, int *count) {
    const Unit *unit = moec_unit(compiler);
    const List *all = &unit->experiments;
    const char **names =
        arena_alloc(moec_arena(compiler), ((size_t)all->count + 1) * sizeof *names);
    *count = 0;
    LIST_EACH(const Node, node, all)
        if (node->span.source == unit->sources.items[0]) names[(*count)++] = node->name;
    return names;
}

const MoecExperiment *moec_expand(MoecCompiler *compiler) {
    const Experiment *asked = moec_asked(compiler);
    if (moec_failed(compiler) || !asked) return NULL;
    Unit *unit = moec_unit(compiler);
    Expansion expansion = {compiler, unit->arena, unit->reports, asked, NULL, 0};
    int structures = count_structures(&expansion);
    if (structures < 0 || !sets_allowed(&expansion)) return NULL;
    size_t count = ((size_t)structures + 1) * (size_t)combinations(&asked->tune);
    expansion.variants = arena_alloc(unit->arena, count * sizeof(MoecVariant));
    static const List nothing = {0};
    if (!add_structure(&expansion, "base", &nothing, NULL)) return NULL;
    for (int i = 0; i < structures; i++) {
        Combination made = combination_at(&expansion, &asked->vary, i);
        if (!add_structure(&expansion, made.name, &made.overrides, levels_at(&expansion, i)))
            return NULL;
    }
    return expansion_result(&expansion);
}
