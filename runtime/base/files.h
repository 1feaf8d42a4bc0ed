/* files: whole files in, and files out that are there completely or not at all. */
#ifndef FILES_H
#define FILES_H

#include <stdbool.h>
#include <stddef.h>

/* A file mapped for reading. */
typedef struct Mapping {
    const unsigned char *bytes;
    size_t length;
} Mapping;

/* Opens a regular file for reading: a descriptor, or -1 after a message. Anything else is refused
 * and never waited for. remedy is the help printed with the message. */
int file_open(const char *path, const char *remedy, size_t *length);
/* False after a message. */
bool file_map(const char *path, const char *remedy, Mapping *mapping);
void file_unmap(Mapping *mapping);
bool file_exists(const char *path);
bool file_is_folder(const char *path);
/* Makes a folder and those above it; false after a message. */
bool folder_make(const char *path);
/* The same without a message: errno says why not. */
bool folder_make_quietly(const char *path);
/* A new string: folder/name. */
char *path_join(const char *folder, const char *name);

/* Writing aside: everything goes to PATH.partial, which takes the place of PATH in one step when it
 * is complete and, where `lasting` is set, on the disk. After any failure the old file is untouched
 * and the partial one gone. A link stays a link to the file, which keeps its mode; what is there
 * and no file (a device, a pipe, a folder) is refused. */
typedef struct Aside {
    char *path, *partial;
    int descriptor;
    int failed;   /* errno of the first failure, 0 so far */
    bool lasting; /* wait until the disk has it */
} Aside;

bool aside_open(Aside *aside, const char *path, bool lasting); /* false after a message */
void aside_write(Aside *aside, const void *bytes, size_t length);
/* Ends the writing; false after a message. */
bool aside_close(Aside *aside);
/* The three above for one text that may be lost when the power goes. */
bool file_write(const char *path, const void *bytes, size_t length);

#endif
