#include "tools/command/internal.h"

#include "abi/utf8_cut.h"
#include "base/message.h"
#include "base/files.h"
#include "base/memory.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void add_prompt(PromptList *prompts, const char *bytes, size_t length) {
    prompts->items = memory_grow(prompts->items, sizeof(Prompt) * (size_t)(prompts->count + 1));
    Prompt *prompt = &prompts->items[prompts->count++];
    *prompt = (Prompt){.text = memory_new(length + 1)};
    memcpy(prompt->text, bytes, length);
}

static bool read_prompt_lines(PromptList *prompts, const char *path) {
    Mapping mapping;
    if (!file_map(path, "use a file with a prompt per line", &mapping)) return false;
    const char *at = (const char *)mapping.bytes, *end = at + mapping.length;
    while (at < end) {
        const char *line = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((line ? line : end) - at);
        bool returns = length && at[length - 1] == '\r';
        if (length > returns) add_prompt(prompts, at, length - returns);
        at += length + 1;
    }
    file_unmap(&mapping);
    return prompts->count || error_message("write one prompt per line", "%s has no prompt", path);
}

static bool read_standard_input(PromptList *prompts) {
    Mapping mapping;
    if (!file_map("-", NULL, &mapping)) return false;
    add_prompt(prompts, (const char *)mapping.bytes, mapping.length);
    file_unmap(&mapping);
    return true;
}

bool prompts_read(PromptList *prompts, const char *text, const char *path) {
    if (path) return read_prompt_lines(prompts, path);
    if (file_is_standard(text)) return read_standard_input(prompts);
    add_prompt(prompts, text, strlen(text));
    return true;
}

/* Token ids separated by spaces or commas. */
static bool read_numbers(Prompt *prompt) {
    const char *at = prompt->text;
    for (;;) {
        at += strspn(at, " ,\t");
        if (!*at) break;
        char *end;
        errno = 0;
        long number = strtol(at, &end, 10);
        if (!isdigit((unsigned char)*at) || errno || number > INT32_MAX ||
            (*end && !strchr(" ,\t", *end)))
            return error_message("separate token ids by spaces or commas",
                                 "'%.*s' in the prompt is not a token id", utf8_cut(at, 20), at);
        tokens_add(&prompt->tokens, (int32_t)number);
        at = end;
    }
    return true;
}

static bool encode(Prompt *prompt, Writing writing, Encoder *encoder, const Tokenizer *tokenizer) {
    if (writing == WRITING_TOKENS) return read_numbers(prompt);
    return speech_tokens(writing, tokenizer, encoder, prompt->text, strlen(prompt->text),
                         &prompt->tokens);
}

bool prompts_encode(PromptList *prompts, Writing writing, const Tokenizer *tokenizer) {
    AUTO(Encoder) *encoder = tokenizer ? encoder_new(tokenizer) : NULL;
    bool good = true;
    for (int i = 0; i < prompts->count && good; i++) {
        Prompt *prompt = &prompts->items[i];
        good = encode(prompt, writing, encoder, tokenizer) &&
               (prompt->tokens.count ||
                error_message("a prompt has at least one token", "the prompt '%.*s' has no tokens",
                              utf8_cut(prompt->text, 20), prompt->text));
    }
    return good;
}

bool prompts_fit(const PromptList *prompts, Writing writing, long vocabulary) {
    for (int i = 0; i < prompts->count; i++) {
        const TokenList *tokens = &prompts->items[i].tokens;
        for (size_t k = 0; k < tokens->count; k++) {
            if (tokens->items[k] < vocabulary) continue;
            if (writing == WRITING_BYTES)
                return error_message(
                    "the model was not trained on bytes; add --tokenizer FILE or --token-ids",
                    "byte %zu of the prompt is outside the vocabulary", k);
            return error_message("use the tokenizer or the token ids of the model",
                                 "token %d of the prompt is outside the vocabulary of %ld",
                                 (int)tokens->items[k], vocabulary);
        }
    }
    return true;
}

long prompts_length(const PromptList *prompts) {
    size_t longest = 0;
    for (int i = 0; i < prompts->count; i++)
        if (prompts->items[i].tokens.count > longest) longest = prompts->items[i].tokens.count;
    return (long)longest;
}

void prompts_free(PromptList *prompts) {
    for (int i = 0; i < prompts->count; i++) {
        free(prompts->items[i].text);
        tokens_free(&prompts->items[i].tokens);
    }
    free(prompts->items);
    *prompts = (PromptList){0};
}
