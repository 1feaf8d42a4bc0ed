#include "mesh/internal.h"

#include "base/cache.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/message.h"
#include "model/model.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The path of an executable file in a folder, or NULL. */
static char *program_in(const char *folder, int length, const char *name) {
    char *path = memory_format("%.*s/%s", length, folder, name);
    if (access(path, X_OK) == 0) return path;
    free(path);
    return NULL;
}

/* The mpicc of the MPI library whose mpirun started this process: MOEC_MPICC, or the first one on
 * the PATH. Debian has several, with the name of the implementation at the end. A new string, or
 * NULL. */
static char *compiler_path(const ProcessGroup *launch) {
    const char *given = getenv("MOEC_MPICC"), *path = getenv("PATH");
    if (given && strchr(given, '/'))
        return access(given, X_OK) == 0 ? memory_format("%s", given) : NULL;
    const char *first = launch->launcher == LAUNCHER_OPEN_MPI ? "mpicc.openmpi" : "mpicc.mpich";
    char *found = NULL;
    for (const char *at = path ? path : ""; *at && !found;) {
        const int length = (int)strcspn(at, ":");
        if (given && *given) {
            found = program_in(at, length, given);
        } else {
            found = program_in(at, length, first);
            if (!found) found = program_in(at, length, "mpicc");
        }
        at += length + (at[length] == ':');
    }
    return found;
}

/* mpi_shim.c and mesh_library.h */
extern const EmbeddedFile mpi_files[];

/* Name of the compiled shim in the cache: it depends on the source and on the file mpicc. */
static char *shim_path(const char *compiler) {
    struct stat status;
    XXH3_state_t *state = cache_begin();
    for (const EmbeddedFile *file = mpi_files; file->name; file++) cache_add(state, file->text);
    cache_add(state, compiler);
    if (stat(compiler, &status) == 0) {
        XXH3_128bits_update(state, &status.st_size, sizeof status.st_size);
        XXH3_128bits_update(state, &status.st_mtim, sizeof status.st_mtim);
    }
    return cache_path(state, ".mpi.so");
}

/* Runs mpicc; its output goes to the file `log`. */
static bool run_compiler(const char *compiler, const char *source, const char *output,
                         const char *log) {
    const char *words[] = {compiler, "-O2", "-fPIC", "-shared", "-w", "-o", output, source, NULL};
    pid_t child = compiler_start((char **)(uintptr_t)words, log);
    if (child < 0)
        return error_message("set MOEC_MPICC to the path of mpicc", "cannot start %s: %s", compiler,
                             strerror(errno));
    if (compiler_wait(child) == 0) return true;
    error_message("set MOEC_MPICC to the mpicc of the MPI library that started this process",
                  "%s cannot compile the interface to MPI:", compiler);
    compiler_print_log(log);
    return false;
}

static void *open_library(const char *path, bool report) {
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle && report)
        error_message("install the MPI library of MOEC_MPICC on this host", "cannot load %s: %s",
                      path, dlerror());
    return handle;
}

/* Compiles the shim, keeps it in the cache if there is one, and loads it. */
static void *build(const char *compiler, const char *kept) {
    const char *temporary = getenv("TMPDIR");
    char *folder = kept ? memory_format("%.*s", (int)(strrchr(kept, '/') - kept), kept)
                        : memory_format("%s", temporary && *temporary ? temporary : "/tmp");
    Workplace place = {.lock = -1};
    void *handle = NULL;
    if (!cache_workplace(&place, folder, kept != NULL)) {
        error_message("set TMPDIR or XDG_CACHE_HOME to a folder that you can write to",
                      "cannot create a folder below %s: %s", folder, strerror(errno));
        free(folder);
        return NULL;
    }
    AUTO_FREE char *source = path_join(place.folder, mpi_files[0].name),
                   *output = path_join(place.folder, "mpi_shim.so"),
                   *log = path_join(place.folder, "log");
    bool good = true;
    for (const EmbeddedFile *file = mpi_files; file->name && good; file++)
        good = folder_write(place.folder, file->name, file->text, file->length);
    if (good && run_compiler(compiler, source, output, log))
        handle = open_library(kept && cache_keep(output, kept) ? kept : output, true);
    cache_leave(&place);
    free(folder);
    return handle;
}

static void *open_kept(const char *kept) {
    return kept && cache_sound(kept, true) ? open_library(kept, false) : NULL;
}

const MeshLibrary *mpi_open(const ProcessGroup *launch) {
    AUTO_FREE char *compiler = compiler_path(launch);
    if (!compiler) {
        const char *given = getenv("MOEC_MPICC");
        error_message("install it (Debian: apt-get install libopenmpi-dev, or libmpich-dev for "
                      "MPICH), or set MOEC_MPICC to its path",
                      "%s was not found; the %d processes of %s communicate by MPI",
                      given && *given ? given : "mpicc", launch->size, launch->command);
        return NULL;
    }
    AUTO_FREE char *kept = shim_path(compiler);
    void *handle = open_kept(kept);
    int lock = !handle && kept ? cache_making(kept) : -1;
    if (!handle) handle = open_kept(kept);
    if (!handle) handle = build(compiler, kept);
    if (kept) cache_made(lock, kept);
    const MeshLibrary *shim = handle ? dlsym(handle, "moec_mpi") : NULL;
    if (handle && (!shim || shim->abi != MESH_LIBRARY_ABI)) {
        error_message("remove it", "%s is not the interface to MPI of this version",
                      kept ? kept : "the compiled file");
        shim = NULL;
    }
    return shim;
}
