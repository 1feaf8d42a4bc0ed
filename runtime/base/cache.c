#include "base/cache.h"

#include "base/message.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/build.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- the folder ---- */

/* The parent folder in which another user could replace this folder, or NULL. */
static char *open_parent(const char *folder) {
    char *path = realpath(folder, NULL);
    for (char *slash = path ? strrchr(path, '/') : NULL; slash; slash = strrchr(path, '/')) {
        slash[slash == path] = 0;
        struct stat status;
        if (stat(path, &status) == 0 && (status.st_mode & S_IWOTH) && !(status.st_mode & S_ISVTX))
            return path;
        if (slash == path) break;
    }
    free(path);
    return NULL;
}

/* The reason to distrust a folder for executable programs, or NULL: a new string. */
static char *distrust(const char *folder) {
    struct stat status;
    if (lstat(folder, &status) != 0) return memory_format("%s: %s", folder, strerror(errno));
    if (!S_ISDIR(status.st_mode))
        return memory_format("%s is not a folder, or is a symbolic link", folder);
    if (status.st_uid != geteuid()) return memory_format("%s belongs to another user", folder);
    if (status.st_mode & (S_IWGRP | S_IWOTH))
        return memory_format("other users can write %s", folder);
    if (access(folder, W_OK) != 0) return memory_format("%s: %s", folder, strerror(errno));
    AUTO_FREE char *parent = open_parent(folder);
    return parent ? memory_format("other users can replace files in %s", parent) : NULL;
}

char *cache_folder(void) {
    static atomic_bool is_reported;
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    AUTO_FREE char *above = base && *base == '/'   ? memory_format("%s", base)
                            : home && *home == '/' ? path_join(home, ".cache")
                                                   : NULL;
    char *folder = above ? path_join(above, "moec") : NULL, *reason = NULL;
    if (!folder)
        reason = memory_format("neither XDG_CACHE_HOME nor HOME is set");
    else if (!folder_make_quietly(above) || (mkdir(folder, 0700) != 0 && errno != EEXIST))
        reason = memory_format("cannot create %s: %s", folder, strerror(errno));
    else
        reason = distrust(folder);
    if (!reason) return folder;
    if (!atomic_exchange(&is_reported, true))
        note_message("compiled programs are not cached: %s", reason);
    free(reason);
    free(folder);
    return NULL;
}

/* ---- names ---- */

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

char *cache_file_name(XXH3_state_t *state, const char *ending) {
    XXH128_hash_t hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    return memory_format("%016" PRIx64 "%016" PRIx64 "%s", (uint64_t)hash.high64,
                         (uint64_t)hash.low64, ending);
}

char *cache_name(XXH3_state_t *state, const char *folder, const char *prefix, const char *ending) {
    AUTO_FREE char *name = cache_file_name(state, ending);
    return memory_format("%s/%s%s", folder, prefix, name);
}

char *cache_within(const char *name) {
    AUTO_FREE char *folder = cache_folder();
    return folder ? path_join(folder, name) : NULL;
}

char *cache_path(XXH3_state_t *state, const char *ending) {
    AUTO_FREE char *name = cache_file_name(state, ending);
    return cache_within(name);
}

/* ---- cached files ---- */

static const char mark[8] = {'m', 'o', 'e', 'c', 's', 'e', 'a', 'l'};

typedef struct Seal {
    char mark[sizeof mark];
    XXH128_canonical_t hash;
} Seal;

static Seal seal_of(const char *path, const void *bytes, size_t length) {
    const char *slash = strrchr(path, '/');
    XXH3_state_t *state = cache_begin();
    cache_add(state, slash ? slash + 1 : path);
    XXH3_128bits_update(state, bytes, length);
    Seal seal;
    memcpy(seal.mark, mark, sizeof mark);
    XXH128_canonicalFromHash(&seal.hash, XXH3_128bits_digest(state));
    XXH3_freeState(state);
    return seal;
}

/* Content of a regular file; NULL if it cannot be read. It is read and not mapped: truncation of a
 * mapped file would end the process. */
static char *read_whole(int descriptor, size_t *length) {
    struct stat status;
    if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) return NULL;
    char *bytes = memory_new((size_t)status.st_size + 1);
    *length = 0;
    while (*length < (size_t)status.st_size) {
        ssize_t got =
            pread(descriptor, bytes + *length, (size_t)status.st_size - *length, (off_t)*length);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        *length += (size_t)got;
    }
    return bytes;
}

static bool belongs_to_us(int descriptor, const char *path) {
    struct stat status;
    if (fstat(descriptor, &status) != 0) return false;
    if (status.st_uid == geteuid() && !(status.st_mode & (S_IWGRP | S_IWOTH))) return true;
    note_message("%s is not used, because other users can write it", path);
    return false;
}

static char *read_any(const char *path, bool ours, size_t *length) {
    int descriptor = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0) return NULL;
    char *bytes = !ours || belongs_to_us(descriptor, path) ? read_whole(descriptor, length) : NULL;
    close(descriptor);
    return bytes;
}

