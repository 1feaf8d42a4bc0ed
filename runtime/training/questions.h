/* choices: questions with answers to choose from: which does the model find likeliest?
 *
 * A line of the file is an object:
 *
 *     {"context": "Water is", "choices": [" wet", " dry"], "answer": 0}
 *
 * The tokens of a choice are those of context and choice together, less as many as the context
 * alone has; spaces at the end of a context belong to the choices. So does lm-evaluation-harness.
 */
#ifndef QUESTIONS_H
#define QUESTIONS_H

#include "model/batch.h"
#include "model/speech.h"

typedef struct Questions Questions;

/* NULL after a message that says which line is wrong. */
Questions *questions_read(const char *path, const Tokenizer *tokenizer);
void questions_free(Questions *questions);
/* Tokens of the longest text. */
long questions_length(const Questions *questions);

typedef struct Accuracy {
    long questions;
    long right;           /* the right choice has the highest log-probability */
    long right_by_length; /* the highest divided by its characters, without spaces before it */
} Accuracy;

/* False after a message. */
bool questions_measure(Questions *questions, Decoder *decoder, Accuracy *accuracy);

#endif
