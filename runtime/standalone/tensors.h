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

/* Reads tensor `name`, whose first dimension is the example, with `each` values per example; the
 * caller frees the result. NULL: *error has the reason. Supported types: F32, I32, I64. */
float *tensors_read(const char *path, const char *name, size_t each, uint64_t *examples,
                    const char **error);

typedef struct WrittenTensor {
    const char *name;
    int rank;
    const long *shape;
    const float *values;
} WrittenTensor;

/* Returns NULL or an error message. */
const char *tensors_write(const char *path, const WrittenTensor *tensors, int count);

#endif
