#include "model/model.h"

#include "base/cache.h"
#include "base/message.h"
#include "model/internal.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/clock.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Names of the compiled program and of the kernels in the cache: a hash of source, headers,
 * compiler and processor. */
static char *program_name(const char *folder, const char *text) {
    XXH3_state_t *state = cache_begin();
    cache_add(state, text);
    cache_add_headers(state);
    toolchain_hash(state, false);
    return cache_name(state, folder, "", ".so");
}

static char *kernels_name(const char *folder) {
    XXH3_state_t *state = cache_begin();
    cache_add_headers(state);
    toolchain_hash(state, true);
    return cache_name(state, folder, "kernels-", ".o");
}

/* Writes the embedded headers of hosted programs into a folder; false after a message. */
static bool module_write_headers(const char *folder) {
    bool good = true;
    for (const EmbeddedFile *file = embedded_files; file->name && good; file++)
        good = !embedded_is_header(file) ||
               folder_write(folder, embedded_base(file), file->text, file->length);
    return good;
}

/* Loads a copy in memory: some file systems do not permit execution. */
static void *open_copy(const char *path) {
    Mapping mapping;
    int descriptor = memfd_create("program", MFD_CLOEXEC);
    void *handle = NULL;
    if (descriptor >= 0 && file_map(path, NULL, &mapping)) {
        AUTO_FREE char *copy = memory_format("/proc/self/fd/%d", descriptor);
        if (write(descriptor, mapping.bytes, mapping.length) == (ssize_t)mapping.length)
            handle = dlopen(copy, RTLD_NOW | RTLD_LOCAL);
        file_unmap(&mapping);
    }
    if (descriptor >= 0) close(descriptor);
    return handle;
}

static bool load(Module *module, const char *path, bool say) {
    module->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    AUTO_FREE char *reason = memory_format("%s", module->handle ? "" : dlerror());
    if (!module->handle) module->handle = open_copy(path);
    module->table = module->handle ? dlsym(module->handle, "moec_table") : NULL;
    bool good = module->table && module->table->abi == MOEC_ABI;
    if (!good && say)
        error_message("remove the file and try again", "cannot load %s: %s", path,
                      module->handle ? "it is not a program of this version of moec" : reason);
    if (good) return true;
    if (module->handle) dlclose(module->handle);
    module->handle = NULL;
    return false;
}

/* Creates a temporary folder below `parent` with the headers; false after a message. cached: the
 * parent is the cache folder. */
static bool workplace(Workplace *place, const char *parent, bool cached) {
    if (cache_workplace(place, parent, cached)) return module_write_headers(place->folder);
    return error_message("set TMPDIR or XDG_CACHE_HOME to a folder that you can write to",
                         "cannot create a folder below %s: %s", parent, strerror(errno));
}

/* shorter sources are compiled as one part, since each part parses the headers */
enum { PART_BYTES = 40000 };

/* Paths of a compilation. */
typedef struct Making {
    const char *parent;        /* parent of the temporary folder */
    const char *kept;          /* destination of the program, or NULL */
    const char *ready, *fresh; /* existing kernels, or NULL; destination of new kernels, or NULL */
    bool parts;                /* compile the source as two parts */
} Making;

/* Compiles the program and, unless they exist, the kernels in parallel, and links them. */
static bool build(const char *folder, const char *source, const char *output,
                  const Making *making) {
    const char *ready = making->ready;
    AUTO_FREE char *header = path_join(folder, "kernels.h"),
                   *fresh = path_join(folder, "kernels.o");
    AUTO_FREE char *object = path_join(folder, "program.o"),
                   *other = path_join(folder, "program_1.o");
    const char *whole = making->parts ? "MOEC_PART=0" : "MOEC_KERNELS_APART";
    Translation work[3] = {{source, object, whole, false}};
    int count = 1;
    if (making->parts) work[count++] = (Translation){source, other, "MOEC_PART=1", false};
    if (!ready) work[count++] = (Translation){header, fresh, "MOEC_KERNELS_HERE", true};
    bool good = toolchain_build(folder, work, count, ready, output);
    if (good && making->fresh && !ready) cache_keep(fresh, making->fresh);
    return good;
}

/* A program that cannot be cached is loaded from its temporary folder. */
static bool make(Module *module, const char *text, const Making *making) {
    Workplace place = {.lock = -1};
    bool good = workplace(&place, making->parent, making->kept != NULL);
    AUTO_FREE char *source = path_join(good ? place.folder : "", "program.c"),
                   *output = path_join(good ? place.folder : "", "program.so");
    good = good && file_write(source, text, strlen(text)) &&
           build(place.folder, source, output, making);
    bool kept = good && making->kept && cache_keep(output, making->kept);
    if (kept) {
        AUTO_FREE char *beside =
            memory_format("%.*s.c", (int)strlen(making->kept) - 3, making->kept);
        if (chmod(source, 0644) != 0 || rename(source, beside) != 0)
            note_message("%s is not cached: %s", beside, strerror(errno));
    }
    good = good && load(module, kept ? making->kept : output, true);
    cache_leave(&place);
    return good;
}

