/* mesh: one training run on several processes, which communicate by MPI, and by NCCL between GPUs.
 * A launcher starts them (base/launcher.h). NULL is the mesh of a single process: every function
 * accepts it.
 *
 * Every process calls the collective functions below in the same order. An error of the network
 * ends the process after a message. */
#ifndef MESH_H
#define MESH_H

#include "abi/abi.h"
#include "base/launcher.h"
#include "device/device.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Mesh Mesh;

/* mesh: start and end. */

/* A property that must be equal in all processes, such as "version of moec". */
typedef struct MeshProperty {
    const char *name;
    char value[96];
} MeshProperty;

/* Redirects the messages of this thread to a buffer, unless this is process 0: a message that every
 * process has is printed once. Call it before the first message; mesh_start prints the buffer. */
void mesh_hold_messages(const ProcessGroup *launch);
/* Connects the processes and compares them. good: whether this process can start; its message is
 * printed otherwise. on_gpus: they need no MPI. NULL, after one message of all processes, if some
 * process cannot start or differs from process 0. */
Mesh *mesh_start(const ProcessGroup *launch, bool good, bool on_gpus,
                 const MeshProperty *properties, int count);
/* nccl: the engine whose device memory the functions below add and copy. Collective; false after
 * one message of all processes. */
bool mesh_use_device(Mesh *mesh, Engine *engine);
/* Ends the connection. good: this process has no error; false, after a message, ends the other
 * processes. Returns false if another process failed. */
bool mesh_end(Mesh *mesh, bool good);

int mesh_rank(const Mesh *mesh);    /* of this process, from 0 */
int mesh_member(const Mesh *mesh);  /* in its group, see mesh_set_groups */
int mesh_size(const Mesh *mesh);    /* processes */
int mesh_sharing(const Mesh *mesh); /* consecutive ones with the sequences of one micro-batch */
int mesh_hosts(const Mesh *mesh);   /* different hosts */

/* For messages about failures: the number of the step, and the long operation of this process that
 * others wait for ("writing the checkpoint"), or NULL. */
void mesh_set_step(Mesh *mesh, long step);
void mesh_set_busy(Mesh *mesh, const char *operation);

/* mesh: collective functions. `name` is their name in messages. */

/* all: `length` bytes for each process in order of rank; each sets its own part. */
void mesh_gather(Mesh *mesh, const char *name, void *all, size_t length);
/* The largest number of all processes. */
int mesh_largest(Mesh *mesh, const char *name, int number);
void mesh_broadcast(Mesh *mesh, const char *name, int root, void *bytes, size_t length);
/* The same in device memory. */
void mesh_broadcast_there(Mesh *mesh, const char *name, int root, void *bytes, size_t length);

/* mesh_exchange: programs of a mesh. */

/* Groups of consecutive processes: `dividing` of them divide the parameters that rows select,
 * `sharing` have the sequences of one micro-batch. */
void mesh_set_groups(Mesh *mesh, int dividing, int sharing);
/* Runs an exchange. */
void mesh_exchange(Mesh *mesh, const MoecExchange *exchange, const void *from, const int *table,
                   void *const *to);
/* mesh_thread: the functions of MoecHost, with the mesh as their first argument. */
void mesh_exchange_begin(void *mesh, const MoecExchange *exchange, const void *from,
                         const int *table, void *const *to);
void mesh_exchange_end(void *mesh, const MoecExchange *exchange);
/* nccl_exchange: the same for programs of GPUs. */
void mesh_exchange_begin_there(void *mesh, const MoecExchange *exchange, const void *from,
                               const int *table, void *const *to);
void mesh_exchange_end_there(void *mesh, const MoecExchange *exchange);
/* After the last exchange, before mesh_end: ends the thread. */
void mesh_exchanges_end(Mesh *mesh);
/* A gradient [outer][keys][inner] with a slot for each own key and each process of the group, as
 * described at MoecExchange: each process receives its slots of all keys, in order of the keys. */
void mesh_return_slots(Mesh *mesh, const char *name, float *block, long outer, long keys,
                       long inner);

/* reduce: sums over processes, and copies. Blocks are in device memory unless stated otherwise. */

/* Elements [start, end) of a block. */
typedef struct MeshRange {
    size_t start, end;
} MeshRange;

enum { MESH_CHUNK = DEVICE_CHUNK };

/* The part of a block of `count` elements that belongs to a process: whole chunks of MESH_CHUNK
 * elements, about equally many for each process. */
MeshRange mesh_range(const Mesh *mesh, size_t count, int rank);
/* Adds the blocks of all processes. Each receives the sum of its own range; the rest of its block
 * is unchanged. The blocks are the leaves of a tree in order of rank: neighbors are added in pairs,
 * then pairs of pairs; a last block without a neighbor moves up. The order does not depend on the
 * implementation of MPI or on the number of hosts. */
void mesh_reduce_ranges(Mesh *mesh, const char *name, float *block, size_t count);
/* Copies the range of each process to all others. */
void mesh_gather_ranges(Mesh *mesh, const char *name, float *block, size_t count);
/* Elements [start, end) of a block that only the processes of this index in their groups need; -1:
 * all do. See mesh_set_groups. */
typedef struct MeshPart {
    size_t start, end;
    int member;
} MeshPart;

/* The same, without the parts that a process does not need; the others keep their values. */
void mesh_gather_parts(Mesh *mesh, const char *name, float *block, size_t count,
                       const MeshPart *parts, int part_count);
/* The same in host memory: to process 0 only, and from process 0 to the others. */
void mesh_collect_ranges(Mesh *mesh, const char *name, float *block, size_t count);
void mesh_scatter_ranges(Mesh *mesh, const char *name, float *block, size_t count);
/* Adds the blocks of all processes by the library, which chooses the order. */
void mesh_sum(Mesh *mesh, const char *name, float *block, size_t count);

#endif
