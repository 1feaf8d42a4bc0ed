/* probes: what a model measures of itself, over the calls of an evaluation: of each layer when the
 * spec was compiled for that (moec_probe), else the numbers that it logs. */
#ifndef PROBES_H
#define PROBES_H

#include "model/call.h"
#include "model/public.h"

#include <jansson.h>

typedef struct Probes {
    PublicTensor *all; /* "block.3.attention.first_token" */
    int count, outputs;
    double **values; /* of each tensor, one for each element: sums over the calls, or the largest */
    uint64_t calls;
} Probes;

Probes *probes_open(const Call *call);
void probes_close(Probes *probes);
/* Takes what the last run of the call gave; false after a message of the device. */
bool probes_add(Probes *probes, Call *call);
/* An object: of each name the number, or the list of them; of those that several layers have also
 * their mean, "mean.attention.first_token". */
json_t *probes_json(const Probes *probes);
/* The same as lines: name, mean over the layers, then layer by layer. */
void probes_print(const Probes *probes);

#endif
