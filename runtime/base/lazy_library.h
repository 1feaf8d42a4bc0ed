/* lazy_library: shared libraries opened at first use. Commands start without loading unneeded
 * libraries, and a missing function can be named. */
#ifndef LAZY_LIBRARY_H
#define LAZY_LIBRARY_H

#include <stddef.h>

/* One function of a library: where its address is stored, and its symbol name. */
typedef struct LibrarySymbol {
    void *member;
    const char *name;
} LibrarySymbol;

/* Opens the first library of `names` (NULL-terminated) found in `folder` ("/usr/local/lib/"; "" =
 * default search path). Returns NULL if none can be opened; dlerror has the reason. */
void *lazy_library_open(const char *folder, const char *const *names);
/* Stores the addresses. Returns the name of the first missing function, or NULL. */
const char *lazy_library_take(void *handle, const LibrarySymbol *symbols, size_t count);
#endif
