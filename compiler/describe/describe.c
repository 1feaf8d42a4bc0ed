/* describe: cost of a model: computation, memory, decoding; as JSON. */
#include "describe/describe.h"

#include "abi/json_make.h"
#include "schedule/kernel.h"

#include <stdlib.h>
#include <string.h>

double role_bytes(const Program *program, Role role) {
    double bytes = 0;
    LIST_EACH(const Tensor, tensor, &program->tensors)
        if (tensor->role == role && !(tensor->of && tensor->of->frozen))
            bytes += 4.0 * (double)tensor_elements(tensor);
    return bytes;
}

/* Bytes of optimizer state: one copy of the parameters per state, except for parameters that an
 * optimizer updates as whole matrices, whose states are those of the matrix-update program. */
double optimizer_bytes(MoecCompiler *compiler, double weights) {
    const Program *update = moec_compile(compiler, MOEC_UPDATE, 0, 0, 0),
                  *step = moec_unit(compiler)->whole.count
                              ? moec_compile(compiler, MOEC_STEP, 0, 0, 0)
                              : NULL;
    int count = 0;
    for (int i = 0; update && i < update->tensors.count; i++)
        if (((Tensor *)update->tensors.items[i])->role == ROLE_STATE) count++;
    if (!step) return count * weights;
    return count * (weights - role_bytes(step, ROLE_PARAMETER)) + role_bytes(step, ROLE_STATE);
}

/* The most bytes of activations in any stage of the training; below 0 after an error. */
static double stage_activations(MoecCompiler *compiler, double bytes) {
    const List *stages = &moec_unit(compiler)->stages;
    for (int i = 0; i + 1 < stages->count; i++) {
        const Stage *stage = stages->items[i];
        Program *program = moec_compile(compiler, MOEC_TRAIN, stage->batch, stage->context, 0);
        if (!program) return -1;
        const double own = (double)moec_schedule(compiler, program)->arena_bytes;
        if (own > bytes) bytes = own;
    }
    return bytes;
}

bool describe(MoecCompiler *compiler, Summary *summary) {
    Arena *arena = moec_arena(compiler);
    Program *forward = moec_compile(compiler, MOEC_FORWARD, 0, 0, 0);
    if (!forward) return false;
    summary->forward = forward;
    summary->cost = cost(arena, forward);
    summary->flops_train = training_flops(compiler, forward);
    warn_of_leaks(compiler, forward);
    summary->decoding = moec_decoding(compiler);
    summary->stages = &moec_unit(compiler)->stages;
    summary->trains = forward->loss != NULL && moec_option(compiler, "train.batch_size");
    Program *train = summary->trains ? moec_compile(compiler, MOEC_TRAIN, 0, 0, 0) : forward;
    if (!train) return false;
    summary->train = train;
    summary->weights = role_bytes(forward, ROLE_PARAMETER);
    summary->states = role_bytes(forward, ROLE_STATE);
    summary->activations = (double)moec_schedule(compiler, train)->arena_bytes;
    if (summary->trains) summary->activations = stage_activations(compiler, summary->activations);
    if (summary->activations < 0) return false;
    if (train->rounded) summary->compute_weights = summary->weights / 2;
    if (summary->trains) {
        summary->gradients = role_bytes(train, ROLE_GRADIENT);
        summary->optimizer = optimizer_bytes(compiler, summary->gradients);
    }
    summary->total = summary->weights + summary->gradients + summary->optimizer +
                     summary->compute_weights + summary->states + summary->activations;
    return true;
}

static json_t *layer_costs_json(const Cost *cost) {
    json_t *layers = json_array();
    LIST_EACH(const LayerCost, layer, &cost->layers)
        json_array_append_new(layers, json_make("{s:s, s:f, s:f, s:f}", "path", layer->path,
                                                "parameters", layer->parameters, "active",
                                                layer->active, "flops", layer->flops));
    return layers;
}

