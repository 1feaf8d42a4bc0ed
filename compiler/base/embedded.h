/* embedded: the standard library inside the binary, so that a copied command works alone. Written
 * by embed.c at build time. */
#ifndef EMBEDDED_H
#define EMBEDDED_H

#include <stddef.h>

typedef struct EmbeddedFile {
    const char *name; /* below stdlib/: "decoder.moe"; NULL ends the list */
    const char *text; /* terminated */
    size_t length;
} EmbeddedFile;

extern const EmbeddedFile stdlib_files[];

#endif
