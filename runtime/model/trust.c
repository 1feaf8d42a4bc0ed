/* trust: files of hand-written kernels are code. A command that reads a spec from disk trusts the
 * files that it names. Programs of a checkpoint call kernels only if the same text was trusted on
 * this machine: the cache keeps a copy, so that every byte is compared. */
#include "base/cache.h"
#include "base/memory.h"
#include "base/message.h"
#include "model/model.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Texts of this process, which are trusted also without a cache. */
static pthread_mutex_t trusted_lock = PTHREAD_MUTEX_INITIALIZER;
static char **trusted;
static int trusted_count;

static bool externs_are(const char *setting) {
    const char *word = getenv("MOEC_EXTERN");
    return word && !strcmp(word, setting);
}

/* The path of the copy in the cache: a new string, or NULL without a cache. */
static char *copy_path(const char *text) {
    XXH3_state_t *state = cache_begin();
    cache_add(state, text);
    return cache_path(state, ".trusted");
}

static bool is_copied(const char *path, const char *text) {
    size_t length = 0;
    AUTO_FREE char *copy = path ? cache_read(path, &length) : NULL;
    return copy && length == strlen(text) && !memcmp(copy, text, length);
}

static bool is_of_process(const char *text) {
    bool found = false;
    pthread_mutex_lock(&trusted_lock);
    for (int i = 0; i < trusted_count && !found; i++) found = !strcmp(trusted[i], text);
    pthread_mutex_unlock(&trusted_lock);
    return found;
}

static void keep_for_process(const char *text) {
    pthread_mutex_lock(&trusted_lock);
    trusted = memory_grow(trusted, sizeof *trusted * (size_t)(trusted_count + 1));
    trusted[trusted_count++] = memory_format("%s", text);
    pthread_mutex_unlock(&trusted_lock);
}

static bool is_trusted(const char *text) {
    if (is_of_process(text)) return true;
    AUTO_FREE char *path = copy_path(text);
    return is_copied(path, text);
}

void externs_trust(MoecCompiler *compiler) {
    int count;
    const MoecDocument *files = moec_extern_files(compiler, &count);
    for (int i = 0; i < count && !externs_are("off"); i++) {
        if (is_trusted(files[i].text)) continue;
        keep_for_process(files[i].text);
        AUTO_FREE char *path = copy_path(files[i].text);
        if (path) cache_write(path, files[i].text, files[i].length);
    }
}

bool externs_are_trusted(MoecCompiler *compiler) {
    static bool noted;
    int count;
    if (externs_are("off")) return false;
    const MoecDocument *files = moec_extern_files(compiler, &count);
    for (int i = 0; i < count && !externs_are("on"); i++) {
        if (is_trusted(files[i].text)) continue;
        if (!noted)
            note_message("the hand-written kernels of %s in this checkpoint are not trusted on "
                         "this machine: the equations run instead; read them (moec dump RUN "
                         "--after emit), then set MOEC_EXTERN=on, or open a spec with the same "
                         "file (moec check SPEC)",
                         files[i].path);
        noted = true;
        return false;
    }
    return true;
}
