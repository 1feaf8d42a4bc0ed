/* embedded: the standard library, the error index and texts inside the binary, so that a copied
 * command works alone. Written by embed.c at build time. */
#ifndef EMBEDDED_H
#define EMBEDDED_H

#include "abi/embedded_file.h"

/* Names are below stdlib/: "decoder.moe". */
extern const EmbeddedFile stdlib_files[];
/* compiler/ERRORS.md. */
extern const EmbeddedFile error_pages[];
/* compiler/torch/text/: "base.py". */
extern const EmbeddedFile torch_files[];

#endif
