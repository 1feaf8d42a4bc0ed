/* verify_shapes: the sizes at which `moec verify` compares; those that the interpreter can run.
 *
 * `--shapes` lists one position, one chunk and several chunks of a recurrence, lengths that a chunk
 * does not divide, and rows on both sides of each threshold of the compiler. Forms that need large
 * sizes are reached at small ones by the settings `train.scan_chunk_size` and
 * `train.logits_chunk_size`. */
#include "verify.h"

#include "abi/quantity.h"
#include "base/memory.h"
#include "base/message.h"
#include "model/interpreted.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the shapes of a model ---- */

typedef struct ShapeList {
    VerifyShape *shapes;
    int count;
} ShapeList;

static bool same_set(const char *one, const char *other) {
    return one && other ? !strcmp(one, other) : one == other;
}

static void add_shape_sizes(ShapeList *list, long batch, long context, const char *set) {
    for (int i = 0; i < list->count; i++) {
        const VerifyShape *shape = &list->shapes[i];
        if (shape->batch == batch && shape->context == context && same_set(shape->set, set)) return;
    }
    if (list->count < SHAPE_LIMIT)
        list->shapes[list->count++] =
            (VerifyShape){.batch = batch, .context = context, .set = set, .source = ""};
}

/* The context at which the cache of a sliding window is a ring, 0 without a window. */
static long past_window(MoecCompiler *compiler) {
    json_t *options = json_loads(moec_options_json(compiler), 0, NULL), *value;
    const char *path;
    long window = 0;
    json_object_foreach(options, path, value) {
        const char *name = strrchr(path, '.');
        double size = name && !strcmp(name, ".window") ? moec_option_number(compiler, path, 0) : 0;
        if (size > (double)window) window = (long)size;
    }
    json_decref(options);
    return window ? window + 2 * MOEC_STEP_TOKENS : 0;
}

/* Chunks of 16 positions: fewer, exactly one, several, and a partial one. */
static void add_short_chunks(ShapeList *list, long sequential) {
    static const char set[] = "train.scan_chunk_size=16";
    add_shape_sizes(list, 2, 16, set);
    add_shape_sizes(list, 2, 40, set);
    add_shape_sizes(list, 2, 48, set);
    add_shape_sizes(list, 2, sequential, "train.scan_chunk_size=1");
}

int verify_shapes(MoecCompiler *compiler, VerifyShape *shapes) {
    const MoecThresholds thresholds = moec_thresholds();
    const long places = (long)moec_option_number(compiler, "train.scan_chunk_size", 0),
               least = thresholds.scan_positions, window = past_window(compiler);
    MoecProgram *forward = moec_compile(compiler, MOEC_FORWARD, 1, 2 * least, 0);
    const long found = forward ? moec_scan_chunk(forward) : 0,
               chunk = found > 1 ? found : least / 2;
    ShapeList list = {.shapes = shapes};
    add_shape_sizes(&list, (long)moec_option_number(compiler, "train.batch_size", 2),
                    (long)moec_option_number(compiler, "train.context_length", 12), NULL);
    add_shape_sizes(&list, 2, 1, NULL);
    add_shape_sizes(&list, 2, 12, NULL);
    add_shape_sizes(&list, 2, chunk, NULL);
    add_shape_sizes(&list, 2, chunk + chunk / 2, NULL);
    add_shape_sizes(&list, 2, least, NULL);
    add_shape_sizes(&list, 1, least, NULL);
    add_shape_sizes(&list, 3, least + chunk / 2, NULL);
    add_shape_sizes(&list, 2, least + chunk, NULL);
    if (found > 0 && places == 0) add_short_chunks(&list, least);
    if (window) add_shape_sizes(&list, 2, window, NULL);
    add_shape_sizes(&list, 2, least, "train.logits_chunk_size=32");
    add_shape_sizes(&list, thresholds.strip_rows / least + 1, least, NULL);
    return list.count;
}

/* ---- the cost of a shape ---- */

typedef struct ShapeCost {
    double seconds, bytes;
} ShapeCost;

static ShapeCost cost_of(const Comparison *comparison, long batch, long context) {
    AUTO(MoecCompiler) *compiler = spec_open_quietly(comparison->operand, comparison->sets);
    const MoecGraph graphs[] = {MOEC_FORWARD, MOEC_TRAIN};
    const double runs = comparison->rounded ? 3 : 1; /* exact, and two programs that round */
    ShapeCost cost = {0};
    for (int i = 0; compiler && i < 2; i++) {
        MoecProgram *program = moec_define(compiler, graphs[i], batch, context, 0);
        if (!program) continue;
        const MoecInterpreterCost one = moec_interpreter_cost(program);
        cost.seconds += runs * interpreted_seconds(program);
        cost.bytes = fmax(cost.bytes, runs * one.bytes);
    }
    return cost;
}

static bool has_room(ShapeCost cost) {
    return interpreted_has_room(cost.bytes);
}

static char *duration(char text[16], double seconds) {
    if (seconds < 100)
        snprintf(text, 16, "%.0f s", fmax(seconds, 1));
    else if (seconds < 6000)
        snprintf(text, 16, "%.0f min", seconds / 60);
    else
        snprintf(text, 16, "%.0f h", seconds / 3600);
    return text;
}

/* The largest shape that fits, the context halved and the batch at most 2; or a smaller model. */
static char *suggestion(const Comparison *comparison) {
    long batch = comparison->shape.batch < 2 ? 1 : 2;
    for (long context = comparison->shape.context; context > 0; context /= 2) {
        if (context < 16) batch = 1;
        if (batch == comparison->shape.batch && context == comparison->shape.context) continue;
        const ShapeCost cost = cost_of(comparison, batch, context);
        if (has_room(cost) && cost.seconds <= comparison->seconds)
            return memory_format("moec verify %s -b %ld -c %ld", comparison->operand, batch,
                                 context);
    }
    return memory_format("make the model smaller, for example with --set layers=2 --set dim=64");
}

bool verify_fits(const Comparison *comparison, char **problem, char **help) {
    const VerifyShape *shape = &comparison->shape;
    const ShapeCost cost = cost_of(comparison, shape->batch, shape->context);
    const bool room = has_room(cost);
    char need[16], limit[16];
    if (room && cost.seconds <= comparison->seconds) return true;
    if (room)
        *problem =
            memory_format("needs about %s in the interpreter; the limit is %s",
                          duration(need, cost.seconds), duration(limit, comparison->seconds));
    else
        *problem = memory_format("needs %s in the interpreter; this machine has %s",
                                 quantity(cost.bytes, "B").text,
                                 quantity((double)memory_of_machine(), "B").text);
    if (room && shape->asked) {
        note_message("batch %ld, context %ld %s", shape->batch, shape->context, *problem);
        free(*problem);
        *problem = NULL;
        return true;
    }
    *help = suggestion(comparison);
    return false;
}
