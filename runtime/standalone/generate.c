/* generate: continues a text, whose bytes are the tokens.
 *
 *     ./generate --prompt TEXT [--tokens N] [--temperature T] [--seed N] [--weights weights.bin]
 *     [--speed 1]
 *
 * A temperature of 0 takes the likeliest token each time. With --speed 1 it says at the end how
 * fast it was.
 */
#include "model.h"
#include "streams.h"
#include "wishes.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

typedef struct Wishes {
    const char *prompt, *weights;
    long tokens, speed;
    double temperature;
    uint64_t seed;
} Wishes;

static int32_t likeliest(const float *logits, long count) {
    long best = 0;
    for (long i = 1; i < count; i++)
        if (logits[i] > logits[best])
            best = i;
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
    if (temperature <= 0)
        return best;
    double total = 0;
    for (long i = 0; i < count; i++)
        total += exp((logits[i] - logits[best]) / temperature);
    double left = draw(state) * total;
    for (long i = 0; i < count; i++) {
        left -= exp((logits[i] - logits[best]) / temperature);
        if (left < 0)
            return (int32_t)i;
    }
    return best;
}

static double seconds_now(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Reads the prompt, then writes tokens until there are enough or the context is full. */
static int generate(Model *model, const Wishes *wishes) {
    const float *logits = NULL;
    for (const unsigned char *byte = (const unsigned char *)wishes->prompt; *byte; byte++) {
        int error = model_step(model, *byte, &logits);
        if (error)
            return error;
    }
    uint64_t state = wishes->seed;
    fputs(wishes->prompt, stdout);
    for (long i = 0; i < wishes->tokens && !ferror(stdout); i++) {
        int32_t token = sample(logits, model_vocabulary(model), wishes->temperature, &state);
        putchar(token < 256 ? token : '?');
        fflush(stdout);
        int error = i + 1 < wishes->tokens ? model_step(model, token, &logits) : MODEL_FINE;
        if (error)
            return error == MODEL_FULL ? MODEL_FINE : error;
    }
    return MODEL_FINE;
}

static int read_wishes(Wishes *wishes, int count, char **arguments) {
    const Wish known[] = {
        {.name = "--prompt", .text = &wishes->prompt},
        {.name = "--weights", .text = &wishes->weights},
        {.name = "--tokens", .whole = &wishes->tokens},
        {.name = "--speed", .whole = &wishes->speed},
        {.name = "--temperature", .real = &wishes->temperature},
        {.name = "--seed", .seed = &wishes->seed},
    };
    return wishes_read(known, (int)(sizeof known / sizeof *known), count, arguments) &&
           wishes->prompt && *wishes->prompt;
}

static void finish(const char *name, const Model *model, const Wishes *wishes, double began) {
    putchar('\n');
    if (wishes->speed)
        fprintf(stderr, "%.4g tokens/s\n", (double)model_position(model) / (seconds_now() - began));
    if (model_vocabulary(model) > 256)
        fprintf(stderr,
                "%s: the model has %ld tokens and no texts for them: those of the prompt are its "
                "bytes, and one above 255 is written as '?'\n",
                name, model_vocabulary(model));
}

int main(int count, char **arguments) {
    streams_hold();
    Wishes wishes = {.weights = "weights.bin", .tokens = 100};
    if (!read_wishes(&wishes, count, arguments)) {
        fprintf(stderr,
                "usage: %s --prompt TEXT [--tokens N] [--temperature T] [--seed N] [--weights "
                "FILE] [--speed 1]\n",
                arguments[0]);
        return 2;
    }
    Model *model;
    int error = model_open(&model, wishes.weights);
    double began = seconds_now();
    if (!error)
        error = generate(model, &wishes);
    if (!error)
        finish(arguments[0], model, &wishes, began);
    const char *problem = error ? model_error(error) : streams_end();
    if (problem)
        fprintf(stderr, "%s: %s\n", arguments[0], problem);
    model_free(model);
    return problem ? 1 : 0;
}
