#include "base/embedded.h"

#include <string.h>

int embedded_is_header(const EmbeddedFile *file) {
    return strncmp(file->name, "abi/", 4) == 0 || strncmp(file->name, "kernels/", 8) == 0;
}

int embedded_is_cuda(const EmbeddedFile *file) {
    const char *ending = strrchr(file->name, '.');
    return (ending && strcmp(ending, ".cuh") == 0) || strcmp(embedded_base(file), "launch.h") == 0;
}

const char *embedded_base(const EmbeddedFile *file) {
    const char *slash = strrchr(file->name, '/');
    return slash ? slash + 1 : file->name;
}
