/* embedded: the files of runtime/ that travel inside the binary, so that a copied `moec` works
 * alone: CARRIED of the Makefile. */
#ifndef EMBEDDED_H
#define EMBEDDED_H

#include "abi/embedded_file.h"

/* Names are below runtime/: "abi/abi.h", "kernels/prelude.h", "standalone/main.c". */
extern const EmbeddedFile embedded_files[];

/* True for what generated programs include: abi.h and kernels/. */
int embedded_is_header(const EmbeddedFile *file);
/* True for those of them that only programs for a CUDA device include. */
int embedded_is_cuda(const EmbeddedFile *file);
/* The name without its folders. */
const char *embedded_base(const EmbeddedFile *file);

#endif
