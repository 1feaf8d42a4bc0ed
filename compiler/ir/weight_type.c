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

const UnitType *unit_type(Type type) {
    static const UnitType types[] = {{TYPE_E4M3, MOEC_E4M3, "e4m3", "MOEC_E4M3"},
                                     {TYPE_E5M2, MOEC_E5M2, "e5m2", "MOEC_E5M2"}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type == type) return &types[i];
    return NULL;
}

const char *real_type_name(Type type) {
    if (unit_type(type)) return unit_type(type)->name;
    return weight_type(type) ? weight_type(type)->name : "f32";
}

double element_bytes(Type type) {
    const WeightType *smaller = weight_type(type);
    return smaller ? (double)smaller->bytes / (double)smaller->elements : (double)type_bytes(type);
}
