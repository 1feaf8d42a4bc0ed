#include "device/device.h"

#include "abi/count.h"
#include "base/message.h"
#include "device/cuda/cuda.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK = DEVICE_CHUNK,
    BLOCK = 1 << 12 /* elements of a thread; fits into the first cache */
};

static void *cpu_allocate(Device *device, size_t bytes) {
    (void)device;
    return memory_map(bytes);
}

static void release(Device *device, void *block, size_t bytes) {
    (void)device;
    memory_unmap(block, bytes);
}

static bool copy(Device *device, void *to, const void *from, size_t bytes) {
    (void)device;
    if (to != from && bytes) memcpy(to, from, bytes);
    return true;
}

static bool cpu_zero(Device *device, void *block, size_t bytes) {
    long chunks = (long)((bytes + CHUNK - 1) / CHUNK);
    (void)device;
#pragma omp parallel for schedule(static)
    for (long chunk = 0; chunk < chunks; chunk++) {
        size_t start = (size_t)chunk * CHUNK;
        memset((unsigned char *)block + start, 0, start + CHUNK < bytes ? CHUNK : bytes - start);
    }
    return true;
}

static void close_device(Device *device) {
    (void)device;
}

static bool rounds_products(const MoecTable *table) {
    bool rounds = false;
    for (int i = 0; i < table->product_count; i++) rounds |= table->products[i].rounded != 0;
    return rounds;
}

/* Printed once per process, and only when a program runs: an emitted model may be for another
 * machine. */
static void note_slow_bf16(Device *device) {
    if (atomic_exchange(&device->noted, true)) return;
    note_message("products of bf16 (train.precision) save memory but no time on this processor, "
                 "which multiplies bf16 no faster than f32; processors with AMX, and AMD "
                 "processors with AVX-512 BF16, are faster");
}

static Engine *engine_new(Device *device, const MoecTable *table, MoecDeviceProgram *program,
                          bool keep) {
    (void)program, (void)keep;
    Engine *engine = memory_new(sizeof *engine);
    engine->device = device;
    engine->table = table;
    engine->products = products_new(table);
    engine->host.self = engine->products;
    engine->host.product = engine->products ? products_run : NULL;
    engine->slow = rounds_products(table) && !products_of_bf16();
    return engine;
}

static void engine_free(Engine *engine) {
    products_free(engine->products);
    free(engine);
}

/* Assigns the time since the last mark to the unit. */
static void mark(void *marked, int unit) {
    Engine *engine = marked;
    if (unit >= 0)
        kernel_times_add(engine->times, NULL, unit, kernel_times_clock() - engine->since, 0);
    engine->since = kernel_times_clock();
}

static void add_time(const Engine *engine, const char *name, double began) {
    if (engine->times) kernel_times_add(engine->times, name, -1, kernel_times_clock() - began, 0);
}

static bool run_graph(Engine *engine, const MoecGraphEntry *graph, MoecRun *run) {
    run->host = &engine->host;
    if (engine->slow) note_slow_bf16(engine->device);
    graph->run(run);
    return true;
}

/* Chunks of fixed length, so the result is independent of the thread count. */
static bool square_sums(Engine *engine, const float *values, size_t count, double *sums) {
    const double began = kernel_times_clock();
    long chunks = (long)((count + CHUNK - 1) / CHUNK);
#pragma omp parallel for schedule(static)
    for (long chunk = 0; chunk < chunks; chunk++) {
        size_t start = (size_t)chunk * CHUNK, end = start + CHUNK < count ? start + CHUNK : count;
        double own = 0;
#pragma omp simd reduction(+ : own)
        for (size_t i = start; i < end; i++) own += (double)values[i] * (double)values[i];
        sums[chunk] = own;
    }
    add_time(engine, "square_sum", began);
    return true;
}

static bool add_tree(Engine *engine, float *const *parts, int count, size_t length, float *to) {
    (void)engine;
#pragma omp parallel for schedule(static)
    for (size_t at = 0; at < length; at += BLOCK) {
        size_t end = at + BLOCK < length ? at + BLOCK : length;
        for (int apart = 1; apart < count; apart *= 2)
            for (int i = 0; i + apart < count; i += 2 * apart) {
                const float *left = parts[i], *right = parts[i + apart];
                float *sum = 2 * apart < count ? parts[i] : to;
                for (size_t k = at; k < end; k++) sum[k] = left[k] + right[k];
            }
    }
    return true;
}

static bool update_parameters(Engine *engine, const BlockUpdate *given) {
    const double began = kernel_times_clock();
    const MoecTable *table = engine->table;
    const MoecUpdate *update = table->update;
    AUTO_FREE float *scalars = update_numbers(table, given);
    AUTO_FREE float **moments = memory_new(sizeof *moments * (size_t)(update->state_count + 1));
    for (int i = 0; i < table->parameter_count; i++) {
        const MoecTensor *tensor = &table->parameters[i];
        size_t start = tensor->offset / sizeof(float), end = start + tensor_count(tensor);
        if (start < given->start) start = given->start;
        if (end > given->end) end = given->end;
        if (tensor->frozen || tensor->whole || start >= end) continue;
        for (int j = 0; j < update->state_count; j++) moments[j] = given->moments[j] + start;
        update->run(given->weights + start, given->gradients + start, moments, (long)(end - start),
                    scalars + tensor->group * update->scalar_count,
                    given->rounded ? (uint16_t *)given->rounded + start : NULL);
    }
    add_time(engine, "update", began);
    return true;
}

