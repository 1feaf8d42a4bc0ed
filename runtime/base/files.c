#include "base/files.h"

#include "base/complain.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

bool file_map(const char *path, const char *remedy, Mapping *mapping) {
    *mapping = (Mapping){(const unsigned char *)"", 0};
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (descriptor < 0 || fstat(descriptor, &status) != 0) {
        complain(remedy, "cannot read %s: %s", path, strerror(errno));
        if (descriptor >= 0) close(descriptor);
        return false;
    }
    if (!S_ISREG(status.st_mode)) {
        close(descriptor);
        return complain(remedy, "cannot read %s: it is not a file", path);
    }
    mapping->length = (size_t)status.st_size;
    if (mapping->length) {
        void *bytes = mmap(NULL, mapping->length, PROT_READ, MAP_PRIVATE, descriptor, 0);
        if (bytes == MAP_FAILED) {
            close(descriptor);
            return complain(remedy, "cannot map %s: %s", path, strerror(errno));
        }
        mapping->bytes = bytes;
    }
    close(descriptor);
    return true;
}

void file_unmap(Mapping *mapping) {
    if (mapping->length) munmap((void *)(uintptr_t)mapping->bytes, mapping->length);
    *mapping = (Mapping){(const unsigned char *)"", 0};
}

bool file_exists(const char *path) {
    return access(path, F_OK) == 0;
}

bool file_is_folder(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

bool folder_make(const char *path) {
    char *copy = memory_format("%s", path);
    bool made = true;
    for (char *end = copy + 1; made; end++) {
        if (*end != '/' && *end) continue;
        char kept = *end;
        *end = 0;
        made = mkdir(copy, 0777) == 0 || errno == EEXIST || file_is_folder(copy);
        *end = kept;
        if (!kept) break;
    }
    if (made && !file_is_folder(path)) {
        errno = ENOTDIR;
        made = false;
    }
    free(copy);
    return made || complain("choose another folder", "cannot make the folder %s: %s", path,
                            strerror(errno));
}

char *path_join(const char *folder, const char *name) {
    size_t length = strlen(folder);
    return memory_format(length && folder[length - 1] == '/' ? "%s%s" : "%s/%s", folder, name);
}

bool aside_open(Aside *aside, const char *path, bool lasting) {
    aside->lasting = lasting;
    aside->path = memory_format("%s", path);
    aside->partial = memory_format("%s.partial", path);
    aside->failed = 0;
    aside->descriptor = open(aside->partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (aside->descriptor >= 0) return true;
    complain("check that the folder exists and may be written", "cannot write %s: %s",
             aside->partial, strerror(errno));
    free(aside->path);
    free(aside->partial);
    return false;
}

void aside_write(Aside *aside, const void *bytes, size_t length) {
    const char *from = bytes;
    while (length && !aside->failed) {
        ssize_t written =
            write(aside->descriptor, from, length > ((size_t)1 << 30) ? (size_t)1 << 30 : length);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) {
            aside->failed = errno;
            return;
        }
        from += written;
        length -= (size_t)written;
    }
}

/* A rename is only lasting once the folder that holds the name is on the disk. */
static void flush_folder(const char *path) {
    char *copy = memory_format("%s", path);
    int descriptor = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor >= 0) {
        fsync(descriptor);
        close(descriptor);
    }
    free(copy);
}

bool aside_close(Aside *aside) {
    if (!aside->failed && aside->lasting && fsync(aside->descriptor) != 0 && errno != EINVAL)
        aside->failed = errno;
    if (close(aside->descriptor) != 0 && !aside->failed) aside->failed = errno;
    if (!aside->failed && rename(aside->partial, aside->path) != 0) aside->failed = errno;
    if (aside->failed) {
        unlink(aside->partial);
        complain(aside->failed == ENOSPC || aside->failed == EDQUOT
                     ? "free some space on the disk and try again"
                     : NULL,
                 "cannot write %s: %s; what was there before is untouched", aside->path,
                 strerror(aside->failed));
    } else if (aside->lasting) {
        flush_folder(aside->path);
    }
    free(aside->path);
    free(aside->partial);
    return !aside->failed;
}

bool file_write(const char *path, const void *bytes, size_t length) {
    Aside aside;
    if (!aside_open(&aside, path, false)) return false;
    aside_write(&aside, bytes, length);
    return aside_close(&aside);
}
