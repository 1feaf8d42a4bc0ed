/* gguf_own: a run as one GGUF file with its spec, for any architecture. moec alone reads it.
 *
 *     general.architecture = "moec"    moec.spec           the spec with all files that it uses
 *     general.name                     moec.tokenizer      tokenizer.json, if there is one
 *                                      moec.file:NAME      other files of the run
 *
 * Tensors have their names in the run. One of no axes or of more than 4 has one axis in the file. */
#ifndef GGUF_OWN_H
#define GGUF_OWN_H

#include "data/shards.h"
#include "model/model.h"
#include "tools/command/exchange/torch_folder.h"

#include <stdbool.h>

#define GGUF_OWN "gguf_moec"

typedef struct GgufOwn {
    const Safetensors *file; /* the checkpoint */
    MoecCompiler *compiler;
    const Model *model;
    bool bare; /* without the tokenizer */
} GgufOwn;

/* Writes the file. types: of the tensors, a new string. False after a message. */
bool gguf_own_write(const GgufOwn *own, const char *path, int *tensors, char **types);

/* Whether a file is one of gguf_own_write. */
bool gguf_own_is(const GgufFile *file);
/* Writes it as a run. False after a message. */
bool gguf_own_read(const Shards *shards, const TorchImport *import);

#endif
