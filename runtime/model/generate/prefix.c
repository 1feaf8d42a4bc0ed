#include "model/generate/prefix.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* A part of the caches. Of one that grows, the first rows are saved: `outer` times `row` bytes for
 * each position, `stride` bytes apart. Of other ones all is saved: once `row` bytes. */
typedef struct CachePart {
    size_t offset, row, outer, stride;
    bool grows;
} CachePart;

typedef struct SavedPrefix {
    int32_t *tokens;
    long count;
    unsigned char *bytes;
    size_t size;
    unsigned long used; /* time of its last use */
} SavedPrefix;

struct Prefixes {
    CachePart *parts;
    int part_count;
    bool cuttable; /* all parts grow */
    size_t limit, bytes;
    SavedPrefix *saved;
    int count, capacity;
    unsigned long clock;
};

/* ---- layout of the caches ---- */

static size_t cache_element(const MoecTensor *tensor) {
    return tensor->type == MOEC_BF16 ? 2 : tensor->type == MOEC_BYTE ? 1 : 4;
}

/* The name of the sequence axis: the last axis of the tokens. */
static const char *sequence_name(const MoecGraphEntry *graph) {
    for (int i = 0; i < graph->input_count; i++) {
        if (graph->inputs[i].input != MOEC_INPUT_TOKEN) continue;
        const char *comma = strrchr(graph->inputs[i].axes, ',');
        return comma ? comma + 1 : graph->inputs[i].axes;
    }
    return "";
}

/* The only dimension of a cache that is the sequence, or -1. */
static int growing_dimension(const MoecTensor *cache, const char *name, long context) {
    const char *axis = cache->axes;
    int found = -1;
    for (int i = 0; i < cache->rank && axis; i++) {
        size_t length = strcspn(axis, ",");
        bool same = length == strlen(name) && memcmp(axis, name, length) == 0;
        if (same && cache->shape[i] == context) {
            if (found >= 0) return -1;
            found = i;
        }
        axis = axis[length] ? axis + length + 1 : NULL;
    }
    return found;
}

static CachePart cache_part_of(const MoecTensor *cache, int dimension) {
    CachePart part = {.offset = cache->offset, .row = cache_element(cache), .outer = 1};
    part.grows = dimension >= 0;
    for (int i = 0; i < cache->rank; i++) {
        size_t *size = i < dimension ? &part.outer : &part.row;
        if (i != dimension) *size *= (size_t)cache->shape[i];
    }
    if (part.grows) part.stride = part.row * (size_t)cache->shape[dimension];
    return part;
}

Prefixes *prefixes_new(const Decoder *decoder, size_t limit) {
    const MoecGraphEntry *graph = decoder->step->graph;
    const char *name = sequence_name(graph);
    Prefixes *prefixes = memory_new(sizeof *prefixes);
    prefixes->limit = limit;
    prefixes->cuttable = true;
    prefixes->part_count = graph->cache_count;
    prefixes->parts = memory_new(sizeof(CachePart) * (size_t)(graph->cache_count + 1));
    for (int i = 0; i < graph->cache_count; i++) {
        const MoecTensor *cache = &graph->caches[i];
        prefixes->parts[i] = cache_part_of(cache, growing_dimension(cache, name, graph->context));
        prefixes->cuttable = prefixes->cuttable && prefixes->parts[i].grows;
    }
    return prefixes;
}

static void drop_prefix(Prefixes *prefixes, int index) {
    SavedPrefix *saved = &prefixes->saved[index];
    prefixes->bytes -= saved->size;
    free(saved->tokens);
    memory_unmap(saved->bytes, saved->size);
    *saved = prefixes->saved[--prefixes->count];
}

void prefixes_free(Prefixes *prefixes) {
    if (!prefixes) return;
    while (prefixes->count) drop_prefix(prefixes, 0);
    free(prefixes->saved);
    free(prefixes->parts);
    free(prefixes);
}

size_t prefixes_bytes(const Prefixes *prefixes) {
    return prefixes->bytes;
}

/* ---- copies ---- */

static size_t cache_part_bytes(const CachePart *part, long count) {
    return part->grows ? part->row * (size_t)count : part->row;
}

static size_t saved_size(const Prefixes *prefixes, long count) {
    size_t size = 0;
    for (int i = 0; i < prefixes->part_count; i++)
        size += prefixes->parts[i].outer * cache_part_bytes(&prefixes->parts[i], count);
    return size;
}

