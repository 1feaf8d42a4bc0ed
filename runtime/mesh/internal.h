/* internal: declarations that only files of this folder use. */
#ifndef MESH_INTERNAL_H
#define MESH_INTERNAL_H

#include "mesh/mesh.h"
#include "mesh/mesh_library.h"
#include "device/cuda/cuda_library.h"

#include <stdatomic.h>

enum { HOST_LENGTH = 64 };

/* mpi: the interface to MPI. */

/* Loads the compiled mpi_shim.c, after compiling it if necessary. NULL after a message. */
const MeshLibrary *mpi_open(const ProcessGroup *launch);

/* sockets: */

/* All bytes: 0, or an error number. flags: of the first send(). */
int socket_send(int descriptor, const void *bytes, size_t length, int flags);
int socket_receive(int descriptor, void *bytes, size_t length);
/* Messages are sent at once, and a lost connection is noticed. */
void socket_options(int descriptor);
/* The longest wait for bytes, or for a process that connects; 0: none. */
void socket_wait(int descriptor, long seconds);

/* rendezvous: sockets between process 0 and the others, without MPI, at the address that torchrun
 * sets. */
extern const MeshLibrary rendezvous_library;
/* False after a message. */
bool rendezvous_check(const ProcessGroup *launch);

/* nccl: work on the stream of NCCL. */

CudaStream *nccl_stream(void);
/* Its later work follows the earlier work of the device. Returns an error of the library. */
int nccl_begin(void);
/* Adds transfers to that stream, without a wait. */
int nccl_enqueue(const MeshTransfer *transfers, int count);
/* Waits for a stream; error: of the work so far, which is returned unless it is 0. */
int nccl_wait(CudaStream *stream, int error);

/* watch: a thread that observes the other processes over TCP connections to process 0, which work
 * while MPI waits. If a process ends, fails or stalls, one message is printed and all end. */

typedef struct Watchdog Watchdog;
typedef struct ExchangeThread ExchangeThread;
typedef struct DeviceExchanges DeviceExchanges;

/* Current work of a process. */
typedef struct Activity {
    _Atomic long step, collective; /* collective: number of the last one, from 1 */
    atomic_bool inside;            /* of that collective */
    _Atomic(const char *) name;    /* of that collective */
    _Atomic(const char *) busy;    /* see mesh_set_busy; or NULL */
} Activity;

struct Mesh {
    const MeshLibrary *here;  /* for host memory */
    const MeshLibrary *there; /* for device memory; on CPUs the same */
    Engine *engine;           /* of the device */
    int rank, size, host_count;
    char (*hosts)[HOST_LENGTH]; /* of each process */
    Activity activity;
    Watchdog *watch;         /* NULL: no connection */
    float *received, *slots; /* device memory: buffers of reduce.c, of mesh_return_slots */
    size_t received_bytes, slots_bytes;
    /* mesh_exchange.c: consecutive processes that divide parameters, or share a micro-batch */
    int dividing, sharing;
    unsigned char *staged;
    size_t staged_bytes;
    long growths;               /* of that buffer */
    ExchangeThread *exchanges;  /* mesh_thread.c; NULL before the first exchange */
    DeviceExchanges *on_device; /* nccl_exchange.c; the same */
    bool overlaps;              /* with computation */
};

/* Seconds until a stall ends the run, from the environment; false after a message. Factor of the
 * limit for the start and for the first step. */
enum { FIRST_FACTOR = 10 };
bool watch_limit(double *limit);
/* Connects the processes by `mesh->here`; collective. */
Watchdog *watch_start(Mesh *mesh);
/* Prints the message `text` of this process, if it is not empty, and ends all processes. */
_Noreturn void watch_fail(Mesh *mesh, const char *text);
/* Announces the regular end of this process and closes the connections. */
void watch_end(Watchdog *watch);

/* mesh: */

/* Runs around each collective: its number and name for the watch. */
void collective_begin(Mesh *mesh, const char *name);
/* error: of the library; ends all processes after a message unless it is 0. */
void collective_end(Mesh *mesh, const MeshLibrary *library, int error);
/* No device memory of this size: ends all processes after a message. */
_Noreturn void mesh_out_of_memory(Mesh *mesh, const char *name, size_t bytes);
/* More rows arrived than a program has room for: ends all processes after a message. */
_Noreturn void mesh_rows_exceeded(Mesh *mesh, const char *name, long rows, long room);
/* The messages of this thread are held as those of the first one. */
void hold_thread_messages(void);
/* The text of held messages, which are then empty: a new string. */
char *held_messages(void);

/* An exchange within a group of consecutive processes. */
typedef struct GroupTransfers {
    Mesh *mesh;
    int first, count, own; /* the group; the index of this process in it */
    MeshTransfer *list;    /* of this exchange */
    int length;
} GroupTransfers;

/* nccl_exchange: after the last exchange. */
void mesh_exchanges_end_there(Mesh *mesh);

/* mesh_exchange: begins an exchange with `size` processes; its list has to be freed. */
GroupTransfers begin_group(Mesh *mesh, int size, const char *name);
/* Adds a transfer with a member of the group, unless it is this process. */
void add_transfer(GroupTransfers *group, int member, bool sends, const void *bytes, size_t length);
/* The rows that a process receives, from the table of an exchange; of one sender. */
long rows_arriving(const GroupTransfers *group, const MoecExchange *exchange, const int *table);
/* Adds the transfers of rows for the processes of their keys. `staged`: received rows of the other
 * processes, in order of process. back: they return. */
void add_row_transfers(GroupTransfers *group, const MoecExchange *exchange, const int *table,
                       unsigned char *rows, unsigned char *staged, bool back);
/* mesh_exchange: the results of COUNTS; the number of results of an exchange. */
enum { EXCHANGE_TABLE, EXCHANGE_GROUP, EXCHANGE_FIRST, EXCHANGE_SLOT, EXCHANGE_KEYS };
int exchange_results(const MoecExchange *exchange);

#endif
