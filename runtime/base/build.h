/* build: the version and the commit of this program. */
#ifndef BUILD_H
#define BUILD_H

/* version: the version of the command, the library and the Python package, and a part of the cache
 * key. The Makefile reads it, and tests/checks/version.sh compares the copies in other files
 * (UPDATE=1 writes them). */

#define MOEC_VERSION "0.2.0"

/* commit: the commit that this program was built from, "61f090e4c1"; "unknown" without git. The
 * build makes it. */

extern const char build_commit[];

#endif
