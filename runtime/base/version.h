/* version: also part of the cache key. Raise it if generated code or the kernels change their
 * meaning. */
#ifndef VERSION_H
#define VERSION_H

#define MOEC_VERSION "0.1.0"

#endif
