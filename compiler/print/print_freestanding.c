/* print_freestanding: a module of one decoding program as C99 for a machine without a C library.
 *
 * Needs:   final loops.
 * Leaves:  functions and constants, of which run_decode is the last. Weights and states are parts
 *          of two constant arrays, everything else is in the state of type Model:
 *
 *     const float *const embedding = moec_floats.values + 0;
 *     float *const x = (float *)(void *)(run->arena + 256);
 *
 * The rest of the text is in runtime/standalone/freestanding/: plain_model.c, and plain.h with the
 * functions that it calls.
 */
#include "print/print.h"
#include "passes.h"

#include <string.h>

static bool begins_with(const char *text, const char *word) {
    return strncmp(text, word, strlen(word)) == 0;
}

/* Whether a word begins here: not inside a longer one. */
static bool is_whole_word(const char *text, const char *at, const char *word) {
    const char *letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    return begins_with(at, word) && (at == text || !strchr(letters, at[-1])) &&
           (!at[strlen(word)] || !strchr(letters, at[strlen(word)]));
}

/* Words of other programs that C99 has in headers of the C library, and int32_t under the name that
 * it has on hosts. */
typedef struct PlainWord {
    const char *hosted, *plain;
} PlainWord;

static const PlainWord *plain_word(const char *text, const char *at) {
    static const PlainWord words[] = {
        {"INFINITY", "MOEC_INFINITE"}, {"NAN", "MOEC_NOT_A_NUMBER"}, {"int", "int32_t"}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (is_whole_word(text, at, words[i].hosted)) return &words[i];
    return NULL;
}

/* After the bracket that closes the first one. */
static const char *after_brackets(const char *at) {
    int depth = 0;
    do {
        depth += (*at == '(') - (*at == ')');
        at++;
    } while (*at && (depth > 0 || at[-1] != ')'));
    return at;
}

/* Without hints for OpenMP. Functions of the C library are replaced by those of plain_math.h:
 * moec_math(cos)(x) is moec_double_cos(x). Where integers need 64 bits, they have them on every
 * machine. */
static void add_plain(Text *text, const char *from, bool wide) {
    const PlainWord *word;
    for (const char *at = from; *at;) {
        const char *line = at + strspn(at, " ");
        if ((at == from || at[-1] == '\n') && begins_with(line, "MOEC_OMP(")) {
            at = after_brackets(line);
            at += *at == '\n';
        } else if (begins_with(at, "/*")) {
            while (!begins_with(at, "*/")) text_add_bytes(text, at++, 1);
        } else if (begins_with(at, "moec_math(")) {
            const char *name = at + strlen("moec_math("), *end = strchr(name, ')');
            text_add(text, "moec_double_%.*s", (int)(end - name), name);
            at = end + 1;
        } else if ((word = plain_word(from, at))) {
            text_add(text, "%s", word->plain);
            at += strlen(word->hosted);
        } else if (wide && is_whole_word(from, at, "long")) {
            text_add(text, "int64_t");
            at += strlen("long");
        } else {
            text_add_bytes(text, at++, 1);
        }
    }
}

char *print_freestanding(Arena *arena, const Module *module, MoecFreestanding *program) {
    const PrintStyle style = c_style("static void", "0", "Model");
    *program = (MoecFreestanding){0};
    const PlainMemory memory = plain_memory(arena, module, program);
    const PrintContext context = {module, &style, memory.first};
    Text text = {.arena = arena}, functions = {.arena = arena};
    print_sizes(&functions, &module->sizes, false);
    print_products(&functions, &module->products);
    print_functions(&functions, &context, &module->functions, NULL, NULL);
    print_absent(&text, module);
    add_plain(&text, functions.text, memory.wide);
    return text.text;
}
