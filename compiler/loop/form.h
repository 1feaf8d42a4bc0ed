/* form: what a kernel does, between its schedule and its text: a small loop language.
 *
 *     for iteration in block() .. 8, step blocks()
 *         let long b = iteration / 4
 *         for s in thread() .. 64, step threads()
 *             y[b * 64 + s] = x[b * 64 + s] * scale[s]
 *         barrier
 *
 * Terms are values and places, nodes are statements. Names are terms of their own, so that whether
 * a name is used, whether two values are the same or whether a barrier stands there already are
 * questions to the form; nothing looks them up in a text. A variable of the form is one wherever it
 * stands; what it is called is found as it is written down (names.c).
 */
#ifndef FORM_H
#define FORM_H

#include "ir/ir.h"

/* ---- terms ---- */

typedef enum TermKind {
    TERM_NAME,   /* a variable of the form, or what `text` names: an array, a parameter */
    TERM_NUMBER, /* `text` as the targets spell it */
    TERM_APPLY   /* `text` with its arguments in the places of $0 .. $5: an operation of op.def, one
                    of whole numbers, an element "$0[$1]", a call of a template */
} TermKind;

enum { TERM_ARGUMENTS = 6 };

/* How tightly a term binds, loosest first; a name, a call or an element is whole. */
typedef enum TermLevel {
    LEVEL_LOOSE,
    LEVEL_CHOICE,
    LEVEL_EITHER,
    LEVEL_BOTH,
    LEVEL_BITS,
    LEVEL_EQUAL,
    LEVEL_LESS,
    LEVEL_ADDED,
    LEVEL_FACTORS,
    LEVEL_PREFIX,
    LEVEL_WHOLE
} TermLevel;

/* Declared by a node of the form. */
typedef struct Variable {
    const char *wanted, *name; /* name: what it is called, once names.c has said so */
    struct Variable *base;     /* it is called as this one with `wanted` behind; or NULL */
} Variable;

/* A value that may be found before the loops that do not change it: an element; what is computed of
 * some. */
typedef enum TermInvariant { NOT_FOUND_BEFORE, READ_ONCE, COMPUTED_ONCE } TermInvariant;

/* What a real value is: worth a name where it occurs more than once and takes some time. */
typedef enum TermValue { NO_VALUE, VALUE_READ, VALUE_SHORT, VALUE_LONG } TermValue;

typedef struct Term {
    TermKind kind;
    const char *text;
    Variable *variable; /* NULL: the name is fixed */
    TermLevel level;
    int count;
    const struct Term *args[TERM_ARGUMENTS];
    TermInvariant invariant;
    TermValue value;
    const char *constant;  /* of a number: what stands for it in a text; or NULL */
    const char *type, *of; /* of a variable for it: its type, the tensor that it is an element of */
} Term;

/* Operations that passes look for, each told from others by the address of its spelling: an
 * element, a sum, a product; a read that may lie outside of its tensor; what is true or not. */
extern const char term_element[], term_sum[], term_product[], term_guarded[], term_truth[];

const Term *term_name(Arena *arena, const char *name);
/* A new variable, called `wanted` where that is free; one called as `base` with an ending. */
const Term *term_variable(Arena *arena, const char *wanted);
const Term *term_variable_of(Arena *arena, const Term *base, const char *ending);
const Term *term_number(Arena *arena, const char *text);
const Term *term_whole(Arena *arena, long number);
/* The same, written as the constant of that name. */
const Term *term_constant(Arena *arena, long number, const char *name);
/* An operation on as many terms as its spelling has places. It has no parentheses around itself or
 * its terms: those follow from what binds how tightly when it is written. */
const Term *term(Arena *arena, const char *spelling, ...);
bool term_equal(const Term *a, const Term *b);
bool term_is_zero(const Term *term); /* the number 0 */
bool term_uses(const Term *term, const Term *name);
/* The same, marked for licm.c and for cse.c. */
const Term *term_invariant(Arena *arena, const Term *term, TermInvariant invariant,
                           const char *type, const char *of);
const Term *term_value(Arena *arena, const Term *term, TermValue value, const char *of);
/* The term with `by` wherever `part` stands in it. */
const Term *term_replace(Arena *arena, const Term *term, const Term *part, const Term *by);
/* What is stored into by a place: "x" of "x[i]" and of "&x[i]". */
const Term *term_stored(const Term *place);
/* How often `part` stands in it. */
int term_count(const Term *term, const Term *part);
/* How many operations are in it. */
int term_operations(const Term *term);
/* a * size + b, as far as they are not 0. */
const Term *term_offset(Arena *arena, const Term *a, const Term *size, const Term *b);
const char *term_text(Arena *arena, const Term *term);

