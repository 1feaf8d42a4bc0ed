/* lowered: the programs of one text after their schedules, as data: memory, kernels and host steps.
 * The texts of a target are printed from it. */
#ifndef LOWERED_H
#define LOWERED_H

#include "abi/steps.h"
#include "ir/weight_type.h"
#include "loop/form.h"
#include "moec.h"
#include "passes.h"
#include "schedule/kernel.h"

/* ---- memory: buffers.c ---- */

/* Offsets of parameters or states: each one of any program once, by path. Frozen parameters are at
 * the end. */
typedef struct BlockLayout {
    List tensors;    /* Tensor * */
    int given;       /* the first ones, which no program prepares */
    size_t *offsets; /* by index in tensors; bytes */
    size_t bytes, frozen_bytes, whole_bytes;
    size_t alone_bytes; /* of the last ones, of which only smaller copies are read */
    size_t unit;        /* alignment of the offsets */
    Table places;       /* int *: indices in tensors, by path */
} BlockLayout;

BlockLayout layout_of(Arena *arena, Program *const *programs, int count, Role role);
size_t layout_offset(const BlockLayout *layout, const Tensor *tensor);
/* The matrices of a type with columns; of another type, all elements in their order. */
Matrices copy_matrices(const Tensor *tensor);
/* Bytes of an element; of smaller weights, of a structure of weight_type.def. */
size_t copy_element_bytes(Type type);
/* Bytes of a tensor in its type. */
size_t packed_bytes(const Tensor *tensor);

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
    PARAM_MAP,     /* of an operand of a variant */
    PARAM_MAPS     /* an argument: all of these, which the host creates */
} ParamKind;

/* A parameter of a kernel and its argument. */
typedef struct Param {
    ParamKind kind;
    const char *name;     /* of a parameter */
    TermType type;        /* of an element of an operand or of scratch memory */
    const char *record;   /* type of a record */
    const Buffer *buffer; /* of a pointer */
    bool written, alone;  /* of memory; alone: overlaps that of no other pointer */
    const Term *address;  /* of an operand, or of the weights of rows; NULL: absent */
    size_t offset;        /* of scratch memory, in the arena */
    long number;
    const ScheduleUnit *product; /* over dispatched rows */
} Param;

/* The loops of a kernel, or of the store of a template. */
typedef struct LoopKernel {
    KernelForm form;
    const struct Entry *entry; /* NULL: of the optimizer */
    const Target *target;      /* the host runs one kernel of a GPU program */
    List params;               /* Param *; empty for a store */
    List statements;           /* const Statement *: the equations that it computes */
    Launch launch;
    bool bounded; /* its text has the bounds of its launch */
    bool inside;  /* part of a kernel that calls templates */

    /* of the last check: see module_changed */
    uint64_t state;
    bool changed;
    List accesses; /* Operand *: whole buffers, in order */
} LoopKernel;

/* ---- GPU kernels that call templates of runtime/kernels ---- */

/* A class or function with its arguments: "MoecTileStored<128, 64, true>". */
typedef struct TemplateInstance {
    const char *name;
    List arguments; /* TemplateArgument * */
} TemplateInstance;

/* A number or truth value, another template, or a type. */
typedef struct TemplateArgument {
    const Term *value;
    const TemplateInstance *template;
    TermType type;
} TemplateArgument;

/* A class of constants, the argument of several templates. */
typedef struct TemplateOptions {
    const char *name;
    FormBlock constants; /* lets */
    List statements;     /* the equations of the kernels that use it */
} TemplateOptions;

/* The use of an element of a template's result: an object of a class with these fields, or a
 * function of the row, the column and the sum; of `width` adjacent sums; of a further sum. */
typedef struct TemplateStore {
    const TemplateInstance *object;         /* or a function around that function; or NULL */
    List fields;                            /* const Term * */
    LoopKernel *loops;                      /* of the function, or NULL */
    const Term *row, *column, *sum, *other; /* sum: NULL: a function of the row and the column */
    const Term *result;                     /* which returns this, or NULL */
    int width;
} TemplateStore;

/* A call of a template by some blocks of a kernel. */
typedef struct TemplateCall {
    const Term *blocks; /* their condition; NULL: all others */
    const TemplateInstance *function;
    List arguments; /* const Term *; NULL: the next store */
    List stores;    /* TemplateStore * */
} TemplateCall;

/* One of the variants of a kernel. */
typedef struct TemplateVariant {
    const char *ending; /* of its name */
    const char *bounds; /* of its launch, a constant; NULL: */
    int threads;        /* of its single block per multiprocessor */
    List params;        /* Param * */
    /* A function that computes a row in shared memory, before the calls; its name, the row. */
    const LoopKernel *prologue; /* or NULL */
    const Term *make_row, *row;
    List calls; /* TemplateCall *: each block executes one */
} TemplateVariant;

