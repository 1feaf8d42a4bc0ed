/* prompt: what generated texts begin with: given, or the lines of a file; as the tokens of the
 * model. */
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

/* text: one prompt; or path: a file, each line of which is one. Exactly one of them is given. False
 * after a message. */
bool prompts_read(PromptList *prompts, const char *text, const char *path);
/* Their tokens. False after a message that says where one is wrong. */
bool prompts_encode(PromptList *prompts, Writing writing, const Tokenizer *tokenizer);
/* Whether the model knows all their tokens; false after a message. */
bool prompts_fit(const PromptList *prompts, Writing writing, long vocabulary);
/* The longest, in tokens. */
long prompts_length(const PromptList *prompts);
void prompts_free(PromptList *prompts);

#endif
