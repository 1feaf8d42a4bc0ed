#include "tools/command/freestanding/plain_folder.h"
#include "base/build.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/message.h"

#include <stdlib.h>
#include <string.h>

/* The headers of which model.c contains parts, in their order. */
static const char *const headers[] = {"abi.h",   "plain_math.h", "prelude.h",
                                      "calls.h", "packing.h",    "plain.h"};
enum { HEADERS = sizeof headers / sizeof headers[0] };

const char *freestanding_template(const char *name) {
    for (const EmbeddedFile *file = embedded_files; file->name; file++)
        if (strcmp(embedded_base(file), name) == 0) return file->text;
    return "";
}

/* ---- memory ---- */

static size_t rounded_up(size_t bytes) {
    return (bytes + 15) / 16 * 16;
}

size_t freestanding_weight_bytes(const MoecFreestanding *program) {
    return program->floats * sizeof(float) + freestanding_rounded_bytes(program);
}

size_t freestanding_rounded_bytes(const MoecFreestanding *program) {
    size_t bytes = 0;
    for (int i = 0; i < MOEC_STORED_ARRAYS; i++)
        bytes += program->copies[i].elements * program->copies[i].bytes;
    return bytes;
}

static size_t at_least_one(size_t bytes) {
    return bytes ? rounded_up(bytes) : 16;
}

/* sizeof(Model) */
static size_t freestanding_state_bytes(const MoecFreestanding *program) {
    return rounded_up(at_least_one(program->cache_bytes) + at_least_one(program->arena_bytes) +
                      (size_t)program->vocabulary * sizeof(float) + 2 * sizeof(int32_t));
}

/* Frames of at most five functions, the buffers of a product or of an attention head, and the
 * arrays of the largest kernel: tests/freestanding/ measures it. */
static size_t freestanding_stack_bytes(const MoecFreestanding *program) {
    return 2048 + rounded_up(program->local_bytes);
}

/* Code and tables, by measurements on Cortex-M4 (-Os) and x86-64 (-O2). */
static size_t code_bytes(const MoecFreestanding *program) {
    return 5000 + (size_t)program->kernels * 300 + (size_t)program->products * 120;
}

size_t freestanding_flash_bytes(const MoecFreestanding *program) {
    return freestanding_weight_bytes(program) + code_bytes(program);
}

size_t freestanding_ram_bytes(const MoecFreestanding *program) {
    return freestanding_state_bytes(program) + freestanding_stack_bytes(program);
}

static char *memory_text(const MoecFreestanding *program, const char *prefix) {
    return memory_format("%sread-only  %zu bytes of weights, about %zu kB of code and tables\n"
                         "%sRAM        %zu bytes: the type Model (KV cache and states %zu, "
                         "temporaries %zu, logits %zu)\n"
                         "%sstack      at most %zu bytes",
                         prefix, freestanding_weight_bytes(program), code_bytes(program) / 1000 + 1,
                         prefix, freestanding_state_bytes(program),
                         at_least_one(program->cache_bytes), at_least_one(program->arena_bytes),
                         (size_t)program->vocabulary * sizeof(float), prefix,
                         freestanding_stack_bytes(program));
}

/* ---- templates ---- */

/* A mark of a template and its text. */
typedef struct TemplateMark {
    const char *name, *text;
} TemplateMark;

/* A new string: the template with texts instead of marks, "@NAME@". */
static char *template_filled(const char *template, const TemplateMark *marks) {
    Text result = {0};
    for (const char *at = template; *at;) {
        const TemplateMark *mark = marks;
        while (mark->name && strncmp(at, mark->name, strlen(mark->name)) != 0) mark++;
        const char *text = mark->name ? mark->text : at;
        text_append(&result, text, mark->name ? strlen(text) : 1);
        at += mark->name ? strlen(mark->name) : 1;
    }
    text_append(&result, "", 1);
    return result.bytes;
}

