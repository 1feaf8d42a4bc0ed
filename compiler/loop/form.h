/* form: the lowered form of a kernel, between its schedule and its text: a small loop language.
 *
 *     for iteration in block() .. 8, step blocks()
 *         let long b = iteration / 4
 *         for s in thread() .. 64, step threads()
 *             y[b * 64 + s] = x[b * 64 + s] * scale[s]
 *         barrier
 *
 * Terms are values and addresses (term.h), nodes are statements. The form therefore answers if a
 * name is used, if two values are equal, or if a barrier exists; no pass searches a text.
 */
#ifndef FORM_H
#define FORM_H

#include "loop/term.h"
#include "schedule/map.h"

#include <stdint.h>

/* ---- nodes ---- */

typedef enum FormKind {
    FORM_FOR,     /* from values[0] up to values[1], step values[2] or 1, while values[3] if any */
    FORM_LET,     /* name = values[0], or without a value; an array if it has a size */
    FORM_SET,     /* values[0] = values[1], or their reduction by `reduces` */
    FORM_IF,      /* values[0] */
    FORM_SCOPE,   /* its body, with its own names */
    FORM_GROUP,   /* a loop that threads of a block share, and the combination of their results */
    FORM_BARRIER, /* of the threads of a block */
    FORM_DO       /* values[0], a call for its effect */
} FormKind;

/* Execution of the iterations of a loop: sequential, or as follows. */
typedef enum FormRun {
    RUN_PARALLEL = 1, /* by threads, a chunk each */
    RUN_VECTOR = 2,   /* in vector lanes */
    RUN_UNROLLED = 4, /* unrolled */
    RUN_ROLLED = 8    /* not unrolled */
} FormRun;

/* Readers of a value stored in the shared memory of a block. */
typedef enum FormSeen {
    SEEN_ALONE,   /* only the thread that stored it */
    SEEN_LATER,   /* other threads, after the loop that they share */
    SEEN_AT_ONCE, /* other threads, from here on: one of them stores for all */
} FormSeen;

/* Position of the body of a loop or condition. */
typedef enum FormLayout { IN_BRACES, ON_NEXT_LINE, ON_SAME_LINE } FormLayout;

typedef struct FormNode FormNode;

typedef struct FormBlock {
    FormNode *first, *last;
    struct FormBlock *outer; /* the block that continues after this one */
} FormBlock;

enum { NODE_VALUES = 4 };

struct FormNode {
    FormKind kind;
    const Term *name;
    long rows, size; /* of an array; rows: of a two-dimensional one */
    const Term *values[NODE_VALUES];
    bool constant;     /* of a let: not set later */
    bool joined;       /* of a let: in the declaration of the let before it */
    Reduction reduces; /* of a set: reduction of the stored value and the new one, or REDUCE_NONE;
                          of the let of a sum: its reduction */
    bool scatters;     /* of a store: other iterations of the innermost loop may store to the same
                          element */
    FormSeen seen;     /* of a store, or of its condition */
    bool stores;       /* of a set: to memory, or to a row of the kernel */
    bool again;        /* of a store: other nodes of the kernel access the memory */
    bool shared;       /* of an array: in the shared memory of the block */
    bool rounds;       /* of a store: as bf16 */
    bool optional;     /* a let that is removed if no later node uses the name */
    bool head;         /* a let before all other nodes of an iteration: its coordinates, its local
                          rows */
    bool is_part;      /* of a let: for a part of the terms of a sum */
    bool independent;  /* of a loop: no two iterations access the same element or add to one sum */
    long iterations;   /* of a loop of the schedule; 0: of one that only moves results */
    bool beyond;       /* of a loop: skipped iterations up to `iterations` contribute zero */
    LoopBy by;         /* of a loop */
    int width;         /* of a loop: number of adjacent iterations at a time; 0: one */
    int run;           /* of a loop: FormRun values combined by |; 0: sequential */
    long alone;        /* a parallel loop is sequential up to this number of iterations; or 0 */
    FormLayout layout;
    FormBlock body;
    FormNode *next;
};

/* Names in use around a form. */
typedef struct Around {
    const char *const *tensors; /* some are NULL */
    int tensor_count;
    List others;                 /* const char * */
    const char *const *keywords; /* of the target: see target.h */
} Around;

