/* A C text, compiled and loaded. The including program includes cmocka first. */
#ifndef LOADED_TEXT_H
#define LOADED_TEXT_H

#include <dlfcn.h>
#include <unistd.h>

/* As a shared object in a separate folder, with warnings as errors; mode: additional flags of
 * dlopen. */
static inline void *load_text(const char *text, const char *flags, int mode) {
    char folder[] = "/tmp/moec-test-emit-XXXXXX", command[2048];
    assert_non_null(mkdtemp(folder));
    snprintf(command, sizeof command, "%s/program.c", folder);
    FILE *file = fopen(command, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    const char *compiler = getenv("CC") ? getenv("CC") : "cc";
    snprintf(command, sizeof command,
             "%s -std=c11 %s -Wall -Wextra -Wpedantic -Werror -shared -fPIC -Iruntime/abi "
             "-Iruntime/kernels -o %s/program.so %s/program.c -lm && rm %s/program.c",
             compiler, flags, folder, folder, folder);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command, "%s/program.so", folder);
    void *library = dlopen(command, RTLD_NOW | RTLD_LOCAL | mode);
    if (!library) fail_msg("%s", dlerror());
    unlink(command);
    rmdir(folder);
    return library;
}

#endif
