/* print_externs: hand-written functions of layers: see calls/extern.c. A hosted text contains their
 * files; a standalone text includes them from its folder. */
#include "print/print.h"

#include <string.h>

static const char *extern_base(const Source *file) {
    const char *slash = strrchr(file->path, '/');
    return slash ? slash + 1 : file->path;
}

static void print_contents(Text *text, const Module *module, const Source *file) {
    if (module->hosting == TARGET_STANDALONE) {
        text_add(text, "#include %s\n", quoted(text->arena, extern_base(file)));
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
    for (int i = 0; i < module->externs.count; i++) {
        const ExternCall *call = module->externs.items[i];
        text_add(text, "int %s(%s);\n", call->function->name, call->types);
    }
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
