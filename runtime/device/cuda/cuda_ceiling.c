/* cuda_ceiling: what the device can do, measured: one large product by cuBLASLt, one large copy. */
#include "device/cuda/cuda.h"
#include "device/cuda/cuda_products.h"
#include "base/seconds.h"
#include "device/products.h"

#include <math.h>
#include <stdint.h>

enum { SIDE = 8192, BRIEF_SIDE = 64, RUNS = 5, TRIES = 3 };

/* GFLOP/s of the best of some tries of some products each; NaN without the library. */
static double time_products(CudaDevice *device, CudaProducts *products, const float *block,
                            double side) {
    const size_t matrix = (size_t)(side * side);
    double best = INFINITY;
    for (int try = 0; try <= TRIES; try++) {
        double began = seconds_now();
        for (int run = 0; run < RUNS; run++)
            if (cuda_products_run(products, 0, block, block + matrix,
                                  (float *)(uintptr_t)(block + 2 * matrix), NULL))
                return NAN;
        if (device->library->driver.stream_wait(device->stream)) return NAN;
        double seconds = (seconds_now() - began) / RUNS;
        if (try && seconds < best) /* the first one loads the kernel */
            best = seconds;
    }
    return 2.0 * side * side * side / best / 1e9;
}

double cuda_ceiling_products(Device *base, bool rounded) {
    CudaDevice *device = (CudaDevice *)(void *)base;
    const long side = base->brief ? BRIEF_SIDE : SIDE;
    MoecProduct product = square_product(side);
    product.rounded = rounded;
    product.a_type = product.b_type = product.c_type = rounded ? MOEC_BF16 : MOEC_F32;
    const MoecTable table = {.products = &product, .product_count = 1};
    CudaProducts *products = cuda_products_new(device, &table, true);
    if (!products) return NAN;
    size_t bytes = 3 * sizeof(float) * (size_t)(side * side);
    float *block = base->kind->allocate(base, bytes);
    double speed = block ? time_products(device, products, block, (double)side) : NAN;
    base->kind->release(base, block, bytes);
    cuda_products_free(products);
    return speed;
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
