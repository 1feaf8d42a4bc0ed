#include "tools/server/http.h"

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

static void add_metric_line(Text *out, char *line) {
    text_append(out, line, strlen(line));
    free(line);
}

static void add_metric_head(Text *out, const char *name, const char *kind, const char *help) {
    add_metric_line(out, memory_format("# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind));
}

static void add_metric(Text *out, const char *name, const char *kind, const char *help,
                       long value) {
    add_metric_head(out, name, kind, help);
    add_metric_line(out, memory_format("%s %ld\n", name, value));
}

static void add_histogram(Text *out, const char *name, const char *help, Histogram *histogram) {
    add_metric_head(out, name, "histogram", help);
    unsigned long count = 0;
    for (int i = 0; i < BUCKETS; i++) {
        count += atomic_load(&histogram->buckets[i]);
        add_metric_line(out, memory_format("%s_bucket{le=\"%g\"} %lu\n", name, limits[i], count));
    }
    count += atomic_load(&histogram->buckets[BUCKETS]);
    add_metric_line(out,
                    memory_format("%s_bucket{le=\"+Inf\"} %lu\n%s_sum %.6f\n%s_count %lu\n", name,
                                  count, name, (double)atomic_load(&histogram->microseconds) * 1e-6,
                                  name, count));
}

void metrics_text(Metrics *metrics, Text *out) {
    add_metric_head(out, "moec_responses_total", "counter", "Responses by status class.");
    for (int i = 2; i < 6; i++)
        add_metric_line(out, memory_format("moec_responses_total{status=\"%dxx\"} %lu\n", i,
                                           atomic_load(&metrics->answers[i])));
    add_metric(out, "moec_prompt_tokens_total", "counter", "Prompt tokens.",
               (long)atomic_load(&metrics->prompt_tokens));
    add_metric(out, "moec_cached_tokens_total", "counter", "Prompt tokens from saved prefixes.",
               (long)atomic_load(&metrics->cached_tokens));
    add_metric(out, "moec_generated_tokens_total", "counter", "Generated tokens.",
               (long)atomic_load(&metrics->made_tokens));
    add_metric(out, "moec_draft_tokens_total", "counter", "Tokens proposed by the draft.",
               (long)atomic_load(&metrics->proposed_tokens));
    add_metric(out, "moec_accepted_tokens_total", "counter",
               "Generated tokens that the draft proposed.",
               (long)atomic_load(&metrics->accepted_tokens));
    add_metric(out, "moec_steps_total", "counter", "Steps of all running sequences.",
               (long)atomic_load(&metrics->steps));
    add_metric(out, "moec_step_rows_total", "counter", "Sequences in these steps, summed.",
               (long)atomic_load(&metrics->rows));
    add_metric(out, "moec_connections", "gauge", "Open connections.",
               atomic_load(&metrics->connections));
    add_metric(out, "moec_texts_waiting", "gauge", "Sequences in the queue.",
               atomic_load(&metrics->waiting));
    add_metric(out, "moec_texts_active", "gauge", "Sequences being decoded.",
               atomic_load(&metrics->active));
    add_metric(out, "moec_prefix_bytes", "gauge", "Memory of saved prefixes in bytes.",
               atomic_load(&metrics->cache_bytes));
    add_histogram(out, "moec_request_seconds", "Seconds from a request to the end of its response.",
                  &metrics->seconds);
    add_histogram(out, "moec_first_token_seconds", "Seconds from a request to its first token.",
                  &metrics->first_token);
    add_metric(out, "process_resident_memory_bytes", "gauge",
               "Resident memory of the server in bytes.", (long)memory_resident());
}
