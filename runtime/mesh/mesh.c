#include "mesh/internal.h"

#include "base/memory.h"
#include "base/message.h"

#include <limits.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- messages of processes other than process 0 ---- */

static char *held_text;
static size_t held_length;
static FILE *held;

void mesh_hold_messages(const ProcessGroup *launch) {
    if (launch->rank == 0 || held) return;
    held = open_memstream(&held_text, &held_length);
    if (held) message_to(held);
    message_level(-1);
    if (!freopen("/dev/null", "w", stdout)) clearerr(stdout);
}

void hold_thread_messages(void) {
    if (held) message_to(held);
}

char *held_messages(void) {
    if (!held) return memory_format("%s", "");
    fflush(held);
    char *text = memory_format("%.*s", (int)held_length, held_text);
    rewind(held);
    return text;
}

/* ---- start ---- */

enum { TEXT_LENGTH = 4096 };

/* Compared at the start. */
typedef struct Introduction {
    char host[HOST_LENGTH];
    int good;
} Introduction;

static Mesh *give_up(Mesh *mesh, bool connected) {
    if (connected) mesh->here->end();
    free(mesh->hosts);
    free(mesh);
    return NULL;
}

/* Whether the processes of the launcher can communicate; false after a message. */
static bool can_connect(const ProcessGroup *launch, bool on_gpus) {
    if (launch->launcher == LAUNCHER_TORCHRUN && !on_gpus) {
        AUTO_FREE char *help =
            memory_format("mpirun -n %d moec train ..., or --device cuda", launch->size);
        error_message(help,
                      "torchrun started %d processes, but training on CPUs communicates by MPI",
                      launch->size);
        return false;
    }
    if (launch->launcher == LAUNCHER_TORCHRUN) return rendezvous_check(launch);
    return launch->launcher != LAUNCHER_SLURM ||
           error_message("srun --mpi=pmix or srun --mpi=pmi2; srun --mpi=list lists the interfaces",
                         "srun started %d processes without an interface to MPI", launch->size);
}

/* A start of the library that lasts too long, for example because a process is missing. */
typedef struct StartLimit {
    const ProcessGroup *launch;
    double seconds;
    int started; /* eventfd */
} StartLimit;

static void *observe_start(void *data) {
    const StartLimit *limit = data;
    const double seconds = limit->seconds + (limit->launch->rank > 0); /* process 0 reports */
    struct pollfd started = {.fd = limit->started, .events = POLLIN};
    if (poll(&started, 1, (int)fmin(seconds * 1000, INT_MAX)) != 0) return NULL;
    if (limit->launch->rank == 0)
        error_message("start it again; check that each host is reachable and starts its processes",
                      "%s started %d processes, but MPI has not connected them within %g s",
                      limit->launch->command, limit->launch->size, limit->seconds);
    _exit(1);
}

static int start_library(Mesh *mesh, const ProcessGroup *launch, double seconds, char *version) {
    const uint64_t one = 1;
    StartLimit limit = {.launch = launch, .seconds = seconds, .started = eventfd(0, EFD_CLOEXEC)};
    pthread_t thread;
    const bool observed = seconds > 0 && limit.started >= 0 &&
                          pthread_create(&thread, NULL, observe_start, &limit) == 0;
    const int error = mesh->here->start(&mesh->rank, &mesh->size, version);
    if (observed && write(limit.started, &one, sizeof one) == (ssize_t)sizeof one)
        pthread_join(thread, NULL);
    if (limit.started >= 0) close(limit.started);
    return error;
}

/* Starts the library, in some seconds at most if they are not 0, and checks that it has the
 * processes of the launcher. */
static bool connect(Mesh *mesh, const ProcessGroup *launch, double seconds) {
    char version[LIBRARY_TEXT] = "";
    mesh->rank = launch->rank;
    mesh->size = launch->size;
    const int error = start_library(mesh, launch, seconds, version);
    version[strcspn(version, ",\n")] = 0;
    if (error && launch->launcher == LAUNCHER_TORCHRUN) return false;
    if (error)
        return error_message("start the program with mpirun of the same MPI library",
                             "MPI (%s) cannot start: error %d", version, error);
    if (mesh->size == launch->size) return true;
    return error_message("set MOEC_MPICC to the mpicc of the MPI library that mpirun belongs to",
                         "%s started %d processes, but the MPI library of mpicc (%s) finds %d",
                         launch->command, launch->size, version, mesh->size);
}

