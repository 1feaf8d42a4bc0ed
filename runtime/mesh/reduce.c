/* reduce: sums over processes in a fixed order. */
#include "mesh/internal.h"

#include "base/memory.h"

#include <stdlib.h>

/* elements that a process receives at once, which limit the buffer; least of one other process */
enum { RECEIVED = 1 << 22, LEAST = 1 << 12 };

static size_t piece_length(const Mesh *mesh) {
    return RECEIVED / mesh->size > LEAST ? (size_t)(RECEIVED / mesh->size / LEAST * LEAST) : LEAST;
}

MeshRange mesh_range(const Mesh *mesh, size_t count, int rank) {
    size_t chunks = (count + MESH_CHUNK - 1) / MESH_CHUNK, size = (size_t)mesh_size(mesh);
    size_t start = chunks * (size_t)rank / size * MESH_CHUNK;
    size_t end = chunks * ((size_t)rank + 1) / size * MESH_CHUNK;
    return (MeshRange){start < count ? start : count, end < count ? end : count};
}

/* The part of a range that is exchanged at once: its elements from `done` on. */
static MeshRange piece_of(MeshRange range, size_t done, size_t piece) {
    size_t start = range.start + done < range.end ? range.start + done : range.end;
    size_t end = start + piece < range.end ? start + piece : range.end;
    return (MeshRange){start, end};
}

static size_t longest_range(const Mesh *mesh, size_t count) {
    size_t longest = 0;
    for (int rank = 0; rank < mesh->size; rank++) {
        MeshRange range = mesh_range(mesh, count, rank);
        if (range.end - range.start > longest) longest = range.end - range.start;
    }
    return longest;
}

static void allocate_received(Mesh *mesh) {
    Device *device = mesh->engine->device;
    mesh->received_bytes = sizeof(float) * piece_length(mesh) * (size_t)mesh->size;
    mesh->received = device->kind->allocate(device, mesh->received_bytes);
    if (!mesh->received) mesh_out_of_memory(mesh, "gradients", mesh->received_bytes);
}

/* Sends each process its piece, and adds those that arrive for the own one. */
static int reduce_piece(Mesh *mesh, float *block, size_t count, size_t done,
                        MeshTransfer *transfers, float **parts) {
    const size_t piece = piece_length(mesh);
    MeshRange own = piece_of(mesh_range(mesh, count, mesh->rank), done, piece);
    size_t length = own.end - own.start;
    int transfer_count = 0;
    for (int rank = 0; rank < mesh->size; rank++) {
        parts[rank] =
            rank == mesh->rank ? block + own.start : mesh->received + (size_t)rank * piece;
        if (rank == mesh->rank) continue;
        MeshRange theirs = piece_of(mesh_range(mesh, count, rank), done, piece);
        transfers[transfer_count++] = (MeshTransfer){rank, 0, parts[rank], length * sizeof(float)};
        transfers[transfer_count++] = (MeshTransfer){rank, 1, block + theirs.start,
                                                     (theirs.end - theirs.start) * sizeof(float)};
    }
    int error = mesh->there->transfer(transfers, transfer_count);
    if (error || !length) return error;
    Engine *engine = mesh->engine;
    if (!engine->device->kind->add_tree(engine, parts, mesh->size, length, block + own.start))
        watch_fail(mesh, held_messages());
    return 0;
}

void mesh_reduce_ranges(Mesh *mesh, const char *name, float *block, size_t count) {
    if (!mesh) return;
    if (!mesh->received) allocate_received(mesh);
    AUTO_FREE MeshTransfer *transfers = memory_new(sizeof *transfers * 2 * (size_t)mesh->size);
    AUTO_FREE float **parts = memory_new(sizeof *parts * (size_t)mesh->size);
    size_t longest = longest_range(mesh, count);
    int error = 0;
    collective_begin(mesh, name);
    for (size_t done = 0; done < longest && !error; done += piece_length(mesh))
        error = reduce_piece(mesh, block, count, done, transfers, parts);
    collective_end(mesh, mesh->there, error);
}

