/* version: the version of the command, the library and the Python package. The Makefile reads it from
 * here, and tests/checks/version.sh compares the copies in other files (UPDATE=1 writes them). It is
 * part of the cache key. */
#ifndef VERSION_H
#define VERSION_H

#define MOEC_VERSION "0.2.0"

#endif
