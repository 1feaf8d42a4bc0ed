/* web_page: a freestanding program as one HTML file: compiled to WebAssembly, with weights and
 * tokenizer in base64. */
#include "tools/command/freestanding/plain_folder.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/message.h"
#include "model/model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- compilation ---- */

static bool compiler_failed(const char *log, const char *why) {
    error_message("install clang, lld and wasi-libc (Debian: apt install clang lld wasi-libc "
                  "libclang-rt-14-dev-wasm32)",
                  "cannot compile the model to WebAssembly: %s", why);
    compiler_print_log(log);
    return false;
}

/* Compiles the files of the folder to model.wasm. */
static bool compile_page(const FreestandingFolder *folder, size_t rounded_bytes) {
    const size_t floats = folder->program->floats * sizeof(float);
    const char *const names[] = {"web.c", "model.c", "lexicon.c", "model.wasm", "build.log"};
    char *paths[5];
    for (int i = 0; i < 5; i++) paths[i] = path_join(folder->out, names[i]);
    AUTO_FREE char *first = memory_format("-DMODEL_FLOAT_BYTES=%zu", floats);
    AUTO_FREE char *second = memory_format("-DMODEL_ROUNDED_BYTES=%zu", rounded_bytes);
    const char *words[] = {"clang",
                           "--target=wasm32-wasi",
                           "-mexec-model=reactor",
                           "-std=gnu11",
                           "-O3",
                           "-msimd128",
                           first,
                           second,
                           "-DLEXICON_OF_MEMORY",
                           "-Wl,--strip-all",
                           "-o",
                           paths[3],
                           paths[0],
                           paths[1],
                           paths[2],
                           NULL};
    const pid_t child = compiler_start((char **)(uintptr_t)words, paths[4]);
    const char *why = child < 0 ? strerror(errno) : compiler_wait(child) ? "clang failed" : NULL;
    const bool good = !why || compiler_failed(paths[4], why);
    if (good) unlink(paths[4]);
    for (int i = 0; i < 5; i++) free(paths[i]);
    return good;
}

/* ---- the page ---- */

static void write_base64(Aside *aside, const unsigned char *bytes, size_t count) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char text[4096];
    size_t length = 0;
    for (size_t i = 0; i < count; i += 3) {
        const size_t left = count - i;
        const unsigned value = (unsigned)bytes[i] << 16 | (left > 1 ? bytes[i + 1] : 0U) << 8 |
                               (left > 2 ? bytes[i + 2] : 0U);
        for (int j = 0; j < 4; j++)
            text[length++] = (size_t)j <= left ? digits[value >> (18 - 6 * j) & 63] : '=';
        if (length == sizeof text) {
            aside_write(aside, text, length);
            length = 0;
        }
    }
    aside_write(aside, text, length);
}

/* A part of a file in base64; a missing file is empty. */
static bool write_part(Aside *aside, const char *folder, const char *name, size_t from,
                       size_t count) {
    AUTO_FREE char *path = path_join(folder, name);
    Mapping mapping = {0};
    bool good = true;
    if (file_exists(path)) {
        good = file_map(path, NULL, &mapping);
        if (good && mapping.length > from)
            write_base64(aside, mapping.bytes + from,
                         count < mapping.length - from ? count : mapping.length - from);
        if (good) file_unmap(&mapping);
    }
    return good;
}

/* Writes the part that a mark at the beginning of a text names. Returns the end of the mark; NULL
 * if there is none. */
static const char *write_mark(Aside *aside, const FreestandingFolder *folder, const char *at,
                              bool *good) {
    const size_t floats = folder->program->floats * sizeof(float);
    const struct {
        const char *mark, *file, *text;
        size_t from, count;
    } marks[] = {{"@PROGRAM@", "model.wasm", NULL, 0, SIZE_MAX},
                 {"@WEIGHTS@", "weights.bin", NULL, 0, floats},
                 {"@ROUNDED@", "weights.bin", NULL, floats, SIZE_MAX},
                 {"@TOKENIZER@", "tokenizer.bin", NULL, 0, SIZE_MAX},
                 {"@WORKER@", NULL, freestanding_template("web.js"), 0, 0},
                 {"@ORIGIN@", NULL, folder->origin, 0, 0},
                 {"@MODEL@", NULL, moec_model(folder->compiler), 0, 0}};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        if (strncmp(at, marks[i].mark, strlen(marks[i].mark)) != 0) continue;
        if (marks[i].text)
            aside_write(aside, marks[i].text, strlen(marks[i].text));
        else
            *good &= write_part(aside, folder->out, marks[i].file, marks[i].from, marks[i].count);
        return at + strlen(marks[i].mark);
    }
    return NULL;
}

static bool write_web_page(const FreestandingFolder *folder, const char *path) {
    Aside aside;
    bool good = true;
    if (!aside_open(&aside, path, false)) return false;
    for (const char *at = freestanding_template("web.html"), *next; *at; at = next) {
        next = *at == '@' ? write_mark(&aside, folder, at, &good) : NULL;
        if (next) continue;
        next = at + 1 + strcspn(at + 1, "@");
        aside_write(&aside, at, (size_t)(next - at));
    }
    return aside_close(&aside) && good;
}

static bool write_sources(const char *folder) {
    static const char *const names[] = {"web.c", "lexicon.h", "lexicon.c"};
    bool good = true;
    for (int i = 0; i < 3 && good; i++)
        good = folder_write_text(folder, names[i], freestanding_template(names[i]));
    return good;
}

bool page_write(const FreestandingFolder *folder, const char *page) {
    return write_sources(folder->out) &&
           compile_page(folder, freestanding_rounded_bytes(folder->program)) &&
           write_web_page(folder, page);
}
