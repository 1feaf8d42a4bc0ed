#include "base/utf8.h"

typedef struct CharacterRange {
    unsigned first, last;
} CharacterRange;

/* Marks above or below the previous character, and invisible joiners. */
static const CharacterRange combining[] = {
    {0x0300, 0x036F}, {0x0483, 0x0489},   {0x0591, 0x05BD},   {0x0610, 0x061A}, {0x064B, 0x065F},
    {0x0900, 0x0902}, {0x093C, 0x093C},   {0x0941, 0x0948},   {0x0E34, 0x0E3A}, {0x0E47, 0x0E4E},
    {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF},   {0x200B, 0x200F},   {0x202A, 0x202E}, {0x2060, 0x2064},
    {0x20D0, 0x20FF}, {0x302A, 0x302D},   {0x3099, 0x309A},   {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F},
    {0xFEFF, 0xFEFF}, {0x1F3FB, 0x1F3FF}, {0xE0000, 0xE0FFF},
};

static const CharacterRange wide[] = {
    {0x1100, 0x115F},   {0x231A, 0x231B},   {0x2329, 0x232A},   {0x23E9, 0x23EC},
    {0x25FD, 0x25FE},   {0x2614, 0x2615},   {0x2648, 0x2653},   {0x26A1, 0x26A1},
    {0x2705, 0x2705},   {0x274C, 0x274C},   {0x2757, 0x2757},   {0x2E80, 0x303E},
    {0x3041, 0x33FF},   {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xA000, 0xA4CF},
    {0xA960, 0xA97F},   {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},
    {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},   {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF},
    {0x1F900, 0x1F9FF}, {0x1FA70, 0x1FAFF}, {0x20000, 0x3FFFD},
};

static int holds(const CharacterRange *ranges, size_t count, unsigned character) {
    for (size_t i = 0; i < count; i++)
        if (character >= ranges[i].first && character <= ranges[i].last) return 1;
    return 0;
}

int utf8_width(unsigned character) {
    if (character < 0x300) return 1;
    if (holds(combining, sizeof combining / sizeof *combining, character)) return 0;
    return 1 + holds(wide, sizeof wide / sizeof *wide, character);
}

int utf8_decode(const char *text, size_t length, unsigned *character) {
    static const unsigned smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *bytes = (const unsigned char *)text;
    if (length == 0) return 0;
    if (bytes[0] < 0x80) {
        *character = bytes[0];
        return 1;
    }
    int size = bytes[0] >= 0xF0 && bytes[0] < 0xF5   ? 4
               : bytes[0] >= 0xE0 && bytes[0] < 0xF0 ? 3
               : bytes[0] >= 0xC2 && bytes[0] < 0xE0 ? 2
                                                     : 0;
    if (size == 0 || (size_t)size > length) return 0;
    unsigned value = bytes[0] & (0x7F >> size);
    for (int i = 1; i < size; i++) {
        if ((bytes[i] & 0xC0) != 0x80) return 0;
        value = value << 6 | (bytes[i] & 0x3F);
    }
    if (value < smallest[size] || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF))
        return 0;
    *character = value;
    return size;
}
