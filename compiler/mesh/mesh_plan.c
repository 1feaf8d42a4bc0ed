/* mesh_plan: predicts the time and memory of a training step for every mesh of a cluster.
 *
 * The program of one process is scheduled for its machine. The time of a unit of work is that of
 * its products or that of its memory traffic, the longer one, at the rates that the machine reaches
 * (Williams, Waterman, Patterson: Roofline, CACM 2009). The time of a collective is latency * steps
 * + bytes / bandwidth of the slowest connection. Collectives run one after the other, each from its
 * begin in the schedule on; the process waits for them at their ends. Gradients are added within
 * each node, then between nodes.
 */
#include "mesh/mesh_plan.h"

#include "explain/explain.h"
#include "analysis/access.h"
#include "base/must.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

/* ---- communication ---- */

static double reached_rate(const MachineRecord *machine, MachineField peak, MachineField reached) {
    return machine->value[peak] * 1e9 * machine->value[reached];
}

/* A group of processes of which `within` are on one node. */
typedef struct MeshGroup {
    long size, within;
} MeshGroup;

/* `stride` is the distance of neighbors of the group in the order of the processes. */
static MeshGroup group_of(const MachineRecord *machine, long size, long stride) {
    const long node = (long)machine->value[MACHINE_PROCESSES];
    long within = node / stride;
    within = within < 1 ? 1 : within;
    return (MeshGroup){size, size < within ? size : within};
}

static double latency_steps(long processes) {
    return ceil(log2((double)processes));
}

/* Each process sends its share of `bytes` to every other one. */
static double exchange_seconds(const MachineRecord *machine, MeshGroup group, double bytes) {
    const double inside = (double)(group.within - 1) / (double)group.size,
                 outside = (double)(group.size - group.within) / (double)group.size;
    double seconds = 0;
    if (inside > 0)
        seconds = latency_steps(group.within) * machine->value[MACHINE_NODE_LATENCY] +
                  inside * bytes / reached_rate(machine, MACHINE_NODE_GBYTES, MACHINE_REACHED_NODE);
    if (outside > 0)
        seconds =
            fmax(seconds,
                 latency_steps(group.size) * machine->value[MACHINE_NETWORK_LATENCY] +
                     outside * bytes /
                         reached_rate(machine, MACHINE_NETWORK_GBYTES, MACHINE_REACHED_NETWORK));
    return seconds;
}

/* A reduce-scatter or an all-gather of `bytes`: within each node, then between the nodes with an
 * equal part for each process of a node. */
static double scatter_seconds(const MachineRecord *machine, MeshGroup group, double bytes) {
    const MeshGroup node = {group.within, group.within}, nodes = {group.size / group.within, 1};
    return exchange_seconds(machine, node, bytes) +
           exchange_seconds(machine, nodes, bytes / (double)group.within);
}

/* ---- the program of a process ---- */

/* An exchange between its begin and its end, and when the network transfers it. */
typedef struct RunningExchange {
    TimedExchange *timed;
    double start, done;
} RunningExchange;

typedef struct MeshPlanning {
    const MachineRecord *machine;
    PlannedMesh *mesh;
    const Program *program;
    bool zero;
    Explanation explanation;
    ExplainedUnit **units; /* by position; NULL: not explained yet */
    double sent;           /* seconds of the network for gradients that are ready */
    double *later;         /* by tensor->id: bytes of gradients that are not */
    List exchanges;        /* TimedExchange *, in order */
    RunningExchange *running;
    int first, end;      /* in `running` */
    double network_free; /* when the last exchange so far is done */
    double received;     /* most bytes of an exchange of rows */
    double slots;        /* most bytes of a divided gradient of one repeat */
} MeshPlanning;

static MeshGroup gradient_group(const MeshPlanning *planning, const Tensor *gradient) {
    const long *size = planning->mesh->size;
    const bool divided = gradient->placed[MESH_EXPERT].kind == PLACED_DIVIDED;
    const long stride = divided ? size[MESH_EXPERT] : 1;
    return group_of(planning->machine, size[MESH_DATA] / stride, stride);
}

/* A reduction for the owner of each part, and the return of the sums or of the new weights. */
static double gradient_seconds(const MeshPlanning *planning, const Tensor *gradient, double bytes) {
    return 2 * scatter_seconds(planning->machine, gradient_group(planning, gradient), bytes);
}

