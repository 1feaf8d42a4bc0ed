/* init: moec init: initial random weights. The values of a tensor depend on the seed and its
 * public name only. */
#include "abi/json_make.h"
#include "base/files.h"
#include "tools/command/line/commands.h"
#include "base/memory.h"
#include "model/model.h"
#include "training/spec.h"
#include "base/build.h"

#include <stdlib.h>

static bool write_initial_weights(const Model *model, const char *bundle, long seed,
                                  const char *path) {
    json_auto_t *notes = json_object();
    int count;
    TensorEntry *entries = model_entries(model, false, notes, &count);
    char *digits = memory_format("%ld", seed);
    json_object_update_new(notes, json_make("{s:s, s:s, s:s, s:s, s:s}", "format", "moec",
                                            "version", MOEC_VERSION, "model", model->table->model,
                                            "spec", bundle, "seed", digits));
    bool written = safetensors_write(path, entries, count, notes);
    free(digits);
    entries_free(entries, count);
    return written;
}

int command_init(const Command *command, int argc, char **argv) {
    const char *operand, *out = NULL;
    long seed = 1;
    bool force = false, json = false;
    TextList sets = {0};
    const Option table[] = {
        {OPTION_COUNT, "--seed", "N", &seed, "seed of the weights (default 1)"},
        {OPTION_TEXT, "--out", "FILE", &out, "safetensors file, - for stdout"},
        {OPTION_FLAG, "--force", NULL, &force, "replacement of an existing file"},
        {OPTION_FLAG, "--json", NULL, &json, "result as JSON"},
        SET_OPTION(&sets),
    };
    int code = arguments_read(command, OPTIONS(table), argc, argv, &operand);
    if (code >= 0) return code;
    if (!out) return arguments_wrong(command, NULL, "moec init requires --out");
    if ((code = json_result_check(command, json, out)) >= 0) return code;
    if (!spec_may_write(out, force)) return EXIT_INPUT;
    AUTO(MoecCompiler) *compiler = spec_open(operand, &sets);
    const GraphShape shape = {.graph = MOEC_FORWARD};
    AUTO(Model) *model = compiler ? model_describe(compiler, &shape) : NULL;
    bool good = model != NULL;
    if (good) {
        model_initialise(model, (uint64_t)seed);
        good = write_initial_weights(model, moec_bundle(compiler), seed, out);
    }
    if (good)
        written_message(out, "moec train %s --init-from %s --data PATH --out DIR", operand, out);
    if (good && json)
        json_result_written(out,
                            json_make("{s:s, s:I, s:i, s:I}", "model", moec_model(compiler),
                                      "parameters", (json_int_t)model_elements(model), "tensors",
                                      model->parameter_count, "seed", (json_int_t)seed));
    return good ? 0 : EXIT_INPUT;
}
