/* lowered: the programs of one text after their schedules, as data: memory, kernels and host steps.
 * The texts of a target are printed from it. */
#ifndef LOWERED_H
#define LOWERED_H

#include "loop/form.h"
#include "schedule/kernel.h"

/* ---- memory: buffers.c ---- */

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

/* ---- kernels ---- */

typedef enum ParamKind {
    PARAM_SEED,    /* of the run */
    PARAM_INDEX,   /* of an enclosing repeat */
    PARAM_POINTER, /* to a buffer */
    PARAM_OPERAND, /* to an element of a buffer */
    PARAM_SCRATCH, /* to memory after the temporaries of the entry */
    PARAM_NUMBER,
    PARAM_GROUPED, /* sizes of a product over dispatched rows */
    PARAM_RECORD,  /* a variable of the host program */
    PARAM_MAPS     /* of the operands of a variant, which the host creates */
} ParamKind;

/* A parameter of a kernel and its argument. */
typedef struct Param {
    ParamKind kind;
    const char *type, *name; /* of a parameter; type: of an operand or scratch memory */
    const Buffer *buffer;    /* of a pointer */
    bool written, alone;     /* of a pointer; alone: overlaps no other one */
    const Term *address;     /* of an operand; NULL: absent */
    size_t offset;           /* of scratch memory, in the arena */
    long number;
    const Contraction *contraction;
} Param;

/* The loops of a kernel, or of the store of a template. */
typedef struct LoopKernel {
    KernelForm form;
    const struct Entry *entry; /* NULL: of the optimizer */
    const Target *target;      /* the host runs one kernel of a GPU program */
    List params;               /* Param *; empty for a store */
    List statements;           /* const Statement *: the equations that it computes */
    Launch launch;
    int indent; /* of its loops in the text */

    /* of the last check: see module_changed */
    uint64_t state;
    bool changed;
    List accesses; /* Operand *: whole buffers, in order */
} LoopKernel;

/* ---- host steps ---- */

typedef enum Access { ACCESS_READ = 1, ACCESS_WRITE = 2, ACCESS_ADD = 4 } Access;

/* Memory that a host step accesses, from an element on. */
typedef struct Operand {
    const Buffer *buffer;
    const Term *address; /* "x + 64 * i"; of a position: its value */
    Access access;
} Operand;

typedef enum Condition {
    FIRST_MICRO_BATCH,
    LAST_MICRO_BATCH,
    FORWARD_PART, /* of a step in two phases, unless only the other one runs */
    BACKWARD_PART
} Condition;

/* One of several variants of a kernel: the host selects the fastest one. */
typedef struct LaunchVariant {
    Launch launch;
    const char *shared; /* bytes of shared memory, as text */
} LaunchVariant;

/* Elements that a launch writes: see MoecWritten. */
typedef struct Written {
    const Term *address; /* NULL: scratch memory at an offset in the arena */
    size_t offset;
    long count;
    Type type;
    bool rounded;
} Written;

/* An operand that arrives in boxes: see MoecMatrix. */
typedef struct Matrix {
    const Term *address;
    long shape[5];
} Matrix;

/* The launch of a kernel. */
typedef struct LaunchStep {
    const char *kernel; /* its name */
    Launch launch;
    long shared;    /* additional bytes of shared memory of a GPU */
    List arguments; /* Param * */
    List variants;  /* LaunchVariant *; empty: there is one only */
    List written;   /* Written *, with variants */
    List matrices;  /* Matrix *, the same */
} LaunchStep;

/* A dense product. Its operands are a, b, c, then those of its epilogue: add, bias, kept. */
typedef struct ProductStep {
    int row;         /* of the table */
    bool begins;     /* the next row in the first micro-batch of a step */
    List first;      /* const char *: indices of the summed loops around it: all are 0 in `row` */
    int more;        /* row of their other iterations */
    const char *own; /* kernel for hosts without a library, or NULL */
    long blocks;     /* of this kernel */
    bool epilogue;
} ProductStep;

/* Executes its body for index = 0 .. count - 1. */
typedef struct RepeatStep {
    const char *index, *size; /* size: the count as text */
    long count;
    bool reverse;
    bool joined; /* its body is one repeat, in the same indentation */
} RepeatStep;

