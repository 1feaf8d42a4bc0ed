/* init: moec init: fresh random weights. The numbers of a tensor depend on the seed and its public
 * name alone. */
#include "abi/json_make.h"
#include "base/message.h"
#include "command/commands.h"
#include "base/memory.h"
#include "model/model.h"
#include "command/spec.h"
#include "base/version.h"

#include <stdlib.h>

static bool write_weights(const Model *model, const char *bundle, long seed, const char *path) {
    json_t *notes = json_object();
    int count;
    Entry *entries = model_entries(model, false, notes, &count);
    char *digits = memory_format("%ld", seed);
    json_object_set_new(notes, "format", json_text("moec"));
    json_object_set_new(notes, "version", json_text(MOEC_VERSION));
    json_object_set_new(notes, "model", json_text(model->table->model));
    json_object_set_new(notes, "spec", json_text(bundle));
    json_object_set_new(notes, "seed", json_text(digits));
    bool written = safetensors_write(path, entries, count, notes);
    free(digits);
    entries_free(entries, count);
    json_decref(notes);
    return written;
}

int command_init(int argc, char **argv) {
    const Command *command = command_row("init");
    const char *operand, *out = NULL;
    long seed = -1;
    TextList sets = {0};
    const Option table[] = {
        {OPTION_COUNT, "--seed", "N", &seed, "of the random numbers"},
        {OPTION_TEXT, "--out", "FILE", &out, "the safetensors file to write"},
        {OPTION_LIST, "--set", "KEY=VALUE", &sets, "an option of the model, as in the file"},
        {.kind = OPTION_END},
    };
    int code = arguments_read(command, table, argc, argv, &operand);
    if (code >= 0) return code;
    if (seed < 0 || !out) return arguments_wrong(command, NULL, "moec init needs --seed and --out");
    MoecCompiler *compiler = spec_open(operand, &sets);
    const GraphShape shape = {.graph = MOEC_FORWARD};
    Model *model = compiler ? model_describe(compiler, &shape) : NULL;
    bool good = model != NULL;
    if (good) {
        model_initialise(model, (uint64_t)seed);
        good = write_weights(model, moec_bundle(compiler), seed, out);
        if (good)
            written_message(out, "moec train %s --from %s --data PATH --out DIR", operand, out);
    }
    model_close(model);
    moec_close(compiler);
    return good ? 0 : EXIT_INPUT;
}
