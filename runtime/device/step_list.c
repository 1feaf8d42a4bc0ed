/* step_list: executes the host program of a graph from its step list (abi/steps.h), by the services
 * of a host. Operands are addresses of the device; no step reads its memory. */
#include "abi/shapes.h"
#include "abi/steps.h"
#include "device/device.h"

#include <assert.h>
#include <string.h>

typedef struct StepRun {
    const MoecSteps *steps;
    const MoecRun *run;
    long indices[MOEC_STEP_DEPTH];
} StepRun;

/* ---- operands ---- */

static unsigned char *buffer_address(const MoecRun *run, const MoecStepBuffer *buffer) {
    switch (buffer->block) {
    case MOEC_WEIGHTS:
        return (unsigned char *)run->weights + buffer->offset;
    case MOEC_GRADIENTS:
        return (unsigned char *)run->gradients + buffer->offset;
    case MOEC_STATES:
        return (unsigned char *)run->states + buffer->offset;
    case MOEC_INPUTS:
        return (unsigned char *)(uintptr_t)run->inputs[buffer->offset];
    case MOEC_OUTPUTS:
        return (unsigned char *)run->outputs[buffer->offset];
    case MOEC_CACHE:
        return (unsigned char *)run->cache + buffer->offset;
    case MOEC_COMPUTE_WEIGHTS:
        return (unsigned char *)(uintptr_t)run->rounded + buffer->offset;
    default:
        return run->arena + buffer->offset;
    }
}

static void *device_address(const StepRun *run, int number) {
    const MoecStepOperand *operand = &run->steps->operands[number];
    if (operand->buffer < 0) return NULL;
    const MoecStepBuffer *buffer = &run->steps->buffers[operand->buffer];
    return buffer_address(run->run, buffer) +
           moec_step_offset(run->steps, operand, run->indices) * (long)buffer->element;
}

/* ---- launches ---- */

/* The arguments of a kernel: their addresses, then NULL; their values. */
typedef struct StepArguments {
    void *at[MOEC_STEP_ARGUMENTS + 1];
    size_t used;
    _Alignas(16) unsigned char bytes[MOEC_STEP_ARGUMENT_BYTES];
} StepArguments;

/* Writes a number or an address of so many bytes. */
static void put_argument(const StepRun *run, const MoecStepValue *value, unsigned char *to,
                         size_t bytes) {
    const long number = value->kind == MOEC_VALUE_ADDS    ? !run->run->first_micro_batch
                        : value->kind == MOEC_VALUE_INDEX ? run->indices[value->number]
                                                          : value->number;
    const int narrow = (int)number;
    const void *address = value->kind == MOEC_VALUE_SEED ? run->run->device_seed : NULL;
    if (value->kind == MOEC_VALUE_OPERAND) address = device_address(run, (int)value->number);
    const bool is_address = value->kind == MOEC_VALUE_OPERAND || value->kind == MOEC_VALUE_SEED;
    assert(is_address || value->kind == MOEC_VALUE_NUMBER || value->kind == MOEC_VALUE_INDEX ||
           value->kind == MOEC_VALUE_ADDS);
    memcpy(to,
           is_address               ? (const void *)&address
           : bytes == sizeof narrow ? (const void *)&narrow
                                    : &number,
           bytes);
}

static void take_arguments(const StepRun *run, const MoecStep *step, StepArguments *arguments) {
    const MoecStepValue *value = &run->steps->values[step->first_value],
                        *end = value + step->value_count;
    int count = 0;
    arguments->used = 0;
    while (value < end) {
        const bool is_record = value->kind == MOEC_VALUE_RECORD;
        const size_t bytes = is_record ? value->bytes : sizeof(long);
        unsigned char *at = arguments->bytes + arguments->used;
        assert(count < MOEC_STEP_ARGUMENTS && arguments->used + bytes <= sizeof arguments->bytes);
        const long fields = is_record ? value->number : 0;
        if (is_record)
            memset(at, 0, bytes);
        else
            put_argument(run, value, at, bytes);
        for (long i = 1; i <= fields; i++)
            put_argument(run, &value[i], at + value[i].offset, value[i].bytes);
        arguments->at[count++] = at;
        arguments->used += (bytes + 15) / 16 * 16;
        value += 1 + fields;
    }
    arguments->at[count] = NULL;
}

static void launch_variants(const StepRun *run, const MoecStep *step, StepArguments *arguments) {
    const MoecStepVariants *variants = step->launch.variants;
    const MoecHost *host = run->run->host;
    MoecWritten written[MOEC_STEP_WRITTEN + 1] = {{.at = NULL}};
    MoecMatrices matrices[MOEC_STEP_MATRICES + 1] = {{.at = NULL}};
    for (int i = 0; i < variants->written_count; i++) {
        const MoecStepWritten *one = &variants->written[i];
        written[i] =
            (MoecWritten){device_address(run, one->operand), one->count, one->type, one->rounded};
    }
    for (int i = 0; i < variants->matrix_count; i++) {
        const MoecStepMatrix *one = &variants->matrices[i];
        matrices[i] = (MoecMatrices){device_address(run, one->operand),
                                     one->length,
                                     one->lines,
                                     one->matrices,
                                     one->line,
                                     one->matrix};
    }
    host->launch_variant(host->self, step->launch.number, variants->variants, variants->size_bytes,
                         written, variants->matrix_count ? matrices : NULL, arguments->at);
}

