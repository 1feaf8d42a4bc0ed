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
           error_message("a larger vocab of the model, or the tokenizer that belongs to it",
                         "the tokenizer has %ld tokens, the model has vocab = %ld", size,
                         vocabulary);
}

/* The tokens of a text, in a file that has no name any more when it is open. */
static Data *open_tokens(const char *path, const Tokenizer *tokenizer, const Call *call) {
    const char *place = getenv("TMPDIR");
    char *folder = memory_format("%s/moec-XXXXXX", place && *place ? place : "/tmp");
    char *file = NULL;
    Data *data = NULL;
    Paths paths = {0};
    BulkResult result;
    const BulkOptions options = {.special = true, .last = -1, .quiet = true};
    if (!mkdtemp(folder)) {
        error_message("TMPDIR names a folder for temporary files", "cannot make %s: %s", folder,
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

/* Without a tokenizer the bytes of a text are the tokens of models that have no more than these. */
static Data *open_plain(const char *path, const Call *call) {
    Data *data = examples_open(path, call);
    long vocabulary = call_vocabulary(call);
    if (!data || !data->bytes || vocabulary <= 256) return data;
    data_close(data);
    error_message("train with --tokenizer F, give tokens that `moec tokenize` wrote, or set vocab "
                  "to 256",
                  "this model has %ld tokens and no tokenizer: the bytes of %s are not its tokens",
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
