/* prelude: the scalar functions of compiler/op.def and the random numbers, for C. All of them are plain arithmetic without
 * branches, so that gcc and clang vectorise loops over them.
 */
#ifndef MOEC_PRELUDE_H
#define MOEC_PRELUDE_H

#include <stdint.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

/* What a translation unit does not call costs nothing and warns of nothing. */
#define MOEC_FUNCTION static __attribute__((unused))
#define MOEC_INLINE static inline __attribute__((unused, always_inline))

#endif
