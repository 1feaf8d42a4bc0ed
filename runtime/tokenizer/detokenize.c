#include "tokenizer/detokenize.h"

#include "base/memory.h"
#include "tokenizer/normalise.h"

#include <stdlib.h>
#include <string.h>

void decoders_free(DecoderList *list) {
    for (int i = 0; i < list->count; i++) {
        pattern_free(list->items[i].pattern);
        text_free(&list->items[i].content);
    }
    free(list->items);
    *list = (DecoderList){0};
}

void strings_end(Strings *strings) {
    if (strings->count == strings->capacity) {
        strings->capacity = strings->capacity ? 2 * strings->capacity : 64;
        strings->ends = memory_grow(strings->ends, sizeof *strings->ends * strings->capacity);
    }
    strings->ends[strings->count++] = strings->text.length;
}

void strings_free(Strings *strings) {
    text_free(&strings->text);
    free(strings->ends);
    *strings = (Strings){0};
}

static size_t string_start(const Strings *strings, size_t i) {
    return i ? strings->ends[i - 1] : 0;
}

/* Appends the bytes that byte-level letters encode, or the string itself if it contains another
 * character. */
static void add_bytes_of(const char *bytes, size_t length, Text *out) {
    size_t before = out->length;
    for (size_t i = 0; i < length;) {
        int taken, byte = byte_of_letter(character_at(bytes + i, &taken));
        if (byte < 0) {
            out->length = before;
            text_append(out, bytes, length);
            return;
        }
        char value = (char)byte;
        text_append(out, &value, 1);
        i += (size_t)taken;
    }
}

static void decode_byte_level(const Strings *in, Strings *out) {
    AUTO(Text) raw = {0};
    for (size_t i = 0; i < in->count; i++)
        add_bytes_of(in->text.bytes + string_start(in, i), in->ends[i] - string_start(in, i), &raw);
    text_append_valid(&out->text, raw.bytes, raw.length);
    strings_end(out);
}

/* A run of bytes: text if it is UTF-8 as a whole, else U+FFFD for each. */
static void flush_byte_run(Text *run, Strings *out) {
    if (!run->length) return;
    AUTO(Text) valid = {0};
    if (text_append_valid(&valid, run->bytes, run->length) == 0) {
        text_append(&out->text, run->bytes, run->length);
        strings_end(out);
    } else {
        for (size_t i = 0; i < run->length; i++) {
            text_append_character(&out->text, 0xFFFD);
            strings_end(out);
        }
    }
    run->length = 0;
}

