/* examples: data for models with inputs other than one token sequence: a safetensors file with one
 * tensor per input of the model, under the name of the input. The first dimension is the example.
 *
 *     input image[n, p]: real      "image" [examples, n, p]
 *     input label: class           "label" [examples], whole numbers
 *     input question[m]: token     "question" [examples, m], where there is more than one text
 *
 * An example is one sample of the data: its inputs in slot order, one 32-bit word per value. */
#ifndef EXAMPLES_H
#define EXAMPLES_H

#include "model/call.h"
#include "data/data.h"

/* Opens the data of `call`: an example file if it has inputs other than tokens, else tokens. NULL
 * after a message. */
Data *examples_open(const char *path, const Call *call);
/* 32-bit words per example; 0 for a call that reads tokens. */
long examples_words(const Call *call);
/* Fills the inputs with examples, one per sequence of the batch. */
void examples_set(Call *call, const int32_t *windows);

#endif
