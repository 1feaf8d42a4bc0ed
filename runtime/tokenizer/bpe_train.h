/* bpe_train: a byte-level BPE from text, as the tokenizers library makes it: the pair of neighbours
 * that is most frequent becomes a token, until there are enough; of equals the one with the lower
 * numbers. */
#ifndef TOKENIZER_BPE_TRAIN_H
#define TOKENIZER_BPE_TRAIN_H

#include "tokenizer/text/text.h"

typedef struct BpeTraining {
    const char *const *paths;
    int path_count;
    const char *const *special; /* special tokens; they have the lowest ids */
    int special_count;
    /* pattern that splits the text (Oniguruma syntax); NULL: pattern of GPT-2 */
    const char *pattern;
    long vocabulary, least; /* tokens in all; how often a pair must occur */
} BpeTraining;

/* The tokenizer.json, to be freed; NULL after a message or a signal. *tokens: how many it has. */
char *bpe_train(const BpeTraining *training, long *tokens);

#endif