/* The form of a kernel, or of the store of a template. */
typedef struct KernelForm {
    const char *name;
    double work;   /* operations */
    bool is_store; /* of a template, inside its loops */
    FormBlock block;
    Around around;
} KernelForm;

FormNode *form_add(Arena *arena, FormBlock *block, FormKind kind);
/* A sequential loop from 0 up to `count`. */
FormNode *form_add_loop(Arena *arena, FormBlock *block, TermType type, const char *name,
                        long count);
/* Inserts a new node after `before`; NULL: at the start. */
FormNode *form_insert(Arena *arena, FormBlock *block, FormNode *before, FormKind kind);
FormBlock form_copy(Arena *arena, const FormBlock *block);
/* Replaces a variable by another one, including in its declaration. */
void form_rename(Arena *arena, FormNode *first, const Term *name, const Term *by);
/* Replaces `part` by `by` from `first` on. */
void form_replace(Arena *arena, FormNode *first, const Term *part, const Term *by);
/* Moves the nodes of `body` after those of `block`. */
void form_append(FormBlock *block, FormBlock *body);
/* A number that changes with the nodes and terms of a block. */
uint64_t form_state(uint64_t hash, const FormBlock *block);
/* True if it contains a node with `wanted`, at any depth. */
bool form_has(const FormBlock *block, bool (*wanted)(const FormNode *node));
bool form_is_loop(const FormNode *node);
/* True if it contains a node that uses the name, at any depth. */
bool form_uses(const FormBlock *block, const Term *name);
/* The name of a let, with the sizes of an array: "power[64]". */
const char *declared_text(Arena *arena, const FormNode *let);
/* True if one of its direct nodes declares the name. */
bool form_declares(const FormBlock *block, const Term *name);

/* ---- parallel.c ---- */

/* Distributes the outermost loops among CPU threads. */
void parallel(Arena *arena, KernelForm *form, const Target *target);

/* ---- owners.c ---- */

/* The condition for the thread that stores the value of a column; from: the first of its block. */
const Term *column_owner(Arena *arena, const Term *from, const Term *column);
/* One thread stores a value that several threads hold. */
void owners(Arena *arena, KernelForm *form, const Target *target);

/* ---- shared.c ---- */

/* Puts rows that threads of a block share into shared memory. */
void shared_rows(Arena *arena, KernelForm *form, const Target *target);

/* ---- licm.c ---- */

/* Hoists loop-invariant values. */
void hoist(Arena *arena, KernelForm *form, const Target *target);

/* ---- cse.c ---- */

/* Names subexpressions that occur several times in a value. */
void name_common(Arena *arena, KernelForm *form, const Target *target);

/* ---- vectors.c ---- */

/* Vectorizes innermost loops if this is valid and the target requests it. */
void vectors(Arena *arena, KernelForm *form, const Target *target);

/* ---- split_blocks.c ---- */

/* Splits vectorized loops into blocks whose elements read one value. */
void split_blocks(Arena *arena, KernelForm *form, const Target *target);

/* ---- unroll.c ---- */

/* Unrolls the terms of a sum in a row. */
void unroll(Arena *arena, KernelForm *form, const Target *target);

/* ---- guards.c ---- */

/* Hoists loop-invariant conditions out of vectorized loops. */
void guards(Arena *arena, KernelForm *form, const Target *target);

/* ---- rolled.c ---- */

/* In a GPU kernel of short loops only, keeps loops that contain loops rolled. */
void rolled(Arena *arena, KernelForm *form, const Target *target);

/* ---- barriers.c ---- */

/* Adds barriers where a thread reads a value that another one stores. */
void barriers(Arena *arena, KernelForm *form, const Target *target);

/* ---- unused.c ---- */

/* Removes optional lets that are unused. */
void unused(Arena *arena, KernelForm *form, const Target *target);

/* ---- names.c ---- */

/* `wanted`, changed if C or a surrounding name uses it. */
const char *free_name(Arena *arena, const Around *around, const char *wanted);
/* Sets the name of each variable. */
void name_variables(Arena *arena, KernelForm *form, const Target *target);

/* ---- form_check.c ---- */

/* The first fault of a kernel, or NULL. */
const char *form_check(Arena *arena, const KernelForm *form);

/* ---- dump.c ---- */

/* Adds a form as printed by `moec dump`. */
void dump_form(Text *text, KernelForm *form);

#endif
