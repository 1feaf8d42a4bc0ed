#!/usr/bin/env python3
"""Writes runtime/tokenizer/text/characters_table.h: differences between the tokenizers library and a Unicode library.

    python3 tests/tokenizer/characters.py > runtime/tokenizer/text/characters_table.h

Parts of the tokenizers library use Unicode 8, others 9, 12, 16 and 17. A model was trained with these versions, so its texts must be
split the same way. Needs the tokenizers library (0.23) and a Python whose unicodedata is Unicode 14.
"""
import unicodedata
from tokenizers import Regex, normalizers, pre_tokenizers

CHARACTERS = [c for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000]
CATEGORY = {c: unicodedata.category(chr(c)) for c in CHARACTERS}
SCRIPTS = """Adlam Ahom Anatolian_Hieroglyphs Arabic Armenian Avestan Balinese Bamum Bassa_Vah Batak Bengali Bhaiksuki Bopomofo
Brahmi Braille Buginese Buhid Canadian_Aboriginal Carian Caucasian_Albanian Chakma Cham Cherokee Chorasmian Common Coptic
Cuneiform Cypriot Cypro_Minoan Cyrillic Deseret Devanagari Dives_Akuru Dogra Duployan Egyptian_Hieroglyphs Elbasan Elymaic
Ethiopic Georgian Glagolitic Gothic Grantha Greek Gujarati Gunjala_Gondi Gurmukhi Han Hangul Hanifi_Rohingya Hanunoo Hatran
Hebrew Hiragana Imperial_Aramaic Inherited Inscriptional_Pahlavi Inscriptional_Parthian Javanese Kaithi Kannada Katakana
Kayah_Li Kharoshthi Khitan_Small_Script Khmer Khojki Khudawadi Lao Latin Lepcha Limbu Linear_A Linear_B Lisu Lycian Lydian
Mahajani Makasar Malayalam Mandaic Manichaean Marchen Masaram_Gondi Medefaidrin Meetei_Mayek Mende_Kikakui Meroitic_Cursive
Meroitic_Hieroglyphs Miao Modi Mongolian Mro Multani Myanmar Nabataean Nandinagari New_Tai_Lue Newa Nko Nushu
Nyiakeng_Puachue_Hmong Ogham Ol_Chiki Old_Hungarian Old_Italic Old_North_Arabian Old_Permic Old_Persian Old_Sogdian
Old_South_Arabian Old_Turkic Old_Uyghur Oriya Osage Osmanya Pahawh_Hmong Palmyrene Pau_Cin_Hau Phags_Pa Phoenician
Psalter_Pahlavi Rejang Runic Samaritan Saurashtra Sharada Shavian Siddham SignWriting Sinhala Sogdian Sora_Sompeng Soyombo
Sundanese Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Takri Tamil Tangsa Tangut Telugu Thaana Thai Tibetan
Tifinagh Tirhuta Toto Ugaritic Vai Vithkuqi Wancho Warang_Citi Yezidi Yi Zanabazar_Square""".split()
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Cf".split()


def removed_by(splitter, characters):
    """The characters that a splitter removes."""
    gone = set()
    for start in range(0, len(characters), 2000):
        block = characters[start:start + 2000]
        kept = set()
        for piece, _ in splitter.pre_tokenize_str("".join(map(chr, block))):
            kept.update(piece)
        gone.update(c for c in block if chr(c) not in kept)
    return gone


def emptied_by(normalizer):
    return {c for c in CHARACTERS if normalizer.normalize_str(chr(c)) == ""}


def ranges(characters):
    found = []
    for c in sorted(characters):
        if found and found[-1][1] == c - 1:
            found[-1][1] = c
        else:
            found.append([c, c])
    return found


def table(name, comment, characters):
    print(f"/* {comment} */")
    print(f"static const CodepointRange {name}[] = {{")
    line = "   "
    for first, last in ranges(characters):
        entry = f" {{0x{first:X}, 0x{last:X}}},"
        if len(line) + len(entry) > 100:
            print(line)
            line = "   "
        line += entry
    print(line)
    print("};\n")


def newer(names, unknown):
    """The characters of `unknown` with a property, by its name."""
    return {name: removed_by(pre_tokenizers.Split(Regex(r"\p{%s}" % name), "removed"), unknown) for name in names}


def print_newer(name, what, found):
    print(f"/* Characters of Unicode 15 and 16 with their {what}, in order. */\nstatic const Newer {name}[] = {{")
    rows = [(first, last, word) for word in found for first, last in ranges(found[word])]
    for first, last, word in sorted(rows):
        print(f'    {{{{0x{first:X}, 0x{last:X}}}, "{word.replace("_", "")}"}},')
    print("};\n")


def left_alone():
    """Characters that the normalization treats as letters without decomposition and without reordering."""
    found = set()
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        normalizer = getattr(normalizers, form)()
        found |= {c for c in CHARACTERS if normalizer.normalize_str(chr(c)) == chr(c) != unicodedata.normalize(form, chr(c))}
    normalizer = normalizers.NFD()
    for c in CHARACTERS:
        if unicodedata.combining(chr(c)) > 1 and normalizer.normalize_str(f"a{chr(c)}\u0334") == f"a{chr(c)}\u0334":
            found.add(c)
    return found


def main():
    print("/* characters_table: where the tokenizers library sees characters otherwise than a Unicode\n"
          " * library of today: parts of it know Unicode 8, others 9, 12, 16 or 17. Written by\n * tests/tokenizer/characters.py. */")
    print("typedef struct Newer {\n    CodepointRange range;\n    const char *property;\n} Newer;\n")
    additions = newer(CATEGORIES, [c for c in CHARACTERS if CATEGORY[c] == "Cn"])
    print_newer("newer_characters", "categories", additions)
    print_newer("newer_scripts", "scripts", newer(SCRIPTS, sorted(set().union(*additions.values()))))
    punctuation = removed_by(pre_tokenizers.Punctuation("removed"), CHARACTERS)
    table("not_punctuation", "Punctuation that the splitter of punctuation does not know.",
          {c for c in CHARACTERS if CATEGORY[c][0] == "P"} - punctuation)
    nonspacing = emptied_by(normalizers.BertNormalizer(False, False, True, False))
    table("not_nonspacing", "Marks that stay when BertNormalizer strips accents.",
          {c for c in CHARACTERS if CATEGORY[c] == "Mn"} - nonspacing)
    marks = emptied_by(normalizers.StripAccents())
    table("not_mark", "Marks that stay when StripAccents strips accents.",
          {c for c in CHARACTERS if CATEGORY[c][0] == "M"} - marks)
    control = emptied_by(normalizers.BertNormalizer(True, False, False, False))
    table("not_control", "Formatting characters that BertNormalizer keeps when it cleans.",
          {c for c in CHARACTERS if CATEGORY[c] in ("Cc", "Cf", "Co")} - control - {9, 10, 13})
    table("not_normalised", "Characters that normalisation takes for plain letters.", left_alone())


main()
