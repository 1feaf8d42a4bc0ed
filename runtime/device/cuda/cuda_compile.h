/* cuda_compile: CUDA text made into an image for one architecture by NVRTC, and kept in the cache
 * under a hash of everything that went in. */
#ifndef CUDA_COMPILE_H
#define CUDA_COMPILE_H

#include "device/cuda/cuda_library.h"

typedef struct CudaText {
    const char *name; /* of the text, for messages: "program.cu" */
    const char *text;
    int major, minor; /* the device's compute capability */
    bool keep;        /* use the cache */
} CudaText;

typedef struct CudaImage {
    char *bytes; /* to be released with free */
    size_t length;
    bool cached; /* found, not made */
} CudaImage;

/* False after a message. May be called by several threads at a time. */
bool cuda_compile(const CudaLibrary *library, const CudaText *text, CudaImage *image);

#endif
