/* explain: what the compiler made of a model, gathered for those who want to see it. */
#ifndef EXPLAIN_H
#define EXPLAIN_H

#include "moec.h"

#include "passes.h"
#include "schedule/kernel.h"

/* A unit of work of the schedule: a product, a call, or one loop nest of several statements. */
typedef struct ExplainedUnit {
    const char *name;    /* of its result */
    const char *kind;    /* "product", "attention", "loops" */
    List statements;     /* const Statement *: what is fused into it, its own first */
    double runs;         /* steps of the repeat around it, else 1 */
    double flops, bytes; /* of all its runs */
    double seconds;      /* at the ceilings */
    bool by_memory;      /* it is the memory that takes longer */
    int at;              /* its place in the linear order */
} ExplainedUnit;

/* Layers of one path; those of a repeat together. */
typedef struct ExplainedLayer {
    const char *path;         /* "block.{i}.attention" */
    double parameters, flops; /* flops: forward, of one token */
    bool input;
} ExplainedLayer;

typedef struct ExplainedEdge {
    int from, to; /* places in the list of layers */
} ExplainedEdge;

typedef struct Explanation {
    Arena *arena;
    const char *model, *graph, *machine;
    MoecCeilings ceilings;
    const Schedule *schedule;
    List units;     /* ExplainedUnit * */
    List layers;    /* ExplainedLayer * */
    List edges;     /* ExplainedEdge * */
    double *memory; /* [moments]: bytes of temporaries that live then */
    int moments, peak;
    double flops, bytes, seconds; /* of all units */
} Explanation;

/* A number with its unit: "12.3 M". */
const char *explain_number(Arena *arena, double number);
/* The temporaries that live at the peak, the largest first: Tensor *. */
List explain_peak(const Explanation *explanation);

/* What a training step takes at the ceilings, at least; 0 after an error. */
double explain_seconds(MoecCompiler *compiler, MoecCeilings ceilings);

const char *explain_text(const Explanation *explanation);
const char *explain_json(const Explanation *explanation);
const char *explain_svg(const Explanation *explanation);
const char *explain_dot(const Explanation *explanation);

#endif
