/* step_path: a tensor that is stacked over the steps of a repeat has one name for all of them, with
 * the number of the step in braces: {i}, {i+3}, {2*i}, {2*i+1}. */
#ifndef STEP_PATH_H
#define STEP_PATH_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* An attribute of a PyTorch model has the label of its layer or repeat. These follow the label of a
 * layer or repeat that is also the name of a weight, "query_layer", and that of a repeat that is
 * also the name of a layer or of a shared repeat, "part_steps". */
#define TORCH_LAYER "_layer"
#define TORCH_STEPS "_steps"

typedef struct StepPath {
    int before;        /* bytes ahead of the braces */
    const char *after; /* text after the braces */
    long factor, offset;
} StepPath;

/* Splits a path at its braces. Returns false for a tensor that is not stacked. */
static inline bool step_path_read(const char *path, StepPath *parts) {
    const char *open = strchr(path, '{'), *close = open ? strchr(open, '}') : NULL;
    if (!close) return false;
    char *end;
    const char *plus = (const char *)memchr(open, '+', (size_t)(close - open));
    long factor = strtol(open + 1, &end, 10);
    *parts = (StepPath){.before = (int)(open - path),
                        .after = close + 1,
                        .factor = *end == '*' ? factor : 1,
                        .offset = plus ? strtol(plus + 1, NULL, 10) : 0};
    return true;
}

/* Number in the path of iteration `step`. */
static inline long step_path_number(const StepPath *parts, long step) {
    return parts->factor * step + parts->offset;
}

#endif
