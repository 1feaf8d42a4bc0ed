/* mesh_exchange: the exchanges of a program of a mesh: see MoecExchange. */
#include "mesh/internal.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { ELEMENT = 4 };

GroupTransfers begin_group(Mesh *mesh, int size, const char *name) {
    const int first = mesh->rank / size * size;
    collective_begin(mesh, name);
    return (GroupTransfers){.mesh = mesh,
                            .first = first,
                            .count = size,
                            .own = mesh->rank - first,
                            .list = memory_new(sizeof(MeshTransfer) * 2 * (size_t)size)};
}

void add_transfer(GroupTransfers *group, int member, bool sends, const void *bytes, size_t length) {
    if (member == group->own) return;
    group->list[group->length++] =
        (MeshTransfer){group->first + member, sends, (void *)(uintptr_t)bytes, length};
}

static void run_group(GroupTransfers *group, const MeshLibrary *library) {
    collective_end(group->mesh, library, library->transfer(group->list, group->length));
    free(group->list);
}

/* A buffer that is kept until the end. It doubles, so that it grows seldom; the part without rows
 * uses no memory, because the system allocates pages at first access. */
static unsigned char *staging(Mesh *mesh, size_t bytes) {
    if (bytes > mesh->staged_bytes) {
        free(mesh->staged);
        mesh->staged_bytes = 2 * bytes;
        mesh->staged = memory_new(mesh->staged_bytes);
        mesh->growths++;
    }
    return mesh->staged;
}

/* ---- sums and gathers ---- */

static unsigned char *gather_group(Mesh *mesh, const MoecExchange *exchange, const void *from,
                                   size_t bytes) {
    GroupTransfers group = begin_group(mesh, mesh->sharing, exchange->name);
    unsigned char *all = staging(mesh, bytes * (size_t)group.count);
    memcpy(all + bytes * (size_t)group.own, from, bytes);
    for (int i = 0; i < group.count; i++) {
        add_transfer(&group, i, true, from, bytes);
        add_transfer(&group, i, false, all + bytes * (size_t)i, bytes);
    }
    run_group(&group, mesh->here);
    return all;
}

static float reduce_pair(MoecExchangeKind kind, float a, float b) {
    if (kind == MOEC_EXCHANGE_SUM) return a + b;
    return kind == MOEC_EXCHANGE_MAX ? (a >= b ? a : b) : (a <= b ? a : b);
}

/* As a tree in order of the processes, as in reduce.c. */
static void reduce_group(Mesh *mesh, const MoecExchange *exchange, const float *from, float *to) {
    const size_t size = (size_t)exchange->size;
    float *all = (float *)(void *)gather_group(mesh, exchange, from, size * ELEMENT);
    for (int apart = 1; apart < mesh->sharing; apart *= 2)
        for (int i = 0; i + apart < mesh->sharing; i += 2 * apart)
            for (size_t k = 0; k < size; k++) {
                float *left = all + (size_t)i * size + k;
                *left = reduce_pair(exchange->kind, *left, all[(size_t)(i + apart) * size + k]);
            }
    memcpy(to, all, size * ELEMENT);
}

static void gather_dimension(Mesh *mesh, const MoecExchange *exchange, const void *from,
                             unsigned char *to) {
    const size_t piece = (size_t)(exchange->size * exchange->inner) * ELEMENT,
                 outer = (size_t)exchange->outer, count = (size_t)mesh->sharing;
    const unsigned char *all = gather_group(mesh, exchange, from, piece * outer);
    for (size_t i = 0; i < outer; i++)
        for (size_t rank = 0; rank < count; rank++)
            memcpy(to + (i * count + rank) * piece, all + (rank * outer + i) * piece, piece);
}

/* ---- rows ---- */

static void describe_row(const MoecExchange *exchange, int row, long group, long slot,
                         int *const *to) {
    to[EXCHANGE_GROUP][row] = (int)group;
    to[EXCHANGE_SLOT][row] = (int)slot;
    for (int i = exchange->key_count - 1; i >= 0; i--) {
        to[EXCHANGE_KEYS + i][row] = (int)(group % exchange->key_sizes[i]);
        group /= exchange->key_sizes[i];
    }
}

