/* toolchain: the system's C compiler (environment variable MOEC_CC, default cc). */
#ifndef TOOLCHAIN_H
#define TOOLCHAIN_H

#include <stdbool.h>
#include "base/hashing.h"

/* One object file: `output` is compiled from `source` with the macro `define`. */
typedef struct Translation {
    const char *source, *output, *define;
    bool kernels; /* kernels shared by all programs */
} Translation;

/* Hashes all properties of compiler and processor that affect the code of programs or of the
 * kernels. */
void toolchain_hash(XXH3_state_t *state, bool kernels);
/* Compiles all objects in parallel, then links them with `ready` (an existing object, or NULL) to a
 * shared object, unless output is NULL. Headers are in `folder`. False after a message. */
bool toolchain_build(const char *folder, const Translation *work, int count, const char *ready,
                     const char *output);

#endif
