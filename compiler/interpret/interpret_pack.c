/* interpreter_pack: the definition of pack. See CALL_PACK in ir.h. */
#include "interpret/interpreter.h"

#include <stdlib.h>
#include <string.h>

typedef struct Row {
    long group, other, entry; /* entry: row-major number in the mask */
    long coordinate[MAX_RANK];
} Row;

typedef struct Pack {
    Interpreter *interpreter;
    const Statement *statement;
    View mask;
    Row *rows;
    long count;
} Pack;

static View output(Pack *pack, int place) {
    return interpreter_view(pack->interpreter, pack->statement->outputs.items[place]);
}

/* The part of the group that a further input contributes to a row, by the coordinates that its
 * subscripts share with the mask. */
static long group_part(Pack *pack, const Expr *input, const Row *row) {
    View view = interpreter_view(pack->interpreter, input);
    long offset = 0;
    for (int i = 0; i < view.rank; i++)
        for (int j = 0; j < pack->mask.rank; j++)
            if (pack->mask.index[j] == view.index[i]) offset += row->coordinate[j] * view.stride[i];
    return view.ints[offset];
}

static Row row_of_entry(Pack *pack, long entry) {
    const View *mask = &pack->mask;
    Row row = {.entry = entry};
    for (int i = mask->rank - 1; i >= 0; i--) {
        row.coordinate[i] = entry % mask->size[i];
        entry /= mask->size[i];
    }
    const List *inputs = &pack->statement->inputs;
    for (int i = 1; i < inputs->count; i++) {
        const Expr *input = inputs->items[i];
        row.group = row.group * input->tensor->vocabulary + group_part(pack, input, &row);
    }
    for (int i = 0; i < mask->rank; i++) {
        long *number = pack->statement->pack.key[i] ? &row.group : &row.other;
        *number = *number * mask->size[i] + row.coordinate[i];
    }
    return row;
}

static bool is_marked(const View *mask, const Row *row) {
    long offset = 0;
    for (int i = 0; i < mask->rank; i++) offset += row->coordinate[i] * mask->stride[i];
    return mask->real ? mask->real[offset] != 0 : mask->ints[offset] != 0;
}

static int compare_rows(const void *a, const void *b) {
    const Row *left = a, *right = b;
    if (left->group != right->group) return left->group < right->group ? -1 : 1;
    return (left->entry > right->entry) - (left->entry < right->entry);
}

/* Collects and sorts the marked entries, and numbers all entries in row_of. */
static void collect_rows(Pack *pack, long entries) {
    View row_of = output(pack, pack->mask.rank + 1);
    pack->rows = malloc((size_t)entries * sizeof *pack->rows);
    if (!pack->rows) abort();
    for (long entry = 0; entry < entries; entry++) {
        Row row = row_of_entry(pack, entry);
        if (is_marked(&pack->mask, &row)) pack->rows[pack->count++] = row;
        long offset = 0;
        for (int i = 0; i < row_of.rank; i++) offset += row.coordinate[i] * row_of.stride[i];
        row_of.ints[offset] = -1;
    }
    qsort(pack->rows, (size_t)pack->count, sizeof *pack->rows, compare_rows);
    for (long r = 0; r < pack->count; r++) {
        long offset = 0;
        for (int i = 0; i < row_of.rank; i++)
            offset += pack->rows[r].coordinate[i] * row_of.stride[i];
        row_of.ints[offset] = r;
    }
}

static void write_rows(Pack *pack) {
    int rank = pack->mask.rank;
    View group = output(pack, rank), other = output(pack, rank + 2), start = output(pack, rank + 3);
    for (int i = 0; i < rank; i++) {
        View coordinate = output(pack, i);
        for (long r = 0; r < pack->count; r++)
            coordinate.ints[r * coordinate.stride[0]] = pack->rows[r].coordinate[i];
    }
    for (long g = 0; g < group.size[0]; g++) group.ints[g] = 0;
    for (long o = 0; o < start.size[0]; o++) start.ints[o] = 0;
    for (long r = 0; r < pack->count; r++) {
        other.ints[r] = pack->rows[r].other;
        group.ints[pack->rows[r].group + 1]++;
        start.ints[pack->rows[r].other + 1]++;
    }
    for (long g = 1; g < group.size[0]; g++) group.ints[g] += group.ints[g - 1];
    for (long o = 1; o < start.size[0]; o++) start.ints[o] += start.ints[o - 1];
}

/* The rows of each value of `other`, in ascending order. */
static void write_list(Pack *pack) {
    View start = output(pack, pack->mask.rank + 3), list = output(pack, pack->mask.rank + 4);
    long *next = malloc((size_t)start.size[0] * sizeof *next);
    if (!next) abort();
    memcpy(next, start.ints, (size_t)start.size[0] * sizeof *next);
    for (long r = 0; r < pack->count; r++) list.ints[next[pack->rows[r].other]++] = r;
    free(next);
}

void interpreter_pack(Interpreter *interpreter, const Statement *statement) {
    Pack pack = {.interpreter = interpreter, .statement = statement};
    pack.mask = interpreter_view(interpreter, statement->inputs.items[0]);
    long entries = 1;
    for (int i = 0; i < pack.mask.rank; i++) entries *= pack.mask.size[i];
    collect_rows(&pack, entries);
    long rows = output(&pack, pack.mask.rank + 2).size[0];
    if (pack.count == rows) {
        write_rows(&pack);
        write_list(&pack);
    } else {
        interpreter->message = arena_format(
            interpreter->arena, "a mask has %ld nonzero entries, expected %ld", pack.count, rows);
    }
    free(pack.rows);
}
