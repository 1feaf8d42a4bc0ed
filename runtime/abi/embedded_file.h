/* embedded_file: a file inside the binary, as compiler/base/embed.c writes it at build time. */
#ifndef EMBEDDED_FILE_H
#define EMBEDDED_FILE_H

#include <stddef.h>

typedef struct EmbeddedFile {
    const char *name; /* below the folder that was embedded; NULL ends a list */
    const char *text; /* terminated */
    size_t length;
} EmbeddedFile;

#endif
