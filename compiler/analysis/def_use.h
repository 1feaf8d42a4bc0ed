/* def_use: the statements of a program in execution order, and every access of each tensor. It is a
 * snapshot: a pass that changes accesses builds a new one. */
#ifndef DEF_USE_H
#define DEF_USE_H

#include "ir/ir.h"

/* A loop or call at its position in a program, or a repeat around one. */
typedef struct ProgramPoint {
    Statement *statement;
    Block *block;                     /* that contains it */
    Statement *repeat;                /* that encloses it, or NULL */
    const struct ProgramPoint *outer; /* the point of this repeat, or NULL */
} ProgramPoint;

/* A read or a write of a tensor. A scan accesses its operands; its body is not listed. */
typedef struct TensorAccess {
    Expr *expr;
    int position; /* of the statement in DefUse.points */
    bool write;
} TensorAccess;

typedef struct DefUse {
    Program *program;
    ProgramPoint *points; /* loops and calls in execution order */
    int count;
    /* By tensor id: TensorAccess * in execution order, the reads of a statement first; the writes
     * among them. */
    List *accesses, *writes;
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
/* True if the body of the repeat (NULL: of the program) contains all reads of the tensor. */
bool def_use_reads_in(const DefUse *def_use, const Tensor *tensor, const Statement *repeat);

#endif
