/* module: the programs of one text after their schedules: memory, kernels and host steps as data.
 * The texts of a target are printed from it.
 */
#ifndef MODULE_H
#define MODULE_H

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

/* The memory of all tensors of a program; names: by tensor->id. */
Entry *entry_new(Arena *arena, const Schedule *schedule, const BlockLayout *weights,
                 const BlockLayout *states, const char *const *names);

#endif
