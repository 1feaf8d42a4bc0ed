/* cache: the folder of compiled programs and measurements that are kept between runs. File names
 * contain a hash of all inputs. */
#ifndef CACHE_H
#define CACHE_H

#include "base/hashing.h"

#include <stdbool.h>
#include <stddef.h>

/* $XDG_CACHE_HOME/moec or ~/.cache/moec, created if missing: a new string. Returns NULL after a
 * note if it is not usable: it must belong to this user, and no other user may write it. */
char *cache_folder(void);

/* A name begins with the version of this program; free it by cache_name or cache_path. */
XXH3_state_t *cache_begin(void);
void cache_add(XXH3_state_t *state, const char *text);
/* The headers that generated programs include. */
void cache_add_headers(XXH3_state_t *state);
/* FOLDER/PREFIX<hash>ENDING, a new string. */
char *cache_name(XXH3_state_t *state, const char *folder, const char *prefix, const char *ending);
/* A name in the cache's folder, or NULL without one. */
char *cache_path(XXH3_state_t *state, const char *ending);
/* <hash>ENDING without a folder, and the path of this file in the cache, or NULL. */
char *cache_file_name(XXH3_state_t *state, const char *ending);
char *cache_within(const char *name);

/* A cached file ends in a seal: a hash of its name and of all bytes before the seal. The loaders of
 * shared libraries and objects ignore bytes after the end of their data. */

/* True if the file exists with a valid seal: not truncated, changed or renamed. ours: it must also
 * belong to this user, and no other user may write it. */
bool cache_sound(const char *path, bool ours);
/* Content of a cached file: a new block terminated by a zero byte, or NULL. `length` excludes the
 * seal. */
char *cache_read(const char *path, size_t *length);
/* The same for text that the user may edit. It has no seal; the reader ignores invalid content. */
char *cache_read_text(const char *path);
void cache_write_text(const char *path, const char *text);
/* Writes a sealed file. If that fails, prints a note and keeps nothing. */
void cache_write(const char *path, const void *bytes, size_t length);
/* Seals the file `made` and renames it to `path`. Returns false after a note if the file keeps its
 * old name. */
bool cache_keep(const char *made, const char *path);

/* Waits until no other process makes this file, so that processes that start together make it once.
 * Returns a lock for cache_made, also if locks do not work. */
int cache_making(const char *path);
void cache_made(int lock, const char *path);

/* A temporary folder "make.XXXXXX". */
typedef struct Workplace {
    char *folder;
    int lock; /* held as long as someone works there */
} Workplace;
/* Creates a temporary folder below `parent`; false with errno set. sweep: first removes old folders
 * that killed processes left there. cache_leave removes the folder with its content. */
bool cache_workplace(Workplace *place, const char *parent, bool sweep);
void cache_leave(Workplace *place);

#endif