static void count_hosts(Mesh *mesh, const Introduction *all) {
    mesh->hosts = memory_new(sizeof *mesh->hosts * (size_t)mesh->size);
    for (int i = 0; i < mesh->size; i++) {
        memcpy(mesh->hosts[i], all[i].host, HOST_LENGTH);
        int known = 0;
        while (known < i && strcmp(mesh->hosts[known], mesh->hosts[i]) != 0) known++;
        mesh->host_count += known == i;
    }
}

/* False, after one message, if some process cannot start: that of process 0 is printed already,
 * otherwise it is that of the first process which cannot. */
static bool all_good(Mesh *mesh, const Introduction *all) {
    int wrong = 0;
    while (wrong < mesh->size && all[wrong].good) wrong++;
    if (wrong == mesh->size) return true;
    if (wrong == 0) return false;
    char *own = held_messages(), text[TEXT_LENGTH] = "";
    snprintf(text, sizeof text, "%s", own);
    free(own);
    mesh->here->broadcast(text, sizeof text, wrong);
    if (mesh->rank) return false;
    line_message("rank %d of %d (%s) cannot start:\n%s", wrong, mesh->size, mesh->hosts[wrong],
                 text);
    return false;
}

/* False, after a message of process 0, if a property differs between processes. */
static bool all_equal(Mesh *mesh, const MeshProperty *properties, int count) {
    const size_t bytes = sizeof properties[0].value;
    const size_t row = bytes * (size_t)count;
    AUTO_FREE char *all = memory_new(row * (size_t)mesh->size);
    for (int i = 0; i < count; i++)
        memcpy(all + row * (size_t)mesh->rank + bytes * (size_t)i, properties[i].value, bytes);
    bool equal = mesh->here->gather(all, row) == 0;
    for (int rank = 1; rank < mesh->size && equal; rank++)
        for (int i = 0; i < count && equal; i++) {
            const char *first = all + bytes * (size_t)i, *other = first + row * (size_t)rank;
            equal = strcmp(first, other) == 0;
            if (!equal)
                error_message("use the same files, command and installation, and hosts of the same "
                              "kind, for all processes",
                              "rank %d (%s) differs from rank 0 (%s) in the %s: %s, not %s", rank,
                              mesh->hosts[rank], mesh->hosts[0], properties[i].name, other, first);
        }
    return equal;
}

Mesh *mesh_start(const ProcessGroup *launch, bool good, bool on_gpus,
                 const MeshProperty *properties, int count) {
    if (!can_connect(launch, on_gpus)) return NULL;
    Mesh *mesh = memory_new(sizeof *mesh);
    const bool sockets = launch->launcher == LAUNCHER_TORCHRUN;
    mesh->here = mesh->there = sockets ? &rendezvous_library : mpi_open(launch);
    double limit;
    good = watch_limit(&limit) && good;
    if (!mesh->here || !connect(mesh, launch, good ? FIRST_FACTOR * limit : 0)) {
        AUTO_FREE char *text = held_messages();
        if (launch->local_rank == 0) fputs(text, stderr); /* of another host */
        return give_up(mesh, false);
    }
    Introduction *all = memory_new(sizeof *all * (size_t)mesh->size);
    gethostname(all[mesh->rank].host, HOST_LENGTH - 1);
    all[mesh->rank].good = good;
    bool equal = mesh->here->gather(all, sizeof *all) == 0;
    if (equal) count_hosts(mesh, all);
    equal = equal && all_good(mesh, all) && all_equal(mesh, properties, count);
    free(all);
    if (!equal) return give_up(mesh, true);
    mesh->watch = watch_start(mesh);
    return mesh;
}

