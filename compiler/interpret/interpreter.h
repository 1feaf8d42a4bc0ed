/* interpreter: declarations shared by the files of the interpreter. interpreter.c runs statements,
 * interpret_expr.c expressions, interpret_whole.c integer expressions, compiler/calls calls,
 * interpret_round.c rounding of operands. */
#ifndef INTERPRETER_H
#define INTERPRETER_H

#include "passes.h"

/* Expressions are computed for up to STRIP values of one loop at a time. */
enum { STRIP = 64, MAX_REPEATS = 8, MAX_SLOTS = MAX_REPEATS + MAX_LOOPS };

typedef struct EvalNode EvalNode;
typedef struct FaultLog FaultLog;
typedef struct PreparedStatement PreparedStatement;

/* Selections in the order of the run: a mark per entry, and the margin per row between the smallest
 * selected value and the largest other one. */
typedef struct Choices {
    bool *chosen;
    double *margins;
    size_t chosen_count, margin_count, chosen_capacity, margin_capacity;
    bool tied;      /* a selected position and another one have equal values */
    size_t *starts; /* of each call: the number of marks before it */
    size_t start_count, start_capacity;
} Choices;

/* A comparison of two values, or a rounding down: their difference, or the value; the result as a
 * number; the distance to another result. */
typedef struct MaskDecision {
    double value, side, margin;
} MaskDecision;

typedef struct Decisions {
    MaskDecision *items; /* in the order of the run */
    size_t count, capacity;
} Decisions;

struct Interpreter {
    Arena *arena;
    Program *program;
    double **real;            /* by tensor; NULL for integers */
    long **ints;              /* by tensor; NULL for reals */
    PreparedStatement *steps; /* the body, prepared */
    Interpreter *prepares;    /* of program->prepare, or NULL */
    uint64_t seed;
    bool last_micro_batch;
    const Index *slots[MAX_SLOTS]; /* the indices in scope: repeat indices, then the loops of one
                              statement */
    int slot_count;
    long at[MAX_SLOTS];  /* their values */
    int running;         /* the slot of the loop of a strip, or -1 */
    const char *message; /* the reason why the run stopped */
    double noise;        /* values are perturbed by up to this share of themselves */
    double sum_noise;    /* the same for the partial results of a sum */
    uint64_t noise_seed, noise_count;
    bool fresh;       /* the noise of a value does not depend on the value */
    bool single;      /* values are rounded to f32 instead */
    FaultLog *faults; /* of values that are not finite, or NULL */
    int way;          /* variant of bf16 rounding of product operands, from 1; 0: none */
    Choices choices;
    const Choices *followed; /* the selections of another evaluation to repeat; NULL: its own */
    /* see interpret_decision.c. By tensor id: values that do not change in steps alone; a mask
     * depends on them */
    bool *smooth, *decisive;
    bool deciding; /* the statement that is being prepared defines a mask */
    Decisions decisions;
    Interpreter *const *ranks; /* the processes of a mesh, this one included; NULL: it is alone */
    int rank_count;
};

/* A subscript that is neither a plain index nor a number. */
typedef struct EvalSub {
    EvalNode *value;
    long stride, size;
} EvalSub;

/* An element of a tensor: base + sum of stride * at[slot] + sum of stride * value. */
typedef struct ElementAddress {
    bool rounds; /* to bf16 when it is stored */
    double *real;
    long *ints;
    long base;
    int plain_count, computed_count;
    int slot[MAX_RANK];
    long stride[MAX_RANK];
    EvalSub computed[MAX_RANK];
} ElementAddress;

struct EvalNode {
    ExprKind kind;
    const Expr *expr;
    double scale; /* a factor of a product that rounds: see interpret_round.c; 0: any other */
    OpCode op;
    int slot; /* of an index */
    int count;
    bool whole;     /* computed in integers */
    bool decides;   /* its results are decisions */
    EvalNode *real; /* of an integer: the real that it is computed from, or NULL */
    EvalNode *args[3];
    ElementAddress address;
    union {
        double out[STRIP];
        int64_t whole_out[STRIP]; /* of an integer */
    };
};

