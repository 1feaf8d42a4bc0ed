/* bench_decode: speed of decoding as a percentage of the memory bandwidth. */
#include "tools/command/bench/bench.h"
#include "base/memory.h"
#include "base/message.h"
#include "model/decoder.h"
#include "data/random.h"
#include "base/clock.h"
#include "training/spec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DECODE_ROUNDS = 101, QUICK_ROUNDS = 3, AFTER_PREFIX = 64 };

static const double ROUND_SECONDS = 0.1;

enum { CHECKED_PLACES = 8 };

/* The tokens of every row. */
static int32_t *tokens_at(const Decoder *decoder, long number) {
    int32_t *tokens = memory_new(sizeof *tokens * (size_t)decoder->rows);
    for (long row = 0; row < decoder->rows; row++)
        tokens[row] = (int32_t)(random_bits(9, (uint64_t)(number * decoder->rows + row)) %
                                (uint64_t)decoder_vocabulary(decoder));
    return tokens;
}

static const float *advance(Decoder *decoder, long number) {
    AUTO_FREE int32_t *tokens = tokens_at(decoder, number);
    return decoder_advance(decoder, tokens, 1, -1);
}

/* The same for the most likely next tokens only, if the device finds them. */
static bool advance_greedily(Decoder *decoder, long number) {
    if (!decoder_finds_likely(decoder)) return advance(decoder, number) != NULL;
    AUTO_FREE int32_t *tokens = tokens_at(decoder, number);
    return decoder_advance_likely(decoder, tokens, 1, tokens);
}

/* The same tokens as windows of the whole model: [row, CHECKED_PLACES + 1]. */
static void set_bench_tokens(Call *call, const Decoder *decoder) {
    const long width = CHECKED_PLACES + 1, count = decoder->rows * width;
    AUTO_FREE int32_t *tokens = memory_new(sizeof *tokens * (size_t)count);
    for (long i = 0; i < count; i++)
        tokens[i] = (int32_t)(random_bits(9, (uint64_t)(i % width * decoder->rows + i / width)) %
                              (uint64_t)decoder_vocabulary(decoder));
    call_set_windows(call, tokens);
}

/* Relative difference of the logits [row, CHECKED_PLACES, vocabulary] from those that come step by
 * step; negative after a message. */
static double difference(Decoder *decoder, const float *whole) {
    const long vocabulary = decoder_vocabulary(decoder);
    double error = 0, scale = 0;
    for (long place = 0; place < CHECKED_PLACES; place++) {
        const float *stepped = advance(decoder, place);
        if (!stepped) return -1;
        for (long i = 0; i < decoder->rows * vocabulary; i++) {
            long row = i / vocabulary;
            double wanted =
                (double)whole[(row * CHECKED_PLACES + place) * vocabulary + i % vocabulary];
            error += pow((double)stepped[i] - wanted, 2);
            scale += pow(wanted, 2);
        }
    }
    return scale > 0 ? sqrt(error / scale) : sqrt(error);
}

/* Compares decoding step by step with the full forward pass, up to the rounding of products and
 * caches. */
static bool check_decoder(const Bench *bench, Decoder *decoder) {
    MoecCompiler *compiler = spec_open(bench->operand, &bench->sets);
    const GraphShape shape = {
        .graph = MOEC_FORWARD, .batch = decoder->rows, .context = CHECKED_PLACES};
    Model *model = compiler ? model_open(bench->on, compiler, &shape, 1, true) : NULL;
    const char *kept = model ? moec_option(compiler, "inference.kv_cache_dtype") : NULL;
    const bool rounds = bench->rounded || (kept && strcmp(kept, "f32"));
    moec_close(compiler);
    Call *call = model ? call_open(model, &model->table->graphs[0], NULL) : NULL;
    int slot = call ? call_output(call, "logits") : -1;
    double found = -1;
    if (slot >= 0) {
        model_initialise(model, 1);
        set_bench_tokens(call, decoder);
        if (call_run(call, 0, false) && call_get(call, slot))
            found = difference(decoder, call->outputs[slot]);
    }
    call_close(call);
    model_close(model);
    if (found <= (rounds ? 2e-2 : 1e-4)) return found >= 0;
    return error_message("moec verify --mode decode compares with the reference",
                         "no speed is reported: decoding differs from the full forward pass by %g",
                         found);
}

