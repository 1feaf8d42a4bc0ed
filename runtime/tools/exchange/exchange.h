/* exchange: models of other programs, in and out. */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include "data/shards.h"
#include "data/safetensors.h"
#include "model/model.h"
#include "moec.h"
#include "tokenizer/tokenizer.h"

#include <jansson.h>

/* config: a config.json as a list of values, and back.
 *
 *     {"dim": 64, "rope": {"theta": 1e4}}   -->   "dim" 64, "rope.theta" 10000
 */

typedef struct Config {
    char *path;
    MoecPair *pairs; /* keys and texts are owned */
    int count;
} Config;

/* NULL after a message. */
Config *config_open(const char *path);
/* The values of an object that was read from `path`. */
Config *config_of(const char *path, json_t *object);
void config_close(Config *config);
AUTO_POINTER(Config, config_close)
/* The text of a value, or NULL. */
const char *config_text(const Config *config, const char *key);
/* A configuration to write. type: of the tensors, "float32". before: text of the original
 * configuration, or NULL; its keys that do not describe the model, such as the end-of-text token,
 * are kept. */
typedef struct NewConfig {
    const MoecPair *pairs;
    int count;
    const char *type, *before, *layout;
    MoecCompiler *layouts;
} NewConfig;
/* Writes a file; false after a message. */
bool config_write(const char *path, const NewConfig *config);

/* convert: converts tensors of one layout to another, one at a time. Sources stay memory-mapped; at
 * most one destination tensor is in memory. */

/* A slice of a destination tensor and its source. */
typedef struct TensorSource {
    const TensorEntry *source;
    const MoecSlice *slice;
} TensorSource;

typedef struct ConvertedTensor {
    TensorEntry entry;
    TensorSource *origins;
    int count;
} ConvertedTensor;

typedef struct Conversion {
    ConvertedTensor *targets;
    int count;
    bool inward; /* from the family's layout to moec's */
} Conversion;

/* Number of elements of a tensor. */
size_t entry_elements(const TensorEntry *entry);

/* A conversion with `count` undefined targets; free it with conversion_free. */
Conversion *conversion_new(int count, bool inward);
void conversion_free(Conversion *conversion);
AUTO_POINTER(Conversion, conversion_free)
/* Defines a target by name and shape; its type follows from its origins. */
void conversion_target(Conversion *conversion, int index, const char *name, int rank,
                       const long *shape);
/* Adds a source of a target, from the file or folder `path`. False after a message if the source is
 * not of a floating-point type. */
bool conversion_origin(Conversion *conversion, int index, const char *path,
                       const TensorEntry *source, const MoecSlice *slice);
/* Removes targets without origins. */
void conversion_drop_empty(Conversion *conversion);
/* Converts vectors to F32 for any type of their origins. */
void conversion_widen_vectors(Conversion *conversion);
/* The bytes of one target. */
void conversion_fill(const Conversion *conversion, int index, void *bytes);
/* Writes all targets; false after a message. */
bool conversion_write(Conversion *conversion, const char *path, json_t *notes);
/* "bfloat16" or "float16" if all tensors have that type, else "float32". */
const char *conversion_type(const Conversion *conversion);

/* gguf: export of a model to one GGUF file (llama.cpp), and import of its keys.
 * https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
 *
 *     from arch.block_count = layers    <-->    "llama.block_count" = 2, as "llama" has it */

/* The key-value section of a file. */
typedef struct Gguf {
    Text keys;
    uint64_t key_count;
    /* of the matrices; NULL: as in the run. Set by gguf_write if there are such matrices. */
    const struct BlockType *blocks;
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
/* Writes the file. Without gguf->blocks, matrices that are int4 or mxfp4 in the run become Q4_0 or
 * MXFP4, with the same values. With them, matrices are quantized, except for routers; the embedding
 * and the output matrix become Q8_0, matrices whose rows are not a multiple of the block Q5_0.
 * pairs: options of the model; config: the original config.json, which may allow a longer context,
 * or NULL. False after a message. */
bool gguf_write(Gguf *gguf, const char *path, Conversion *conversion, const MoecPair *pairs,
                int count, const char *config);

/* Number of tensors of each type in the written file, "Q4_K (8), F32 (3)": a new string. */
char *gguf_types(const Conversion *conversion);

/* The keys of a file as a configuration: "llama.block_count" becomes "arch.block_count". */
Config *gguf_config(const GgufFile *file);
/* The tokenizer as tokenizer.json: a new object. NULL after a message, or without a message if
 * *none. */
json_t *gguf_tokenizer_json(const GgufFile *file, bool *none);
/* The other files of a model directory, derived from the keys: "file:NAME", a new object. bare:
 * without the tokenizer files. */
json_t *gguf_files(const GgufFile *file, bool bare);

/* folder: files of a published model directory that are kept unchanged with the weights.
 *
 *     tokenizer_config.json  -->  the note "file:tokenizer_config.json"  -->  the same file again
 * */

/* The texts of these files as "file:NAME" in a new object. bare: without the tokenizer files. NULL
 * after a message. */
json_t *folder_files(const char *folder, bool bare);
/* Writes the tokenizer of a checkpoint, if it has one, with its own files or a configuration that
 * names its class. config.json is generated elsewhere. False after a message. */
bool folder_write_tokenizer(const char *folder, const Safetensors *checkpoint);

/* match: matching of the tensors of a model with those of a model family. */

/* The conversion from `shards` in the family's layout to the parameters of the model. NULL after
 * messages that name every tensor that is missing, unknown or of another shape. */
Conversion *match_import(MoecCompiler *layouts, const char *layout, MoecCompiler *compiler,
                         const Model *model, const Shards *shards);
/* The reverse: from a checkpoint of the model. */
Conversion *match_export(MoecCompiler *layouts, const char *layout, MoecCompiler *compiler,
                         const Model *model, const Safetensors *file);

#endif
