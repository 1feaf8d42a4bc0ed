/* Rows that processes exchange, with a simulated MPI: a thread is a process. Routers choose experts at random, one expert only,
 * those of the last process only, or leave some without rows. Every row arrives once, in order of key, process and row, and
 * returns; each process sends exactly the rows of other processes' keys. Exchanges that have begun run while the process computes.
 * The buffer of exchanges grows at most 20 times while the rows increase one by one, and uses at most 1.10 times their memory. */
#include "mesh/internal.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PROCESSES = 4, KEYS = 8, PARTS = 2, GROUPS = KEYS * PARTS, ROWS = 50, WIDTH = 3, ALL = ROWS * PROCESSES, WIDE = 1 << 14 };
enum { RANDOM, ONE_EXPERT, LAST_PROCESS, SOME_EMPTY, ROUTERS };

static pthread_barrier_t meeting;
static struct {
    const MeshTransfer *list;
    int count;
} posted[PROCESSES];
static _Thread_local int self;
static _Thread_local size_t sent;
static int router;
static _Atomic int failures, closed; /* closed: transfers wait */

static void check(int condition, const char *text) {
    if (!condition) failures += printf("router %d, process %d: %s\n", router, self, text) > 0;
}

#define CHECK(condition) check(condition, #condition)

/* The transfers between two processes match in order. Each process has some with all others. */
static int exchange_transfers(const MeshTransfer *transfers, int count) {
    int seen[PROCESSES] = {0};
    self = PROCESSES * (PROCESSES - 1) / 2;
    for (int i = 0; i < count; i++)
        if (transfers[i].sends) self -= transfers[i].peer;
    while (closed) usleep(1000);
    posted[self].list = transfers;
    posted[self].count = count;
    pthread_barrier_wait(&meeting);
    for (int i = 0; i < count; i++) {
        const int peer = transfers[i].peer;
        CHECK(peer != self);
        if (transfers[i].sends) {
            sent += transfers[i].length;
            continue;
        }
        int number = seen[peer]++, at = 0;
        for (; at < posted[peer].count; at++)
            if (posted[peer].list[at].sends && posted[peer].list[at].peer == self && number-- == 0) break;
        CHECK(at < posted[peer].count && posted[peer].list[at].length == transfers[i].length);
        if (transfers[i].length) memcpy(transfers[i].bytes, posted[peer].list[at].bytes, transfers[i].length);
    }
    pthread_barrier_wait(&meeting);
    return 0;
}

static int share(const atomic_int *computing) {
    return computing != NULL;
}

static const MeshLibrary simulated = {.abi = MESH_LIBRARY_ABI, .transfer = exchange_transfers, .share = share};

static unsigned draw(unsigned *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 16;
}

/* Boundaries of the groups of a process, by its router. */
static void route_rows(int process, int *group) {
    unsigned state = (unsigned)(process * 77 + router);
    int count[GROUPS] = {0};
    for (int row = 0; row < ROWS; row++) {
        const unsigned any = draw(&state);
        const int key = router == ONE_EXPERT     ? 5
                        : router == LAST_PROCESS ? KEYS - 1 - (int)(any % (KEYS / PROCESSES))
                        : router == SOME_EMPTY   ? (int)(any % 3) * 2 + 1
                                                 : (int)(any % KEYS);
        count[key * PARTS + (int)(draw(&state) % PARTS)]++;
    }
    group[0] = 0;
    for (int g = 0; g < GROUPS; g++) group[g + 1] = group[g] + count[g];
}

/* The received rows are those of the own keys, by key, process, row. */
static void check_received(const float *here, const int *table, const int *group_here, const int *slot, int count) {
    const int own = KEYS / PROCESSES;
    int at = 0;
    for (int key = own * self; key < own * (self + 1); key++)
        for (int sender = 0; sender < PROCESSES; sender++)
            for (int part = key * PARTS; part < (key + 1) * PARTS; part++) {
                const int *bounds = table + sender * (GROUPS + 1) + part;
                for (int row = bounds[0]; row < bounds[1]; row++, at++) {
                    CHECK(at < count && here[at * WIDTH] == (float)(sender * ROWS + row));
                    CHECK(group_here[at] == part);
                    CHECK(slot[at] == (key - own * self) * PROCESSES + sender);
                }
            }
    CHECK(at == count);
}

/* Two dispatches run at the same time. Nothing arrives before the transfers are permitted, which a process does after it has begun
 * both; without a thread, the first begin would never return. */
static void overlap_dispatches(Mesh *mesh, const MoecExchange *exchange, const float *rows, const int *table, const float *expected,
                               size_t bytes) {
    float *here[2];
    const MoecExchange exchanges[2] = {*exchange, *exchange};
    const int own = self;
    if (self == 0) closed = !getenv("MOEC_MESH_OVERLAP");
    pthread_barrier_wait(&meeting);
    for (int i = 0; i < 2; i++) {
        here[i] = calloc(1, bytes);
        mesh_exchange_begin(mesh, &exchanges[i], rows, table, (void *const[]){here[i]});
    }
    self = own;
    for (size_t k = 0; k < bytes / sizeof(float) && closed; k++) CHECK(here[0][k] == 0 && here[1][k] == 0);
    pthread_barrier_wait(&meeting);
    closed = 0;
    for (int i = 0; i < 2; i++) {
        mesh_exchange_end(mesh, &exchanges[i]);
        CHECK(!memcmp(here[i], expected, bytes));
        free(here[i]);
    }
}

