/* csv: fields of comma-separated values (RFC 4180). */
#ifndef CSV_H
#define CSV_H

#include <stdio.h>
#include <string.h>

/* Writes a text as one field, in quotes where it has a comma, a quote or a line break. */
static inline void csv_text(FILE *file, const char *text) {
    if (!strpbrk(text, ",\"\r\n")) {
        fputs(text, file);
        return;
    }
    fputc('"', file);
    for (; *text; text++) fprintf(file, *text == '"' ? "\"\"" : "%c", *text);
    fputc('"', file);
}

#endif
