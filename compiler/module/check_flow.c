/* check_flow: lifetimes and data flow of the host program of an entry.
 *
 * The steps become one list of accesses. A walk over it records for each part of the arena the
 * buffer that was written last. A read needs the memory of its buffer as the last write or clear
 * left it; bodies of repeats are walked twice. Between the begin and the end of an exchange, its
 * operands are not written and its results not accessed.
 */
#include "module/module_check.h"

#include <stdlib.h>
#include <string.h>

typedef enum TraceKind { TRACE_READ, TRACE_WRITE, TRACE_REPEAT, TRACE_BEGIN, TRACE_END } TraceKind;

/* An access to a buffer, a repeat, or the begin or end of an exchange. */
typedef struct StepTrace {
    TraceKind kind;
    const Buffer *buffer;
    const HostStep *step;
    const LoopKernel *kernel;
    int end;              /* of a repeat: index after its body */
    const HostStep *when; /* the condition around it, or NULL */
} StepTrace;

enum { MAX_RUNNING = 64 };

/* The part of the arena between two offsets where a buffer starts or ends. */
typedef struct StepFlow {
    ModuleCheck *check;
    const Entry *entry;
    Table kernels; /* LoopKernel *, by name */
    StepTrace *traces;
    int count, capacity;
    size_t *offsets; /* of the parts, ascending */
    int parts;
    const Buffer **owners;                 /* by part: the buffer written last */
    bool *written;                         /* by tensor->id: at any time */
    const HostStep *when;                  /* the condition around the current step, or NULL */
    const StepTrace *running[MAX_RUNNING]; /* begins of exchanges without their ends, in order */
    int running_count;
} StepFlow;

/* ---- the list of accesses ---- */

static StepTrace *trace_add(StepFlow *flow, TraceKind kind, const Buffer *buffer) {
    ModuleCheck *check = flow->check;
    flow->traces =
        with_room(check->arena, flow->traces, flow->count, &flow->capacity, sizeof *flow->traces);
    StepTrace *trace = &flow->traces[flow->count++];
    *trace = (StepTrace){kind, buffer, check->step, check->kernel, 0, flow->when};
    return trace;
}

static void trace_access(StepFlow *flow, const Buffer *buffer, Access access) {
    if (access != ACCESS_WRITE) trace_add(flow, TRACE_READ, buffer);
    if (access != ACCESS_READ) trace_add(flow, TRACE_WRITE, buffer);
}

/* True for a read of an element of an earlier iteration: under a condition, before the write. */
static bool is_earlier_element(const ModuleCheck *check, int at) {
    const Event *read = &check->events[at];
    if (read->kind != EVENT_READ || !read->guarded) return false;
    for (int i = at + 1; i < check->event_count; i++)
        if (check->events[i].array == read->array && check->events[i].kind == EVENT_WRITE)
            return true;
    return false;
}

/* Checks the kernel and lists its accesses. */
static void check_kernel(StepFlow *flow, LoopKernel *kernel, Launch launch) {
    ModuleCheck *check = flow->check;
    walk_kernel(check, kernel, launch);
    check_writers(check);
    check_barriers(check);
    kernel->accesses = (List){0};
    for (int i = 0; i < check->event_count; i++) {
        const Event *event = &check->events[i];
        const Tensor *tensor = event->array ? event->array->variable->tensor : NULL;
        const KnownVariable *known = event->array ? known_of(check, event->array) : NULL;
        if (!tensor || (known && known->node) || is_earlier_element(check, i)) continue;
        Operand *operand = arena_alloc(check->module->arena, sizeof *operand);
        operand->buffer = &flow->entry->buffers[tensor->id];
        operand->access = event->kind == EVENT_READ    ? ACCESS_READ
                          : event->kind == EVENT_WRITE ? ACCESS_WRITE
                                                       : ACCESS_ADD;
        list_push(check->module->arena, &kernel->accesses, operand);
    }
}

static void trace_kernel(StepFlow *flow, LoopKernel *kernel, Launch launch) {
    if (kernel->changed) check_kernel(flow, kernel, launch);
    flow->check->kernel = kernel;
    LIST_EACH(const Operand, operand, &kernel->accesses)
        trace_access(flow, operand->buffer, operand->access);
    flow->check->kernel = NULL;
}

static LoopKernel *kernel_named(const StepFlow *flow, const char *name) {
    const List *found = table_find(&flow->kernels, hash_text(HASH_START, name));
    return list_named(found, offsetof(LoopKernel, form.name), name);
}

static void trace_param(StepFlow *flow, const Param *param, bool writes) {
    const Buffer *buffer = param->buffer;
    if (param->written != writes) return;
    if ((param->kind == PARAM_OPERAND || param->kind == PARAM_GROUPED) && param->address)
        buffer = &flow->entry->buffers[term_stored(param->address)->variable->tensor->id];
    if (buffer) trace_access(flow, buffer, writes ? ACCESS_WRITE : ACCESS_READ);
}

