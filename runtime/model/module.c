#include "model/module.h"

#include "base/cache.h"
#include "base/complain.h"
#include "model/described.h"
#include "base/embedded.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/seconds.h"
#include "model/toolchain.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The name under which something is kept: a hash of `text`, the kernels, the compiler and this
 * processor. */
static char *kept_name(const char *folder, const char *prefix, const char *text,
                       const char *ending) {
    XXH3_state_t *state = cache_begin();
    cache_add(state, text);
    cache_add_headers(state);
    toolchain_hash(state);
    return cache_name(state, folder, prefix, ending);
}

bool module_write_headers(const char *folder) {
    bool good = true;
    for (const EmbeddedFile *file = embedded_files; file->name && good; file++) {
        char *path = path_join(folder, embedded_base(file));
        good = !embedded_is_header(file) || file_write(path, file->text, file->length);
        free(path);
    }
    return good;
}

static bool load(Module *module, const char *path, bool say) {
    module->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    module->table = module->handle ? dlsym(module->handle, "moec_table") : NULL;
    if (module->table && module->table->abi == MOEC_ABI) return true;
    if (say)
        complain("remove the file and try again", "cannot load %s: %s", path,
                 module->handle ? "it is not a program of this version" : dlerror());
    if (module->handle) dlclose(module->handle);
    module->handle = NULL;
    return false;
}

static void remove_headers(const char *folder) {
    for (const EmbeddedFile *file = embedded_files; file->name; file++) {
        char *path = path_join(folder, embedded_base(file));
        unlink(path);
        free(path);
    }
}

/* A new folder below `parent` with the headers in it: an owned name, or NULL after a message. */
static char *workplace(const char *parent) {
    char *folder = memory_format("%s/make.XXXXXX", parent);
    if (!mkdtemp(folder))
        complain("set TMPDIR or XDG_CACHE_HOME to a folder that may be written",
                 "cannot make a folder below %s: %s", parent, strerror(errno));
    else if (module_write_headers(folder))
        return folder;
    free(folder);
    return NULL;
}

static void leave_workplace(char *folder) {
    if (!folder) return;
    remove_headers(folder);
    rmdir(folder);
    free(folder);
}

/* The program and, unless they are ready, the kernels that it calls, compiled side by side and
 * linked; `kept`: where new kernels are kept, or NULL. */
static bool build(const char *folder, const char *source, const char *output, const char *ready,
                  const char *kept) {
    char *header = path_join(folder, "kernels.h"), *fresh = path_join(folder, "kernels.o");
    char *object = path_join(folder, "program.o");
    Translation work[] = {{source, object, "MOEC_KERNELS_APART"},
                          {header, fresh, "MOEC_KERNELS_HERE"}};
    bool good = toolchain_build(folder, work, ready ? 1 : 2, ready, output);
    if (good && kept && !ready) good = rename(fresh, kept) == 0;
    unlink(object);
    unlink(fresh);
    free(header);
    free(fresh);
    free(object);
    return good;
}

/* Compiles in a folder of its own below `parent`, then moves the result to `kept` in one step (when
 * kept is not NULL). */
static bool make(Module *module, const char *text, const char *parent, const char *kept,
                 const char *ready, const char *kept_kernels) {
    char *folder = workplace(parent);
    if (!folder) return false;
    char *source = path_join(folder, "program.c"), *output = path_join(folder, "program.so");
    char *kept_source =
        memory_format("%.*s.c", (int)(kept ? strlen(kept) - 3 : 0), kept ? kept : "");
    bool good = file_write(source, text, strlen(text)) &&
                build(folder, source, output, ready, kept_kernels);
    if (good && kept) good = rename(source, kept_source) == 0 && rename(output, kept) == 0;
    good = good && load(module, kept ? kept : output, true);
    unlink(source);
    unlink(output);
    leave_workplace(folder);
    free(source);
    free(output);
    free(kept_source);
    return good;
}

/* The kernels compiled for this machine, where `make` and `make install` leave them: an owned name,
 * or NULL when there are none that fit. */
static char *kernels_beside_binary(void) {
    static const char *const places[] = {"kernels", "../lib/moec"};
    char binary[4096];
    ssize_t length = readlink("/proc/self/exe", binary, sizeof binary - 1);
    char *slash = length > 0 ? memrchr(binary, '/', (size_t)length) : NULL;
    for (size_t i = 0; slash && i < sizeof places / sizeof places[0]; i++) {
        char *folder = memory_format("%.*s/%s", (int)(slash - binary), binary, places[i]);
        char *name = kept_name(folder, "kernels-", "", ".o");
        bool found = file_exists(name);
        free(folder);
        if (found) return name;
        free(name);
    }
    return NULL;
}

bool module_prepare(const char *into) {
    if (!folder_make(into)) return false;
    char *kept = kept_name(into, "kernels-", "", ".o");
    char *folder = file_exists(kept) ? NULL : workplace(into);
    bool good = folder || file_exists(kept);
    if (folder) {
        char *header = path_join(folder, "kernels.h"), *fresh = path_join(folder, "kernels.o");
        const Translation work = {header, fresh, "MOEC_KERNELS_HERE"};
        good = toolchain_build(folder, &work, 1, NULL, NULL) && rename(fresh, kept) == 0;
        unlink(fresh);
        free(header);
        free(fresh);
    }
    leave_workplace(folder);
    free(kept);
    return good;
}

Module *module_load(const char *text, bool keep) {
    Module *module = memory_new(sizeof *module);
    module->text_bytes = strlen(text);
    double start = seconds_now();
    char *folder = keep ? cache_folder() : NULL, *kept = NULL, *kernels = NULL;
    if (folder) {
        kept = kept_name(folder, "", text, ".so");
        kernels = kept_name(folder, "kernels-", "", ".o");
        module->cached = file_exists(kept) && load(module, kept, false);
    }
    const char *temporary = getenv("TMPDIR");
    if (!module->cached) {
        char *beside = kernels_beside_binary();
        make(module, text,
             folder                    ? folder
             : temporary && *temporary ? temporary
                                       : "/tmp",
             kept, beside ? beside : kernels && file_exists(kernels) ? kernels : NULL, kernels);
        free(beside);
    }
    module->compile_seconds = seconds_now() - start;
    free(folder);
    free(kept);
    free(kernels);
    if (module->handle) return module;
    free(module);
    return NULL;
}

void module_free(Module *module) {
    if (!module) return;
    if (module->handle) dlclose(module->handle);
    module_forget(module);
    free(module);
}