static bool write_filled(const FreestandingFolder *folder, const char *name, const char *template,
                         const TemplateMark *marks) {
    AUTO_FREE char *text = template_filled(freestanding_template(template), marks);
    return folder_write_text(folder->out, name, text);
}

/* The declarations of the weights: arrays in this file, or of the assembler. A new string. */
static char *weights_text(const FreestandingFolder *folder) {
    const MoecFreestanding *program = folder->program;
    const char *scope = folder->apart ? "extern" : "static";
    const char *floats = folder->apart ? ";" : " = {{\n#include \"weights.inc\"\n}};";
    const char *rest = folder->apart ? ";" : " = {{\n#include \"rounded.inc\"\n}};";
    char *first =
        memory_format("%s const union {\n    uint32_t bits[%zu];\n    float values[%zu];\n"
                      "} moec_floats MODEL_WEIGHTS%s\n",
                      scope, program->floats, program->floats, floats);
    if (!freestanding_rounded_bytes(program)) return first;
    AUTO_FREE char *arrays = memory_format("%s", "");
    for (int i = 0; i < MOEC_STORED_ARRAYS; i++) {
        const MoecStoredArray *one = &program->copies[i];
        if (one->elements)
            arrays = memory_append(arrays, "    %s %s[%zu];\n", one->structure, one->name,
                                   one->elements);
    }
    char *both = memory_format("%s%s const struct {\n%s} moec_rounded MODEL_WEIGHTS%s\n", first,
                               scope, arrays, rest);
    free(first);
    return both;
}

static bool is_supported(const char *support, const char *program) {
    size_t length;
    const char *name = amalgamate_missing(support, program, &length);
    return !name ||
           error_message("leave out --profile, or change the layer that calls it",
                         "the profile freestanding has no function %.*s", (int)length, name);
}

bool freestanding_write(const FreestandingFolder *folder) {
    const MoecFreestanding *program = folder->program;
    const char *texts[HEADERS + 1] = {NULL};
    for (int i = 0; i < HEADERS; i++) texts[i] = freestanding_template(headers[i]);
    AUTO_FREE char *weights = weights_text(folder),
                   *own = memory_format("%s%s%s", weights, program->text,
                                        freestanding_template("plain_model.c"));
    AUTO_FREE char *support = amalgamate(texts, own), *memory = memory_text(program, " *     ");
    char *numbers[5] = {memory_format("%ld", program->vocabulary),
                        memory_format("%ld", program->context),
                        memory_format("%zu", at_least_one(program->cache_bytes)),
                        memory_format("%zu", at_least_one(program->arena_bytes)),
                        memory_format("%zu", freestanding_state_bytes(program))};
    const TemplateMark marks[] = {{"@MODEL@", moec_model(folder->compiler)},
                                  {"@VERSION@", MOEC_VERSION},
                                  {"@ORIGIN@", folder->origin},
                                  {"@MEMORY@", memory},
                                  {"/* @SUPPORT@ */", support},
                                  {"/* @WEIGHTS@ */", weights},
                                  {"/* @PROGRAM@ */", program->text},
                                  {"MARK_VOCABULARY", numbers[0]},
                                  {"MARK_CONTEXT", numbers[1]},
                                  {"MARK_CACHE", numbers[2]},
                                  {"MARK_ARENA", numbers[3]},
                                  {"@RAM@", numbers[4]},
                                  {NULL, NULL}};
    const bool good = is_supported(support, program->text) && stored_check(folder) &&
                      folder_make(folder->out) && stored_write(folder) &&
                      write_filled(folder, "model.h", "plain_model.h", marks) &&
                      write_filled(folder, "model.c", "plain_model.c", marks) &&
                      write_filled(folder, "example.c", "example.c", marks) &&
                      write_filled(folder, "README.md", "plain.md", marks);
    AUTO_FREE char *printed = memory_text(program, "  ");
    if (good) line_message("%s", printed);
    for (int i = 0; i < 5; i++) free(numbers[i]);
    return good;
}
