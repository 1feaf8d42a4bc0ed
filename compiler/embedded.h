/* embedded: files that travel inside the binary, so that a copied command works alone. Written by embed.c at build time. */
#ifndef EMBEDDED_H
#define EMBEDDED_H

#include <stddef.h>

typedef struct EmbeddedFile {
    const char *name; /* without its folders: "decoder.moe"; NULL ends a list */
    const char *text; /* terminated */
    size_t length;
} EmbeddedFile;

extern const EmbeddedFile stdlib_files[];     /* stdlib/ */
extern const EmbeddedFile kernel_files[];     /* runtime/kernels/ and abi.h: what hosted programs include */
extern const EmbeddedFile standalone_files[]; /* runtime/standalone/: what goes into an emitted folder */

#endif
