/* gguf: a model as one file of llama.cpp. https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
 *
 *     from arch.block_count = layers    <-->    "llama.block_count" = 2, as "llama" has it
 */
#ifndef EXCHANGE_GGUF_H
#define EXCHANGE_GGUF_H

#include "data/gguf_file.h"
#include "exchange/config.h"
#include "exchange/convert.h"
#include "tokenizer/tokenizer.h"

/* The beginning of a file: keys with their values. */
typedef struct Gguf {
    Text keys;
    uint64_t key_count;
    float *factors; /* of the rotation's waves, or NULL: see gguf_rotation.h */
    int factor_count;
} Gguf;

void gguf_text(Gguf *gguf, const char *key, const char *text);
void gguf_number(Gguf *gguf, const char *key, uint32_t number);
void gguf_flag(Gguf *gguf, const char *key, bool flag);
void gguf_texts(Gguf *gguf, const char *key, const char *const *texts, size_t count);
void gguf_numbers(Gguf *gguf, const char *key, const int32_t *numbers, size_t count);
void gguf_reals(Gguf *gguf, const char *key, const float *numbers, size_t count);

/* A tokenizer, for a model of `vocabulary` tokens; NULL: that there is none. False after a
 * message: its kind is not written here. */
bool gguf_tokenizer(Gguf *gguf, const Tokenizer *tokenizer, long vocabulary);
/* What the tokenizer and the other files of a folder say of tokens: those that begin and end a
 * text, the template of chats. Each file may be NULL. */
void gguf_specials(Gguf *gguf, const Tokenizer *tokenizer, const char *config,
                   const char *tokenizer_config, const char *jinja);
/* The options of the model, and the file. config: the config.json that the model came with, which
 * may allow a longer context, or NULL. False after a message. */
bool gguf_write(Gguf *gguf, const char *path, Conversion *conversion, const MoecPair *pairs,
                int count, const char *config);

/* What a file says of its model, as a configuration: "llama.block_count" is "arch.block_count". */
Config *gguf_config(const GgufFile *file);
/* Its tokenizer as a tokenizer.json: a new object, or NULL after a message, or where `none`. */
json_t *gguf_tokenizer_json(const GgufFile *file, bool *none);
/* The files of a folder that say the rest: "file:NAME", a new object. bare: without those that
 * belong to its tokenizer. */
json_t *gguf_files(const GgufFile *file, bool bare);

#endif