typedef struct TemplateKernel {
    const char *name;
    List statements; /* const Statement *: of its stores */
    List variants;   /* TemplateVariant *; those after the first need warpgroups */
    bool signals;    /* begins with moec_begin(); otherwise the template does so */
    bool joined;     /* the next kernel has the same options */
    int first_line;  /* parameters in the first line of its text; 0: as many as fit */
} TemplateKernel;

/* ---- host steps ---- */

typedef enum Access {
    ACCESS_READ = MOEC_STEP_READS,
    ACCESS_WRITE = MOEC_STEP_WRITES,
    ACCESS_ADD = MOEC_STEP_ADDS
} Access;

/* Memory that a host step accesses, from an element on. */
typedef struct Operand {
    const Buffer *buffer;
    const Term *address; /* "x + 64 * i"; of a position: its value */
    Access access;
} Operand;

typedef enum Condition {
    FIRST_MICRO_BATCH = MOEC_WHEN_FIRST_MICRO_BATCH,
    LAST_MICRO_BATCH = MOEC_WHEN_LAST_MICRO_BATCH,
    FORWARD_PART = MOEC_WHEN_FORWARD_PART,
    BACKWARD_PART = MOEC_WHEN_BACKWARD_PART
} Condition;

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
    List variants;  /* MoecKernelVariant *; the host selects the fastest one; empty: there is one */
    List written;   /* Written *, with variants */
    List matrices;  /* Matrix *, the same */
} LaunchStep;

/* A dense product. Its operands are a, b, c, then those of its epilogue: add, bias, kept; then the
 * scales of a and of b. */
typedef struct ProductStep {
    int row;         /* of the table */
    bool begins;     /* the next row in the first micro-batch of a step */
    List first;      /* const char *: indices of the summed loops around it: all are 0 in `row` */
    int more;        /* row of their other iterations */
    const char *own; /* kernel for hosts without a library, or NULL */
    long blocks;     /* of this kernel */
    bool epilogue;
    bool beside; /* shares a call with the previous step */
} ProductStep;

/* An argument of a call, or a field of a record: a number, a name or an address; or another record
 * or an array. */
typedef struct HostValue {
    const char *field; /* its name, or NULL */
    const Term *term;  /* or NULL: */
    const char *type;  /* of a record or array; NULL: that of the field */
    List values;       /* HostValue * */
    bool address;      /* its address */
    bool line;         /* begins a line of the text */
} HostValue;

/* A field of a record of a device: bytes of a number or address in it, and of an item of an array
 * whose items are set one by one. */
