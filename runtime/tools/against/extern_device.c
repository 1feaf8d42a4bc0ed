/* extern_device: the CUDA functions of a layer, run by this process. A zone of known bytes precedes
 * and follows each operand, as in shared_object.c. */
#include "tools/against/against.h"

#include "base/memory.h"
#include "base/message.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { ZONE = 256, ZONE_BYTE = 0xA5, OPERANDS = 32 };

static char workspace_name[] = "workspace";

/* An operand on the device. */
typedef struct DeviceOperand {
    const char *name;
    unsigned char *block; /* of the device: zone, values, zone */
    void *values;         /* of the device */
    size_t count;
    double *to; /* receives the values, or NULL */
} DeviceOperand;

typedef struct ExternRun {
    const AgainstExtern *external;
    const AgainstCase *one;
    Device *device;
    DeviceOperand operands[OPERANDS];
    int count;
    long numbers[OPERANDS];
    void *arguments[2 * OPERANDS];
} ExternRun;

/* The device has values of 4 bytes: floats, integers. values: NULL: NaN. */
static bool add_device_operand(ExternRun *run, const AgainstTensor *tensor, const double *values,
                               double *to) {
    if (run->count == OPERANDS) return error_message(NULL, "the kernel has too many operands");
    DeviceOperand *operand = &run->operands[run->count++];
    const size_t bytes = tensor->count * sizeof(float);
    AUTO_FREE unsigned char *host = memory_new(bytes + 2 * ZONE);
    memset(host, ZONE_BYTE, bytes + 2 * ZONE);
    for (size_t i = 0; i < tensor->count; i++) {
        const float single = values ? (float)values[i] : NAN;
        const int32_t whole = values ? (int32_t)values[i] : 0;
        memcpy(host + ZONE + i * sizeof single, tensor->integer ? (const void *)&whole : &single,
               sizeof single);
    }
    *operand = (DeviceOperand){.name = tensor->name, .count = tensor->count, .to = to};
    operand->block = run->device->kind->allocate(run->device, bytes + 2 * ZONE);
    const bool good = operand->block &&
                      run->device->kind->put(run->device, operand->block, host, bytes + 2 * ZONE);
    operand->values = operand->block ? operand->block + ZONE : NULL;
    return good;
}

/* Reads an operand back; false after a message if the kernel wrote outside of it. */
static bool take_operand(const ExternRun *run, const DeviceOperand *operand) {
    const size_t bytes = operand->count * sizeof(float) + 2 * ZONE;
    AUTO_FREE unsigned char *host = memory_new(bytes);
    bool good = run->device->kind->get(run->device, host, operand->block, bytes), zones = true;
    for (size_t i = 0; good && i < ZONE; i++)
        zones &= host[i] == ZONE_BYTE && host[bytes - 1 - i] == ZONE_BYTE;
    for (size_t i = 0; good && operand->to && i < operand->count; i++) {
        float single;
        memcpy(&single, host + ZONE + i * sizeof single, sizeof single);
        operand->to[i] = (double)single;
    }
    return good &&
           (zones || error_message(NULL, "the function writes outside of '%s'", operand->name));
}

/* The text with the declaration that the function must have. */
static char *kernel_text(const MoecExtern *external) {
    AUTO_FREE char *path = extern_path_literal(external->path),
                   *spec = extern_path_literal(external->spec);
    char *text = memory_format("#include \"kernels.cuh\"\n#line 1 %s\n%s\n#line %d %s\n"
                               "extern \"C\" {\n__global__ void %s(%s);\n}\n",
                               path, external->text, external->line, spec, external->function,
                               external->types);
    return text;
}

static bool launch_kernel_of(Device *device, const MoecExtern *external, long blocks,
                             void **arguments) {
    char *text = kernel_text(external),
         *help = memory_format("the function must be: extern \"C\" __global__ void %s(%s)",
                               external->function, external->parameters);
    const bool good =
        device->kind->launch(device, &(DeviceKernel){.text = text,
                                                     .title = external->path,
                                                     .name = external->function,
                                                     .help = help,
                                                     .blocks = blocks,
                                                     .threads = (int)external->threads,
                                                     .shared = external->shared,
                                                     .arguments = arguments});
    free(text);
    free(help);
    return good;
}

static bool launch_extern_kernel(ExternRun *run, const MoecExtern *external) {
    int count = 0;
    const long blocks = run->numbers[0] * extern_product_size(&external->blocks, run->numbers);
    for (int i = 0; i <= external->size_count; i++) run->arguments[count++] = &run->numbers[i];
    for (int i = 0; i < run->count; i++) run->arguments[count++] = &run->operands[i].values;
    return launch_kernel_of(run->device, external, blocks, run->arguments);
}

bool extern_device_build(const AgainstExtern *external) {
    return launch_kernel_of(external->device, external->forward, 0, NULL) &&
           (!external->gradient || launch_kernel_of(external->device, external->gradient, 0, NULL));
}