/* ---- nodes ---- */

typedef enum FormKind {
    FORM_FOR,     /* name from values[0] up to values[1], step values[2] or 1 */
    FORM_LET,     /* type name = values[0], or without a value; an array where it has a size */
    FORM_SET,     /* values[0] becomes values[1], or joins it as `reduces` says */
    FORM_IF,      /* values[0] */
    FORM_SCOPE,   /* its body, whose names are its own */
    FORM_GROUP,   /* a loop that threads of a block share, and what they make of it together */
    FORM_BARRIER, /* of the threads of a block */
    FORM_DO       /* values[0], a call for its effect */
} FormKind;

/* Who runs the iterations of a loop: one after the other, or as these say. */
typedef enum FormRun {
    RUN_PARALLEL = 1, /* threads, a part each */
    RUN_VECTOR = 2,   /* side by side in the lanes of vectors */
    RUN_UNROLLED = 4, /* written out */
    RUN_ROLLED = 8    /* not written out */
} FormRun;

/* Which threads of a device share out the iterations of a loop. */
typedef enum FormBy {
    BY_ONE,      /* none: whoever runs what is around it */
    BY_ALL,      /* those of all blocks, each alone */
    BY_BLOCKS,   /* a block one iteration; its threads share what is inside */
    BY_COLUMNS,  /* a block 32 neighbouring ones, each several threads that share what is inside */
    BY_THREADS,  /* those of a block */
    BY_COLUMN,   /* those of a block that have the same column */
    BY_THE_FIRST /* the first of a block alone */
} FormBy;

/* Who looks at what a store leaves in memory that threads of a block share. */
typedef enum FormSeen {
    SEEN_ALONE,   /* the thread that stored it */
    SEEN_LATER,   /* others, after the loop that they share */
    SEEN_AT_ONCE, /* others, from here on: one of them stores for all */
} FormSeen;

/* How the body of a loop or a condition stands behind it. */
typedef enum FormLayout { IN_BRACES, ON_NEXT_LINE, ON_SAME_LINE } FormLayout;

typedef struct FormNode FormNode;

typedef struct FormBlock {
    FormNode *first, *last;
    struct FormBlock *outer; /* the one that is written on when this one ends */
} FormBlock;

struct FormNode {
    FormKind kind;
    const char *type, *text;
    const Term *name;
    long rows, size; /* of an array; rows: of one with two dimensions */
    const Term *values[3];
    Reduction reduces; /* of a set: what is there joins the value in this way, or REDUCE_NONE; of
                          the let of a sum: how it is summed */
    bool scatters;     /* of a store: other iterations of the innermost loop may store there, too */
    FormSeen seen;     /* of a store, or of the condition around it */
    bool stores;       /* of a set: into memory, or the row of a kernel */
    bool again;        /* of a store: something else in the kernel touches that memory, too */
    bool shared;       /* of an array: in the memory that threads of a block share */
    bool rounds;       /* of a store: as bf16 */
    bool optional;     /* a let that goes when nothing behind it uses the name */
    bool head;         /* a let that comes before all else of an iteration: where that stands, what
                          it keeps its rows in */
    const char *sum_of; /* of a let that a sum is kept in: the tensor */
    bool is_part;       /* of a let: for some of the terms of a sum */
    bool independent;   /* of a loop: no two iterations touch the same element, or add to one sum */
    long iterations;    /* of a loop of the schedule; 0: of one that only moves results */
    bool beyond;        /* of a loop: those up to `iterations` that it leaves out add nothing */
    FormBy by;          /* of a loop */
    int width;          /* of a loop: so many neighbouring iterations at a time; 0: one */
    int run;            /* of a loop: FormRun values joined by |; 0: one after the other */
    long alone;         /* a loop that runs in parallel does so beyond so many iterations; or 0 */
    FormLayout layout;
    FormBlock body;
    FormNode *next;
};

/* Names that mean something around a form. */
typedef struct Around {
    const char *const *tensors; /* some are NULL */
    int tensor_count;
    List others; /* const char * */
} Around;