/* The kernel of a template accesses all its operands. */
static void trace_launch(StepFlow *flow, const LaunchStep *launch) {
    LoopKernel *kernel = kernel_named(flow, launch->kernel);
    check_launch(flow->check, launch, kernel);
    if (kernel) {
        trace_kernel(flow, kernel, launch->launch);
        return;
    }
    for (int writes = 0; writes < 2; writes++)
        for (int i = 0; i < launch->arguments.count; i++)
            trace_param(flow, launch->arguments.items[i], writes);
}

/* True for a product whose first execution stores and does not add. */
static bool overwrites(const HostStep *step) {
    if (step->kind == STEP_GROUPED) return step->grouped->overwrites_gradient;
    return step->kind == STEP_PRODUCT && (step->product.begins || step->product.first.count);
}

static void trace_operands(StepFlow *flow, const HostStep *step) {
    for (int writes = 0; writes < 2; writes++)
        LIST_EACH(const Operand, operand, &step->operands) {
            if (!operand || (operand->access != ACCESS_READ) != writes) continue;
            trace_access(flow, operand->buffer,
                         writes && overwrites(step) ? ACCESS_WRITE : operand->access);
        }
}

/* The gradients of an entry, or one buffer. */
static void trace_clear(StepFlow *flow, const HostStep *step) {
    if (step->clear.buffer) {
        trace_access(flow, step->clear.buffer, ACCESS_WRITE);
        return;
    }
    if (step->clear.scratch) return;
    for (int i = 0; i < flow->entry->program->tensors.count; i++) {
        const Buffer *buffer = &flow->entry->buffers[i];
        if (buffer->block == MOEC_GRADIENTS && buffer->offset >= step->clear.offset &&
            buffer->offset < step->clear.offset + step->clear.bytes)
            trace_access(flow, buffer, ACCESS_WRITE);
    }
}

static void trace_steps(StepFlow *flow, const List *steps);

static void trace_repeat(StepFlow *flow, const HostStep *step) {
    ModuleCheck *check = flow->check;
    const int at = flow->count;
    trace_add(flow, TRACE_REPEAT, NULL);
    if (check->repeat_count < MAX_REPEATS)
        check->repeats[check->repeat_count] = (RepeatIndex){step->repeat.index, step->repeat.count};
    check->repeat_count++;
    trace_steps(flow, &step->body);
    check->repeat_count--;
    flow->traces[at].end = flow->count;
}

static void trace_steps(StepFlow *flow, const List *steps) {
    LIST_EACH(const HostStep, step, steps) {
        flow->check->step = step;
        if (step->kind == STEP_REPEAT) {
            trace_repeat(flow, step);
            continue;
        }
        if (step->kind == STEP_LAUNCH) trace_launch(flow, &step->launch);
        if (step->kind == STEP_CLEAR) trace_clear(flow, step);
        check_step_operands(flow->check, step);
        if (step->kind == STEP_CALL && step->call.begun) trace_add(flow, TRACE_END, NULL);
        trace_operands(flow, step);
        if (step->kind == STEP_CALL && step->call.exchange) trace_add(flow, TRACE_BEGIN, NULL);
        const HostStep *outer = flow->when;
        if (step->kind == STEP_WHEN) flow->when = step;
        trace_steps(flow, &step->body);
        flow->when = outer;
    }
}

/* ---- the parts of the arena ---- */

static int by_offset(const void *a, const void *b) {
    const size_t one = *(const size_t *)a, other = *(const size_t *)b;
    return one < other ? -1 : one > other;
}

static void split_arena(StepFlow *flow) {
    const int tensors = flow->entry->program->tensors.count;
    Arena *arena = flow->check->arena;
    flow->offsets = arena_alloc(arena, (2 * (size_t)tensors + 1) * sizeof *flow->offsets);
    int count = 0;
    for (int i = 0; i < tensors; i++) {
        const Buffer *buffer = &flow->entry->buffers[i];
        if (buffer->block != MOEC_ARENA || !buffer->bytes) continue;
        flow->offsets[count++] = buffer->offset;
        flow->offsets[count++] = buffer->offset + buffer->bytes;
    }
    qsort(flow->offsets, (size_t)count, sizeof *flow->offsets, by_offset);
    for (int i = 0; i < count; i++)
        if (!i || flow->offsets[i] != flow->offsets[flow->parts - 1])
            flow->offsets[flow->parts++] = flow->offsets[i];
    flow->owners = arena_alloc(arena, ((size_t)flow->parts + 1) * sizeof *flow->owners);
    flow->written = arena_alloc(arena, ((size_t)tensors + 1) * sizeof *flow->written);
}

