/* version: part of the cache key, too: raise it when generated code or the kernels change their
 * meaning. */
#ifndef VERSION_H
#define VERSION_H

#define MOEC_VERSION "0.1.0"

#endif
