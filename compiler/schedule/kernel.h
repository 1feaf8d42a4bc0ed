/* kernel: the execution of a program: products, calls, fused loop nests, and the memory of each
 * tensor.
 *
 * contraction recognizes matrix products, fuse groups all other statements into loop nests, plan
 * assigns memory to every tensor. The lowering turns the result, a Schedule, into a module of one
 * target.
 */
#ifndef KERNEL_H
#define KERNEL_H

#include "analysis/contraction.h"
#include "schedule/map.h"

/* ---- loop nests ---- */

/* A statement inside a nest. `order` has its loops from outside to inside; path[j] is the nest that
 * iterates order[j]. */
typedef struct Member Member;
struct Member {
    Statement *statement;
    int depth;
    Index *order[MAX_LOOPS + 1];
    Nest *path[MAX_LOOPS + 1];
    int kept;    /* loops before the first reduced one; == depth without a reduction */
    bool column; /* the last loop belongs to the target and runs inside the reduced loops: one sum
                    per iteration */
    bool across; /* without column sums: adjacent elements in memory are iterations of the target's
                    last loop */
    int block;   /* index in `order` of the loop over blocks of the last loop, or -1 */
    long block_size;
    const Relation *listed; /* the first loop runs over the rows of this relation, in the order of
                               the lists of its targets; or NULL */
    Member *online_max;     /* the sum of exponentials subtracts the maximum of the same loop:
                           online_softmax.c */
    bool is_online_max;     /* it is such a maximum */
};

/* A loop with its body, or one member. */
struct Nest {
    Member *member; /* a leaf; NULL for a loop */
    Index *index;
    long size; /* iterations */
    long step; /* >1: a loop over blocks of `step` iterations of an inner loop, `total` in all */
    long total;
    const Expr *bound; /* iterations that are run, if data determines their number; or NULL */
    Nest *block;       /* a loop over one block: the loop over the blocks */
    LoopMap map;
    List children; /* Nest * */
};

/* A tensor used in one nest only is kept there. */
typedef enum LocalKind { LOCAL_SCALAR, LOCAL_ROW } LocalKind;

typedef struct Local {
    Tensor *tensor;
    LocalKind kind;
    bool stored;   /* scalars: the tensor is in memory as well, for other readers */
    bool operand;  /* rows: of a row product, with the elements of the tensor */
    Nest *scope;   /* the loop whose body declares it */
    int covered;   /* number of loops of the target that are fixed there */
    long size;     /* rows: elements */
    Member *first; /* writes it first */
} Local;

typedef struct Kernel {
    List members;  /* Member *, in program order */
    Nest *root;    /* a list of loops and leaves: root->children; root itself iterates nothing */
    List locals;   /* Local * */
    double work;   /* operations */
    List launches; /* LaunchMap *, in order; empty: on a CPU */
} Kernel;

/* ---- schedule ---- */

typedef enum UnitKind { UNIT_KERNEL, UNIT_CONTRACTION, UNIT_CALL, UNIT_REPEAT } UnitKind;

/* Exchanges between processes run while other units compute: see overlap.c. */
typedef enum ExchangePhase { WHOLE_EXCHANGE, BEGINS_EXCHANGE, ENDS_EXCHANGE } ExchangePhase;

enum { STEP_OPERANDS = 3 };

typedef struct ScheduleUnit {
    UnitKind kind;
    int first, last;      /* indices in execution order; a repeat covers its body */
    Statement *statement; /* contraction, call, repeat */
    Kernel *kernel;
    Contraction *contraction;
    Kernel *epilogue; /* of a contraction or a call: its statement and the statements computed
                                in its store; or NULL */
    Expr *add, *bias, *kept;                  /* of the epilogue in a library, or NULL */
    struct ScheduleUnit *accumulated_product; /* another product of the same rows that is added to
                                                 the same result in the same tiles, or NULL */
    bool row; /* a dense product on a GPU, with a single row: our own kernel, with an epilogue */
    struct ScheduleUnit
        *paired_row;  /* another product of the same row and sizes; the store computes
                                        with both results of a column; or NULL */
    Kernel *prologue; /* computes the row in every block of the launch; or NULL */
    /* Of an attention of one new token, or NULL: kernels of a single element. The first computes
     * queries, the others store keys and values in caches. */
    Kernel *elements[STEP_OPERANDS];
    bool overwrites_gradient; /* in the first micro-batch of a step: see first_sums.c */
    List body;                /* ScheduleUnit * */
    bool once;
    bool few_rows; /* a product that may share a launch or a call */
    bool beside;   /* shares a launch or a call with the previous unit: neither accesses a tensor
                      that the other writes */
    const ScanMap *scan; /* of a recurrence: see map */
    ExchangePhase phase; /* of an exchange; before overlap: the whole */
} ScheduleUnit;

/* The memory of a tensor. */
typedef struct Allocation {
    bool used;    /* some unit needs its memory */
    bool slots;   /* a carried tensor: iteration t is in slot t & 1 */
    bool cleared; /* zero at the start of each run */
    int first, last;
    size_t bytes, offset;
    size_t part, touched; /* of each part of the memory, the bytes at its start that are expected to
                             be accessed */
    const Tensor *over;   /* its memory was that of this tensor, or NULL: see buffer_reuse.c */
    bool taken;           /* another tensor reuses its memory */
} Allocation;

typedef struct Schedule {
    Program *program;
    List units; /* ScheduleUnit * */
    int second; /* index of the unit that starts the second training phase; 0: there is none */
    Allocation *allocations; /* by tensor->id */
    size_t arena_bytes;
} Schedule;

/* fuse: assigns every statement of a program to a unit. */
Schedule *fuse(Program *program);

/* overlap: lets exchanges run while other units compute. */
void overlap(Schedule *schedule);
/* True for an exchange between processes; the bytes of its operand in one process, where rows count
 * as many as are expected. */
bool unit_exchanges(const ScheduleUnit *unit);
double exchanged_bytes(const Statement *statement);

/* The local of a tensor in a kernel, or NULL. */
Local *local_in(const Kernel *kernel, const Tensor *tensor);

/* buffer_reuse: finds tensors that reuse the memory of another; after lifetimes, before
 * offsets. */
void buffer_reuse(Schedule *schedule);

/* offsets: assigns an offset to every allocation; after lifetimes and sizes. */
void assign_offsets(Schedule *schedule);
size_t align_offset(size_t offset);
/* Bytes of the temporaries that are live at any moment from `first` to `last`, as expected. */
double touched_bytes(const Schedule *schedule, int first, int last);

/* plan: assigns memory to every tensor that needs it; simultaneously live tensors do not
 * overlap. */
void plan(Schedule *schedule);
/* The plan as text: one line per tensor with offset and lifetime, then the total. */
char *print_plan(Arena *arena, const Schedule *schedule);

/* map: sets the maps of loops, kernels and recurrences. */
void map(Schedule *schedule);
/* The first fault of the maps, or NULL. */
const char *map_fault(Arena *arena, const Schedule *schedule);
char *print_map(Arena *arena, const Schedule *schedule);
/* The number of GPU threads that compute a position of a recurrence. */
double scan_threads(const Statement *scan, const ScanMap *map);

#endif
