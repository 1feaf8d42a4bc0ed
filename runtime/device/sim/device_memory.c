/* device_memory: memory of the simulated device: host blocks, found by address. */
#include "block.h"

#include <stdlib.h>
#include <string.h>

static MemoryRange *parts; /* sorted by address */
static int part_count, part_capacity;

/* Index of the last part that starts at or before `at`, or -1. */
static int find(const unsigned char *at) {
    int low = 0, high = part_count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (parts[middle].start <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low - 1;
}

/* New device memory has arbitrary content; here NaN. */
void *memory_take(size_t bytes) {
    size_t whole = (bytes + 255) / 256 * 256 + 256;
    unsigned char *start = aligned_alloc(256, whole);
    if (!start) return NULL;
    memset(start, 0xff, whole);
    if (part_count == part_capacity) {
        part_capacity = part_capacity * 2 + 64;
        MemoryRange *more = realloc(parts, sizeof *parts * (size_t)part_capacity);
        if (!more) return NULL;
        parts = more;
    }
    int place = find(start) + 1;
    memmove(parts + place + 1, parts + place, sizeof *parts * (size_t)(part_count - place));
    SimTrace *traces = calloc(whole / SIM_TRACE_GRAIN, sizeof *traces);
    if (!traces) return NULL;
    parts[place] = (MemoryRange){start, start + bytes, traces};
    part_count++;
    return start;
}

bool memory_give(void *block) {
    int place = find(block);
    if (place < 0 || parts[place].start != block) return false;
    free(parts[place].traces);
    memmove(parts + place, parts + place + 1, sizeof *parts * (size_t)(part_count - place - 1));
    part_count--;
    memset(sim_now.recent, 0, sizeof sim_now.recent);
    free(block);
    return true;
}

bool memory_holds(const void *at, size_t bytes) {
    const unsigned char *start = at;
    int place = find(start);
    if (place < 0 || start + bytes > parts[place].end) return false;
    sim_now.recent[1] = sim_now.recent[0];
    sim_now.recent[0] = parts[place];
    return true;
}

SimTrace *memory_traces(const void *at, size_t bytes, size_t *grain) {
    if (!memory_holds(at, bytes)) return NULL;
    const MemoryRange *part = &sim_now.recent[0];
    *grain = (size_t)((const unsigned char *)at - part->start) / SIM_TRACE_GRAIN;
    return part->traces;
}
