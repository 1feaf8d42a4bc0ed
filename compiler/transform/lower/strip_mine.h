/* strip_mine: declarations shared by its files.
 *
 *     strip_mine.c    the pass: selects statements and the chunk size
 *     strip_parts.c   moves them into a repeat over the chunks
 *     live_ranges.c   reduces the live memory of one chunk
 */
#ifndef STRIP_MINE_H
#define STRIP_MINE_H

#include "ir/ir.h"

typedef enum ChunkPosition { BEFORE, INSIDE, AFTER } ChunkPosition;

/* A loop statement with its accesses. */
typedef struct Leaf {
    Statement *statement;
    List accesses; /* Expr *: reads, then writes */
} Leaf;

/* A statement of the block, with its accesses and those of its body. */
typedef struct ChunkedStatement {
    Statement *statement;
    List reads, writes;  /* Expr * */
    List leaves;         /* Leaf *: itself, or the statements of a scan */
    bool member;         /* computed in chunks */
    ChunkPosition where; /* relative to the repeat that the members become */
} ChunkedStatement;

/* Cuts of tensors that members write. */
typedef enum Cut {
    UNCUT,  /* no member writes it */
    SLICED, /* each chunk accesses its own elements */
    SUMMED  /* accumulated by every chunk, read by none */
} Cut;

/* Accesses to one tensor by steps that are not before the members. Valid for one round of
 * place_others. */
typedef struct Mark {
    int round;
    bool touched, written;
    /* The first step after the members that accesses it, writes it, or does more than add to it;
     * -1: none */
    int after_touched, after_written, after_used;
} Mark;

typedef struct Chunking {
    Program *program;
    Block *block;
    long rows; /* per chunk; 0: automatic */
    ChunkedStatement *steps;
    bool *outside; /* by tensor->id: a statement outside of the block accesses it */
    List *users;   /* by tensor->id: ChunkedStatement * that access it */
    Mark *marks;   /* by tensor->id */
    int round;
    bool fails;             /* a member does not run along the axes that are cut */
    int count, first, last; /* number of members; the first and the last one */
    Cut *cuts;              /* by tensor->id */
    bool *local;            /* by tensor->id: only members access it */
    int *dimensions[2];     /* by tensor->id, if SLICED: the dimension that is cut */
    Axis *axes[2];          /* the axes that are cut; axes[1] NULL: only the first */
    long sizes[2];          /* of a chunk */
    Axis *within[2];        /* the axes of one chunk; NULL: one element, selected by the index */
    Index *index;
} Chunking;

/* True if the step, which is after the members, sets a sum that they add to. */
bool begins_late(const Chunking *chunking, const ChunkedStatement *step);
/* The only loop over an axis, or along it where axes are of one size; NULL: none. */
Index *loop_over(const Leaf *leaf, const Axis *axis);
/* Moves the members into a repeat over the chunks of `whole`, whose sizes are set. */
Statement *repeat_parts(Chunking *chunking, const Tensor *whole);
/* local: by tensor->id, of the first `tensors`: only the body accesses it. */
void live_ranges(Program *program, Block *body, const bool *local, int tensors);

#endif
