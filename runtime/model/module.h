/* module: C text from the compiler, made into a loaded program by the system's C compiler. What was
 * made is kept (cache.h), so that a second start needs no compiler. */
#ifndef MODULE_H
#define MODULE_H

#include "abi/abi.h"
#include "moec.h"

#include <stdbool.h>

typedef struct Module {
    void *handle;
    const MoecTable *table;
    bool cached; /* found, not made */
    double compile_seconds;
    size_t text_bytes;
    MoecTable described; /* without a handle: what `table` points to */
} Module;

/* parts: the text is of two that may be compiled side by side (see kernels.h); keep: use the cache.
 * NULL after a message. */
Module *module_load(const char *text, bool parts, bool keep);
/* The tables of a program without its functions, for which no C compiler is needed: it can be given
 * weights, not run. Names belong to the compiler, which has to outlive it. NULL after an error (see
 * moec_reports). */
Module *module_describe(MoecCompiler *compiler, MoecGraph graph, long batch, long context);
/* Compiles the kernels that every program calls into a folder, unless it has them. The folders
 * `kernels` beside the binary and ../lib/moec are looked at before kernels are compiled. */
bool module_prepare(const char *folder);
void module_free(Module *module);

#endif
