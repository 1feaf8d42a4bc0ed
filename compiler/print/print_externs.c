/* print_externs: hand-written kernels of layers: see calls/hand_written.c. A hosted text contains
 * their files. In a standalone folder, files in C are compiled alone, and the kernels of a GPU
 * include theirs. */
#include "print/print.h"

#include <string.h>

/* "kernels/norm.cu" becomes "extern_norm.cuh": a Makefile compiles every .cu. */
const char *extern_file_name(Arena *arena, const char *path) {
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    const size_t length = strlen(base);
    const bool cuda = length > 3 && !strcmp(base + length - 3, ".cu");
    return arena_format(arena, "extern_%s%s", base, cuda ? "h" : "");
}

static void print_contents(Text *text, const Module *module, const Source *file) {
    if (module->hosting == TARGET_STANDALONE) {
        if (module->apart)
            text_add(text, "#include %s\n",
                     quoted(text->arena, extern_file_name(text->arena, file->path)));
        return;
    }
    text_add(text, "#line 1 %s\n", quoted(text->arena, file->path));
    text_add_bytes(text, file->text, file->length);
    text_add(text, "\n");
}

/* The compiler of the text compares both declarations. */
static void print_declaration(Text *text, const ExternCall *call) {
    const ExternFunction *function = call->function;
    const Source *spec = function->span.source;
    if (spec)
        text_add(text, "#line %d %s\n", span_line(function->span), quoted(text->arena, spec->path));
    text_add(text, "extern \"C\" {\n__global__ void %s(%s);\n}\n", function->name, call->types);
}

void print_extern_declarations(Text *text, const Module *module) {
    if (!module->externs.count) return;
    text_add(text, "/* Hand-written kernels of layers. */\n");
    LIST_EACH(const ExternCall, call, &module->externs)
        text_add(text, "int %s(%s);\n", call->function->name, call->types);
    text_add(text, "\n");
}

void print_extern_files(Text *text, const Module *module) {
    for (int i = 0; i < module->externs.count; i++) {
        const Source *file = ((const ExternCall *)module->externs.items[i])->function->file;
        bool again = false;
        for (int j = 0; j < i; j++)
            again |= ((const ExternCall *)module->externs.items[j])->function->file == file;
        if (!again) print_contents(text, module, file);
    }
}

/* The number of a file among those of the module. */
static int file_number(const Module *module, const Source *file) {
    int number = 0;
    while (((const ExternCall *)module->externs.items[number])->function->file != file) number++;
    return number;
}

void print_extern_file(Text *text, const Module *module, const ExternCall *call) {
    const int number = file_number(module, call->function->file);
    text_add(text, "#ifndef MOEC_EXTERN_%d\n#define MOEC_EXTERN_%d\n", number, number);
    print_contents(text, module, call->function->file);
    text_add(text, "#endif\n");
    print_declaration(text, call);
}
