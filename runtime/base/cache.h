/* cache: the folder of what is kept between runs, and names in it: a hash of everything that the
 * thing depends on. */
#ifndef CACHE_H
#define CACHE_H

#include "base/hashing.h"

#include <stdbool.h>
#include <stddef.h>

/* $XDG_CACHE_HOME/moec or ~/.cache/moec, made when it is not there: a new string, or NULL, after a
 * note, when there can be none. It belongs to this user and nobody else can write it. */
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

/* What is kept ends in a seal: a hash of the name and of all that stands before it. Programs and
 * objects take no notice of what stands behind them. */

/* Whether a file is there and as it was kept: not cut, changed or renamed. ours: and belongs to
 * this user, and nobody else can write it. */
bool cache_sound(const char *path, bool ours);
/* What was kept under a name of the cache: a new block that ends in a zero, or NULL. */
char *cache_read(const char *path, size_t *length);
/* The same for text that one may edit: it has no seal, its reader takes what makes sense. */
char *cache_read_text(const char *path);
void cache_write_text(const char *path, const char *text);
/* Keeps it; when that fails nothing is kept, which is told. */
void cache_write(const char *path, const void *bytes, size_t length);
/* Seals a file and moves it to the name under which it is kept; false, after a note, when it stays
 * where it is. */
bool cache_keep(const char *made, const char *path);

/* A new folder below the cache's or another, "make.XXXXXX": its name, or NULL with errno set. What
 * killed processes have left there goes, once it is old. */
typedef struct Workplace {
    char *folder;
    int lock; /* held as long as someone works there */
} Workplace;
/* Makes one below `parent`; sweep: old ones there are removed first. False with errno set.
 * cache_leave removes it with all that it holds. */
bool cache_workplace(Workplace *place, const char *parent, bool sweep);
void cache_leave(Workplace *place);

#endif
