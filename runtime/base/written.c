#include "base/written.h"

#include "abi/quantity.h"
#include "base/files.h"
#include "base/message.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void written_message(const char *path, const char *next, ...) {
    if (strcmp(path, "-") == 0) return;
    line_message("wrote %s (%s)", path, quantity((double)file_bytes(path), "B").text);
    char *command = NULL;
    va_list arguments;
    va_start(arguments, next);
    if (next && vasprintf(&command, next, arguments) >= 0) line_message("  next: %s", command);
    va_end(arguments);
    free(command);
}