typedef struct DeviceField {
    const char *name;
    size_t offset, bytes, row;
} DeviceField;
#define DEVICE_FIELD(type, name, scalar, row)                                                      \
    { #name, offsetof(type, name), sizeof(scalar), row }

/* A variable of the host program, or a constant. */
typedef struct HostRecord {
    const char *type, *name;
    List values;               /* HostValue * */
    const DeviceField *fields; /* of a record of a device; ends with a NULL name */
    size_t bytes;              /* of such a record */
} HostRecord;

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
    STEP_CALL,    /* a hand-written kernel of the host, or an exchange: inputs and outputs of its
                     statement */
    STEP_SCOPE,   /* its body with a variable */
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
            const char *function;
            List values;                  /* HostValue * */
            const MoecExchange *exchange; /* between processes, begins here; or NULL */
            const struct HostStep *begun; /* ends the exchange of this step */
        } call;
        const HostRecord *record;
        struct {
            const Buffer *buffer; /* NULL: the gradients, or the arena, from `offset` on */
            bool scratch;         /* the arena */
            size_t offset, bytes;
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

/* An array of the optimizer step. */
typedef struct UpdateArray {
    const Tensor *tensor;
    const char *name;
    int index; /* in `scalars` or `states` */
} UpdateArray;

/* The part of a parameter block that belongs to one parameter. */
typedef struct UpdateShare {
    const Tensor *tensor;
    long block; /* the first one that updates it */
    size_t first;
    long count;
    int group;
} UpdateShare;

/* The optimizer: the step of one parameter; the learning-rate factor, a function of the host. */
typedef struct Update {
    List statements, rate_statements; /* const Statement *: equations of both */
    LoopKernel *step, *rate;
    List arrays, rate_arrays; /* UpdateArray *: in use */
    List scalars, states;     /* Tensor *: the inputs of the step */
    int groups;
    float *settings; /* [groups, scalars] */
    /* on a GPU: one kernel over all parameters */
    List shares; /* UpdateShare * */
    long each;   /* elements per block; 0: one block per parameter */
    long blocks;
} Update;

/* A part of a text: one of these, or an empty line. */
typedef struct Section {
    const LoopKernel *kernel;
    const TemplateKernel *template;
    const TemplateOptions *constants;
    const Entry *entry;       /* the function that runs a program */
    const HostRecord *record; /* a constant of the host program */
    const Update *update;
    const ExternCall *external; /* its function in a file of another language */
    bool ends;                  /* the last section of a piece: see MoecPiece */
    int number;                 /* of the kernel in the piece */
} Section;

/* A constant of a text: the size of an axis. */
typedef struct SizeConstant {
    const Axis *axis;
    const char *name;
    bool of_kernels; /* used by kernels, not only by their launches */
} SizeConstant;

/* The constant of an axis, or NULL. */
SizeConstant *size_constant(const List *sizes, const Axis *axis);

/* All programs of one text, and their common parts. */
typedef struct Module {
    Arena *arena;
    Hosting hosting;
    bool apart;         /* kernels are in a separate text */
    Program **programs; /* with that of the optimizer */
    int program_count;
    List entries;           /* Entry *: the other ones */
    List kernels;           /* LoopKernel *: all loops, for the passes */
    List functions, device; /* Section *: of the text with the table, of the kernels of a GPU */
    List device_kernels;    /* char *: the names of the kernels of a GPU, by number */
    List products;          /* Product * */
    List externs;           /* const ExternCall *: one for each function */
    List own_products;      /* MoecOwnProduct *: by number of the product */
    List sizes;             /* SizeConstant * */
    bool plain;             /* sizes are numbers */
    BlockLayout weights, states;
    BlockLayout packed;   /* inference: the copies of weights */
    const Update *update; /* or NULL */
    int *groups;  /* of parameters, by index in weights: see MoecUpdate.own; NULL without update */
    Type rounded; /* type of the compute weights of a program; TYPE_REAL: none */
    Launch rounding; /* on a GPU: of the kernel that sets them */

    unsigned properties; /* PassProperty: of the passes so far */
} Module;

/* The memory of all tensors of a program, and the steps that clear it; names: by tensor->id. */
Entry *entry_new(const Module *module, const Schedule *schedule, const char *const *names);

/* ---- flatten.c ---- */

/* The host program of an entry as arrays in `arena`; one launch, that of the optimizer or of the
 * conversion of weights. Its operands are the weights, the gradients, the converted weights and, as
 * inputs, the states of the optimizer and then its scalars. The module stays the same. */
const MoecSteps *entry_steps(Arena *arena, const Module *module, const Entry *entry);
const MoecSteps *update_steps(Arena *arena, const Module *module);
const MoecSteps *rounding_steps(Arena *arena, const Module *module);

/* ---- export_table.c: the constants that a text exports, without functions ---- */

/* The tensors of that role, in order. */
List tensors_with(Arena *arena, const Program *program, Role role);
/* The names of the axes of a tensor: "b,s,d". */
const char *axis_names(Arena *arena, const Tensor *tensor);
MoecType table_type(Type type);
MoecProduct table_product(const Product *product);
/* The number of a GPU kernel; the number of kernels if the module does not have it. */
int device_kernel_number(const Module *module, const char *kernel);
/* A table in `arena` for programs alone; for a module. */
MoecTable *tensors_table(Arena *arena, Program *const *programs, int count,
                         const BlockLayout *weights, const BlockLayout *states);
MoecTable *module_table(Arena *arena, const Module *module);

/* ---- rate.c ---- */

/* The learning-rate factor of an optimizer, in `arena`. */
typedef struct RateProgram RateProgram;
const RateProgram *rate_program(Arena *arena, const Update *update);
/* At zero-based `step` of `steps`: every operation rounds to f32. */
double rate_value(const RateProgram *rate, double step, double steps);

/* ---- plain_memory.c ---- */

/* Of a freestanding program. */
typedef struct PlainMemory {
    size_t
        *first; /* by tensor->id: index of the first element of a constant; byte in the temporaries
                      of an output that is_logits does not name */
    bool wide;  /* its integers need 64 bits on every machine */
} PlainMemory;

/* Whether an output is the one that such a program returns. */
bool is_logits(const Tensor *tensor);
/* Reports the first part of a module that freestanding C does not support. */
void refuse_freestanding(const Module *module, Reports *reports);
/* Sets everything but the text. */
PlainMemory plain_memory(Arena *arena, const Module *module, MoecFreestanding *result);

/* ---- equation_text.c ---- */

/* `file.moe:12` of a span, or an empty text; no character needs an escape in a C text. */
const char *source_line(Arena *arena, Span span);

/* The first line of a statement, with its line in the source: "y[s] = 2 * x[s] -- file.moe:12". */
const char *equation_text(Arena *arena, const Statement *statement);
/* Adds an instance of a template: "MoecTileStored<128, 64, true>". */
void add_template_text(Text *text, const TemplateInstance *template);

/* ---- module_check.c ---- */

typedef enum FaultKind {
    FAULT_SCOPE,    /* scopes and types of a kernel: see form_check.c */
    FAULT_BOUNDS,   /* an element outside of its array */
    FAULT_WRITER,   /* several threads store to one element */
    FAULT_BARRIER,  /* none between a store and the access of another thread, or not for all */
    FAULT_LIFETIME, /* memory in use by another buffer */
    FAULT_FLOW,     /* read before it is written */
    FAULT_EXCHANGE, /* an access to its memory while it runs; a begin without its end */
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
