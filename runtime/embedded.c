#include "embedded.h"

#include <string.h>

int embedded_is_header(const EmbeddedFile *file) {
    return strncmp(file->name, "standalone/", 11) != 0;
}

const char *embedded_base(const EmbeddedFile *file) {
    const char *slash = strrchr(file->name, '/');
    return slash ? slash + 1 : file->name;
}
