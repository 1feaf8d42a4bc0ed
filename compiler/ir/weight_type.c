#include "ir/weight_type.h"

const WeightType weight_types[] = {
#define WEIGHT_TYPE(name, text, structure, bytes, array, terms, columns)                           \
    {TYPE_##name, MOEC_##name, HAS_WEIGHTS_##name, text, "MOEC_" #name, structure, bytes, array,   \
     terms,       columns,     (terms) * (columns)},
#include "ir/weight_type.def"
#undef WEIGHT_TYPE
};
const int weight_type_count = sizeof weight_types / sizeof *weight_types;

const WeightType *weight_type(Type type) {
    for (int i = 0; i < weight_type_count; i++)
        if (weight_types[i].type == type) return &weight_types[i];
    return NULL;
}

double element_bytes(Type type) {
    const WeightType *smaller = weight_type(type);
    return smaller ? (double)smaller->bytes / (double)smaller->elements : (double)type_bytes(type);
}
