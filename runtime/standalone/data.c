#include "data.h"

#include "count.h"
#include "streams.h"
#include "tensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is_foreign(const MoecTensor *input) {
    return input->input == MOEC_INPUT_REAL || input->input == MOEC_INPUT_CLASS;
}

/* The words of an input in one window. */
static size_t words_of(const MoecGraphEntry *graph, const MoecTensor *input) {
    return tensor_count(input) / (size_t)graph->batch;
}

/* 0 for a graph that reads tokens. */
static size_t words_of_example(const MoecGraphEntry *graph) {
    size_t words = 0;
    for (int i = 0; i < graph->input_count; i++)
        if (is_foreign(&graph->inputs[i])) words += words_of(graph, &graph->inputs[i]);
    return words;
}

/* Named tensors begin with the length of a JSON object; as text they would be noise. */
static int is_tensors(const unsigned char *text, size_t count) {
    uint64_t object = 0;
    for (int i = 7; i >= 0 && count > 9; i--) object = object << 8 | text[i];
    return object >= 2 && object <= count - 8 && text[8] == '{';
}

static const char *read_text(Data *data, const char *path, size_t *count) {
    FILE *file = stream_read(path);
    if (!file) return "cannot open the data";
    size_t room = 1 << 20, got;
    data->text = malloc(room);
    *count = 0;
    while (data->text && (got = fread(data->text + *count, 1, room - *count, file)) > 0) {
        *count += got;
        if (*count < room) continue;
        unsigned char *longer = realloc(data->text, room *= 2);
        if (!longer) free(data->text);
        data->text = longer;
    }
    fclose(file);
    if (!data->text) return "out of memory for the data";
    return is_tensors(data->text, *count)
               ? "the data is a safetensors file, but the model needs text"
               : NULL;
}

/* Converts a value to a 32-bit word. A class label must be an integer from 0 to vocabulary - 1. */
static int to_word(const MoecTensor *input, float value, int32_t *word) {
    if (input->input == MOEC_INPUT_REAL) {
        memcpy(word, &value, sizeof value);
        return 1;
    }
    int inside =
        value >= 0 && value < 0x1p31f && (!input->vocabulary || value < (float)input->vocabulary);
    *word = inside ? (int32_t)value : 0;
    return inside && value == floorf(value);
}

/* Copies one input of all examples to its offset in the records. */
static const char *read_input(Data *data, const char *path, const MoecTensor *input, size_t each,
                              size_t offset) {
    size_t record = data->order.record;
    uint64_t examples;
    const char *error;
    float *values = tensors_read(path, input->name, each, &examples, &error);
    if (!values) return error;
    if (!data->words) {
        data->order.count = examples * record;
        data->words = malloc(sizeof *data->words * data->order.count);
        error = data->words ? NULL : "out of memory for the data";
    }
    if (!error && data->order.count != examples * record)
        error = "the tensors of the data have different numbers of examples";
    for (size_t i = 0; !error && i < examples * each; i++)
        if (!to_word(input, values[i], &data->words[i / each * record + offset + i % each]))
            error = "the data contains a class label outside the range of the model";
    free(values);
    return error;
}

static const char *read_examples(Data *data, const char *path, const MoecGraphEntry *graph) {
    size_t offset = 0;
    for (int i = 0; i < graph->input_count; i++) {
        if (!is_foreign(&graph->inputs[i])) continue;
        size_t each = words_of(graph, &graph->inputs[i]);
        const char *error = read_input(data, path, &graph->inputs[i], each, offset);
        if (error) return error;
        offset += each;
    }
    return NULL;
}

const char *data_open(Data *data, const char *path, const MoecGraphEntry *graph, uint64_t seed) {
    uint64_t record = words_of_example(graph), context = (uint64_t)graph->context,
             window = record ? record : context + 1;
    data->order = (Order){.seed = seed, .context = (long)context, .record = record};
    size_t count = 0;
    const char *error = record ? read_examples(data, path, graph) : read_text(data, path, &count);
    if (error) return error;
    if (!record) data->order.count = count;
    uint64_t held = order_held_out(data->order.count, window);
    /* Examples share nothing, windows of tokens one token. */
    data->order.count -= record ? held * record : held ? held * context + 1 : 0;
    return data->order.count >= window
               ? NULL
               : "the data is shorter than one training sequence (context length + 1 tokens)";
}

void data_close(Data *data) {
    free(data->text);
    free(data->words);
}

static void put_examples(const Data *data, const MoecGraphEntry *graph, void **inputs,
                         uint64_t position) {
    size_t offset = 0;
    for (int i = 0; i < graph->input_count; i++) {
        if (!is_foreign(&graph->inputs[i])) continue;
        size_t each = words_of(graph, &graph->inputs[i]);
        int32_t *to = inputs[i];
        for (long b = 0; b < graph->batch; b++)
            memcpy(to + (size_t)b * each,
                   data->words + order_start(&data->order, position + (uint64_t)b) + offset,
                   sizeof *to * each);
        offset += each;
    }
}

static const char *put_tokens(const Data *data, const MoecGraphEntry *graph,
                              const MoecTensor *input, int32_t *to, uint64_t position) {
    for (long b = 0; b < graph->batch; b++) {
        uint64_t start =
            order_start(&data->order, position + (uint64_t)b) + (input->input == MOEC_INPUT_NEXT);
        for (long s = 0; s < graph->context; s++) {
            int32_t token = data->text[start + (uint64_t)s];
            if (input->vocabulary && token >= input->vocabulary)
                return "a byte of the text is outside the vocabulary";
            to[b * graph->context + s] = token; /* [batch, sequence] */
        }
    }
    return NULL;
}

const char *data_put(const Data *data, const MoecGraphEntry *graph, void **inputs,
                     uint64_t position) {
    if (data->order.record) {
        put_examples(data, graph, inputs, position);
        return NULL;
    }
    const char *error = NULL;
    for (int i = 0; i < graph->input_count && !error; i++)
        if (graph->inputs[i].input == MOEC_INPUT_TOKEN || graph->inputs[i].input == MOEC_INPUT_NEXT)
            error = put_tokens(data, graph, &graph->inputs[i], inputs[i], position);
    return error;
}
