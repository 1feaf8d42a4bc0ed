/* strip_mine: what its files share.
 *
 *     strip_mine.c    the pass: which statements go together, and how large a part is
 *     strip_parts.c   they, in a repeat over the parts
 *     live_ranges.c   what one part holds at once
 */
#ifndef STRIP_MINE_H
#define STRIP_MINE_H

#include "ir/ir.h"

typedef enum Where { BEFORE, INSIDE, AFTER } Where;

/* A loop, with what it touches. */
typedef struct Leaf {
    Statement *statement;
    List accesses; /* Expr *: reads, then writes */
} Leaf;

/* A statement of the block, with all that it and what it contains touches. */
typedef struct Step {
    Statement *statement;
    List reads, writes; /* Expr * */
    List leaves;        /* Leaf *: itself, or the statements of a scan */
    bool member;        /* computed part by part */
    Where where;        /* beside the repeat that the members become */
} Step;

/* How a tensor that members write is cut. */
typedef enum Cut {
    UNCUT,  /* no member writes it */
    SLICED, /* each part touches elements of its own */
    SUMMED  /* added to by every part, read by none */
} Cut;

/* Of one tensor: who among those that do not stand before the members touches it. Holds for one
 * round of place_others. */
typedef struct Mark {
    int round;
    bool touched, written;
    /* The first of those behind the members that touches it, writes it, does more than add to it;
     * -1: none */
    int after_touched, after_written, after_used;
} Mark;

typedef struct Chunking {
    Program *program;
    Block *block;
    long rows; /* of a part; 0: chosen */
    Step *steps;
    bool *outside; /* by tensor->id: somebody outside of the block touches it */
    List *users;   /* by tensor->id: Step * that touch it */
    Mark *marks;   /* by tensor->id */
    int round;
    bool fails;             /* a member does not run along what is cut */
    int count, first, last; /* of all members: the first and the last */
    Cut *cuts;              /* by tensor->id */
    bool *local;            /* by tensor->id: members alone touch it */
    int *dimensions[2];     /* by tensor->id, where SLICED: the dimension that is cut */
    Axis *axes[2];          /* what is cut; axes[1] NULL: only the first */
    long sizes[2];          /* of a part of them */
    Axis *within[2];        /* the axes of one part; NULL: one element, which the index names */
    Index *index;
} Chunking;

/* Does the step, which stands behind the members, set a sum that they add to? */
bool begins_late(const Chunking *chunking, const Step *step);
/* The only loop over an axis, or along it where axes are of one size; NULL: none. */
Index *loop_over(const Leaf *leaf, const Axis *axis);
/* The members become a repeat over the parts of `whole`, whose sizes are chosen. */
Statement *repeat_parts(Chunking *chunking, const Tensor *whole);
/* local: by tensor->id, of the first `tensors`: the body alone touches it. */
void live_ranges(Program *program, Block *body, const bool *local, int tensors);

#endif
