/* offsets: assigns an offset in one block to the memory of every temporary.
 *
 * Needs:   lifetimes and sizes of allocations, see plan.c.
 * Leaves:  offsets; simultaneously live tensors do not overlap.
 *
 * Each tensor gets the lowest offset that does not make the block larger than necessary. The rows
 * that a process of a mesh receives have memory for the rows of all processes, of which few arrive,
 * and the system allocates pages at their first access. The offset of a tensor is therefore the one
 * at which it accesses the fewest bytes that no other tensor accesses. Large tensors come first. In
 * such a program, other orders are tried until little more is accessed than is live at once.
 */
#include "schedule/kernel.h"
#include "base/must.h"

#include <stdint.h>
#include <stdlib.h>

enum { ALIGNMENT = 64 };

size_t align_offset(size_t offset) {
    return (offset + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

typedef struct TouchedRange {
    size_t start, end;
} TouchedRange;

typedef struct Placing {
    Allocation **placed; /* with an offset, in this order */
    int count;
    TouchedRange *touched; /* disjoint and ascending: the bytes that they access */
    int touched_count;
    size_t end;
} Placing;

/* ---- touched bytes ---- */

static size_t touched_parts(const Allocation *allocation) {
    return allocation->bytes / allocation->part;
}

static int by_start(const void *a, const void *b) {
    const TouchedRange *one = a, *other = b;
    return (one->start > other->start) - (one->start < other->start);
}

/* Joins ranges that overlap or are adjacent; returns their number. */
static int join_ranges(TouchedRange *ranges, int count) {
    int last = 0;
    qsort(ranges, (size_t)count, sizeof *ranges, by_start);
    for (int i = 1; i < count; i++) {
        if (ranges[i].start > ranges[last].end)
            ranges[++last] = ranges[i];
        else if (ranges[i].end > ranges[last].end)
            ranges[last].end = ranges[i].end;
    }
    return count ? last + 1 : 0;
}

/* Adds the ranges of an allocation; returns the new number. */
static int add_ranges(const Allocation *allocation, TouchedRange *ranges, int count) {
    for (size_t i = 0; i < touched_parts(allocation); i++) {
        const size_t start = allocation->offset + i * allocation->part;
        ranges[count++] = (TouchedRange){start, start + allocation->touched};
    }
    return count;
}

/* Memory for the ranges of all allocations. */
static TouchedRange *ranges_new(const Schedule *schedule) {
    size_t count = 1;
    for (int i = 0; i < schedule->program->tensors.count; i++) {
        const Allocation *allocation = &schedule->allocations[i];
        if (allocation->bytes) count += touched_parts(allocation);
    }
    return arena_alloc(schedule->program->arena, count * sizeof(TouchedRange));
}

double touched_bytes(const Schedule *schedule, int first, int last) {
    TouchedRange *ranges = ranges_new(schedule);
    int count = 0;
    double bytes = 0;
    for (int i = 0; i < schedule->program->tensors.count; i++) {
        const Allocation *allocation = &schedule->allocations[i];
        if (allocation->bytes && allocation->first <= last && allocation->last >= first)
            count = add_ranges(allocation, ranges, count);
    }
    count = join_ranges(ranges, count);
    for (int i = 0; i < count; i++) bytes += (double)(ranges[i].end - ranges[i].start);
    return bytes;
}

/* ---- offsets ---- */

/* A possible offset of an allocation. */
typedef struct OffsetChoice {
    size_t offset, added, end; /* bytes that only it touches; end of the block */
} OffsetChoice;

/* Index of the first of the ranges that ends after the offset. */
static int first_after(const Placing *placing, size_t offset) {
    int low = 0, high = placing->touched_count;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (placing->touched[middle].end > offset)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Bytes from start to end that are in none of the ranges. */
static size_t bytes_outside(const Placing *placing, size_t start, size_t end) {
    size_t bytes = end - start;
    for (int i = first_after(placing, start); i < placing->touched_count; i++) {
        const TouchedRange *other = &placing->touched[i];
        if (other->start >= end) break;
        bytes -=
            (other->end < end ? other->end : end) - (other->start > start ? other->start : start);
    }
    return bytes;
}

static size_t added_bytes(const Placing *placing, const Allocation *allocation, size_t offset) {
    size_t bytes = 0;
    for (size_t i = 0; i < touched_parts(allocation); i++) {
        const size_t start = offset + i * allocation->part;
        bytes += bytes_outside(placing, start, start + allocation->touched);
    }
    return bytes;
}

static void try_offset(const Placing *placing, const Allocation *allocation, size_t offset,
                       OffsetChoice *best) {
    const size_t end = offset + allocation->bytes;
    const OffsetChoice other = {offset, added_bytes(placing, allocation, offset),
                                end > placing->end ? end : placing->end};
    if (other.added < best->added || (other.added == best->added && other.end < best->end))
        *best = other;
}

/* The start of a gap, and offsets at which the first part ends with accessed bytes. */
static void try_gap(const Placing *placing, const Allocation *allocation, TouchedRange gap,
                    OffsetChoice *best) {
    if (gap.end < gap.start || gap.end - gap.start < allocation->bytes) return;
    try_offset(placing, allocation, gap.start, best);
    const size_t least = gap.start + allocation->touched;
    for (int i = first_after(placing, least ? least - 1 : 0); i < placing->touched_count; i++) {
        const size_t offset = align_offset(placing->touched[i].end - allocation->touched);
        if (offset > gap.end - allocation->bytes) break;
        try_offset(placing, allocation, offset, best);
    }
}

static bool lives_with(const Allocation *a, const Allocation *b) {
    return a->first <= b->last && b->first <= a->last;
}

/* Between the allocations that live at the same time. */
static size_t find_offset(const Placing *placing, const Allocation *allocation) {
    OffsetChoice best = {0, SIZE_MAX, SIZE_MAX};
    size_t start = 0;
    for (int i = 0; i < placing->count; i++) {
        const Allocation *other = placing->placed[i];
        if (!lives_with(allocation, other)) continue;
        try_gap(placing, allocation, (TouchedRange){start, other->offset}, &best);
        const size_t end = other->offset + other->bytes;
        if (end > start) start = end;
    }
    try_gap(placing, allocation, (TouchedRange){start, SIZE_MAX}, &best);
    return best.offset;
}

static void place_allocation(Placing *placing, Allocation *allocation) {
    allocation->offset = find_offset(placing, allocation);
    MUST(allocation->offset % ALIGNMENT == 0);
    int at = placing->count++;
    Allocation **placed = placing->placed;
    for (; at > 0 && placed[at - 1]->offset > allocation->offset; at--) placed[at] = placed[at - 1];
    placed[at] = allocation;
    placing->touched_count = join_ranges(
        placing->touched, add_ranges(allocation, placing->touched, placing->touched_count));
    const size_t end = allocation->offset + allocation->bytes;
    if (end > placing->end) placing->end = end;
}

/* ---- owners ---- */

/* The original owner of the memory. */
static Allocation *first_owner(const Schedule *schedule, Allocation *allocation) {
    while (allocation->over) {
        MUST(allocation->bytes == schedule->allocations[allocation->over->id].bytes);
        allocation = &schedule->allocations[allocation->over->id];
    }
    return allocation;
}

/* Memory is in use until the end of the last tensor in it. */
static void share_memory(Allocation *owner, const Allocation *other) {
    if (other->last > owner->last) owner->last = other->last;
    if (other->part != owner->part) owner->part = owner->touched = owner->bytes;
    if (other->touched > owner->touched) owner->touched = other->touched;
}

/* Copies of the allocations. An owner of memory has the lifetime of all tensors in it. */
static Allocation *find_owners(const Schedule *schedule) {
    const int count = schedule->program->tensors.count;
    Allocation *owned = arena_alloc(schedule->program->arena, (size_t)(count + 1) * sizeof *owned);
    for (int i = 0; i < count; i++) owned[i] = schedule->allocations[i];
    for (int i = 0; i < count; i++) {
        Allocation *allocation = &schedule->allocations[i];
        if (allocation->over)
            share_memory(&owned[first_owner(schedule, allocation) - schedule->allocations],
                         allocation);
    }
    return owned;
}

/* Pages are allocated at their first access: see reserves_rows in runtime/model/model.c. */
static bool reserves_memory(const Program *program) {
    return program->mesh[MESH_EXPERT] > 1;
}

/* ---- orders ---- */

/* Equal allocations stay in the order of their tensors. */
static int by_bytes(const void *a, const void *b) {
    const Allocation *one = *(Allocation *const *)a, *other = *(Allocation *const *)b;
    if (one->bytes != other->bytes) return one->bytes < other->bytes ? 1 : -1;
    return one < other ? -1 : 1;
}

static double bytes_over_time(const Allocation *allocation) {
    return (double)(touched_parts(allocation) * allocation->touched) *
           (allocation->last - allocation->first + 1);
}

static int by_bytes_over_time(const void *a, const void *b) {
    const double one = bytes_over_time(*(Allocation *const *)a),
                 other = bytes_over_time(*(Allocation *const *)b);
    return one != other ? (one < other ? 1 : -1) : by_bytes(a, b);
}

/* Sets the offsets of the owners in this order. Returns the bytes that they access. */
static size_t place_all(Placing *placing, Allocation *const *owners, int count) {
    size_t bytes = 0;
    placing->count = placing->touched_count = 0;
    placing->end = 0;
    for (int i = 0; i < count; i++) place_allocation(placing, owners[i]);
    for (int i = 0; i < placing->touched_count; i++)
        bytes += placing->touched[i].end - placing->touched[i].start;
    return bytes;
}

/* The most bytes that are accessed by simultaneously live tensors. */
static size_t most_live_bytes(Allocation *const *owners, int count) {
    size_t most = 0;
    for (int i = 0; i < count; i++) {
        size_t live = 0;
        for (int j = 0; j < count; j++)
            if (owners[j]->first <= owners[i]->first && owners[j]->last >= owners[i]->first)
                live += touched_parts(owners[j]) * owners[j]->touched;
        if (live > most) most = live;
    }
    return most;
}

static void move_owner(Allocation **owners, int from, int to) {
    Allocation *moved = owners[from];
    const int step = from < to ? 1 : -1;
    for (int i = from; i != to; i += step) owners[i] = owners[i + step];
    owners[to] = moved;
}

/* A linear congruential generator: Numerical Recipes, section 7.1. */
static int random_below(uint32_t *state, int count) {
    *state = *state * 1664525 + 1013904223;
    return (int)((uint64_t)*state * (uint64_t)count >> 32);
}

enum { MOST_TRIES = 1000 };
#define ENOUGH 1.08 /* times the bytes that are live at once */

/* Moves single owners to other positions in the order if this needs no more memory: the accessed
 * bytes and a sixteenth of the block, because a GPU allocates the whole block. */
static void improve_order(Placing *placing, Allocation **owners, int count) {
    const double enough = ENOUGH * (double)most_live_bytes(owners, count);
    size_t bytes = place_all(placing, owners, count), least = bytes + placing->end / 16;
    uint32_t random = 1;
    for (int i = 0; i < MOST_TRIES && (double)bytes > enough; i++) {
        const int from = random_below(&random, count), to = random_below(&random, count);
        move_owner(owners, from, to);
        const size_t other = place_all(placing, owners, count), cost = other + placing->end / 16;
        if (cost <= least) {
            least = cost;
            bytes = other;
        } else {
            move_owner(owners, to, from);
        }
    }
}

void assign_offsets(Schedule *schedule) {
    const Program *program = schedule->program;
    const bool reserves = reserves_memory(program);
    const size_t bytes = ((size_t)program->tensors.count + 1) * sizeof(Allocation *);
    Allocation **owners = arena_alloc(program->arena, bytes), *owned = find_owners(schedule);
    Placing placing = {.placed = arena_alloc(program->arena, bytes),
                       .touched = ranges_new(schedule)};
    int count = 0;
    for (int i = 0; i < program->tensors.count; i++) {
        if (!reserves) owned[i].part = owned[i].touched = owned[i].bytes;
        if (owned[i].bytes && !owned[i].over) owners[count++] = &owned[i];
    }
    qsort(owners, (size_t)count, sizeof *owners, reserves ? by_bytes_over_time : by_bytes);
    if (reserves) improve_order(&placing, owners, count);
    place_all(&placing, owners, count);
    schedule->arena_bytes = placing.end;
    for (int i = 0; i < program->tensors.count; i++) {
        Allocation *allocation = &schedule->allocations[i];
        if (!allocation->bytes) continue;
        allocation->offset =
            owned[first_owner(schedule, allocation) - schedule->allocations].offset;
    }
}
