#include "tools/exchange/exchange.h"

#include "base/memory.h"
#include "base/message.h"

#include <stdlib.h>
#include <string.h>

Conversion *conversion_new(int count, bool inward) {
    Conversion *conversion = memory_new(sizeof *conversion);
    conversion->targets = memory_new(sizeof *conversion->targets * ((size_t)count + 1));
    conversion->count = count;
    conversion->inward = inward;
    return conversion;
}

void conversion_free(Conversion *conversion) {
    if (!conversion) return;
    for (int i = 0; i < conversion->count; i++) {
        free(conversion->targets[i].entry.name);
        free(conversion->targets[i].origins);
    }
    free(conversion->targets);
    free(conversion);
}

void conversion_target(Conversion *conversion, int index, const char *name, int rank,
                       const long *shape) {
    TensorEntry *entry = &conversion->targets[index].entry;
    entry->name = memory_format("%s", name);
    entry->rank = rank;
    memcpy(entry->shape, shape, sizeof *shape * (size_t)rank);
}

static size_t float_width(Number number) {
    return number == NUMBER_F32 ? 4 : 2;
}

size_t entry_elements(const TensorEntry *entry) {
    size_t count = 1;
    for (int i = 0; i < entry->rank; i++) count *= (size_t)entry->shape[i];
    return count;
}

static bool is_plain_copy(const TensorSource *origin) {
    return origin->slice->factor == 1 && origin->slice->shift == 0;
}

/* Values that are only moved keep their type; otherwise they become F32. */
static Number kept(const TensorSource *origin) {
    Number number = origin->source->number;
    bool narrow = number == NUMBER_F16 || number == NUMBER_BF16;
    return is_plain_copy(origin) && narrow ? number : NUMBER_F32;
}

bool conversion_origin(Conversion *conversion, int index, const char *path,
                       const TensorEntry *source, const MoecSlice *slice) {
    ConvertedTensor *target = &conversion->targets[index];
    if (source->number >= NUMBER_I32 && source->number != NUMBER_BLOCKS)
        return error_message(
            "convert it to F32, F16 or BF16 first",
            "%s: tensor %s has type %s, which is not a supported floating-point type", path,
            source->name, safetensors_type(source));
    target->origins =
        memory_grow(target->origins, sizeof *target->origins * (size_t)(target->count + 1));
    TensorSource *origin = &target->origins[target->count++];
    *origin = (TensorSource){source, slice};
    Number number = kept(origin);
    bool same = target->count == 1 || target->entry.number == number;
    target->entry.number = same ? number : NUMBER_F32;
    target->entry.bytes = entry_elements(&target->entry) * float_width(target->entry.number);
    return true;
}

void conversion_drop_empty(Conversion *conversion) {
    int kept = 0;
    for (int i = 0; i < conversion->count; i++) {
        ConvertedTensor *target = &conversion->targets[i];
        if (target->count)
            conversion->targets[kept++] = *target;
        else
            free(target->entry.name);
    }
    conversion->count = kept;
}

/* One slice in progress: addresses and strides of source and destination. */
typedef struct SliceCopy {
    const MoecSlice *slice;
    const TensorEntry *source;
    const long *from_step, *to_step;
    Number number; /* type of the destination */
    bool inward;
    unsigned char *to;
} SliceCopy;

static float changed(const SliceCopy *way, float value) {
    const MoecSlice *slice = way->slice;
    double wide = (double)value;
    return (float)(way->inward ? (wide - slice->shift) / slice->factor
                               : slice->factor * wide + slice->shift);
}

static void move_row(const SliceCopy *way, long from, long to, long count, long from_step,
                     long to_step) {
    const TensorEntry *source = way->source;
    bool same = source->number == way->number && way->slice->factor == 1 && way->slice->shift == 0;
    if (same && float_width(way->number) == 2) { /* can be at odd addresses of a file */
        const unsigned char *bytes = source->data;
        for (long i = 0; i < count; i++)
            memcpy(way->to + 2 * (to + i * to_step), bytes + 2 * (from + i * from_step), 2);
        return;
    }
    float *floats = (float *)(void *)way->to;
    for (long i = 0; i < count; i++) {
        float value = safetensors_float(source, (size_t)(from + i * from_step));
        floats[to + i * to_step] = same ? value : changed(way, value);
    }
}

static void move_slice(const SliceCopy *way, int dim, long from, long to) {
    const MoecSlice *slice = way->slice;
    if (slice->rank == 0) {
        move_row(way, from, to, 1, 0, 0);
        return;
    }
    long from_step = way->from_step[dim], to_step = way->to_step[dim];
    if (dim == slice->rank - 1) {
        move_row(way, from, to, slice->size[dim], from_step, to_step);
        return;
    }
    for (long i = 0; i < slice->size[dim]; i++)
        move_slice(way, dim + 1, from + i * from_step, to + i * to_step);
}

void conversion_widen_vectors(Conversion *conversion) {
    for (int i = 0; i < conversion->count; i++) {
        TensorEntry *entry = &conversion->targets[i].entry;
        if (entry->rank > 1) continue;
        entry->number = NUMBER_F32;
        entry->bytes = entry_elements(entry) * float_width(NUMBER_F32);
    }
}

void conversion_fill(const Conversion *conversion, int index, void *bytes) {
    const ConvertedTensor *target = &conversion->targets[index];
    for (int i = 0; i < target->count; i++) {
        const MoecSlice *slice = target->origins[i].slice;
        bool inward = conversion->inward;
        SliceCopy way = {.slice = slice,
                         .source = target->origins[i].source,
                         .from_step = inward ? slice->their_step : slice->our_step,
                         .to_step = inward ? slice->our_step : slice->their_step,
                         .number = target->entry.number,
                         .inward = inward,
                         .to = bytes};
        move_slice(&way, 0, inward ? slice->theirs : slice->ours,
                   inward ? slice->ours : slice->theirs);
    }
}

static void fill_converted(void *context, int index, void *bytes) {
    conversion_fill(context, index, bytes);
}

bool conversion_write(Conversion *conversion, const char *path, json_t *notes) {
    AUTO_FREE TensorEntry *entries = memory_new(sizeof *entries * ((size_t)conversion->count + 1));
    for (int i = 0; i < conversion->count; i++) entries[i] = conversion->targets[i].entry;
    return safetensors_write_made(path, entries, conversion->count, notes, fill_converted,
                                  conversion);
}

const char *conversion_type(const Conversion *conversion) {
    Number number = conversion->count ? conversion->targets[0].entry.number : NUMBER_F32;
    for (int i = 0; i < conversion->count; i++)
        if (conversion->targets[i].entry.number != number) number = NUMBER_F32;
    return number == NUMBER_BF16 ? "bfloat16" : number == NUMBER_F16 ? "float16" : "float32";
}
