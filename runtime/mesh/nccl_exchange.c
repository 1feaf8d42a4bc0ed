/* nccl_exchange: the exchanges of a program of a GPU (see MoecExchange), on the stream of NCCL. An
 * exchange follows the work of the device before its begin; the work after its end follows it. The
 * host waits for nothing, except for the numbers of rows before it sends them. */
#include "mesh/internal.h"

#include "abi/shapes.h"
#include "base/memory.h"
#include "base/message.h"
#include "device/cuda/cuda.h"

#include <assert.h>
#include <stdlib.h>

enum { ELEMENT = 4, RUNNING = 64, GROWTHS = 64, THREADS = 256, BLOCKS = 1024 };

typedef enum ExchangeKernel {
    KERNEL_FIRST,
    KERNEL_DESCRIBE,
    KERNEL_PIECES,
    KERNEL_REDUCE,
    KERNEL_GATHER,
    KERNEL_COUNT
} ExchangeKernel;

struct DeviceExchanges {
    CudaDevice *device;
    CudaFunction *kernels[KERNEL_COUNT];
    CudaEvent *done[RUNNING];    /* of the exchanges that have begun, in turn */
    long begun, ended, waits;    /* waits: of the host */
    CudaPointer staged[GROWTHS]; /* the last one is in use; graphs use the others */
    size_t staged_bytes;
    int growths;
    int *table; /* pinned: copy of a table of rows */
    size_t table_bytes;
};

/* ---- start and end ---- */

static _Noreturn void device_failed(Mesh *mesh) {
    watch_fail(mesh, held_messages());
}

static DeviceExchanges *exchanges_new(Mesh *mesh) {
    static const char *const names[] = {
        [KERNEL_FIRST] = "moec_exchange_first",   [KERNEL_DESCRIBE] = "moec_exchange_describe",
        [KERNEL_PIECES] = "moec_exchange_pieces", [KERNEL_REDUCE] = "moec_exchange_reduce",
        [KERNEL_GATHER] = "moec_exchange_gather",
    };
    DeviceExchanges *made = memory_new(sizeof *made);
    made->device = (CudaDevice *)(void *)mesh->engine->device;
    const CudaDriver *driver = &made->device->library->driver;
    bool good = true;
    for (int i = 0; i < KERNEL_COUNT && good; i++)
        good = (made->kernels[i] = cuda_engine_function(mesh->engine, names[i])) != NULL;
    for (int i = 0; i < RUNNING && good; i++)
        good = cuda_good(made->device, driver->event_new(&made->done[i], 2 /* without time */),
                         "create an event");
    if (!good) device_failed(mesh);
    return made;
}

void mesh_exchanges_end_there(Mesh *mesh) {
    DeviceExchanges *all = mesh->on_device;
    if (!all) return;
    const CudaDriver *driver = &all->device->library->driver;
    detail_message("%ld exchanges on the device, %ld waits for numbers of rows", all->begun,
                   all->waits);
    detail_message("buffer of exchanges: %zu bytes after %d growths", all->staged_bytes,
                   all->growths);
    for (int i = 0; i < RUNNING; i++) driver->event_free(all->done[i]);
    for (int i = 0; i < all->growths; i++) cuda_free(all->device, all->staged[i]);
    if (all->table) driver->unpin(all->table);
    free(all->table);
    free(all);
    mesh->on_device = NULL;
}

/* A buffer on the device, which doubles. Exchanges use it one after the other. */
static CudaPointer staging_there(Mesh *mesh, size_t bytes) {
    DeviceExchanges *all = mesh->on_device;
    if (!all->growths || bytes > all->staged_bytes) {
        assert(all->growths < GROWTHS);
        all->staged_bytes = 2 * bytes + ELEMENT; /* transfers without rows have an address, too */
        if (all->device->library->driver.allocate(&all->staged[all->growths++], all->staged_bytes))
            mesh_out_of_memory(mesh, "rows", all->staged_bytes);
    }
    return all->staged[all->growths - 1];
}

/* ---- work on the stream ---- */

static int launch_exchange(const Mesh *mesh, ExchangeKernel kernel, size_t blocks, unsigned threads,
                           void **arguments) {
    const DeviceExchanges *all = mesh->on_device;
    return -all->device->library->driver.launch(all->kernels[kernel], (unsigned)blocks, 1, 1,
                                                threads, 1, 1, 0, nccl_stream(), arguments, NULL);
}

