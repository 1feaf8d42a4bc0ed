#include "training/reduction.h"

#include "abi/shapes.h"
#include "base/memory.h"
#include "base/message.h"

#include <stdlib.h>
#include <string.h>

bool reduction_fits(long parts, long lanes, int processes) {
    const long own = lanes / processes;
    if (parts % lanes)
        return error_message("choose a divisor of train.gradient_accumulation_steps",
                             "train.reduction_lanes = %ld does not divide the %ld micro-batches of "
                             "a step (train.gradient_accumulation_steps)",
                             lanes, parts);
    if (lanes % processes == 0 && (processes == 1 || (own & (own - 1)) == 0)) return true;
    int fits = processes;
    while (lanes % fits || ((lanes / fits) & (lanes / fits - 1))) fits--;
    char *help = memory_format("use %d processes, or train.reduction_lanes = %d, which changes the "
                               "rounding",
                               fits, processes);
    error_message(help,
                  "the %ld reduction lanes of the run cannot be distributed over %d processes: each "
                  "needs 1, 2, 4, 8, ... of them",
                  lanes, processes);
    free(help);
    return false;
}

static long lanes_of(const Reduction *reduction) {
    return reduction->lanes > 1 && !reduction->fast ? reduction->lanes
                                                    : mesh_size(reduction->mesh);
}

bool reduction_prepare(const Reduction *reduction, Model *model) {
    if (reduction->lanes <= 1 || reduction->fast) return true;
    if (model->device->apart)
        return error_message("omit --device, or set train.reduction_lanes = 1",
                             "train.reduction_lanes = %ld requires training on CPUs",
                             reduction->lanes);
    model->engine->host.product = NULL;
    return reduction_fits(reduction->parts, reduction->lanes, mesh_size(reduction->mesh));
}

void reduction_parts(const Reduction *reduction, long *first, long *count) {
    *count = reduction->parts / mesh_size(reduction->mesh);
    *first = *count * mesh_rank(reduction->mesh);
}

bool reduction_begins(const Reduction *reduction, long part) {
    return part % (reduction->parts / lanes_of(reduction)) == 0;
}

static size_t elements(const Model *model) {
    return trained_bytes(model->table) / sizeof(float);
}

/* Adds the held sum of a level to the gradients. */
static void join(Reduction *reduction, const Model *model, int level) {
    float *gradients = model->there.gradients;
    const float *sum = reduction->sums[level];
    const size_t count = elements(model);
#pragma omp parallel for simd schedule(static)
    for (size_t i = 0; i < count; i++) gradients[i] = sum[i] + gradients[i];
    reduction->held[level] = false;
}

void reduction_add(Reduction *reduction, const Model *model, long part) {
    const long length = reduction->parts / lanes_of(reduction);
    long first, count;
    reduction_parts(reduction, &first, &count);
    if ((part + 1) % length) return;
    int level = 0;
    for (; reduction->held[level]; level++) join(reduction, model, level);
    if (part + 1 == first + count) return;
    if (!reduction->sums[level]) reduction->sums[level] = memory_map(trained_bytes(model->table));
    memcpy(reduction->sums[level], model->there.gradients, trained_bytes(model->table));
    reduction->held[level] = true;
}

void reduction_finish(Reduction *reduction, const Model *model) {
    float *gradients = model->there.gradients;
    for (int level = 0; level < REDUCTION_LEVELS; level++)
        if (reduction->held[level]) join(reduction, model, level);
    if (reduction->fast) {
        mesh_sum(reduction->mesh, "gradients", gradients, elements(model));
    } else {
        mesh_reduce_ranges(reduction->mesh, "gradients", gradients, elements(model));
        mesh_gather_ranges(reduction->mesh, "sums of gradients", gradients, elements(model));
    }
}

void reduction_release(Reduction *reduction, const Model *model) {
    for (int level = 0; level < REDUCTION_LEVELS; level++)
        memory_unmap(reduction->sums[level], trained_bytes(model->table));
}
