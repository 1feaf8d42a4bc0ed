/* embed: writes files as C text, which becomes part of the binary. A program of the build, not of
 * the library.
 *
 *     embed NAME FOLDER FILE... > NAME.c
 *
 * defines `const EmbeddedFile NAMEs[]` (abi/embedded_file.h); FILE is below FOLDER and is named
 * without it. Bytes are written as numbers because string literals have a length limit.
 */
#include <stdio.h>

static int write_bytes(const char *folder, const char *path, int number) {
    char full[4096];
    snprintf(full, sizeof full, "%s/%s", folder, path);
    FILE *file = fopen(full, "rb");
    if (!file) {
        perror(full);
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
    if (count < 3) {
        fputs("usage: embed NAME FOLDER FILE...\n", stderr);
        return 2;
    }
    const char *name = arguments[1], *folder = arguments[2];
    printf("#include \"abi/embedded_file.h\"\n");
    for (int i = 3; i < count; i++)
        if (write_bytes(folder, arguments[i], i)) return 1;
    printf("const EmbeddedFile %ss[] = {\n", name);
    for (int i = 3; i < count; i++)
        printf("    {\"%s\", text_%d, sizeof text_%d - 1},\n", arguments[i], i, i);
    printf("    {NULL, NULL, 0}};\n");
    return fflush(stdout) ? 1 : 0;
}
