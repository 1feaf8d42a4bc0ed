/* cache: the folder of what is kept between runs, and names in it: a hash of everything that the
 * thing depends on. */
#ifndef CACHE_H
#define CACHE_H

#include "base/hashing.h"

/* $XDG_CACHE_HOME/moec or ~/.cache/moec, made when it is not there: a new string, or NULL when
 * there can be none. */
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

#endif
