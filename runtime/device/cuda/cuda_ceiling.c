/* cuda_ceiling: what the device can do, measured: one large product by cuBLASLt, one large copy. */
#include "device/cuda/cuda.h"
#include "device/cuda/cuda_products.h"
#include "base/memory.h"
#include "base/seconds.h"
#include "device/products.h"

#include <math.h>
#include <stdlib.h>

enum { SIDE = 8192, BRIEF_SIDE = 64, RUNS = 5 };

typedef struct Square {
    CudaProducts *products;
    long side;
    float *block; /* three matrices */
} Square;

static size_t square_bytes(const Square *square) {
    return 3 * sizeof(float) * (size_t)(square->side * square->side);
}

void cuda_products_close(Device *base, void *products) {
    Square *square = products;
    base->kind->release(base, square->block, square_bytes(square));
    cuda_products_free(square->products);
    free(square);
}

/* The first pass loads the kernel. NULL without the library or memory. */
void *cuda_products_open(Device *base, bool rounded) {
    Square *square = memory_new(sizeof *square);
    square->side = base->brief ? BRIEF_SIDE : SIDE;
    MoecProduct product = square_product(square->side);
    product.rounded = rounded;
    product.a_type = product.b_type = product.c_type = rounded ? MOEC_BF16 : MOEC_F32;
    const MoecTable table = {.products = &product, .product_count = 1};
    square->products = cuda_products_new((CudaDevice *)(void *)base, &table, true);
    square->block = square->products ? base->kind->allocate(base, square_bytes(square)) : NULL;
    if (square->block && !isnan(cuda_products_pass(base, square))) return square;
    cuda_products_close(base, square);
    return NULL;
}

double cuda_products_pass(Device *base, void *products) {
    CudaDevice *device = (CudaDevice *)(void *)base;
    const Square *square = products;
    const size_t matrix = square_bytes(square) / sizeof(float) / 3;
    const double side = (double)square->side;
    if (device->library->driver.stream_wait(device->stream)) return NAN;
    const double began = seconds_now();
    for (int run = 0; run < RUNS; run++)
        if (cuda_products_run(square->products, 0, square->block, square->block + matrix,
                              square->block + 2 * matrix, NULL))
            return NAN;
    if (device->library->driver.stream_wait(device->stream)) return NAN;
    return 2e-9 * side * side * side * RUNS / (seconds_now() - began);
}

/* One half is copied onto the other: which reads and writes. */
double cuda_read_pass(Device *base, void *block, size_t bytes) {
    CudaDevice *device = (CudaDevice *)(void *)base;
    const CudaDriver *driver = &device->library->driver;
    unsigned char *half = (unsigned char *)block + bytes / 2;
    if (driver->stream_wait(device->stream)) return NAN;
    double began = seconds_now();
    for (int run = 0; run < RUNS; run++)
        driver->copy(cuda_pointer(half), cuda_pointer(block), bytes / 2, device->stream);
    if (driver->stream_wait(device->stream)) return NAN;
    return (double)bytes * RUNS / (seconds_now() - began) / 1e9;
}
