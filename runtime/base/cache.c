#include "base/cache.h"

#include "base/complain.h"
#include "base/embedded.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/version.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *cache_folder(void) {
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *folder = base && *base == '/'   ? path_join(base, "moec")
                   : home && *home == '/' ? path_join(home, ".cache/moec")
                                          : NULL;
    if (folder && folder_make(folder) && access(folder, W_OK) == 0) return folder;
    remark("the compiled program is not kept: there is no cache folder that may be written");
    free(folder);
    return NULL;
}

XXH3_state_t *cache_begin(void) {
    XXH3_state_t *state = XXH3_createState();
    XXH3_128bits_reset(state);
    cache_add(state, MOEC_VERSION);
    return state;
}

void cache_add(XXH3_state_t *state, const char *text) {
    XXH3_128bits_update(state, text, strlen(text) + 1);
}

void cache_add_headers(XXH3_state_t *state) {
    for (const EmbeddedFile *file = embedded_files; file->name; file++)
        if (embedded_is_header(file)) XXH3_128bits_update(state, file->text, file->length);
}

char *cache_name(XXH3_state_t *state, const char *folder, const char *prefix, const char *ending) {
    XXH128_hash_t hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    return memory_format("%s/%s%016" PRIx64 "%016" PRIx64 "%s", folder, prefix,
                         (uint64_t)hash.high64, (uint64_t)hash.low64, ending);
}

char *cache_path(XXH3_state_t *state, const char *ending) {
    char *folder = cache_folder();
    char *path = folder ? cache_name(state, folder, "", ending) : NULL;
    if (!folder) XXH3_freeState(state);
    free(folder);
    return path;
}
