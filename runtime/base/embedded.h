/* embedded: files of runtime/ inside the binary (CARRIED of the Makefile). They let a copied `moec`
 * work without other files. */
#ifndef EMBEDDED_H
#define EMBEDDED_H

#include "abi/embedded_file.h"

/* Names are below runtime/: "abi/abi.h", "kernels/prelude.h", "standalone/main.c". */
extern const EmbeddedFile embedded_files[];

/* True for headers that generated programs include: abi/ and kernels/. */
int embedded_is_header(const EmbeddedFile *file);
/* True for headers that only CUDA programs include. */
int embedded_is_cuda(const EmbeddedFile *file);
/* The name without its folders. */
const char *embedded_base(const EmbeddedFile *file);

#endif
