/* names: assigns names to the variables of a form: their wanted name if it is free, from outside to
 * inside.
 *
 *     for s                          for s
 *         let sum = 0       -->          let sum = 0
 *         for s                          for s_2
 */
#include "loop/form.h"

#include <ctype.h>
#include <string.h>

/* Keywords of C and of C++, which CUDA uses. */
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

/* Lowercase macros, and names used by generated functions: types, functions, CUDA variables. Macros
 * with parameters are harmless, because no name of a spec is followed by a parenthesis. */
static const char *const called[] = {
    "complex", "errno",     "imaginary", "linux",    "i386",        "math_errhandling", "noreturn",
    "stderr",  "stdin",     "stdout",    "unix",     "unreachable", "int32_t",          "int64_t",
    "memcpy",  "memset",    "size_t",    "uint32_t", "uint64_t",    "blockDim",         "blockIdx",
    "gridDim", "threadIdx", "warpSize",  "assert",   "main",
};

/* Variables of generated functions that are not indices or tensors. */
static const char *const variables[] = {"chunk", "run", "iteration"};

/* Prefixes reserved for C, the kernels or the simulated GPU. */
static const char *const reserved_starts[] = {"_", "moec", "kernel_", "run_", "omp_", "sim_"};

static bool is_among(const char *name, const char *const *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (*name == *list[i] && strcmp(name, list[i]) == 0) return true;
    return false;
}

#define IS_AMONG(name, list) is_among(name, list, sizeof(list) / sizeof *(list))

/* Names in capital letters are reserved for macros of any headers and compilers, and for the types
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

static bool is_taken(const Around *around, const char *name) {
    for (int i = 0; i < around->tensor_count; i++)
        if (around->tensors[i] && strcmp(around->tensors[i], name) == 0) return true;
    for (const char *const *word = around->keywords; word && *word; word++)
        if (strcmp(*word, name) == 0) return true;
    return list_has_text(&around->others, name);
}

/* A number may follow: "kernel_2" has a reserved prefix. A name that already has a reserved prefix
 * only needs to differ from other names. */
const char *free_name(Arena *arena, const Around *around, const char *wanted) {
    Text text = {.arena = arena};
    bool avoided = is_reserved(wanted) || is_reserved(arena_format(arena, "%s_", wanted));
    text_add(&text, "%s%s", avoided ? "v_" : "", wanted);
    for (char *c = text.text; *c; c++)
        if (!isalnum((unsigned char)*c)) *c = '_';
    const char *name = text.text;
    for (int number = 2; is_taken(around, name); number++)
        name = arena_format(arena, "%s_%d", text.text, number);
    return name;
}

static void forget_names(const FormBlock *block) {
    for (const FormNode *node = block->first; node; node = node->next) {
        if (node->name && node->name->variable->wanted) node->name->variable->name = NULL;
        forget_names(&node->body);
    }
}

typedef struct Naming {
    Arena *arena;
    Around in_scope; /* surrounding names, and all variables from outside to inside */
    Around given;    /* the same, and the names of all variables so far */
} Naming;

/* True if another variable in scope has the name. */
static bool has_rival(const Naming *naming, const Variable *variable) {
    const List *names = &naming->in_scope.others;
    for (int i = 0; i < names->count; i++)
        if (names->items[i] != variable->name && strcmp(names->items[i], variable->name) == 0)
            return true;
    return false;
}

/* A variable that is declared in several blocks needs a name that is free in all of them. */
static void name_one(Naming *naming, Variable *variable) {
    const char *wanted = variable->wanted;
    bool again = variable->name != NULL;
    if (!again || (wanted && has_rival(naming, variable))) {
        if (variable->base) {
            if (!variable->base->name) name_one(naming, variable->base);
            wanted = arena_format(naming->arena, "%s%s", variable->base->name, wanted);
        }
        const Around *taken = again ? &naming->given : &naming->in_scope;
        variable->name = free_name(naming->arena, taken, wanted);
        list_push(naming->arena, &naming->given.others, (void *)(uintptr_t)variable->name);
    }
    list_push(naming->arena, &naming->in_scope.others, (void *)(uintptr_t)variable->name);
}

static void name_block(Naming *naming, const FormBlock *block) {
    List *names = &naming->in_scope.others;
    int outside = names->count;
    for (const FormNode *node = block->first; node; node = node->next) {
        int before = names->count;
        if (node->name) name_one(naming, node->name->variable);
        name_block(naming, &node->body);
        if (node->kind == FORM_FOR) names->count = before;
    }
    names->count = outside;
}

void name_variables(Arena *arena, KernelForm *form, const Target *target) {
    (void)target;
    const List *others = &form->around.others;
    Naming naming = {arena, form->around, form->around};
    naming.in_scope.others = naming.given.others = (List){0};
    for (int i = 0; i < others->count; i++) {
        list_push(arena, &naming.in_scope.others, others->items[i]);
        list_push(arena, &naming.given.others, others->items[i]);
    }
    forget_names(&form->block);
    name_block(&naming, &form->block);
}
