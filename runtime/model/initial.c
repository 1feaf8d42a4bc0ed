/* initial: random values of parameters and states before a run, each a function of the seed, the
 * public name and the element. */
#include "model/internal.h"

#include "data/random.h"

enum { INITIAL_VALUES = 512 }; /* values per block */

static void initial_values(const MoecTensor *tensor, uint64_t seed, size_t first, size_t count,
                           float *values) {
    double drawn[INITIAL_VALUES];
    switch (tensor->init) {
    case MOEC_INIT_NORMAL:
        random_normals(seed, first, count, drawn);
        for (size_t i = 0; i < count; i++) values[i] = (float)(tensor->a + tensor->b * drawn[i]);
        return;
    case MOEC_INIT_UNIFORM:
        for (size_t i = 0; i < count; i++)
            values[i] =
                (float)(tensor->a + (tensor->b - tensor->a) * random_uniform(seed, first + i));
        return;
    default:
        for (size_t i = 0; i < count; i++) values[i] = (float)tensor->a;
    }
}

static void initialise_tensor(const PublicTensor *one, float *values, uint64_t seed) {
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < one->count; i += INITIAL_VALUES) {
        size_t left = one->count - i;
        initial_values(one->tensor, seed, i, left < INITIAL_VALUES ? left : INITIAL_VALUES,
                       values + i);
    }
}

void initialise_block(const PublicTensor *tensors, int count, float *block, uint64_t seed) {
    for (int i = 0; i < count; i++)
        initialise_tensor(&tensors[i], block + tensors[i].offset / sizeof(float),
                          random_seed_for(seed, tensors[i].name));
}
