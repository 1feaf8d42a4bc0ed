/* split: the steps that cut a text into the pieces that the model sees ("pre_tokenizer"). */
#ifndef TOKENIZER_SPLIT_H
#define TOKENIZER_SPLIT_H

#include "tokenizer/text/pattern.h"

/* A stretch of a text. */
typedef struct Piece {
    size_t start, length;
    int32_t token;  /* of an added token; -1: text for the model */
    bool first;     /* begins where the whole text begins */
    bool continues; /* goes on from a text that was encoded before */
} Piece;

typedef struct PieceList {
    Piece *items;
    size_t count, capacity;
} PieceList;

/* The bytes of a piece stay where they are: the list holds places. */
void pieces_add(PieceList *list, Piece piece);
void pieces_free(PieceList *list);

/* What becomes of the matches of a splitter. */
typedef enum Behaviour {
    BEHAVIOUR_REMOVED,
    BEHAVIOUR_ISOLATED,
    BEHAVIOUR_WITH_PREVIOUS,
    BEHAVIOUR_WITH_NEXT,
    BEHAVIOUR_CONTIGUOUS
} Behaviour;

typedef enum SplitterKind {
    SPLIT_PATTERN,   /* at the matches of a pattern */
    SPLIT_CHARACTER, /* at one character, or at those of a class */
    SPLIT_SPACES,    /* no split: spaces become `replacement`, which is put before the text, too */
    SPLIT_LETTERS    /* no split: each byte becomes the letter that stands for it */
} SplitterKind;

typedef enum Prefix { PREFIX_NEVER, PREFIX_FIRST, PREFIX_ALWAYS } Prefix;

typedef struct Splitter {
    SplitterKind kind;
    Behaviour behaviour;
    bool inverted; /* the matches are what lies between those of the pattern */
    Pattern *pattern;
    bool (*class)(int32_t character);
    int32_t character; /* where class is NULL */
    Text replacement;
    Prefix prefix;
} Splitter;

typedef struct SplitterList {
    Splitter *items;
    int count;
} SplitterList;

/* Releases what the items own, and the array. */
void splitters_free(SplitterList *list);

/* Scratch of one thread. */
typedef struct Span {
    size_t start, end;
    bool match;
} Span;

typedef struct SplitWork {
    Matcher *matcher;
    Span *spans;
    size_t count, capacity;
} SplitWork;

/* One step: pieces of `bytes` to pieces of the same bytes, or, when the step changes the text, of
 * what is appended to `out`. False after a message. */
bool split_pieces(const Splitter *splitter, SplitWork *work, const char *bytes,
                  const PieceList *pieces, Text *out, PieceList *result);
static inline bool splitter_changes(const Splitter *splitter) {
    return splitter->kind == SPLIT_SPACES || splitter->kind == SPLIT_LETTERS;
}

#endif
