/* lazy_library: shared libraries that are opened when they are first wanted: no command waits at
 * its start for what others need, and what is missing can be named. */
#ifndef LAZY_LIBRARY_H
#define LAZY_LIBRARY_H

#include <stddef.h>

/* One function of a library: where its address goes, and its name there. */
typedef struct LibrarySymbol {
    void *member;
    const char *name;
} LibrarySymbol;

/* The first of `names`, which NULL ends, that is found in the folder ("/usr/local/lib/"; "": where
 * the loader looks); NULL when none is: dlerror says why. */
void *lazy_library_open(const char *folder, const char *const *names);
/* Stores the addresses; the name of the first function that the library lacks, or NULL. */
const char *lazy_library_take(void *handle, const LibrarySymbol *symbols, size_t count);
#endif
