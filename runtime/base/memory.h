/* memory: allocation that never returns NULL for small blocks, and the memory use of the
 * process. */
#ifndef MEMORY_H
#define MEMORY_H

#include <stddef.h>

/* Small blocks. The process ends with a message if memory runs out. */
void *memory_new(size_t bytes); /* zeroed */
void *memory_grow(void *block, size_t bytes);
char *memory_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The text (NULL: an empty one) with more at its end: a new string; the old one is freed. */
char *memory_append(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Before the declaration of a pointer: free() receives its last value at the end of its scope. */
#define AUTO_FREE __attribute__((cleanup(memory_free_at)))
void memory_free_at(void *pointer); /* the address of the pointer */
/* AUTO(Type) *pointer = ... or AUTO(Type) object = ...: closed at the end of its scope by the
 * function that the header of the type names in AUTO_POINTER (not called for NULL) or in
 * AUTO_OBJECT. */
#define AUTO(Type) __attribute__((cleanup(end_##Type))) Type
#define AUTO_POINTER(Type, close)                                                                  \
    static inline void end_##Type(Type **at) {                                                     \
        if (*at) close(*at);                                                                       \
    }
#define AUTO_OBJECT(Type, close)                                                                   \
    static inline void end_##Type(Type *at) {                                                      \
        close(at);                                                                                 \
    }

/* Physical memory in bytes, the limit of one block. */
size_t memory_of_machine(void);

/* Large zeroed blocks, aligned to 64 bytes; NULL if the system refuses. Pages are allocated at
 * first access. */
void *memory_map(size_t bytes);
/* The same for a block of which only a part will be used, in small pages: they use memory close to
 * the bytes that were accessed. The block can be larger than the physical memory. */
void *memory_reserve(size_t bytes);
/* Joins its accessed pages to huge pages where all pages of one are accessed. */
void memory_join_pages(void *block, size_t bytes);
/* Small pages around an offset of a block of memory_map: an access on one side of it does not use
 * memory on the other. */
void memory_divide(void *block, size_t bytes, size_t at);
void memory_unmap(void *block, size_t bytes);
/* Releases the whole pages of a part of a block, whose content is then undefined, or of a mapped
 * file, which is read again. */
void memory_release(void *part, size_t bytes);

/* Resident bytes: current, and maximum since memory_reset_peak. */
size_t memory_resident(void);
size_t memory_peak(void);
void memory_reset_peak(void);

/* Bytes of thread-local variables, over all threads, of the library that contains the address
 * `inside`. */
size_t memory_of_threads(const void *inside);

#endif
