/* gguf: a model as one file of llama.cpp. https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
 *
 *     from arch.block_count = layers    -->    "llama.block_count" = 2, for "llama" as architecture
 */
#ifndef EXCHANGE_GGUF_H
#define EXCHANGE_GGUF_H

#include "exchange/convert.h"
#include "tokenizer/text/text.h"

#include <jansson.h>

/* The beginning of a file: keys with their values. */
typedef struct Gguf {
    Text keys;
    uint64_t key_count;
} Gguf;

void gguf_text(Gguf *gguf, const char *key, const char *text);
void gguf_number(Gguf *gguf, const char *key, uint32_t number);
void gguf_real(Gguf *gguf, const char *key, float number);
void gguf_flag(Gguf *gguf, const char *key, bool flag);
void gguf_texts(Gguf *gguf, const char *key, const char *const *texts, size_t count);
void gguf_numbers(Gguf *gguf, const char *key, const int32_t *numbers, size_t count);

/* What a tokenizer.json says, for a model of `vocabulary` tokens; `json` NULL: that there is none.
 * False after a message: its kind is not written here. */
bool gguf_tokenizer(Gguf *gguf, const char *json, long vocabulary);
/* What the other files of a folder say of tokens: those that begin and end a text, the template of
 * chats. Each may be NULL. */
void gguf_specials(Gguf *gguf, const char *config, const char *tokenizer_config, const char *jinja);
/* The options of the model, and the file. False after a message. */
bool gguf_write(Gguf *gguf, const char *path, Conversion *conversion, const MoecPair *pairs,
                int count);

#endif
