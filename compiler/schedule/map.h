/* map: which threads of a machine run the iterations of each loop, and the launches of a GPU.
 * map.c sets these records, the lowering follows them. */
#ifndef MAP_H
#define MAP_H

#include "ir/ir.h"

typedef struct Nest Nest;

/* The number of blocks and threads of a kernel launch. */
typedef struct Launch {
    long blocks; /* 0: one per span of parameters */
    int threads; /* per block */
} Launch;

/* The number of parts of `size` in `count`, rounded up. */
static inline long ceil_div(long count, long size) {
    return (count + size - 1) / size;
}
/* At least one block; the kernels loop over more iterations than the largest number of blocks. */
Launch launch_of(long blocks, int threads);

enum { BLOCK_COLUMNS = 32 };

/* The threads of a GPU that share the iterations of a loop. */
typedef enum LoopBy {
    BY_ONE,      /* none: each thread that runs the enclosing body */
    BY_ALL,      /* threads of all blocks, each independently */
    BY_BLOCKS,   /* one iteration per block; its threads share the inner loops */
    BY_COLUMNS,  /* 32 adjacent iterations per block; several threads share the inner loops of
                    each */
    BY_THREADS,  /* threads of a block */
    BY_COLUMN,   /* threads of a block with the same column */
    BY_THE_FIRST /* the first thread of a block */
} LoopBy;
extern const char *const loop_by_names[]; /* in texts */

/* Of a loop. */
typedef struct LoopMap {
    LoopBy by;
    int joined;       /* loops from this one inwards whose iterations are distributed as one */
    int width;        /* adjacent iterations of the last of them that a thread runs together; 0: one
                         at a time */
    long parts;       /* of a sum: partial sums that a second launch adds; 0: there are none */
    bool independent; /* no two iterations access the same element or add to one sum */
} LoopMap;

/* The part of a kernel that a launch computes. */
typedef enum LaunchForm {
    LAUNCH_BLOCK,          /* everything inside the nest, in one block */
    LAUNCH_LOOPS,          /* a nest, by its outer loops */
    LAUNCH_ADDED_ROWS,     /* a scatter of whole rows, by a template */
    LAUNCH_LISTED_ROWS,    /* another scatter, a block for each row of the target: the lists of a
                               relation have the iterations that add to it */
    LAUNCH_SEARCHED_ROWS,  /* the block searches these iterations */
    LAUNCH_SEARCHED_TERMS, /* a block for each iteration; the first one that adds to a row searches
                               the others */
    /* with partial sums in separate memory: */
    LAUNCH_SUM_PARTS,    /* of a nest that is one sum over everything */
    LAUNCH_PART_SUMS,    /* their sums */
    LAUNCH_COLUMN_PARTS, /* of a few long columns */
    LAUNCH_COLUMN_SUMS   /* their sums */
} LaunchForm;

typedef struct LaunchMap {
    LaunchForm form;
    Nest *nest; /* the root of the kernel: all of it */
    Launch launch;
    long rows;              /* of the target of a scatter; or 0 */
    const Relation *listed; /* of rows that are added or listed */
} LaunchMap;

static inline bool is_second_launch(const LaunchMap *map) {
    return map->form == LAUNCH_PART_SUMS || map->form == LAUNCH_COLUMN_SUMS;
}

/* Of a recurrence: loops that every statement of a scan has and along which no statement reads
 * another position. Their iterations are independent instances of the scan. */
typedef struct ScanMap {
    int count;
    long sizes[MAX_RANK];    /* iterations of each, or groups of them */
    Index **loops[MAX_RANK]; /* of each, by statement */
    bool all;                /* no statement has other loops */
    long size;               /* number of instances */
    long group;              /* adjacent iterations of the last loop in one instance, or 0 */
    Launch launch;           /* of a GPU */
} ScanMap;

#endif
