/* bench_start: from a spec to the end of the first step, with nothing compiled before and from the
 * cache. Each start is a process of its own: a library that has made its kernels once, or threads
 * that run already, would make the second look faster than it is. */
#include "tools/command/bench/bench.h"
#include "base/message.h"
#include "model/call.h"
#include "base/clock.h"
#include "training/spec.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Written by the process that starts, read by the one that waits for it. */
typedef struct Start {
    bool good;
    Startup startup;
    double step, compile; /* the second step, which finds everything ready; the C compiler */
} Start;

static bool take_steps(const Bench *bench, Call *call, const Data *data, Start *start) {
    Stepper stepper = {.train = call,
                       .data = data,
                       .order = {1, data->count, call_context(call), data->record},
                       .settings = bench->settings};
    bool good = step_prepare(&stepper) && bench_step(&stepper, 0);
    startup_mark(&start->startup, "step");
    Startup second;
    startup_begin(&second);
    good = good && bench_step(&stepper, 1);
    startup_mark(&second, "step");
    start->step = startup_seconds(&second);
    step_release(&stepper);
    return good;
}

static bool start_model(const Bench *bench, bool keep, Start *start) {
    const GraphShape shapes[] = {{.graph = MOEC_TRAIN}, {.graph = MOEC_UPDATE}};
    AUTO(Device) *device = device_open(bench->device);
    if (device) device->noted = true; /* the parent prints the note */
    startup_begin(&start->startup);
    MoecCompiler *compiler = device ? spec_open(bench->operand, &bench->sets) : NULL;
    startup_mark(&start->startup, "spec");
    AUTO(Model) *model = compiler ? model_open(device, compiler, shapes, 2, keep) : NULL;
    moec_close(compiler);
    if (model) {
        start->compile = model->compile_seconds;
        startup_part(&start->startup, "compiler", start->compile);
        startup_mark(&start->startup, "passes and memory");
        model_initialise(model, 1);
        startup_mark(&start->startup, "weights");
    }
    AUTO(Call) *call = model ? call_open(model, model_graph(model, MOEC_GRAPH_TRAIN), NULL) : NULL;
    AUTO(Data) *data = call ? bench_data(call_vocabulary(call)) : NULL;
    return data && take_steps(bench, call, data, start);
}

/* keep false: without the cache. */
static bool start_apart(const Bench *bench, bool keep, Start *start) {
    Start *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return error_message("close other programs, or use a smaller model",
                             "no memory for the measurement");
    pid_t child = fork();
    if (child == 0) {
        shared->good = start_model(bench, keep, shared);
        _exit(0);
    }
    int status;
    bool good = child > 0 && waitpid(child, &status, 0) == child && shared->good;
    *start = *shared;
    munmap(shared, sizeof *shared);
    return good;
}

/* Beyond a step: how much later the first one ended than if everything had been ready. */
static void tell_start(const Bench *bench, const char *kind, const Start *start) {
    char name[64];
    double seconds = startup_seconds(&start->startup);
    snprintf(name, sizeof name, "first_step_%s_seconds", kind);
    bench_tell(bench, name, seconds);
    snprintf(name, sizeof name, "start_%s_seconds", kind);
    bench_tell(bench, name, seconds - start->step);
    snprintf(name, sizeof name, "start_%s", kind);
    bench_tell_text(bench, name, start->startup.text);
}

bool bench_starts(const Bench *bench) {
    Start cold, filled, warm;
    if (!start_apart(bench, false, &cold) || !start_apart(bench, true, &filled) ||
        !start_apart(bench, true, &warm))
        return false;
    tell_start(bench, "cold", &cold);
    bench_tell(bench, "compile_cold_seconds", cold.compile);
    tell_start(bench, "warm", &warm);
    return true;
}