/* Copies the first `count` positions between the caches and a saved prefix of `whole` positions. */
static bool copy_caches(const Prefixes *prefixes, const Decoder *decoder, unsigned char *bytes,
                        long whole, long count, bool save) {
    Device *device = decoder->model->device;
    unsigned char *caches = (unsigned char *)decoder->step->cache;
    bool good = true;
    for (int i = 0; i < prefixes->part_count; i++) {
        const CachePart *part = &prefixes->parts[i];
        for (size_t k = 0; k < part->outer && good; k++, bytes += cache_part_bytes(part, whole)) {
            unsigned char *cache = caches + part->offset + k * part->stride;
            size_t length = cache_part_bytes(part, count);
            good = save ? device->kind->get(device, bytes, cache, length)
                        : device->kind->put(device, cache, bytes, length);
        }
    }
    return good;
}

/* ---- prefixes ---- */

static long whole_blocks(long count) {
    return count / PREFILL_TOKENS * PREFILL_TOKENS;
}

static long common_tokens(const SavedPrefix *saved, const CachedPrompt *prompt) {
    long count = 0;
    while (count < saved->count && count < prompt->count &&
           saved->tokens[count] == prompt->tokens[count])
        count++;
    return count;
}

bool prefixes_load(Prefixes *prefixes, Decoder *decoder, CachedPrompt *prompt) {
    const long most = whole_blocks(prompt->count - 1);
    SavedPrefix *best = NULL;
    long longest = 0;
    prompt->branch = 0;
    for (int i = 0; i < prefixes->count; i++) {
        SavedPrefix *saved = &prefixes->saved[i];
        long common = whole_blocks(common_tokens(saved, prompt));
        if (common > most) common = most;
        bool usable = prefixes->cuttable || common == saved->count;
        if (usable && common > longest) {
            best = saved;
            longest = common;
        }
        if (common > prompt->branch) prompt->branch = common;
    }
    if (prompt->branch == longest) prompt->branch = 0;
    if (!best) return true;
    best->used = ++prefixes->clock;
    decoder->position = longest;
    return copy_caches(prefixes, decoder, best->bytes, best->count, longest, false);
}

/* Whether a saved prefix has all of the first `count` tokens; then it counts as used. Shorter ones
 * that the new prefix replaces are dropped. */
static bool is_saved(Prefixes *prefixes, const CachedPrompt *prompt, long count) {
    for (int i = prefixes->count - 1; i >= 0; i--) {
        SavedPrefix *saved = &prefixes->saved[i];
        long common = common_tokens(saved, prompt);
        if (common >= count && (prefixes->cuttable || saved->count == count)) {
            saved->used = ++prefixes->clock;
            return true;
        }
        if (prefixes->cuttable && common == saved->count) drop_prefix(prefixes, i);
    }
    return false;
}

/* Room for `size` bytes; false if the limit is lower. */
static bool make_room(Prefixes *prefixes, size_t size) {
    if (size > prefixes->limit) return false;
    while (prefixes->bytes + size > prefixes->limit) {
        int oldest = 0;
        for (int i = 1; i < prefixes->count; i++)
            if (prefixes->saved[i].used < prefixes->saved[oldest].used) oldest = i;
        drop_prefix(prefixes, oldest);
    }
    return true;
}

bool prefixes_save(Prefixes *prefixes, const Decoder *decoder, const CachedPrompt *prompt) {
    const long count = decoder->position;
    if (!decoder->prefill || !count ||
        (count != whole_blocks(prompt->count) && count != prompt->branch))
        return true;
    size_t size = saved_size(prefixes, count);
    if (is_saved(prefixes, prompt, count) || !make_room(prefixes, size)) return true;
    SavedPrefix saved = {.count = count, .size = size, .used = ++prefixes->clock};
    saved.bytes = memory_map(size);
    if (!saved.bytes) return true;
    saved.tokens = memory_new(sizeof *saved.tokens * (size_t)count);
    memcpy(saved.tokens, prompt->tokens, sizeof *saved.tokens * (size_t)count);
    if (prefixes->count == prefixes->capacity) {
        prefixes->capacity = prefixes->capacity * 2 + 8;
        prefixes->saved =
            memory_grow(prefixes->saved, sizeof *prefixes->saved * (size_t)prefixes->capacity);
    }
    prefixes->saved[prefixes->count++] = saved;
    prefixes->bytes += size;
    return copy_caches(prefixes, decoder, saved.bytes, count, count, true);
}
