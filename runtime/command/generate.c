/* generate: moec generate: a text goes on, token by token, as the decode graph of the trained model
 * gives it. */
#include "model/checkpoint.h"
#include "command/commands.h"
#include "base/complain.h"
#include "model/decoder.h"
#include "base/interrupt.h"
#include "base/memory.h"
#include "model/sample.h"
#include "base/seconds.h"
#include "command/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Options {
    const char *operand, *prompt, *device;
    long tokens;
    bool speed;
    Sampling sampling;
} Options;

/* Bytes of the prompt as tokens, the first place first. */
static bool read_prompt(Decoder *decoder, const char *prompt, const float **logits) {
    size_t length = strlen(prompt);
    int32_t *tokens = memory_new(sizeof *tokens * (length + 1));
    bool good = true;
    for (size_t i = 0; i < length && good; i++) {
        tokens[i] = (unsigned char)prompt[i];
        good = tokens[i] < decoder_vocabulary(decoder) ||
               complain("this model was not trained on bytes of text",
                        "byte %zu of the prompt is outside the vocabulary", i);
    }
    *logits = good ? decoder_feed(decoder, tokens, (long)length) : NULL;
    free(tokens);
    return *logits != NULL;
}

static bool write_text(const Options *options, Decoder *decoder) {
    const float *logits;
    fputs(options->prompt, stdout);
    fflush(stdout);
    if (!read_prompt(decoder, options->prompt, &logits)) return false;
    double began = seconds_now();
    long made = 0;
    interrupt_watch();
    while (made < options->tokens && !interrupt_signal() && !ferror(stdout)) {
        if (!sample_possible(logits, decoder_vocabulary(decoder)))
            return model_tell_nonsense(decoder->model, "a logit is");
        int32_t token =
            sample_token(&options->sampling, logits, decoder_vocabulary(decoder), (uint64_t)made);
        if (decoder_vocabulary(decoder) <= 256)
            putchar(token);
        else
            printf(" %d", token);
        if (isatty(1)) fflush(stdout);
        if (++made < options->tokens) logits = decoder_feed(decoder, &token, 1);
        if (!logits) return false;
    }
    if (isatty(1)) putchar('\n');
    fflush(stdout);
    if (options->speed)
        fprintf(stderr, "%ld tokens, %.1f tok/s\n", made, (double)made / (seconds_now() - began));
    return true;
}

static bool generate(const Options *options, const TextList *sets) {
    Safetensors *file = checkpoint_open(options->operand);
    MoecCompiler *compiler = file ? checkpoint_spec(file, sets->items, sets->count) : NULL;
    long length = (long)strlen(options->prompt);
    bool talks = compiler && spec_generates(compiler);
    Device *device = talks ? device_open(options->device) : NULL;
    Decoder *decoder =
        device ? decoder_open_on(device, compiler, length, length + options->tokens) : NULL;
    moec_close(compiler);
    bool good = decoder && model_read(decoder->model, file, false) && write_text(options, decoder);
    decoder_close(decoder);
    device_close(device);
    safetensors_close(file);
    return good;
}

int command_generate(int argc, char **argv) {
    const Command *command = command_row("generate");
    Options options = {
        .device = "cpu", .tokens = 256, .sampling = {.temperature = 0.8, .top_p = 1}};
    long seed = 0;
    TextList sets = {0};
    const Option table[] = {
        {OPTION_TEXT, "--prompt", "TEXT", &options.prompt, "the beginning"},
        {OPTION_COUNT, "--tokens", "N", &options.tokens, "how many tokens to add (default 256)"},
        {OPTION_NUMBER, "--temperature", "T", &options.sampling.temperature,
         "0: always the most likely (default 0.8)"},
        {OPTION_COUNT, "--top-k", "K", &options.sampling.top_k,
         "choose among the K most likely; 0: all"},
        {OPTION_NUMBER, "--top-p", "P", &options.sampling.top_p,
         "choose among the most likely that reach P together"},
        {OPTION_COUNT, "--seed", "N", &seed, "of the choices (default 0)"},
        {OPTION_FLAG, "--speed", NULL, &options.speed, "tell the speed on stderr"},
        {OPTION_TEXT, "--device", "NAME", &options.device, "cpu (default), cuda or cuda:N"},
        {OPTION_LIST, "--set", "KEY=VALUE", &sets, "an option of the model, as in the file"},
        {.kind = OPTION_END},
    };
    int code = arguments_read(command, table, argc, argv, &options.operand);
    if (code >= 0) return code;
    if (!options.prompt || !*options.prompt)
        return arguments_wrong(command, "the model goes on from at least one character",
                               "moec generate needs --prompt");
    if (options.sampling.temperature < 0 || options.sampling.top_p <= 0 ||
        options.sampling.top_p > 1)
        return arguments_wrong(command, NULL,
                               "--temperature is 0 or more; --top-p is above 0 and at most 1");
    options.sampling.seed = (uint64_t)seed;
    if (!generate(&options, &sets)) return EXIT_INPUT;
    return interrupt_signal() ? 128 + interrupt_signal() : 0;
}