/* In a process. Divided gradients count as sums over the rows of all processes, without slots. */
static double tensor_bytes(const Tensor *tensor) {
    const Placement *keys = &tensor->placed[MESH_EXPERT];
    const long parts = keys->kind == PLACED_DIVIDED ? keys->parts : 1;
    return (double)(tensor_elements(tensor) / parts) * (double)type_bytes(tensor->type);
}

/* The network sums the gradients that the unit completes in the last micro-batch. */
static void send_gradients(MeshPlanning *planning, const ExplainedUnit *unit) {
    const double now = planning->explanation.seconds;
    for (int i = 0; i < unit->statements.count; i++) {
        List writes = {0};
        writes_of(planning->explanation.arena, unit->statements.items[i], &writes);
        for (int k = 0; k < writes.count; k++) {
            const Tensor *tensor = ((const Expr *)writes.items[k])->tensor;
            double *later = &planning->later[tensor->id];
            if (tensor->role != ROLE_GRADIENT || *later <= 0) continue;
            double bytes = tensor_bytes(tensor);
            if (tensor->rank && tensor->axes[0]->kind == AXIS_REPEAT)
                bytes /= (double)tensor->axes[0]->size;
            bytes = fmin(bytes, *later);
            *later -= bytes;
            planning->sent =
                fmax(planning->sent, now) + gradient_seconds(planning, tensor, bytes) / 2;
        }
    }
}

static double call_seconds(MeshPlanning *planning, const Statement *statement) {
    const bool rows = statement->collective.over == MESH_EXPERT;
    const MeshGroup group =
        group_of(planning->machine, planning->program->mesh[statement->collective.over], 1);
    const double bytes = exchanged_bytes(statement);
    if (rows) planning->received = fmax(planning->received, bytes);
    return rows ? exchange_seconds(planning->machine, group, bytes)
                : 2 * scatter_seconds(planning->machine, group, bytes);
}

static TimedExchange *timed_exchange(MeshPlanning *planning, const Statement *statement) {
    LIST_EACH(TimedExchange, timed, &planning->exchanges)
        if (timed->statement == statement) return timed;
    const TimedExchange timed = {.statement = statement,
                                 .seconds = call_seconds(planning, statement)};
    return list_copy(planning->explanation.arena, &planning->exchanges, &timed, sizeof timed);
}

/* The process waits at the end of an exchange until it is done. */
static void plan_exchange(MeshPlanning *planning, const ScheduleUnit *unit) {
    double *now = &planning->explanation.seconds;
    if (unit->phase == BEGINS_EXCHANGE) {
        TimedExchange *timed = timed_exchange(planning, unit->statement);
        const double start = fmax(*now, planning->network_free);
        planning->network_free = start + timed->seconds;
        planning->running[planning->end++] =
            (RunningExchange){timed, start, planning->network_free};
        timed->runs++;
        return;
    }
    const RunningExchange *running = &planning->running[planning->first++];
    const double exposed = fmax(0, running->done - *now);
    MUST(running->timed->statement == unit->statement);
    if (planning->first == planning->end) planning->first = planning->end = 0;
    running->timed->exposed += exposed;
    planning->mesh->exchanges += exposed;
    *now += exposed;
}

/* The exchanges that run while a unit computes. */
static void hide_exchanges(const MeshPlanning *planning, const ExplainedUnit *unit) {
    const double now = planning->explanation.seconds;
    for (int i = planning->first; i < planning->end; i++) {
        const RunningExchange *running = &planning->running[i];
        const double hidden = fmin(running->done, now + unit->seconds) - fmax(running->start, now);
        TimedExchange *timed = running->timed;
        if (hidden <= 0) continue;
        if (timed->runs == 1) timed->hiders++;
        if (timed->runs > 1 || hidden <= timed->hidden) continue;
        timed->hidden = hidden;
        timed->hider = unit->name;
    }
}

