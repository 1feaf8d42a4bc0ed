/* comparison: what runs say of the question which model is better: by model the loss with its
 * spread over seeds, what it costs, its speed and its probes, and how far it is from a base. */
#ifndef COMPARISON_H
#define COMPARISON_H

#include "experiment/gather.h"

/* As JSON; numbers that there are none of are null:
 *
 *     { "experiment", "base", "metric", "seeds",
 *       "variants": [ { "variant", "sets", "parameters", "active", "flops", "cache", "steps",
 *                       "tokens", "flops_total", "finished", "diverged", "unfinished", "loss",
 *                       "spread", "nats", "train_loss", "speed", "seconds", "probes",
 *                       "difference": { "paired", "pairs", "mean", "margin_95", "low", "high",
 *                                       "chance", "verdict" },
 *                       "runs": [ { "seed", "folder", "step", "loss", "diverged", ... } ] } ] }
 *
 * flops: of training on one token; speed: tokens a second; loss and spread are in the metric, the
 * last measure of held-out data. base: the place of a group. lasting: without what another run of
 * the same would not say again: times and folders. */
json_t *comparison_json(const Gathering *gathering, int base, bool lasting);

/* Printed; each returns a new string. */
char *comparison_text(const json_t *comparison);
char *comparison_markdown(const json_t *comparison);
char *comparison_csv(const json_t *comparison);

#endif