/* Sets the results about the received rows, from the table. */
static void describe_received(const GroupTransfers *group, const MoecExchange *exchange,
                              const int *table, int *const *to) {
    const long keys = exchange->keys, own = keys / group->count, parts = exchange->groups / keys;
    int row = 0;
    for (long slot = 0; slot < keys; slot++) {
        const long key = own * group->own + slot / group->count;
        const int *bounds = table + slot % group->count * (exchange->groups + 1) + key * parts;
        for (long part = 0; part < parts; part++) {
            to[EXCHANGE_FIRST][slot * parts + part] = row;
            for (int r = bounds[part]; r < bounds[part + 1]; r++)
                describe_row(exchange, row++, key * parts + part, slot, to);
        }
    }
    to[EXCHANGE_FIRST][exchange->groups] = row;
}

long rows_arriving(const GroupTransfers *group, const MoecExchange *exchange, const int *table) {
    if (exchange->each) return exchange->each * group->count;
    const long width = exchange->groups / group->count;
    long rows = 0;
    for (int sender = 0; sender < group->count; sender++) {
        const int *bounds = table + sender * (exchange->groups + 1) + group->own * width;
        rows += bounds[width] - bounds[0];
    }
    return rows;
}

static void exchange_counts(Mesh *mesh, const MoecExchange *exchange, const void *from,
                            int *const *to) {
    GroupTransfers group = begin_group(mesh, mesh->dividing, exchange->name);
    const size_t length = (size_t)(exchange->groups + 1), bytes = length * sizeof(int);
    int *table = to[EXCHANGE_TABLE];
    memcpy(table + (size_t)group.own * length, from, bytes);
    for (int i = 0; i < group.count; i++) {
        add_transfer(&group, i, true, from, bytes);
        add_transfer(&group, i, false, table + (size_t)i * length, bytes);
    }
    run_group(&group, mesh->here);
    const long rows = rows_arriving(&group, exchange, table);
    if (rows > exchange->rows) mesh_rows_exceeded(mesh, exchange->name, rows, exchange->rows);
    describe_received(&group, exchange, table, to);
}

/* The rows that a process has for another one are adjacent in its own order. In that of the
 * receiver they are in pieces, one for each key; `back`: copied from there into the buffer, else
 * from the buffer. */
static void copy_pieces(const GroupTransfers *group, const MoecExchange *exchange, const int *table,
                        unsigned char *here, unsigned char *const *buffers, bool back) {
    const long own = exchange->keys / group->count, of_key = exchange->groups / exchange->keys;
    const size_t width = (size_t)exchange->size * ELEMENT;
    for (long key = own * group->own; key < own * (group->own + 1); key++)
        for (int sender = 0; sender < group->count; sender++) {
            const int *all = table + sender * (exchange->groups + 1), *bounds = all + key * of_key;
            const size_t count = (size_t)(bounds[of_key] - bounds[0]) * width;
            unsigned char *piece =
                buffers[sender] + (size_t)(bounds[0] - all[own * group->own * of_key]) * width;
            memcpy(back ? piece : here, back ? here : piece, count);
            here += count;
        }
}

/* The rows of process `member` for this one in its own order. */
static unsigned char *rows_for(const GroupTransfers *group, const MoecExchange *exchange,
                               const int *table, int from, int to, unsigned char *rows,
                               size_t *bytes) {
    const size_t width = (size_t)exchange->size * ELEMENT;
    long first = exchange->each * to, end = first + exchange->each;
    if (!exchange->each) {
        const long share = exchange->groups / group->count;
        const int *bounds = table + from * (exchange->groups + 1) + to * share;
        first = bounds[0];
        end = bounds[share];
    }
    *bytes = (size_t)(end - first) * width;
    return rows ? rows + (size_t)first * width : NULL;
}

void add_row_transfers(GroupTransfers *group, const MoecExchange *exchange, const int *table,
                       unsigned char *rows, unsigned char *staged, bool back) {
    for (int i = 0; i < group->count; i++) {
        size_t leave, arrive;
        const unsigned char *own = rows_for(group, exchange, table, group->own, i, rows, &leave);
        rows_for(group, exchange, table, i, group->own, NULL, &arrive);
        add_transfer(group, i, !back, own, leave);
        add_transfer(group, i, back, staged, arrive);
        staged += i == group->own ? 0 : arrive;
    }
}

