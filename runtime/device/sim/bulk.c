/* bulk: asynchronous copies of tensor boxes to shared memory, and arrivals (mbarriers) that signal
 * their completion.
 *
 * A tensor map is an opaque object of 128 bytes; here SimMap. A box arrives when a thread waits for
 * it, as late as the hardware allows. A thread may access it only after it has waited, or after a
 * barrier with a thread that has waited (check.c). */
#include "block.h"

#include <stdio.h>
#include <string.h>

enum {
    MAP_BYTES = 128,
    MAP_ALIGN = 64,
    MAP_RANK = 5,
    MAP_MARK = 0x424f5845,
    BOX_LIMIT = 16, /* boxes in flight per arrivals object */
    BOX_SIDE = 256, /* maximum, in elements */
    LINE_LIMIT = BOX_SIDE * 8,
    VECTOR = 16,
    LINE_ALIGN = 128 /* alignment of a box in bytes */
};

typedef struct SimMap {
    uint32_t mark;
    uint8_t rank, element, width, unused; /* width: number of permuted 16-byte vectors per line */
    const unsigned char *address;
    uint64_t strides[MAP_RANK - 1]; /* bytes */
    uint32_t last[MAP_RANK];        /* sizes minus 1 */
    uint16_t box[MAP_RANK];
} SimMap;
_Static_assert(sizeof(SimMap) <= MAP_BYTES, "a tensor map has 128 bytes");

typedef struct Box {
    unsigned char *to;
    SimMap map;
    int at[MAP_RANK];
} Box;

typedef struct Arrivals {
    const uint64_t *at; /* NULL: unused */
    int count, missing; /* threads */
    unsigned phase;
    long expected, asked; /* bytes of this phase */
    Box boxes[BOX_LIMIT];
    int box_count;
    uint32_t delivered;     /* number of the last delivery */
    uint32_t epoch, fences; /* values at initialization */
    int beginner;
} Arrivals;

static Arrivals all[ARRIVALS_LIMIT];
static int count; /* used entries of `all` in this block */
static uint32_t deliveries;

#define HERE __builtin_return_address(0)

static void refuse_box(const void *caller, const char *what) {
    check_report(NULL, 0, caller, "%s", what);
    block_fail();
}

/* ---- tensor maps ---- */

static bool map_is_sound(const SimMap *map, const uint64_t *sizes, const uint32_t *steps) {
    size_t line = (size_t)map->box[0] * map->element;
    bool sound = (uintptr_t)map->address % VECTOR == 0 && line % VECTOR == 0 &&
                 (map->width == 1 || line <= (size_t)map->width * VECTOR);
    for (int i = 0; i < map->rank; i++)
        sound = sound && sizes[i] && sizes[i] <= 1ull << 32 && map->box[i] &&
                map->box[i] <= BOX_SIDE && steps[i] == 1;
    for (int i = 0; i < map->rank - 1; i++)
        sound = sound && map->strides[i] % VECTOR == 0 && map->strides[i] < 1ull << 40;
    return sound;
}

#pragma GCC visibility push(default)
int cuTensorMapEncodeTiled(void *made, int type, unsigned rank, const void *address,
                           const uint64_t *sizes, const uint64_t *strides, const uint32_t *box,
                           const uint32_t *steps, int interleave, int swizzle, int promotion,
                           int fill);
#pragma GCC visibility pop

/* Element strides, interleaved layouts and fill values other than 0 are not simulated. */
int cuTensorMapEncodeTiled(void *made, int type, unsigned rank, const void *address,
                           const uint64_t *sizes, const uint64_t *strides, const uint32_t *box,
                           const uint32_t *steps, int interleave, int swizzle, int promotion,
                           int fill) {
    enum { GOOD = 0, INVALID_VALUE = 1 };
    static const uint8_t elements[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2}; /* by type; 9: bf16 */
    static const uint8_t widths[] = {1, 2, 4, 8};
    (void)promotion;
    if ((uintptr_t)made % MAP_ALIGN || type < 0 || type >= (int)sizeof elements || rank < 1 ||
        rank > MAP_RANK || interleave || fill || swizzle < 0 || swizzle >= (int)sizeof widths)
        return INVALID_VALUE;
    SimMap map = {.mark = MAP_MARK,
                  .rank = (uint8_t)rank,
                  .element = elements[type],
                  .width = widths[swizzle],
                  .address = address};
    for (unsigned i = 0; i < rank; i++) {
        map.last[i] = (uint32_t)(sizes[i] - 1);
        map.box[i] = box[i] <= BOX_SIDE ? (uint16_t)box[i] : 0;
        if (i + 1 < rank) map.strides[i] = strides[i];
    }
    if (!map_is_sound(&map, sizes, steps)) return INVALID_VALUE;
    memset(made, 0, MAP_BYTES);
    memcpy(made, &map, sizeof map);
    return GOOD;
}

