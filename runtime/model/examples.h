/* examples: data for models that read other things than one text: a safetensors file with one
 * tensor for each input of the model, under the input's name, whose first dimension counts the
 * examples.
 *
 *     input image[n, p]: real      "image" [examples, n, p]
 *     input label: class           "label" [examples], whole numbers
 *     input question[m]: token     "question" [examples, m], where there is more than one text
 *
 * An example is one window of the data: its inputs in the order of the slots, a word each number.
 */
#ifndef EXAMPLES_H
#define EXAMPLES_H

#include "model/call.h"
#include "data/data.h"

/* What `call` reads: such a file when it has inputs other than tokens, else tokens. NULL after a
 * message. */
Data *examples_open(const char *path, const Call *call);
/* The words of one example; 0 for a call that reads tokens. */
long examples_words(const Call *call);
/* Puts examples, one for each sequence of the batch, into the inputs. */
void examples_set(Call *call, const int32_t *windows);

#endif
