/* bench_decode: one token after the other, beside reading memory. */
#include "command/bench/bench.h"
#include "base/message.h"
#include "model/decoder.h"
#include "data/random.h"
#include "base/seconds.h"
#include "command/spec.h"

#include <math.h>
#include <stdlib.h>

enum { DECODE_SECONDS = 10, DECODE_ROUNDS = 10, AFTER_PREFIX = 64 };

/* Step by step with caches has to give what the whole window gives at once. */
static bool check_decoder(const Bench *bench, Decoder *decoder) {
    MoecCompiler *compiler = spec_open(bench->operand, &bench->sets);
    const GraphShape shape = {.graph = MOEC_FORWARD, .batch = 1, .context = 8};
    Model *model = compiler ? model_open_on(bench->on, compiler, &shape, 1, true) : NULL;
    moec_close(compiler);
    Call *call = model ? call_open(model, &model->table->graphs[0], NULL) : NULL;
    int slot = call ? call_output(call, "logits") : -1;
    bool good = slot >= 0;
    double error = 0, scale = 0, tolerance = bench->rounded ? 2e-2 : 1e-4;
    if (good) {
        long vocabulary = decoder_vocabulary(decoder);
        int32_t tokens[9];
        for (int i = 0; i < 9; i++)
            tokens[i] = (int32_t)(random_bits(5, (uint64_t)i) % (uint64_t)vocabulary);
        model_initialise(model, 1);
        call_set_windows(call, tokens);
        good = call_run(call, 0, false) && call_get(call, slot);
        for (int i = 0; good && i < 8; i++) {
            const float *stepped = decoder_feed(decoder, &tokens[i], 1);
            const float *whole = call->outputs[slot] + i * vocabulary;
            good = stepped != NULL;
            if (!good) break;
            for (long j = 0; j < vocabulary; j++) {
                error += pow((double)stepped[j] - (double)whole[j], 2);
                scale += pow((double)whole[j], 2);
            }
        }
        good =
            good &&
            (error <= tolerance * tolerance * scale ||
             error_message(NULL, "no speed is told: decoding differs from the full forward by %g",
                           sqrt(error / scale)));
    }
    call_close(call);
    model_close(model);
    return good;
}

/* Bytes of weights that one token has to read; half the caches come to that. */
static double weight_bytes(const Bench *bench, MoecCompiler *compiler, const Decoder *decoder) {
    MoecProgram *step = moec_compile(compiler, MOEC_DECODE, 1, decoder->length, 1);
    if (step) moec_lower(compiler, step, bench->on->apart);
    return step ? moec_weight_traffic(step) : 0;
}

/* Speed and ceiling of one round, taken one right after the other: on a shared machine both drift.
 */
typedef struct Round {
    double speed, touched, ceiling; /* tokens a second, bytes a token, GB a second */
} Round;

static double round_share(const Round *round) {
    return round->speed * round->touched / 1e9 / round->ceiling;
}

static int by_share(const void *a, const void *b) {
    double one = round_share(a), other = round_share(b);
    return (one > other) - (one < other);
}

static bool decode_round(const Bench *bench, Decoder *decoder, double weights, Round *round) {
    round->ceiling = bench->on->kind->ceiling_read(bench->on);
    double began = seconds_now(), cache = 0;
    long tokens = 0;
    double patience = bench->quick ? 0 : (double)DECODE_SECONDS / DECODE_ROUNDS;
    while (!tokens || seconds_now() - began < patience) {
        if (decoder->position == decoder->length) decoder->position = bench->prefix;
        int32_t token =
            (int32_t)(random_bits(9, (uint64_t)tokens) % (uint64_t)decoder_vocabulary(decoder));
        if (!decoder_feed(decoder, &token, 1)) return false;
        cache += (double)decoder->position / (double)decoder->length *
                 (double)decoder->step->graph->cache_bytes;
        tokens++;
    }
    round->speed = (double)tokens / (seconds_now() - began);
    round->touched = weights + cache / (double)tokens;
    return true;
}

static bool work_token(void *data) {
    const int32_t token = 1;
    Decoder *decoder = data;
    if (decoder->position == decoder->length) decoder->position--;
    return decoder_feed(decoder, &token, 1) != NULL;
}

bool bench_decoding(const Bench *bench) {
    const long places = bench->prefix ? bench->prefix + AFTER_PREFIX : 0;
    MoecCompiler *compiler = spec_open(bench->operand, &bench->sets);
    Decoder *decoder = compiler ? decoder_open_on(bench->on, compiler, 0, places) : NULL;
    const double weights = decoder ? weight_bytes(bench, compiler, decoder) : 0;
    moec_close(compiler);
    bool good = decoder != NULL;
    if (good) {
        model_initialise(decoder->model, 1);
        good = check_decoder(bench, decoder);
    }
    if (bench->prefix && good) decoder->position = bench->prefix;
    Round rounds[DECODE_ROUNDS];
    for (int i = 0; i < DECODE_ROUNDS && good; i++)
        good = decode_round(bench, decoder, weights, &rounds[i]);
    if (good) {
        qsort(rounds, DECODE_ROUNDS, sizeof rounds[0], by_share);
        const Round *median = &rounds[DECODE_ROUNDS / 2], *best = &rounds[DECODE_ROUNDS - 1];
        bench_tell(bench, "tokens_per_second", median->speed);
        bench_tell(bench, "bytes_per_token", median->touched);
        bench_tell(bench, "read_gbytes_per_second", median->speed * median->touched / 1e9);
        bench_tell(bench, "ceiling_gbytes_per_second", median->ceiling);
        bench_tell(bench, "share_of_bandwidth", round_share(median));
        bench_tell(bench, "best_share_of_bandwidth", round_share(best));
        good = bench_kernels(bench, decoder->model->engine, work_token, decoder);
    }
    decoder_close(decoder);
    return good;
}
