/* page: the HTML file: page/page.html with style, library, script and data inserted. */
#include "tools/report/report.h"

#include "abi/embedded_file.h"
#include "abi/json_make.h"
#include "base/files.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

extern const EmbeddedFile report_files[];

/* NULL when there is no such file, which only a wrong page asks for. */
static const EmbeddedFile *find_file(const char *name, size_t length) {
    for (const EmbeddedFile *file = report_files; file->name; file++)
        if (strlen(file->name) == length && strncmp(file->name, name, length) == 0) return file;
    return NULL;
}

/* Inside a script element nothing may look like its end; JSON has '<' in texts alone. */
static void write_data(Aside *aside, const json_t *data) {
    AUTO_FREE char *text = json_write(data, JSON_COMPACT | JSON_REAL_PRECISION(9));
    const char *at = text ? text : "null";
    for (size_t length; *at; at += length) {
        length = strcspn(at, "<");
        aside_write(aside, at, length);
        if (at[length] != '<') continue;
        aside_write(aside, "\\u003c", 6);
        length++;
    }
}

/* A mark is "{{NAME}}": a file, or the data. */
static void write_page(Aside *aside, const json_t *data) {
    const char *at = find_file("page.html", 9)->text, *mark;
    while ((mark = strstr(at, "{{")) != NULL) {
        size_t length = strcspn(mark + 2, "}");
        const EmbeddedFile *file = find_file(mark + 2, length);
        aside_write(aside, at, (size_t)(mark - at));
        if (file)
            aside_write(aside, file->text, file->length);
        else
            write_data(aside, data);
        at = mark + 2 + length + 2;
    }
    aside_write(aside, at, strlen(at));
}

bool report_write(const char *path, const json_t *data) {
    Aside aside;
    if (!aside_open(&aside, path, false)) return false;
    write_page(&aside, data);
    return aside_close(&aside);
}
