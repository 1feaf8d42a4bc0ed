/* call: the properties and hooks of an operation with a kernel of its own. A stage asks the row of
 * a statement, Statement.row, and names no operation. The rows are in compiler/calls, in the order
 * of call.def; the driver stores their table in each program. Every row sets every member. */
#ifndef CALL_H
#define CALL_H

#include "base/must.h"
#include "ir/ir.h"

typedef struct Backward Backward;
typedef struct Decode Decode;
typedef struct Elaborator Elaborator;
typedef struct EntryLowering EntryLowering;
typedef struct Interpreter Interpreter;
typedef struct Node Node;
typedef struct Region Region;
typedef struct Value Value;
typedef struct Verify Verify;

struct ScheduleUnit;

/* A function of the language that adds the call to an equation. */
typedef struct CallFunction {
    const char *name, *form, *meaning, *example, *result; /* documentation: editor/functions.def */
    /* Checks the arguments, adds the statement, returns its result: see elaborate/elaborate.h. */
    Value *(*call)(Elaborator *elaborator, const Node *node, const Node *subs);
} CallFunction;

struct CallRow {
    const char *name;  /* in a printed program */
    const char *kind;  /* in the JSON of `moec explain` */
    const char *title; /* in its table */
    bool has_body;     /* runs its body for every position of an axis: a recurrence */
    bool selects;      /* marks the largest values, as statement->top specifies */
    bool fuses_store;  /* the store of its first result can compute other statements */
    bool recomputed;   /* the backward pass may compute its results again instead of saving them */
    bool exchanges;    /* runs once for all processes of a mesh: see interpret_mesh.c */
    const char *form;  /* name of the form of a program with this call; NULL: none */
    double backward;   /* floating-point operations of its gradient per operation of its own */

    CallFunction function; /* {NULL}: only passes create the call */

    /* Checks the counts, shapes and types of its operands: see well_formed.h. Never NULL. */
    void (*check)(Verify *verify, const Statement *statement);
    /* Appends its options to the list of its operands: "; k = 2". Never NULL. */
    void (*print)(Text *text, const Statement *statement);
    /* Floating-point operations of one run; NULL: none. */
    double (*flops)(const Program *program, const Statement *statement);

    /* Sets the index along which it combines positions of its operands, and the index of the
     * position that a result is for, if it has one; NULL: it computes each position alone. */
    void (*along)(const Statement *statement, const Index **here, const Index **there);
    /* True if the result at one position reads the operands at another; NULL: at all of them. */
    bool (*sees)(const Statement *statement, long here, long there);
    /* For reads of later positions of the axis %s: a description and a help line, or NULL. */
    const char *ahead, *remedy;
    /* The dimension of an input that is summed over in a product, -1: it is added to a term; NULL:
     * its operands are neither. */
    int (*sums)(const Statement *statement, int input);

    /* The definition: computes the results in double precision; NULL: the body defines them. */
    void (*interpret)(Interpreter *interpreter, const Statement *statement);
    /* Appends the backward pass of the call; NULL: no gradient passes it. */
    void (*gradient)(Backward *backward, const Statement *statement);
    /* Makes the call read the caches of a decoding step; NULL: it is the same for new positions. */
    void (*decode)(Decode *decode, Statement *statement, const Region *region);
    /* Sets the types of the caches that it reads and adds their scales as operands; NULL: none. */
    void (*store_caches)(Decode *decode, Statement *statement);

    /* True if an output is a sum over the leading dimensions of the inputs that it lacks; NULL:
     * none is. */
    bool (*adds_up)(const Statement *statement, int output);

    /* The operands that it rounds to bf16 and that may be stored so: a bit for each input, then for
     * each output; NULL: none. */
    unsigned (*rounds)(const Program *program, const Statement *statement);

    /* True if a GPU kernel of the call can compute an element of its first input where it reads it,
     * and store new rows of the two inputs after it, which are caches; NULL: none can. */
    bool (*fuses_operands)(const Program *program, const Statement *statement);

    /* Adds its kernels and host steps for the target of the module. Never NULL. */
    void (*lower)(EntryLowering *lowering, const struct ScheduleUnit *unit);
};

/* The dimensions of an operand that iterate, without those fixed by repeat indices and numbers. */
typedef struct CallShape {
    int rank;
    const Index *index[MAX_RANK];
    long size[MAX_RANK];
} CallShape;

CallShape call_shape(const Expr *operand);
/* Size of the dimension number `back` from the end (the last is 1); of all dimensions before the
 * last `own` together. */
long size_at(const CallShape *shape, int back);
long leading_size(const CallShape *shape, int own);

/* Of a hand-written kernel: the size with this number; the product of the dimensions before the
 * named ones. */
long extern_size(const Statement *statement, int number);
long extern_rows(const Statement *statement);
/* At the sizes of the statement. */
long extern_product(const Statement *statement, const ExternProduct *product);

static inline const Expr *call_input(const Statement *call, int number) {
    MUST(number >= 0 && number < call->inputs.count);
    return call->inputs.items[number];
}

static inline const Expr *call_output(const Statement *call, int number) {
    MUST(number >= 0 && number < call->outputs.count);
    return call->outputs.items[number];
}

/* The number of operands of an attention before the position, or before o, lse and do. */
int attend_operands(const AttendOptions *options);
/* The index of the document ids among the inputs of an attention that has them. */
int attend_document(const AttendOptions *options);
/* The same for the chosen pairs; the bias; for the scales of keys (0) or values (1). */
int attend_chosen(const AttendOptions *options), attend_bias(const AttendOptions *options);
int attend_scale(const AttendOptions *options, int which);

#endif
