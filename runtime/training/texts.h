/* texts: training data with a tokenizer; text is tokenized first. */
#ifndef TEXTS_H
#define TEXTS_H

#include "data/data.h"
#include "model/call.h"
#include "tokenizer/tokenizer.h"

/* As examples_open. tokenizer: NULL for a model without one, whose text is bytes. NULL after a
 * message. */
Data *texts_open(const char *path, const Tokenizer *tokenizer, const Call *call);
/* Whether the model knows all tokens; false after a message. */
bool texts_fit(const Tokenizer *tokenizer, long vocabulary);

#endif
