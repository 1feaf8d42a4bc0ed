/* token_file: tokenizes texts of any size into one token file, with all processors. The file is
 * written under a temporary name until it is complete; an interrupted run can resume.
 *
 * A text is encoded in chunks of about 1 MB. A chunk ends where a split does not change the tokens,
 * preferably at the end of a line. */
#ifndef TOKEN_FILE_H
#define TOKEN_FILE_H

#include "tokenizer/tokenizer.h"

typedef struct BulkOptions {
    bool special;      /* add the tokens of the template to each document */
    bool lines;        /* each line is a document, else each file */
    const char *field; /* lines are JSON objects: the field that holds the text; NULL: plain text */
    int32_t last;      /* a token after each document; -1: none */
    int threads;       /* 0: as many as there are processors */
    size_t part;       /* bytes of a part; 0: a megabyte */
    int width;         /* bytes of a token; 0: 2 if they suffice, else 4 */
    bool resume, quiet;
} BulkOptions;

typedef struct BulkResult {
    uint64_t tokens, bytes, documents, replaced; /* replaced: bytes that were not UTF-8 */
    double seconds;
} BulkResult;

/* False after a message, or after a signal; the state is then saved for --resume. */
bool bulk_tokenize(const Tokenizer *tokenizer, const char *const *paths, int count,
                   const BulkOptions *options, const char *out, BulkResult *result);

#endif
