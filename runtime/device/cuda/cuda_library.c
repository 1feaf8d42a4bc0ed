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
static const char *const nccl_names[] = {"libnccl.so.2", "libnccl.so", NULL};
static const char no_device[] = "no device 'cuda'";
static bool driver_is_old; /* older than version 13 */

/* Locations of the toolkit outside the default search path. */
static const char *const folders[] = {"", "/usr/local/cuda/lib64/", "/opt/cuda/lib64/", NULL};

bool cuda_off(const char *variable) {
    const char *value = getenv(variable);
    return value && strcmp(value, "off") == 0;
}

static bool choices_are_fixed;

void cuda_fix_choices(void) {
    choices_are_fixed = true;
}

bool cuda_choices_are_fixed(void) {
    const char *value = getenv("MOEC_CHOICE");
    return choices_are_fixed || (value && strcmp(value, "first") == 0);
}

static const char *place_named(void) {
    const char *place = getenv("MOEC_CUDA");
    return place ? place : "";
}

/* If MOEC_CUDA is set, only its location is used. */
static void *open_cuda_library(const char *place, const char *const *names) {
    if (*place && !file_is_folder(place)) return dlopen(place, RTLD_NOW | RTLD_LOCAL);
    if (*place) {
        AUTO_FREE char *folder = memory_format("%s/", place);
        return lazy_library_open(folder, names);
    }
    void *handle = NULL;
    for (int i = 0; folders[i] && !handle; i++) handle = lazy_library_open(folders[i], names);
    return handle;
}

/* A library that must exist. */
typedef struct LibraryPart {
    const char *const *names;
    const char *what, *remedy;          /* of messages */
    const char *place, *place_variable; /* "": everywhere */
} LibraryPart;

/* NULL after a message. */
static void *open_library_part(const LibraryPart *part, const LibrarySymbol *symbols,
                               size_t count) {
    void *handle = open_cuda_library(part->place, part->names);
    const char *missing = handle ? lazy_library_take(handle, symbols, count) : NULL;
    const bool named = *part->place;
    if (missing)
        error_message(part->remedy, "%s is too old: function %s is missing", part->names[0],
                      missing);
    if (!handle)
        error_message(part->remedy, "%s: cannot open %s%s%s%s%s", part->what, part->names[0],
                      named ? " from " : "", named ? part->place_variable : "", named ? "=" : "",
                      part->place);
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
    const LibraryPart needed = {driver_names, no_device,
                                "install the NVIDIA driver, or use device cpu", place, "MOEC_CUDA"};
    void *handle = open_library_part(&needed, symbols, sizeof symbols / sizeof symbols[0]);
    if (handle) lazy_library_take(handle, others, sizeof others / sizeof others[0]);
    driver_is_old = handle && part->version(&version) == 0 && version < 13000;
    return handle != NULL;
}

static bool open_compiler(CudaLibrary *library) {
    CudaCompiler *part = &library->compiler;
    const LibrarySymbol symbols[] = {CUDA_COMPILER_CALLS(CUDA_SYMBOL)};
    const LibraryPart needed = {compiler_names + driver_is_old, no_device,
                                "install NVRTC of the CUDA toolkit, or set MOEC_CUDA to its folder",
                                library->place, "MOEC_CUDA"};
    return open_library_part(&needed, symbols, sizeof symbols / sizeof symbols[0]) != NULL;
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

const CudaNccl *cuda_nccl(void) {
    static CudaNccl nccl;
    static bool there;
    CudaNccl *part = &nccl;
    const LibrarySymbol symbols[] = {
        CUDA_NCCL_CALLS(CUDA_SYMBOL){&part->error_text, "ncclGetErrorString"}};
    const char *given = getenv("MOEC_NCCL");
    const bool named = given && *given;
    const LibraryPart needed = {
        nccl_names, "several processes on GPUs communicate by NCCL",
        "install NCCL (pip install nvidia-nccl-cu12, or libnccl2 of NVIDIA's repository), and set "
        "MOEC_NCCL to libnccl.so.2 or its folder if the loader does not find it",
        named ? given : place_named(), named ? "MOEC_NCCL" : "MOEC_CUDA"};
    if (!there)
        there = open_library_part(&needed, symbols, sizeof symbols / sizeof symbols[0]) != NULL;
    return there ? &nccl : NULL;
}
