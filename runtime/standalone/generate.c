/* generate: completes a text. Tokens are those of tokenizer.bin, or bytes without that file.
 *
 *     ./generate -p TEXT [-n N] [--temperature T] [--top-k K] [--top-p P] [--min-p P] [--seed N]
 *     [--ignore-eos] [--token-ids] [--perf] [--weights weights.bin] [--tokenizer tokenizer.bin]
 *
 * The options have the meaning of those of moec generate, and the same seed makes the same text.
 * -p and -n are also --prompt and --max-tokens. --temperature 0: greedy sampling. --token-ids:
 * prompt and output are token ids, separated by spaces. --perf: prints the tokens per second. */
#include "lexicon.h"
#include "model.h"
#include "options.h"
#include "pick.h"
#include "random.h"
#include "streams.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct Options {
    const char *prompt, *weights, *tokenizer;
    long tokens;
    long old_numbers, old_speed; /* former options: --numbers 1 is about the prompt alone */
    int token_ids, ignore_eos, perf;
    Picking picking;
    uint64_t seed;
} Options;

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

static void write_token(const Lexicon *lexicon, const Model *model, int32_t token, int as_id,
                        Held *held) {
    if (as_id || (!lexicon && model_vocabulary(model) > 256)) {
        printf(" %ld", (long)token);
    } else if (!lexicon) {
        putchar(token);
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
    if (options->token_ids || options->old_numbers) {
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

/* Writes tokens until a special one, until there are enough or the KV cache is full; returns their
 * number. */
static long write_tokens(Model *model, const Lexicon *lexicon, const Options *options,
                         const float *logits, Candidate *candidates, int *error) {
    Held held = {.count = 0};
    int ends = lexicon && !options->token_ids && !options->ignore_eos;
    long made = 0;
    while (made < options->tokens && !*error && !ferror(stdout)) {
        double u = random_uniform(options->seed, (uint64_t)made);
        int32_t token =
            pick_token(&options->picking, logits, model_vocabulary(model), u, candidates);
        if (ends && lexicon_ends(lexicon, token)) break;
        write_token(lexicon, model, token, options->token_ids, &held);
        if (++made < options->tokens) *error = model_step(model, token, &logits);
    }
    write_held(&held, 1);
    return made;
}

/* Reads the prompt, writes the text, then reports the speed or a full KV cache. */
static int generate(Model *model, const Lexicon *lexicon, const Options *options) {
    const float *logits = NULL;
    int error = read_prompt(model, lexicon, options, &logits);
    if (error || !logits) return error ? error : MODEL_BAD_TOKEN;
    Candidate *candidates = malloc(sizeof *candidates * (size_t)model_vocabulary(model));
    if (!candidates) return MODEL_NO_MEMORY;
    fputs(options->prompt, stdout);
    double began = seconds_now();
    long made = write_tokens(model, lexicon, options, logits, candidates, &error);
    double seconds = seconds_now() - began;
    free(candidates);
    if (error && error != MODEL_FULL) return error;
    putchar('\n');
    fflush(stdout);
    if (error)
        fprintf(stderr,
                "note: the text ends after %ld of %ld tokens: the KV cache has %ld positions; "
                "moec emit -c N sets their number\n",
                made, options->tokens, model_context(model));
    if (options->perf || options->old_speed)
        fprintf(stderr, "%ld tokens, %.1f tokens/s\n", made, (double)made / seconds);
    return MODEL_FINE;
}

static int read_options(Options *options, int count, char **arguments) {
    const Option known[] = {
        {.name = "--prompt", .text = &options->prompt},
        {.name = "-p", .text = &options->prompt},
        {.name = "--weights", .text = &options->weights},
        {.name = "--tokenizer", .text = &options->tokenizer},
        {.name = "--token-ids", .flag = &options->token_ids},
        {.name = "--max-tokens", .whole = &options->tokens},
        {.name = "-n", .whole = &options->tokens},
        {.name = "--ignore-eos", .flag = &options->ignore_eos},
        {.name = "--perf", .flag = &options->perf},
        {.name = "--temperature", .real = &options->picking.temperature},
        {.name = "--top-k", .whole = &options->picking.top_k},
        {.name = "--top-p", .real = &options->picking.top_p},
        {.name = "--min-p", .real = &options->picking.min_p},
        {.name = "--seed", .seed = &options->seed},
        {.name = "--numbers", .whole = &options->old_numbers}, /* former names */
        {.name = "--speed", .whole = &options->old_speed},
        {.name = "--tokens", .whole = &options->tokens},
    };
    return options_read(known, (int)(sizeof known / sizeof *known), count, arguments) &&
           options->prompt && *options->prompt;
}

/* Opens the tokenizer of the folder, if there is one. Returns an error message or NULL. */
static const char *open_lexicon(Lexicon **lexicon, const Model *model, const Options *options) {
    int error = lexicon_open(lexicon, options->tokenizer);
    if (error && error != LEXICON_NO_FILE)
        return error == LEXICON_DAMAGED ? "the tokenizer is damaged" : "not enough memory";
    if (options->token_ids || options->old_numbers || (*lexicon && lexicon_encodes(*lexicon)))
        return NULL;
    if (*lexicon)
        return "this folder cannot encode text with the tokenizer of the model (see README.md): "
               "pass the prompt as token ids, with --token-ids";
    return model_vocabulary(model) <= 256 ? NULL
                                          : "the model has no tokenizer and its tokens are not "
                                            "bytes: pass the prompt as token ids, with --token-ids";
}

static const char usage[] =
    "-p TEXT [options]\n"
    "  -p, --prompt TEXT     prompt\n"
    "  -n, --max-tokens N    maximum number of generated tokens (default 100)\n"
    "  --temperature T       sampling temperature (default 0: greedy decoding)\n"
    "  --top-k K             sampling from the K likeliest tokens\n"
    "  --top-p P             sampling from the likeliest tokens with total probability P\n"
    "  --min-p P             sampling from tokens with P times the highest probability\n"
    "  --seed N              seed of the sampling (default 1)\n"
    "  --ignore-eos          continue after special tokens such as end of text\n"
    "  --token-ids           prompt and output are token ids\n"
    "  --perf                tokens/s on stderr\n"
    "  --weights FILE        weights (default weights.bin)\n"
    "  --tokenizer FILE      tokenizer (default tokenizer.bin)\n";

int main(int count, char **arguments) {
    streams_hold();
    Options options = {.weights = "weights.bin",
                       .tokenizer = "tokenizer.bin",
                       .tokens = 100,
                       .seed = 1,
                       .picking.top_p = 1};
    if (!read_options(&options, count, arguments)) return options_usage(usage, count, arguments);
    Model *model;
    Lexicon *lexicon = NULL;
    int error = model_open(&model, options.weights);
    int of_file = error == MODEL_NO_FILE || error == MODEL_NOT_OURS || error == MODEL_DAMAGED;
    const char *file = of_file ? options.weights : "";
    const char *problem = error ? model_error(error) : open_lexicon(&lexicon, model, &options);
    if (!problem) {
        error = generate(model, lexicon, &options);
        problem = error ? model_error(error) : streams_end();
    }
    if (problem) fprintf(stderr, "%s: %s%s%s\n", arguments[0], file, *file ? ": " : "", problem);
    lexicon_free(lexicon);
    model_free(model);
    return problem ? 1 : 0;
}
