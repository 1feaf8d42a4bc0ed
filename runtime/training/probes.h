/* probes: per-layer diagnostics of a model, over the micro-batches of a step or the calls of an
 * evaluation. The names of probes_json are used in the log and everywhere else. */
#ifndef PROBES_H
#define PROBES_H

#include "model/call.h"
#include "model/model.h"

#include <jansson.h>

/* "block.3.attention.sdpa_gate.gate" */
typedef struct LayerProbe {
    const PublicTensor *tensor;
    const char *name; /* "gate" */
    char *label;      /* shortest suffix of the path that is unique for the name; see probes_json */
    long layer;       /* 3; -1 if there is none */
    int first;        /* output with the first occurrence of the name: sort key */
    double *values;   /* per element: sum over the calls, or maximum */
} LayerProbe;

typedef struct Probes {
    Call *call;
    PublicTensor *outputs;
    LayerProbe *all; /* by name, label and layer */
    int output_count, count;
    size_t width; /* values of all probes */
    uint64_t calls;
} Probes;

/* The probes, auxiliary losses and their total of a training or evaluation graph. */
Probes *probes_open(Call *call);
void probes_close(Probes *probes);
/* Resets all values. */
void probes_clear(Probes *probes);
/* Copies the results of the last run of the call, `width` values; call_get_numbers must have
 * fetched them. False after a device error, which was printed. */
bool probes_read(const Probes *probes, double *values);
/* Adds the values of one call, which may be of another process. */
void probes_add(Probes *probes, const double *values);
/* Values as an object, NaN as null:
 *
 *     "gate": 0.4                              the mean of all layers
 *     "gate.layer": [0.3, 0.5]                 each of them, where there are several
 *     "gate.layer": {"2": 0.3, "5": 0.5}       where others lie between
 *     "sdpa_gate.gate", "sdpa_gate.gate.layer" where a layer has several of the name
 *     "expert_load.layer": [[0.7, 0.3], [0.5, 0.5]]   of a probe with axes: of every layer
 *
 * *wrong: name of a probe with a value that is not finite, else NULL; valid as long as the
 * probes. */
json_t *probes_json(const Probes *probes, const char **wrong);
/* Prints name, mean over layers and values per layer. */
void probes_print(const Probes *probes);

#endif