static void run_launch(const StepRun *run, const MoecStep *step) {
    const MoecHost *host = run->run->host;
    StepArguments arguments;
    take_arguments(run, step, &arguments);
    if (step->launch.variants && host->launch_variant)
        launch_variants(run, step, &arguments);
    else
        host->launch(host->self, step->launch.number, (unsigned)step->launch.blocks, 1,
                     (unsigned)step->launch.threads, (unsigned)step->launch.shared_bytes,
                     arguments.at);
}

/* The first iteration of the loops in `first` has the row of the step. */
static int product_row(const StepRun *run, const MoecStep *step) {
    bool is_first = true;
    for (int depth = 0; depth < MOEC_STEP_DEPTH; depth++)
        is_first &= !(step->product.first >> depth & 1) || !run->indices[depth];
    if (!is_first) return step->product.more;
    return step->product.row + (step->product.begins && run->run->first_micro_batch);
}

/* By a library of the host, or else by the program's kernel with a block for each tile. */
static void run_product(const StepRun *run, const MoecStep *step) {
    const MoecHost *host = run->run->host;
    const int row = product_row(run, step);
    MoecProduct product = run->steps->products[row];
    void *operands[MOEC_PRODUCT_OPERANDS];
    for (int i = 0; i < MOEC_PRODUCT_OPERANDS; i++)
        operands[i] = device_address(run, step->first_operand + i);
    MoecEpilogue epilogue = {operands[3], operands[4], operands[5], operands[6], operands[7]};
    if (host->product && !host->product(host->self, row, operands[0], operands[1], operands[2],
                                        product.epilogue_ops ? &epilogue : NULL))
        return;
    void *arguments[] = {&product, &epilogue, &operands[0], &operands[1], &operands[2], NULL};
    host->launch(host->self, step->product.number, (unsigned)step->product.blocks, 1,
                 MOEC_TILE_THREADS, 0, arguments);
}

static bool exchanges_rows(const MoecExchange *exchange) {
    return exchange->kind == MOEC_EXCHANGE_DISPATCH || exchange->kind == MOEC_EXCHANGE_COMBINE;
}

static void run_exchange(const StepRun *run, const MoecStep *step) {
    const MoecHost *host = run->run->host;
    void *operands[2 + MOEC_EXCHANGE_RESULTS] = {NULL};
    assert(step->operand_count <= 2 + MOEC_EXCHANGE_RESULTS);
    for (int i = 0; i < step->operand_count; i++)
        operands[i] = device_address(run, step->first_operand + i);
    const bool has_table = exchanges_rows(step->exchange);
    host->exchange_begin(host->mesh, step->exchange, operands[0], has_table ? operands[1] : NULL,
                         operands + 1 + has_table);
}

/* ---- steps ---- */

static bool condition_holds(const MoecRun *run, MoecStepCondition condition) {
    switch (condition) {
    case MOEC_WHEN_FIRST_MICRO_BATCH:
        return run->first_micro_batch;
    case MOEC_WHEN_LAST_MICRO_BATCH:
        return run->last_micro_batch;
    case MOEC_WHEN_FORWARD_PART:
        return run->part != MOEC_PART_BACKWARD;
    case MOEC_WHEN_BACKWARD_PART:
        return run->part != MOEC_PART_FORWARD;
    }
    return false;
}

static void run_range(StepRun *run, int first, int last) {
    const MoecHost *host = run->run->host;
    for (int number = first; number <= last; number = run->steps->steps[number].last + 1) {
        const MoecStep *step = &run->steps->steps[number];
        long count = 0;
        switch (step->kind) {
        case MOEC_STEP_LAUNCH:
            run_launch(run, step);
            break;
        case MOEC_STEP_PRODUCT:
            run_product(run, step);
            break;
        case MOEC_STEP_CLEAR:
            host->zero(host->self, device_address(run, step->first_operand), step->bytes);
            break;
        case MOEC_STEP_EXCHANGE:
            run_exchange(run, step);
            break;
        case MOEC_STEP_EXCHANGE_END:
            host->exchange_end(host->mesh, step->exchange);
            break;
        case MOEC_STEP_REPEAT:
            count = step->repeat.count;
            break;
        case MOEC_STEP_WHEN:
            count = condition_holds(run->run, step->when);
            break;
        }
        for (long i = 0; i < count; i++) {
            if (step->kind == MOEC_STEP_REPEAT)
                run->indices[step->repeat.depth] = step->repeat.reverse ? count - 1 - i : i;
            run_range(run, number + 1, step->last);
        }
    }
}

bool steps_wait(const MoecSteps *steps) {
    for (int i = 0; i < steps->step_count; i++)
        if (steps->steps[i].kind == MOEC_STEP_EXCHANGE &&
            exchanges_rows(steps->steps[i].exchange) && !steps->steps[i].exchange->each)
            return true;
    return false;
}

void steps_run(const MoecSteps *steps, const MoecRun *run) {
    StepRun all = {.steps = steps, .run = run};
    run_range(&all, 0, steps->step_count - 1);
}
