#include "device/cuda/cuda_library.h"

#include "base/files.h"
#include "base/lazy_library.h"
#include "base/message.h"
#include "base/memory.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static const char *const driver_names[] = {"libcuda.so.1", "libcuda.so", NULL};
/* A driver runs code of its own CUDA version and of older ones. With a driver older than 13, the
 * first name is tried last. */
static const char *const compiler_names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2",
                                             "libnvrtc.so",    "libnvrtc.so.13", NULL};
static const char *const blas_names[] = {"libcublasLt.so.13", "libcublasLt.so.12",
                                         "libcublasLt.so.11", "libcublasLt.so",
                                         "libcublasLt.so.13", NULL};
static bool driver_is_old; /* older than version 13 */

/* Locations of the toolkit outside the default search path. */
static const char *const folders[] = {"", "/usr/local/cuda/lib64/", "/opt/cuda/lib64/", NULL};

bool cuda_off(const char *variable) {
    const char *value = getenv(variable);
    return value && strcmp(value, "off") == 0;
}

bool cuda_choices_are_fixed(void) {
    const char *value = getenv("MOEC_CHOICE");
    return value && strcmp(value, "first") == 0;
}

static const char *place_named(void) {
    const char *place = getenv("MOEC_CUDA");
    return place ? place : "";
}

/* If MOEC_CUDA is set, only its location is used. */
static void *open_cuda_library(const char *place, const char *const *names) {
    if (*place && !file_is_folder(place)) return dlopen(place, RTLD_NOW | RTLD_LOCAL);
    if (*place) {
        char *folder = memory_format("%s/", place);
        void *handle = lazy_library_open(folder, names);
        free(folder);
        return handle;
    }
    void *handle = NULL;
    for (int i = 0; folders[i] && !handle; i++) handle = lazy_library_open(folders[i], names);
    return handle;
}

/* NULL after a message. */
static void *open_library_part(const char *place, const char *const *names, const char *remedy,
                               const LibrarySymbol *symbols, size_t count) {
    void *handle = open_cuda_library(place, names);
    const char *missing = handle ? lazy_library_take(handle, symbols, count) : NULL;
    if (missing) error_message(remedy, "%s is too old: function %s is missing", names[0], missing);
    if (!handle)
        error_message(remedy, "no device 'cuda': cannot open %s%s%s", names[0],
                      *place ? " from MOEC_CUDA=" : "", place);
    return missing ? NULL : handle;
}

static bool open_driver(CudaLibrary *library) {
    CudaDriver *part = &library->driver;
    const char *place = library->place;
    int version = 0;
#define CUDA_SYMBOL(member, symbol, arguments) {&part->member, symbol},
    const LibrarySymbol symbols[] = {CUDA_DRIVER_CALLS(CUDA_SYMBOL)};
    const LibrarySymbol others[] = {CUDA_NEW_DRIVER_CALLS(CUDA_SYMBOL)};
    if (*place && file_is_folder(place)) {
        void *there = open_cuda_library(place, driver_names);
        if (there)
            dlclose(there);
        else
            place = "";
    }
    void *handle =
        open_library_part(place, driver_names, "install the NVIDIA driver, or use device cpu",
                          symbols, sizeof symbols / sizeof symbols[0]);
    if (handle) lazy_library_take(handle, others, sizeof others / sizeof others[0]);
    driver_is_old = handle && part->version(&version) == 0 && version < 13000;
    return handle != NULL;
}

static bool open_compiler(CudaLibrary *library) {
    CudaCompiler *part = &library->compiler;
    const LibrarySymbol symbols[] = {CUDA_COMPILER_CALLS(CUDA_SYMBOL)};
    return open_library_part(library->place, compiler_names + driver_is_old,
                             "install NVRTC of the CUDA toolkit, or set MOEC_CUDA to its folder",
                             symbols, sizeof symbols / sizeof symbols[0]) != NULL;
}

const CudaLibrary *cuda_library(void) {
    static CudaLibrary library;
    static bool opened;
    if (opened) return &library;
    library.place = place_named();
    if (!open_driver(&library) || !open_compiler(&library)) return NULL;
    opened = true;
    return &library;
}

const CudaBlas *cuda_blas(void) {
    static CudaBlas blas;
    static bool tried, there;
    if (!tried) {
        CudaBlas *part = &blas;
        const LibrarySymbol symbols[] = {CUDA_BLAS_CALLS(CUDA_SYMBOL)};
        void *handle = open_cuda_library(place_named(), blas_names + driver_is_old);
        there = handle && !lazy_library_take(handle, symbols, sizeof symbols / sizeof symbols[0]);
        tried = true;
    }
    return there && !cuda_off("MOEC_BLAS") ? &blas : NULL;
}