/* dispatch: `rows` are sent, else received. */
static void exchange_rows(Mesh *mesh, const MoecExchange *exchange, const int *table,
                          unsigned char *rows, unsigned char *here) {
    GroupTransfers group = begin_group(mesh, mesh->dividing, exchange->name);
    const bool back = exchange->kind == MOEC_EXCHANGE_COMBINE;
    const size_t width = (size_t)exchange->size * ELEMENT;
    unsigned char *at = staging(mesh, (size_t)rows_arriving(&group, exchange, table) * width);
    AUTO_FREE unsigned char **buffers = memory_new(sizeof *buffers * (size_t)group.count);
    add_row_transfers(&group, exchange, table, rows, at, back);
    for (int i = 0; i < group.count; i++) {
        size_t bytes;
        unsigned char *own = rows_for(&group, exchange, table, i, group.own, rows, &bytes);
        buffers[i] = i == group.own ? own : at;
        at += i == group.own ? 0 : bytes;
    }
    if (back) copy_pieces(&group, exchange, table, here, buffers, true);
    run_group(&group, mesh->here);
    if (!back) copy_pieces(&group, exchange, table, here, buffers, false);
}

int exchange_results(const MoecExchange *exchange) {
    return exchange->kind == MOEC_EXCHANGE_COUNTS ? EXCHANGE_KEYS + exchange->key_count : 1;
}

void mesh_exchange(Mesh *mesh, const MoecExchange *exchange, const void *from, const int *table,
                   void *const *to) {
    void *mutable = (void *)(uintptr_t)from;
    int *counts[MOEC_EXCHANGE_RESULTS];
    switch (exchange->kind) {
    case MOEC_EXCHANGE_SUM:
    case MOEC_EXCHANGE_MAX:
    case MOEC_EXCHANGE_MIN:
        reduce_group(mesh, exchange, from, to[0]);
        break;
    case MOEC_EXCHANGE_GATHER:
        gather_dimension(mesh, exchange, from, to[0]);
        break;
    case MOEC_EXCHANGE_COUNTS:
        for (int i = 0; i < exchange_results(exchange); i++) counts[i] = to[i];
        exchange_counts(mesh, exchange, from, counts);
        break;
    case MOEC_EXCHANGE_DISPATCH:
        exchange_rows(mesh, exchange, table, mutable, to[0]);
        break;
    case MOEC_EXCHANGE_COMBINE:
        exchange_rows(mesh, exchange, table, to[0], mutable);
        break;
    }
}

/* ---- slots of gradients ---- */

/* Memory of the device for `bytes`, which is kept. */
static float *slots_memory(Mesh *mesh, const char *name, size_t bytes) {
    Device *device = mesh->engine->device;
    if (bytes <= mesh->slots_bytes) return mesh->slots;
    if (mesh->slots) device->kind->release(device, mesh->slots, mesh->slots_bytes);
    mesh->slots = device->kind->allocate(device, bytes);
    mesh->slots_bytes = bytes;
    if (!mesh->slots) mesh_out_of_memory(mesh, name, bytes);
    return mesh->slots;
}

void mesh_return_slots(Mesh *mesh, const char *name, float *block, long outer, long keys,
                       long inner) {
    Device *device = mesh->engine->device;
    const long members = mesh->dividing, own = keys / members;
    const size_t bytes = (size_t)inner * sizeof *block;
    float *made = slots_memory(mesh, name, (size_t)keys * bytes);
    bool good = true;
    for (long i = 0; i < outer && good; i++, block += keys * inner) {
        GroupTransfers group = begin_group(mesh, (int)members, name);
        group.list = memory_grow(group.list, sizeof *group.list * 2 * (size_t)(keys + 1));
        for (long key = 0; key < own; key++)
            for (int member = 0; member < members; member++) {
                float *to = made + (member * own + key) * inner;
                const float *slot = block + (key * members + member) * inner;
                if (member == group.own) good &= device->kind->copy(device, to, slot, bytes);
                add_transfer(&group, member, true, slot, bytes);
                add_transfer(&group, member, false, to, bytes);
            }
        run_group(&group, mesh->there);
        good &= device->kind->copy(device, block, made, (size_t)keys * bytes);
    }
    if (!good) watch_fail(mesh, held_messages());
}
