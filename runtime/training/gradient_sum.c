#include "training/gradient_sum.h"

#include "base/memory.h"
#include "base/message.h"

#include <stdlib.h>

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
    AUTO_FREE char *help =
        memory_format("use %d processes, or train.reduction_lanes = %d, which changes the "
                      "rounding",
                      fits, processes);
    error_message(
        help,
        "the %ld reduction lanes of the run cannot be distributed over %d processes: each "
        "needs 1, 2, 4, 8, ... of them",
        lanes, processes);
    return false;
}

/* Processes that share a micro-batch have a term each of its gradient. */
static long lanes_of(const GradientSum *sum) {
    if (mesh_sharing(sum->mesh) > 1) return sum->parts;
    return sum->lanes > 1 && !sum->fast ? sum->lanes : mesh_size(sum->mesh);
}

bool gradient_sum_prepare(const GradientSum *sum, Model *model) {
    if (sum->lanes <= 1 || sum->fast) return true;
    if (!model->device->apart) model->engine->host.product = NULL;
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
static bool join_level(GradientSum *sum, const Model *model, int level) {
    float *gradients = model->there.gradients, *parts[] = {sum->sums[level], gradients};
    sum->held[level] = false;
    return model->device->kind->add_tree(model->engine, parts, 2, elements(model), gradients);
}

/* Keeps the gradients as the sum of a level. */
static bool hold_level(GradientSum *sum, const Model *model, int level) {
    Device *device = model->device;
    const size_t bytes = trained_bytes(model->table);
    if (!sum->sums[level]) sum->sums[level] = device->kind->allocate(device, bytes);
    sum->held[level] = true;
    return sum->sums[level]
               ? device->kind->copy(device, sum->sums[level], model->there.gradients, bytes)
               : error_message("use more processes, or a smaller train.reduction_lanes from the "
                               "start of the run",
                               "out of memory: cannot allocate the gradients of a lane, %zu bytes, "
                               "on %s",
                               bytes, device->name);
}

bool gradient_sum_add(GradientSum *sum, const Model *model, long part) {
    const long length = sum->parts / lanes_of(sum);
    long first, count;
    gradient_sum_parts(sum, &first, &count);
    if ((part + 1) % length) return true;
    int level = 0;
    for (; sum->held[level]; level++)
        if (!join_level(sum, model, level)) return false;
    return part + 1 == first + count || hold_level(sum, model, level);
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

bool gradient_sum_finish(GradientSum *sum, const Model *model) {
    float *gradients = model->there.gradients;
    for (int level = 0; level < SUM_LEVELS; level++)
        if (sum->held[level] && !join_level(sum, model, level)) return false;
    return_slots(sum, model);
    if (sum->fast) {
        mesh_sum(sum->mesh, "gradients", gradients, elements(model));
    } else {
        mesh_reduce_ranges(sum->mesh, "gradients", gradients, elements(model));
        if (!sum->sharded)
            mesh_gather_ranges(sum->mesh, "sums of gradients", gradients, elements(model));
    }
    return true;
}

MeshRange gradient_sum_range(const GradientSum *sum, const Model *model) {
    return sum->sharded ? mesh_range(sum->mesh, elements(model), mesh_rank(sum->mesh))
                        : (MeshRange){0, elements(model)};
}

/* device_square_sum adds the sums of chunks in order; each process computes those of its range. */
bool gradient_sum_squares(const GradientSum *sum, const Model *model, double *squares) {
    const float *gradients = model->there.gradients;
    if (!sum->sharded) return device_square_sum(model->engine, gradients, elements(model), squares);
    const MeshRange own = gradient_sum_range(sum, model);
    const size_t size = (size_t)mesh_size(sum->mesh),
                 row = (elements(model) / MESH_CHUNK + 1) / size + 2; /* chunks of the longest */
    AUTO_FREE double *all = memory_new(sizeof *all * row * size);
    const bool good =
        model->device->kind->square_sums(model->engine, gradients + own.start, own.end - own.start,
                                         all + row * (size_t)mesh_rank(sum->mesh));
    mesh_gather(sum->mesh, "squares of gradients", all, sizeof *all * row);
    *squares = 0;
    for (size_t i = 0; i < row * size; i++) *squares += all[i]; /* unused ones are 0 */
    return good;
}

void gradient_sum_release(GradientSum *sum, const Model *model) {
    for (int level = 0; level < SUM_LEVELS; level++)
        if (sum->sums[level])
            model->device->kind->release(model->device, sum->sums[level],
                                         trained_bytes(model->table));
}
