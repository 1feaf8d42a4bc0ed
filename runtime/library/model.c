/* Models of libmoec: load, save, free. */
#include "library/library.h"

#include "base/memory.h"
#include "base/message.h"
#include "training/spec.h"

#include <stdlib.h>
#include <string.h>

/* ---- loading ---- */

static MoecCompiler *open_spec_text(const char *text, const TextList *sets) {
    const MoecDocument document = {"spec", text, strlen(text)};
    AUTO(MoecCompiler) *plain = moec_open_document(&document, 1, NULL, getenv("MOEC_PATH"));
    if (!reports_good(plain)) return NULL;
    const char *bundle = moec_bundle(plain);
    MoecCompiler *compiler = moec_open_bundle(bundle, strlen(bundle), sets->items, sets->count);
    if (reports_good(compiler)) return compiler;
    moec_close(compiler);
    return NULL;
}

MoecCompiler *library_spec(const char *path, const char *text, const TextList *sets) {
    if (!path != !text) return text ? open_spec_text(text, sets) : spec_open(path, sets);
    error_message(NULL, "expected either a path or the text of a spec, got %s",
                  path ? "both" : "neither");
    return NULL;
}

bool library_sets(const char *const *sets, int count, TextList *list) {
    if (count < 0 || count > LIST_LIMIT)
        return error_message(NULL, "set_count is %d: expected 0 to %d", count, LIST_LIMIT);
    if (count && !library_given((const void *)sets, "sets")) return false;
    for (list->count = 0; list->count < count; list->count++) {
        if (!sets[list->count]) return error_message(NULL, "sets[%d] is NULL", list->count);
        list->items[list->count] = sets[list->count];
    }
    return true;
}

static bool open_model_compiler(MoecModel *model, const char *path, const MoecLoad *load) {
    TextList sets;
    if (!library_sets(load->sets, load->set_count, &sets)) return false;
    model->compiler = library_spec(path, load->spec, &sets);
    if (model->compiler && load->input_gradients) moec_differentiate_inputs(model->compiler);
    if (model->compiler && load->cotangent) moec_split_training(model->compiler, load->cotangent);
    if (model->compiler && path && spec_is_run(path)) {
        model->file = checkpoint_open(path);
        return model->file && checkpoint_tokenizer(model->file, &model->tokenizer);
    }
    return model->compiler != NULL;
}

static bool open_library_model(MoecModel *model, const MoecLoad *load) {
    GraphShape shapes[5];
    int count = 0, can = load->can ? load->can : MOEC_CAN_RUN | MOEC_CAN_GENERATE;
    long batch = load->batch, context = load->context;
    model->settings = settings_of(model->compiler);
    model->length = context ? context : model->settings.context;
    if (can & MOEC_CAN_RUN)
        shapes[count++] = (GraphShape){.graph = MOEC_FORWARD, .batch = batch, .context = context};
    if (can & MOEC_CAN_TRAIN)
        shapes[count++] = (GraphShape){.graph = MOEC_TRAIN, .batch = batch, .context = context};
    int decode = count;
    for (int i = 0; i < 2 && can & MOEC_CAN_GENERATE; i++)
        shapes[count++] = (GraphShape){.graph = MOEC_DECODE,
                                       .batch = 1,
                                       .context = model->length,
                                       .tokens = i ? PREFILL_TOKENS : 1};
    if (can & MOEC_CAN_TRAIN) shapes[count++] = (GraphShape){.graph = MOEC_UPDATE};
    model->model = model_open(device_cpu(), model->compiler, shapes, count, true);
    if (!model->model) return false;
    const MoecGraphEntry *graphs = model->model->table->graphs;
    bool good = true;
    if (can & MOEC_CAN_RUN) good = (model->run = call_open(model->model, &graphs[0], NULL)) != NULL;
    if (good && can & MOEC_CAN_TRAIN)
        good = (model->train = call_open(model->model, &graphs[decode - 1], NULL)) != NULL;
    if (good && can & MOEC_CAN_GENERATE)
        good = (model->decoder = decoder_of(model->model, &graphs[decode], &graphs[decode + 1],
                                            model->length)) != NULL;
    return good;
}

