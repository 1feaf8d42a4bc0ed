/* extern_library: the C functions of a layer as a shared library, with the interface of foreign
 * code:
 *
 *     int norm(long rows, long d, const float *x, float *y);       of the user
 *     int moec_extern_call(const long *n, void *const *p) { return norm(n[0], n[1], p[0], p[1]); }
 */
#include "tools/against/against.h"

#include "base/files.h"
#include "base/memory.h"
#include "base/message.h"
#include "model/model.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POINTERS = 64, WORDS = 64 };

/* ---- sizes ---- */

long extern_product_size(const MoecExternProduct *product, const long *numbers) {
    long number = product->factor;
    for (int i = 0; i < product->count; i++) number *= numbers[product->sizes[i] + 1];
    return number;
}

long extern_workspace_size(const MoecExtern *external, const long *numbers) {
    return numbers[0] * extern_product_size(&external->workspace, numbers);
}

/* ---- the library ---- */

char *extern_path_literal(const char *path) {
    char *text = memory_new(4 * strlen(path) + 3), *to = text;
    *to++ = '"';
    for (const char *at = path; *at; at++) {
        const unsigned char byte = (unsigned char)*at;
        if (byte >= ' ' && byte < 127 && !strchr("\"\\?", byte))
            *to++ = (char)byte;
        else
            to += sprintf(to, "\\%03o", byte);
    }
    strcpy(to, "\"");
    return text;
}

static void write_line(FILE *file, int line, const char *path) {
    AUTO_FREE char *literal = extern_path_literal(path);
    fprintf(file, "#line %d %s\n", line, literal);
}

static void write_call(FILE *file, const MoecExtern *external, const char *name) {
    int pointers = external->input_count + external->output_count;
    pointers += external->workspace.factor > 0;
    if (external->gradient)
        for (int i = 0; i < external->input_count; i++) pointers += !external->integers[i];
    write_line(file, external->line, external->spec);
    fprintf(file, "int %s(%s);\n", external->function, external->types);
    fprintf(file, "int %s(const long *n, void *const *p) {\n    return %s(n[0]", name,
            external->function);
    for (int i = 0; i < external->size_count; i++) fprintf(file, ", n[%d]", i + 1);
    for (int i = 0; i < pointers; i++) fprintf(file, ", p[%d]", i);
    fprintf(file, ");\n}\n");
}

static char *library_text(const AgainstExtern *external) {
    char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    const MoecExtern *forward = external->forward, *gradient = external->gradient;
    write_call(file, forward, "moec_extern_call");
    if (gradient) write_call(file, gradient, "moec_extern_gradient");
    write_line(file, 1, forward->path);
    fprintf(file, "%s\n", forward->text);
    if (gradient && strcmp(gradient->path, forward->path) != 0) {
        write_line(file, 1, gradient->path);
        fprintf(file, "%s\n", gradient->text);
    }
    fclose(file);
    return text;
}

/* Adds the words of a text, which belong to it. */
static int add_words(const char **words, int count, char *text) {
    char *rest = NULL;
    for (char *word = strtok_r(text, " ", &rest); word && count < WORDS - 16;
         word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    return count;
}

static int compile_library(const char *source, const char *output, const char *log) {
    static const char *const fixed[] = {"-std=gnu11", "-O2", "-fopenmp", "-fPIC", "-shared", "-w"};
    const char *words[WORDS], *name = getenv("MOEC_CC"), *more = getenv("MOEC_CFLAGS");
    AUTO_FREE char *command = memory_format("%s", name && *name ? name : "cc"),
                   *flags = memory_format("%s", more ? more : "");
    int count = add_words(words, 0, command);
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) words[count++] = fixed[i];
    count = add_words(words, count, flags);
    const char *const rest[] = {"-o", output, "-x", "c", source, "-lm", NULL};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) words[count++] = rest[i];
    return compiler_wait(compiler_start((char *const *)(uintptr_t)words, log));
}

bool extern_library_build(const AgainstExtern *external, const char *folder, const char *output) {
    const MoecExtern *forward = external->forward, *gradient = external->gradient;
    AUTO_FREE char *source = path_join(folder, "extern.c"), *log = path_join(folder, "extern.log"),
                   *text = library_text(external);
    bool good = file_write(source, text, strlen(text));
    if (good && compile_library(source, output, log) != 0) {
        AUTO_FREE char *help = memory_format(
            "the function must be: int %s(%s)%s%s%s%s%s", forward->function, forward->parameters,
            gradient ? "; int " : "", gradient ? gradient->function : "", gradient ? "(" : "",
            gradient ? gradient->parameters : "", gradient ? ")" : "");
        line_message("%s:%d: extern c \"%s\":", forward->spec, forward->line, forward->name);
        compiler_print_log(log);
        good = error_message(help, "%s does not compile as a kernel of layer '%s'", forward->path,
                             forward->layer);
    }
    return good;
}

/* ---- in the child process ---- */

typedef int ExternLibraryCall(const long *numbers, void *const *pointers);

static struct {
    const AgainstExtern *external;
    ExternLibraryCall *call, *gradient;
} loaded;

static const MoecAgainstTensor *against_tensor_named(const MoecAgainstTensor *list, int count,
                                                     const char *name) {
    for (int i = 0; i < count; i++)
        if (!strcmp(list[i].name, name)) return &list[i];
    return NULL;
}

/* Tensors of the function: inputs, then outputs; false: one is missing. */
static bool find_operands(const MoecAgainstCall *call, const MoecExtern *external,
                          const MoecAgainstTensor **operands) {
    bool good = external->input_count + external->output_count <= POINTERS / 4;
    for (int i = 0; good && i < external->input_count; i++)
        good = (operands[i] =
                    against_tensor_named(call->given, call->given_count, external->inputs[i]));
    for (int i = 0; good && i < external->output_count; i++)
        good = (operands[external->input_count + i] =
                    against_tensor_named(call->results, call->result_count, external->outputs[i]));
    return good;
}