/* ---- boxes ---- */

static size_t line_bytes(const SimMap *map) {
    return (size_t)map->box[0] * map->element;
}

static int line_count(const SimMap *map) {
    int lines = 1;
    for (int i = 1; i < map->rank; i++) lines *= map->box[i];
    return lines;
}

/* Source of one line of a box: `bytes` bytes, starting `before` bytes after its beginning. The rest
 * of the line is outside the tensor. */
static const unsigned char *source(const Box *box, int line, size_t *before, size_t *bytes) {
    const SimMap *map = &box->map;
    const unsigned char *at = map->address;
    int64_t size = (int64_t)map->last[0] + 1, from = box->at[0], to = from + map->box[0];
    bool inside = true;
    for (int i = 1; i < map->rank; i++) {
        int64_t place = box->at[i] + line % map->box[i];
        inside = inside && place >= 0 && place <= (int64_t)map->last[i];
        at += inside ? (uint64_t)place * map->strides[i - 1] : 0;
        line /= map->box[i];
    }
    int64_t first = from < 0 ? 0 : from, end = to > size ? size : to;
    *bytes = inside && first < end ? (size_t)(end - first) * map->element : 0;
    *before = *bytes ? (size_t)(first - from) * map->element : 0;
    return *bytes ? at + (size_t)first * map->element : at;
}

/* Address of byte `byte` of a box: 16-byte vectors are permuted by the address bits above them. */
static unsigned char *shared_address(const Box *box, size_t byte) {
    size_t at = (size_t)(box->to - sim_now.shared) + byte;
    return sim_now.shared + (at ^ (at >> 7 & (box->map.width - 1u)) << 4);
}

static void deliver_line(const Box *box, int line) {
    unsigned char elements[LINE_LIMIT] = {0};
    size_t before, bytes, length = line_bytes(&box->map);
    const unsigned char *from = source(box, line, &before, &bytes);
    if (bytes) memcpy(elements + before, from, bytes);
    for (size_t i = 0; i < length; i += VECTOR)
        memcpy(shared_address(box, (size_t)line * length + i), elements + i, VECTOR);
}

static size_t box_bytes(const Box *box) {
    return line_bytes(&box->map) * (size_t)line_count(&box->map);
}

static void deliver(Arrivals *arrivals) {
    arrivals->delivered = ++deliveries;
    for (int i = 0; i < arrivals->box_count; i++) {
        const Box *box = &arrivals->boxes[i];
        for (int line = 0; line < line_count(&box->map); line++) deliver_line(box, line);
        check_arrived(box->to, box_bytes(box), (int)(arrivals - all), arrivals->delivered);
    }
    arrivals->phase++;
    arrivals->missing = arrivals->count;
    arrivals->expected = arrivals->asked = arrivals->box_count = 0;
}

/* ---- arrivals ---- */

static Arrivals *find_arrivals(const uint64_t *at) {
    for (int i = 0; i < count; i++)
        if (all[i].at == at) return &all[i];
    return NULL;
}

static Arrivals *known(const uint64_t *at, const void *caller) {
    Arrivals *arrivals = find_arrivals(at);
    if (!arrivals) refuse_box(caller, "arrivals used before initialization");
    if (arrivals->epoch == sim_now.epoch && arrivals->beginner != sim_now.thread->number)
        refuse_box(caller,
                   "arrivals used without a barrier after their initialization by another thread");
    return arrivals;
}

void sim_arrivals_begin(uint64_t *at, int threads) {
    if (!check_shared(at, sizeof *at) || (uintptr_t)at % sizeof *at)
        refuse_box(HERE, "arrivals are not at a multiple of 8 bytes in shared memory");
    if (find_arrivals(at)) refuse_box(HERE, "arrivals initialized twice");
    int place = 0;
    while (place < count && all[place].at) place++;
    if (place == ARRIVALS_LIMIT) refuse_box(HERE, "too many arrivals");
    if (place == count) count++;
    all[place] = (Arrivals){.at = at,
                            .count = threads,
                            .missing = threads,
                            .delivered = all[place].delivered,
                            .epoch = sim_now.epoch,
                            .fences = sim_now.fences,
                            .beginner = sim_now.thread->number};
}

