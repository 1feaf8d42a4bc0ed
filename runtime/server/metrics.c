#include "server/metrics.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

static const double limits[BUCKETS] = {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 100};

void metrics_time(Histogram *histogram, double seconds) {
    int bucket = 0;
    while (bucket < BUCKETS && seconds > limits[bucket]) bucket++;
    atomic_fetch_add(&histogram->buckets[bucket], 1);
    atomic_fetch_add(&histogram->microseconds, (unsigned long)(seconds * 1e6));
}

static void add(Text *out, char *line) {
    text_append(out, line, strlen(line));
    free(line);
}

static void add_head(Text *out, const char *name, const char *kind, const char *help) {
    add(out, memory_format("# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind));
}

static void add_value(Text *out, const char *name, const char *kind, const char *help, long value) {
    add_head(out, name, kind, help);
    add(out, memory_format("%s %ld\n", name, value));
}

static void add_histogram(Text *out, const char *name, const char *help, Histogram *histogram) {
    add_head(out, name, "histogram", help);
    unsigned long count = 0;
    for (int i = 0; i < BUCKETS; i++) {
        count += atomic_load(&histogram->buckets[i]);
        add(out, memory_format("%s_bucket{le=\"%g\"} %lu\n", name, limits[i], count));
    }
    count += atomic_load(&histogram->buckets[BUCKETS]);
    add(out,
        memory_format("%s_bucket{le=\"+Inf\"} %lu\n%s_sum %.6f\n%s_count %lu\n", name, count, name,
                      (double)atomic_load(&histogram->microseconds) * 1e-6, name, count));
}

void metrics_text(Metrics *metrics, Text *out) {
    add_head(out, "Responses by status class.", "counter",
             "Responses by the class of their status.");
    for (int i = 2; i < 6; i++)
        add(out, memory_format("moec_responses_total{status=\"%dxx\"} %lu\n", i,
                               atomic_load(&metrics->answers[i])));
    add_value(out, "Prompt tokens.", "counter", "Tokens of prompts.",
              (long)atomic_load(&metrics->prompt_tokens));
    add_value(out, "Generated tokens.", "counter", "Tokens that the model made.",
              (long)atomic_load(&metrics->made_tokens));
    add_value(out, "Decoding steps.", "counter", "Calls of the model.",
              (long)atomic_load(&metrics->steps));
    add_value(out, "Sequences in decoding steps, summed.", "counter",
              "Texts in those calls, added up.", (long)atomic_load(&metrics->rows));
    add_value(out, "moec_connections", "gauge", "Open connections.",
              atomic_load(&metrics->connections));
    add_value(out, "Sequences in the queue.", "gauge", "Texts that wait for a row.",
              atomic_load(&metrics->waiting));
    add_value(out, "Sequences being decoded.", "gauge", "Texts that the model works on.",
              atomic_load(&metrics->active));
    add_histogram(out, "Seconds from a request to the end of its response.",
                  "From a request to the end of its answer.", &metrics->seconds);
    add_histogram(out, "Seconds from a request to its first token.",
                  "From a request to its first token.", &metrics->first_token);
    add_value(out, "Resident memory of the server in bytes.", "gauge", "Memory of the server.",
              (long)memory_resident());
}
