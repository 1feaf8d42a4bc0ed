#include "base/lazy_library.h"

#include "base/memory.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

void *lazy_library_open(const char *folder, const char *const *names) {
    for (int i = 0; names[i]; i++) {
        AUTO_FREE char *path = memory_format("%s%s", folder, names[i]);
        void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (handle) return handle;
    }
    return NULL;
}

const char *lazy_library_take(void *handle, const LibrarySymbol *symbols, size_t count) {
    const char *missing = NULL;
    for (size_t i = 0; i < count; i++) {
        void *address = dlsym(handle, symbols[i].name);
        if (!address && !missing) missing = symbols[i].name;
        memcpy(symbols[i].member, &address, sizeof address);
    }
    return missing;
}