static bool round_weights(Engine *engine, const float *weights, void *rounded) {
    engine->table->round(&engine->host, weights, rounded);
    return true;
}

static double rate_of(const Engine *engine, double step, double steps) {
    return engine->table->update->rate(step, steps);
}

static void *products_open(Device *device, bool rounded) {
    return products_trial_new(rounded, device->brief);
}

static double products_pass(Device *device, void *products) {
    return products_trial_rate(products, device->brief ? 0 : 0.1);
}

static void products_close(Device *device, void *products) {
    (void)device;
    products_trial_free(products);
}

static double read_pass(Device *device, void *block, size_t bytes) {
    (void)device;
    return ceiling_read_pass(block, bytes);
}

static bool time_kernels(Engine *engine, KernelTimes *times) {
    engine->times = times;
    engine->host.mark = times ? mark : NULL;
    engine->host.marked = engine;
    return true;
}

static const DeviceKind kind = {
    .allocate = cpu_allocate,
    .release = release,
    .put = copy,
    .get = copy,
    .copy = copy,
    .zero = cpu_zero,
    .close = close_device,
    .engine_new = engine_new,
    .engine_free = engine_free,
    .run = run_graph,
    .square_sums = square_sums,
    .add_tree = add_tree,
    .update = update_parameters,
    .round = round_weights,
    .rate = rate_of,
    .time_kernels = time_kernels,
    .products_open = products_open,
    .products_pass = products_pass,
    .products_close = products_close,
    .read_pass = read_pass,
};

/* ---- memory reads ---- */

enum { READ_BYTES = 1 << 29, BRIEF_BYTES = 1 << 20, PASSES = 6 };

DeviceReading device_reading_open(Device *device) {
    DeviceReading reading = {.device = device, .bytes = device->brief ? BRIEF_BYTES : READ_BYTES};
    reading.block = device->kind->allocate(device, reading.bytes);
    if (reading.block) device->kind->zero(device, reading.block, reading.bytes);
    return reading;
}

double device_reading_pass(const DeviceReading *reading) {
    Device *device = reading->device;
    return reading->block ? device->kind->read_pass(device, reading->block, reading->bytes) : 0;
}

void device_reading_close(DeviceReading *reading) {
    if (reading->block)
        reading->device->kind->release(reading->device, reading->block, reading->bytes);
    reading->block = NULL;
}

double device_ceiling_read(Device *device) {
    AUTO(DeviceReading) reading = device_reading_open(device);
    double best = 0;
    for (int pass = 0; pass < PASSES; pass++) best = fmax(best, device_reading_pass(&reading));
    return best;
}

/* ---- matrix products ---- */

DeviceMultiplying device_multiplying_open(Device *device, bool rounded) {
    return (DeviceMultiplying){device, device->kind->products_open(device, rounded)};
}

double device_multiplying_pass(const DeviceMultiplying *multiplying) {
    Device *device = multiplying->device;
    void *products = multiplying->products;
    return products ? device->kind->products_pass(device, products) : NAN;
}

void device_multiplying_close(DeviceMultiplying *multiplying) {
    Device *device = multiplying->device;
    if (multiplying->products) device->kind->products_close(device, multiplying->products);
    multiplying->products = NULL;
}

double device_ceiling_products(Device *device, bool rounded) {
    AUTO(DeviceMultiplying) multiplying = device_multiplying_open(device, rounded);
    double best = device_multiplying_pass(&multiplying);
    for (int pass = 1; pass < PASSES; pass++)
        best = fmax(best, device_multiplying_pass(&multiplying));
    return best;
}

bool device_square_sum(Engine *engine, const float *block, size_t count, double *sum) {
    const size_t chunks = (count + CHUNK - 1) / CHUNK;
    AUTO_FREE double *sums = memory_new(sizeof *sums * (chunks + 1));
    const bool good = engine->device->kind->square_sums(engine, block, count, sums);
    *sum = 0;
    for (size_t i = 0; i < chunks; i++) *sum += sums[i];
    return good;
}

Device *device_cpu(void) {
    static Device cpu = {.kind = &kind, .name = "cpu"};
    return &cpu;
}

Device *device_open(const char *name) {
    if (strcmp(name, "cpu") == 0) return device_cpu();
    char *end = NULL;
    long number = strncmp(name, "cuda:", 5) == 0 ? strtol(name + 5, &end, 10) : 0;
    if (strcmp(name, "cuda") == 0 ||
        (end && end != name + 5 && !*end && number >= 0 && number < 1024))
        return cuda_open((int)number);
    error_message("use cpu, cuda or cuda:N", "unknown device '%s'", name);
    return NULL;
}

void device_close(Device *device) {
    if (!device) return;
    json_decref(device->choices);
    device->choices = NULL;
    device->kind->close(device);
}
