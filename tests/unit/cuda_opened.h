/* The driver and NVRTC for tests: the simulated device with separate memory, of the folder BUILD; with MOEC_CUDA, that library;
 * otherwise, if DEVICE is set, the real device. */
#ifndef CUDA_OPENED_H
#define CUDA_OPENED_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A library by the first of these names. */
static void *cuda_open_first(const char *const *names) {
    void *library = NULL;
    for (; *names && !library; names++) library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
    if (!library) fail_msg("%s", dlerror());
    return library;
}

/* Sets `*function`, a pointer to a function. */
static void cuda_find(const char *name, void *function) {
    static void *driver, *compiler;
    const char *build = getenv("BUILD"), *given = getenv("MOEC_CUDA");
    char path[1024];
    if (given && *given)
        snprintf(path, sizeof path, "%s", given);
    else
        snprintf(path, sizeof path, "%s/libmoec_sim.so", build ? build : "build");
    const char *const simulated[] = {path, NULL}, *const drivers[] = {"libcuda.so.1", NULL},
                      *const compilers[] = {"libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so", NULL};
    bool real = getenv("DEVICE") && !(given && *given);
    if (!driver) driver = cuda_open_first(real ? drivers : simulated);
    if (!compiler) compiler = cuda_open_first(real ? compilers : simulated);
    void *symbol = dlsym(strncmp(name, "nvrtc", 5) ? driver : compiler, name);
    if (!symbol) fail_msg("%s: %s", name, dlerror());
    memcpy(function, &symbol, sizeof symbol);
}

/* A context on the first device. */
static inline void cuda_begin(void) {
    int (*begin)(unsigned), (*retain)(void **, int), (*set)(void *);
    void *context;
    cuda_find("cuInit", &begin);
    cuda_find("cuDevicePrimaryCtxRetain", &retain);
    cuda_find("cuCtxSetCurrent", &set);
    if (begin(0) || retain(&context, 0) || set(context)) fail_msg("no device");
}

/* Blocks of a kernel get more than 48 KB of shared memory only on request. */
static inline void cuda_allow_shared(void *function, unsigned bytes) {
    enum { DYNAMIC_SHARED_BYTES = 8 };
    int (*set)(void *, int, int);
    cuda_find("cuFuncSetAttribute", &set);
    if (bytes && set(function, DYNAMIC_SHARED_BYTES, (int)bytes)) fail_msg("%u bytes of shared memory are refused", bytes);
}

#endif