/* As many threads as elements, within limits. */
static int launch_elements(const Mesh *mesh, ExchangeKernel kernel, size_t elements,
                           void **arguments) {
    const size_t blocks = (elements + THREADS - 1) / THREADS;
    return launch_exchange(mesh, kernel, blocks < BLOCKS ? blocks : BLOCKS, THREADS, arguments);
}

static int copy_on_stream(const Mesh *mesh, CudaPointer to, CudaPointer from, size_t bytes) {
    return -mesh->on_device->device->library->driver.copy(to, from, bytes, nccl_stream());
}

static void *pointer_there(CudaPointer pointer) {
    return (void *)(uintptr_t)pointer;
}

/* Everything of each process in order of rank. */
static int gather_there(GroupTransfers *group, const void *from, size_t bytes, CudaPointer all) {
    for (int i = 0; i < group->count; i++) {
        add_transfer(group, i, true, from, bytes);
        add_transfer(group, i, false, pointer_there(all + bytes * (size_t)i), bytes);
    }
    const int error =
        copy_on_stream(group->mesh, all + bytes * (size_t)group->own, cuda_pointer(from), bytes);
    return error ? error : nccl_enqueue(group->list, group->length);
}

/* ---- the kinds ---- */

static int reduce_there(GroupTransfers *group, const MoecExchange *exchange, const void *from,
                        void *to) {
    const size_t size = (size_t)exchange->size;
    CudaPointer all = staging_there(group->mesh, size * ELEMENT * (size_t)group->count),
                sum = cuda_pointer(to);
    int kind = exchange->kind;
    long members = group->count, elements = exchange->size;
    void *arguments[] = {&kind, &members, &elements, &all, &sum};
    const int error = gather_there(group, from, size * ELEMENT, all);
    return error ? error : launch_elements(group->mesh, KERNEL_REDUCE, size, arguments);
}

static int gather_dimension_there(GroupTransfers *group, const MoecExchange *exchange,
                                  const void *from, void *to) {
    long members = group->count, outer = exchange->outer, piece = exchange->size * exchange->inner;
    const size_t elements = (size_t)(outer * piece);
    CudaPointer result = cuda_pointer(to);
    if (outer == 1) return gather_there(group, from, elements * ELEMENT, result);
    CudaPointer all = staging_there(group->mesh, elements * ELEMENT * (size_t)members);
    void *arguments[] = {&members, &outer, &piece, &all, &result};
    const int error = gather_there(group, from, elements * ELEMENT, all);
    return error
               ? error
               : launch_elements(group->mesh, KERNEL_GATHER, elements * (size_t)members, arguments);
}

static MoecExchangeOnDevice rows_there(const GroupTransfers *group, const MoecExchange *exchange,
                                       const int *table) {
    return (MoecExchangeOnDevice){.groups = exchange->groups,
                                  .keys = exchange->keys,
                                  .members = group->count,
                                  .own = group->own,
                                  .size = exchange->size,
                                  .room = exchange->rows,
                                  .table = table,
                                  .key_count = exchange->key_count};
}

static int counts_there(GroupTransfers *group, const MoecExchange *exchange, const void *from,
                        void *const *to) {
    MoecExchangeOnDevice rows = rows_there(group, exchange, to[EXCHANGE_TABLE]);
    rows.group = to[EXCHANGE_GROUP];
    rows.first = to[EXCHANGE_FIRST];
    rows.slot = to[EXCHANGE_SLOT];
    for (int i = 0; i < exchange->key_count; i++) {
        rows.key[i] = to[EXCHANGE_KEYS + i];
        rows.key_sizes[i] = exchange->key_sizes[i];
    }
    void *arguments[] = {&rows};
    int error = gather_there(group, from, sizeof(int) * (size_t)(exchange->groups + 1),
                             cuda_pointer(to[EXCHANGE_TABLE]));
    if (!error) error = launch_exchange(group->mesh, KERNEL_FIRST, 1, MOEC_PACK_THREADS, arguments);
    if (!error)
        error = launch_exchange(group->mesh, KERNEL_DESCRIBE, (size_t)exchange->groups, THREADS,
                                arguments);
    return error;
}

/* The table of rows, after the work of the device that sets it. */
static const int *read_counts(Mesh *mesh, const MoecExchange *exchange, const int *table) {
    DeviceExchanges *all = mesh->on_device;
    const CudaDriver *driver = &all->device->library->driver;
    CudaStream *stream = all->device->stream;
    const size_t bytes = sizeof(int) * (size_t)(mesh->dividing * (exchange->groups + 1));
    if (bytes > all->table_bytes) {
        if (all->table) driver->unpin(all->table);
        free(all->table);
        all->table = memory_new(bytes);
        all->table_bytes = bytes;
        driver->pin(all->table, bytes, 0);
    }
    collective_begin(mesh, exchange->name);
    const int error = -driver->get(all->table, cuda_pointer(table), bytes, stream);
    collective_end(mesh, mesh->there, nccl_wait(stream, error));
    all->waits++;
    return all->table;
}

