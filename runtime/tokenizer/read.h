/* read: the parts of a tokenizer.json. Each function returns false after a message. */
#ifndef TOKENIZER_READ_H
#define TOKENIZER_READ_H

#include "tokenizer/parts.h"

#include <jansson.h>

enum { TOKEN_LIMIT = 1 << 24 };

/* Each fills the part of that name. */
bool read_normalisers(Tokenizer *tokenizer, const json_t *part);
bool read_splitters(Tokenizer *tokenizer, const json_t *part);
bool read_processors(Tokenizer *tokenizer, const json_t *part);
bool read_decoders(Tokenizer *tokenizer, const json_t *part);
bool read_vocabulary(Tokenizer *tokenizer, const json_t *part);
bool read_added(Tokenizer *tokenizer, const json_t *list);

/* Reports that `what` in the file is unsupported (read_refuse) or malformed (read_damaged). */
bool read_refuse(const Tokenizer *tokenizer, const char *part, const char *what);
bool read_damaged(const Tokenizer *tokenizer, const char *part);
/* The "type" of a part, "" when it has none. */
const char *read_type(const json_t *part);
/* A member that is a string, appended to `out`. */
bool read_text(const json_t *part, const char *key, Text *out);
bool read_flag(const json_t *part, const char *key, bool otherwise);

#endif
