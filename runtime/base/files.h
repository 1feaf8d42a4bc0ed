/* files: files on disk, and files of runtime/ inside the binary. */
#ifndef FILES_H
#define FILES_H

#include "abi/embedded_file.h"
#include "base/memory.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* files: reading of whole files, and atomic writing. */

/* The path "-" means stdin in functions that open a file for reading, and stdout in
 * file_write and aside_open. */
bool file_is_standard(const char *path);
/* Copies stdin to memory unless it is a file, so that it can be opened several times as
 * /dev/stdin. False after a message. */
bool file_hold_input(void);

/* A file mapped for reading. */
typedef struct Mapping {
    const unsigned char *bytes;
    size_t length;
} Mapping;

/* Opens a regular file for reading: a descriptor, or -1 after a message. Other file types are
 * refused without blocking. `remedy` is the help line of the message. */
int file_open(const char *path, const char *remedy, size_t *length);
/* The same as a stream; NULL after a message. */
FILE *file_stream(const char *path, const char *remedy);
/* For files that are read; the text of open_memstream() is complete after fclose() only. */
AUTO_POINTER(FILE, fclose)
/* The JSON object in a regular file. NULL if the file is missing, or after a note that it is
 * ignored and why. */
json_t *file_json(const char *path);
/* Opens a regular file for writing and creates it if it is missing; -1 after a message. flags are
 * those of open(). A symbolic link is not followed, and a pipe is never waited for. */
int file_create(const char *path, int flags);
/* Whether the path names a file or nothing; false after a message for anything else, a symbolic
 * link too. */
bool file_replaceable(const char *path);
/* False after a message. */
bool file_map(const char *path, const char *remedy, Mapping *mapping);
void file_unmap(Mapping *mapping);
typedef bool ReadJsonLine(void *context, json_t *line, const char *where);
/* Reads a file with one JSON object per line; empty lines are left out. where: "PATH:LINE". False
 * after a message: of this function, or of `read`, which then returned false. */
bool file_json_lines(const char *path, const char *remedy, ReadJsonLine *read, void *context);
bool file_exists(const char *path);
bool file_is_folder(const char *path);
/* Bytes of a file, or of all files in a folder; 0 for neither. */
uint64_t file_bytes(const char *path);
/* Makes a folder and those above it; false after a message. */
bool folder_make(const char *path);
/* The same without a message; errno has the reason. */
bool folder_make_quietly(const char *path);
/* folder_make; `made`: there was none. */
bool folder_make_new(const char *path, bool *made);
/* After a failure in such a folder: removes it if it is new and empty. Returns false. */
bool folder_abandon(const char *path, bool made);
/* False after a message that it cannot be created, for the reason in errno. */
bool folder_report(const char *path);
/* Syncs the folder that contains the path, after a rename. */
void folder_flush(const char *path);
typedef bool FolderVisit(void *data, const char *folder);
/* Visits the folders in a folder in the order of their names, with numbers as numbers, and leaves
 * out those that begin with a dot. False: a visit failed. */
bool folder_each(const char *folder, FolderVisit *visit, void *data);
/* A new string: folder/name. */
char *path_join(const char *folder, const char *name);

/* Atomic write: the bytes go to PATH.partial, which is renamed to PATH when it is complete and,
 * where `lasting` is set, synced to the disk. After a failure the old file is unchanged and the
 * partial file is removed. An old file keeps its mode. Other file types (symbolic link, device,
 * pipe, folder) are refused. */
typedef struct Aside {
    char *path, *partial;
    int descriptor;
    int failed;   /* errno of the first failure, 0 so far */
    bool lasting; /* sync to disk before the rename */
} Aside;

bool aside_open(Aside *aside, const char *path, bool lasting); /* false after a message */
void aside_write(Aside *aside, const void *bytes, size_t length);
/* Ends the writing; false after a message. */
bool aside_close(Aside *aside);
/* The three above for one text, without sync. */
bool file_write(const char *path, const void *bytes, size_t length);
/* The same for a file of that name in a folder. */
bool folder_write(const char *folder, const char *name, const void *bytes, size_t length);
bool folder_write_text(const char *folder, const char *name, const char *text);
/* The same for a file that the user edits. If the path is a symbolic link, the target is
 * changed. */
bool file_edit(const char *path, const void *bytes, size_t length);

/* Writes all bytes to a descriptor; false with errno. */
bool write_all(int descriptor, const void *bytes, size_t length);
/* Atomic write of a folder: its files go to `partial`, a hidden folder, and are synced and moved to
 * PATH when they are complete. Files in an existing folder are replaced one by one, and others
 * stay. After a failure the old files are unchanged and the partial folder is removed. */
typedef struct AsideFolder {
    char *path, *partial;
    int lock;
} AsideFolder;

bool aside_folder_open(AsideFolder *aside, const char *path); /* false after a message */
/* good: the files are complete. False after a message, or if they are not. */
bool aside_folder_close(AsideFolder *aside, bool good);

/* Writes a word of a shell command, in quotes if it has other characters than usual names. */
void put_shell_word(FILE *file, const char *word);
/* Prints "wrote PATH (SIZE)" to stderr and, unless next is NULL, "  next: COMMAND". The size of a
 * folder is that of its files. COMMAND has %s for words, which are quoted if necessary, and %ld.
 * Nothing is printed for stdout, "-". */
void written_message(const char *path, const char *next, ...) __attribute__((format(printf, 2, 3)));

/* embedded: files of runtime/ inside the binary (CARRIED of the Makefile). They let a copied `moec`
 * work without other files. */

/* Names are below runtime/: "abi/abi.h", "kernels/prelude.h", "standalone/main.c". */
extern const EmbeddedFile embedded_files[];

/* True for headers that generated programs include: abi/ and kernels/. */
int embedded_is_header(const EmbeddedFile *file);
/* True for headers that only CUDA programs include. */
int embedded_is_cuda(const EmbeddedFile *file);
/* The name without its folders. */
const char *embedded_base(const EmbeddedFile *file);

#endif
