/* toolchain: the system's C compiler, as the environment names it (MOEC_CC, else cc). */
#ifndef TOOLCHAIN_H
#define TOOLCHAIN_H

#include <stdbool.h>
#include "base/hashing.h"

/* One object file to make: output is made from source, with `define` set. */
typedef struct Translation {
    const char *source, *output, *define;
    bool kernels; /* what all programs share */
} Translation;

/* Everything about the compiler and this processor that decides what comes out, of programs or of
 * the kernels. */
void toolchain_hash(XXH3_state_t *state, bool kernels);
/* Makes all objects side by side, then links them with `ready` (an object that is there, or NULL)
 * into a shared object, unless output is NULL. Headers are in `folder`. False after a message. */
bool toolchain_build(const char *folder, const Translation *work, int count, const char *ready,
                     const char *output);

#endif
