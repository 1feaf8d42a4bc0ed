#include "model/call.h"

#include "tokenizer/tokenizer.h"
#include "base/message.h"
#include "base/memory.h"
#include "data/safetensors.h"
#include "base/files.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <unistd.h>

static bool is_foreign(const MoecTensor *input) {
    return input->input == MOEC_INPUT_REAL || input->input == MOEC_INPUT_CLASS;
}

/* Number of 32-bit words of an input per sequence of the batch. */
static size_t words_of(const Call *call, const MoecTensor *input) {
    return tensor_count(input) / (size_t)call->graph->batch;
}

long examples_words(const Call *call) {
    size_t words = 0;
    for (int i = 0; i < call->graph->input_count; i++)
        if (is_foreign(&call->graph->inputs[i])) words += words_of(call, &call->graph->inputs[i]);
    return (long)words;
}

/* Converts a value to a 32-bit word. A class label must be an integer from 0 to vocabulary - 1. */
static bool to_word(const MoecTensor *input, const char *path, float value, int32_t *word) {
    if (input->input == MOEC_INPUT_REAL) {
        memcpy(word, &value, sizeof value);
        return true;
    }
    bool inside = value >= 0 && (!input->vocabulary || value < (float)input->vocabulary);
    *word = inside ? (int32_t)value : 0;
    return (inside && value == floorf(value)) ||
           error_message("number the classes from 0",
                         "%s: '%s' contains %g, but the model has %ld classes", path, input->name,
                         (double)value, input->vocabulary);
}

/* Copies one input of all examples to its offset in the records. */
static bool read_input(const Safetensors *file, const MoecTensor *input, size_t each, size_t offset,
                       Data *data) {
    const TensorEntry *entry = safetensors_find(file, input->name);
    if (!entry)
        return error_message("the file needs one tensor per input of the model",
                             "%s has no tensor '%s'", file->path, input->name);
    size_t examples = entry->rank ? (size_t)entry->shape[0] : 0, count = examples;
    for (int i = 1; i < entry->rank; i++) count *= (size_t)entry->shape[i];
    if (!data->words) {
        data->count = examples * data->record;
        data->words = memory_new(sizeof *data->words * ((size_t)data->count + 1));
    }
    if (!examples || count != examples * each || data->count != examples * data->record)
        return error_message(
            "the first dimension is the example, the others are those of the input",
            "%s: '%s' has %zu values, but the model reads %zu per example", file->path, input->name,
            count, each);
    float *values = memory_new(sizeof *values * count);
    bool good = safetensors_numbers(file, entry, values, count);
    for (size_t i = 0; i < count && good; i++)
        good = to_word(input, file->path, values[i],
                       &data->words[i / each * data->record + offset + i % each]);
    free(values);
    return good;
}

Data *examples_open(const char *path, const Call *call) {
    long words = examples_words(call);
    if (!words) return data_open(path, call_vocabulary(call));
    Safetensors *file = safetensors_open(path);
    if (!file) {
        note_message("this model reads examples, not text: use a safetensors file with "
                     "tensor '%s' and the other inputs",
                     call_foreign_input(call)->name);
        return NULL;
    }
    Data *data = memory_new(sizeof *data);
    data->record = (size_t)words;
    size_t offset = 0;
    bool good = true;
    for (int i = 0; i < call->graph->input_count && good; i++) {
        const MoecTensor *input = &call->graph->inputs[i];
        if (!is_foreign(input)) continue;
        good = read_input(file, input, words_of(call, input), offset, data);
        offset += words_of(call, input);
    }
    data->files = safetensors_files(file);
    safetensors_close(file);
    if (good) return data;
    data_close(data);
    return NULL;
}

void examples_set(Call *call, const int32_t *windows) {
    size_t record = (size_t)examples_words(call), offset = 0;
    for (int i = 0; i < call->graph->input_count; i++) {
        const MoecTensor *input = &call->graph->inputs[i];
        if (!is_foreign(input)) continue;
        size_t each = words_of(call, input);
        int32_t *to = call->inputs[i];
        for (size_t b = 0; b < (size_t)call->graph->batch; b++)
            memcpy(to + b * each, windows + b * record + offset, sizeof *to * each);
        offset += each;
    }
}

/* ---- texts ---- */

bool texts_fit(const Tokenizer *tokenizer, long vocabulary) {
    long size = tokenizer_size(tokenizer);
    return !vocabulary || size <= vocabulary ||
           error_message(
               "set vocab_size to at least the tokenizer size, or use the tokenizer of the model",
               "the tokenizer has %ld tokens, but the model has vocab_size = %ld", size,
               vocabulary);
}

/* Tokenizes a text into a temporary file, which is unlinked after it is opened. */
static Data *open_tokens(const char *path, const Tokenizer *tokenizer, const Call *call) {
    const char *place = getenv("TMPDIR");
    AUTO_FREE char *folder = memory_format("%s/moec-XXXXXX", place && *place ? place : "/tmp");
    AUTO_FREE char *file = NULL;
    Data *data = NULL;
    AUTO(Paths) paths = {0};
    BulkResult result;
    const BulkOptions options = {.special = true, .last = -1, .quiet = true};
    if (!mkdtemp(folder)) {
        error_message("set TMPDIR to a folder for temporary files", "cannot create %s: %s", folder,
                      strerror(errno));
    } else if (paths_add(&paths, path)) {
        file = path_join(folder, "tokens");
        if (bulk_tokenize(tokenizer, (const char *const *)paths.items, paths.count, &options, file,
                          &result))
            data = data_open(file, call_vocabulary(call));
        if (data) data->text_bytes = result.bytes;
        unlink(file);
        rmdir(folder);
    }
    return data;
}

/* Opens data without a tokenizer: text is valid only for models with at most 256 tokens. */
static Data *open_plain(const char *path, const Call *call) {
    Data *data = examples_open(path, call);
    long vocabulary = call_vocabulary(call);
    if (!data || !data->bytes || vocabulary <= 256) return data;
    data_close(data);
    error_message(
        "train with a tokenizer, use token files of `moec tokenize`, or set vocab_size = 256",
        "the model has %ld tokens and no tokenizer, so the bytes of %s are not its tokens",
        vocabulary, path);
    return NULL;
}

Data *texts_open(const char *path, const Tokenizer *tokenizer, const Call *call) {
    if (!tokenizer || examples_words(call)) return open_plain(path, call);
    if (!texts_fit(tokenizer, call_vocabulary(call))) return NULL;
    Data *data = data_open(path, 0);
    bool text = data && data->bytes;
    data_close(data);
    if (!data) return NULL;
    return text ? open_tokens(path, tokenizer, call) : examples_open(path, call);
}
