#include "training/gradient_sum.h"

#include "abi/shapes.h"
#include "base/memory.h"
#include "base/message.h"

#include <stdlib.h>
#include <string.h>

bool gradient_sum_fits(long parts, long lanes, int processes) {
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
    error_message(
        help,
        "the %ld reduction lanes of the run cannot be distributed over %d processes: each "
        "needs 1, 2, 4, 8, ... of them",
        lanes, processes);
    free(help);
    return false;
}

/* Processes that share a micro-batch have a term each of its gradient. */
static long lanes_of(const GradientSum *sum) {
    if (mesh_sharing(sum->mesh) > 1) return sum->parts;
    return sum->lanes > 1 && !sum->fast ? sum->lanes : mesh_size(sum->mesh);
}

bool gradient_sum_prepare(const GradientSum *sum, Model *model) {
    if (sum->lanes <= 1 || sum->fast) return true;
    if (model->device->apart)
        return error_message("omit --device, or set train.reduction_lanes = 1",
                             "train.reduction_lanes = %ld requires training on CPUs", sum->lanes);
    model->engine->host.product = NULL;
    return mesh_sharing(sum->mesh) > 1 ||
           gradient_sum_fits(sum->parts, sum->lanes, mesh_size(sum->mesh));
}

void gradient_sum_parts(const GradientSum *sum, long *first, long *count) {
    const int sharing = mesh_sharing(sum->mesh);
    *count = sum->parts * sharing / mesh_size(sum->mesh);
    *first = *count * (mesh_rank(sum->mesh) / sharing);
}

bool gradient_sum_begins(const GradientSum *sum, long part) {
    return part % (sum->parts / lanes_of(sum)) == 0;
}

static size_t elements(const Model *model) {
    return trained_bytes(model->table) / sizeof(float);
}

/* Adds the held sum of a level to the gradients. */
static void join_level(GradientSum *sum, const Model *model, int level) {
    float *gradients = model->there.gradients;
    const float *held = sum->sums[level];
    const size_t count = elements(model);
#pragma omp parallel for simd schedule(static)
    for (size_t i = 0; i < count; i++) gradients[i] = held[i] + gradients[i];
    sum->held[level] = false;
}

void gradient_sum_add(GradientSum *sum, const Model *model, long part) {
    const long length = sum->parts / lanes_of(sum);
    long first, count;
    gradient_sum_parts(sum, &first, &count);
    if ((part + 1) % length) return;
    int level = 0;
    for (; sum->held[level]; level++) join_level(sum, model, level);
    if (part + 1 == first + count) return;
    if (!sum->sums[level]) sum->sums[level] = memory_map(trained_bytes(model->table));
    memcpy(sum->sums[level], model->there.gradients, trained_bytes(model->table));
    sum->held[level] = true;
}

/* The other processes of the group have the slots of the own micro-batches for their keys. */
static void return_slots(const GradientSum *sum, const Model *model) {
    for (int i = 0; i < model->table->parameter_count; i++) {
        const MoecTensor *tensor = &model->table->parameters[i];
        const int keys = tensor->divided - 1;
        long outer = 1, inner = 1;
        if (keys < 0 || tensor->frozen) continue;
        for (int j = 0; j < tensor->rank; j++)
            if (j != keys) *(j < keys ? &outer : &inner) *= tensor->shape[j];
        mesh_return_slots(sum->mesh, "slots of gradients",
                          model->there.gradients + tensor->offset / sizeof(float), outer,
                          tensor->shape[keys], inner);
    }
}

void gradient_sum_finish(GradientSum *sum, const Model *model) {
    float *gradients = model->there.gradients;
    for (int level = 0; level < SUM_LEVELS; level++)
        if (sum->held[level]) join_level(sum, model, level);
    return_slots(sum, model);
    if (sum->fast) {
        mesh_sum(sum->mesh, "gradients", gradients, elements(model));
    } else {
        mesh_reduce_ranges(sum->mesh, "gradients", gradients, elements(model));
        if (!sum->sharded)
            mesh_gather_ranges(sum->mesh, "sums of gradients", gradients, elements(model));
    }
}

MeshRange gradient_sum_range(const GradientSum *sum, const Model *model) {
    return sum->sharded ? mesh_range(sum->mesh, elements(model), mesh_rank(sum->mesh))
                        : (MeshRange){0, elements(model)};
}

/* square_sum adds the sums of chunks of MESH_CHUNK elements in order; each process computes those
 * of its range. */
bool gradient_sum_squares(const GradientSum *sum, const Model *model, double *squares) {
    const DeviceKind *kind = model->device->kind;
    const float *gradients = model->there.gradients;
    if (!sum->sharded) return kind->square_sum(model->engine, gradients, elements(model), squares);
    const MeshRange own = gradient_sum_range(sum, model);
    const size_t size = (size_t)mesh_size(sum->mesh),
                 row = (elements(model) / MESH_CHUNK + 1) / size + 2; /* chunks of the longest */
    double *all = memory_new(sizeof *all * row * size);
    double *next = all + row * (size_t)mesh_rank(sum->mesh);
    bool good = true;
    for (size_t at = own.start; at < own.end && good; at += MESH_CHUNK) {
        size_t count = own.end - at < MESH_CHUNK ? own.end - at : MESH_CHUNK;
        good = kind->square_sum(model->engine, gradients + at, count, next++);
    }
    mesh_gather(sum->mesh, "squares of gradients", all, sizeof *all * row);
    *squares = 0;
    for (size_t i = 0; i < row * size; i++) *squares += all[i]; /* unused ones are 0 */
    free(all);
    return good;
}

void gradient_sum_release(GradientSum *sum, const Model *model) {
    for (int level = 0; level < SUM_LEVELS; level++)
        memory_unmap(sum->sums[level], trained_bytes(model->table));
}