/* What a kernel, or the store of a template, does. */
typedef struct KernelForm {
    const char *name;
    double work;   /* operations */
    bool is_store; /* of a template, within its loops */
    FormBlock block;
    Around around;
} KernelForm;

FormNode *form_add(Arena *arena, FormBlock *block, FormKind kind);
/* A serial loop from 0 up to `count`. */
FormNode *form_add_loop(Arena *arena, FormBlock *block, const char *name, long count);
/* Puts a new node behind `before`, which may be NULL: at the beginning. */
FormNode *form_insert(Arena *arena, FormBlock *block, FormNode *before, FormKind kind);
FormBlock form_copy(Arena *arena, const FormBlock *block);
/* The same variable by another name, where it is declared, too. */
void form_rename(Arena *arena, FormNode *first, const Term *name, const Term *by);
/* `by` wherever `part` stands from `first` on. */
void form_replace(Arena *arena, FormNode *first, const Term *part, const Term *by);
/* Moves the nodes of `body` behind those of `block`. */
void form_append(FormBlock *block, FormBlock *body);
/* Some node in it is wanted, however deep. */
bool form_has(const FormBlock *block, bool (*wanted)(const FormNode *node));
bool form_is_loop(const FormNode *node);
/* Some node in it uses the name, however deep. */
bool form_uses(const FormBlock *block, const Term *name);
/* Some node of it, not of what is inside those, names a value so. */
bool form_declares(const FormBlock *block, const Term *name);

/* ---- passes.c ---- */

/* The passes over the form of a kernel, in their order; `moec dump --after NAME` shows each. */
typedef struct FormPass {
    const char *name;
    void (*run)(Arena *arena, KernelForm *form, const Target *target);
} FormPass;

extern const FormPass form_passes[];
extern const int form_pass_count;

/* The pass of that name over all forms. */
void form_pass(Arena *arena, const List *forms, const char *name, const Target *target);

/* ---- parallel.c ---- */

/* Threads of a processor share out the outermost loops. */
void parallel(Arena *arena, KernelForm *form, const Target *target);

/* ---- owners.c ---- */

/* What several threads have at hand, one of them stores. */
void owners(Arena *arena, KernelForm *form, const Target *target);

/* ---- shared.c ---- */

/* Rows that threads of a block share out lie in the memory that they share. */
void shared_rows(Arena *arena, KernelForm *form, const Target *target);

/* ---- licm.c ---- */

/* What a loop does not change is found before it. */
void hoist(Arena *arena, KernelForm *form, const Target *target);

/* ---- cse.c ---- */

/* What occurs more than once in a value gets a name. */
void name_common(Arena *arena, KernelForm *form, const Target *target);

/* ---- vectors.c ---- */

/* The iterations of innermost loops run side by side where they may and the target asks for it. */
void vectors(Arena *arena, KernelForm *form, const Target *target);

/* ---- unroll.c ---- */

/* A sum kept in a row takes several of its terms at a time. */
void unroll(Arena *arena, KernelForm *form, const Target *target);

/* ---- guards.c ---- */

/* What is the same in all lanes of a vector loop is asked before it. */
void guards(Arena *arena, KernelForm *form, const Target *target);

/* ---- rolled.c ---- */

/* A kernel of a device that is nothing but short loops keeps those that hold loops. */
void rolled(Arena *arena, KernelForm *form, const Target *target);

/* ---- barriers.c ---- */

/* Threads wait for each other where one looks at what another one stores. */
void barriers(Arena *arena, KernelForm *form, const Target *target);

/* ---- unused.c ---- */

/* Drops what is optional and not used. */
void unused(Arena *arena, KernelForm *form, const Target *target);

/* ---- names.c ---- */

/* `wanted`, changed where C has the name already or something around does. */
const char *free_name(Arena *arena, const Around *around, const char *wanted);
/* Says what each variable is called. */
void name_variables(Arena *arena, const KernelForm *form);

/* ---- dump.c ---- */

/* KernelForm * as `moec dump` shows them. */
const char *dump_forms(Arena *arena, const List *forms);

/* ---- print.c ---- */

/* The name of a let, with the sizes of an array: "power[64]". */
const char *declared_text(Arena *arena, const FormNode *let);

/* A block as lines of C or CUDA, indented by so many levels. */
void print_block(Text *text, const FormBlock *block, int indent);
/* One line; broken where it is too long. */
void print_line(Text *text, int indent, const char *line);

#endif
