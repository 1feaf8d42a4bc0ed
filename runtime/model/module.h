/* module: compiles the C source of a program with the system's C compiler and loads it. Results are
 * cached (cache.h); a second start needs no compiler. */
#ifndef MODULE_H
#define MODULE_H

#include "abi/abi.h"
#include "moec.h"

#include <stdbool.h>

typedef struct Module {
    void *handle;
    const MoecTable *table;
    bool cached; /* from the cache */
    double compile_seconds;
    size_t text_bytes;
    MoecTable described; /* target of `table` if there is no handle */
} Module;

/* Compiles and loads a program. parts: the source has two parts that can be compiled in parallel
 * (see kernels.h); keep: use the cache. NULL after a message. */
Module *module_load(const char *text, bool parts, bool keep);
/* The tables of a program without its functions, which need no C compiler: weights can be read, but
 * not run. Names belong to the compiler, which must outlive the module. NULL after an error (see
 * moec_reports). */
Module *module_describe(MoecCompiler *compiler, MoecGraph graph, long batch, long context);
/* Compiles the kernels that all programs share into a folder, unless it already contains them.
 * Before kernels are compiled, the folders `kernels` next to the binary and ../lib/moec are
 * searched. */
bool module_prepare(const char *folder);
void module_free(Module *module);

#endif
