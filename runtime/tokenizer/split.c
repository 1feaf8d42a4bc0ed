#include "tokenizer/split.h"

#include "base/memory.h"
#include "tokenizer/normalise.h"

#include <stdlib.h>
#include <string.h>

void pieces_add(PieceList *list, Piece piece) {
    if (list->count == list->capacity) {
        list->capacity = list->capacity ? 2 * list->capacity : 64;
        list->items = memory_grow(list->items, sizeof *list->items * list->capacity);
    }
    list->items[list->count++] = piece;
}

void pieces_free(PieceList *list) {
    free(list->items);
    *list = (PieceList){0};
}

void splitters_free(SplitterList *list) {
    for (int i = 0; i < list->count; i++) {
        pattern_free(list->items[i].pattern);
        text_free(&list->items[i].replacement);
    }
    free(list->items);
    *list = (SplitterList){0};
}

static void add_text_span(SplitWork *work, size_t start, size_t end, bool match) {
    if (start == end) return;
    if (work->count == work->capacity) {
        work->capacity = work->capacity ? 2 * work->capacity : 64;
        work->spans = memory_grow(work->spans, sizeof *work->spans * work->capacity);
    }
    work->spans[work->count++] = (TextSpan){start, end, match};
}

/* The stretches of a text that match and those between, in order. */
static bool find_pattern(const Splitter *splitter, SplitWork *work, const char *bytes,
                         size_t length) {
    size_t at = 0, start, end;
    Found found;
    while ((found = pattern_find(splitter->pattern, work->matcher, bytes, length, at, &start,
                                 &end)) == FOUND_MATCH) {
        add_text_span(work, at, start, splitter->inverted);
        add_text_span(work, start, end, !splitter->inverted);
        at = end;
    }
    add_text_span(work, at, length, splitter->inverted);
    return found != FOUND_FAILED;
}

static void find_characters(const Splitter *splitter, SplitWork *work, const char *bytes,
                            size_t length) {
    size_t at = 0, from = 0;
    while (at < length) {
        int taken;
        int32_t c = character_at(bytes + at, &taken);
        size_t end = at + (size_t)taken;
        if (splitter->class ? splitter->class(c) : c == splitter->character) {
            add_text_span(work, from, at, false);
            add_text_span(work, at, end, true);
            from = end;
        }
        at = end;
    }
    add_text_span(work, from, length, false);
}

/* True if a span joins the piece of the previous span. */
static bool joins(Behaviour behaviour, const TextSpan *before, const TextSpan *span) {
    switch (behaviour) {
    case BEHAVIOUR_WITH_PREVIOUS:
        return span->match && !before->match;
    case BEHAVIOUR_WITH_NEXT: /* processed from the right: a match joins the following span, once */
        return before->match && !span->match;
    case BEHAVIOUR_CONTIGUOUS:
        return span->match == before->match;
    default:
        return false;
    }
}

/* Spans to pieces, those of matches that are removed left out. */
static void add_pieces(const Splitter *splitter, const SplitWork *work, const Piece *whole,
                       PieceList *result) {
    bool open = false;
    for (size_t i = 0; i < work->count; i++) {
        const TextSpan *span = &work->spans[i];
        if (splitter->behaviour == BEHAVIOUR_REMOVED && span->match) {
            open = false;
            continue;
        }
        if (open && joins(splitter->behaviour, span - 1, span)) {
            result->items[result->count - 1].length += span->end - span->start;
            continue;
        }
        bool begins = span->start == 0;
        pieces_add(result, (Piece){whole->start + span->start, span->end - span->start, -1,
                                   begins && whole->first, begins && whole->continues});
        open = true;
    }
}

/* Spaces replaced, and the replacement in front. */
static void replace_spaces(const Splitter *splitter, const char *bytes, const Piece *piece,
                           Text *out) {
    const Text *replacement = &splitter->replacement;
    const char *at = bytes + piece->start, *end = at + piece->length;
    bool has = *at == ' ' || (piece->length >= replacement->length &&
                              memcmp(at, replacement->bytes, replacement->length) == 0);
    bool wanted =
        splitter->prefix == PREFIX_ALWAYS || (splitter->prefix == PREFIX_FIRST && piece->first);
    if (wanted && !has && !piece->continues)
        text_append(out, replacement->bytes, replacement->length);
    while (at < end) {
        const char *space = memchr(at, ' ', (size_t)(end - at));
        text_append(out, at, (size_t)((space ? space : end) - at));
        if (space) text_append(out, replacement->bytes, replacement->length);
        at = space ? space + 1 : end;
    }
}

/* A step that changes the text; added tokens keep their offsets, which are no longer used. */
static void change_pieces(const Splitter *splitter, const char *bytes, const PieceList *pieces,
                          Text *out, PieceList *result) {
    for (size_t i = 0; i < pieces->count; i++) {
        Piece piece = pieces->items[i];
        size_t start = out->length;
        if (piece.token < 0 && splitter->kind == SPLIT_SPACES)
            replace_spaces(splitter, bytes, &piece, out);
        else if (piece.token < 0)
            text_append_letters(out, bytes + piece.start, piece.length);
        piece.start = start;
        piece.length = out->length - start;
        pieces_add(result, piece);
    }
}

bool split_pieces(const Splitter *splitter, SplitWork *work, const char *bytes,
                  const PieceList *pieces, Text *out, PieceList *result) {
    result->count = 0;
    if (splitter_changes(splitter)) {
        change_pieces(splitter, bytes, pieces, out, result);
        return true;
    }
    for (size_t i = 0; i < pieces->count; i++) {
        const Piece *piece = &pieces->items[i];
        if (piece->token >= 0) {
            pieces_add(result, *piece);
            continue;
        }
        work->count = 0;
        if (splitter->kind == SPLIT_CHARACTER)
            find_characters(splitter, work, bytes + piece->start, piece->length);
        else if (!find_pattern(splitter, work, bytes + piece->start, piece->length))
            return false;
        add_pieces(splitter, work, piece, result);
    }
    return true;
}
