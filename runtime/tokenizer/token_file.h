/* token_file: texts of any size to one file of tokens, with all processors. What is written stands
 * aside until it is complete; a run that was stopped can go on.
 *
 * A text is encoded in parts of about a megabyte. A part ends where the text around the cut gives
 * the same tokens when it is encoded whole: at the end of a line if one will do.
 */
#ifndef TOKEN_FILE_H
#define TOKEN_FILE_H

#include "tokenizer/tokenizer.h"

typedef struct BulkOptions {
    bool special;      /* each document gets what the template puts around it */
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

/* False after a message, or when a signal has asked for a stop: then what is done is kept for
 * --resume. */
bool bulk_tokenize(const Tokenizer *tokenizer, const char *const *paths, int count,
                   const BulkOptions *options, const char *out, BulkResult *result);

#endif
