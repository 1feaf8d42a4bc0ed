/* cuda_ceiling: measured peak of the device: a large product by cuBLASLt, a large copy. */
#include "device/cuda/cuda.h"
#include "base/memory.h"
#include "base/clock.h"
#include "device/device.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

enum { SIDE = 8192, BRIEF_SIDE = 64, RUNS = 5 };

typedef struct Square {
    CudaProducts *products; /* which reads `product` at every run */
    MoecProduct product;
    long side;
    float *block; /* three matrices */
} Square;

static size_t square_bytes(const Square *square) {
    return 3 * sizeof(float) * (size_t)(square->side * square->side);
}

void cuda_products_close(Device *base, void *products) {
    Square *square = products;
    cuda_enter((CudaDevice *)(void *)base);
    base->kind->release(base, square->block, square_bytes(square));
    cuda_products_free(square->products);
    free(square);
}

enum { FILLED = 1 << 20 };

/* Fills both factors with different values. Products of zeros use less power and would run faster
 * than real ones. */
static bool fill_factors(Device *base, const Square *square, bool rounded) {
    const size_t matrix = square_bytes(square) / 3;
    uint32_t *numbers = memory_new(FILLED), state = 1;
    for (size_t i = 0; i < FILLED / sizeof *numbers; i++) {
        state = state * 1664525u + 1013904223u;
        /* random sign and fraction in 0.5 .. 1, valid as an f32 and as two bf16 */
        numbers[i] = (state & 0x807fffffu) | 0x3f000000u;
        if (rounded) numbers[i] = (numbers[i] & 0xffff0000u) | (state >> 9 & 0x807fu) | 0x3f00u;
    }
    bool good = true;
    for (size_t at = 0; at < 2 * matrix && good; at += FILLED) {
        const size_t left = 2 * matrix - at;
        good = base->kind->put(base, (char *)square->block + at, numbers,
                               left < FILLED ? left : FILLED);
    }
    free(numbers);
    return good;
}

/* The first pass loads the kernel. NULL without cuBLASLt or memory. */
void *cuda_products_open(Device *base, bool rounded) {
    Square *square = memory_new(sizeof *square);
    cuda_enter((CudaDevice *)(void *)base);
    square->side = base->brief ? BRIEF_SIDE : SIDE;
    MoecProduct *product = &square->product;
    *product = plain_product(square->side, square->side, square->side);
    product->rounded = rounded;
    product->a_type = product->b_type = product->c_type = rounded ? MOEC_BF16 : MOEC_F32;
    const MoecTable table = {.products = product, .product_count = 1};
    square->products = cuda_products_new((CudaDevice *)(void *)base, &table, true);
    square->block = square->products ? base->kind->allocate(base, square_bytes(square)) : NULL;
    if (square->block && fill_factors(base, square, rounded) &&
        !isnan(cuda_products_pass(base, square)))
        return square;
    cuda_products_close(base, square);
    return NULL;
}

double cuda_products_pass(Device *base, void *products) {
    CudaDevice *device = (CudaDevice *)(void *)base;
    const Square *square = products;
    const size_t matrix = square_bytes(square) / sizeof(float) / 3;
    const double side = (double)square->side;
    cuda_enter(device);
    if (device->library->driver.stream_wait(device->stream)) return NAN;
    const double began = seconds_now();
    for (int run = 0; run < RUNS; run++)
        if (cuda_products_run(square->products, 0, square->block, square->block + matrix,
                              square->block + 2 * matrix, NULL))
            return NAN;
    if (device->library->driver.stream_wait(device->stream)) return NAN;
    return 2e-9 * side * side * side * RUNS / (seconds_now() - began);
}

/* Copies one half of the block to the other, which reads and writes. */
double cuda_read_pass(Device *base, void *block, size_t bytes) {
    CudaDevice *device = (CudaDevice *)(void *)base;
    const CudaDriver *driver = &device->library->driver;
    unsigned char *half = (unsigned char *)block + bytes / 2;
    cuda_enter(device);
    if (driver->stream_wait(device->stream)) return NAN;
    double began = seconds_now();
    for (int run = 0; run < RUNS; run++)
        driver->copy(cuda_pointer(half), cuda_pointer(block), bytes / 2, device->stream);
    if (driver->stream_wait(device->stream)) return NAN;
    return (double)bytes * RUNS / (seconds_now() - began) / 1e9;
}
