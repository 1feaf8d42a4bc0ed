/* model: a trained sequence model, one token at a time.
 *
 *     Model *model;
 *     int error = model_open(&model, "weights.bin");
 *     if (error) { fprintf(stderr, "%s\n", model_error(error)); return 1; }
 *     const float *logits;
 *     error = model_step(model, token, &logits);   // logits[model_vocabulary(model)] of the next
 *     model_reset(model);                          // forget what was read: a new text begins
 *     model_free(model);
 *
 * Nothing exits or prints. A model is used by one thread at a time; several models may be open.
 */
#ifndef MODEL_H
#define MODEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct Model Model;

enum {
    MODEL_FINE,
    MODEL_NO_MEMORY,
    MODEL_NO_FILE,
    MODEL_NOT_OURS, /* the weights belong to another program */
    MODEL_DAMAGED,
    MODEL_BAD_TOKEN, /* outside the vocabulary; nothing was read */
    MODEL_FULL,      /* the context is full; nothing was read */
    MODEL_NOT_TEXT,  /* the model reads more than tokens */
    MODEL_NONSENSE   /* the logits are no finite numbers: the weights are broken */
};

int model_open(Model **model, const char *weights_path);
/* Reads one token. *logits belongs to the model and holds until the next call. */
int model_step(Model *model, int32_t token, const float **logits);
void model_reset(Model *model);
void model_free(Model *model); /* NULL is fine */

long model_vocabulary(const Model *model);
long model_context(const Model *model);  /* how many tokens it can read before a reset */
long model_position(const Model *model); /* how many it has read */
const char *model_error(int error);

#ifdef __cplusplus
}
#endif

#endif