/* Exchanges ranges: each process sends its own one, or those of the others. */
typedef enum Direction { TO_ALL, TO_FIRST, FROM_FIRST } Direction;

static void exchange_ranges(Mesh *mesh, const char *name, float *block, size_t count,
                            Direction direction) {
    AUTO_FREE MeshTransfer *transfers = memory_new(sizeof *transfers * 2 * (size_t)mesh->size);
    int transfer_count = 0;
    for (int rank = 0; rank < mesh->size; rank++) {
        if (rank == mesh->rank || (direction != TO_ALL && rank && mesh->rank)) continue;
        const bool sends = direction == TO_ALL || (direction == TO_FIRST) == (mesh->rank != 0);
        const bool receives = direction == TO_ALL || !sends;
        /* between process 0 and another one, the range of the other */
        MeshRange own = mesh_range(mesh, count, direction == FROM_FIRST ? rank : mesh->rank),
                  theirs = mesh_range(mesh, count, direction == FROM_FIRST ? mesh->rank : rank);
        if (receives)
            transfers[transfer_count++] = (MeshTransfer){
                rank, 0, block + theirs.start, (theirs.end - theirs.start) * sizeof(float)};
        if (sends)
            transfers[transfer_count++] =
                (MeshTransfer){rank, 1, block + own.start, (own.end - own.start) * sizeof(float)};
    }
    const MeshLibrary *library = direction == TO_ALL ? mesh->there : mesh->here;
    collective_begin(mesh, name);
    collective_end(mesh, library, library->transfer(transfers, transfer_count));
}

/* The elements of a part in the range of `sender`, if `receiver` needs them; else none. */
static MeshRange part_in_range(const Mesh *mesh, const MeshPart *part, size_t count, int sender,
                               int receiver) {
    const MeshRange range = mesh_range(mesh, count, sender);
    const size_t start = part->start > range.start ? part->start : range.start,
                 end = part->end < range.end ? part->end : range.end;
    const bool needed = part->member < 0 || part->member == receiver % mesh->dividing;
    return (MeshRange){start, needed && end > start ? end : start};
}

void mesh_gather_parts(Mesh *mesh, const char *name, float *block, size_t count,
                       const MeshPart *parts, int part_count) {
    AUTO_FREE MeshTransfer *transfers =
        memory_new(sizeof *transfers * 2 * (size_t)(mesh->size * part_count));
    int transfer_count = 0;
    for (int rank = 0; rank < mesh->size; rank++)
        for (int i = 0; i < part_count && rank != mesh->rank; i++)
            for (int sends = 0; sends < 2; sends++) {
                const MeshRange part = part_in_range(
                    mesh, &parts[i], count, sends ? mesh->rank : rank, sends ? rank : mesh->rank);
                if (part.end > part.start)
                    transfers[transfer_count++] = (MeshTransfer){
                        rank, sends, block + part.start, (part.end - part.start) * sizeof(float)};
            }
    collective_begin(mesh, name);
    collective_end(mesh, mesh->there, mesh->there->transfer(transfers, transfer_count));
}

void mesh_gather_ranges(Mesh *mesh, const char *name, float *block, size_t count) {
    if (mesh) exchange_ranges(mesh, name, block, count, TO_ALL);
}

void mesh_collect_ranges(Mesh *mesh, const char *name, float *block, size_t count) {
    if (mesh) exchange_ranges(mesh, name, block, count, TO_FIRST);
}

void mesh_scatter_ranges(Mesh *mesh, const char *name, float *block, size_t count) {
    if (mesh) exchange_ranges(mesh, name, block, count, FROM_FIRST);
}

void mesh_sum(Mesh *mesh, const char *name, float *block, size_t count) {
    if (!mesh) return;
    collective_begin(mesh, name);
    collective_end(mesh, mesh->there, mesh->there->sum(block, count));
}