static void plan_units(MeshPlanning *planning, const List *units) {
    for (int i = 0; i < units->count; i++) {
        const ScheduleUnit *unit = units->items[i];
        if (unit->kind == UNIT_REPEAT) {
            const long runs = unit->statement->index->axis->size;
            for (long run = 0; run < runs; run++) plan_units(planning, &unit->body);
            continue;
        }
        if (unit_exchanges(unit)) {
            plan_exchange(planning, unit);
            continue;
        }
        if (unit->beside) continue;
        ExplainedUnit **known = &planning->units[unit->first];
        if (!*known) *known = explain_unit(&planning->explanation, units, i, 1);
        const ExplainedUnit *explained = *known;
        if (!explained) continue;
        hide_exchanges(planning, explained);
        planning->mesh->compute += explained->seconds;
        planning->explanation.seconds += explained->seconds;
        send_gradients(planning, explained);
    }
}

/* ---- memory and update ---- */

static double whole_bytes(const Tensor *tensor) {
    return (double)tensor_elements(tensor) * (double)type_bytes(tensor->type);
}

/* Of a parameter, in a process: without the values that only others read and update. */
static double process_weight_bytes(const MeshPlanning *planning, const Tensor *parameter) {
    const double whole = whole_bytes(parameter), own = tensor_bytes(parameter);
    if (parameter->frozen || !planning->zero) return whole;
    return own + (whole - own) / (double)planning->mesh->size[MESH_DATA];
}

/* Of a divided gradient: the slots of all keys that are exchanged at once. */
static double gradient_slot_bytes(const Tensor *gradient) {
    const Placement *keys = &gradient->placed[MESH_EXPERT];
    double bytes = keys->kind == PLACED_DIVIDED ? whole_bytes(gradient) : 0;
    for (int i = 0; i < keys->dimension; i++) bytes /= (double)gradient->axes[i]->size;
    return bytes;
}

/* Elements that a process receives at once for a sum of gradients: see runtime/mesh/reduce.c. */
enum { REDUCED = 1 << 22 };

/* Memory of the exchanges of a process, for gradients and for rows. */
static double exchange_bytes(const MeshPlanning *planning, double trained) {
    const long *size = planning->mesh->size;
    const double others = 1 - 1 / (double)size[MESH_DATA];
    return others * fmin(trained, REDUCED * sizeof(float)) +
           fmax(planning->slots, planning->received * (1 - 1 / (double)size[MESH_EXPERT]));
}

typedef struct ProcessBytes {
    double weights, rounded, gradients, optimizer, states, updated;
} ProcessBytes;

/* Bytes of a process. The optimizer state is distributed over all processes; divided gradients have
 * a slot for the rows of each process of a group. */
static ProcessBytes sizes_of(MeshPlanning *planning, double copies) {
    const Program *program = planning->program;
    const double owners = planning->zero ? (double)planning->mesh->size[MESH_DATA] : 1;
    ProcessBytes sizes = {0};
    LIST_EACH(const Tensor, tensor, &program->tensors) {
        const double bytes = whole_bytes(tensor);
        if (tensor->role == ROLE_STATE) sizes.states += bytes;
        if (tensor->role == ROLE_ROUNDED) sizes.rounded += bytes;
        if (tensor->role == ROLE_PARAMETER) sizes.weights += process_weight_bytes(planning, tensor);
        if (tensor->role != ROLE_GRADIENT) continue;
        sizes.gradients += bytes;
        planning->slots = fmax(planning->slots, gradient_slot_bytes(tensor));
        sizes.optimizer += copies * bytes / owners;
        /* Weights, gradients and the state are read, weights and the state written. */
        sizes.updated += (3 + 2 * copies) * bytes / owners;
    }
    return sizes;
}

/* Blocks of gradients in a process: see runtime/training/gradient_sum.h. */
static double gradient_sums(const MeshPlan *plan, const PlannedMesh *mesh) {
    const double lanes = (double)plan->lanes / (double)mesh->size[MESH_DATA];
    return 1 + (lanes > 1 ? ceil(log2(lanes)) : 0);
}

/* Each part of a step ends with the slowest process: about sqrt(2 ln P) standard deviations after
 * the mean of P normally distributed times. */
static void wait_for_slowest(const MachineRecord *machine, PlannedMesh *mesh) {
    double *const parts[] = {&mesh->compute, &mesh->exchanges, &mesh->gradients, &mesh->hidden,
                             &mesh->update};
    const double slowest =
        1 + machine->value[MACHINE_SPREAD] * sqrt(2 * log((double)mesh->size[MESH_DATA]));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) *parts[i] *= slowest;
}

