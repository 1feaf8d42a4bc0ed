/* survey: where every statement stands, and who reads and writes each tensor. */
#ifndef SURVEY_H
#define SURVEY_H

#include "ir/ir.h"

/* One statement, in the order of execution. */
typedef struct Place {
    Statement *statement;
    Block *block;
    Statement *repeat; /* around it, or NULL */
} Place;

typedef struct Write {
    int position;
    Expr *target;
} Write;

typedef struct Facts {
    List writes; /* Write * */
    bool read;
    bool scattered_reads;     /* read in more than one repeat, or inside and outside */
    Statement *reader_repeat; /* of all reads, when they are together */
} Facts;

typedef struct Survey {
    Program *program;
    Place *places; /* loops and calls; repeats themselves are not counted */
    int count;
    Facts *facts; /* by tensor id */
    int tensor_count;
} Survey;

Survey *survey_new(Program *program);
/* Is the tensor a temporary that one statement defines completely? */
bool survey_is_plain(const Survey *survey, const Tensor *tensor);
/* Is the tensor written at the position or later, by what could come between there and a read?
 * Another slice of a tensor that a repeat carries does not count. */
bool survey_changes(const Survey *survey, const Expr *read, int position);
/* Is it written anew in every turn of this repeat, at the same place? */
bool survey_is_local(const Survey *survey, const Tensor *tensor, const Statement *repeat);

#endif
