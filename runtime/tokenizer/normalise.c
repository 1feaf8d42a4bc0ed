#include "tokenizer/normalise.h"

#include "base/message.h"

#include <stdlib.h>
#include <string.h>

void normalisers_free(NormaliserList *list) {
    for (int i = 0; i < list->count; i++) {
        pattern_free(list->items[i].pattern);
        charsmap_free(list->items[i].charsmap);
        text_free(&list->items[i].content);
    }
    free(list->items);
    *list = (NormaliserList){0};
}

/* Bytes that byte-level encoding keeps; the others map to letters from U+0100 on, in order. */
static bool stands_for_itself(int byte) {
    return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

int32_t letter_of_byte(unsigned char byte) {
    if (stands_for_itself(byte)) return byte;
    if (byte <= ' ') return 0x100 + byte;
    return byte == 0xAD ? 0x143 : 0x121 + (byte - 0x7F); /* 0x7F..0xA0 */
}

int byte_of_letter(int32_t letter) {
    if (letter < 0x100) return stands_for_itself(letter) ? letter : -1;
    if (letter <= 0x120) return letter - 0x100;
    if (letter <= 0x142) return letter - 0x121 + 0x7F;
    return letter == 0x143 ? 0xAD : -1;
}

void text_append_letters(Text *text, const char *bytes, size_t length) {
    for (size_t i = 0; i < length; i++)
        text_append_character(text, letter_of_byte((unsigned char)bytes[i]));
}

/* SentencePiece's nmt rules: removed characters and characters that become spaces. */
static bool nmt_drops(int32_t c) {
    return (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F ||
           c == 0x9F;
}

static bool nmt_spaces(int32_t c) {
    return c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
           (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
           c == 0xFEFF || c == 0xFFFD;
}

static bool clean_drops(int32_t c) {
    bool kept = c == '\t' || c == '\n' || c == '\r';
    return c == 0 || c == 0xFFFD || (!kept && character_is_control(c));
}

/* Maps one character to up to three; returns their number. */
static int change_character(NormaliserKind kind, int32_t c, int32_t out[3]) {
    out[0] = c;
    switch (kind) {
    case NORMALISE_LOWER:
        return character_lower(c, out);
    case NORMALISE_ACCENTS:
        return character_is_mark(c) ? 0 : 1;
    case NORMALISE_NONSPACING:
        return character_is_nonspacing(c) ? 0 : 1;
    case NORMALISE_CLEAN:
        if (character_is_space(c)) out[0] = ' ';
        return clean_drops(c) ? 0 : 1;
    case NORMALISE_NMT:
        if (nmt_spaces(c)) out[0] = ' ';
        return nmt_drops(c) ? 0 : 1;
    case NORMALISE_IDEOGRAPHS:
        if (!character_is_ideograph(c)) return 1;
        out[0] = ' ';
        out[1] = c;
        out[2] = ' ';
        return 3;
    default:
        return 1;
    }
}

bool growth_allowed(size_t from, size_t to) {
    enum { FACTOR = 64, SLACK = 1 << 16 };
    return to <= SLACK || (to - SLACK) / FACTOR <= from ||
           error_message(
               "use another tokenizer.json: these normalization steps expand their own output",
               "the tokenizer expands a text of %zu bytes by more than a factor of %d", from,
               FACTOR);
}

/* One step from `in` to `out`. anchored: bytes at the beginning that stem from the first character
 * of the text; none are left when it went away. */
typedef struct NormalizerRun {
    const Normaliser *normaliser;
    Matcher *matcher;
    const Text *in;
    Text *out;
    size_t anchored;
    bool continues;
    size_t original; /* bytes of the text before all steps */
} NormalizerRun;

/* Steps that look at each character alone. */
static size_t change_all(const NormalizerRun *step) {
    const Text *in = step->in;
    size_t anchored = 0;
    for (size_t i = 0; i < in->length;) {
        int taken;
        int32_t changed[3], c = character_at(in->bytes + i, &taken);
        int count = change_character(step->normaliser->kind, c, changed);
        for (int k = 0; k < count; k++) text_append_character(step->out, changed[k]);
        i += (size_t)taken;
        if (i <= step->anchored) anchored = step->out->length;
    }
    return anchored;
}

static size_t normalize_strip(const NormalizerRun *step) {
    const Text *in = step->in;
    size_t start = 0, end = in->length;
    int taken;
    while (step->normaliser->left && start < end &&
           character_is_space(character_at(in->bytes + start, &taken)))
        start += (size_t)taken;
    while (step->normaliser->right && end > start) {
        size_t before = character_before(in->bytes, end);
        if (!character_is_space(character_at(in->bytes + before, &taken))) break;
        end = before;
    }
    text_append(step->out, in->bytes + start, end - start);
    return step->anchored > start ? step->anchored - start : 0;
}

/* The first character of the result derives from the first character of the text. This extends as
 * far as the result is independent of the rest of the text: combining marks can be reordered. */
static size_t take_form(const NormalizerRun *step) {
    AUTO(Text) alone = {0};
    const Text *in = step->in, *out = step->out;
    text_append_normal(&alone, in->bytes, step->anchored, step->normaliser->form);
    text_append_normal(step->out, in->bytes, in->length, step->normaliser->form);
    size_t anchored = 0;
    while (step->anchored && anchored < out->length) {
        size_t taken = (size_t)character_length((unsigned char)out->bytes[anchored]);
        bool same = anchored + taken <= alone.length &&
                    memcmp(out->bytes + anchored, alone.bytes + anchored, taken) == 0;
        if (anchored && !same) break;
        anchored += taken;
        if (!same) break;
    }
    return anchored;
}

/* failed: after a message. */
static size_t normalize_replace(const NormalizerRun *step, bool *failed) {
    const Text *in = step->in, *content = &step->normaliser->content;
    size_t at = 0, start, end, anchored = step->anchored;
    Found found = FOUND_MATCH;
    bool fits = true;
    while (fits && (found = pattern_find(step->normaliser->pattern, step->matcher, in->bytes,
                                         in->length, at, &start, &end)) == FOUND_MATCH) {
        text_append(step->out, in->bytes + at, start - at);
        text_append(step->out, content->bytes, content->length);
        at = end;
        if (start == 0) anchored = content->length;
        fits = growth_allowed(step->original, step->out->length);
    }
    *failed = !fits || found == FOUND_FAILED;
    text_append(step->out, in->bytes + at, in->length - at);
    return anchored;
}

static size_t apply_normalizer(const NormalizerRun *step, bool *failed) {
    const Text *in = step->in, *content = &step->normaliser->content;
    switch (step->normaliser->kind) {
    case NORMALISE_FORM:
        return take_form(step);
    case NORMALISE_STRIP:
        return normalize_strip(step);
    case NORMALISE_REPLACE:
        return normalize_replace(step, failed);
    case NORMALISE_PREPEND:
        if (!step->continues) text_append(step->out, content->bytes, content->length);
        text_append(step->out, in->bytes, in->length);
        return step->anchored ? step->anchored + step->out->length - in->length : 0;
    case NORMALISE_BYTES:
        text_append_letters(step->out, in->bytes, in->length);
        return step->anchored;
    case NORMALISE_CHARSMAP:
        return charsmap_apply(step->normaliser->charsmap, in->bytes, in->length, step->out,
                              step->anchored);
    default:
        return change_all(step);
    }
}

bool normalise(const NormaliserList *list, Matcher *matcher, Text *text, Text *spare,
               bool continues, bool *begins) {
    bool failed = false;
    const size_t original = text->length;
    size_t anchored = text->length ? (size_t)character_length((unsigned char)*text->bytes) : 0;
    for (int i = 0; i < list->count && text->length && !failed; i++) {
        spare->length = 0;
        const NormalizerRun step = {&list->items[i], matcher,   text,    spare,
                                    anchored,        continues, original};
        anchored = apply_normalizer(&step, &failed);
        failed = failed || !growth_allowed(original, spare->length);
        Text kept = *text;
        *text = *spare;
        *spare = kept;
    }
    *begins = anchored > 0;
    return !failed;
}