/* A prepared statement. Loops are ordered: those that the target uses, then the reduced ones. */
struct PreparedStatement {
    const Statement *statement;
    PreparedStatement *next, *body;
    int first_slot, loop_count, outer_count;
    const Index *loops[MAX_LOOPS];
    long sizes[MAX_LOOPS]; /* of the loops, in the current run of the statement */
    ElementAddress target;
    EvalNode *value;
};

/* Checks the inputs and clears temporaries: the beginning of a run; false after a message. */
bool interpreter_begin(Interpreter *interpreter, uint64_t seed, bool last_micro_batch);
/* Runs a statement; the body of a repeat or scan for all its iterations. */
void interpreter_step(Interpreter *interpreter, PreparedStatement *step);

EvalNode *interpreter_prepare(Interpreter *interpreter, const Expr *expr);
/* Prepares an integer expression for interpreter_whole_strip. */
EvalNode *interpreter_prepare_whole(Interpreter *interpreter, const Expr *expr);
void interpreter_prepare_address(Interpreter *interpreter, ElementAddress *address,
                                 const Expr *read);
/* The values of a prepared expression at at[running] .. at[running] + count - 1. */
const double *interpreter_strip(Interpreter *interpreter, EvalNode *node, int count);
const int64_t *interpreter_whole_strip(Interpreter *interpreter, EvalNode *node, int count);
/* The offsets of a prepared element there; -1 if a subscript is outside of its axis. */
void interpreter_offsets(Interpreter *interpreter, ElementAddress *address, int count,
                         long *offsets);

/* Before statements are prepared: finds the comparisons that masks depend on. */
void interpreter_find_decisions(Interpreter *interpreter);
bool interpreter_decides(const Interpreter *interpreter, const Statement *statement);
bool interpreter_is_decision(const Interpreter *interpreter, const Expr *expr);
void interpreter_decide(Interpreter *interpreter, const EvalNode *node, const double *const args[3],
                        int count);

/* An operand of a call: the dimensions that iterate, at the current steps. */
typedef struct View {
    double *real;
    long *ints;
    int rank;
    const Index *index[MAX_RANK];
    long size[MAX_RANK], stride[MAX_RANK];
} View;

View interpreter_view(Interpreter *interpreter, const Expr *operand);

/* Adds noise to values, or to the results of a call. */
void interpreter_disturb(Interpreter *interpreter, double *values, int count);
void interpreter_disturb_sum(Interpreter *interpreter, double *sum);
void interpreter_disturb_results(Interpreter *interpreter, const Statement *call);
/* Before a value that is not finite is stored: notes its fault. The slots have the values of its
 * element, none of them runs. `computed`: the value, before it is added to the element or rounded
 * to the type of the tensor. */
void interpreter_note_fault(Interpreter *interpreter, PreparedStatement *step, long offset,
                            double computed);
/* The same for a value that is finite. */
void interpreter_note_finite(Interpreter *interpreter, const Tensor *tensor, long offset);
/* The same for the results of a call. */
void interpreter_note_call(Interpreter *interpreter, const Statement *call);
/* Whether the run can end: the loss is computed and is not finite. */
bool interpreter_fault_known(const Interpreter *interpreter);

/* Rounds to bf16: 8 bits of mantissa, to nearest, ties to even. */
double interpreter_round(double value);
void interpreter_round_all(double *to, const double *from, size_t count);
/* Rounds a parameter to the type of `tensor`, which has matrices, in its order. */
void interpreter_round_matrices(double *to, const double *from, const Tensor *tensor);
/* Rounds to TYPE_INT8. */
void interpreter_round_groups(double *to, const double *from, size_t count);
/* The same at a scale: see interpret_round.c. */
double interpreter_round_at(double value, double scale);
void interpreter_round_all_at(double *to, const double *from, size_t count, double scale);
double interpreter_round_scale(const Interpreter *interpreter, int index);

#endif
