/* describe: what a model costs, as JSON and as a table. */
#include "driver.h"

#include "abi/json_make.h"
#include "schedule/kernel.h"

#include <stdlib.h>
#include <string.h>

typedef struct Summary {
    Program *forward;
    const Cost *cost;
    Decoding decoding;
    double peak, weights, states, temporaries;
} Summary;

static double bytes_of(const Program *program, Role role) {
    double bytes = 0;
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        if (tensor->role == role) bytes += 4.0 * (double)tensor_elements(tensor);
    }
    return bytes;
}

/* What the optimizer keeps of `weights` bytes of parameters: as much for each of its states, and
 * what it says where it sees parameters as a whole. */
static double optimizer_bytes(MoecCompiler *compiler, double weights) {
    const Program *update = moec_compile(compiler, MOEC_UPDATE, 0, 0, 0),
                  *step = moec_unit(compiler)->whole.count
                              ? moec_compile(compiler, MOEC_STEP, 0, 0, 0)
                              : NULL;
    int count = 0;
    for (int i = 0; update && i < update->tensors.count; i++)
        if (((Tensor *)update->tensors.items[i])->role == ROLE_STATE) count++;
    if (!step) return count * weights;
    return count * (weights - bytes_of(step, ROLE_PARAMETER)) + bytes_of(step, ROLE_STATE);
}

/* Memory of training: weights, their copy as bf16, gradients, what the optimizer keeps for each
 * weight, states, temporaries. */
static bool summarise(MoecCompiler *compiler, Arena *arena, Summary *summary) {
    Program *forward = moec_compile(compiler, MOEC_FORWARD, 0, 0, 0);
    if (!forward) return false;
    summary->forward = forward;
    summary->cost = cost(arena, forward);
    warn_of_leaks(compiler, forward);
    summary->decoding = moec_decoding(compiler);
    bool trains = forward->loss != NULL && moec_option(compiler, "train.batch_size");
    Program *train = trains ? moec_compile(compiler, MOEC_TRAIN, 0, 0, 0) : forward;
    if (!train) return false;
    const Schedule *schedule = moec_schedule(compiler, train);
    summary->weights = bytes_of(forward, ROLE_PARAMETER);
    summary->states = bytes_of(forward, ROLE_STATE);
    summary->temporaries = (double)schedule->arena_bytes;
    double rounded = train->rounded ? summary->weights / 2 : 0;
    double training = trains ? summary->weights + optimizer_bytes(compiler, summary->weights) : 0;
    summary->peak = summary->weights + training + rounded + summary->states + summary->temporaries;
    return true;
}

static json_t *layers_json(const Cost *cost) {
    json_t *layers = json_array();
    for (int i = 0; i < cost->layers.count; i++) {
        const LayerCost *layer = cost->layers.items[i];
        json_array_append_new(layers, json_make("{s:s, s:f, s:f, s:f}", "path", layer->path,
                                                "parameters", layer->parameters, "active",
                                                layer->active, "flops", layer->flops));
    }
    return layers;
}

static json_t *decoding_json(const Decoding *decoding) {
    if (decoding->hindrance)
        return json_make("{s:b, s:s}", "derived", 0, "hindrance", decoding->hindrance);
    return json_make("{s:b, s:I, s:I, s:f}", "derived", 1, "bytes_per_token",
                     (json_int_t)decoding->bytes_per_token, "constant_bytes",
                     (json_int_t)decoding->constant_bytes, "flops_per_token", decoding->flops);
}

static const char *keep(Arena *arena, char *text) {
    const char *kept = arena_copy(arena, text, strlen(text));
    free(text);
    return kept;
}

