/* module_check: declarations of the verifier of a module.
 *
 * module_check walks the host steps of each entry, and the loops of each kernel where a step
 * launches it. The walk of a kernel checks every subscript and leaves a list of events: accesses,
 * barriers, the start and end of loops and conditions. The other checks read the events.
 */
#ifndef MODULE_CHECK_H
#define MODULE_CHECK_H

#include "module/lowered.h"

#include <stdint.h>

/* The values of an integer: multiples of `unit`, which is 0 for the value 0. certain: the ends may
 * be reached; else they are estimates. */
typedef struct Interval {
    int64_t low, high, unit;
    bool certain;
} Interval;

/* A variable during the walk of a kernel. */
typedef struct KnownVariable {
    const Variable *variable;
    const FormNode *node; /* its loop or let; NULL: a parameter */
    const Term *value;    /* of a let that is not set later */
    Interval bound;
    long elements; /* of an array; -1: unknown; 0: of a scalar */
    long row;      /* elements of one row of a two-dimensional array, else 0 */
    int region;    /* that declares it */
    int accesses;  /* to an array, before its barriers are checked */
    bool stored;   /* it has stores and other accesses */
} KnownVariable;

/* A loop or condition that encloses others. */
typedef struct EventRegion {
    const FormNode *node; /* NULL: the whole kernel */
    int outer;            /* index of the enclosing region, or -1 */
} EventRegion;

/* A term whose values are limited by a condition. */
typedef struct Fact {
    const Term *term; /* NULL: the condition never holds */
    int64_t low, high;
    bool of_loop; /* the distance from the start of a block */
} Fact;

typedef enum EventKind {
    EVENT_READ,
    EVENT_WRITE,
    EVENT_ADD,     /* reads and writes the element */
    EVENT_BARRIER, /* of the threads of a block */
    EVENT_OPEN,    /* a region */
    EVENT_CLOSE
} EventKind;

typedef struct Event {
    EventKind kind;
    int region;            /* the innermost one; of OPEN and CLOSE: this one */
    const FormNode *node;  /* that causes it */
    const Term *array;     /* of an access: in memory, or shared by the threads of a block */
    const Term *subscript; /* of its first element; NULL: unknown */
    Interval bound;        /* of the subscripts of all elements */
    long width;            /* adjacent elements */
    const Fact *facts;     /* the conditions around it */
    int fact_count;
    bool guarded; /* only under a condition */
    bool masked;  /* its value may be unused */
    int number;   /* see check_barriers.c */
} Event;

/* The index of a repeat around a host step. */
typedef struct RepeatIndex {
    const char *name;
    long count;
} RepeatIndex;

enum { MAX_FACTS = 64, MAX_REPEATS = 32 };

/* The optimizer processes parameters of any size; the checks use this one. */
#define SOME_ELEMENTS ((1L << 40) - 1)

typedef struct ModuleCheck {
    Arena *arena; /* of one check */
    const Module *module;
    Fault *fault;   /* the first one */
    Text *unproven; /* receives a line for each undecided term, or NULL */
    int unproven_count;

    /* the position in the host program */
    const Entry *entry; /* NULL: of the optimizer */
    const HostStep *step;
    RepeatIndex repeats[MAX_REPEATS];
    int repeat_count;

    /* the current kernel */
    const LoopKernel *kernel;
    Launch launch;
    KnownVariable *known;
    int known_count, known_capacity;
    Fact facts[MAX_FACTS];
    int fact_count;
    bool contradicts; /* a term has no value under the facts: its node is never executed */
    bool masked;      /* in a value that a mask or a selection may leave unused */
    EventRegion *regions;
    int region_count, region_capacity;
    Event *events;
    int event_count, event_capacity;
} ModuleCheck;

/* ---- check_report.c ---- */