static const char *temporary_folder(void) {
    const char *folder = getenv("TMPDIR");
    return folder && *folder ? folder : "/tmp";
}

/* Compiles in the cache folder; if that fails, for example on a full disk, in a temporary folder
 * without the cache. Only the last attempt reports errors. */
static bool make_anywhere(Module *module, const char *text, const Making *making) {
    if (!making->kept) return make(module, text, making);
    AUTO_FREE char *messages = NULL;
    size_t length;
    FILE *before = message_file(), *held = open_memstream(&messages, &length);
    if (!held) return make(module, text, making);
    message_to(held);
    bool good = make(module, text, making);
    fclose(held);
    message_to(before == stderr ? NULL : before);
    if (good) {
        fputs(messages, message_file());
    } else {
        const Making other = {
            .parent = temporary_folder(), .ready = making->ready, .parts = making->parts};
        good = make(module, text, &other);
        if (good)
            note_message("the cache in %s is not usable; the program was compiled in %s",
                         making->parent, other.parent);
    }
    return good;
}

/* Path of matching precompiled kernels relative to a file; NULL if there are none. The caller frees
 * it. */
static char *kernels_beside(const char *file) {
    static const char *const places[] = {"kernels", "../lib/moec"};
    const char *slash = strrchr(file, '/');
    for (size_t i = 0; slash && i < sizeof places / sizeof places[0]; i++) {
        AUTO_FREE char *folder = memory_format("%.*s/%s", (int)(slash - file), file, places[i]);
        char *name = kernels_name(folder);
        bool found = cache_sound(name, false);
        if (found) return name;
        free(name);
    }
    return NULL;
}

/* Precompiled kernels of this machine from `make` or `make install`: relative to the binary, or to
 * the library that contains this code. */
static char *kernels_beside_binary(void) {
    char binary[4096] = "";
    if (readlink("/proc/self/exe", binary, sizeof binary - 1) < 0) binary[0] = 0;
    char *name = kernels_beside(binary);
    Dl_info library;
    if (!name && dladdr((const void *)embedded_files, &library) && library.dli_fname)
        name = kernels_beside(library.dli_fname);
    return name;
}

bool module_prepare(const char *into) {
    if (!folder_make(into)) return false;
    AUTO_FREE char *kept = kernels_name(into);
    Workplace place = {.lock = -1};
    bool good = cache_sound(kept, false);
    if (!good && workplace(&place, into, true)) {
        AUTO_FREE char *header = path_join(place.folder, "kernels.h"),
                       *fresh = path_join(place.folder, "kernels.o");
        const Translation work = {header, fresh, "MOEC_KERNELS_HERE", true};
        good = toolchain_build(place.folder, &work, 1, NULL, NULL) && cache_keep(fresh, kept);
    }
    cache_leave(&place);
    return good;
}

static bool load_cached(Module *module, const char *kept) {
    bool cached = cache_sound(kept, true) && load(module, kept, false);
    if (cached) detail_message("loaded %s from the cache", kept);
    return cached;
}

Module *module_load(const char *text, bool keep) {
    Module *module = memory_new(sizeof *module);
    double start = seconds_now();
    AUTO_FREE char *folder = keep ? cache_folder() : NULL, *kept = NULL, *kernels = NULL;
    int lock = -1;
    if (folder) {
        kept = program_name(folder, text);
        kernels = kernels_name(folder);
        module->cached = load_cached(module, kept);
        if (!module->cached) lock = cache_making(kept);
        if (!module->cached) module->cached = load_cached(module, kept);
    }
    if (!module->cached) {
        AUTO_FREE char *beside = kernels_beside_binary();
        const Making making = {
            .parent = folder ? folder : temporary_folder(),
            .kept = kept,
            .ready = beside                                  ? beside
                     : kernels && cache_sound(kernels, true) ? kernels
                                                             : NULL,
            .fresh = kernels,
            .parts = strlen(text) >= PART_BYTES,
        };
        make_anywhere(module, text, &making);
    }
    if (kept) cache_made(lock, kept);
    module->compile_seconds = seconds_now() - start;
    if (!module->cached) detail_message("compiled the program in %.2f s", module->compile_seconds);
    if (module->handle) return module;
    free(module);
    return NULL;
}

void module_free(Module *module) {
    if (!module) return;
    if (module->handle) dlclose(module->handle);
    free(module);
}

/* ---- reports ---- */

bool reports_good(MoecCompiler *compiler) {
    if (!moec_failed(compiler)) return true;
    message_reports(moec_reports(compiler));
    return false;
}
