/* processes: a run on several processes: the size of the mesh, the comparison of the processes, and
 * their common initial state. */
#include "training/internal.h"

#include "abi/utf8_cut.h"
#include "base/build.h"
#include "base/cache.h"
#include "base/memory.h"
#include "base/message.h"
#include "device/cuda/cuda_library.h"
#include "training/run.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The number of the mesh is that of the launcher. */
static bool check_size(const ProcessGroup *launch, long size) {
    if (!size || size == launch->size) return true;
    AUTO_FREE char *help = launch->size > 1
                               ? memory_format("%s -n %ld moec train ..., or --mesh data=%d",
                                               launch->command, size, launch->size)
                               : memory_format("mpirun -n %ld moec train ...", size);
    if (launch->size > 1)
        error_message(help, "the mesh data = %ld has %ld processes, but %s started %d", size, size,
                      launch->command, launch->size);
    else
        error_message(help, "the mesh data = %ld has %ld processes, but only one was started", size,
                      size);
    return false;
}

/* Processes divide the micro-batches, or their sequences. The help names the nearest sizes. */
bool run_parts_fit(long parts, long size) {
    if (moec_sharing(parts, size)) return true;
    long below = size, above = size;
    while (parts % below) below--;
    while (above < parts ? parts % above : above % parts) above++;
    AUTO_FREE char *help = memory_format("use %ld or %ld processes, or "
                                         "train.gradient_accumulation_steps = %ld",
                                         below, above, (parts / size + 1) * size);
    error_message(
        help,
        "%ld micro-batches (train.gradient_accumulation_steps) cannot be distributed over "
        "data = %ld",
        parts, size);
    return false;
}

/* Processes that divide experts have a micro-batch each, or share one. */
static bool check_groups(long divided, long sharing) {
    if (sharing == 1 || sharing % divided == 0) return true;
    AUTO_FREE char *help = memory_format("use --mesh expert=%ld, or as many micro-batches "
                                         "(train.gradient_accumulation_steps) as processes",
                                         sharing);
    error_message(
        help, "%ld processes share the sequences of a micro-batch, which %s = %ld does not divide",
        sharing, "expert", divided);
    return false;
}

/* Stages differ in their micro-batches: with several, each process needs at least one. */
static bool set_sharing(TrainStages *stages, int size) {
    for (int i = 0; i < stages->count; i++) {
        const long parts = stages->all[i].settings.accumulate;
        if (!run_parts_fit(parts, size)) return false;
        stages->sharing = (int)moec_sharing(parts, size);
        if (stages->count > 1 && stages->sharing > 1)
            return error_message("use a larger gradient_accumulation_steps in each stage, or fewer "
                                 "processes",
                                 "a stage cannot divide its micro-batches (%ld) over %d processes",
                                 parts, size);
    }
    return true;
}

/* The mesh of the options or of the spec. Later programs are those of one of its processes. */
static bool set_mesh(TrainRun *run, const ProcessGroup *launch, MoecCompiler *compiler) {
    long size = run->settings.processes;
    run->divided = 1;
    if (run->options.mesh) {
        if (!moec_set_mesh(compiler, run->options.mesh, launch->size > 1 ? launch->size : 0))
            return reports_good(compiler);
        const MoecMesh mesh = moec_mesh(compiler);
        run->divided = (int)mesh.keys;
        size = mesh.data;
    }
    if (!check_size(launch, size) || !set_sharing(&run->stages, launch->size)) return false;
    const int sharing = run->stages.sharing;
    if (!check_groups(run->divided, sharing)) return false;
    if (sharing > 1 && !run->options.mesh && !moec_set_mesh(compiler, "data=auto", launch->size))
        return reports_good(compiler);
    if (run->divided > 1 || sharing > 1) moec_divide(compiler, sharing);
    return true;
}

/* Choices between kernels must not depend on time: each process would make others. */
static bool check_device(const TrainRun *run, const ProcessGroup *launch, const Device *device) {
    if (!device->apart) return true;
    if (launch->size > 1 || run->settings.lanes > 1) cuda_fix_choices();
    return launch->size == 1 || cuda_nccl();
}