typedef enum HostStepKind {
    STEP_LAUNCH,  /* a kernel */
    STEP_PRODUCT, /* a dense product */
    STEP_GROUPED, /* a product over dispatched rows: group, gathers of a and b, a, b, c */
    STEP_CALL,    /* a hand-written kernel of the host: inputs and outputs of its statement; on a
                     GPU the variable `pack` and the body */
    STEP_CLEAR,   /* zero bytes */
    STEP_REPEAT,
    STEP_WHEN /* its body under a condition */
} HostStepKind;

/* An operation of the host program. */
typedef struct HostStep {
    HostStepKind kind;
    int unit;        /* the unit of the schedule that it completes, by execution order; or -1 */
    List statements; /* const Statement *: equations of a product or a call */
    List operands;   /* Operand *; NULL: absent */
    List body;       /* HostStep * */
    union {
        LaunchStep launch;
        ProductStep product;
        const ScheduleUnit *grouped;
        struct {
            const Program *program;
            const Statement *statement;
            const char *options; /* name of the constant with its options, or NULL */
        } call;
        struct {
            const Buffer *buffer; /* NULL: the gradients, */
            size_t offset, bytes; /* from `offset` on */
        } clear;
        RepeatStep repeat;
        Condition when;
    };
} HostStep;

/* Adds a step to a list. */
HostStep *step_new(Arena *arena, List *steps, HostStepKind kind);

/* One program of a module. */
typedef struct Entry {
    Program *program;
    const Schedule *schedule;
    const char *name; /* "train", or "decode_2" if there are two of a kind */
    Buffer *buffers;  /* by tensor->id */
    BlockLayout caches;
    List clears, gradients, steps; /* HostStep *, in this order; gradients: clears those that no
                                      product overwrites */
    int first_product, product_count, dense, kernels;
    size_t arena_bytes; /* temporaries of its plan, and the scratch memory of calls after them */
    double flops, product_flops;
} Entry;

/* A list for steps under a condition, in `steps`; for a part of a training program. */
List *steps_when(Arena *arena, List *steps, Condition condition);
List *steps_in_part(Arena *arena, const Entry *entry, List *steps, Condition part);

/* ---- the module ---- */

/* A part of a text. */
typedef struct Section {
    const LoopKernel *kernel; /* a function, */
    const Entry *entry;       /* or the function that runs a program, */
    const HostStep *options;  /* or the options of a call, */
    const char *text;         /* or this: LOOPS_HERE marks the position of each of `loops` */
    List loops;               /* LoopKernel * */
    bool ends;                /* the last section of a piece: see MoecPiece */
    int number;               /* of the kernel in the piece */
} Section;

#define LOOPS_HERE "\f"

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
    unsigned properties; /* ModuleProperty: set by the passes so far */
} Module;

typedef enum ModuleProperty { MODULE_HAS_OWNERS = 1, MODULE_HAS_BARRIERS = 2 } ModuleProperty;

/* The memory of all tensors of a program, and the steps that clear it; names: by tensor->id. */
Entry *entry_new(Arena *arena, const Schedule *schedule, const BlockLayout *weights,
                 const BlockLayout *states, const char *const *names);

/* ---- module_check.c ---- */

typedef enum FaultKind {
    FAULT_SCOPE,    /* scopes and types of a kernel: see form_check.c */
    FAULT_BOUNDS,   /* an element outside of its array */
    FAULT_WRITER,   /* several threads store to one element */
    FAULT_BARRIER,  /* none between a store and the access of another thread, or not for all */
    FAULT_LIFETIME, /* memory in use by another buffer */
    FAULT_FLOW,     /* read before it is written */
    FAULT_LAUNCH    /* limits of the machine, arguments against parameters, grid */
} FaultKind;

/* The first fault of a module. */
typedef struct Fault {
    FaultKind kind;
    const char *what;           /* NULL: the module has none */
    const LoopKernel *kernel;   /* or NULL */
    const Entry *entry;         /* or NULL */
    const HostStep *step;       /* or NULL */
    const Statement *statement; /* or NULL */
} Fault;

const char *fault_name(FaultKind kind);
/* The fault with its equation, source line and kernel, as the text of an internal error. */
const char *fault_text(Arena *arena, const Fault *fault);
/* Marks the kernels that changed since the last call. False: there are none. */
bool module_changed(const Module *module);
/* Checks the marked kernels and the host steps. The memory of `scratch` is cleared. */
Fault module_check(const Module *module, Arena *scratch);
/* A line for each term that no rule decides, then their number. */
const char *module_unproven(const Module *module, Arena *scratch);

#endif
