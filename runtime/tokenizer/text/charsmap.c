#include "tokenizer/text/text.h"

#include "base/message.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

struct Charsmap {
    Text table;   /* as in the file: bytes of units, units, texts */
    size_t units; /* number of units, four bytes each from byte 4 */
    size_t texts; /* where the texts begin */
};

/* A grapheme longer than this is looked up character by character. */
enum { GRAPHEME_LIMIT = 6 };

static int base64_value(char c) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *found = c ? strchr(digits, c) : NULL;
    return found ? (int)(found - digits) : -1;
}

static bool decode_base64(const char *base64, Text *out) {
    uint32_t bits = 0;
    int count = 0;
    for (; *base64 && *base64 != '='; base64++) {
        int value = base64_value(*base64);
        if (value < 0) return false;
        bits = bits << 6 | (uint32_t)value;
        count += 6;
        if (count < 8) continue;
        count -= 8;
        char byte = (char)(bits >> count & 0xFF);
        text_append(out, &byte, 1);
    }
    return true;
}

static uint32_t word_at(const Charsmap *map, size_t offset) {
    const unsigned char *at = (const unsigned char *)map->table.bytes + offset;
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

Charsmap *charsmap_read(const char *file, const char *base64) {
    Charsmap *map = memory_new(sizeof *map);
    if (decode_base64(base64, &map->table) && map->table.length >= 4) {
        size_t bytes = word_at(map, 0);
        map->units = bytes / 4;
        map->texts = 4 + bytes;
        if (map->units && bytes % 4 == 0 && bytes <= map->table.length - 4) {
            text_append(&map->table, "", 1); /* terminates the last text even in a damaged file */
            return map;
        }
    }
    charsmap_free(map);
    error_message("download the file again", "%s: 'precompiled_charsmap' is damaged", file);
    return NULL;
}

void charsmap_free(Charsmap *map) {
    if (!map) return;
    text_free(&map->table);
    free(map);
}

/* Units of Darts-clone: a label or a value, and the offset of the next units. */
static size_t unit_offset(uint32_t unit) {
    return (unit >> 10) << ((unit & (1u << 9)) >> 6);
}

/* Replacement of the first entry that is a prefix of the bytes; NULL: none. */
static const char *find_longest_prefix(const Charsmap *map, const char *bytes, size_t length) {
    size_t node = unit_offset(word_at(map, 4));
    for (size_t i = 0; i < length; i++) {
        if (!bytes[i]) return NULL;
        node ^= (unsigned char)bytes[i];
        if (node >= map->units) return NULL;
        uint32_t unit = word_at(map, 4 + 4 * node);
        if ((unit & (1u << 31 | 0xFF)) != (unsigned char)bytes[i]) return NULL;
        node ^= unit_offset(unit);
        if (node >= map->units) return NULL;
        if (unit >> 8 & 1) {
            size_t text = map->texts + (word_at(map, 4 + 4 * node) & 0x7FFFFFFF);
            return text < map->table.length ? map->table.bytes + text : NULL;
        }
    }
    return NULL;
}

size_t charsmap_apply(const Charsmap *map, const char *bytes, size_t length, Text *out,
                      size_t anchored) {
    size_t at = 0, before = out->length, stems = 0;
    while (at < length) {
        size_t grapheme = grapheme_length(bytes + at, length - at), end = at + grapheme;
        const char *found =
            grapheme < GRAPHEME_LIMIT ? find_longest_prefix(map, bytes + at, grapheme) : NULL;
        bool anchor = at < anchored;
        if (found) {
            text_append(out, found, strlen(found));
            at = end;
        }
        while (at < end) {
            size_t taken = (size_t)character_length((unsigned char)bytes[at]);
            found = find_longest_prefix(map, bytes + at, taken);
            text_append(out, found ? found : bytes + at, found ? strlen(found) : taken);
            at += taken;
            if (at <= anchored) stems = out->length - before;
        }
        if (anchor && at > anchored && !stems) stems = out->length - before;
    }
    return stems;
}
