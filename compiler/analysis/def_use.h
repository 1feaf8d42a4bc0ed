/* def_use: statements in execution order, and the readers and writers of each tensor. */
#ifndef DEF_USE_H
#define DEF_USE_H

#include "ir/ir.h"

/* One statement, in the order of execution. */
typedef struct Place {
    Statement *statement;
    Block *block;
    Statement *repeat; /* that encloses it, or NULL */
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

typedef struct DefUse {
    Program *program;
    Place *places; /* loops and calls; repeats themselves are not counted */
    int count;
    Facts *facts; /* by tensor id */
    int tensor_count;
} DefUse;

DefUse *def_use_new(Program *program);
/* True if the tensor is a temporary that one statement defines completely. */
bool def_use_is_plain(const DefUse *def_use, const Tensor *tensor);
/* True if a statement that may run between `position` and a read writes the tensor. Another slice
 * of a tensor that a repeat carries does not count. */
bool def_use_changes(const DefUse *def_use, const Expr *read, int position);
/* True if every iteration of the repeat writes the same elements. */
bool def_use_is_local(const DefUse *def_use, const Tensor *tensor, const Statement *repeat);

#endif
