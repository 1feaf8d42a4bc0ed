/* frozen: frozen parameters stay unchanged to the last bit with any optimizer. Parameters that are declared as frozen have
 * neither gradients nor optimizer states, in memory and in checkpoints. MOEC_DEVICE=cuda: on that device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../compiler/moec.h"
#include "../../runtime/base/memory.h"
#include "../../runtime/model/model.h"
#include "../../runtime/training/evaluation.h"
#include "../../runtime/training/step.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char text[] =
    "use decoder\n"
    "layer part(x[s,d]) -> y[s,d] {\n"
    "  param held[d,d], moved[d,d]\n"
    "  y[s,j] = (sum[d] x[s,d] * stop(held[d,j])) + (sum[d] x[s,d] * moved[d,j])\n"
    "}\n"
    /* an optimizer that changes all its parameters, even without lr */
    "optimizer eager {\n"
    "  state m = 0\n"
    "  update m = 0.5 * m + clip * grad + 0.1 * weight\n"
    "  update weight = weight - 0.01 * m\n"
    "}\n"
    "model frozen = decoder {\n"
    "  vocab_size = 32, dim = 16, layers = 3, attention.heads.q = 2, ffn = part\n"
    "  train = { batch_size = 2, context_length = 8, optimizer = eager }\n"
    "  parameters = [{ of = \"embedding\", freeze = true }, { of = \"*.attention.*\", freeze = "
    "true }]\n"
    "}\n";

static bool is_still(const char *name) {
    return !strcmp(name, "embedding") || strstr(name, ".attention.") || strstr(name, ".held");
}

static Data *make_data(void) {
    Data *data = memory_new(sizeof *data);
    data->count = 256;
    data->words = memory_new(sizeof *data->words * (size_t)data->count);
    for (int i = 0; i < 256; i++) data->words[i] = i * 7 % 31;
    return data;
}

static Model *trained_model(Device *device) {
    const GraphShape shapes[] = {{.graph = MOEC_TRAIN}, {.graph = MOEC_UPDATE}};
    char *path = memory_format("%s/moec_frozen_%ld.moe",
                               getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", random());
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    MoecCompiler *compiler = moec_open(path, "frozen", NULL, 0, NULL);
    if (moec_failed(compiler)) fail_msg("%s", moec_reports(compiler));
    Model *model = model_open(device, compiler, shapes, 2, true);
    assert_non_null(model);
    Data *data = make_data();
    Call *train = call_open(model, model_graph(model, MOEC_GRAPH_TRAIN), NULL);
    Stepper stepper = {.train = train,
                       .data = data,
                       .order = {1, data->count, call_context(train), 0},
                       .settings = settings_of(compiler),
                       .seed = 1};
    step_prepare(&stepper);
    model_initialise(model, 3);
    for (long step = 0; step < 3; step++) {
        StepResult result;
        assert_true(step_run(&stepper, step, 0, &result));
    }
    assert_true(model_get(model, true));
    step_release(&stepper);
    call_close(train);
    data_close(data);
    moec_close(compiler);
    remove(path);
    free(path);
    return model;
}

static Device *device;

static void test_weights_stay(void **state) {
    (void)state;
    Model *model = trained_model(device);
    float *after = memory_new(model->table->weight_bytes);
    memcpy(after, model->weights, model->table->weight_bytes);
    model_initialise(model, 3);
    for (int i = 0; i < model->parameter_count; i++) {
        const PublicTensor *one = &model->parameters[i];
        size_t first = one->offset / sizeof(float);
        bool same = !memcmp(after + first, model->weights + first, one->count * sizeof(float));
        if (same != is_still(one->name))
            fail_msg("%s %s", one->name, same ? "was not trained" : "has moved");
    }
    free(after);
    model_close(model);
}

/* Checkpoints have optimizer states of trained parameters. The memory blocks of gradients and states have nothing of declared
 * frozen parameters. */
static void test_memory(void **state) {
    (void)state;
    Model *model = trained_model(device);
    int count, states = 0, trained = 0;
    size_t frozen = 0;
    json_t *notes = json_object();
    TensorEntry *entries = model_entries(model, true, notes, &count);
    for (int i = 0; i < count; i++) {
        const char *colon = strchr(entries[i].name, ':');
        if (strncmp(entries[i].name, "optimizer.", 10) != 0) continue;
        states++;
        if (is_still(colon + 1)) fail_msg("%s is in the checkpoint", entries[i].name);
    }
    for (int i = 0; i < model->parameter_count; i++) {
        trained += !is_still(model->parameters[i].name);
        if (is_still(model->parameters[i].name) && !strstr(model->parameters[i].name, ".held"))
            frozen += model->parameters[i].count * sizeof(float);
    }
    assert_int_equal(states, trained);
    assert_int_equal(model->table->frozen_bytes, frozen);
    assert_int_equal(trained_bytes(model->table), model->table->weight_bytes - frozen);
    entries_free(entries, count);
    json_decref(notes);
    model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_weights_stay),
                                       cmocka_unit_test(test_memory)};
    device = device_open(getenv("MOEC_DEVICE") ? getenv("MOEC_DEVICE") : "cpu");
    if (!device) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device_close(device);
    return failed;
}
