/* eval: moec eval: the loss of a trained model on data. */
#include "training/checkpoint.h"
#include "command/commands.h"
#include "base/message.h"
#include "model/examples.h"
#include "training/measure.h"
#include "training/texts.h"
#include "base/seconds.h"
#include "base/json_number.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Of the text: as many tokens as it has bytes. */
static double bits_per_byte(const Data *data, double bits) {
    return bits * (double)data->count / (double)data->text_bytes;
}

static void tell(const Data *data, const Evaluation *found, double seconds, bool json, long step) {
    bool apart = data->record > 0; /* the loss of examples has no bits */
    uint64_t count = apart ? data->count / data->record : found->tokens;
    const char *what = apart ? "examples" : "tokens";
    double bits = found->nats / log(2);
    if (json) {
        json_t *object = json_pack("{s:o}", "loss", json_number(found->nats));
        if (!apart)
            json_object_set_new(object, data->bytes ? "bits_per_byte" : "bits_per_token",
                                json_number(bits));
        if (data->text_bytes)
            json_object_set_new(object, "bits_per_byte", json_number(bits_per_byte(data, bits)));
        if (!apart) json_object_set_new(object, "perplexity", json_number(exp(found->nats)));
        json_object_set_new(object, what, json_integer((json_int_t)count));
        json_object_set_new(object, "seconds", json_real(seconds));
        json_object_set_new(object, "step", json_integer((json_int_t)step));
        json_dumpf(object, stdout, JSON_INDENT(2));
        puts("");
        json_decref(object);
        return;
    }
    char unit[80] = "";
    if (data->text_bytes)
        snprintf(unit, sizeof unit, "  %.4f bits/token, %.4f bits/byte", bits,
                 bits_per_byte(data, bits));
    else if (!apart)
        snprintf(unit, sizeof unit, "  %.4f %s", bits, data->bytes ? "bits/byte" : "bits/token");
    printf("loss %.4f%s", found->nats, unit);
    if (!apart) printf(", perplexity %.5g", exp(found->nats));
    printf("  on %" PRIu64 " %s, weights of step %ld\n", count, what, step);
}

static bool measure(Call *call, const char *path, const Tokenizer *tokenizer, bool json,
                    long step) {
    Data *data = texts_open(path, tokenizer, call);
    if (!data) return false;
    uint64_t context = (uint64_t)call_context(call);
    /* Windows of tokens share one token, examples nothing. */
    uint64_t stride = data->record ? data->record : context;
    Evaluation found;
    double began = seconds_now();
    bool good =
        data->count > context ||
        error_message("give more data", "%s holds %" PRIu64 " tokens, a window takes %" PRIu64,
                      path, data->count, context + 1);
    good =
        good && measure_loss(call, data, 0, stride, (data->count - !data->record) / stride, &found);
    if (good) tell(data, &found, seconds_now() - began, json, step);
    good = good && (isfinite(found.nats) || model_tell_nonsense(call->model, "the loss is"));
    data_close(data);
    return good;
}

int command_eval(int argc, char **argv) {
    const Command *command = command_row("eval");
    const char *operand, *path = NULL, *name = "cpu";
    bool json = false;
    TextList sets = {0};
    const Option table[] = {
        {OPTION_TEXT, "--data", "PATH", &path,
         "as for moec train: text, llm.c tokens, or a file of examples"},
        {OPTION_FLAG, "--json", NULL, &json, "loss, bits_per_byte, tokens, step as JSON"},
        {OPTION_TEXT, "--device", "NAME", &name, "cpu (default), cuda or cuda:N"},
        {OPTION_LIST, "--set", "KEY=VALUE", &sets,
         "an option of the model, such as train.batch or train.context"},
        {.kind = OPTION_END},
    };
    int code = arguments_read(command, table, argc, argv, &operand);
    if (code >= 0) return code;
    if (!path) return arguments_wrong(command, NULL, "moec eval needs --data");
    Safetensors *file = checkpoint_open(operand);
    MoecCompiler *compiler = file ? checkpoint_spec(file, sets.items, sets.count) : NULL;
    Device *device = compiler ? device_open(name) : NULL;
    const GraphShape shape = {.graph = MOEC_MEASURE};
    Model *model = device ? model_open_on(device, compiler, &shape, 1, true) : NULL;
    moec_close(compiler);
    bool good = model && model_read(model, file, false);
    Call *call = good ? call_open(model, model_graph(model, MOEC_GRAPH_MEASURE), NULL) : NULL;
    Tokenizer *tokenizer = NULL;
    good = call && checkpoint_tokenizer(file, &tokenizer) &&
           measure(call, path, tokenizer, json, checkpoint_step(file));
    tokenizer_close(tokenizer);
    call_close(call);
    model_close(model);
    device_close(device);
    safetensors_close(file);
    return good ? 0 : EXIT_INPUT;
}
