#include "base/files.h"

#include "abi/quantity.h"
#include "base/memory.h"
#include "base/message.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Description of a path that is not a regular file, such as "a folder". */
static const char *file_kind(mode_t mode) {
    return S_ISDIR(mode)    ? "a folder"
           : S_ISFIFO(mode) ? "a pipe"
           : S_ISSOCK(mode) ? "a socket"
                            : "a device";
}

enum { REASON_BYTES = 160 };

bool file_is_standard(const char *path) {
    return strcmp(path, "-") == 0;
}

bool file_hold_input(void) {
    struct stat status;
    if (fstat(0, &status) == 0 && S_ISREG(status.st_mode)) return true;
    int held = memfd_create("stdin", 0);
    char bytes[1 << 16];
    ssize_t count = held < 0 ? -1 : 1;
    while (count > 0) {
        count = read(0, bytes, sizeof bytes);
        if (count < 0 && errno == EINTR)
            count = 1;
        else if (count > 0 && write(held, bytes, (size_t)count) != count)
            count = -1;
    }
    bool good = count == 0 && dup2(held, 0) == 0;
    if (held > 0) close(held);
    return good ||
           error_message("pass a file instead of -", "cannot read stdin: %s", strerror(errno));
}

/* Opens a regular file for reading; -1 with the reason as text. A pipe is never waited for, except
 * for stdin. */
static int open_regular(const char *path, size_t *length, char reason[REASON_BYTES]) {
    if (file_is_standard(path)) path = file_hold_input() ? "/dev/stdin" : "";
    int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat status;
    if (descriptor < 0 || fstat(descriptor, &status) != 0)
        snprintf(reason, REASON_BYTES, "%s", strerror(errno));
    else if (!S_ISREG(status.st_mode))
        snprintf(reason, REASON_BYTES, "it is %s, not a file", file_kind(status.st_mode));
    else {
        *length = (size_t)status.st_size;
        return descriptor;
    }
    if (descriptor >= 0) close(descriptor);
    return -1;
}

int file_open(const char *path, const char *remedy, size_t *length) {
    char reason[REASON_BYTES];
    int descriptor = open_regular(path, length, reason);
    if (descriptor < 0) error_message(remedy, "cannot read %s: %s", path, reason);
    return descriptor;
}

FILE *file_stream(const char *path, const char *remedy) {
    size_t length;
    int descriptor = file_open(path, remedy, &length);
    return descriptor < 0 ? NULL : fdopen(descriptor, "r");
}

json_t *file_json(const char *path) {
    if (!file_exists(path)) return NULL;
    char reason[REASON_BYTES] = "it is not a JSON object";
    size_t length;
    int descriptor = open_regular(path, &length, reason);
    json_t *root = descriptor < 0 ? NULL : json_loadfd(descriptor, JSON_REJECT_DUPLICATES, NULL);
    if (descriptor >= 0) close(descriptor);
    if (json_is_object(root)) return root;
    json_decref(root);
    note_message("%s is ignored: %s", path, reason);
    return NULL;
}

