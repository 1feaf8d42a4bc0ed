/* nccl: collectives of device memory by NCCL, on a stream of their own. Each call follows the work
 * of the device's stream, and ends when its own work has: later work of the device follows it. */
#include "mesh/internal.h"

#include "base/memory.h"
#include "base/message.h"
#include "device/cuda/cuda.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A process has at most one communicator. */
static struct {
    const CudaNccl *calls;
    CudaDevice *device;
    NcclComm *comm;
    CudaStream *stream;
    CudaEvent *reached; /* by the stream of the device */
} own;

/* Another process has ended: its message comes first, from watch.c. */
enum { REMOTE_ERROR = 6, FOR_OTHERS = 3 /* seconds */ };

static int nccl_ended_by(int error) {
    if (error == REMOTE_ERROR) sleep(FOR_OTHERS);
    return error;
}

CudaStream *nccl_stream(void) {
    return own.stream;
}

/* Errors of CUDA are negative. */
int nccl_begin(void) {
    const CudaDriver *driver = &own.device->library->driver;
    cuda_enter(own.device);
    int error = driver->event_record(own.reached, own.device->stream);
    if (!error) error = driver->stream_follow(own.stream, own.reached, 0);
    return -error;
}

static int nccl_state(void) {
    int state = 0, error = own.calls->state(own.comm, &state);
    return error ? error : state == NCCL_IN_PROGRESS ? 0 : state;
}

int nccl_wait(CudaStream *stream, int error) {
    const CudaDriver *driver = &own.device->library->driver;
    int state = CUDA_NOT_READY;
    while (!error && state == CUDA_NOT_READY) {
        state = driver->stream_query(stream);
        error = nccl_state();
        if (state == CUDA_NOT_READY) sched_yield();
    }
    return error ? nccl_ended_by(error) : -state;
}

static int nccl_finish(int error) {
    return nccl_wait(own.stream, error);
}

/* Also without bytes: each process then has the same calls. */
int nccl_enqueue(const MeshTransfer *transfers, int count) {
    int error = own.calls->group_start();
    for (int i = 0; i < count && !error; i++) {
        const MeshTransfer *one = &transfers[i];
        const size_t floats = one->length / sizeof(float);
        error = one->sends ? own.calls->send(one->bytes, floats, NCCL_FLOAT, one->peer, own.comm,
                                             own.stream)
                           : own.calls->receive(one->bytes, floats, NCCL_FLOAT, one->peer, own.comm,
                                                own.stream);
    }
    return error ? error : own.calls->group_end();
}

static int nccl_transfer(const MeshTransfer *transfers, int count) {
    const int error = nccl_begin();
    return nccl_finish(error ? error : nccl_enqueue(transfers, count));
}

static int nccl_broadcast(void *bytes, size_t length, int root) {
    int error = nccl_begin();
    if (!error && length)
        error = own.calls->broadcast(bytes, bytes, length / sizeof(float), NCCL_FLOAT, root,
                                     own.comm, own.stream);
    return nccl_finish(error);
}

static int nccl_sum(float *values, size_t count) {
    int error = nccl_begin();
    if (!error)
        error = own.calls->sum(values, values, count, NCCL_FLOAT, NCCL_SUM, own.comm, own.stream);
    return nccl_finish(error);
}

static int nccl_end(void) {
    const CudaDriver *driver = &own.device->library->driver;
    cuda_enter(own.device);
    const int error = own.calls->end(own.comm);
    driver->event_free(own.reached);
    driver->stream_free(own.stream);
    return error;
}

static void nccl_describe(int error, char *text) {
    const char *reason = error < 0 ? cuda_error(own.device, -error) : own.calls->error_text(error);
    snprintf(text, LIBRARY_TEXT, "%s%s", error < 0 ? "CUDA: " : "", reason);
}

static const MeshLibrary library = {.abi = MESH_LIBRARY_ABI,
                                    .name = "NCCL",
                                    .end = nccl_end,
                                    .broadcast = nccl_broadcast,
                                    .sum = nccl_sum,
                                    .transfer = nccl_transfer,
                                    .describe = nccl_describe};

enum { BUS_LENGTH = 32 };

/* Each process has its own GPU; false after a message of process 0. */
static bool check_gpus(Mesh *mesh, char (*all)[BUS_LENGTH]) {
    for (int i = 0; i < mesh->size; i++)
        for (int j = 0; j < i; j++)
            if (strcmp(all[i], all[j]) == 0 && strcmp(mesh->hosts[i], mesh->hosts[j]) == 0)
                return mesh->rank == 0 &&
                       error_message("use --device cuda, which selects a GPU for each process, and "
                                     "at most as many processes on a host as it has GPUs",
                                     "ranks %d and %d use the same GPU of %s (%s)", j, i,
                                     mesh->hosts[i], all[i]);
    return true;
}

bool mesh_use_device(Mesh *mesh, Engine *engine) {
    const char *name = "start of NCCL";
    NcclId id = {""};
    mesh->engine = engine;
    if (!engine->device->apart) return true;
    own.calls = cuda_nccl();
    own.device = (CudaDevice *)(void *)engine->device;
    const CudaDriver *driver = &own.device->library->driver;
    char(*all)[BUS_LENGTH] = memory_new(sizeof *all * (size_t)mesh->size);
    cuda_enter(own.device);
    int error = -driver->device_bus(all[mesh->rank], BUS_LENGTH, own.device->number);
    mesh_gather(mesh, name, all, BUS_LENGTH);
    const bool apart = check_gpus(mesh, all);
    free(all);
    if (!apart) return false;
    if (!error && mesh->rank == 0) error = own.calls->id_new(&id);
    if (!error) error = -driver->stream_new(&own.stream, 1);
    if (!error) error = -driver->event_new(&own.reached, 2 /* without time */);
    mesh_broadcast(mesh, name, 0, &id, sizeof id);
    collective_begin(mesh, name);
    if (!error) error = own.calls->start(&own.comm, mesh->size, id, mesh->rank);
    collective_end(mesh, &library, error);
    mesh->there = &library;
    return true;
}
