/* term: values and addresses of the loop IR: an operation of term.def on other terms.
 *
 * Terms are immutable and shared. Two terms are equal if they have the same operation, type and
 * arguments; no pass compares texts. A variable is one record in all its uses and gets its name
 * when it is printed (names.c).
 */
#ifndef TERM_H
#define TERM_H

#include "ir/ir.h"

/* Element types and types of values, from narrow to wide. */
typedef enum TermType {
    T_NONE, /* of an effect */
    T_BOOL,
    T_I8,
    T_INT, /* a number of lanes or threads */
    T_I32, /* an integer tensor */
    T_U32,
    T_I64,
    T_U64,
    T_BF16,
    T_E4M3,
    T_E5M2,
    T_F32,
    T_F64,
    T_GROUP,   /* 64 int8 weights and their scale */
    T_INT4,    /* 512 int4 weights and their scales */
    T_TERNARY, /* 1024 ternary weights and their scales */
    T_FP8,     /* 512 weights of E4M3 and their scales */
    T_MXFP4,   /* 512 mxfp4 weights and their scales */
    T_NVFP4,   /* 512 nvfp4 weights and their scales */
    TERM_TYPES
} TermType;

/* Precedence of the text of a term, lowest first; names, calls and elements are whole. */
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

/* A row of term.def, or TERM_REAL + op, TERM_DOUBLE + op: an operation of op.def other than the
 * four of arithmetic and the sign, in single and in double precision. */
typedef enum TermOp {
#define TERM(name, ...) TERM_##name,
#include "loop/term.def"
#undef TERM
    TERM_REAL,
    TERM_DOUBLE = TERM_REAL + OP_COUNT
} TermOp;

/* During a check: of no node, used outside or inside of its scope. */
typedef enum VariableScope { SCOPE_UNKNOWN, SCOPE_OUTSIDE, SCOPE_INSIDE } VariableScope;

/* Declared by a node, a parameter of the kernel, or an array of the program. */
typedef struct Variable {
    const char *wanted;    /* NULL: the name is fixed */
    const char *name;      /* set by names.c */
    struct Variable *base; /* its name is that of this one plus `wanted`; or NULL */
    TermType type;         /* of an array: of its elements */
    const Tensor *tensor;  /* whose elements it holds; or NULL */
    VariableScope scope;   /* see form_check.c */
    int number;            /* during a check of the module */
} Variable;

/* A value that may be hoisted out of loops that do not change it: an element, or an expression of
 * elements. */
typedef enum TermInvariant { NOT_FOUND_BEFORE, READ_ONCE, COMPUTED_ONCE } TermInvariant;

/* Cost class of a real value; an expensive value that occurs several times gets a name. */
typedef enum TermValue { NO_VALUE, VALUE_READ, VALUE_SHORT, VALUE_LONG } TermValue;

typedef struct Term {
    TermOp op;
    TermType type;
    TermInvariant invariant;
    TermValue value;
    int count;
    union {
        Variable *variable; /* of a name */
        long whole;         /* of a number of an integer type */
        double real;        /* of one of a real type */
    };
    const char *constant; /* of a number: the constant that represents it in the text; or NULL */
    const struct Term *args[];
} Term;

/* A variable with a fixed name. */
const Term *term_name(Arena *arena, TermType type, const char *name);
/* A new variable with the name `wanted` if that is free; one with the name and type of `base` plus
 * an ending. */
const Term *term_variable(Arena *arena, TermType type, const char *wanted);
const Term *term_variable_of(Arena *arena, const Term *base, const char *ending);
const Term *term_whole(Arena *arena, long number);
/* The same, printed as the constant of that name. */
const Term *term_constant(Arena *arena, long number, const char *name);
const Term *term_number(Arena *arena, TermType type, double number);
/* An operation on its arguments; the type follows from the table. */
const Term *term(Arena *arena, TermOp op, ...);
const Term *term_cast(Arena *arena, TermType type, const Term *value);
const Term *term_element(Arena *arena, const Term *array, const Term *subscript);
/* The operation of a term for one of the language on values of a type: T_I64, T_F32 or T_F64. */
TermOp term_op(OpCode op, TermType type);
/* The condition for the first thread of a block. */
const Term *first_thread(Arena *arena);
bool term_equal(const Term *a, const Term *b);
bool term_is_zero(const Term *term); /* the integer 0 */
bool term_uses(const Term *term, const Term *name);
/* The same, marked for licm.c and for cse.c. */
const Term *term_invariant(Arena *arena, const Term *term, TermInvariant invariant);
const Term *term_value(Arena *arena, const Term *term, TermValue value);
/* A name for the value of a term: after the tensor that it reads, or `otherwise`. */
const char *term_wanted(Arena *arena, const Term *term, const char *otherwise);
/* The term with all occurrences of `part` replaced by `by`. */
const Term *term_replace(Arena *arena, const Term *term, const Term *part, const Term *by);
/* The array of an address: "x" of "x[i]". */
const Term *term_stored(const Term *place);
/* The number of occurrences of `part`. */
int term_count(const Term *term, const Term *part);
/* The number of operations. */
int term_operations(const Term *term);
/* a * size + b, without terms that are 0. */
const Term *term_offset(Arena *arena, const Term *a, const Term *size, const Term *b);
/* True if the arguments have the kinds of the table, and the type follows from them. */
bool term_fits(const Term *term);
bool term_is_integer(const Term *term);
/* True if a value may be stored to a variable or an element without a cast in C. */
bool term_may_hold(const Term *target, const Term *value);
const char *term_text(Arena *arena, const Term *term);
/* The name of a type in C and CUDA. */
const char *term_type_name(TermType type);
/* The type of an element of a tensor, and its name. */
TermType element_type(const Tensor *tensor);
const char *type_name(const Tensor *tensor);
/* A float in C. */
const char *number_text(Arena *arena, double number);

#endif