bool processes_check(TrainRun *run, const Device *device, MoecCompiler *compiler) {
    static const ProcessGroup single = {.command = "", .size = 1, .local_size = 1};
    const RunOptions *options = &run->options;
    const ProcessGroup *launch = options->launch ? options->launch : &single;
    if (!set_mesh(run, launch, compiler) || !check_device(run, launch, device)) return false;
    for (int i = 0; i < run->stages.count && run->stages.sharing == 1; i++) {
        const Settings *stage = &run->stages.all[i].settings;
        if (stage->lanes && !stage->fast &&
            !gradient_sum_fits(stage->accumulate, stage->lanes, launch->size))
            return false;
    }
    return true;
}

/* ---- comparison ---- */

static size_t moment_elements(const Model *model) {
    return moment_bytes(model->table) / sizeof(float);
}

enum { SAMPLES = 64, SAMPLE_TOKENS = 64 };

/* Number of tokens, and a hash of some of them. */
static void add_samples(const Data *data, XXH3_state_t *state) {
    const uint64_t length = data->count < SAMPLE_TOKENS ? data->count : SAMPLE_TOKENS;
    int32_t tokens[SAMPLE_TOKENS];
    for (uint64_t i = 0; i < SAMPLES && length; i++) {
        uint64_t start = (data->count - length) / (SAMPLES - 1) * i;
        if (data->record) start -= start % data->record;
        if (data_read(data, start, (size_t)length, tokens))
            XXH3_128bits_update(state, tokens, sizeof *tokens * (size_t)length);
    }
}

static void describe_data(const DataSource *sources, int count, MeshProperty *property) {
    XXH3_state_t *state = cache_begin();
    uint64_t tokens = 0;
    for (int i = 0; i < count; i++) {
        add_samples(sources[i].data, state);
        if (count > 1) XXH3_128bits_update(state, &sources[i].share, sizeof sources[i].share);
        tokens += sources[i].data->count;
    }
    snprintf(property->value, sizeof property->value, "%" PRIu64 " tokens, hash %016" PRIx64,
             tokens, (uint64_t)XXH3_128bits_digest(state).low64);
    XXH3_freeState(state);
}

static void describe_text(const char *text, MeshProperty *property) {
    snprintf(property->value, sizeof property->value, "hash %016" PRIx64,
             (uint64_t)XXH3_64bits(text, strlen(text)));
}

static void describe_options(const TrainRun *run, MeshProperty *property) {
    const Settings *settings = &run->settings;
    const RunOptions *options = &run->options;
    snprintf(property->value, sizeof property->value,
             "steps %ld, seed %ld, stop after %ld, resume %d, mesh %s", settings->steps,
             settings->seed, options->until, options->resume,
             options->mesh ? options->mesh : "data=auto");
}

/* Without the number of the GPU, which differs. */
static void describe_device(const Device *device, MeshProperty *property) {
    const char *name = device->apart ? strchr(device->name, ' ') : device->name;
    int version = 0;
    if (device->apart) cuda_nccl()->version(&version);
    snprintf(property->value, sizeof property->value, "%.*s, NCCL %d",
             utf8_cut(name ? name : "", 60), name ? name : "", version);
}

/* A separate device has the optimizer states of the range that it updates. */
static void keep_own_moments(const TrainRun *run) {
    Model *model = run->model;
    const MeshRange own = mesh_range(run->mesh, moment_elements(model), mesh_rank(run->mesh));
    if (!model->device->apart) return;
    model->moment_part = true;
    model->moment_start = own.start;
    model->moment_end = own.end;
}

