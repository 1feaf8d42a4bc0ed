#include "training/evaluation.h"

#include "model/interpreted.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>

/* Sums in a fixed order. */
static double sum_losses(const float *values, long count) {
    double sum = 0;
    for (long i = 0; i < count; i++) sum += (double)values[i];
    return sum;
}

static uint64_t batch_of(const Call *call) {
    return call->graph->batch > 0 ? (uint64_t)call->graph->batch : 1;
}

/* Calls of full batches, then the calls of the remaining samples. Without a loss per token, each of
 * those repeats one sample, so that the loss of its batch is that of the sample. Otherwise a single
 * call is padded with the last sample. */
typedef struct Rounds {
    uint64_t full, rest, calls;
    bool apart;
} Rounds;

static Rounds rounds_of(const Call *call, const Samples *samples) {
    const uint64_t batch = batch_of(call), rest = samples->count % batch;
    Rounds rounds = {samples->count / batch, rest, 0, call_output(call, "nats") < 0};
    rounds.calls = rounds.full + (rounds.apart ? rest : rest > 0);
    return rounds;
}

/* Reads the samples of call number `number`. */
static bool set_samples(Call *call, const Data *data, const Samples *samples, uint64_t number,
                        int32_t *tokens) {
    const Rounds rounds = rounds_of(call, samples);
    const uint64_t batch = batch_of(call);
    const long length = call_context(call) + 1;
    for (uint64_t b = 0; b < batch; b++) {
        uint64_t sample = number * batch + b;
        if (rounds.apart && number >= rounds.full)
            sample = rounds.full * batch + number - rounds.full;
        if (sample >= samples->count) sample = samples->count - 1;
        if (!data_read(data, samples->start + sample * samples->stride, (size_t)length,
                       tokens + (long)b * length))
            return false;
    }
    call_set_windows(call, tokens);
    return true;
}

/* Number of different samples of a call. */
static long counted(const Call *call, const Samples *samples, uint64_t number) {
    const Rounds rounds = rounds_of(call, samples);
    if (number < rounds.full) return (long)batch_of(call);
    return rounds.apart ? 1 : (long)rounds.rest;
}

/* Results of one call. */
enum { ROW_NATS, ROW_WEIGHT, ROW_PROBES };

/* Runs a call; `row` receives its results. */
static bool run_call(Call *call, long samples, const Probes *probes, double *row) {
    const int nats = call_output(call, "nats"), loss = call_output(call, "loss"),
              weight = call_output(call, "loss_weight");
    const long tokens = samples * call_context(call);
    if (!call_run(call, 0, false) || !call_get_numbers(call) ||
        (nats >= 0 && !call_get(call, nats)))
        return false;
    row[ROW_WEIGHT] = nats >= 0 || weight < 0 ? (double)tokens
                                              : (double)call->outputs[weight][0] * (double)samples /
                                                    (double)batch_of(call);
    row[ROW_NATS] = nats >= 0   ? sum_losses(call->outputs[nats], tokens)
                    : loss >= 0 ? (double)call->outputs[loss][0] * row[ROW_WEIGHT]
                                : 0;
    return !probes || probes_read(probes, row + ROW_PROBES);
}

/* Each process runs one call of a round. The results are added in order of the calls. */
bool measure_loss(Call *call, const Data *data, const Samples *samples, Probes *probes, Mesh *mesh,
                  Evaluation *result) {
    const uint64_t batch = batch_of(call), size = (uint64_t)mesh_size(mesh),
                   calls = rounds_of(call, samples).calls;
    const size_t width = ROW_PROBES + (probes ? probes->width : 0), bytes = width * sizeof(double);
    const long length = call_context(call) + 1;
    int32_t *tokens = memory_new(sizeof *tokens * (size_t)((long)batch * length));
    double *rows = memory_new(bytes * (size_t)size), nats = 0;
    bool good = true;
    result->wrong = result->calls = calls;
    result->weight = 0;
    for (uint64_t round = 0; round < calls && good; round += size) {
        const uint64_t own = round + (uint64_t)mesh_rank(mesh);
        /* all processes run: they may need each other's experts */
        const uint64_t number = own < calls ? own : calls - 1;
        good = set_samples(call, data, samples, number, tokens) &&
               run_call(call, counted(call, samples, number), probes,
                        rows + width * (size_t)mesh_rank(mesh));
        if (own < calls && own < result->wrong && good &&
            !isfinite(rows[width * (size_t)mesh_rank(mesh) + ROW_NATS]))
            result->wrong = own;
        if (good) mesh_gather(mesh, "results of the evaluation", rows, bytes);
        for (uint64_t i = round; i < calls && i < round + size && good; i++) {
            const double *row = rows + width * (size_t)(i - round);
            nats += row[ROW_NATS];
            result->weight += row[ROW_WEIGHT];
            /* A padded batch would count some samples twice. */
            if (probes && (counted(call, samples, i) == (long)batch || !i))
                probes_add(probes, row + ROW_PROBES);
        }
    }
    free(tokens);
    free(rows);
    result->tokens = samples->count * (uint64_t)(length - 1);
    result->nats = good && result->weight > 0 ? nats / result->weight : NAN;
    return good;
}

void measure_print_fault(Call *call, const Data *data, const Samples *samples,
                         const Evaluation *result, MoecCompiler *compiler) {
    if (result->wrong >= result->calls) return;
    AUTO_FREE int32_t *tokens =
        memory_new(sizeof *tokens * batch_of(call) * (size_t)(call_context(call) + 1));
    if (set_samples(call, data, samples, result->wrong, tokens))
        fault_print(compiler, call, NULL, 0, false);
}
