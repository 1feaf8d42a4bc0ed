/* questions: multiple-choice questions, answered by the most likely choice.
 *
 * Each line of the file is an object:
 *
 *     {"context": "Water is", "choices": [" wet", " dry"], "answer": 0}
 *
 * The tokens of a choice are the tokens of context + choice after the first n, where n is the
 * number of tokens of the context. Spaces at the end of a context belong to the choices.
 * lm-evaluation-harness does the same. */
#ifndef QUESTIONS_H
#define QUESTIONS_H

#include "model/batch.h"
#include "model/speech.h"

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
