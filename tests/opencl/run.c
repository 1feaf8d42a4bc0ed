/* run: the models of kernels.moe as OpenCL C on a CPU device, compared with the interpreter. Exits with 77 if there is no such
 * device. Runs in the root of the project. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "moec.h"
#include "opencl.h"
#include "passes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SKIPPED = 77, SEED = 7 };

typedef struct Device {
    cl_device_id id;
    cl_context context;
    cl_command_queue queue;
} Device;

static void check(cl_int error, const char *what) {
    if (error == CL_SUCCESS) return;
    fprintf(stderr, "%s: OpenCL error %d\n", what, error);
    exit(1);
}

static bool find_device(Device *device) {
    cl_platform_id platforms[8];
    cl_uint count = 0;
    cl_int error;
    if (clGetPlatformIDs(8, platforms, &count) != CL_SUCCESS) return false;
    for (cl_uint i = 0; i < count && !device->id; i++)
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_CPU, 1, &device->id, NULL) != CL_SUCCESS) device->id = NULL;
    if (!device->id) return false;
    device->context = clCreateContext(NULL, 1, &device->id, NULL, NULL, &error);
    check(error, "context");
    device->queue = clCreateCommandQueue(device->context, device->id, 0, &error);
    check(error, "queue");
    return true;
}

static char *read_text(const char *path) {
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 1 << 16);
    if (!file || !text || fread(text, 1, (1 << 16) - 1, file) == 0) exit(1);
    fclose(file);
    return text;
}

static cl_program build(const Device *device, const char *kernels) {
    char *prelude = read_text("tests/opencl/prelude.cl");
    const char *texts[] = {prelude, kernels};
    cl_int error;
    cl_program program = clCreateProgramWithSource(device->context, 2, texts, NULL, &error);
    check(error, "program");
    if (clBuildProgram(program, 1, &device->id, "", NULL, NULL) != CL_SUCCESS) {
        static char log[1 << 14];
        clGetProgramBuildInfo(program, device->id, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL);
        fprintf(stderr, "%s\n%s\n", kernels, log);
        exit(1);
    }
    free(prelude);
    return program;
}

/* A buffer of floats for a tensor, with the current values of the interpreter. */
static cl_mem buffer_of(const Device *device, Interpreter *eval, const Tensor *tensor) {
    long count = tensor_elements(tensor);
    float *values = calloc((size_t)count + 1, sizeof *values);
    cl_int error;
    bool given = tensor->role == ROLE_PARAMETER || tensor->role == ROLE_INPUT;
    for (long i = 0; given && i < count; i++) values[i] = (float)interpreter_real(eval, tensor)[i];
    cl_mem made = clCreateBuffer(device->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, (size_t)count * sizeof *values,
                                 values, &error);
    check(error, tensor->name);
    free(values);
    return made;
}

static void launch(const Device *device, cl_program program, const OpenclKernel *kernel, cl_mem *buffers) {
    cl_int error;
    cl_kernel made = clCreateKernel(program, kernel->name, &error);
    check(error, kernel->name);
    for (int i = 0; i < kernel->tensors.count; i++) {
        const Tensor *tensor = kernel->tensors.items[i];
        check(clSetKernelArg(made, (cl_uint)i, sizeof(cl_mem), &buffers[tensor->id]), tensor->name);
    }
    check(clEnqueueNDRangeKernel(device->queue, made, 1, NULL, &kernel->items, &kernel->group, 0, NULL, NULL), kernel->name);
    clReleaseKernel(made);
}

/* Error of an output relative to its norm. */
static double distance_of(const Device *device, Interpreter *eval, const Tensor *tensor, cl_mem buffer) {
    long count = tensor_elements(tensor);
    float *values = calloc((size_t)count, sizeof *values);
    double off = 0, length = 0;
    check(clEnqueueReadBuffer(device->queue, buffer, CL_TRUE, 0, (size_t)count * sizeof *values, values, 0, NULL, NULL),
          tensor->name);
    for (long i = 0; i < count; i++) {
        double wanted = interpreter_real(eval, tensor)[i];
        off += ((double)values[i] - wanted) * ((double)values[i] - wanted);
        length += wanted * wanted;
    }
    free(values);
    return sqrt(off / length);
}

static void fill(const Program *program, Interpreter *eval) {
    srand(SEED);
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        bool given = tensor->role == ROLE_PARAMETER || tensor->role == ROLE_INPUT;
        for (long j = 0; given && tensor->type == TYPE_REAL && j < tensor_elements(tensor); j++)
            interpreter_real(eval, tensor)[j] = (float)rand() / (float)RAND_MAX * 2 - 1;
    }
}

static bool run(const Device *device, const char *model) {
    MoecCompiler *compiler = moec_open("tests/opencl/kernels.moe", model, NULL, 0, NULL);
    Program *program = moec_compile(compiler, MOEC_FORWARD, 0, 0, 0);
    if (!program) fprintf(stderr, "%s", moec_reports(compiler));
    if (!program) return false;
    List kernels = {0};
    Schedule *schedule = moec_schedule(compiler, program);
    const char *text = emit_opencl(moec_arena(compiler), schedule, &kernels);
    if (!text) return false;
    Interpreter *eval = interpreter_new(program);
    fill(program, eval);
    const char *message = interpreter_run(eval, SEED, true);
    if (message) return false;
    cl_program built = build(device, text);
    cl_mem *buffers = calloc((size_t)program->tensors.count, sizeof(cl_mem));
    for (int i = 0; i < program->tensors.count; i++)
        buffers[i] = buffer_of(device, eval, program->tensors.items[i]);
    for (int i = 0; i < kernels.count; i++) launch(device, built, kernels.items[i], buffers);
    bool ok = kernels.count > 0 && program->outputs.count > 0;
    for (int i = 0; i < program->outputs.count; i++) {
        const Tensor *output = program->outputs.items[i];
        double off = distance_of(device, eval, output, buffers[output->id]);
        printf("%s: %d kernels, %s is off by %.1e\n", model, kernels.count, output->name, off);
        ok = ok && off < 1e-5;
    }
    interpreter_free(eval);
    moec_close(compiler);
    return ok;
}

int main(void) {
    static const char *const models[] = {"elements", "rows", "small_rows", "everything"};
    Device device = {0};
    bool ok = true;
    if (!find_device(&device)) {
        puts("skipped: no OpenCL device for CPUs");
        return SKIPPED;
    }
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) ok = run(&device, models[i]) && ok;
    return ok ? 0 : 1;
}