const char *moec_cost_json(MoecCompiler *compiler) {
    Arena *arena = moec_arena(compiler);
    Summary summary = {0};
    if (moec_failed(compiler) || !summarise(compiler, arena, &summary)) return NULL;
    const Cost *cost = summary.cost;
    json_t *root = json_make(
        "{s:s, s:{s:I, s:I, s:I}, s:{s:f, s:f}, s:I, s:I, s:{s:I, s:I, s:I}, s:o}", "model",
        moec_model(compiler), "params", "total", (json_int_t)(cost->parameters + 0.5), "active",
        (json_int_t)(cost->active + 0.5), "embedding", (json_int_t)(cost->embedding + 0.5),
        "flops_per_token", "forward", cost->flops_forward, "train", cost->flops_train,
        "cache_bytes_per_token", (json_int_t)summary.decoding.bytes_per_token, "peak_bytes",
        (json_int_t)summary.peak, "bytes", "weights", (json_int_t)summary.weights, "states",
        (json_int_t)summary.states, "temporaries", (json_int_t)summary.temporaries, "layers",
        layers_json(cost));
    json_object_set_new(root, "decoding", decoding_json(&summary.decoding));
    json_t *warnings = json_loads(moec_warnings_json(compiler), 0, NULL);
    if (json_array_size(warnings)) json_object_set(root, "warnings", warnings);
    json_decref(warnings);
    char *text = json_write(root, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    json_decref(root);
    return keep(arena, text);
}

static bool has_inside(const List *settings, const char *path) {
    size_t length = strlen(path);
    for (int i = 0; i < settings->count; i++) {
        const Setting *other = settings->items[i];
        if (!strncmp(other->path, path, length) && other->path[length] == '.') return true;
    }
    return false;
}

/* Of "cosine { warmup = 4 }" the word, where what it is given stands under paths of its own. */
static json_t *option_json(const List *settings, const Setting *setting) {
    size_t word = strcspn(setting->text, " ");
    bool record = word && setting->text[0] != '[' && !strncmp(setting->text + word, " {", 2);
    if (record && has_inside(settings, setting->path)) return json_text_bytes(setting->text, word);
    return json_text(setting->text);
}

const char *moec_options_json(MoecCompiler *compiler) {
    const List *settings = moec_settings(compiler);
    json_t *root = json_object();
    for (int i = 0; i < settings->count; i++) {
        const Setting *setting = settings->items[i];
        if (!setting->unread)
            json_object_set_new(root, setting->path, option_json(settings, setting));
    }
    char *text = json_write(root, JSON_INDENT(2));
    json_decref(root);
    return keep(moec_arena(compiler), text);
}

static const char *scaled(Arena *arena, double number) {
    static const struct {
        double size;
        const char *letter;
    } units[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
    for (int i = 0; i < 4; i++)
        if (number >= units[i].size)
            return arena_format(arena, "%.4g%s", number / units[i].size, units[i].letter);
    return arena_format(arena, "%.4g", number);
}

static void add_decoding(Text *text, const Decoding *decoding) {
    Arena *arena = text->arena;
    text_add(text, "  decoding         ");
    if (decoding->hindrance) {
        text_add(text, "none: %s\n", decoding->hindrance);
        return;
    }
    double bytes = (double)decoding->bytes_per_token, kept = (double)decoding->constant_bytes,
           all = bytes * (double)decoding->places + kept;
    text_add(text, "%s FLOP per token, keeps ", scaled(arena, decoding->flops));
    if (all > 0)
        text_add(text, "%s bytes for %ld places", scaled(arena, all), decoding->places);
    else
        text_add(text, "nothing");
    if (bytes > 0) text_add(text, ", %s each", scaled(arena, bytes));
    if (kept > 0) text_add(text, ", %s whatever their number", scaled(arena, kept));
    text_add(text, "\n");
}

static bool same_place(Span a, Span b) {
    return a.source == b.source && a.start == b.start;
}

/* Attention whose scores are held, as no kernel has its mask, bias or keys: each place of the spec
 * once. */
static void add_scores(Text *text, const List *all) {
    for (int i = 0; i < all->count; i++) {
        const Tensor *scores = all->items[i];
        bool told = !scores->span.source;
        for (int j = 0; j < i; j++)
            told |= same_place(((Tensor *)all->items[j])->span, scores->span);
        if (told) continue;
        text_add(
            text,
            "  scores           all %ld x %ld pairs of positions are computed, masked or not, and "
            "%s bytes held per layer: no kernel has this mask, bias or keys (%s:%d:%d)\n",
            scores->axes[scores->rank - 2]->size, scores->axes[scores->rank - 1]->size,
            scaled(text->arena, 4 * (double)tensor_elements(scores)), scores->span.source->path,
            span_line(scores->span), span_column(scores->span));
    }
}

typedef struct Choices {
    const Expr *mask;
    bool found;
} Choices;

static void find_choice(Statement *statement, void *data) {
    Choices *choices = data;
    if (statement->kind != STATEMENT_CALL || statement->call != CALL_TOP) return;
    choices->found |= expr_reads(choices->mask, ((Expr *)statement->outputs.items[0])->tensor);
}

/* Reductions over what a mask chooses are computed for the chosen entries alone where the mask is
 * an output of top. */
static void add_masked(Text *text, Program *program) {
    for (int i = 0; i < program->masked.count; i++) {
        const MaskedReduction *masked = program->masked.items[i];
        Choices choices = {.mask = masked->mask};
        block_walk(&program->body, find_choice, &choices);
        Span span = masked->asked.source ? masked->asked : masked->span;
        bool again = !span.source;
        for (int j = 0; j < i; j++)
            again |= same_place(((MaskedReduction *)program->masked.items[j])->span, masked->span);
        if (choices.found || again) continue;
        text_add(text,
                 "  computed in full all %ld entries over '%s', chosen or not: only a mask made by "
                 "top is sparse (%s:%d:%d)\n",
                 masked->entries, masked->axis->name, span.source->path, span_line(span),
                 span_column(span));
    }
}

const char *moec_cost_text(MoecCompiler *compiler) {
    Arena *arena = moec_arena(compiler);
    Summary summary = {0};
    if (moec_failed(compiler) || !summarise(compiler, arena, &summary)) return NULL;
    const Cost *cost = summary.cost;
    Text text = {.arena = arena};
    text_add(&text, "model %s\n", moec_model(compiler));
    text_add(&text, "  parameters       %s total, %s active, %s embedding\n",
             scaled(arena, cost->parameters), scaled(arena, cost->active),
             scaled(arena, cost->embedding));
    text_add(&text, "  FLOP per token   %s forward, %s training (a multiply-add is two)\n",
             scaled(arena, cost->flops_forward), scaled(arena, cost->flops_train));
    add_decoding(&text, &summary.decoding);
    add_scores(&text, &summary.forward->scores);
    add_masked(&text, summary.forward);
    text_add(&text, "  training memory  %s bytes: weights %s, temporaries %s\n\n",
             scaled(arena, summary.peak), scaled(arena, summary.weights),
             scaled(arena, summary.temporaries));
    text_add(&text, "  %-40s %12s %12s %12s\n", "layer", "parameters", "active", "FLOP/token");
    for (int i = 0; i < cost->layers.count; i++) {
        const LayerCost *layer = cost->layers.items[i];
        text_add(&text, "  %-40s %12s %12s %12s\n", layer->path, scaled(arena, layer->parameters),
                 scaled(arena, layer->active), scaled(arena, layer->flops));
    }
    return text.text;
}
