/* comparison: compares models by their runs. Per model: the loss and its standard deviation over
 * seeds, cost, speed, probes, and the difference from a baseline. */
#ifndef COMPARISON_H
#define COMPARISON_H

#include "tools/experiment/gather.h"

/* Returns the comparison as JSON; missing numbers are null:
 *
 *     { "experiment", "base", "metric", "higher", "seeds",
 *       "variants": [ { "variant", "sets", "parameters", "active", "flops", "cache", "steps",
 *                       "tokens", "flops_total", "finished", "diverged", "unfinished", "loss",
 *                       "spread", "nats", "train_loss", "speed", "seconds", "probes",
 *                       "difference": { "paired", "pairs", "mean", "margin_95", "low", "high",
 *                                       "chance", "verdict" },
 *                       "runs": [ { "seed", "folder", "step", "loss", "diverged", ... } ] } ] }
 *
 * flops: training FLOPs per token; speed: tokens/s. loss and spread are mean and standard deviation
 * of the metric: the last evaluation, or the metric of the experiment. "higher" is true if larger
 * values are better. For a tuned setting a row has the setting ("tuned"), its "structure", whether
 * it is the "best" of the number of "choices", and whether it is "at_edge" of them. "stopped" is
 * the step at which halving stopped the variant.
 *
 * base: index of a group. -1 selects the first model, or the best of its tuned variants. lasting:
 * without times and folders, which differ when a run is repeated. */
json_t *comparison_json(const Gathering *gathering, int base, bool lasting);

/* Printed; each returns a new string. */
char *comparison_text(const json_t *comparison);
char *comparison_markdown(const json_t *comparison);
char *comparison_csv(const json_t *comparison);
char *comparison_svg(const json_t *comparison);

#endif
