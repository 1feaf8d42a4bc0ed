/* file_size: the size of files and folders. */
#ifndef FILE_SIZE_H
#define FILE_SIZE_H

#include <stdint.h>

/* Bytes of a file, or of all files in a folder; 0 for neither. */
uint64_t file_bytes(const char *path);

#endif
