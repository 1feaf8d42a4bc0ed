/* embedded: the standard library inside the binary, so that a copied command works alone. Written
 * by embed.c at build time. */
#ifndef EMBEDDED_H
#define EMBEDDED_H

#include "abi/embedded_file.h"

/* Names are below stdlib/: "decoder.moe". */
extern const EmbeddedFile stdlib_files[];

#endif
