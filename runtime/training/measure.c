#include "training/evaluation.h"

#include "model/call.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>

/* Sums in a fixed order. */
static double sum_of(const float *values, long count) {
    double sum = 0;
    for (long i = 0; i < count; i++) sum += (double)values[i];
    return sum;
}

bool measure_loss(Call *call, const Data *data, uint64_t start, uint64_t stride, uint64_t count,
                  Probes *probes, Evaluation *result) {
    long batch = call->graph->batch > 0 ? call->graph->batch : 1, context = call_context(call);
    int told = call_output(call, "nats"), loss = call_output(call, "loss");
    int32_t *tokens = memory_new(sizeof *tokens * (size_t)(batch * (context + 1)));
    double nats = 0, losses = 0, calls = 0;
    bool good = true;
    for (uint64_t done = 0; done < count && good; done += (uint64_t)batch) {
        /* The last call is padded with the last sample, which is counted once. */
        for (long b = 0; b < batch && good; b++) {
            uint64_t window = done + (uint64_t)b < count ? done + (uint64_t)b : count - 1;
            good = data_read(data, start + window * stride, (size_t)(context + 1),
                             tokens + b * (context + 1));
        }
        if (!good) break;
        long windows = count - done < (uint64_t)batch ? (long)(count - done) : batch;
        call_set_windows(call, tokens);
        good = call_run(call, 0, false) && call_get_numbers(call) &&
               (told < 0 || call_get(call, told));
        /* A padded batch would count some samples twice. */
        if (good && probes && (windows == batch || !calls)) good = probes_add(probes);
        if (!good) break;
        if (loss >= 0) losses += (double)call->outputs[loss][0];
        calls++;
        nats += told >= 0 ? sum_of(call->outputs[told], windows * context)
                          : (double)call->outputs[loss][0] * (double)(windows * context);
    }
    free(tokens);
    result->tokens = count * (uint64_t)context;
    result->loss = calls ? losses / calls : NAN;
    result->nats = result->tokens ? nats / (double)result->tokens : NAN;
    return good;
}
