/* gguf: export of a model to one GGUF file (llama.cpp), and import of its keys.
 * https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
 *
 *     from arch.block_count = layers    <-->    "llama.block_count" = 2, as "llama" has it */
#ifndef EXCHANGE_GGUF_H
#define EXCHANGE_GGUF_H

#include "data/gguf_file.h"
#include "tools/exchange/config.h"
#include "tools/exchange/convert.h"
#include "tokenizer/tokenizer.h"

/* The key-value section of a file. */
typedef struct Gguf {
    Text keys;
    uint64_t key_count;
    float *factors; /* factors of the RoPE frequencies, or NULL: see gguf_rotation.h */
    int factor_count;
} Gguf;

void gguf_text(Gguf *gguf, const char *key, const char *text);
void gguf_number(Gguf *gguf, const char *key, uint32_t number);
void gguf_flag(Gguf *gguf, const char *key, bool flag);
void gguf_texts(Gguf *gguf, const char *key, const char *const *texts, size_t count);
void gguf_numbers(Gguf *gguf, const char *key, const int32_t *numbers, size_t count);
void gguf_reals(Gguf *gguf, const char *key, const float *numbers, size_t count);

/* Adds a tokenizer for a model of `vocabulary` tokens; NULL: without tokenizer. False after a
 * message if its type is not supported. */
bool gguf_tokenizer(Gguf *gguf, const Tokenizer *tokenizer, long vocabulary);
/* Adds special tokens (beginning and end of text) and the chat template from the tokenizer and
 * other files. Each file may be NULL. */
void gguf_specials(Gguf *gguf, const Tokenizer *tokenizer, const char *config,
                   const char *tokenizer_config, const char *jinja);
/* Writes the file. pairs: options of the model; config: the original config.json, which may allow a
 * longer context, or NULL. False after a message. */
bool gguf_write(Gguf *gguf, const char *path, Conversion *conversion, const MoecPair *pairs,
                int count, const char *config);

/* The keys of a file as a configuration: "llama.block_count" becomes "arch.block_count". */
Config *gguf_config(const GgufFile *file);
/* The tokenizer as tokenizer.json: a new object. NULL after a message, or without a message if
 * *none. */
json_t *gguf_tokenizer_json(const GgufFile *file, bool *none);
/* The other files of a model directory, derived from the keys: "file:NAME", a new object. bare:
 * without the tokenizer files. */
json_t *gguf_files(const GgufFile *file, bool bare);

#endif
