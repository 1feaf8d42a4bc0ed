#include "measure.h"

#include "examples.h"
#include "memory.h"

#include <math.h>
#include <stdlib.h>

long call_context(const Call *call) {
    if (examples_words(call)) return examples_words(call) - 1;
    for (int i = 0; i < call->graph->input_count; i++) {
        const MoecTensor *input = &call->graph->inputs[i];
        if (input->input == MOEC_INPUT_TOKEN || input->input == MOEC_INPUT_NEXT)
            return input->shape[input->rank - 1];
    }
    return call->graph->context;
}

static double row_nats(const float *logits, long vocabulary, int32_t next) {
    float largest = logits[0];
    for (long i = 1; i < vocabulary; i++) largest = logits[i] > largest ? logits[i] : largest;
    double sum = 0;
    for (long i = 0; i < vocabulary; i++) sum += (double)expf(logits[i] - largest);
    return log(sum) + (double)largest - (double)logits[next];
}

/* The sum of the cross-entropy of the first `windows` sequences; rows are added in order, whatever
 * the threads did. */
static double sum_nats(const float *logits, long vocabulary, const int32_t *tokens, long windows,
                       long context) {
    double *rows = memory_new(sizeof *rows * (size_t)(windows * context));
#pragma omp parallel for
    for (long row = 0; row < windows * context; row++) {
        int32_t next = tokens[row / context * (context + 1) + row % context + 1];
        rows[row] = next < vocabulary ? row_nats(logits + row * vocabulary, vocabulary, next) : NAN;
    }
    double sum = 0;
    for (long row = 0; row < windows * context; row++) sum += rows[row];
    free(rows);
    return sum;
}

/* The logits output when it has one row a token, else -1. */
static int logits_slot(const Call *call, long batch, long context) {
    int slot = call_output(call, "logits");
    if (slot < 0) return -1;
    const MoecTensor *logits = &call->graph->outputs[slot];
    bool fits = logits->rank >= 2 &&
                tensor_count(logits) == (size_t)(batch * context * logits->shape[logits->rank - 1]);
    return fits ? slot : -1;
}

bool measure_loss(Call *forward, const Data *data, uint64_t start, uint64_t stride, uint64_t count,
                  Evaluation *result) {
    long batch = forward->graph->batch > 0 ? forward->graph->batch : 1,
         context = call_context(forward);
    int logits = logits_slot(forward, batch, context), loss = call_output(forward, "loss");
    int32_t *tokens = memory_new(sizeof *tokens * (size_t)(batch * (context + 1)));
    double nats = 0, losses = 0, calls = 0;
    bool good = true;
    for (uint64_t done = 0; done < count && good; done += (uint64_t)batch) {
        /* The last call is filled up with the last window, which is not counted again. */
        for (long b = 0; b < batch && good; b++) {
            uint64_t window = done + (uint64_t)b < count ? done + (uint64_t)b : count - 1;
            good = data_read(data, start + window * stride, (size_t)(context + 1),
                             tokens + b * (context + 1));
        }
        if (!good) break;
        long windows = count - done < (uint64_t)batch ? (long)(count - done) : batch;
        call_set_windows(forward, tokens);
        good = call_run(forward, 0, false) && call_get_numbers(forward) &&
               (logits < 0 || call_get(forward, logits));
        if (!good) break;
        if (loss >= 0) losses += (double)forward->outputs[loss][0];
        calls++;
        nats += logits >= 0 ? sum_nats(forward->outputs[logits],
                                       forward->graph->outputs[logits]
                                           .shape[forward->graph->outputs[logits].rank - 1],
                                       tokens, windows, context)
                            : (double)forward->outputs[loss][0] * (double)(windows * context);
    }
    free(tokens);
    result->tokens = count * (uint64_t)context;
    result->loss = calls ? losses / calls : NAN;
    result->nats = result->tokens ? nats / (double)result->tokens : NAN;
    return good;
}
