/* folders: folders of output files that are written whole or not at all. The files are written to a
 * hidden folder, synced, and moved. */
#include "base/files.h"

#include "base/memory.h"
#include "base/message.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *at) {
    (void)status, (void)kind, (void)at;
    return remove(path);
}

static int sync_entry(const char *path, const struct stat *status, int kind, struct FTW *at) {
    (void)status, (void)kind, (void)at;
    int descriptor = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    int failed = descriptor < 0 || (fsync(descriptor) != 0 && errno != EINVAL) ? errno : 0;
    if (descriptor >= 0) close(descriptor);
    return failed;
}

enum { OPEN_FOLDERS = 8 }; /* while a tree is visited */

static void folder_remove(const char *path) {
    nftw(path, remove_entry, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS);
}

/* The descriptor that locks a folder; -1 if there is none or, with EWOULDBLOCK, another process has
 * locked it. */
static int folder_lock(const char *path) {
    int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (descriptor < 0 || flock(descriptor, LOCK_EX | LOCK_NB) == 0) return descriptor;
    close(descriptor);
    errno = EWOULDBLOCK;
    return -1;
}

/* Moves the entries of a folder to another one; with `check`, only prints a message if an entry
 * there cannot be replaced. */
static bool move_entries(const char *from, const char *to, bool check) {
    struct dirent **entries;
    int count = scandir(from, &entries, NULL, NULL);
    bool good = count >= 0;
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        AUTO_FREE char *source = path_join(from, name), *target = path_join(to, name);
        if (!good || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
            ;
        else if (file_is_folder(source) && file_is_folder(target))
            good = move_entries(source, target, check);
        else if (check)
            good = file_replaceable(target);
        else
            good = rename(source, target) == 0 ||
                   error_message(NULL, "cannot write %s: %s", target, strerror(errno));
        free(entries[i]);
    }
    if (count >= 0) free(entries);
    return good;
}

/* The folder for the files: in an existing folder, since its parent may be read-only; else next to
 * it. */
static char *partial_folder(const char *path) {
    static const char name[] = "moec-partial";
    if (file_is_folder(path)) return memory_format("%s/.%s", path, name);
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    return memory_format("%.*s.%s.%s", (int)(base - path), path, base, name);
}

bool aside_folder_open(AsideFolder *aside, const char *path) {
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    *aside = (AsideFolder){.path = memory_format("%.*s", (int)length, path)};
    aside->partial = partial_folder(aside->path);
    bool good = !file_exists(aside->path) || folder_make(aside->path);
    aside->lock = good ? folder_lock(aside->partial) : -1;
    if (aside->lock >= 0) folder_remove(aside->partial), close(aside->lock); /* after a kill */
    if (good && aside->lock < 0 && errno == EWOULDBLOCK)
        good = error_message("wait for it, or write to another folder",
                             "cannot write %s: another process is writing it", aside->path);
    good = good && (folder_make_quietly(aside->partial) || folder_report(aside->path));
    aside->lock = good ? folder_lock(aside->partial) : -1;
    if (good) return true;
    free(aside->path);
    free(aside->partial);
    return false;
}

bool aside_folder_close(AsideFolder *aside, bool good) {
    const char *path = aside->path, *partial = aside->partial;
    int failed = good ? nftw(partial, sync_entry, OPEN_FOLDERS, FTW_PHYS) : 0;
    if (failed < 0) failed = errno;
    if (good && !failed && !file_is_folder(path) && rename(partial, path) != 0) failed = errno;
    if (failed) good = error_message(NULL, "cannot write %s: %s", path, strerror(failed));
    if (good && file_is_folder(partial))
        good = move_entries(partial, path, true) && move_entries(partial, path, false);
    if (aside->lock >= 0) close(aside->lock);
    folder_remove(partial);
    if (good) folder_flush(path);
    free(aside->path);
    free(aside->partial);
    return good;
}
