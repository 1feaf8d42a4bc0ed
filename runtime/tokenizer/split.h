/* split: the steps that cut a text into the pieces that the model sees ("pre_tokenizer"). */
#ifndef TOKENIZER_SPLIT_H
#define TOKENIZER_SPLIT_H

#include "tokenizer/text/text.h"

/* A stretch of a text. */
typedef struct Piece {
    size_t start, length;
    int32_t token;  /* of an added token; -1: text for the model */
    bool first;     /* begins where the whole text begins */
    bool continues; /* continues an earlier encoded text */
} Piece;

typedef struct PieceList {
    Piece *items;
    size_t count, capacity;
} PieceList;

/* The list stores offsets; the bytes are not copied. */
void pieces_add(PieceList *list, Piece piece);
void pieces_free(PieceList *list);

/* Handling of the matches of a splitter. */
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
    SPLIT_LETTERS    /* no split: each byte is replaced by its letter */
} SplitterKind;

typedef enum Prefix { PREFIX_NEVER, PREFIX_FIRST, PREFIX_ALWAYS } Prefix;

typedef struct Splitter {
    SplitterKind kind;
    Behaviour behaviour;
    bool inverted; /* matches are the gaps between matches of the pattern */
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

/* Frees the items and the array. */
void splitters_free(SplitterList *list);

/* Scratch of one thread. */
typedef struct TextSpan {
    size_t start, end;
    bool match;
} TextSpan;

typedef struct SplitWork {
    Matcher *matcher;
    TextSpan *spans;
    size_t count, capacity;
} SplitWork;

/* Applies one step to pieces of `bytes`. The result refers to `bytes` or, if the step changes the
 * text, to the bytes appended to `out`. False after a message. */
bool split_pieces(const Splitter *splitter, SplitWork *work, const char *bytes,
                  const PieceList *pieces, Text *out, PieceList *result);
static inline bool splitter_changes(const Splitter *splitter) {
    return splitter->kind == SPLIT_SPACES || splitter->kind == SPLIT_LETTERS;
}

#endif
