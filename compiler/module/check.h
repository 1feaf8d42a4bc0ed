/* check: declarations of the verifier of a module.
 *
 * module_check walks the host steps of each entry, and the loops of each kernel where a step
 * launches it. The walk of a kernel checks every subscript and leaves a list of events: accesses,
 * barriers, the start and end of loops and conditions. The other checks read the events.
 */
#ifndef CHECK_H
#define CHECK_H

#include "module/lowered.h"

#include <stdint.h>

/* The values of an integer: multiples of `unit`, which is 0 for the value 0. certain: the ends may
 * be reached; else they are estimates. */
typedef struct Bound {
    int64_t low, high, unit;
    bool certain;
} Bound;

/* A variable during the walk of a kernel. */
typedef struct Known {
    const Variable *variable;
    const FormNode *node; /* its loop or let; NULL: a parameter */
    const Term *value;    /* of a let that is not set later */
    Bound bound;
    long elements; /* of an array; -1: unknown; 0: of a scalar */
    long row;      /* elements of one row of a two-dimensional array, else 0 */
} Known;

/* A loop or condition that encloses others. */
typedef struct Region {
    const FormNode *node; /* NULL: the whole kernel */
    int outer;            /* index of the enclosing region, or -1 */
} Region;

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
    int region;              /* the innermost one; of OPEN and CLOSE: this one */
    const FormNode *node;    /* that causes it */
    const Term *array;       /* of an access: in memory, or shared by the threads of a block */
    const Term *subscript;   /* of its first element; NULL: unknown */
    Bound bound;             /* of the subscripts of all elements */
    long width;              /* adjacent elements */
    bool guarded;            /* only under a condition */
} Event;

/* A term whose values are limited by a condition. */
typedef struct Fact {
    const Term *term;
    int64_t low, high;
} Fact;

/* The index of a repeat around a host step. */
typedef struct RepeatIndex {
    const char *name;
    long count;
} RepeatIndex;

enum { MAX_FACTS = 64, MAX_REPEATS = 32 };

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
    Known *known;
    int known_count, known_capacity;
    Fact facts[MAX_FACTS];
    int fact_count;
    bool masked; /* inside of a read that a mask sets to 0 */
    Region *regions;
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
Known *known_of(const ModuleCheck *check, const Term *name);
Known *known_add(ModuleCheck *check, const Term *name);
Bound bound_of(ModuleCheck *check, const Term *term);
/* The values of a loop variable. False: the loop has no iteration. */
bool bound_of_loop(ModuleCheck *check, const FormNode *loop, Bound *bound);
void facts_of_loop(ModuleCheck *check, const FormNode *loop);
/* From here on the condition has that value; fact_count restores the state before. */
void facts_add(ModuleCheck *check, const Term *condition, bool holds);
/* The number of elements of an array in memory; -1: unknown. */
long elements_of(const ModuleCheck *check, const Term *array);

/* ---- check_walk.c ---- */

/* Checks the subscripts of a kernel and sets the events. */
void walk_kernel(ModuleCheck *check, const LoopKernel *kernel, Launch launch);

/* ---- check_flow.c ---- */

/* Lifetimes and data flow of the host program of an entry. */
void check_entry(ModuleCheck *check, const Entry *entry);

#endif
