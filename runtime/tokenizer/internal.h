/* internal: declarations that only files of this folder use. */
#ifndef TOKENIZER_INTERNAL_H
#define TOKENIZER_INTERNAL_H

#include "tokenizer/detokenize.h"
#include "tokenizer/normalise.h"
#include "tokenizer/split.h"
#include "tokenizer/text/dictionary.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary.h"

#include <jansson.h>

/* added: added tokens, matched before the text is split. */

typedef struct AddedToken {
    char *content;
    size_t length;
    Text shown; /* text to match and to write; normalized if `normalised` */
    int32_t token;
    bool single_word;             /* not inside a word */
    bool takes_left, takes_right; /* adjacent white space belongs to the token */
    bool normalised;              /* matched in the normalized text */
    bool special;
} AddedToken;

/* Added tokens matched in the original text, or in the normalized text. */
typedef struct AddedSet {
    Trie trie;       /* numbers: indices in `all` */
    bool first[256]; /* bytes that some of them begin with */
    const AddedToken *all;
    Pattern *word; /* \w, for tokens that must be whole words */
} AddedSet;

/* The first of equal contents counts. */
void added_put(AddedSet *set, const char *bytes, size_t length, int32_t number);
/* Appends the pieces of bytes[start..start + length). */
void added_split(const AddedSet *set, Matcher *matcher, const char *bytes, const Piece *whole,
                 PieceList *result);

/* parts: components of a tokenizer. */

struct Tokenizer {
    char *name, *json;
    size_t json_length;
    NormaliserList normalisers;
    SplitterList splitters;
    Vocabulary vocabulary;
    AddedToken *added;
    int added_count;
    AddedSet plain, normalised;
    Dictionary added_numbers; /* contents */
    int32_t *added_of;        /* [size]: index in `added` of a token, or -1 */
    int32_t size;
    TokenList before, after;
    DecoderList decoders;
};

/* The string of a token; bytes NULL: there is none. */
Name tokenizer_name(const Tokenizer *tokenizer, int32_t token);

/* Calls `each` for the pieces of a text that the model would see. False after a message. */
bool encoder_split(Encoder *encoder, const char *bytes, size_t length,
                   void (*each)(void *context, const char *bytes, size_t length), void *context);
/* Whether the token is written at all. */
bool tokenizer_shows(const Tokenizer *tokenizer, int32_t token, bool skip_special);
/* Appends the strings of the tokens that are written. */
void tokenizer_strings(const Tokenizer *tokenizer, const int32_t *tokens, size_t count,
                       bool skip_special, Strings *strings);

/* read: the parts of a tokenizer.json. Each function returns false after a message. */

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

/* cut: positions where a text can be split without a change of its tokens. */

/* A position in bytes[0..length), as late as possible but not in the last half; 0 if there is
 * none. */
size_t cut_find(Encoder *encoder, const char *bytes, size_t length);
/* The end of the last whole character. */
size_t cut_character(const char *bytes, size_t length);

#endif