bool file_map(const char *path, const char *remedy, Mapping *mapping) {
    *mapping = (Mapping){(const unsigned char *)"", 0};
    int descriptor = file_open(path, remedy, &mapping->length);
    if (descriptor < 0) return false;
    if (mapping->length) {
        void *bytes = mmap(NULL, mapping->length, PROT_READ, MAP_PRIVATE, descriptor, 0);
        if (bytes == MAP_FAILED) {
            close(descriptor);
            mapping->length = 0;
            return error_message(remedy, "cannot map %s: %s", path, strerror(errno));
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

static bool is_blank(const char *text, size_t length) {
    size_t at = 0;
    while (at < length && (text[at] == ' ' || text[at] == '\t' || text[at] == '\r')) at++;
    return at == length;
}

bool file_json_lines(const char *path, const char *remedy, ReadJsonLine *read, void *context) {
    Mapping mapping;
    if (!file_map(path, remedy, &mapping)) return false;
    const char *at = (const char *)mapping.bytes, *end = at + mapping.length;
    bool good = true;
    for (long number = 1; at < end && good; number++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const size_t length = (size_t)((newline ? newline : end) - at);
        if (!is_blank(at, length)) {
            json_error_t error;
            json_auto_t *line = json_loadb(at, length, JSON_REJECT_DUPLICATES, &error);
            AUTO_FREE char *where = memory_format("%s:%ld", path, number);
            good = line ? read(context, line, where)
                        : error_message("write one JSON object per line", "%s: invalid JSON: %s",
                                        where, error.text);
        }
        at = newline ? newline + 1 : end;
    }
    file_unmap(&mapping);
    return good;
}

bool file_exists(const char *path) {
    return access(path, F_OK) == 0;
}

bool file_is_folder(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

uint64_t file_bytes(const char *path) {
    struct stat status;
    if (stat(path, &status) != 0) return 0;
    if (!S_ISDIR(status.st_mode)) return (uint64_t)status.st_size;
    uint64_t bytes = 0;
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (entry->d_name[0] == '.') continue;
        AUTO_FREE char *inside = path_join(path, entry->d_name);
        bytes += file_bytes(inside);
    }
    if (folder) closedir(folder);
    return bytes;
}

bool folder_make_quietly(const char *path) {
    AUTO_FREE char *copy = memory_format("%s", path);
    bool made = true;
    for (char *end = copy + (*copy != 0); made; end++) {
        if (*end != '/' && *end) continue;
        char kept = *end;
        *end = 0;
        made = mkdir(copy, 0777) == 0 || errno == EEXIST;
        if (!made) {
            const int reason = errno;
            made = file_is_folder(copy);
            errno = reason;
        }
        *end = kept;
        if (!kept) break;
    }
    if (made && !file_is_folder(path)) {
        errno = ENOTDIR;
        made = false;
    }
    return made;
}

bool folder_report(const char *path) {
    return error_message("choose another folder", "cannot create the folder %s: %s", path,
                         strerror(errno));
}

bool folder_make(const char *path) {
    return folder_make_quietly(path) || folder_report(path);
}

bool folder_make_new(const char *path, bool *made) {
    *made = !file_exists(path);
    return folder_make(path);
}

bool folder_abandon(const char *path, bool made) {
    if (made) rmdir(path);
    return false;
}

static int is_visible(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

bool folder_each(const char *folder, FolderVisit *visit, void *data) {
    struct dirent **entries;
    int count = scandir(folder, &entries, is_visible, versionsort);
    bool good = true;
    for (int i = 0; i < count; i++) {
        AUTO_FREE char *path = path_join(folder, entries[i]->d_name);
        if (good && file_is_folder(path)) good = visit(data, path);
        free(entries[i]);
    }
    if (count >= 0) free(entries);
    return good;
}

char *path_join(const char *folder, const char *name) {
    size_t length = strlen(folder);
    return memory_format(length && folder[length - 1] == '/' ? "%s%s" : "%s/%s", folder, name);
}

/* Returns the path of the file to replace as a new string; NULL after a message if it is not a
 * regular file. Sets `*mode` to the mode of the existing file, 0 if there is none. With `follow`, a
 * symbolic link is replaced by its target. */
static char *link_target(const char *path, bool follow, mode_t *mode) {
    static const char *const remedy = "choose another path, or remove it";
    struct stat status;
    *mode = 0;
    if (lstat(path, &status) != 0 && errno == ENOENT) return memory_format("%s", path);
    char *target = S_ISLNK(status.st_mode) && !follow ? NULL : realpath(path, NULL);
    if (S_ISLNK(status.st_mode) && !follow) {
        error_message(remedy, "cannot write %s: it is a symbolic link", path);
    } else if (!target || stat(target, &status) != 0) {
        error_message(remedy, "cannot write %s: %s", path,
                      errno == ENOENT ? "it is a dangling symbolic link" : strerror(errno));
    } else if (!S_ISREG(status.st_mode)) {
        error_message(remedy, "cannot write %s: it is %s, not a file", path,
                      file_kind(status.st_mode));
    } else {
        *mode = status.st_mode & 0777;
        return target;
    }
    free(target);
    return NULL;
}

bool file_replaceable(const char *path) {
    mode_t mode;
    char *target = link_target(path, false, &mode);
    free(target);
    return target != NULL;
}

int file_create(const char *path, int flags) {
    static const char *const remedy = "choose another folder, or remove it";
    int descriptor = open(path, flags | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0666);
    struct stat status;
    if (descriptor < 0 && (errno == ELOOP || errno == ENXIO))
        error_message(remedy, "cannot write %s: it is %s", path,
                      errno == ELOOP ? "a symbolic link" : "a pipe, not a file");
    else if (descriptor < 0 || fstat(descriptor, &status) != 0)
        error_message("check that the folder exists and that you can write to it",
                      "cannot write %s: %s", path, strerror(errno));
    else if (!S_ISREG(status.st_mode))
        error_message(remedy, "cannot write %s: it is %s, not a file", path,
                      file_kind(status.st_mode));
    else
        return descriptor;
    if (descriptor >= 0) close(descriptor);
    return -1;
}

/* Removes a regular file left by a killed process. Any other file type (a link, a pipe), or a file
 * that a running process writes, stays and is an error. */
static int open_partial(const char *partial) {
    const int flags = O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    struct stat status;
    if (lstat(partial, &status) == 0) {
        int left = S_ISREG(status.st_mode) ? open(partial, flags) : -1;
        bool held = left < 0 || (flock(left, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK);
        int reason = !S_ISREG(status.st_mode) ? EEXIST : left < 0 ? errno : ETXTBSY;
        if (left >= 0) close(left);
        if (held || unlink(partial) != 0) {
            if (held) errno = reason;
            return -1;
        }
    }
    int descriptor = open(partial, flags | O_CREAT | O_EXCL, 0666);
    if (descriptor >= 0) flock(descriptor, LOCK_EX | LOCK_NB);
    return descriptor;
}

static bool open_aside(Aside *aside, const char *path, bool lasting, bool follow) {
    mode_t mode;
    if (file_is_standard(path)) {
        fflush(stdout);
        *aside = (Aside){.path = memory_format("-"), .descriptor = dup(1)};
        return aside->descriptor >= 0;
    }
    *aside = (Aside){.lasting = lasting, .path = link_target(path, follow, &mode)};
    if (!aside->path) return false;
    aside->partial = memory_format("%s.partial", aside->path);
    aside->descriptor = open_partial(aside->partial);
    if (aside->descriptor >= 0) {
        if (mode) fchmod(aside->descriptor, mode);
        return true;
    }
    error_message(errno == EEXIST    ? "remove it: the program did not create this file"
                  : errno == ETXTBSY ? "wait for it, or write to another path"
                                     : "check that the folder exists and that you can write to it",
                  "cannot write %s: %s", aside->partial,
                  errno == ETXTBSY ? "another process is writing it" : strerror(errno));
    free(aside->path);
    free(aside->partial);
    return false;
}

bool aside_open(Aside *aside, const char *path, bool lasting) {
    return open_aside(aside, path, lasting, false);
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

/* A rename is durable only after the containing folder is synced to disk. */
void folder_flush(const char *path) {
    AUTO_FREE char *copy = memory_format("%s", path);
    int descriptor = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor >= 0) {
        fsync(descriptor);
        close(descriptor);
    }
}

bool aside_close(Aside *aside) {
    if (!aside->failed && aside->lasting && fsync(aside->descriptor) != 0 && errno != EINVAL)
        aside->failed = errno;
    if (close(aside->descriptor) != 0 && !aside->failed) aside->failed = errno;
    const char *partial = aside->partial; /* NULL for stdout */
    if (!aside->failed && partial && rename(partial, aside->path) != 0) aside->failed = errno;
    if (aside->failed && !partial) {
        error_message("check the destination of the output", "cannot write stdout: %s",
                      strerror(aside->failed));
    } else if (aside->failed) {
        unlink(partial);
        const bool full = aside->failed == ENOSPC || aside->failed == EDQUOT;
        const char *reason = strerror(aside->failed);
        if (file_exists(aside->path))
            error_message(full ? "free some disk space and try again" : NULL,
                          "cannot write %s: %s; the existing file is unchanged", aside->path,
                          reason);
        else
            error_message(full ? "free some disk space and try again" : NULL, "cannot write %s: %s",
                          aside->path, reason);
    } else if (aside->lasting) {
        folder_flush(aside->path);
    }
    free(aside->path);
    free(aside->partial);
    return !aside->failed;
}

static bool write_text(const char *path, const void *bytes, size_t length, bool follow) {
    Aside aside;
    if (!open_aside(&aside, path, false, follow)) return false;
    aside_write(&aside, bytes, length);
    return aside_close(&aside);
}

bool file_write(const char *path, const void *bytes, size_t length) {
    return write_text(path, bytes, length, false);
}

bool folder_write(const char *folder, const char *name, const void *bytes, size_t length) {
    AUTO_FREE char *path = path_join(folder, name);
    return file_write(path, bytes, length);
}

bool folder_write_text(const char *folder, const char *name, const char *text) {
    return folder_write(folder, name, text, strlen(text));
}

bool file_edit(const char *path, const void *bytes, size_t length) {
    return write_text(path, bytes, length, true);
}

bool write_all(int descriptor, const void *bytes, size_t length) {
    for (size_t done = 0; done < length;) {
        ssize_t written = write(descriptor, (const char *)bytes + done, length - done);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        done += (size_t)written;
    }
    return true;
}

/* ---- messages ---- */

void put_shell_word(FILE *file, const char *word) {
    bool plain = *word != 0;
    for (const char *at = word; *at; at++)
        plain &=
            isalnum((unsigned char)*at) || (unsigned char)*at >= 0x80 || strchr("%+,-./:=@_", *at);
    if (plain) {
        fputs(word, file);
        return;
    }
    fputc('\'', file);
    for (; *word; word++) *word == '\'' ? fputs("'\\''", file) : fputc(*word, file);
    fputc('\'', file);
}

/* The format has %s for words and %ld for numbers. */
static void print_command(FILE *to, const char *format, va_list arguments) {
    for (const char *at = format; *at; at++)
        if (!strncmp(at, "%s", 2))
            put_shell_word(to, va_arg(arguments, const char *)), at++;
        else if (!strncmp(at, "%ld", 3))
            fprintf(to, "%ld", va_arg(arguments, long)), at += 2;
        else
            fputc(*at, to);
}

void written_message(const char *path, const char *next, ...) {
    if (message_is_quiet() || file_is_standard(path)) return;
    progress_clear();
    fflush(stdout);
    line_message("wrote %s (%s)", path, quantity((double)file_bytes(path), "B").text);
    if (!next) return;
    AUTO_FREE char *text = NULL;
    size_t length;
    FILE *to = open_memstream(&text, &length);
    if (!to) return;
    va_list arguments;
    va_start(arguments, next);
    print_command(to, next, arguments);
    va_end(arguments);
    fclose(to);
    line_message("  next: %s", text);
}

/* ---- embedded ---- */

int embedded_is_header(const EmbeddedFile *file) {
    return strncmp(file->name, "abi/", 4) == 0 || strncmp(file->name, "kernels/", 8) == 0;
}

int embedded_is_cuda(const EmbeddedFile *file) {
    return strncmp(file->name, "kernels/cuda/", 13) == 0;
}

const char *embedded_base(const EmbeddedFile *file) {
    const char *slash = strrchr(file->name, '/');
    return slash ? slash + 1 : file->name;
}