static int part_at(const StepFlow *flow, size_t offset) {
    int low = 0, high = flow->parts;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (flow->offsets[middle] < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- the walk ---- */

/* True for memory that has values before the program runs. */
static bool has_values(const StepFlow *flow, const Buffer *buffer) {
    if (buffer->block == MOEC_GRADIENTS) return flow->entry->program->graph != GRAPH_TRAIN;
    return buffer->block != MOEC_ARENA && buffer->block != MOEC_OUTPUTS;
}

static ModuleCheck *check_at(const StepFlow *flow, const StepTrace *trace) {
    flow->check->step = trace->step;
    flow->check->kernel = trace->kernel;
    return flow->check;
}

static void check_trace_read(StepFlow *flow, const StepTrace *trace) {
    const Buffer *buffer = trace->buffer;
    if (has_values(flow, buffer)) return;
    ModuleCheck *check = check_at(flow, trace);
    if (!flow->written[buffer->tensor->id]) {
        fault_found(check, FAULT_FLOW, "'%s' is read before it is written", buffer->name);
        return;
    }
    if (buffer->block != MOEC_ARENA) return;
    const size_t end = buffer->offset + buffer->bytes;
    for (int i = part_at(flow, buffer->offset); i < flow->parts && flow->offsets[i] < end; i++)
        if (flow->owners[i] != buffer)
            fault_found(check, FAULT_LIFETIME, "'%s' is read after '%s' was written to its memory",
                        buffer->name, flow->owners[i] ? flow->owners[i]->name : "nothing");
}

static void note_write(StepFlow *flow, const Buffer *buffer) {
    flow->written[buffer->tensor->id] = true;
    if (buffer->block != MOEC_ARENA) return;
    const size_t end = buffer->offset + buffer->bytes;
    for (int i = part_at(flow, buffer->offset); i < flow->parts && flow->offsets[i] < end; i++)
        flow->owners[i] = buffer;
}

/* An access to memory of exchanges that run. */
static void check_running(StepFlow *flow, const StepTrace *trace) {
    for (int i = 0; i < flow->running_count; i++) {
        const List *operands = &flow->running[i]->step->operands;
        LIST_EACH(const Operand, operand, operands) {
            if (!operand || operand->buffer != trace->buffer) continue;
            if (operand->access != ACCESS_READ)
                fault_found(check_at(flow, trace), FAULT_EXCHANGE,
                            "'%s' is accessed before the exchange ends that it is a result of",
                            trace->buffer->name);
            else if (trace->kind == TRACE_WRITE)
                fault_found(check_at(flow, trace), FAULT_EXCHANGE,
                            "'%s' is written before the exchange ends that sends it",
                            trace->buffer->name);
        }
    }
}

static void begin_running(StepFlow *flow, const StepTrace *trace) {
    if (flow->running_count == MAX_RUNNING)
        fault_found(check_at(flow, trace), FAULT_EXCHANGE,
                    "too many exchanges run at the same time");
    else
        flow->running[flow->running_count++] = trace;
}

/* Exchanges end in the order in which they begin. */
static void end_running(StepFlow *flow, const StepTrace *trace) {
    const StepTrace *first = flow->running_count ? flow->running[0] : NULL;
    const bool pair = first && first->step == trace->step->call.begun;
    if (!pair)
        fault_found(check_at(flow, trace), FAULT_EXCHANGE,
                    "an exchange ends that is not the first that runs");
    else if ((first->when ? (int)first->when->when : -1) !=
             (trace->when ? (int)trace->when->when : -1))
        fault_found(check_at(flow, trace), FAULT_EXCHANGE,
                    "an exchange begins and ends under different conditions");
    if (!first) return;
    flow->running_count--;
    memmove(flow->running, flow->running + 1, (size_t)flow->running_count * sizeof *flow->running);
}

static void run_traces(StepFlow *flow, int from, int to) {
    const int running = flow->running_count;
    for (int i = from; i < to; i++) {
        const StepTrace *trace = &flow->traces[i];
        switch (trace->kind) {
        case TRACE_READ:
            check_running(flow, trace);
            check_trace_read(flow, trace);
            break;
        case TRACE_WRITE:
            check_running(flow, trace);
            note_write(flow, trace->buffer);
            break;
        case TRACE_REPEAT:
            run_traces(flow, i + 1, trace->end);
            run_traces(flow, i + 1, trace->end);
            i = trace->end - 1;
            break;
        case TRACE_BEGIN:
            begin_running(flow, trace);
            break;
        case TRACE_END:
            end_running(flow, trace);
            break;
        }
    }
    if (flow->running_count > running)
        fault_found(check_at(flow, flow->running[flow->running_count - 1]), FAULT_EXCHANGE,
                    "an exchange does not end in its block");
}

void check_entry(ModuleCheck *check, const Entry *entry) {
    StepFlow flow = {.check = check, .entry = entry};
    check->entry = entry;
    LIST_EACH(LoopKernel, kernel, &check->module->kernels)
        if (kernel->entry == entry && !kernel->form.is_store && !kernel->inside)
            table_add(check->arena, &flow.kernels, hash_text(HASH_START, kernel->form.name),
                      kernel);
    trace_steps(&flow, &entry->clears);
    trace_steps(&flow, &entry->gradients);
    trace_steps(&flow, &entry->steps);
    split_arena(&flow);
    run_traces(&flow, 0, flow.count);
    check->entry = NULL;
    check->step = NULL;
    check->kernel = NULL;
}