/* Puts the operands: inputs; of gradients, then the cotangents; then room for the outputs. */
static bool put_operands(ExternRun *run, const MoecExtern *external, AgainstAnswer *answer) {
    const AgainstShape *shape = run->one->shape;
    bool good = true;
    for (int i = 0; i < external->input_count && good; i++) {
        const int which = tensor_called(shape, external->inputs[i], true);
        good = which >= 0 &&
               add_device_operand(run, &shape->tensors[which], run->one->values[which], NULL);
    }
    for (int i = 0; i < external->output_count && good; i++) {
        const int which = tensor_called(shape, external->outputs[i], false);
        if (which < 0) return false;
        const AgainstTensor *tensor = &shape->tensors[which];
        if (!external->gradient)
            answer->results[which] = memory_new(sizeof(double) * (tensor->count + 1));
        good = add_device_operand(
            run, tensor, external->gradient ? run->one->values[which] : NULL,
            answer->results[which] && !external->gradient ? answer->results[which] : NULL);
    }
    for (int i = 0; external->gradient && i < external->input_count && good; i++) {
        const int which = tensor_called(shape, external->inputs[i], true);
        const AgainstTensor *tensor = &shape->tensors[which];
        if (external->integers[i]) continue;
        if (tensor->gradient)
            answer->gradients[which] = memory_new(sizeof(double) * (tensor->count + 1));
        good = add_device_operand(run, tensor, NULL, answer->gradients[which]);
    }
    return good;
}

/* The numbers of the function at the sizes of the case. */
static bool set_device_numbers(ExternRun *run, const MoecExtern *external) {
    const AgainstShape *shape = run->one->shape;
    for (int i = -1; i < external->size_count; i++) {
        const int operand = i < 0 ? 0 : external->sizes[i].operand;
        const bool given = operand < external->input_count;
        const int which = tensor_called(shape,
                                        given ? external->inputs[operand]
                                              : external->outputs[operand - external->input_count],
                                        given);
        if (which < 0) return error_message(NULL, "the layer alone has other tensors");
        const AgainstTensor *tensor = &shape->tensors[which];
        run->numbers[i + 1] = i < 0 ? 1 : tensor->shape[tensor->rank - 1 - external->sizes[i].back];
        for (int j = 0; i < 0 && j < tensor->rank - external->named; j++)
            run->numbers[0] *= tensor->shape[j];
    }
    return true;
}

/* Last, after the numbers are known. */
static bool put_workspace(ExternRun *run, const MoecExtern *external) {
    if (!external->workspace.factor) return true;
    const AgainstTensor tensor = {.name = workspace_name,
                                  .count = (size_t)extern_workspace_size(external, run->numbers)};
    return add_device_operand(run, &tensor, NULL, NULL);
}

static bool run_one_kernel(const AgainstExtern *external, const MoecExtern *kernel,
                           const AgainstCase *one, AgainstAnswer *answer) {
    ExternRun run = {.external = external, .one = one, .device = external->device};
    bool good = set_device_numbers(&run, kernel) && put_operands(&run, kernel, answer) &&
                put_workspace(&run, kernel) && launch_extern_kernel(&run, kernel);
    for (int i = 0; i < run.count; i++) {
        good = good && take_operand(&run, &run.operands[i]);
        const size_t bytes = run.operands[i].count * sizeof(float) + 2 * ZONE;
        if (run.operands[i].block)
            run.device->kind->release(run.device, run.operands[i].block, bytes);
    }
    return good;
}

/* ---- time limit: only the end of the process stops a kernel ---- */

static char *expired_text;
static size_t expired_length;

static void expire(int number) {
    (void)number;
    if (write(STDERR_FILENO, expired_text, expired_length) < 0) _exit(2);
    _exit(1);
}

/* From now on the process ends with a message after `seconds`; 0: no longer. */
static void limit_kernel(const MoecExtern *kernel, double seconds) {
    const struct itimerval time = {
        .it_value = {(time_t)seconds, (suseconds_t)(1e6 * fmod(seconds, 1))}};
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    free(expired_text);
    expired_text = NULL;
    FILE *file = seconds > 0 ? open_memstream(&expired_text, &expired_length) : NULL;
    if (!file) return;
    FILE *before = message_to(file);
    error_message("correct the kernel, or remove its extern statement; MOEC_AGAINST_TIMEOUT sets "
                  "the limit in seconds",
                  "%s:%d: the kernel %s did not return within %g s", kernel->spec, kernel->line,
                  kernel->name, seconds);
    message_to(before == stderr ? NULL : before);
    fclose(file);
    signal(SIGALRM, expire);
    setitimer(ITIMER_REAL, &time, NULL);
}

static bool run_limited(const AgainstExtern *external, const MoecExtern *kernel,
                        const AgainstCase *one, AgainstAnswer *answer, double seconds) {
    limit_kernel(kernel, seconds);
    const bool good = run_one_kernel(external, kernel, one, answer);
    limit_kernel(kernel, 0);
    return good;
}

bool extern_device_run(const AgainstExtern *external, const AgainstCase *one, AgainstAnswer *answer,
                       double seconds) {
    return run_limited(external, external->forward, one, answer, seconds) &&
           (!external->gradient || run_limited(external, external->gradient, one, answer, seconds));
}
