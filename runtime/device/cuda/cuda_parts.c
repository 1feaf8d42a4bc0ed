#include "device/cuda/cuda_parts.h"

#include "base/memory.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char mark[] = "extern \"C\" __global__", bounds[] = "__launch_bounds__";
static const char unused[] = "template <int> static __device__", constant[] = "__grid_constant__ ";

/* Where the launch bounds of a kernel begin, between `at` and its parameters, or NULL. */
static const char *bounds_of(const char *at) {
    const char *found = strstr(at, bounds), *parameters = strchr(at, '(');
    return found && parameters && found < parameters ? found : NULL;
}

static char *add(char *to, const char *from, size_t length) {
    memcpy(to, from, length);
    return to + length;
}

int cuda_kernels(const char *text) {
    int count = 0;
    for (const char *at = text; (at = strstr(at, mark)); at++) count++;
    return count;
}

/* The head of a kernel that is left out, from its mark on, without what only kernels may have;
 * returns its end in the text. */
static const char *add_head(char **to, const char *text) {
    const char *end = strchr(text, '{'), *first = bounds_of(text);
    const char *last = first ? strchr(first, ')') : NULL;
    *to = add(*to, unused, strlen(unused));
    if (last) {
        *to = add(*to, text, (size_t)(first - text));
        text = last + 1;
    }
    for (const char *at; end && (at = strstr(text, constant)) != NULL && at < end;) {
        *to = add(*to, text, (size_t)(at - text));
        text = at + strlen(constant);
    }
    return text;
}

char *cuda_only(const char *text, const bool *wanted) {
    size_t length = strlen(text), kernels = (size_t)cuda_kernels(text);
    char *result = memory_new(length + kernels * sizeof unused + 1), *to = result;
    int number = 0;
    for (const char *at; (at = strstr(text, mark)); number++) {
        to = add(to, text, (size_t)(at - text));
        text = at + strlen(mark);
        if (wanted[number])
            to = add(to, mark, strlen(mark));
        else
            text = add_head(&to, text);
    }
    add(to, text, strlen(text));
    return result;
}

/* The name of the kernel whose mark ends before `at` is among them. */
static bool is_named(const char *at, const char *const *names, int count) {
    const char *first = bounds_of(at);
    if (first) at = strchr(first, ')');
    const char *end = strchr(at + 1, '('), *begin = end;
    while (begin > at && (isalnum((unsigned char)begin[-1]) || begin[-1] == '_')) begin--;
    size_t length = (size_t)(end - begin);
    for (int i = 0; i < count; i++)
        if (names[i] && strlen(names[i]) == length && !memcmp(names[i], begin, length)) return true;
    return false;
}

char *cuda_named(const char *text, const char *const *names, int count, bool named) {
    bool *wanted = memory_new(sizeof *wanted * (size_t)(cuda_kernels(text) + 1));
    int number = 0;
    for (const char *at = text; (at = strstr(at, mark));)
        wanted[number++] = is_named(at += strlen(mark), names, count) == named;
    char *result = cuda_only(text, wanted);
    free(wanted);
    return result;
}

char *cuda_part(const char *text, int part, int parts) {
    int count = cuda_kernels(text);
    bool *wanted = memory_new(sizeof *wanted * (size_t)(count + 1));
    for (int i = 0; i < count; i++) wanted[i] = part >= 0 && i % parts == part;
    char *result = cuda_only(text, wanted);
    free(wanted);
    return result;
}
