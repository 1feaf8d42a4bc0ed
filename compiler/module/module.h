/* module: the programs of one text after their schedules: memory, kernels and host steps as data.
 * The texts of a target are printed from it.
 */
#ifndef MODULE_H
#define MODULE_H

#include "loop/form.h"
#include "schedule/kernel.h"

/* ---- memory: layout.c ---- */

/* Offsets of parameters or states: each one of any program once, by path. Frozen parameters are at
 * the end. */
typedef struct BlockLayout {
    List tensors;    /* Tensor * */
    size_t *offsets; /* by index in tensors; bytes */
    size_t bytes, frozen_bytes, whole_bytes;
    size_t unit;  /* alignment of the offsets */
    Table places; /* int *: indices in tensors, by path */
} BlockLayout;

BlockLayout layout_of(Arena *arena, Program *const *programs, int count, Role role);

/* A block in addition to those of MoecBlock: the bf16 or int8 copies of the weights. */
enum { MOEC_COMPUTE_WEIGHTS = MOEC_ARENA + 1 };

/* The memory of a tensor. */
typedef struct Buffer {
    const Tensor *tensor;
    const char *name; /* unique in its entry */
    int block;        /* of MoecBlock, or MOEC_COMPUTE_WEIGHTS */
    size_t offset;    /* bytes from the start of the block; inputs and outputs: the slot number;
                         compute weights: elements */
    size_t bytes;     /* arena only */
    int slots;        /* 2: iteration t of the enclosing repeat uses slot t & 1 */
    bool constant;    /* never written */
    bool cleared;     /* zero at the start of each run */
    bool used;        /* a kernel or a call accesses it */
} Buffer;

/* Bytes of a block, from `first` on. */
typedef struct MemoryRange {
    size_t first, bytes;
} MemoryRange;

/* One program of a module. */
typedef struct Entry {
    Program *program;
    const Schedule *schedule;
    const char *name; /* "train", or "decode_2" if there are two of a kind */
    Buffer *buffers;  /* by tensor->id */
    BlockLayout caches;
    List gradients; /* MemoryRange *: cleared in the first micro-batch of a step */
    int first_product, product_count, dense, kernels;
    size_t arena_bytes; /* temporaries of its plan, and the scratch memory of calls after them */
    double flops, product_flops;
} Entry;

/* ---- kernels ---- */

typedef enum ParamKind {
    PARAM_SEED,    /* of the run */
    PARAM_INDEX,   /* of an enclosing repeat */
    PARAM_POINTER, /* to a buffer */
    PARAM_SCRATCH  /* memory for partial sums, after the temporaries of the entry */
} ParamKind;

/* A parameter of a kernel. Its argument has the same name. */
typedef struct Param {
    ParamKind kind;
    const char *name;     /* of an index or a pointer */
    const Buffer *buffer; /* of a pointer */
    bool written, alone;  /* of a pointer; alone: overlaps no other one */
    size_t offset;        /* of scratch memory, in the arena */
} Param;

/* The loops of a kernel, or of the store of a template. */
typedef struct LoopKernel {
    KernelForm form;
    const Target *target; /* the host runs one kernel of a GPU program */
    List params;          /* Param *; empty for a store */
    List statements;      /* const Statement *: the equations that it computes */
    Launch launch;
    int indent; /* of its loops in the text */
} LoopKernel;

/* A part of a text. */
typedef struct Section {
    const LoopKernel *kernel; /* a function, or NULL: */
    const char *text;         /* LOOPS_HERE stands for the loops of the next of `loops` */
    List loops;               /* LoopKernel * */
    bool ends;                /* the last section of a piece: see MoecPiece */
    int number;               /* of the kernel in the piece */
} Section;

#define LOOPS_HERE "\f"

/* ---- the module ---- */

/* All programs of one text, and their common parts. */
typedef struct Module {
    Arena *arena;
    const struct EmitTarget *target;
    Program **programs; /* with that of the optimizer */
    int program_count;
    List entries;           /* Entry *: the other ones */
    List kernels;           /* LoopKernel *: all loops */
    List functions, device; /* Section *: of the text with the table, of the kernels of a GPU */
    List device_kernels;    /* char *: the names of the kernels of a GPU, by number */
    List products;          /* Product * */
    List own_products;      /* OwnProduct *: by number of the product */
    List sizes;             /* SizeConstant * */
    bool plain;             /* sizes are numbers */
    BlockLayout weights, states;
    bool update;
    int *groups;  /* of parameters, by index in weights: see MoecUpdate.own; NULL without update */
    Type rounded; /* type of the compute weights of a program; TYPE_REAL: none */
} Module;

/* The memory of all tensors of a program; names: by tensor->id. */
Entry *entry_new(Arena *arena, const Schedule *schedule, const BlockLayout *weights,
                 const BlockLayout *states, const char *const *names);

#endif