/* dispatch: `rows` are sent, else received. */
static int move_rows_there(GroupTransfers *group, const MoecExchange *exchange, const int *there,
                           const int *table, void *rows, void *here) {
    enum { BYTES_OF_BLOCK = 1 << 16, PIECES = 32 };
    const bool dispatch = exchange->kind == MOEC_EXCHANGE_DISPATCH;
    const size_t bytes = (size_t)(rows_arriving(group, exchange, table) * exchange->size) * ELEMENT;
    const long each = (long)bytes / exchange->keys / BYTES_OF_BLOCK + 1;
    MoecExchangeOnDevice sizes = rows_there(group, exchange, there);
    CudaPointer staged = staging_there(group->mesh, bytes), tokens = cuda_pointer(rows),
                received = cuda_pointer(here);
    long pieces = each < PIECES ? each : PIECES;
    int back = !dispatch, error = 0;
    void *arguments[] = {&sizes, &pieces, &back, &staged, &tokens, &received};
    if (dispatch && rows_arriving(group, exchange, table) > exchange->rows)
        mesh_rows_exceeded(group->mesh, exchange->name, rows_arriving(group, exchange, table),
                           exchange->rows);
    add_row_transfers(group, exchange, table, rows, pointer_there(staged), back);
    const size_t blocks = (size_t)(exchange->keys * pieces);
    if (back)
        error = launch_exchange(group->mesh, KERNEL_PIECES, blocks, MOEC_PACK_THREADS, arguments);
    if (!error) error = nccl_enqueue(group->list, group->length);
    if (!error && dispatch)
        error = launch_exchange(group->mesh, KERNEL_PIECES, blocks, MOEC_PACK_THREADS, arguments);
    return error;
}

/* ---- begin and end ---- */

static int run_exchange_there(GroupTransfers *group, const MoecExchange *exchange, const void *from,
                              const int *there, const int *table, void *const *to) {
    void *mutable = (void *)(uintptr_t)from;
    switch (exchange->kind) {
    case MOEC_EXCHANGE_SUM:
    case MOEC_EXCHANGE_MAX:
    case MOEC_EXCHANGE_MIN:
        return reduce_there(group, exchange, from, to[0]);
    case MOEC_EXCHANGE_GATHER:
        return gather_dimension_there(group, exchange, from, to[0]);
    case MOEC_EXCHANGE_COUNTS:
        return counts_there(group, exchange, from, to);
    case MOEC_EXCHANGE_DISPATCH:
        return move_rows_there(group, exchange, there, table, mutable, to[0]);
    case MOEC_EXCHANGE_COMBINE:
        return move_rows_there(group, exchange, there, table, to[0], mutable);
    }
    return 0;
}

void mesh_exchange_begin_there(void *self, const MoecExchange *exchange, const void *from,
                               const int *table, void *const *to) {
    Mesh *mesh = self;
    if (!mesh->on_device) mesh->on_device = exchanges_new(mesh);
    DeviceExchanges *all = mesh->on_device;
    const CudaDriver *driver = &all->device->library->driver;
    const bool whole = exchange->kind <= MOEC_EXCHANGE_GATHER;
    const int *counts = table && !exchange->each ? read_counts(mesh, exchange, table) : NULL;
    assert(all->begun - all->ended < RUNNING);
    GroupTransfers group =
        begin_group(mesh, whole ? mesh->sharing : mesh->dividing, exchange->name);
    int error = nccl_begin();
    if (!error) error = run_exchange_there(&group, exchange, from, table, counts, to);
    if (!error) error = -driver->event_record(all->done[all->begun++ % RUNNING], nccl_stream());
    collective_end(mesh, mesh->there, error);
    free(group.list);
}

void mesh_exchange_end_there(void *self, const MoecExchange *exchange) {
    Mesh *mesh = self;
    DeviceExchanges *all = mesh->on_device;
    const int error = all->device->library->driver.stream_follow(
        all->device->stream, all->done[all->ended++ % RUNNING], 0);
    if (!cuda_good(all->device, error, exchange->name)) device_failed(mesh);
}