static char *read_sound(const char *path, bool ours, size_t *length) {
    char *bytes = read_any(path, ours, length);
    if (bytes && *length >= sizeof(Seal)) {
        *length -= sizeof(Seal);
        Seal seal = seal_of(path, bytes, *length);
        if (memcmp(bytes + *length, &seal, sizeof seal) == 0) {
            bytes[*length] = 0;
            return bytes;
        }
    }
    free(bytes);
    return NULL;
}

bool cache_sound(const char *path, bool ours) {
    size_t length;
    AUTO_FREE char *bytes = read_sound(path, ours, &length);
    return bytes != NULL;
}

char *cache_read(const char *path, size_t *length) {
    return read_sound(path, true, length);
}

char *cache_read_text(const char *path) {
    size_t length;
    return read_any(path, true, &length);
}

/* Appends the seal to the file and closes it. No other user can write it afterwards. */
static bool seal_file(int descriptor, const char *path) {
    size_t length;
    struct stat status = {0};
    AUTO_FREE char *bytes = read_whole(descriptor, &length);
    Seal seal = seal_of(path, bytes ? bytes : "", bytes ? length : 0);
    bool good = bytes && fstat(descriptor, &status) == 0 &&
                fchmod(descriptor, status.st_mode & 0755) == 0 &&
                lseek(descriptor, 0, SEEK_END) == (off_t)length &&
                write_all(descriptor, &seal, sizeof seal);
    int reason = errno;
    good = close(descriptor) == 0 && good;
    if (!good) errno = reason;
    return good;
}

bool cache_keep(const char *made, const char *path) {
    int descriptor = open(made, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (descriptor >= 0 && seal_file(descriptor, path) && rename(made, path) == 0) return true;
    note_message("%s is not cached: %s", path, strerror(errno));
    return false;
}

static void write_kept(const char *path, const void *bytes, size_t length, bool sealed) {
    const char *slash = strrchr(path, '/');
    AUTO_FREE char *made =
        memory_format("%.*s/make.XXXXXX", (int)(slash ? slash - path : 1), slash ? path : ".");
    int descriptor = mkostemp(made, O_CLOEXEC);
    bool good = descriptor >= 0 && write_all(descriptor, bytes, length) && fsync(descriptor) == 0;
    int reason = errno;
    if (descriptor >= 0) good = close(descriptor) == 0 && good;
    if (good)
        good = sealed ? cache_keep(made, path) : rename(made, path) == 0;
    else
        note_message("%s is not cached: %s", path, strerror(reason));
    if (!good && descriptor >= 0) unlink(made);
}

void cache_write(const char *path, const void *bytes, size_t length) {
    write_kept(path, bytes, length, true);
}

void cache_write_text(const char *path, const char *text) {
    write_kept(path, text, strlen(text), false);
}

/* "make.HASH.so.lock" in the same folder; `sweep` removes old ones. */
static char *lock_path(const char *path) {
    const char *slash = strrchr(path, '/');
    const int folder = slash ? (int)(slash - path) + 1 : 0;
    return memory_format("%.*smake.%s.lock", folder, path, path + folder);
}

int cache_making(const char *path) {
    AUTO_FREE char *name = lock_path(path);
    int lock = open(name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    while (lock >= 0 && flock(lock, LOCK_EX) != 0 && errno == EINTR) continue;
    return lock;
}

void cache_made(int lock, const char *path) {
    AUTO_FREE char *name = lock_path(path);
    if (lock >= 0) {
        unlink(name);
        close(lock);
    }
}

/* ---- temporary folders ---- */

enum { OLD_SECONDS = 60 };

/* Removes a folder of files unless a process holds its lock. */
static void remove_folder(const char *path) {
    int lock = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (lock < 0) return;
    DIR *folder = flock(lock, LOCK_EX | LOCK_NB) == 0 ? opendir(path) : NULL;
    for (struct dirent *one; folder && (one = readdir(folder));)
        if (strcmp(one->d_name, ".") != 0 && strcmp(one->d_name, "..") != 0)
            unlinkat(lock, one->d_name, 0);
    if (folder) {
        closedir(folder);
        rmdir(path);
    }
    close(lock);
}

static void remove_old(const char *parent) {
    DIR *folder = opendir(parent);
    for (struct dirent *one; folder && (one = readdir(folder));) {
        if (strncmp(one->d_name, "make.", 5) != 0) continue;
        AUTO_FREE char *path = path_join(parent, one->d_name);
        struct stat status;
        bool old = lstat(path, &status) == 0 && status.st_mtime + OLD_SECONDS < time(NULL);
        if (old && S_ISDIR(status.st_mode))
            remove_folder(path);
        else if (old)
            unlink(path);
    }
    if (folder) closedir(folder);
}

bool cache_workplace(Workplace *place, const char *parent, bool swept) {
    if (swept) remove_old(parent);
    *place = (Workplace){.folder = memory_format("%s/make.XXXXXX", parent), .lock = -1};
    if (mkdtemp(place->folder)) {
        place->lock = open(place->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (place->lock >= 0) flock(place->lock, LOCK_EX | LOCK_NB);
        return true;
    }
    free(place->folder);
    place->folder = NULL;
    return false;
}

void cache_leave(Workplace *place) {
    if (place->lock >= 0) close(place->lock);
    if (place->folder) remove_folder(place->folder);
    free(place->folder);
}