static json_t *decoding_json(const Decoding *decoding) {
    if (decoding->hindrance)
        return json_make("{s:b, s:s}", "derived", 0, "hindrance", decoding->hindrance);
    return json_make("{s:b, s:I, s:I, s:f, s:I, s:I, s:I}", "derived", 1, "bytes_per_token",
                     (json_int_t)decoding->bytes_per_token, "constant_bytes",
                     (json_int_t)decoding->constant_bytes, "flops_per_token", decoding->flops,
                     "context_length", (json_int_t)decoding->positions, "weight_bytes",
                     (json_int_t)(decoding->weights.smaller + decoding->weights.full),
                     "prepared_bytes", (json_int_t)decoding->weights.prepared);
}

static void note_selection(Statement *statement, void *data) {
    *(bool *)data |= statement_selects(statement);
}

const char *moec_cost_json(MoecCompiler *compiler) {
    Summary summary = {0};
    if (moec_failed(compiler) || !describe(compiler, &summary)) return NULL;
    const Cost *cost = summary.cost;
    json_t *root = json_make(
        "{s:s, s:{s:I, s:I, s:I}, s:{s:f, s:f}, s:I, s:I, s:{s:I, s:I, s:I}, s:o}", "model",
        moec_model(compiler), "params", "total", (json_int_t)(cost->parameters + 0.5), "active",
        (json_int_t)(cost->active + 0.5), "embedding", (json_int_t)(cost->embedding + 0.5),
        "flops_per_token", "forward", cost->flops_forward, "train", summary.flops_train,
        "cache_bytes_per_token", (json_int_t)summary.decoding.bytes_per_token, "peak_bytes",
        (json_int_t)summary.total, "bytes", "weights", (json_int_t)summary.weights, "states",
        (json_int_t)summary.states, "temporaries", (json_int_t)summary.activations, "layers",
        layer_costs_json(cost));
    json_object_set_new(root, "decoding", decoding_json(&summary.decoding));
    json_t *bytes = json_object_get(root, "bytes");
    json_object_set_new(bytes, "gradients", json_integer((json_int_t)summary.gradients));
    json_object_set_new(bytes, "optimizer", json_integer((json_int_t)summary.optimizer));
    json_object_set_new(bytes, "compute_weights",
                        json_integer((json_int_t)summary.compute_weights));
    bool selects = false;
    block_walk(&summary.forward->body, note_selection, &selects);
    if (selects) json_object_set_new(root, "selects", json_true());
    json_t *warnings = json_loads(moec_warnings_json(compiler), 0, NULL);
    if (json_array_size(warnings)) json_object_set(root, "warnings", warnings);
    json_decref(warnings);
    return arena_take(moec_arena(compiler),
                      json_write_new(root, JSON_INDENT(2) | JSON_REAL_PRECISION(15)));
}

static bool has_inside(const List *settings, const char *path) {
    size_t length = strlen(path);
    LIST_EACH(const Setting, other, settings)
        if (!strncmp(other->path, path, length) && other->path[length] == '.') return true;
    return false;
}

/* Without its record, "cosine" of "cosine { warmup = 4 }", if the fields have their own rows. */
static json_t *setting_json(const List *settings, const Setting *setting) {
    size_t word = strcspn(setting->text, " ");
    bool record = word && setting->text[0] != '[' && !strncmp(setting->text + word, " {", 2);
    if (record && has_inside(settings, setting->path)) return json_text_bytes(setting->text, word);
    return json_text(setting->text);
}

const char *moec_options_json(MoecCompiler *compiler) {
    const List *settings = moec_settings(compiler);
    json_t *root = json_object();
    LIST_EACH(const Setting, setting, settings)
        if (!setting->unread)
            json_object_set_new(root, setting->path, setting_json(settings, setting));
    return arena_take(moec_arena(compiler), json_write_new(root, JSON_INDENT(2)));
}
