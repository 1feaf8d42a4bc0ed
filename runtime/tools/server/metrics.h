/* metrics: counters of the server in the text format of Prometheus.
 * https://prometheus.io/docs/instrumenting/exposition_formats */
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include "tokenizer/text/text.h"

#include <stdatomic.h>

enum { BUCKETS = 12 };

typedef struct Histogram {
    atomic_ulong buckets[BUCKETS + 1]; /* the last: longer than all */
    atomic_ulong microseconds;
} Histogram;

typedef struct Metrics {
    atomic_ulong answers[6];                              /* by hundreds of their status */
    atomic_ulong prompt_tokens, made_tokens, steps, rows; /* rows: those of all steps together */
    atomic_long connections, waiting, active;
    Histogram seconds, first_token;
} Metrics;

/* Adds one event with its duration; thread-safe. */
void metrics_time(Histogram *histogram, double seconds);
/* Adds them in the text format of Prometheus. */
void metrics_text(Metrics *metrics, Text *out);

#endif
