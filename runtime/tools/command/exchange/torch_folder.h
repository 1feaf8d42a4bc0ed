/* torch_folder: folders with a PyTorch model of moec for the transformers library:
 *
 *     modeling_NAME.py, configuration_NAME.py    the equations; the options of the spec
 *     config.json                                with auto_map, which names the classes
 *     model.safetensors                          weights under their public names
 *     moec_spec.txt                              the spec with all files that it uses
 *     tokenizer.json and others                  of the checkpoint, if it has a tokenizer
 *     generation_config.json, README.md
 */
#ifndef TORCH_FOLDER_H
#define TORCH_FOLDER_H

#include "data/shards.h"
#include "model/model.h"
#include "moec.h"
#include "tools/command/line/arguments.h"

#include <stdbool.h>

/* The spec with all files that it uses, in the folder. */
#define TORCH_SPEC "moec_spec.txt"

typedef struct TorchFolder {
    const char *operand, *out;
    MoecCompiler *compiler;
    const Safetensors *file; /* the checkpoint; NULL: initial weights */
} TorchFolder;

/* Writes the folder, config.json last. False after a message. */
bool torch_folder_write(const TorchFolder *folder);

typedef struct TorchImport {
    const char *folder, *out;
    const TextList *sets;
    bool bare, json; /* bare: without the tokenizer */
} TorchImport;

/* The names of tensors in PyTorch, as a new array of new strings. A layer with the label of a
 * weight and a repeat with the label of a layer have other attributes: "a.query.weight" is
 * "a.query_layer.weight" if "a.query" is a weight, and "part.0.up" is "part_steps.0.up" if there
 * is a "part.up". */
char **torch_names(const TensorEntry *entries, int count);

/* Whether a folder is one of torch_folder_write. */
bool torch_folder_is(const char *path);
/* Writes it as a run. False after a message. */
bool torch_folder_read(const TorchImport *import);

/* gguf_own: a run as one GGUF file with its spec, for any architecture. moec alone reads it.
 *
 *     general.architecture = "moec"
 *     general.name          the model
 *     moec.spec             the spec with all files that it uses
 *     moec.tokenizer        tokenizer.json, if there is one
 *     moec.file:NAME        other files of the run
 *
 * Tensors have their names in the run. One of no axes or of more than 4 has one axis in the file.
 */
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
