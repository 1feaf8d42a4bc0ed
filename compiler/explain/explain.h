/* explain: layers, kernels with their cost and lower bound, memory over time; for display. */
#ifndef EXPLAIN_H
#define EXPLAIN_H

#include "moec.h"

#include "passes.h"
#include "schedule/kernel.h"

/* A kernel of the schedule: a matrix product, a call, or a loop nest of fused statements. */
typedef struct ExplainedUnit {
    const char *name;      /* of its result */
    const char *kind;      /* in JSON: "product", "loops" */
    const char *operation; /* for readers: "matmul", "loop nest" */
    List statements;       /* const Statement *, fused; the main one first */
    double runs;           /* steps of the enclosing repeat, else 1 */
    double flops, bytes;   /* of all runs */
    double seconds;        /* lower bound of all runs */
    bool by_memory;        /* memory is the bottleneck */
    int at;                /* position in the linear order */
    double threads;        /* of a GPU, for the statement with the most work per thread, or 0 */
    double serial;         /* operations of each of its threads in a run */
} ExplainedUnit;

/* Layers whose paths differ only in numbers: "block.attention" of "block.0.attention" ... */
typedef struct ExplainedLayer {
    const char *path;
    double parameters, flops; /* sums over the layers; flops: forward, per token */
    int count;
    bool input;
} ExplainedLayer;

typedef struct ExplainedEdge {
    int from, to; /* indices into layers */
} ExplainedEdge;

typedef struct Explanation {
    Arena *arena;
    const char *model, *graph, *machine;
    MoecCeilings ceilings;
    const Schedule *schedule;
    List units;     /* ExplainedUnit * */
    List layers;    /* ExplainedLayer * */
    List edges;     /* ExplainedEdge * */
    double *memory; /* [moments]: bytes of live temporaries */
    int moments, peak;
    double flops, bytes, seconds; /* of all units */
} Explanation;

/* The last position of the units and of those inside them, or `most` if that is later. */
int last_moment(const List *units, int most);
/* The unit at this index, with those that share its launch or call: their statements and the cost
 * of all runs; NULL: it computes nothing. */
ExplainedUnit *explain_unit(Explanation *explanation, const List *units, int at, double runs);
/* True if the kernel has fewer threads than keep a GPU at work, and much work for each. */
bool explain_few_threads(const Explanation *explanation, const ExplainedUnit *unit);
/* Tensor *: temporaries that are live at the peak, the largest first. */
List explain_peak(const Explanation *explanation);

/* Lower bound of a training step in seconds; 0 after an error. */
double explain_seconds(MoecCompiler *compiler, MoecCeilings ceilings);

const char *explain_text(const Explanation *explanation);
const char *explain_json(const Explanation *explanation);
const char *explain_svg(const Explanation *explanation);
const char *explain_dot(const Explanation *explanation);

#endif
