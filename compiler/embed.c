/* embed: writes files as C text, so that they travel inside the binary. A program of the build, not of the library.
 *
 *     embed NAME FILE... > NAME.c
 *
 * gives `const EmbeddedFile NAME[]` (embedded.h). Bytes are written as numbers because string literals have a length limit.
 */
#include <stdio.h>
#include <string.h>

static int write_bytes(const char *path, int number) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        return 1;
    }
    printf("static const char text_%d[] = { /* %s */", number, path);
    int byte;
    for (long count = 0; (byte = getc(file)) != EOF; count++)
        printf("%s%d,", count % 24 ? "" : "\n    ", byte < 128 ? byte : byte - 256);
    printf("0};\n");
    int failed = ferror(file);
    fclose(file);
    return failed;
}

int main(int count, char **arguments) {
    if (count < 2) {
        fputs("usage: embed NAME FILE...\n", stderr);
        return 2;
    }
    printf("#include \"embedded.h\"\n");
    for (int i = 2; i < count; i++)
        if (write_bytes(arguments[i], i)) return 1;
    printf("const EmbeddedFile %s[] = {\n", arguments[1]);
    for (int i = 2; i < count; i++) {
        const char *slash = strrchr(arguments[i], '/');
        printf("    {\"%s\", text_%d, sizeof text_%d - 1},\n", slash ? slash + 1 : arguments[i], i, i);
    }
    printf("    {NULL, NULL, 0}};\n");
    return fflush(stdout) ? 1 : 0;
}