static bool has_input(const Call *call, const char *name) {
    for (int i = 0; call && i < call->graph->input_count; i++)
        if (strcmp(call->graph->inputs[i].name, name) == 0) return true;
    return false;
}

static bool load_model(const char *path, const MoecLoad *load, MoecModel *model) {
    if (!open_model_compiler(model, path, load) || !open_library_model(model, load)) return false;
    model_initialise(model->model, load->seed);
    if (model->train) {
        model->stepper = (Stepper){.train = model->train,
                                   .settings = model->settings,
                                   .seed = load->seed,
                                   .order = {.context = moec_context(model)}};
        if (!step_prepare(&model->stepper)) return false;
    }
    if (load->cotangent && !(model->split = has_input(model->train, load->cotangent)))
        return error_message(NULL, "training has no input '%s'", load->cotangent);
    return model->file ? model_read(model->model, model->file, false) : model_put(model->model);
}

static bool check_load(const MoecLoad *load) {
    const int known = MOEC_CAN_RUN | MOEC_CAN_TRAIN | MOEC_CAN_GENERATE;
    if (load->can & ~known)
        return error_message(NULL,
                             "can is %d: expected a sum of MOEC_CAN_RUN, MOEC_CAN_TRAIN and "
                             "MOEC_CAN_GENERATE",
                             load->can);
    if (load->cotangent && !(load->can & MOEC_CAN_TRAIN))
        return error_message("add MOEC_CAN_TRAIN to `can`", "a cotangent requires MOEC_CAN_TRAIN");
    if (load->batch < 0 || load->batch > INT32_MAX)
        return error_message(NULL, "batch is %ld: expected 1 to %d, or 0 for the batch of the spec",
                             load->batch, INT32_MAX);
    if (load->context < 0 || load->context > INT32_MAX)
        return error_message(NULL,
                             "context is %ld: expected 1 to %d, or 0 for the context of the spec",
                             load->context, INT32_MAX);
    return true;
}

static bool load_new_model(const Request *request) {
    MoecModel **model = request->result;
    if (!library_given(model, "model")) return false;
    *model = NULL;
    if (!check_load(request->load)) return false;
    *model = memory_new(sizeof **model);
    library_add(*model);
    if (load_model(request->text, request->load, *model)) return true;
    moec_free(*model);
    *model = NULL;
    return false;
}

int moec_load(const char *path, const MoecLoad *how, MoecModel **model) {
    static const MoecLoad plain;
    return library_run(
        load_new_model,
        &(Request){.text = path, .load = how ? how : &plain, .result = (void *)model});
}

void moec_free(MoecModel *model) {
    if (!model) return;
    library_remove(model);
    step_release(&model->stepper);
    call_close(model->run);
    call_close(model->train);
    decoder_close(model->decoder);
    model_close(model->model);
    tokenizer_close(model->tokenizer);
    safetensors_close(model->file);
    moec_close(model->compiler);
    free(model->windows);
    free(model);
}

static bool save(const Request *request) {
    MoecModel *model = request->model;
    if (!library_given(request->text, "path")) return false;
    size_t length;
    const Companions companions = {
        .tokenizer = model->tokenizer ? tokenizer_json(model->tokenizer, &length) : NULL,
        .files = model->file ? safetensors_files(model->file) : NULL};
    const TrainState place = {.step = model->step, .seed = model->stepper.seed, .best = INFINITY};
    bool written = checkpoint_write(request->text, model->model, moec_bundle(model->compiler),
                                    &companions, &place, false);
    json_decref(companions.files);
    return written;
}

int moec_save(MoecModel *model, const char *path) {
    return library_call(save, &(Request){.model = model, .text = path});
}
