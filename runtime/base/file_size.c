#include "base/file_size.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

uint64_t file_bytes(const char *path) {
    struct stat status;
    if (stat(path, &status) != 0) return 0;
    if (!S_ISDIR(status.st_mode)) return (uint64_t)status.st_size;
    uint64_t bytes = 0;
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (entry->d_name[0] == '.') continue;
        char *inside = NULL;
        if (asprintf(&inside, "%s/%s", path, entry->d_name) < 0) continue;
        bytes += file_bytes(inside);
        free(inside);
    }
    if (folder) closedir(folder);
    return bytes;
}
