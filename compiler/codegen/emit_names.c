/* emit_names: names, lines and literals of generated C. What a spec calls its tensors is kept where
 * C allows it. */
#include "codegen/emit.h"

#include <ctype.h>
#include <stdarg.h>
#include <string.h>

/* Keywords of C and of C++, which CUDA is. */
static const char *const keywords[] = {
    "alignas",
    "alignof",
    "and",
    "and_eq",
    "asm",
    "auto",
    "bitand",
    "bitor",
    "bool",
    "break",
    "case",
    "catch",
    "char",
    "char16_t",
    "char32_t",
    "char8_t",
    "class",
    "compl",
    "concept",
    "const",
    "const_cast",
    "consteval",
    "constexpr",
    "constinit",
    "continue",
    "co_await",
    "co_return",
    "co_yield",
    "decltype",
    "default",
    "delete",
    "do",
    "double",
    "dynamic_cast",
    "else",
    "enum",
    "explicit",
    "export",
    "extern",
    "false",
    "float",
    "for",
    "friend",
    "goto",
    "if",
    "inline",
    "int",
    "long",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "not",
    "not_eq",
    "nullptr",
    "operator",
    "or",
    "or_eq",
    "private",
    "protected",
    "public",
    "register",
    "reinterpret_cast",
    "requires",
    "restrict",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "static_assert",
    "static_cast",
    "struct",
    "switch",
    "template",
    "this",
    "thread_local",
    "throw",
    "true",
    "try",
    "typedef",
    "typeid",
    "typename",
    "typeof",
    "typeof_unqual",
    "union",
    "unsigned",
    "using",
    "virtual",
    "void",
    "volatile",
    "wchar_t",
    "while",
    "xor",
    "xor_eq",
};

/* Macros in small letters, and what generated functions call: types, functions, CUDA's variables.
 * Macros with parentheses do no harm, nothing of a spec is followed by one. */
static const char *const called[] = {
    "complex", "errno",     "imaginary", "linux",    "i386",        "math_errhandling", "noreturn",
    "stderr",  "stdin",     "stdout",    "unix",     "unreachable", "int32_t",          "int64_t",
    "memcpy",  "memset",    "size_t",    "uint32_t", "uint64_t",    "blockDim",         "blockIdx",
    "gridDim", "threadIdx", "warpSize",  "assert",   "main",
};

/* Variables of generated functions that are not bound as indices and tensors are. */
static const char *const variables[] = {"chunk", "run", "iteration"};

/* What the functions of an update call their parameters. */
static const char *const reserved_in_updates[] = {"elements", "scalars", "weight", "gradient",
                                                  "state",    "step",    "steps"};

/* Names that begin so belong to C, to the kernels or to the simulated device. */
static const char *const reserved_starts[] = {"_", "moec", "kernel_", "run_", "omp_", "sim_"};

static bool is_among(const char *name, const char *const *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, list[i]) == 0) return true;
    return false;
}

#define IS_AMONG(name, list) is_among(name, list, sizeof(list) / sizeof *(list))

/* Capital letters belong to macros, of whatever headers and compilers there are, and to the types
 * of the kernels. */
static bool is_reserved(const char *name) {
    if (IS_AMONG(name, keywords) || IS_AMONG(name, called) || IS_AMONG(name, variables))
        return true;
    for (const char *c = name; *c; c++)
        if (isupper((unsigned char)*c)) return true;
    for (size_t i = 0; i < sizeof reserved_starts / sizeof *reserved_starts; i++)
        if (strncmp(name, reserved_starts[i], strlen(reserved_starts[i])) == 0) return true;
    return isdigit((unsigned char)name[0]) || !name[0];
}

/* What has the prefix of reserved names already is only kept apart from its own kind. */
static bool is_taken(const Emitter *emitter, const char *name) {
    bool update = emitter->program->graph == GRAPH_UPDATE;
    if (update && IS_AMONG(name, reserved_in_updates)) return true;
    for (int i = 0; i < emitter->program->tensors.count; i++)
        if (emitter->names[i] && strcmp(emitter->names[i], name) == 0) return true;
    for (int i = 0; i < emitter->binding_count; i++)
        if (strcmp(emitter->bindings[i].name, name) == 0) return true;
    return false;
}

/* A number may follow: "kernel_2" begins as what belongs to the kernels. */
static const char *free_name(const Emitter *emitter, const char *wanted) {
    Text text = {.arena = emitter->arena};
    bool avoided = is_reserved(wanted) || is_reserved(arena_format(emitter->arena, "%s_", wanted));
    text_add(&text, "%s", avoided ? "v_" : "");
    for (const char *c = wanted; *c; c++)
        text_add(&text, "%c", isalnum((unsigned char)*c) ? *c : '_');
    const char *name = text.text;
    for (int number = 2; is_taken(emitter, name); number++)
        name = arena_format(emitter->arena, "%s_%d", text.text, number);
    return name;
}

