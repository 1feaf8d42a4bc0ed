/* evaluation: the loss of a model on data, its loss in decoding mode, multiple-choice accuracy. */
#ifndef EVALUATION_H
#define EVALUATION_H

#include "data/data.h"
#include "mesh/mesh.h"
#include "model/decoder.h"
#include "training/probes.h"

typedef struct Tokenizer Tokenizer;

/* measure: the loss of a model on samples of data. */

typedef struct Evaluation {
    /* cross-entropy in nats/token; without logits per token the loss of the spec, averaged over the
     * samples or weighted by its output "loss_weight" */
    double nats;
    double weight; /* total weight of the losses: tokens, or the sum of "loss_weight" */
    uint64_t tokens;
    uint64_t wrong; /* the first call of this process whose result is not finite; calls: none */
    uint64_t calls;
} Evaluation;

/* `count` samples; sample i starts at token start + i * stride. */
typedef struct Samples {
    uint64_t start, stride, count;
} Samples;

/* Measures samples of context + 1 tokens. call: of an evaluation graph. probes: of that call, or
 * NULL; accumulated over full batches. The processes of a mesh share the calls, with the same
 * result for any number of processes. False after a message. */
bool measure_loss(Call *call, const Data *data, const Samples *samples, Probes *probes, Mesh *mesh,
                  Evaluation *result);
/* After measure_loss with a result that is not finite: prints the first value that is not finite.
 * compiler: of the same spec. */
void measure_print_fault(Call *call, const Data *data, const Samples *samples,
                         const Evaluation *result, MoecCompiler *compiler);

/* decoded: the loss of a model in decoding mode: token by token with caches, with the cache reads
 * of a decoding step (option top_values of attention). */

/* Measures `count` samples of decoder->length + 1 tokens; sample i starts at token i *
 * decoder->length with an empty cache. False after a message. */
bool measure_decoded(Decoder *decoder, const Data *data, uint64_t count, Evaluation *result);

/* questions: multiple-choice questions, answered by the most likely choice.
 *
 * Each line of the file is an object:
 *
 *     {"context": "Water is", "choices": [" wet", " dry"], "answer": 0}
 *
 * The tokens of a choice are the tokens of context + choice after the first n, where n is the
 * number of tokens of the context. Spaces at the end of a context belong to the choices.
 * lm-evaluation-harness does the same. */

typedef struct Questions Questions;

/* NULL after a message with the number of the invalid line. */
Questions *questions_read(const char *path, const Tokenizer *tokenizer);
void questions_free(Questions *questions);
/* Number of tokens of the longest text. */
long questions_length(const Questions *questions);

typedef struct Accuracy {
    long questions;
    long right; /* correct choice has the highest log-probability */
    /* correct choice has the highest log-probability per character, without leading spaces */
    long right_by_length;
} Accuracy;

/* False after a message. */
bool questions_measure(Questions *questions, Decoder *decoder, Accuracy *accuracy);

#endif