/* The byte of "<0x41>", or -1. */
static int byte_of_name(const char *bytes, size_t length) {
    if (length != 6 || memcmp(bytes, "<0x", 3) != 0 || bytes[5] != '>') return -1;
    int value = 0;
    for (int i = 3; i < 5; i++) {
        char c = bytes[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                           : -1;
        if (i == 3 && c == '+') digit = 0; /* numbers may have a sign there */
        if (digit < 0) return -1;
        value = 16 * value + digit;
    }
    return value;
}

static void byte_fallback(const Strings *in, Strings *out) {
    AUTO(Text) run = {0};
    for (size_t i = 0; i < in->count; i++) {
        const char *bytes = in->text.bytes + string_start(in, i);
        size_t length = in->ends[i] - string_start(in, i);
        int value = byte_of_name(bytes, length);
        if (value >= 0) {
            char byte = (char)value;
            text_append(&run, &byte, 1);
            continue;
        }
        flush_byte_run(&run, out);
        text_append(&out->text, bytes, length);
        strings_end(out);
    }
    flush_byte_run(&run, out);
}

static void metaspace(const DecoderStep *step, const char *bytes, size_t length, bool first,
                      Text *out) {
    for (size_t i = 0; i < length;) {
        int taken;
        if (character_at(bytes + i, &taken) != step->character)
            text_append(out, bytes + i, (size_t)taken);
        else if (!first || step->keeps_first)
            text_append(out, " ", 1);
        i += (size_t)taken;
    }
}

static void decode_strip(const DecoderStep *step, const char *bytes, size_t length, Text *out) {
    size_t start = 0, end = length;
    int taken;
    for (long i = 0; i < step->start && start < end; i++) {
        if (character_at(bytes + start, &taken) != step->character) break;
        start += (size_t)taken;
    }
    for (long i = 0; i < step->stop && end > start; i++) {
        size_t before = character_before(bytes, end);
        if (character_at(bytes + before, &taken) != step->character) break;
        end = before;
    }
    text_append(out, bytes + start, end - start);
}

/* original: bytes of all strings before all steps. */
static bool decode_replace(const DecoderStep *step, Matcher *matcher, size_t original,
                           const char *bytes, size_t length, Text *out) {
    const Text *content = &step->content;
    size_t at = 0, start, end;
    Found found = FOUND_MATCH;
    bool fits = true;
    while (fits && (found = pattern_find(step->pattern, matcher, bytes, length, at, &start,
                                         &end)) == FOUND_MATCH) {
        text_append(out, bytes + at, start - at);
        text_append(out, content->bytes, content->length);
        at = end;
        fits = growth_allowed(original, out->length);
    }
    text_append(out, bytes + at, length - at);
    return fits && found != FOUND_FAILED;
}

/* Replaces a string from left to right. */
static void replace_all(Text *text, const char *from, const char *to) {
    size_t length = strlen(from), at = 0;
    if (!text->length || !memmem(text->bytes, text->length, from, length)) return;
    Text changed = {0};
    while (at < text->length) {
        const char *found = memmem(text->bytes + at, text->length - at, from, length);
        size_t end = found ? (size_t)(found - text->bytes) : text->length;
        text_append(&changed, text->bytes + at, end - at);
        if (found) text_append(&changed, to, strlen(to));
        at = found ? end + length : end;
    }
    text_free(text);
    *text = changed;
}

static void wordpiece(const DecoderStep *step, const char *bytes, size_t length, bool first,
                      Text *out) {
    static const char *const cleanups[][2] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    const Text *prefix = &step->content;
    AUTO(Text) word = {0};
    bool goes_on = length >= prefix->length && prefix->length &&
                   memcmp(bytes, prefix->bytes, prefix->length) == 0;
    if (!first && !goes_on && prefix->length) text_append(&word, " ", 1);
    size_t cut = !first && goes_on ? prefix->length : 0;
    text_append(&word, bytes + cut, length - cut);
    for (size_t i = 0; step->cleanup && i < sizeof cleanups / sizeof cleanups[0]; i++)
        replace_all(&word, cleanups[i][0], cleanups[i][1]);
    text_append(out, word.bytes, word.length);
}

/* The suffix that ends words becomes a space, the last one nothing. */
static void end_words(const DecoderStep *step, const char *bytes, size_t length, bool last,
                      Text *out) {
    const Text *suffix = &step->content;
    for (size_t at = 0; at < length;) {
        bool ends = suffix->length && length - at >= suffix->length &&
                    memcmp(bytes + at, suffix->bytes, suffix->length) == 0;
        text_append(out, ends ? " " : bytes + at, ends && last ? 0 : 1);
        at += ends ? suffix->length : 1;
    }
}

/* Steps that process each string separately. */
static bool change_strings(const DecoderStep *step, Matcher *matcher, size_t original,
                           const Strings *in, Strings *out) {
    bool good = true;
    for (size_t i = 0; i < in->count && good; i++) {
        const char *bytes = in->text.bytes + string_start(in, i);
        size_t length = in->ends[i] - string_start(in, i);
        if (step->kind == DECODE_METASPACE)
            metaspace(step, bytes, length, i == 0, &out->text);
        else if (step->kind == DECODE_STRIP)
            decode_strip(step, bytes, length, &out->text);
        else if (step->kind == DECODE_WORDPIECE)
            wordpiece(step, bytes, length, i == 0, &out->text);
        else if (step->kind == DECODE_BPE)
            end_words(step, bytes, length, i + 1 == in->count, &out->text);
        else
            good = decode_replace(step, matcher, original, bytes, length, &out->text);
        strings_end(out);
    }
    return good;
}

static bool apply_decoding(const DecoderStep *step, Matcher *matcher, size_t original,
                           const Strings *in, Strings *out) {
    switch (step->kind) {
    case DECODE_BYTE_LEVEL:
        decode_byte_level(in, out);
        return true;
    case DECODE_BYTE_FALLBACK:
        byte_fallback(in, out);
        return true;
    case DECODE_FUSE:
        text_append(&out->text, in->text.bytes, in->text.length);
        strings_end(out);
        return true;
    default:
        return change_strings(step, matcher, original, in, out);
    }
}

bool decode_strings(const DecoderList *list, Matcher *matcher, Strings *strings, Text *out) {
    Strings other = {0};
    const size_t original = strings->text.length;
    bool good = true;
    for (int i = 0; i < list->count && good; i++) {
        other.text.length = other.count = 0;
        good = apply_decoding(&list->items[i], matcher, original, strings, &other) &&
               growth_allowed(original, other.text.length);
        Strings kept = *strings;
        *strings = other;
        other = kept;
    }
    for (size_t i = 0; i < strings->count && good; i++) {
        if (i && !list->present) text_append(out, " ", 1);
        text_append(out, strings->text.bytes + string_start(strings, i),
                    strings->ends[i] - string_start(strings, i));
    }
    strings_free(&other);
    return good;
}

bool decode_waits(const DecoderList *list, const Strings *strings) {
    size_t last = strings->count ? string_start(strings, strings->count - 1) : 0;
    for (int i = 0; i < list->count && strings->count; i++) {
        if (list->items[i].kind == DECODE_BYTE_FALLBACK &&
            byte_of_name(strings->text.bytes + last, strings->text.length - last) >= 0)
            return true;
        if (list->items[i].kind != DECODE_BYTE_LEVEL) continue;
        AUTO(Text) raw = {0};
        for (size_t k = 0; k < strings->count; k++)
            add_bytes_of(strings->text.bytes + string_start(strings, k),
                         strings->ends[k] - string_start(strings, k), &raw);
        return text_ends_inside(&raw);
    }
    return false;
}

bool decode_alone(const DecoderList *list, Matcher *matcher, const Name *name, Text *out) {
    int byte = byte_of_name(name->bytes, name->length);
    for (int i = 0; i < list->count; i++) {
        if (list->items[i].kind == DECODE_BYTE_LEVEL) {
            add_bytes_of(name->bytes, name->length, out);
            return true;
        }
        if (list->items[i].kind == DECODE_BYTE_FALLBACK && byte >= 0) {
            char value = (char)byte;
            text_append(out, &value, 1);
            return true;
        }
    }
    /* After a letter, whose text is removed again. */
    AUTO(Strings) strings = {0};
    AUTO(Text) before = {0};
    text_append(&strings.text, "a", 1);
    strings_end(&strings);
    text_append(&strings.text, name->bytes, name->length);
    strings_end(&strings);
    bool good = decode_strings(list, matcher, &strings, &before);
    if (good && before.length) text_append(out, before.bytes + 1, before.length - 1);
    return good;
}