bool processes_join(TrainRun *run, const Device *device, bool good) {
    enum { VERSION, PROCESSOR, DEVICE, SPEC, OPTIONS, DATA, VALIDATION, COUNT };
    MeshProperty properties[COUNT] = {{.name = "version of moec"}, {.name = "processor"},
                                      {.name = "device"},          {.name = "spec"},
                                      {.name = "command line"},    {.name = "training data"},
                                      {.name = "validation data"}};
    char *processor = processor_name();
    snprintf(properties[VERSION].value, sizeof properties[VERSION].value, "%s (%s)", MOEC_VERSION,
             build_commit);
    snprintf(properties[PROCESSOR].value, sizeof properties[PROCESSOR].value, "%s",
             processor ? processor : "unknown");
    free(processor);
    if (good) {
        describe_device(run->model->device, &properties[DEVICE]);
        describe_text(run->bundle, &properties[SPEC]);
        describe_options(run, &properties[OPTIONS]);
        const DataSource other = {.data = run->other};
        describe_data(run->mixture.sources, run->mixture.count, &properties[DATA]);
        if (run->other) describe_data(&other, 1, &properties[VALIDATION]);
    }
    run->mesh = mesh_start(run->options.launch, good, !device || device->apart, properties, COUNT);
    if (!run->mesh) return false;
    mesh_set_groups(run->mesh, run->divided, run->stages.sharing);
    if (!mesh_use_device(run->mesh, run->model->engine)) return false;
    /* Optimizers of whole matrices need the gradients of all parameters. */
    run->sharded = run->settings.zero && !run->model->table->whole_bytes &&
                   !table_clip_groups(run->model->table);
    if (run->sharded) keep_own_moments(run);
    MoecHost *host = &run->model->engine->host;
    const bool apart = run->model->engine->device->apart;
    host->exchange_begin = apart ? mesh_exchange_begin_there : mesh_exchange_begin;
    host->exchange_end = apart ? mesh_exchange_end_there : mesh_exchange_end;
    host->mesh = run->mesh;
    return true;
}

/* ---- initial state ---- */

static size_t trained_elements(const Model *model) {
    return trained_bytes(model->table) / sizeof(float);
}

static void add_weight_part(TrainRun *run, size_t start, size_t end, int member) {
    if (start >= end) return;
    run->parts = memory_grow(run->parts, sizeof *run->parts * (size_t)(run->part_count + 1));
    run->parts[run->part_count++] = (MeshPart){start, end, member};
}

/* The parts of a divided parameter: of each iteration of its outer dimensions, one per process of a
 * group. Returns its end. */
static size_t add_tensor_parts(TrainRun *run, const MoecTensor *tensor) {
    const int keys = tensor->divided - 1;
    size_t outer = 1, inner = 1, start = tensor->offset / sizeof(float);
    for (int i = 0; i < tensor->rank; i++)
        if (i != keys) *(i < keys ? &outer : &inner) *= (size_t)tensor->shape[i];
    const size_t length = (size_t)tensor->shape[keys] / (size_t)run->divided * inner;
    for (size_t i = 0; i < outer; i++)
        for (int member = 0; member < run->divided; member++, start += length)
            add_weight_part(run, start, start + length, member);
    return start;
}

/* The parts of the weights, in order of their offsets. */
static void list_parts(TrainRun *run) {
    const MoecTable *table = run->model->table;
    const size_t all = trained_elements(run->model);
    size_t at = 0;
    for (int i = 0; i < table->parameter_count; i++) {
        const MoecTensor *tensor = &table->parameters[i];
        if (!tensor->divided || tensor->frozen) continue;
        add_weight_part(run, at, tensor->offset / sizeof(float), -1);
        at = add_tensor_parts(run, tensor);
    }
    add_weight_part(run, at, all, -1);
}

bool processes_share(TrainRun *run) {
    Model *model = run->model;
    Mesh *mesh = run->mesh;
    const MoecTable *table = model->table;
    const char *name = "initial weights";
    if (!mesh) return true;
    mesh_broadcast(mesh, name, 0, &run->place, sizeof run->place);
    mesh_broadcast(mesh, name, 0, &run->saved, sizeof run->saved);
    mesh_broadcast(mesh, name, 0, model->weights, table->weight_bytes);
    mesh_broadcast(mesh, name, 0, model->layer_states, table->state_bytes);
    for (int i = 0; i < table->update->state_count; i++) {
        if (run->sharded)
            mesh_scatter_ranges(mesh, name, model->moments[i], moment_elements(model));
        else
            mesh_broadcast(mesh, name, 0, model->moments[i], moment_bytes(table));
    }
    if (run->sharded && run->divided > 1) list_parts(run);
    const bool good = model_put(model);
    processes_drop(run);
    return good;
}

