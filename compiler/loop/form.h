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
 * questions to the form; nothing looks them up in a text. A name is unique among those in scope:
 * the lowering sees to that (codegen/emit_names.c).
 */
#ifndef FORM_H
#define FORM_H

#include "ir/ir.h"

/* ---- terms ---- */

typedef enum TermKind {
    TERM_NAME,   /* of a variable, an array or a parameter: `text` */
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

typedef struct Term {
    TermKind kind;
    const char *text;
    TermLevel level;
    int count;
    const struct Term *args[TERM_ARGUMENTS];
} Term;

const Term *term_name(Arena *arena, const char *name);
const Term *term_number(Arena *arena, const char *text);
const Term *term_whole(Arena *arena, long number);
/* An operation on as many terms as its spelling has places. It has no parentheses around itself or
 * its terms: those follow from what binds how tightly when it is written. */
const Term *term(Arena *arena, const char *spelling, ...);
bool term_equal(const Term *a, const Term *b);
bool term_is_zero(const Term *term); /* the number 0 */
bool term_uses(const Term *term, const char *name);
/* How often `part` stands in it. */
int term_count(const Term *term, const Term *part);
/* How many operations are in it. */
int term_operations(const Term *term);
/* a * size + b, as far as they are not 0. */
const Term *term_offset(Arena *arena, const Term *a, long size, const Term *b);
const char *term_text(Arena *arena, const Term *term);

/* ---- nodes ---- */

typedef enum FormKind {
    FORM_FOR,     /* name from values[0] up to values[1], step values[2] or 1 */
    FORM_LET,     /* type name = values[0], or without a value */
    FORM_SET,     /* values[0] operator values[1]; operator "=" or "+=" */
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
    RUN_UNROLLED = 4  /* written out */
} FormRun;

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
    const char *type, *name, *text;
    const Term *values[3];
    Reduction reduces; /* of a set: what is there joins the value in this way, or REDUCE_NONE */
    bool scatters;     /* of a store: other iterations of the innermost loop may store there, too */
    FormSeen seen;     /* of a store, or of the condition around it */
    bool optional;     /* a let that goes when nothing behind it uses the name */
    long iterations;   /* of a loop of the schedule; 0: of one that only moves results */
    int run;           /* FormRun *, of a loop */
    long alone;        /* a loop that runs in parallel does so beyond so many iterations; or 0 */
    FormLayout layout;
    FormBlock body;
    FormNode *next;
};

/* What a kernel, or the store of a template, does. */
typedef struct KernelForm {
    const char *name;
    FormBlock block;
} KernelForm;

FormNode *form_add(Arena *arena, FormBlock *block, FormKind kind);
/* Moves the nodes of `body` behind those of `block`. */
void form_append(FormBlock *block, FormBlock *body);
/* Some node in it uses the name, however deep. */
bool form_uses(const FormBlock *block, const char *name);
/* Some node of it, not of what is inside those, names a value so. */
bool form_declares(const FormBlock *block, const char *name);

/* ---- passes.c ---- */

/* The passes over the form of a kernel, in their order; `moec dump --after NAME` shows each. */
typedef struct FormPass {
    const char *name;
    void (*run)(Arena *arena, FormBlock *block, const Target *target);
} FormPass;

extern const FormPass form_passes[];
extern const int form_pass_count;

/* The pass of that name over all forms. */
void form_pass(Arena *arena, const List *forms, const char *name, const Target *target);

/* ---- vectors.c ---- */

/* The iterations of innermost loops run side by side where they may and the target asks for it. */
void vectors(Arena *arena, FormBlock *block, const Target *target);

/* ---- barriers.c ---- */

/* Threads wait for each other where one looks at what another one stores. */
void barriers(Arena *arena, FormBlock *block, const Target *target);

/* ---- unused.c ---- */

/* Drops what is optional and not used. */
void unused(Arena *arena, FormBlock *block, const Target *target);

/* ---- dump.c ---- */

/* KernelForm * as `moec dump` shows them. */
const char *dump_forms(Arena *arena, const List *forms);

/* ---- print.c ---- */

/* A block as lines of C or CUDA, indented by so many levels. */
void print_block(Text *text, const FormBlock *block, int indent);
/* One line; broken where it is too long. */
void print_line(Text *text, int indent, const char *line);

#endif
