/* comparison: what runs say of the question which model is better: by model the loss with its
 * spread over seeds, what it costs, its speed and its probes, and how far it is from a base. */
#ifndef COMPARISON_H
#define COMPARISON_H

#include "experiment/gather.h"

/* As JSON; numbers that there are none of are null:
 *
 *     { "experiment", "base", "metric", "higher", "seeds",
 *       "variants": [ { "variant", "sets", "parameters", "active", "flops", "cache", "steps",
 *                       "tokens", "flops_total", "finished", "diverged", "unfinished", "loss",
 *                       "spread", "nats", "train_loss", "speed", "seconds", "probes",
 *                       "difference": { "paired", "pairs", "mean", "margin_95", "low", "high",
 *                                       "chance", "verdict" },
 *                       "runs": [ { "seed", "folder", "step", "loss", "diverged", ... } ] } ] }
 *
 * flops: of training on one token; speed: tokens a second; loss and spread are in the metric: the
 * last measure of held-out data, or what the experiment asks for; "higher" says whether more of it
 * is better. Where a setting is tuned a row says which ("tuned", "structure"), and whether it is
 * the "best" of so many "choices" and "at_edge" of them; where halving has stopped it, at which
 * step ("stopped").
 *
 * base: the place of a group, or -1: the first, and of what is tuned the best. lasting: without
 * what another run of the same would not say again: times and folders. */
json_t *comparison_json(const Gathering *gathering, int base, bool lasting);

/* Printed; each returns a new string. */
char *comparison_text(const json_t *comparison);
char *comparison_markdown(const json_t *comparison);
char *comparison_csv(const json_t *comparison);
char *comparison_svg(const json_t *comparison);

#endif
