/* generate: completes a text. Tokens are those of tokenizer.bin, or bytes without that file.
 *
 *     ./generate -p TEXT [-n N] [--temperature T] [--seed N] [--numbers 1] [--speed 1]
 *     [--weights weights.bin] [--tokenizer tokenizer.bin]
 *
 * -p and -n are also --prompt and --max-tokens, as in moec generate. --temperature 0: greedy
 * sampling. --numbers 1: the prompt is a list of token ids, separated by spaces. --speed 1: prints
 * the tokens per second at the end. */
#include "lexicon.h"
#include "model.h"
#include "streams.h"
#include "options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct Options {
    const char *prompt, *weights, *tokenizer;
    long tokens, speed, numbers;
    double temperature;
    uint64_t seed;
} Options;

static int32_t likeliest(const float *logits, long count) {
    long best = 0;
    for (long i = 1; i < count; i++)
        if (logits[i] > logits[best]) best = i;
    return (int32_t)best;
}

/* The next number in [0, 1) of a splitmix64 generator. */
static double draw(uint64_t *state) {
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static int32_t sample(const float *logits, long count, double temperature, uint64_t *state) {
    int32_t best = likeliest(logits, count);
    if (temperature <= 0) return best;
    double total = 0;
    for (long i = 0; i < count; i++) total += exp((logits[i] - logits[best]) / temperature);
    double left = draw(state) * total;
    for (long i = 0; i < count; i++) {
        left -= exp((logits[i] - logits[best]) / temperature);
        if (left < 0) return (int32_t)i;
    }
    return best;
}

static double seconds_now(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Bytes of a text that may not be a whole character yet. */
typedef struct Held {
    unsigned char bytes[4];
    int count;
} Held;

/* How many of the bytes belong together: a character, the beginning of one (*whole 0), or of none
 * (*whole -1). */
static int belong(const Held *held, int *whole) {
    unsigned char first = held->bytes[0], low = 0x80, high = 0xBF;
    int needed = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    *whole = 1;
    if (first < 0x80) return 1;
    *whole = -1;
    if (first < 0xC2 || first > 0xF4) return 1;
    if (first == 0xE0 || first == 0xF0) low = first == 0xE0 ? 0xA0 : 0x90;
    if (first == 0xED || first == 0xF4) high = first == 0xED ? 0x9F : 0x8F;
    for (int i = 1; i < needed; i++, low = 0x80, high = 0xBF) {
        if (i == held->count) *whole = 0;
        if (i == held->count || held->bytes[i] < low || held->bytes[i] > high) return i;
    }
    *whole = 1;
    return needed;
}

/* Writes whole characters, U+FFFD for invalid bytes. end: no more input follows. */
static void write_held(Held *held, int end) {
    while (held->count) {
        int whole, length = belong(held, &whole);
        if (!whole && !end) return;
        if (whole == 1)
            fwrite(held->bytes, 1, (size_t)length, stdout);
        else
            fputs("\xEF\xBF\xBD", stdout);
        held->count -= length;
        memmove(held->bytes, held->bytes + length, (size_t)held->count);
    }
}

static void write_token(const Lexicon *lexicon, const Model *model, int32_t token, Held *held) {
    if (!lexicon && model_vocabulary(model) <= 256) {
        putchar(token);
    } else if (!lexicon) {
        printf(" %ld", (long)token);
    } else {
        size_t length;
        const char *bytes = lexicon_text(lexicon, token, &length);
        for (size_t i = 0; i < length; i++) {
            held->bytes[held->count++] = (unsigned char)bytes[i];
            write_held(held, 0);
        }
    }
    fflush(stdout);
}

static int read_token(Model *model, long token, const float **logits) {
    return token < 0 || token >= model_vocabulary(model)
               ? MODEL_BAD_TOKEN
               : model_step(model, (int32_t)token, logits);
}

/* The prompt as numbers, by the tokenizer, or as bytes. */
static int read_prompt(Model *model, const Lexicon *lexicon, const Options *options,
                       const float **logits) {
    int error = MODEL_FINE;
    int32_t *tokens = NULL;
    if (options->numbers) {
        char *end = NULL;
        for (const char *at = options->prompt; *at && !error; at = end + strspn(end, " ,")) {
            long token = strtol(at, &end, 10);
            error = end == at ? MODEL_BAD_TOKEN : read_token(model, token, logits);
        }
    } else if (lexicon) {
        long count = lexicon_encode(lexicon, options->prompt, &tokens);
        error = count < 0 ? MODEL_NO_MEMORY : MODEL_FINE;
        for (long i = 0; i < count && !error; i++) error = read_token(model, tokens[i], logits);
    } else {
        for (const char *byte = options->prompt; *byte && !error; byte++)
            error = read_token(model, (unsigned char)*byte, logits);
    }
    free(tokens);
    return error;
}

/* Reads the prompt, then writes tokens until there are enough or the context is full. */
static int generate(Model *model, const Lexicon *lexicon, const Options *options) {
    const float *logits = NULL;
    int error = read_prompt(model, lexicon, options, &logits);
    if (error || !logits) return error ? error : MODEL_BAD_TOKEN;
    uint64_t state = options->seed;
    Held held = {.count = 0};
    fputs(options->prompt, stdout);
    for (long i = 0; i < options->tokens && !error && !ferror(stdout); i++) {
        int32_t token = sample(logits, model_vocabulary(model), options->temperature, &state);
        write_token(lexicon, model, token, &held);
        error = i + 1 < options->tokens ? model_step(model, token, &logits) : MODEL_FINE;
    }
    write_held(&held, 1);
    return error == MODEL_FULL ? MODEL_FINE : error;
}

static int read_options(Options *options, int count, char **arguments) {
    const Option known[] = {
        {.name = "--prompt", .text = &options->prompt},
        {.name = "-p", .text = &options->prompt},
        {.name = "--weights", .text = &options->weights},
        {.name = "--tokenizer", .text = &options->tokenizer},
        {.name = "--numbers", .whole = &options->numbers},
        {.name = "--max-tokens", .whole = &options->tokens},
        {.name = "--tokens", .whole = &options->tokens}, /* former name */
        {.name = "-n", .whole = &options->tokens},
        {.name = "--speed", .whole = &options->speed},
        {.name = "--temperature", .real = &options->temperature},
        {.name = "--seed", .seed = &options->seed},
    };
    return options_read(known, (int)(sizeof known / sizeof *known), count, arguments) &&
           options->prompt && *options->prompt;
}

static void finish(const Model *model, const Options *options, double began) {
    putchar('\n');
    if (options->speed)
        fprintf(stderr, "%.4g tokens/s\n", (double)model_position(model) / (seconds_now() - began));
}

/* Opens the tokenizer of the folder, if there is one. Returns an error message or NULL. */
static const char *open_lexicon(Lexicon **lexicon, const Model *model, const Options *options) {
    int error = lexicon_open(lexicon, options->tokenizer);
    if (error && error != LEXICON_NO_FILE)
        return error == LEXICON_DAMAGED ? "the tokenizer is damaged" : "not enough memory";
    if (options->numbers || (*lexicon && lexicon_encodes(*lexicon))) return NULL;
    if (*lexicon)
        return "this folder cannot encode text with the tokenizer of the model (see README.md): "
               "pass the prompt as token ids, with --numbers 1";
    return model_vocabulary(model) <= 256 ? NULL
                                          : "the model has no tokenizer and its tokens are not "
                                            "bytes: pass the prompt as token ids, with --numbers 1";
}

int main(int count, char **arguments) {
    streams_hold();
    Options options = {.weights = "weights.bin", .tokenizer = "tokenizer.bin", .tokens = 100};
    if (!read_options(&options, count, arguments)) {
        fprintf(stderr,
                "usage: %s -p, --prompt TEXT [-n, --max-tokens N] [--temperature T] [--seed N] "
                "[--numbers 1] [--speed 1] [--weights FILE] [--tokenizer FILE]\n",
                arguments[0]);
        return 2;
    }
    Model *model;
    Lexicon *lexicon = NULL;
    int error = model_open(&model, options.weights);
    int of_file = error == MODEL_NO_FILE || error == MODEL_NOT_OURS || error == MODEL_DAMAGED;
    const char *file = of_file ? options.weights : "";
    const char *problem = error ? model_error(error) : open_lexicon(&lexicon, model, &options);
    double began = seconds_now();
    if (!problem) {
        error = generate(model, lexicon, &options);
        if (!error) finish(model, &options, began);
        problem = error ? model_error(error) : streams_end();
    }
    if (problem) fprintf(stderr, "%s: %s%s%s\n", arguments[0], file, *file ? ": " : "", problem);
    lexicon_free(lexicon);
    model_free(model);
    return problem ? 1 : 0;
}
