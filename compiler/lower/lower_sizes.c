/* lower_sizes: sizes of axes, as constants at the top of a text: `enum { BATCH = 2, D = 64 };`.
 *
 * A constant has the name of the axis in capital letters, which no variable has. Axes of one name
 * and several sizes are numbered. For the passes over the lowered form and for the C compiler it is
 * a number.
 */
#include "lower/lower.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

/* Capital letters with a meaning in included headers. */
static const char *const taken[] = {"BUFSIZ",   "EOF", "HUGE",   "I",
                                    "INFINITY", "NAN", "NDEBUG", "NULL"};
static const char *const taken_starts[] = {
    "BIG_",  "BYTE_",   "CU",    "EXIT_", "FD_",   "FILENAME_", "FOPEN_",   "FP_",    "HUGE_",
    "INT",   "LITTLE_", "M_",    "MATH_", "MB_",   "MOEC",      "NFDBITS",  "PDP_",   "PTRDIFF_",
    "RAND_", "SEEK_",   "SIG_",  "SIM_",  "SIZE_", "TMP_",      "UINT",     "WCHAR_", "WCONTINUED",
    "WEXIT", "WIF",     "WINT_", "WNO",   "WSTOP", "WTERM",     "WUNTRACED"};

static bool is_taken(const char *name) {
    if (text_find(taken, sizeof taken / sizeof *taken, name) >= 0) return true;
    for (size_t i = 0; i < sizeof taken_starts / sizeof *taken_starts; i++)
        if (strncmp(name, taken_starts[i], strlen(taken_starts[i])) == 0) return true;
    return !isalpha((unsigned char)name[0]);
}

static bool is_named(const List *sizes, const char *name) {
    for (int i = 0; i < sizes->count; i++)
        if (strcmp(((SizeConstant *)sizes->items[i])->name, name) == 0) return true;
    return false;
}

static const char *free_constant(Arena *arena, const List *sizes, const char *axis) {
    Text text = {.arena = arena};
    for (const char *c = axis; *c; c++)
        text_add(&text, "%c", isalnum((unsigned char)*c) ? toupper((unsigned char)*c) : '_');
    const char *wanted = text.length ? text.text : "";
    if (is_taken(wanted)) wanted = arena_format(arena, "AXIS_%s", wanted);
    const char *name = wanted;
    for (int number = 2; is_named(sizes, name); number++)
        name = arena_format(arena, "%s_%d", wanted, number);
    return name;
}

/* The constant of an axis in a text with constants; NULL in other texts. */
static SizeConstant *constant_of(Lowering *lower, const Axis *axis) {
    List *sizes = lower->sizes;
    if (!sizes || axis->kind == AXIS_ELEMENTS || axis->size < 2 || axis->size > INT_MAX)
        return NULL;
    SizeConstant *size = size_constant(sizes, axis);
    if (size) return size;
    size = arena_alloc(lower->arena, sizeof *size);
    *size = (SizeConstant){.axis = axis, .name = free_constant(lower->arena, sizes, axis->name)};
    list_push(lower->arena, sizes, size);
    return size;
}

const Term *size_term(Lowering *lower, const Axis *axis) {
    SizeConstant *size = constant_of(lower, axis);
    if (!size) return whole(lower, axis->size);
    size->of_kernels = true;
    return term_constant(lower->arena, axis->size, size->name);
}

const char *size_text(Lowering *lower, const Axis *axis) {
    SizeConstant *size = constant_of(lower, axis);
    if (!size) return arena_format(lower->arena, "%ld", axis->size);
    return size->name;
}