void sim_arrivals_end(uint64_t *at) {
    Arrivals *arrivals = known(at, HERE);
    int threads;
    const Thread *thread = block_threads(&threads);
    if (arrivals->box_count) refuse_box(HERE, "arrivals invalidated with boxes in flight");
    for (int i = 0; i < threads; i++)
        if (thread[i].state == THREAD_AT_ARRIVALS && &all[thread[i].awaited] == arrivals)
            refuse_box(HERE, "arrivals invalidated during the wait of another thread");
    arrivals->at = NULL;
}

void sim_arrivals_expect(uint64_t *at, int bytes) {
    known(at, HERE)->expected += bytes;
}

void sim_arrivals_arrive(uint64_t *at) {
    Arrivals *arrivals = known(at, HERE);
    if (arrivals->missing == 0) refuse_box(HERE, "more threads arrive than the phase expects");
    arrivals->missing--;
}

bool bulk_arrived(Thread *thread) {
    Arrivals *arrivals = &all[thread->awaited];
    if (arrivals->missing == 0 && arrivals->expected == arrivals->asked) deliver(arrivals);
    if ((arrivals->phase & 1) == thread->awaited_phase) return false;
    thread->seen[thread->awaited] = arrivals->delivered;
    return true;
}

void sim_arrivals_wait(uint64_t *at, unsigned phase) {
    Thread *thread = sim_now.thread;
    thread->waiter = HERE;
    thread->awaited = (int)(known(at, HERE) - all);
    thread->awaited_phase = phase;
    if (!bulk_arrived(thread)) block_rest(THREAD_AT_ARRIVALS);
}

void sim_copy_box(void *to, const void *from, const int *at, int rank, uint64_t *where) {
    Arrivals *arrivals = known(where, HERE);
    Box box = {.to = to};
    memcpy(&box.map, from, sizeof box.map);
    if (box.map.mark != MAP_MARK || (uintptr_t)from % MAP_ALIGN)
        refuse_box(HERE, "box copy with an invalid tensor map");
    if (box.map.rank != rank) refuse_box(HERE, "box copy with the wrong rank");
    if (arrivals->fences >= sim_now.fenced[arrivals->beginner])
        refuse_box(HERE, "box copy with arrivals that were initialized without a fence");
    if ((uintptr_t)to % LINE_ALIGN)
        refuse_box(HERE, "destination of a box copy is not a multiple of 128 bytes");
    if (arrivals->box_count == BOX_LIMIT) refuse_box(HERE, "too many boxes in flight");
    memcpy(box.at, at, sizeof *at * (size_t)rank);
    for (int line = 0; line < line_count(&box.map); line++) {
        size_t before, bytes;
        const unsigned char *elements = source(&box, line, &before, &bytes);
        if (bytes && !memory_holds(elements, bytes))
            refuse_box(HERE, "box copy reads outside of device memory");
    }
    const char *wrong = check_box(to, box_bytes(&box));
    if (wrong) refuse_box(HERE, wrong);
    arrivals->boxes[arrivals->box_count++] = box;
    arrivals->asked += (long)box_bytes(&box);
}

/* ---- the block ---- */

void bulk_begin(void) {
    for (int i = 0; i < count; i++) all[i].at = NULL;
    count = 0;
}

bool bulk_over(void) {
    for (int i = 0; i < count; i++) {
        if (!all[i].box_count) continue;
        check_report("the kernel ends with boxes in flight", 0, NULL,
                     "the kernel ends with boxes on their way");
        return false;
    }
    return true;
}

bool bulk_seen(const Thread *thread, int arrivals, uint32_t number) {
    return thread->seen[arrivals] >= number;
}

void bulk_share(void) {
    int threads;
    Thread *thread = block_threads(&threads);
    for (int i = 0; i < count; i++) {
        uint32_t last = 0;
        for (int j = 0; j < threads; j++)
            if (thread[j].seen[i] > last) last = thread[j].seen[i];
        for (int j = 0; j < threads; j++) thread[j].seen[i] = last;
    }
}

void bulk_report(const Thread *thread) {
    const Arrivals *arrivals = &all[thread->awaited];
    check_report(NULL, 0, thread->waiter,
                 "wait for a phase that never ends: %d threads have not arrived, %ld bytes "
                 "expected, %ld bytes requested",
                 arrivals->missing, arrivals->expected, arrivals->asked);
}