static void add_binding(Emitter *emitter, Binding binding) {
    if (emitter->binding_count == emitter->binding_capacity) {
        int capacity = emitter->binding_capacity ? 2 * emitter->binding_capacity : 32;
        Binding *bindings = arena_alloc(emitter->arena, (size_t)capacity * sizeof *bindings);
        if (emitter->binding_count)
            memcpy(bindings, emitter->bindings, (size_t)emitter->binding_count * sizeof *bindings);
        emitter->bindings = bindings;
        emitter->binding_capacity = capacity;
    }
    emitter->bindings[emitter->binding_count++] = binding;
}

const char *bind_name(Emitter *emitter, const Index *index, const Term *value, const char *wanted) {
    const char *name = free_name(emitter, wanted);
    add_binding(emitter, (Binding){index, value, name});
    return name;
}

/* What scatters and products of a device call their variables: no index in them has such a name,
 * and no tensor. */
void bind_scatter_names(Emitter *emitter) {
    static const char *const names[] = {
        "row", "own",    "earlier", "from", "end",    "part", "hit",         "hits",   "found",
        "of",  "before", "n",       "sum",  "column", "more", "more_gather", "more_a", "more_b"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        bind_name(emitter, NULL, NULL, names[i]);
}

/* Before anything else has a name. */
void name_tensors(Emitter *emitter) {
    int bindings = emitter->binding_count;
    if (emitter->target->apart) bind_scatter_names(emitter);
    for (int i = 0; i < emitter->program->tensors.count; i++) {
        const Tensor *tensor = emitter->program->tensors.items[i];
        emitter->names[i] = free_name(emitter, tensor->name);
    }
    emitter->binding_count = bindings;
}

void bind_alias(Emitter *emitter, const Index *index, const char *name) {
    const char *bound = bound_index(emitter, index);
    if (!bound || strcmp(bound, name) != 0) add_binding(emitter, (Binding){index, NULL, name});
}

const char *bound_index(const Emitter *emitter, const Index *index) {
    for (int i = emitter->binding_count - 1; i >= 0; i--)
        if (emitter->bindings[i].index == index) return emitter->bindings[i].name;
    return NULL;
}

const char *bound_term(const Emitter *emitter, const Term *value) {
    for (int i = emitter->binding_count - 1; i >= 0; i--)
        if (emitter->bindings[i].value && term_equal(emitter->bindings[i].value, value))
            return emitter->bindings[i].name;
    return NULL;
}

void emit_line(Emitter *emitter, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const char *line = arena_vformat(emitter->arena, format, arguments);
    va_end(arguments);
    print_line(emitter->out, emitter->indent, line);
}

const char *quoted(Arena *arena, const char *text) {
    Text result = {.arena = arena};
    text_add(&result, "\"");
    for (const char *c = text; *c; c++) {
        unsigned char byte = (unsigned char)*c;
        if (byte == '"' || byte == '\\')
            text_add(&result, "\\%c", byte);
        else if (byte >= ' ' && byte < 127 && byte != '?')
            text_add(&result, "%c", byte);
        else
            text_add(&result, "\\%03o", byte);
    }
    text_add(&result, "\"");
    return result.text;
}

const char *line_of(Arena *arena, Span span) {
    if (!span.source) return "";
    const char *path = span.source->path, *slash = strrchr(path, '/');
    bool embedded = path_is_standard(path);
    Text text = {.arena = arena};
    for (const char *c = slash && !embedded ? slash + 1 : path; *c; c++)
        text_add(&text, "%c", isalnum((unsigned char)*c) || strchr("._-/", *c) ? *c : '_');
    text_add(&text, ":%d", span_line(span));
    return text.text;
}

const char *type_name(const Tensor *tensor) {
    static const char *const names[] = {[TYPE_REAL] = "float",
                                        [TYPE_INT] = "int32_t",
                                        [TYPE_BF16] = "MoecBf16",
                                        [TYPE_INT8] = "MoecGroup"};
    return names[tensor->type];
}

const char *axes_of(Arena *arena, const Tensor *tensor) {
    Text text = {.arena = arena};
    text_add(&text, "[");
    for (int i = 0; i < tensor->rank; i++)
        text_add(&text, "%s%s", i ? ", " : "", tensor->axes[i]->name);
    text_add(&text, "]");
    return text.text;
}