static void set_numbers(const MoecExtern *external, const MoecAgainstTensor *const *operands,
                        long *numbers) {
    numbers[0] = 1;
    for (int i = 0; i < operands[0]->rank - external->named; i++)
        numbers[0] *= operands[0]->shape[i];
    for (int i = 0; i < external->size_count; i++) {
        const MoecAgainstTensor *one = operands[external->sizes[i].operand];
        numbers[i + 1] = one->shape[one->rank - 1 - external->sizes[i].back];
    }
}

/* ---- the workspace: NaN, between zones of known bytes ---- */

enum { ZONE = 256, ZONE_BYTE = 0xA5 };

typedef struct Workspace {
    unsigned char *block;
    size_t bytes;
} Workspace;

static Workspace make_workspace(const MoecExtern *external, const long *numbers) {
    if (!external->workspace.factor) return (Workspace){NULL, 0};
    const size_t count = (size_t)extern_workspace_size(external, numbers);
    Workspace made = {memory_new(count * sizeof(float) + 2 * ZONE), count * sizeof(float)};
    memset(made.block, ZONE_BYTE, made.bytes + 2 * ZONE);
    for (size_t i = 0; i < count; i++)
        memcpy(made.block + ZONE + i * sizeof(float), &(float){NAN}, sizeof(float));
    return made;
}

/* Frees it; false if a zone has other bytes. */
static bool end_workspace(Workspace *space) {
    bool good = true;
    for (size_t i = 0; space->block && i < ZONE; i++)
        good &= space->block[i] == ZONE_BYTE && space->block[space->bytes + ZONE + i] == ZONE_BYTE;
    free(space->block);
    return good;
}

/* Calls a function with these pointers and its workspace; *inside: it stayed in the workspace. */
static int call_with_workspace(ExternLibraryCall *function, const MoecExtern *external,
                               const long *numbers, void **pointers, int count, bool *inside) {
    Workspace space = make_workspace(external, numbers);
    pointers[count] = space.block ? space.block + ZONE : NULL;
    const int returned = function(numbers, pointers);
    *inside = end_workspace(&space);
    return returned;
}

/* Integers of 32 bits, as in programs. */
static void *pointer_of(const MoecAgainstTensor *tensor, void **copies, int *count) {
    if (tensor->type != MOEC_AGAINST_I64) return tensor->values;
    int32_t *copy = memory_new(sizeof *copy * ((size_t)tensor->count + 1));
    for (int64_t i = 0; i < tensor->count; i++)
        copy[i] = (int32_t)((const int64_t *)tensor->values)[i];
    copies[(*count)++] = copy;
    return copy;
}

static int run_gradient(const MoecAgainstTensor *const *operands, const long *numbers,
                        void **pointers, void **copies, int *copy_count, bool *inside) {
    const MoecExtern *forward = loaded.external->forward;
    const int inputs = forward->input_count;
    int count = inputs;
    for (int i = 0; i < forward->output_count; i++)
        pointers[count++] = operands[inputs + i]->gradient;
    for (int i = 0; i < inputs; i++) {
        if (forward->integers[i]) continue;
        pointers[count] = operands[i]->gradient;
        if (!pointers[count])
            copies[(*copy_count)++] = pointers[count] =
                memory_new(sizeof(float) * ((size_t)operands[i]->count + 1));
        count++;
    }
    return call_with_workspace(loaded.gradient, loaded.external->gradient, numbers, pointers, count,
                               inside);
}

static int call_extern_library(const MoecAgainstCall *call, char *message) {
    const MoecExtern *forward = loaded.external->forward;
    const MoecAgainstTensor *operands[POINTERS];
    void *pointers[POINTERS] = {0}, *copies[POINTERS];
    long numbers[POINTERS];
    int copy_count = 0, code = MOEC_AGAINST_NO_GRADIENTS;
    if (!find_operands(call, forward, operands)) {
        snprintf(message, MOEC_AGAINST_MESSAGE,
                 "the layer alone has other tensors than in the "
                 "model");
        return -1;
    }
    set_numbers(forward, operands, numbers);
    for (int i = 0; i < forward->input_count + forward->output_count; i++)
        pointers[i] = pointer_of(operands[i], copies, &copy_count);
    bool inside;
    int returned = call_with_workspace(loaded.call, forward, numbers, pointers,
                                       forward->input_count + forward->output_count, &inside);
    if (!returned && inside && loaded.gradient) {
        code = MOEC_AGAINST_GOOD;
        returned = run_gradient(operands, numbers, pointers, copies, &copy_count, &inside);
    }
    if (!inside)
        snprintf(message, MOEC_AGAINST_MESSAGE, "the function writes outside of 'workspace'");
    if (returned)
        snprintf(message, MOEC_AGAINST_MESSAGE, "it returns %d, so it refuses these sizes",
                 returned);
    for (int i = 0; i < copy_count; i++) free(copies[i]);
    return returned || !inside ? -1 : code;
}

MoecAgainstFunction *extern_library_function(const AgainstExtern *external, void *library) {
    void *call = dlsym(library, "moec_extern_call"),
         *gradient = external->gradient ? dlsym(library, "moec_extern_gradient") : NULL;
    loaded.external = external;
    memcpy(&loaded.call, &call, sizeof call);
    memcpy(&loaded.gradient, &gradient, sizeof gradient);
    return call ? call_extern_library : NULL;
}
