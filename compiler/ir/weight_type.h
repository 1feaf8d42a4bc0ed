/* weight_type: the types of smaller weights, see weight_type.def; those of units. */
#ifndef WEIGHT_TYPE_H
#define WEIGHT_TYPE_H

#include "ir/ir.h"

/* Weights that share a scale. INT8: adjacent elements, each one of 255 multiples of the scale. The
 * types with several columns: terms of one sum; the copies are matrices with the summed dimension
 * last. INT4, TERNARY: each weight is one of 16 or of 3 multiples. FP8, MXFP8, MXFP4, NVFP4: a
 * number of E4M3 or E2M1 times the scale, as in products of these formats (operand_formats.c). */
enum { INT8_GROUP = MOEC_GROUP, INT4_GROUP = MOEC_PANEL_DEPTH, TERNARY_GROUP = MOEC_TERNARY_DEPTH };

/* A row of weight_type.def. */
typedef struct WeightType {
    Type type;
    MoecType stored;
    ProgramForm form; /* of programs that read it */
    const char *name, *code, *structure;
    size_t bytes;
    const char *array;
    long terms, columns, elements; /* terms * columns */
} WeightType;
extern const WeightType weight_types[];
extern const int weight_type_count;
/* NULL: the type is none of them. */
const WeightType *weight_type(Type type);

/* Numbers of one byte, whose scales are stored separately: see byte_operands.c. */
typedef struct UnitType {
    Type type;
    MoecType stored;
    const char *name, *code;
} UnitType;
/* NULL: the type is none of them. */
const UnitType *unit_type(Type type);
/* f32 or the name of a row of either table. */
const char *real_type_name(Type type);
/* Bytes of an element of any type, with its share of a scale. */
double element_bytes(Type type);

#endif