bool mesh_end(Mesh *mesh, bool good) {
    if (!mesh) return good;
    char *text = held_messages();
    if (!good) watch_fail(mesh, text);
    free(text);
    mesh_largest(mesh, "end of the run", 0);
    watch_end(mesh->watch);
    if (mesh->there != mesh->here) mesh->there->end();
    mesh->here->end();
    if (mesh->received)
        mesh->engine->device->kind->release(mesh->engine->device, mesh->received,
                                            mesh->received_bytes);
    free(mesh->staged);
    free(mesh->hosts);
    free(mesh);
    return true;
}

/* ---- collectives ---- */

int mesh_rank(const Mesh *mesh) {
    return mesh ? mesh->rank : 0;
}

int mesh_member(const Mesh *mesh) {
    return mesh ? mesh->rank % mesh->dividing : 0;
}

int mesh_sharing(const Mesh *mesh) {
    return mesh ? mesh->sharing : 1;
}

int mesh_size(const Mesh *mesh) {
    return mesh ? mesh->size : 1;
}

int mesh_hosts(const Mesh *mesh) {
    return mesh ? mesh->host_count : 1;
}

void mesh_set_step(Mesh *mesh, long step) {
    if (mesh) atomic_store(&mesh->activity.step, step);
}

void mesh_set_busy(Mesh *mesh, const char *operation) {
    if (mesh) atomic_store(&mesh->activity.busy, operation);
}

void collective_begin(Mesh *mesh, const char *name) {
    atomic_store(&mesh->activity.name, name);
    atomic_fetch_add(&mesh->activity.collective, 1);
    atomic_store(&mesh->activity.inside, true);
}

void collective_end(Mesh *mesh, const MeshLibrary *library, int error) {
    if (error) {
        char text[LIBRARY_TEXT];
        library->describe(error, text);
        error_message("--resume continues from the last checkpoint",
                      "rank %d of %d (%s): %s reports for '%s': %s", mesh->rank, mesh->size,
                      mesh->hosts[mesh->rank], library->name, atomic_load(&mesh->activity.name),
                      text);
        watch_fail(mesh, held_messages());
    }
    atomic_store(&mesh->activity.inside, false);
}

void mesh_set_groups(Mesh *mesh, int dividing, int sharing) {
    mesh->dividing = dividing;
    mesh->sharing = sharing;
}

void mesh_out_of_memory(Mesh *mesh, const char *name, size_t bytes) {
    error_message("reduce train.batch_size, train.context_length or the number of processes",
                  "rank %d of %d (%s): out of memory for %s of other processes: %zu bytes",
                  mesh->rank, mesh->size, mesh->hosts[mesh->rank], name, bytes);
    watch_fail(mesh, held_messages());
}

void mesh_rows_exceeded(Mesh *mesh, const char *name, long rows, long room) {
    error_message("reduce train.batch_size or the number of processes of `expert`",
                  "rank %d of %d (%s): %ld rows arrived for '%s', which has room for %ld",
                  mesh->rank, mesh->size, mesh->hosts[mesh->rank], rows, name, room);
    watch_fail(mesh, held_messages());
}

void mesh_gather(Mesh *mesh, const char *name, void *all, size_t length) {
    if (!mesh) return;
    collective_begin(mesh, name);
    collective_end(mesh, mesh->here, mesh->here->gather(all, length));
}

int mesh_largest(Mesh *mesh, const char *name, int number) {
    if (!mesh) return number;
    AUTO_FREE int *all = memory_new(sizeof *all * (size_t)mesh->size);
    all[mesh->rank] = number;
    mesh_gather(mesh, name, all, sizeof *all);
    for (int i = 0; i < mesh->size; i++)
        if (all[i] > number) number = all[i];
    return number;
}

void mesh_broadcast(Mesh *mesh, const char *name, int root, void *bytes, size_t length) {
    if (!mesh) return;
    collective_begin(mesh, name);
    collective_end(mesh, mesh->here, mesh->here->broadcast(bytes, length, root));
}

void mesh_broadcast_there(Mesh *mesh, const char *name, int root, void *bytes, size_t length) {
    if (!mesh) return;
    collective_begin(mesh, name);
    collective_end(mesh, mesh->there, mesh->there->broadcast(bytes, length, root));
}