/* ---- sharded optimizer state, divided weights ---- */

void processes_collect(const TrainRun *run, bool optimizer) {
    const Model *model = run->model;
    if (run->parts && model->device->apart) /* which is copied to the host then */
        processes_complete(run);
    else if (run->parts)
        mesh_collect_ranges(run->mesh, "weights", model->weights, trained_elements(model));
    if (optimizer && run->sharded) model_get_moments(model);
    for (int i = 0; optimizer && run->sharded && i < model->table->update->state_count; i++)
        mesh_collect_ranges(run->mesh, "optimizer state", model->moments[i],
                            moment_elements(model));
}

static void drop_pages(float *block, size_t start, size_t end) {
    memory_release(block + start, (end - start) * sizeof *block);
}

/* Elements [start, end) of the weights, without the own range. */
static void drop_weights(const TrainRun *run, size_t start, size_t end) {
    const Model *model = run->model;
    const MeshRange own = mesh_range(run->mesh, trained_elements(model), mesh_rank(run->mesh));
    const size_t before = end < own.start ? end : own.start,
                 after = start > own.end ? start : own.end;
    if (start < before) drop_pages(model->weights, start, before);
    if (after < end) drop_pages(model->weights, after, end);
}

/* A process has the weights that it reads and those that it updates. */
static void drop_parts(const TrainRun *run) {
    for (int i = 0; i < run->part_count; i++) {
        const MeshPart *part = &run->parts[i];
        if (part->member >= 0 && part->member != mesh_member(run->mesh))
            drop_weights(run, part->start, part->end);
    }
}

void processes_drop(const TrainRun *run) {
    const Model *model = run->model;
    const size_t count = moment_elements(model);
    drop_parts(run);
    if (!run->sharded || mesh_rank(run->mesh)) return;
    const MeshRange own = mesh_range(run->mesh, count, 0);
    for (int i = 0; i < model->table->update->state_count; i++)
        drop_pages(model->moments[i], own.end, count);
}

void processes_settle(const TrainRun *run) {
    const Model *model = run->model;
    if (run->divided > 1 && !model->device->apart)
        memory_join_pages(model->there.arena, model->arena_bytes);
}

void processes_drop_rows(const TrainRun *run) {
    const Model *model = run->model;
    if (run->divided > 1 && !model->device->apart)
        memory_release(model->there.arena, model->arena_bytes);
}

void processes_complete(const TrainRun *run) {
    if (run->parts)
        mesh_gather_ranges(run->mesh, "weights", run->model->there.weights,
                           trained_elements(run->model));
}

double run_weight_bytes(const TrainRun *run) {
    const Model *model = run->model;
    const MeshRange own = mesh_range(run->mesh, trained_elements(model), mesh_rank(run->mesh));
    size_t dropped = 0;
    for (int i = 0; i < run->part_count && !model->device->apart; i++) {
        const MeshPart *part = &run->parts[i];
        const size_t start = part->start > own.start ? part->start : own.start,
                     end = part->end < own.end ? part->end : own.end;
        if (part->member >= 0 && part->member != mesh_member(run->mesh))
            dropped += part->end - part->start - (start < end ? end - start : 0);
    }
    return (double)model->table->weight_bytes - (double)(dropped * sizeof(float));
}

void processes_average(const TrainRun *run) {
    const Model *model = run->model;
    const MoecUpdate *update = model->table->update;
    const char *name = "averages of weights";
    if (!run->sharded) return;
    if (model->device->apart) model_get_moments(model);
    for (int i = 0; i < update->state_count; i++) {
        float *average = model->moments[i];
        if (strcmp(update->state_names[i], "average") != 0) continue;
        if (model->device->apart) { /* the host blocks */
            mesh_collect_ranges(run->mesh, name, average, moment_elements(model));
            mesh_broadcast(run->mesh, name, 0, average, moment_bytes(model->table));
        } else {
            mesh_gather_ranges(run->mesh, name, average, moment_elements(model));
        }
    }
}
