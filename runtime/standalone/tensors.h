/* tensors: files of named tensors, as examples are given and drawn, in the format safetensors:
 * eight bytes that hold the length of a JSON header, little-endian like everything here, then the
 * header, then the numbers.
 *
 *     {"image": {"dtype": "F32", "shape": [4000, 16, 4], "data_offsets": [0, 1024000]},
 *      "label": ...}
 */
#ifndef TENSORS_H
#define TENSORS_H

#include <stddef.h>
#include <stdint.h>

/* The numbers of the tensor `name`, whose first dimension counts examples of `each` numbers, to be
 * freed. NULL: *error says why. F32, I32 and I64 are read. */
float *tensors_read(const char *path, const char *name, size_t each, uint64_t *examples,
                    const char **error);

typedef struct WrittenTensor {
    const char *name;
    int rank;
    const long *shape;
    const float *values;
} WrittenTensor;

/* NULL, or what is wrong. */
const char *tensors_write(const char *path, const WrittenTensor *tensors, int count);

#endif
