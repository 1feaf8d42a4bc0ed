#include "training/texts.h"

#include "base/message.h"
#include "base/files.h"
#include "base/memory.h"
#include "model/examples.h"
#include "tokenizer/token_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    char *folder = memory_format("%s/moec-XXXXXX", place && *place ? place : "/tmp");
    char *file = NULL;
    Data *data = NULL;
    Paths paths = {0};
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
    paths_free(&paths);
    free(file);
    free(folder);
    return data;
}

/* Opens data without a tokenizer: text is valid only for models with at most 256 tokens. */
static Data *open_plain(const char *path, const Call *call) {
    Data *data = examples_open(path, call);
    long vocabulary = call_vocabulary(call);
    if (!data || !data->bytes || vocabulary <= 256) return data;
    data_close(data);
    error_message(
        "train with --tokenizer FILE, use token files of `moec tokenize`, or set vocab_size = 256",
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