static void *run_process(void *number) {
    self = (int)(long)number;
    Mesh mesh = {.here = &simulated, .there = &simulated, .rank = self, .size = PROCESSES};
    int group[GROUPS + 1], table[PROCESSES * (GROUPS + 1)], group_here[ALL], first[GROUPS + 1], slot[ALL];
    float rows[ROWS * WIDTH], back[ROWS * WIDTH];
    static _Thread_local float here[ALL * WIDTH];
    mesh_set_groups(&mesh, PROCESSES, 1);
    route_rows(self, group);
    for (int i = 0; i < ROWS * WIDTH; i++) rows[i] = (float)(self * ROWS + i / WIDTH);
    MoecExchange exchange = {.kind = MOEC_EXCHANGE_COUNTS, .name = "counts", .groups = GROUPS, .keys = KEYS, .rows = ALL, .size = WIDTH};
    mesh_exchange(&mesh, &exchange, group, NULL, (void *const[]){table, group_here, first, slot});
    CHECK(sent == sizeof group * (PROCESSES - 1));
    const int own = GROUPS / PROCESSES, kept = group[(self + 1) * own] - group[self * own];
    int arrived = 0;
    for (int sender = 0; sender < PROCESSES; sender++)
        arrived += table[sender * (GROUPS + 1) + (self + 1) * own] - table[sender * (GROUPS + 1) + self * own];
    CHECK(first[GROUPS] == arrived);
    sent = 0;
    exchange.kind = MOEC_EXCHANGE_DISPATCH;
    mesh_exchange(&mesh, &exchange, rows, table, (void *const[]){here});
    CHECK(sent == (size_t)(ROWS - kept) * WIDTH * sizeof(float));
    check_received(here, table, group_here, slot, arrived);
    sent = 0;
    exchange.kind = MOEC_EXCHANGE_COMBINE;
    mesh_exchange(&mesh, &exchange, here, table, (void *const[]){back});
    CHECK(sent == (size_t)(arrived - kept) * WIDTH * sizeof(float));
    CHECK(!memcmp(rows, back, sizeof rows));
    exchange.kind = MOEC_EXCHANGE_DISPATCH;
    overlap_dispatches(&mesh, &exchange, rows, table, here, (size_t)arrived * WIDTH * sizeof(float));
    mesh_exchanges_end(&mesh);
    free(mesh.staged);
    return NULL;
}

/* Transfers without an effect. */
static int ignore_transfers(const MeshTransfer *transfers, int count) {
    (void)transfers;
    (void)count;
    return 0;
}

/* Bytes of the pages of a block that have memory. */
static size_t resident(const unsigned char *block, size_t bytes) {
    static unsigned char pages[ALL * WIDE * sizeof(float) / 1024];
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), before = (uintptr_t)block % page, count = (before + bytes + page - 1) / page;
    size_t used = 0;
    CHECK(count <= sizeof pages && !mincore((void *)(uintptr_t)(block - before), before + bytes, pages));
    for (size_t i = 0; i < count; i++) used += (pages[i] & 1) * page;
    return used;
}

/* Process 1 sends from one row to all of them. The part of the buffer without rows has no memory. */
static void increase_rows(void) {
    static const MeshLibrary ignoring = {.abi = MESH_LIBRARY_ABI, .transfer = ignore_transfers};
    static float here[ALL * WIDE];
    Mesh mesh = {.here = &ignoring, .there = &ignoring, .size = PROCESSES};
    const MoecExchange exchange = {.kind = MOEC_EXCHANGE_DISPATCH, .name = "dispatch", .groups = GROUPS, .keys = KEYS, .rows = ALL, .size = WIDE};
    const size_t small = 128 << 10; /* blocks below it can be memory that was used before */
    int table[PROCESSES * (GROUPS + 1)] = {0};
    float rows[1] = {0};
    mesh_set_groups(&mesh, PROCESSES, 1);
    for (int count = 1; count <= ALL; count++) {
        const size_t bytes = (size_t)count * WIDE * sizeof(float);
        for (int g = 1; g <= GROUPS; g++) table[GROUPS + 1 + g] = count;
        mesh_exchange(&mesh, &exchange, rows, table, (void *const[]){here});
        CHECK(mesh.staged_bytes >= bytes);
        CHECK(10 * resident(mesh.staged, mesh.staged_bytes) <= 11 * bytes + 10 * small);
    }
    CHECK(mesh.growths > 0 && mesh.growths <= 20);
    free(mesh.staged);
}

int main(void) {
    pthread_t threads[PROCESSES];
    pthread_barrier_init(&meeting, NULL, PROCESSES);
    alarm(60);
    for (int run = 0; run < 2 * ROUTERS; run++) {
        router = run % ROUTERS;
        if (run == ROUTERS) setenv("MOEC_MESH_OVERLAP", "off", 1);
        for (long i = 0; i < PROCESSES; i++) pthread_create(&threads[i], NULL, run_process, (void *)i);
        for (int i = 0; i < PROCESSES; i++) pthread_join(threads[i], NULL);
    }
    increase_rows();
    if (!failures) printf("%d routers: every row arrived and returned\n", ROUTERS);
    return failures != 0;
}