/* Records the first fault, of the current kernel or step. */
void fault_found(ModuleCheck *check, FaultKind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Counts a term that no rule decides. */
void term_unproven(ModuleCheck *check, FaultKind kind, const Term *term);
/* `capacity` elements of that size, with room for one more than `count`. */
void *with_room(Arena *arena, void *items, int count, int *capacity, size_t size);
bool on_device(const ModuleCheck *check);

/* ---- check_range.c ---- */

/* The record of a variable; NULL: no node so far declares it. */
KnownVariable *known_of(const ModuleCheck *check, const Term *name);
KnownVariable *known_add(ModuleCheck *check, const Term *name);
Interval interval_of(ModuleCheck *check, const Term *term);
/* The values of a loop variable. False: the loop has no iteration. */
bool bound_of_loop(ModuleCheck *check, const FormNode *loop, Interval *bound);
/* True for a loop over a block of another one: the index is its first value, a variable, plus less
 * than `distance`. facts_of_loop: this as a fact. */
bool block_of_loop(const ModuleCheck *check, const FormNode *loop, int64_t *distance);
void facts_of_loop(ModuleCheck *check, const FormNode *loop);
/* From here on the condition has that value; fact_count restores the state before. */
void facts_add(ModuleCheck *check, const Term *condition, bool holds);
/* True under a condition that never holds. */
bool is_unreachable(const ModuleCheck *check);
/* The number of elements of an array in memory; -1: unknown. */
long memory_elements(const ModuleCheck *check, const Term *array);

/* ---- check_walk.c ---- */

/* Checks the subscripts of a kernel and sets the events. */
void walk_kernel(ModuleCheck *check, const LoopKernel *kernel, Launch launch);

/* ---- check_digits.c ---- */

/* A part of a variable: factor * (variable / inner % modulus). */
typedef struct Digit {
    const Term *of;    /* a variable, or a term that is not split */
    int64_t inner;     /* 1: the lowest part */
    int64_t modulus;   /* 0: none */
    int64_t low, high; /* of the part, if they are known; in units of the variable */
    int64_t factor;    /* 0: the part belongs to a whole */
    bool known;
    bool whole; /* it contains parts of other variables */
    bool fixed; /* the same value in all iterations */
} Digit;

enum { MAX_DIGITS = 32 };

typedef struct Digits {
    ModuleCheck *check;
    Digit digits[MAX_DIGITS];
    int count;
    int64_t constant;
    const Term *variable;
    bool opaque; /* some of them depend on values in memory */
} Digits;

/* variable: see digits_meet. */
Digits subscript_digits(ModuleCheck *check, const Event *access, const Term *variable);
/* True if the size of every digit is known. */
bool digits_known(const Digits *digits);
/* True if the parts of a variable make up the whole of it. */
bool digits_cover(const Digits *digits, const Term *variable);
/* True if a condition limits a sum or product: its digits may have fewer values. */
bool digits_limited(const Event *access);

/* Two accesses: the variable that distributes both among threads, or NULL; variables that have the
 * same value in both, the last one NULL; adjacent elements. */
typedef struct AccessPair {
    const Term *variable;
    const Term *held[MAX_DIGITS + 1];
    long widths[2];
    bool undecided; /* by digits_meet */
} AccessPair;

/* True if two threads may access one element, as far as all digits are known. */
bool digits_meet(const Digits *a, const Digits *b, AccessPair *pair);

/* ---- check_writers.c ---- */

/* The stores of the current kernel. */
void check_writers(ModuleCheck *check);
/* The part of a condition that selects one thread of a block, or NULL. */
const Term *thread_selected(const Term *condition);

/* ---- check_barriers.c ---- */

/* The accesses of the threads of a block in the current kernel. */
void check_barriers(ModuleCheck *check);

/* ---- check_launch.c ---- */

/* A launch; kernel: its loops, NULL for a template. The operands of another step. */
void check_launch(ModuleCheck *check, const LaunchStep *launch, const LoopKernel *kernel);
void check_step_operands(ModuleCheck *check, const HostStep *step);

/* ---- check_flow.c ---- */

/* Lifetimes and data flow of the host program of an entry. */
void check_entry(ModuleCheck *check, const Entry *entry);

#endif