/* Bytes that one step of all rows reads: weights, states, sliding windows, and each position. */
typedef struct StepBytes {
    double always, place;
} StepBytes;

static StepBytes step_bytes(const Bench *bench, MoecCompiler *compiler, const Decoder *decoder) {
    MoecProgram *step = moec_compile(compiler, MOEC_DECODE, decoder->rows, decoder->length, 1);
    if (!step) return (StepBytes){0};
    moec_lower(compiler, step, device_target(bench->on));
    double kept = moec_cache_traffic(step, 0);
    return (StepBytes){moec_weight_traffic(step) + kept, moec_cache_traffic(step, 1) - kept};
}

/* Speed and ceiling of one round, taken one right after the other: on a shared machine both drift.
 */
typedef struct Round {
    double speed, touched, ceiling; /* tokens/s, B/token, GB/s */
} Round;

static double round_share(const Round *round) {
    return round->speed * round->touched / 1e9 / round->ceiling;
}

static int by_share(const void *a, const void *b) {
    double one = round_share(a), other = round_share(b);
    return (one > other) - (one < other);
}

static bool decode_round(const Bench *bench, Decoder *decoder, const StepBytes *bytes,
                         const DeviceReading *reading, Round *round) {
    round->ceiling = device_reading_pass(reading);
    double began = seconds_now(), read = 0;
    long steps = 0;
    double patience = bench->quick ? 0 : ROUND_SECONDS;
    while (!steps || seconds_now() - began < patience) {
        if (steps % AFTER_PREFIX == 0 || decoder->position == decoder->length)
            decoder->position = bench->prefix;
        if (!advance_greedily(decoder, steps)) return false;
        read += bytes->always + bytes->place * (double)decoder->position;
        steps++;
    }
    double tokens = (double)(steps * decoder->rows);
    round->speed = tokens / (seconds_now() - began);
    round->touched = read / tokens;
    return true;
}

/* The median by share of bandwidth. */
static bool decode_rounds(const Bench *bench, Decoder *decoder, const StepBytes *bytes,
                          Round *median) {
    const int count = bench->quick ? QUICK_ROUNDS : DECODE_ROUNDS;
    Round rounds[DECODE_ROUNDS];
    DeviceReading reading = device_reading_open(bench->on);
    bool good = true;
    for (int i = 0; i < count && good; i++)
        good = decode_round(bench, decoder, bytes, &reading, &rounds[i]);
    device_reading_close(&reading);
    if (!good) return false;
    qsort(rounds, (size_t)count, sizeof rounds[0], by_share);
    *median = rounds[count / 2];
    return true;
}

static bool work_token(void *data) {
    Decoder *decoder = data;
    if (decoder->position == decoder->length) decoder->position--;
    return advance(decoder, 0) != NULL;
}

bool bench_decoding(const Bench *bench) {
    const long places = bench->prefix ? bench->prefix + AFTER_PREFIX : 0;
    MoecCompiler *compiler = bench_open(bench);
    AUTO(Decoder) *decoder =
        compiler ? decoder_open(bench->on, compiler, bench->batch, 0, places) : NULL;
    const StepBytes bytes = decoder ? step_bytes(bench, compiler, decoder) : (StepBytes){0};
    moec_close(compiler);
    bool good = decoder != NULL;
    if (good) {
        model_initialise(decoder->model, 1);
        good = check_decoder(bench, decoder);
    }
    if (bench->prefix && good) decoder->position = bench->prefix;
    Round median;
    good = good && decode_rounds(bench, decoder, &bytes, &median);
    if (good) {
        bench_tell(bench, "tokens_per_second", median.speed);
        bench_tell(bench, "bytes_per_token", median.touched);
        bench_tell(bench, "read_gbytes_per_second", median.speed * median.touched / 1e9);
        bench_tell(bench, "ceiling_gbytes_per_second", median.ceiling);
        bench_tell(bench, "share_of_bandwidth", round_share(&median));
        good = bench_kernels(bench, decoder->model->engine, work_token, decoder);
    }
    return good;
}
