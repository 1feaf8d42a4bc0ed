#include "passes.h"

#include "embedded.h"

#include <string.h>

const char *stdlib_text(const char *name, size_t *length) {
    size_t size = strlen(name);
    for (int i = 0; i < stdlib_file_count; i++) {
        const EmbeddedFile *file = &stdlib_files[i];
        if (strncmp(file->name, name, size) != 0 || strcmp(file->name + size, ".moe") != 0)
            continue;
        *length = file->length;
        return file->text;
    }
    return NULL;
}
