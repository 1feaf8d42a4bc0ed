/* report: runs beside each other as one HTML file that needs nothing else: no network, no folder
 * beside it. */
#ifndef REPORT_H
#define REPORT_H

#include "experiment/gather.h"

/* All that the page shows, as JSON:
 *
 *     { "comparison": see comparison.h, "version", "commit",
 *       "models": [ { "name", "sets", "options": {path: text}, "layers": [cost by layer],
 *                     "tokens_per_step", "flops", "graph": SVG of moec explain,
 *                     "values": { "val_expert_load": { "steps": [...],
 *                                               "layers": {"0": [[value at each step]]} } },
 *                     "runs": [ { "seed", "folder", "diverged", "starts", "clock": [[step, s]],
 *                                 "series": { name: [[step, value]] } } ] } ] }
 *
 * "values" are those of a probe that has several in a layer, of the first run alone. Of long logs
 * a series holds means of as many steps as fit; "clock" says how many seconds had passed by a
 * step. */
json_t *report_json(const Gathering *gathering, int base);
/* Writes the page; false after a message. */
bool report_write(const char *path, const json_t *data);

#endif
