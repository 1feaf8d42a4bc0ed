/* version: the version of the command, the library and the Python package, and a part of the cache
 * key. The Makefile reads it, and tests/checks/version.sh compares the copies in other files
 * (UPDATE=1 writes them). */
#ifndef VERSION_H
#define VERSION_H

#define MOEC_VERSION "0.2.0"

#endif
