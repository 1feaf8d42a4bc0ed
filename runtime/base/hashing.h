/* hashing: xxHash, compiled in so that nothing has to be linked. */
#ifndef HASHING_H
#define HASHING_H

#define XXH_INLINE_ALL
#include <xxhash.h>

#endif