static MeshPlanning planning_of(Arena *arena, const MachineRecord *machine, PlannedMesh *mesh,
                                const Schedule *schedule) {
    const size_t units = (size_t)last_moment(&schedule->units, 0) + 1,
                 tensors = (size_t)schedule->program->tensors.count + 1;
    MeshPlanning planning = {.machine = machine, .mesh = mesh, .program = schedule->program};
    planning.explanation.arena = arena;
    planning.explanation.schedule = schedule;
    planning.explanation.ceilings =
        (MoecCeilings){reached_rate(machine, MACHINE_GFLOPS, MACHINE_REACHED_GFLOPS),
                       reached_rate(machine, MACHINE_GBYTES, MACHINE_REACHED_GBYTES)};
    planning.later = arena_alloc(arena, tensors * sizeof *planning.later);
    planning.units = arena_alloc(arena, units * sizeof *planning.units);
    planning.running = arena_alloc(arena, units * sizeof *planning.running);
    return planning;
}

List mesh_exchanges(Arena *arena, const MachineRecord *machine, const Schedule *schedule) {
    PlannedMesh mesh = {0};
    MeshPlanning planning = planning_of(arena, machine, &mesh, schedule);
    plan_units(&planning, &schedule->units);
    return planning.exchanges;
}

double mesh_gradient_seconds(const MachineRecord *machine, long processes, bool slots,
                             double bytes) {
    const MeshGroup group = group_of(machine, processes, 1);
    return slots ? exchange_seconds(machine, group, bytes)
                 : 2 * scatter_seconds(machine, group, bytes);
}

void mesh_predict(const MeshPlan *plan, PlannedMesh *mesh, const Schedule *schedule) {
    const MachineRecord *machine = plan->machine;
    const Program *program = schedule->program;
    MeshPlanning planning = planning_of(plan->arena, machine, mesh, schedule);
    planning.zero = plan->zero;
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        if (tensor->role != ROLE_GRADIENT) continue;
        planning.later[i] = tensor_bytes(tensor);
        mesh->gradients += gradient_seconds(&planning, tensor, planning.later[i]);
    }
    plan_units(&planning, &schedule->units);
    /* The reduction may overlap with the backward pass, the return of the weights with the forward
     * pass, which is a third of the work. */
    const double exposed = fmax(0, planning.sent - planning.explanation.seconds);
    mesh->hidden = fmax(0, mesh->gradients / 2 - exposed) +
                   fmin(mesh->gradients / 2, planning.explanation.seconds / 3);
    const ProcessBytes sizes = sizes_of(&planning, plan->copies);
    mesh->update = sizes.updated / planning.explanation.ceilings.memory;
    mesh->memory = sizes.weights + sizes.rounded + gradient_sums(plan, mesh) * sizes.gradients +
                   sizes.optimizer + sizes.states + plan->step_states +
                   exchange_bytes(&planning, sizes.gradients) +
                   fmax(touched_bytes(schedule, 0, INT_MAX), plan->step_temporaries);
    mesh->compute *= (double)mesh->micro_batches;
    mesh->exchanges *= (double)mesh->micro_batches;
    wait_for_slowest(machine, mesh);
}

double planned_seconds(const PlannedMesh *mesh) {
    return mesh->compute + mesh->exchanges + mesh->gradients + mesh->update;
}

/* Times that differ by less than about 1 % count as equal: then the smaller memory is first. */
static int compare_meshes(const void *a, const void *b) {
    const PlannedMesh *one = *(PlannedMesh *const *)a, *other = *(PlannedMesh *const *)b;
    if (!one->refused != !other->refused) return one->refused ? 1 : -1;
    if (one->refused) return (int)(one->size[MESH_EXPERT] - other->size[MESH_EXPERT]);
    const double times =
        round(100 * log(planned_seconds(one))) - round(100 * log(planned_seconds(other)));
    const double difference = times != 0 ? times : one->memory - other->memory;
    return (difference > 0) - (difference < 0);
}

void mesh_plan_sort(MeshPlan *plan) {
    qsort(plan->meshes.items, (size_t)plan->meshes.count, sizeof *plan->meshes.items,
          compare_meshes);
}
