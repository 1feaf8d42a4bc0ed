/* cuda_compile: compiles CUDA source to an image for one architecture by NVRTC, and caches it by a
 * hash of all inputs. */
#ifndef CUDA_COMPILE_H
#define CUDA_COMPILE_H

#include "device/cuda/cuda_library.h"

typedef struct CudaText {
    const char *name; /* name of the source in messages: "program.cu" */
    const char *text;
    int major, minor; /* the device's compute capability */
    bool keep;        /* use the cache */
} CudaText;

typedef struct CudaImage {
    char *bytes; /* the caller frees it */
    size_t length;
    bool cached; /* from the cache */
} CudaImage;

/* False after a message. Several threads can call it concurrently. */
bool cuda_compile(const CudaLibrary *library, const CudaText *text, CudaImage *image);

#endif
