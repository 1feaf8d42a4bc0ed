/* runner: see runner.h. */
#include "runner.h"

#include <stdio.h>
#include <stdlib.h>

static void check(cl_int error, const char *what) {
    if (error == CL_SUCCESS) return;
    fprintf(stderr, "%s: OpenCL error %d\n", what, error);
    exit(1);
}

bool find_device(Device *device) {
    cl_platform_id platforms[8];
    cl_uint count = 0;
    cl_device_svm_capabilities shared = 0;
    cl_int error;
    if (clGetPlatformIDs(8, platforms, &count) != CL_SUCCESS) return false;
    for (cl_uint i = 0; i < count && !device->id; i++)
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_CPU, 1, &device->id, NULL) != CL_SUCCESS) device->id = NULL;
    if (!device->id) return false;
    if (clGetDeviceInfo(device->id, CL_DEVICE_SVM_CAPABILITIES, sizeof shared, &shared, NULL) != CL_SUCCESS) return false;
    if (!shared) return false;
    device->context = clCreateContext(NULL, 1, &device->id, NULL, NULL, &error);
    check(error, "context");
    device->queue = clCreateCommandQueueWithProperties(device->context, device->id, NULL, &error);
    check(error, "queue");
    return true;
}

static void build(Device *device, const char *kernels) {
    static char prelude[1 << 14], log[1 << 14];
    FILE *file = fopen("tests/opencl/prelude.cl", "rb");
    if (!file || !fread(prelude, 1, sizeof prelude - 1, file)) exit(1);
    fclose(file);
    const char *texts[] = {prelude, kernels};
    cl_int error;
    device->program = clCreateProgramWithSource(device->context, 2, texts, NULL, &error);
    check(error, "program");
    if (clBuildProgram(device->program, 1, &device->id, "", NULL, NULL) == CL_SUCCESS) return;
    clGetProgramBuildInfo(device->program, device->id, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL);
    fprintf(stderr, "%s\n%s\n", kernels, log);
    exit(1);
}

/* ---- memory ---- */

static char **base_of(Device *device, const MoecStepBuffer *buffer) {
    const bool output = buffer->block == MOEC_OUTPUTS;
    return output || buffer->block == MOEC_INPUTS ? &device->slots[output][buffer->offset] : &device->blocks[buffer->block];
}

char *memory_of(Device *device, int number) {
    const MoecStepBuffer *buffer = &device->steps->buffers[number];
    const bool slot = buffer->block == MOEC_INPUTS || buffer->block == MOEC_OUTPUTS;
    return *base_of(device, buffer) + (slot ? 0 : buffer->offset);
}

static void allocate(Device *device) {
    size_t bytes[BLOCKS] = {0};
    for (int i = 0; i < device->steps->buffer_count; i++) {
        const MoecStepBuffer *buffer = &device->steps->buffers[i];
        if (buffer->block >= BLOCKS || buffer->block == MOEC_INPUTS || buffer->block == MOEC_OUTPUTS) continue;
        if (buffer->offset + buffer->bytes > bytes[buffer->block]) bytes[buffer->block] = buffer->offset + buffer->bytes;
    }
    for (int i = 0; i < device->steps->buffer_count; i++) {
        const MoecStepBuffer *buffer = &device->steps->buffers[i];
        char **base = buffer->block < BLOCKS ? base_of(device, buffer) : NULL;
        if (!base || *base) continue;
        const bool slot = buffer->block == MOEC_INPUTS || buffer->block == MOEC_OUTPUTS;
        const size_t size = (slot ? buffer->bytes : bytes[buffer->block]) + 64;
        *base = clSVMAlloc(device->context, CL_MEM_READ_WRITE, size, 64);
        if (!*base) check(CL_OUT_OF_RESOURCES, buffer->name);
        const cl_uchar junk = buffer->block == MOEC_CACHE ? 0 : 0x5a;
        check(clEnqueueSVMMemFill(device->queue, *base, &junk, 1, size, 0, NULL, NULL), buffer->name);
    }
}

void device_copy(const Device *device, void *to, const void *from, size_t bytes) {
    if (bytes) check(clEnqueueSVMMemcpy(device->queue, CL_TRUE, to, from, bytes, 0, NULL, NULL), "copy");
}

void device_load(Device *device, const OpenclProgram *program) {
    device->steps = program->steps;
    build(device, program->kernels);
    allocate(device);
}

void device_unload(Device *device) {
    for (int i = 0; i < BLOCKS; i++) clSVMFree(device->context, device->blocks[i]);
    for (int i = 0; i < 2 * MAX_SLOTS; i++) clSVMFree(device->context, device->slots[i / MAX_SLOTS][i % MAX_SLOTS]);
    clReleaseProgram(device->program);
    *device = (Device){.id = device->id, .context = device->context, .queue = device->queue};
}

/* ---- steps ---- */

static char *address_of(Device *device, long number) {
    const MoecStepOperand *operand = &device->steps->operands[number];
    if (operand->buffer < 0) return NULL;
    return memory_of(device, operand->buffer) +
           moec_step_offset(device->steps, operand, device->indices) * (long)device->steps->buffers[operand->buffer].element;
}

static void launch(Device *device, const MoecStep *step) {
    const size_t group = (size_t)step->launch.threads, items = group * (size_t)step->launch.blocks;
    const cl_ulong seed = RUN_SEED;
    cl_int error;
    cl_kernel kernel = clCreateKernel(device->program, step->launch.kernel, &error);
    check(error, step->launch.kernel);
    for (int i = 0; i < step->value_count; i++) {
        const MoecStepValue *value = &device->steps->values[step->first_value + i];
        const bool index = value->kind == MOEC_VALUE_INDEX;
        if (value->kind == MOEC_VALUE_OPERAND)
            error = clSetKernelArgSVMPointer(kernel, (cl_uint)i, address_of(device, value->number));
        else if (index || value->kind == MOEC_VALUE_SEED)
            error = clSetKernelArg(kernel, (cl_uint)i, 8, index ? (const void *)&device->indices[value->number] : &seed);
        else
            error = CL_INVALID_ARG_VALUE;
        check(error, step->launch.kernel);
    }
    check(clEnqueueNDRangeKernel(device->queue, kernel, 1, NULL, &items, &group, 0, NULL, NULL), step->launch.kernel);
    clReleaseKernel(kernel);
    device->launches++;
}

/* All micro-batches are the first and the last one. */
static void run_range(Device *device, int first, int last) {
    for (int number = first; number <= last; number = device->steps->steps[number].last + 1) {
        const MoecStep *step = &device->steps->steps[number];
        const cl_uchar zero = 0;
        const long count = step->kind == MOEC_STEP_REPEAT ? step->repeat.count : step->kind == MOEC_STEP_WHEN;
        if (step->kind == MOEC_STEP_LAUNCH)
            launch(device, step);
        else if (step->kind == MOEC_STEP_CLEAR)
            check(clEnqueueSVMMemFill(device->queue, address_of(device, step->first_operand), &zero, 1, step->bytes, 0, NULL, NULL),
                  "clear");
        else if (!count)
            check(CL_INVALID_OPERATION, "a step without a kernel");
        for (long i = 0; i < count; i++) {
            if (step->kind == MOEC_STEP_REPEAT)
                device->indices[step->repeat.depth] = step->repeat.reverse ? count - 1 - i : i;
            run_range(device, number + 1, step->last);
        }
    }
}

void device_run(Device *device) {
    run_range(device, 0, device->steps->step_count - 1);
}
