/* read_parts: normalizers, pre-tokenizers, post-processors and decoders of a tokenizer.json.
 * Sequences become flat lists; parts with several functions become several steps. */
#include "tokenizer/internal.h"

#include "abi/json_make.h"
#include "abi/text_find.h"
#include "base/message.h"
#include "base/memory.h"

#include <string.h>

/* The pattern of GPT-2, which ByteLevel uses unless disabled. */
static const char gpt2[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/* Supported types of each part, for error messages. */
static const char *const known_parts[][2] = {
    {"normalizer", "supported: NFC, NFD, NFKC, NFKD, Lowercase, Replace, Prepend, Strip, "
                   "StripAccents, BertNormalizer, Nmt, Precompiled, ByteLevel and Sequence"},
    {"pre_tokenizer",
     "supported: ByteLevel, Metaspace, Split, Digits, Whitespace, WhitespaceSplit, Punctuation, "
     "BertPreTokenizer, CharDelimiterSplit and Sequence"},
    {"post_processor",
     "supported: TemplateProcessing, ByteLevel, BertProcessing, RobertaProcessing and Sequence"},
    {"decoder", "supported: ByteLevel, Metaspace, ByteFallback, Fuse, Strip, Replace, WordPiece, "
                "BPEDecoder and Sequence"},
    {"model", "supported: BPE, Unigram, WordPiece and WordLevel"},
};

bool read_refuse(const Tokenizer *tokenizer, const char *part, const char *what) {
    const char *remedy = "use a tokenizer without it";
    for (size_t i = 0; i < sizeof known_parts / sizeof known_parts[0]; i++)
        if (strcmp(known_parts[i][0], part) == 0) remedy = known_parts[i][1];
    return error_message(remedy, "%s: the %s '%s' is not supported", tokenizer->name, part, what);
}

bool read_damaged(const Tokenizer *tokenizer, const char *part) {
    return error_message("download the file again", "%s: %s is malformed", tokenizer->name, part);
}

const char *read_type(const json_t *part) {
    const char *type = json_field_text(part, "type");
    return type ? type : "";
}

bool read_text(const json_t *part, const char *key, Text *out) {
    const json_t *value = json_object_get(part, key);
    if (!json_is_string(value)) return false;
    text_append(out, json_string_value(value), json_string_length(value));
    return true;
}

bool read_flag(const json_t *part, const char *key, bool otherwise) {
    const json_t *value = json_object_get(part, key);
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

/* The first character of a member, or `otherwise`. */
static int32_t read_character(const json_t *part, const char *key, int32_t otherwise) {
    const char *text = json_field_text(part, key);
    int taken;
    return text && *text ? character_at(text, &taken) : otherwise;
}

/* {"String": "x"} or {"Regex": "x"}. NULL after a message. */
static Pattern *read_pattern(const Tokenizer *tokenizer, const json_t *part) {
    const json_t *pattern = json_object_get(part, "pattern");
    const json_t *string = json_object_get(pattern, "String");
    const json_t *expression = json_object_get(pattern, "Regex");
    if (json_is_string(string) && json_string_length(string))
        return pattern_of_string(json_string_value(string), json_string_length(string));
    if (json_is_string(expression))
        return pattern_of_expression(tokenizer->name, json_string_value(expression),
                                     json_string_length(expression), WORD_ONIGURUMA);
    read_damaged(tokenizer, "a 'pattern'");
    return NULL;
}

static Normaliser *add_normaliser(Tokenizer *tokenizer, NormaliserKind kind) {
    NormaliserList *list = &tokenizer->normalisers;
    list->items = memory_grow(list->items, sizeof *list->items * (size_t)(list->count + 1));
    list->items[list->count] = (Normaliser){.kind = kind};
    return &list->items[list->count++];
}

static void add_form(Tokenizer *tokenizer, NormalForm form) {
    add_normaliser(tokenizer, NORMALISE_FORM)->form = form;
}

static void add_bert(Tokenizer *tokenizer, const json_t *part) {
    bool lower = read_flag(part, "lowercase", true);
    if (read_flag(part, "clean_text", true)) add_normaliser(tokenizer, NORMALISE_CLEAN);
    if (read_flag(part, "handle_chinese_chars", true))
        add_normaliser(tokenizer, NORMALISE_IDEOGRAPHS);
    if (read_flag(part, "strip_accents", lower)) {
        add_form(tokenizer, FORM_NFD);
        add_normaliser(tokenizer, NORMALISE_NONSPACING);
    }
    if (lower) add_normaliser(tokenizer, NORMALISE_LOWER);
}

static bool add_replace(Tokenizer *tokenizer, const json_t *part) {
    Normaliser *step = add_normaliser(tokenizer, NORMALISE_REPLACE);
    if (!read_text(part, "content", &step->content))
        return read_damaged(tokenizer, "the normalizer 'Replace'");
    step->pattern = read_pattern(tokenizer, part);
    return step->pattern != NULL;
}

static bool add_charsmap(Tokenizer *tokenizer, const json_t *part) {
    const char *map = json_field_text(part, "precompiled_charsmap");
    Normaliser *step = add_normaliser(tokenizer, NORMALISE_CHARSMAP);
    if (!map) return read_damaged(tokenizer, "'precompiled_charsmap'");
    step->charsmap = charsmap_read(tokenizer->name, map);
    return step->charsmap != NULL;
}

/* All parts of a sequence with a function. */
static bool read_sequence(Tokenizer *tokenizer, const json_t *list,
                          bool (*read)(Tokenizer *, const json_t *)) {
    size_t i;
    json_t *part;
    if (!json_is_array(list)) return read_damaged(tokenizer, "a 'Sequence'");
    json_array_foreach(list, i, part) if (!read(tokenizer, part)) return false;
    return true;
}

static bool is_type(const char *type, const char *name) {
    return strcmp(type, name) == 0;
}

bool read_normalisers(Tokenizer *tokenizer, const json_t *part) {
    static const char *const forms[] = {"NFC", "NFD", "NFKC", "NFKD"};
    if (!part || json_is_null(part)) return true;
    const char *type = read_type(part);
    const int form = text_find(forms, 4, type);
    if (is_type(type, "Sequence"))
        return read_sequence(tokenizer, json_object_get(part, "normalizers"), read_normalisers);
    if (is_type(type, "Replace")) return add_replace(tokenizer, part);
    if (is_type(type, "Precompiled")) return add_charsmap(tokenizer, part);
    if (form >= 0) {
        add_form(tokenizer, (NormalForm)form);
    } else if (is_type(type, "BertNormalizer")) {
        add_bert(tokenizer, part);
    } else if (is_type(type, "Lowercase")) {
        add_normaliser(tokenizer, NORMALISE_LOWER);
    } else if (is_type(type, "StripAccents")) {
        add_normaliser(tokenizer, NORMALISE_ACCENTS);
    } else if (is_type(type, "Nmt")) {
        add_normaliser(tokenizer, NORMALISE_NMT);
    } else if (is_type(type, "ByteLevel")) {
        add_normaliser(tokenizer, NORMALISE_BYTES);
    } else if (is_type(type, "Strip")) {
        Normaliser *step = add_normaliser(tokenizer, NORMALISE_STRIP);
        step->left = read_flag(part, "strip_left", true);
        step->right = read_flag(part, "strip_right", true);
    } else if (is_type(type, "Prepend")) {
        return read_text(part, "prepend", &add_normaliser(tokenizer, NORMALISE_PREPEND)->content) ||
               read_damaged(tokenizer, "the normalizer 'Prepend'");
    } else {
        return read_refuse(tokenizer, "normalizer", type);
    }
    return true;
}

static Splitter *add_splitter(Tokenizer *tokenizer, SplitterKind kind, Behaviour behaviour) {
    SplitterList *list = &tokenizer->splitters;
    list->items = memory_grow(list->items, sizeof *list->items * (size_t)(list->count + 1));
    list->items[list->count] = (Splitter){.kind = kind, .behaviour = behaviour};
    return &list->items[list->count++];
}

static bool add_expression(Tokenizer *tokenizer, const char *expression, WordClass word,
                           Behaviour behaviour, bool inverted) {
    Splitter *step = add_splitter(tokenizer, SPLIT_PATTERN, behaviour);
    step->inverted = inverted;
    step->pattern = pattern_of_expression(tokenizer->name, expression, strlen(expression), word);
    return step->pattern != NULL;
}

static void add_class_splitter(Tokenizer *tokenizer, bool (*class)(int32_t), Behaviour behaviour) {
    add_splitter(tokenizer, SPLIT_CHARACTER, behaviour)->class = class;
}

static bool read_behaviour(const Tokenizer *tokenizer, const json_t *part, Behaviour *behaviour) {
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous"};
    const char *name = json_field_text(part, "behavior");
    const int which = name ? text_find(names, 5, name) : -1;
    if (which >= 0) *behaviour = (Behaviour)which;
    return !name || which >= 0 || read_refuse(tokenizer, "behavior", name);
}

static bool add_byte_level(Tokenizer *tokenizer, const json_t *part) {
    if (read_flag(part, "add_prefix_space", true)) {
        Splitter *step = add_splitter(tokenizer, SPLIT_SPACES, BEHAVIOUR_ISOLATED);
        step->prefix = PREFIX_ALWAYS;
        text_append(&step->replacement, " ", 1);
    }
    if (read_flag(part, "use_regex", true) &&
        !add_expression(tokenizer, gpt2, WORD_ONIGURUMA, BEHAVIOUR_ISOLATED, false))
        return false;
    add_splitter(tokenizer, SPLIT_LETTERS, BEHAVIOUR_ISOLATED);
    return true;
}

/* When the replacement of spaces is added before a text. Older files use a flag. */
static bool read_prefix(const Tokenizer *tokenizer, const json_t *part, Prefix *prefix) {
    static const char *const names[] = {"never", "first", "always"};
    const char *name = json_field_text(part, "prepend_scheme");
    *prefix = read_flag(part, "add_prefix_space", true) ? PREFIX_ALWAYS : PREFIX_NEVER;
    const int which = name ? text_find(names, 3, name) : -1;
    if (which >= 0) *prefix = (Prefix)which;
    return !name || which >= 0 || read_refuse(tokenizer, "prepend_scheme", name);
}

static bool add_metaspace(Tokenizer *tokenizer, const json_t *part) {
    int32_t character = read_character(part, "replacement", 0x2581);
    Splitter *step = add_splitter(tokenizer, SPLIT_SPACES, BEHAVIOUR_ISOLATED);
    text_append_character(&step->replacement, character);
    if (!read_prefix(tokenizer, part, &step->prefix)) return false;
    if (read_flag(part, "split", true))
        add_splitter(tokenizer, SPLIT_CHARACTER, BEHAVIOUR_WITH_NEXT)->character = character;
    return true;
}

static bool add_split(Tokenizer *tokenizer, const json_t *part) {
    Splitter *step = add_splitter(tokenizer, SPLIT_PATTERN, BEHAVIOUR_REMOVED);
    step->inverted = read_flag(part, "invert", false);
    step->pattern = read_pattern(tokenizer, part);
    return step->pattern && read_behaviour(tokenizer, part, &step->behaviour);
}

bool read_splitters(Tokenizer *tokenizer, const json_t *part) {
    if (!part || json_is_null(part)) return true;
    const char *type = read_type(part);
    if (is_type(type, "Sequence"))
        return read_sequence(tokenizer, json_object_get(part, "pretokenizers"), read_splitters);
    if (is_type(type, "ByteLevel")) return add_byte_level(tokenizer, part);
    if (is_type(type, "Metaspace")) return add_metaspace(tokenizer, part);
    if (is_type(type, "Split")) return add_split(tokenizer, part);
    if (is_type(type, "Whitespace"))
        return add_expression(tokenizer, "\\w+|[^\\w\\s]+", WORD_RUST, BEHAVIOUR_REMOVED, true);
    if (is_type(type, "Punctuation")) {
        Behaviour behaviour = BEHAVIOUR_ISOLATED;
        if (!read_behaviour(tokenizer, part, &behaviour)) return false;
        add_class_splitter(tokenizer, character_is_punctuation, behaviour);
    } else if (is_type(type, "WhitespaceSplit")) {
        add_class_splitter(tokenizer, character_is_space, BEHAVIOUR_REMOVED);
    } else if (is_type(type, "BertPreTokenizer")) {
        add_class_splitter(tokenizer, character_is_space, BEHAVIOUR_REMOVED);
        add_class_splitter(tokenizer, character_is_punctuation, BEHAVIOUR_ISOLATED);
    } else if (is_type(type, "Digits")) {
        bool single = read_flag(part, "individual_digits", false);
        add_class_splitter(tokenizer, character_is_numeric,
                           single ? BEHAVIOUR_ISOLATED : BEHAVIOUR_CONTIGUOUS);
    } else if (is_type(type, "CharDelimiterSplit")) {
        add_splitter(tokenizer, SPLIT_CHARACTER, BEHAVIOUR_REMOVED)->character =
            read_character(part, "delimiter", -1);
    } else {
        return read_refuse(tokenizer, "pre_tokenizer", type);
    }
    return true;
}

/* Whether there are such tokens is seen when all are known. */
static bool add_token_id(const Tokenizer *tokenizer, const json_t *id, TokenList *list) {
    json_int_t number = json_is_integer(id) ? json_integer_value(id) : -1;
    if (number < 0 || number >= TOKEN_LIMIT) return read_damaged(tokenizer, "'post_processor'");
    tokens_add(list, (int32_t)number);
    return true;
}

static bool add_ids(const Tokenizer *tokenizer, const json_t *ids, TokenList *list) {
    size_t i;
    json_t *id;
    if (!json_is_array(ids)) return read_damaged(tokenizer, "'special_tokens'");
    json_array_foreach(ids, i, id) if (!add_token_id(tokenizer, id, list)) return false;
    return true;
}

static void put_before(Tokenizer *tokenizer, TokenList tokens) {
    tokens_append(&tokens, tokenizer->before.items, tokenizer->before.count);
    tokens_free(&tokenizer->before);
    tokenizer->before = tokens;
}

/* Tokens before and after the text in the template of one sequence. */
static bool add_template(Tokenizer *tokenizer, const json_t *part) {
    size_t i;
    json_t *piece;
    int sequences = 0;
    TokenList before = {0};
    json_array_foreach(json_object_get(part, "single"), i, piece) {
        const json_t *special = json_object_get(piece, "SpecialToken");
        sequences += json_object_get(piece, "Sequence") != NULL;
        if (!special) continue;
        const char *id = json_field_text(special, "id");
        const json_t *token =
            json_object_get(json_object_get(part, "special_tokens"), id ? id : "");
        if (!add_ids(tokenizer, json_object_get(token, "ids"),
                     sequences ? &tokenizer->after : &before)) {
            tokens_free(&before);
            return false;
        }
    }
    put_before(tokenizer, before);
    return sequences == 1 ||
           read_refuse(tokenizer, "template", "a template without exactly one text");
}

/* ["[SEP]", 102] of the processors of BERT and RoBERTa. */
static bool add_bert_template(Tokenizer *tokenizer, const json_t *part) {
    const json_t *cls = json_array_get(json_object_get(part, "cls"), 1);
    const json_t *sep = json_array_get(json_object_get(part, "sep"), 1);
    TokenList before = {0};
    bool good =
        add_token_id(tokenizer, cls, &before) && add_token_id(tokenizer, sep, &tokenizer->after);
    put_before(tokenizer, before);
    return good;
}

bool read_processors(Tokenizer *tokenizer, const json_t *part) {
    if (!part || json_is_null(part)) return true;
    const char *type = read_type(part);
    if (is_type(type, "ByteLevel")) return true; /* moves offsets alone */
    if (is_type(type, "Sequence"))
        return read_sequence(tokenizer, json_object_get(part, "processors"), read_processors);
    if (is_type(type, "TemplateProcessing")) return add_template(tokenizer, part);
    if (is_type(type, "BertProcessing") || is_type(type, "RobertaProcessing"))
        return add_bert_template(tokenizer, part);
    return read_refuse(tokenizer, "post_processor", type);
}

static DecoderStep *add_decoder(Tokenizer *tokenizer, DecoderKind kind) {
    DecoderList *list = &tokenizer->decoders;
    list->items = memory_grow(list->items, sizeof *list->items * (size_t)(list->count + 1));
    list->items[list->count] = (DecoderStep){.kind = kind};
    return &list->items[list->count++];
}

static bool add_decoder_metaspace(Tokenizer *tokenizer, const json_t *part) {
    Prefix prefix;
    DecoderStep *step = add_decoder(tokenizer, DECODE_METASPACE);
    step->character = read_character(part, "replacement", 0x2581);
    if (!read_prefix(tokenizer, part, &prefix)) return false;
    step->keeps_first = prefix == PREFIX_NEVER;
    return true;
}

static bool add_decoder_replace(Tokenizer *tokenizer, const json_t *part) {
    DecoderStep *step = add_decoder(tokenizer, DECODE_REPLACE);
    if (!read_text(part, "content", &step->content))
        return read_damaged(tokenizer, "the decoder 'Replace'");
    step->pattern = read_pattern(tokenizer, part);
    return step->pattern != NULL;
}

static void add_decoder_strip(Tokenizer *tokenizer, const json_t *part) {
    DecoderStep *step = add_decoder(tokenizer, DECODE_STRIP);
    step->character = read_character(part, "content", ' ');
    step->start = (long)json_integer_value(json_object_get(part, "start"));
    step->stop = (long)json_integer_value(json_object_get(part, "stop"));
}

bool read_decoders(Tokenizer *tokenizer, const json_t *part) {
    if (!part || json_is_null(part)) return true;
    tokenizer->decoders.present = true;
    const char *type = read_type(part);
    if (is_type(type, "Sequence"))
        return read_sequence(tokenizer, json_object_get(part, "decoders"), read_decoders);
    if (is_type(type, "Metaspace")) return add_decoder_metaspace(tokenizer, part);
    if (is_type(type, "Replace")) return add_decoder_replace(tokenizer, part);
    if (is_type(type, "Strip")) {
        add_decoder_strip(tokenizer, part);
    } else if (is_type(type, "ByteLevel")) {
        add_decoder(tokenizer, DECODE_BYTE_LEVEL);
    } else if (is_type(type, "ByteFallback")) {
        add_decoder(tokenizer, DECODE_BYTE_FALLBACK);
    } else if (is_type(type, "Fuse")) {
        add_decoder(tokenizer, DECODE_FUSE);
    } else if (is_type(type, "WordPiece")) {
        DecoderStep *step = add_decoder(tokenizer, DECODE_WORDPIECE);
        step->cleanup = read_flag(part, "cleanup", true);
        if (!read_text(part, "prefix", &step->content)) text_append(&step->content, "##", 2);
    } else if (is_type(type, "BPEDecoder")) {
        DecoderStep *step = add_decoder(tokenizer, DECODE_BPE);
        if (!read_text(part, "suffix", &step->content)) text_append(&step->content, "</w>", 4);
    } else {
        return read_refuse(tokenizer, "decoder", type);
    }
    return true;
}
