/* emit_torch: a model as a folder for the transformers library. */
#ifndef EMIT_TORCH_H
#define EMIT_TORCH_H

#include "data/safetensors.h"
#include "moec.h"

#include <stdbool.h>

typedef struct TorchFolder {
    const char *operand, *out;
    MoecCompiler *compiler;
    const Safetensors *file; /* the checkpoint; NULL: initial weights */
} TorchFolder;

/* False after a message; config.json is written last. */
bool torch_folder_write(const TorchFolder *folder);

#endif
