/* kernel: how a program is executed: products, calls, fused loop nests, and where each tensor
 * lives.
 *
 * contraction recognises matrix products, fuse groups everything else into loop nests, plan gives
 * every tensor a place. An emitter turns the result, a Schedule, into the text of one target.
 */
#ifndef KERNEL_H
#define KERNEL_H

#include "analysis/contraction.h"

/* ---- loop nests ---- */

typedef struct Nest Nest;

/* A statement inside a nest. `order` are its loops from outside to inside, path[j] the nest that
 * iterates order[j]. */
typedef struct Member Member;
struct Member {
    Statement *statement;
    int depth;
    Index *order[MAX_LOOPS + 1];
    Nest *path[MAX_LOOPS + 1];
    int kept;    /* loops before the first reduced one; == depth without a reduction */
    bool column; /* the last loop belongs to the target and runs inside the reduced loops: one sum
                    for each of its iterations */
    bool across; /* where no sum is a column: neighbours in memory are iterations of the target's
                    last loop */
    int block;   /* place in order of the loop over blocks of the last one, or -1 */
    long block_size;
    const Relation *listed; /* the first loop is over rows that this relation lists by where they
                               are added: it goes by those lists; or NULL */
    Member *online_max; /* sums exponentials less this largest of the same loop: online_softmax.c */
    bool is_online_max; /* is such a largest */
    /* What a reduction is kept in, given by the lowering. */
    const struct Term *sum, *part;
    const struct Term
        *before;              /* what the largest was before this iteration, or this thread's own */
    const struct Term *given; /* the value, where it is at hand and not computed; or NULL */
    bool sum_is_local;
};

/* A loop with what runs inside it, or one member. */
struct Nest {
    Member *member; /* a leaf; NULL for a loop */
    Index *index;
    long size; /* iterations */
    long
        step; /* >1: a loop over blocks of `step` iterations of a loop further in, `total` in all */
    long total;
    Nest *block;                       /* a loop over one block: the loop over the blocks */
    List children;                     /* Nest * */
    const struct Term *variable, *end; /* given by the lowering */
};

/* Where a tensor that is used in one nest only is kept there. */
typedef enum LocalKind { LOCAL_SCALAR, LOCAL_ROW } LocalKind;

typedef struct Local {
    Tensor *tensor;
    LocalKind kind;
    bool stored;   /* scalars: the tensor has memory as well, because others read it */
    Nest *scope;   /* the loop in whose body it is declared */
    int covered;   /* how many loops of the target are fixed there */
    long size;     /* rows: elements */
    Member *first; /* writes it first */
} Local;

typedef struct Kernel {
    List members; /* Member *, in program order */
    Nest *root;   /* a list of loops and leaves: root->children; root itself iterates nothing */
    List locals;  /* Local * */
    double work;  /* operations */
} Kernel;

/* ---- schedule ---- */

typedef enum UnitKind { UNIT_KERNEL, UNIT_CONTRACTION, UNIT_CALL, UNIT_REPEAT } UnitKind;

typedef struct ScheduleUnit {
    UnitKind kind;
    int first, last;      /* places in the linear order, a repeat covers its body */
    Statement *statement; /* contraction, call, repeat */
    Kernel *kernel;
    Contraction *contraction;
    Kernel *epilogue; /* of a contraction or a call: its statement and what is computed as its
                         result is stored; or NULL */
    List body;        /* ScheduleUnit * */
    bool once;
    bool beside; /* a row that shares a launch with the unit before: neither touches what the other
                    writes */
} ScheduleUnit;

/* Where a tensor lives. */
typedef struct Place {
    bool used;    /* some unit needs its memory */
    bool slots;   /* a carried tensor: iteration t lives in slot t & 1 */
    bool cleared; /* zero at the start of each run */
    int first, last;
    size_t bytes, offset;
    const Tensor *over; /* it lies where this one lay, or NULL: see buffer_reuse.c */
    bool taken;         /* another tensor takes over its memory */
} Place;

typedef struct Schedule {
    Program *program;
    List units;    /* ScheduleUnit * */
    int second;    /* which of them begins the second part of training; 0: there is none */
    Place *places; /* by tensor->id */
    size_t arena_bytes;
} Schedule;

/* fuse: every statement of a program in a unit. */
Schedule *fuse(Program *program);

/* The local of a tensor in a kernel, or NULL. */
Local *local_in(const Kernel *kernel, const Tensor *tensor);

/* buffer_reuse: which tensors take over the memory of another; after lifetimes, before offsets. */
void buffer_reuse(Schedule *schedule);

/* plan: a place for every tensor that needs memory; no two that live at the same time overlap. */
void plan(Schedule *schedule);
/* The plan as text: one line a tensor, offsets and lifetimes, then the total. */
char *print_plan(Arena *arena, const Schedule *schedule);

#endif
