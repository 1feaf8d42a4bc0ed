/* prompt: prompts from the command line, stdin or the lines of a file, as text and tokens. */
#ifndef PROMPT_H
#define PROMPT_H

#include "model/speech.h"

typedef struct Prompt {
    char *text;
    TokenList tokens;
} Prompt;

typedef struct PromptList {
    Prompt *items;
    int count;
} PromptList;

/* text: one prompt, "-" for stdin; or path: a file with a prompt per line. Exactly one of them is
 * not NULL. False after a message. */
bool prompts_read(PromptList *prompts, const char *text, const char *path);
/* Converts them to tokens. False after a message. */
bool prompts_encode(PromptList *prompts, Writing writing, const Tokenizer *tokenizer);
/* Whether all tokens are in the vocabulary; false after a message. */
bool prompts_fit(const PromptList *prompts, Writing writing, long vocabulary);
/* Tokens of the longest prompt. */
long prompts_length(const PromptList *prompts);
void prompts_free(PromptList *prompts);

#endif
