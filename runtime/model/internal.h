/* internal: declarations that only files of this folder use. */
#ifndef MODEL_INTERNAL_H
#define MODEL_INTERNAL_H

#include "base/hashing.h"
#include "model/model.h"

#include <stdbool.h>

/* toolchain: the system's C compiler (environment variable MOEC_CC, default cc). */

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

/* model: a program with its memory. */

/* Optimizer states of each parameter. */
int moment_count(const Model *model);

/* programs: the graphs of a model. */

int shapes_of(MoecCompiler *compiler, const GraphShape *shapes, int count, GraphShape *all);
bool compile_graphs(MoecCompiler *compiler, const GraphShape *shapes, int count,
                    MoecProgram **programs);

/* initial: */

/* Draws the values of all tensors of a block. */
void initialise_block(const PublicTensor *tensors, int count, float *block, uint64_t seed);

#endif
