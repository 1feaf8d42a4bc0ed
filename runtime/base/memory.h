/* memory: allocation that cannot fail quietly, and what the process uses. */
#ifndef MEMORY_H
#define MEMORY_H

#include <stddef.h>

/* Small blocks; the process ends with a message when there is no memory left. */
void *memory_new(size_t bytes); /* zeroed */
void *memory_grow(void *block, size_t bytes);
char *memory_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What there is in all; no single block is given that is larger. */
size_t memory_of_machine(void);

/* Large zeroed blocks, 64-byte aligned; NULL when the system refuses. Pages are taken when they are
 * touched. */
void *memory_map(size_t bytes);
void memory_unmap(void *block, size_t bytes);

/* Resident bytes now, and the most there were since memory_reset_peak. */
size_t memory_resident(void);
size_t memory_peak(void);
void memory_reset_peak(void);

/* What all threads together take for their own variables of the library in which `inside` lies. */
size_t memory_of_threads(const void *inside);

#endif
