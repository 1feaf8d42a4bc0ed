/* The front end on valid text, damaged text, and findings of fuzzing: it never crashes, and parsed text survives the formatter
 * (see tests/fuzz/front.c). Runs in the root of the repository. */
#include "../fuzz/front.c"

#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static char *read_all(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t capacity = 1 << 20;
    char *text = malloc(capacity);
    *length = fread(text, 1, capacity, file);
    fclose(file);
    return text;
}

static void try_text(const char *text, size_t length) {
    LLVMFuzzerTestOneInput((const unsigned char *)text, length);
}

static uint64_t draw(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* The text with a piece removed, repeated, moved or overwritten. */
static void try_broken(const char *text, size_t length, uint64_t *state) {
    char *broken = malloc(2 * length + 1);
    size_t from = draw(state) % (length + 1), size = draw(state) % 24;
    if (size > length - from) size = length - from;
    size_t to = draw(state) % (length + 1);
    switch (draw(state) % 3) {
    case 0: /* removed */
        memcpy(broken, text, from);
        memcpy(broken + from, text + from + size, length - from - size);
        try_text(broken, length - size);
        break;
    case 1: /* repeated elsewhere */
        memcpy(broken, text, to);
        memcpy(broken + to, text + from, size);
        memcpy(broken + to + size, text + to, length - to);
        try_text(broken, length + size);
        break;
    default: /* one byte changed */
        memcpy(broken, text, length);
        if (to < length) broken[to] = "(){}[]=,.;:~@#\"-*x1 \n\t\xC3\xFF"[draw(state) % 25];
        try_text(broken, length);
        break;
    }
    free(broken);
}

static void test_files(void **unused) {
    (void)unused;
    static const char *const patterns[] = {"stdlib/*.moe", "models/*.moe", "tests/cases/*/*.case"};
    uint64_t state = 7;
    for (int i = 0; i < 3; i++) {
        glob_t found;
        assert_int_equal(glob(patterns[i], 0, NULL, &found), 0);
        for (size_t k = 0; k < found.gl_pathc; k++) {
            size_t length;
            char *text = read_all(found.gl_pathv[k], &length), *source = text;
            text[length - (length > 0)] = '\0';
            if (i == 2 && (source = strstr(text, "\n---\n"))) {
                source += 5;
                char *end = strstr(source, "\n---\n");
                length = end ? (size_t)(end - source) + 1 : strlen(source);
            }
            if (source) try_text(source, length);
            for (int attempt = 0; source && attempt < 20; attempt++) try_broken(source, length, &state);
            free(text);
        }
        globfree(&found);
    }
}

/* front.corpus: for each text its length, a line end, the text, a line end. */
static void test_corpus(void **unused) {
    (void)unused;
    size_t length;
    char *all = read_all("tests/fuzz/front.corpus", &length);
    int count = 0;
    for (char *at = all; at < all + length; count++) {
        size_t size = strtoul(at, &at, 10);
        try_text(at + 1, size);
        at += size + 2;
    }
    assert_true(count > 100);
    free(all);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_files), cmocka_unit_test(test_corpus)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
