/* tokenizer: text to tokens and back; token files; training of a tokenizer. */
#ifndef TOKENIZER_H
#define TOKENIZER_H

#include "tokenizer/text/text.h"

/* tokenizer: encodes and decodes text as defined by a `tokenizer.json`, with the same tokens as
 * https://github.com/huggingface/tokenizers
 *
 * Unsupported features of a file are errors when it is opened. */

typedef struct Tokenizer Tokenizer;

/* NULL after a message. */
Tokenizer *tokenizer_open(const char *path);
/* The same from text in memory; messages use `name`. */
Tokenizer *tokenizer_read(const char *name, const char *json, size_t length);
void tokenizer_close(Tokenizer *tokenizer);
AUTO_POINTER(Tokenizer, tokenizer_close)
/* The file as it was read. */
const char *tokenizer_json(const Tokenizer *tokenizer, size_t *length);

/* The highest token number, and one: the least vocabulary of a model. */
long tokenizer_size(const Tokenizer *tokenizer);
/* The number of a token by its string, or -1. */
int32_t tokenizer_find(const Tokenizer *tokenizer, const char *bytes, size_t length);
/* Whether the token is one of those that are left out when text is written. */
bool tokenizer_is_special(const Tokenizer *tokenizer, int32_t token);

/* Appends the bytes that each token adds after other tokens, which can end inside a character:
 * ends[token] is where those of a token end, for tokenizer_size of them. False after a message. */
bool tokenizer_bytes(const Tokenizer *tokenizer, Text *out, size_t *ends);

/* Scratch and a memory of words for one thread. */
typedef struct Encoder Encoder;
Encoder *encoder_new(const Tokenizer *tokenizer);
void encoder_free(Encoder *encoder);
AUTO_POINTER(Encoder, encoder_free)

typedef enum EncodeFlags {
    ENCODE_SPECIAL = 1,  /* add the tokens of the template */
    ENCODE_CONTINUES = 2 /* the text continues an earlier one: no prefix space */
} EncodeFlags;

/* Appends the tokens of a text; bytes that are not UTF-8 are read as U+FFFD. False after a message.
 */
bool encoder_encode(Encoder *encoder, const char *bytes, size_t length, int flags, TokenList *out);
/* How many bytes or beginnings of characters were not UTF-8 so far. */
size_t encoder_replaced(const Encoder *encoder);
/* Tokens that the template adds before and after a text. */
const TokenList *tokenizer_before(const Tokenizer *tokenizer);
const TokenList *tokenizer_after(const Tokenizer *tokenizer);

/* Appends the text of tokens. skip_special: without special tokens. Numbers that are no token are
 * left out. False after a message. */
bool tokenizer_decode(const Tokenizer *tokenizer, const int32_t *tokens, size_t count,
                      bool skip_special, Text *out);

/* Incremental decoding into whole characters: an incomplete character waits for the next token. The
 * concatenated output equals tokenizer_decode of all tokens. */
typedef struct Stream Stream;
Stream *stream_new(const Tokenizer *tokenizer, bool skip_special);
void stream_free(Stream *stream);
bool stream_add(Stream *stream, int32_t token, Text *out);
/* Appends the rest. */
bool stream_end(Stream *stream, Text *out);

/* token_file: tokenizes texts of any size into one token file, with all processors. The file is
 * written under a temporary name until it is complete; an interrupted run can resume.
 *
 * A text is encoded in chunks of about 1 MB. A chunk ends where a split does not change the tokens,
 * preferably at the end of a line. */

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

/* portable: export of a tokenizer as tokenizer.bin, which standalone/lexicon.c reads: the texts of
 * all tokens and, for byte-level BPE with a supported pattern, the encoding data.
 *
 * Format: "moeclex1", then little-endian 32-bit words. The number of tokens; per token its length
 * (upper bit: not written) and bytes. Then 1 if encoding data follows, else 0. Encoding data:
 *
 *     the token of each byte (256 words)
 *     1 if whole words are looked up first, else 0
 *     1 if a space is added before a text, else 0
 *     tokens before a text: count, tokens
 *     special tokens: count, then token, length, bytes of each
 *     merges in order: count, then left, right, result
 *     character classes as ranges: count, then first character and mask
 *     splitters: count, then alternatives: count, then items: count, then kind, class, least, most
 */

/* Appends the file. Returns true if the folder can encode; otherwise *why is the unsupported
 * feature. */
bool portable_write(const Tokenizer *tokenizer, Text *out, const char **why);

/* bpe_train: a byte-level BPE from text, as the tokenizers library makes it: the pair of neighbours
 * that is most frequent becomes a token, until there are enough; of equals the one with the lower
 * numbers. */

typedef struct BpeTraining {
    const char *const *paths;
    int path_count;
    const char *const *special; /* special tokens; they have the lowest ids */
    int special_count;
    /* pattern that splits the text (Oniguruma syntax); NULL: pattern of GPT-2 */
    const char *pattern;
    long vocabulary, least; /* tokens in all; how often a pair must occur */
} BpeTraining;

/* The tokenizer.json, to be freed; NULL after a message or a signal. *tokens: how many it has. */
char *bpe_train(const BpeTraining *training, long *tokens);

#endif
