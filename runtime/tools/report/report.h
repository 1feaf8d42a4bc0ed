/* report: a comparison of runs as one self-contained HTML file, without network access or other
 * files. */
#ifndef REPORT_H
#define REPORT_H

#include "tools/experiment/experiment.h"

/* Returns all data of the page as JSON:
 *
 *     { "comparison": see comparison.h, "version", "commit",
 *       "models": [ { "name", "sets", "options": {path: text}, "layers": [cost by layer],
 *                     "tokens_per_step", "flops", "graph": SVG of moec explain,
 *                     "values": { "val_expert_load": { "steps": [...],
 *                                               "layers": {"0": [[value at each step]]} } },
 *                     "runs": [ { "seed", "folder", "diverged", "starts", "clock": [[step, s]],
 *                                 "series": { name: [[step, value]] } } ] } ] }
 *
 * "values" contains the probes with several values per layer, of the first run only. For long logs,
 * a point of a series is the mean of several steps. "clock" has the elapsed seconds at a step. */
json_t *report_json(const Gathering *gathering, int base);
/* Writes the page; false after a message. */
bool report_write(const char *path, const json_t *data);

#endif
