/* Calling an emitted model from C: the mean number of bits that the model needs for each byte of a text.
 *
 *     moec emit run --target c --mode decode --out model
 *     cc -std=c11 -O3 -march=native -fopenmp -Imodel -o bits examples/from_c/main.c \
 *        model/model.c model/program.c model/weights.c model/streams.c model/blocks.c -lm
 *     ./bits model/weights.bin "In the beginning"
 */
#include "model.h"

#include <math.h>
#include <stdio.h>

/* Negative base-2 logarithm of the probability of one token. */
static double bits_of(const float *logits, long count, int token) {
    double largest = logits[0], total = 0;
    for (long i = 1; i < count; i++)
        if (logits[i] > largest)
            largest = logits[i];
    for (long i = 0; i < count; i++)
        total += exp(logits[i] - largest);
    return (log(total) + largest - logits[token]) / log(2);
}

int main(int count, char **arguments) {
    if (count != 3) {
        fprintf(stderr, "usage: %s WEIGHTS TEXT\n", arguments[0]);
        return 2;
    }
    Model *model;
    int error = model_open(&model, arguments[1]);
    double bits = 0;
    long bytes = 0;
    const float *logits = NULL;
    for (const unsigned char *byte = (const unsigned char *)arguments[2]; !error && *byte; byte++) {
        if (logits) {
            bits += bits_of(logits, model_vocabulary(model), *byte);
            bytes++;
        }
        error = model_step(model, *byte, &logits);
    }
    if (error)
        fprintf(stderr, "%s: %s\n", arguments[0], model_error(error));
    else if (bytes)
        printf("%.3f bits/byte\n", bits / (double)bytes);
    model_free(model);
    return error ? 1 : 0;
}
