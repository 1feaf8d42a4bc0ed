/* probes: what a model measures of itself, over the micro-batches of a step or the calls of an
 * evaluation. Everybody calls it by the names of probes_json: the log, and what is made of it. */
#ifndef PROBES_H
#define PROBES_H

#include "model/call.h"
#include "model/public.h"

#include <jansson.h>

/* "block.3.attention.sdpa_gate.gate" */
typedef struct LayerProbe {
    const PublicTensor *tensor;
    const char *name; /* "gate" */
    char *label;      /* as much of the path as tells it from others of the name; see probes_json */
    long layer;       /* 3; -1 where there is none */
    int first;        /* which output has the name first: how they are ordered */
    double *values;   /* of its elements: sums over the calls, or the largest */
} LayerProbe;

typedef struct Probes {
    Call *call;
    PublicTensor *outputs;
    LayerProbe *all; /* by name, label and layer */
    int output_count, count;
    uint64_t calls;
} Probes;

/* Of a graph that trains or measures: its probes, its auxiliary terms and their total. */
Probes *probes_open(Call *call);
void probes_close(Probes *probes);
/* Nothing is measured yet. */
void probes_clear(Probes *probes);
/* Takes what the last run of the call gave, whose numbers are here (call_get_numbers). False after
 * a message of the device. */
bool probes_add(Probes *probes);
/* An object, NaN as null:
 *
 *     "gate": 0.4                              the mean of all layers
 *     "gate.layer": [0.3, 0.5]                 each of them, where there are several
 *     "gate.layer": {"2": 0.3, "5": 0.5}       where others lie between
 *     "sdpa_gate.gate", "sdpa_gate.gate.layer" where a layer has several of the name
 *     "expert_load.layer": [[0.7, 0.3], [0.5, 0.5]]   of a probe with axes: of every layer
 *
 * *wrong: the name of one that is no finite number, else NULL; it lives as long as the probes. */
json_t *probes_json(const Probes *probes, const char **wrong);
/* The same as lines: name, mean over the layers, then layer by layer. */
void probes_print(const Probes *probes);

#endif
