/* test_portable: the tokenizer of a standalone folder encodes and decodes as the tokenizer of
 * moec. */
#include "base/files.h"
#include "base/memory.h"
#include "tokenizer/tokenizer.h"

#include "../../runtime/standalone/lexicon.c"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const texts[] = {
    "",
    "Hello world, don't I'LL 'S x's",
    " The  cat\n\n\n sat\ton 1234567 mats...  \r\n\r\n  x   ",
    "<|endoftext|>a<s> <|endoftext|>",
    ("Zo\xC3\xAB \xE6\xBC\xA2\xE5\xAD\x97\xE3\x81\x8B\xE3\x81\xAA \xF0\x9F\x98\x80\xF0\x9F\x98\x80 "
     "\xD9\xA3\xD9\xA4 \xC2\xBD\xE2\x85\xA7 \xEF\xAC\x81"),
    "camelCase HTTPServer snake_case //path/to !!! \"#$% e\xCC\x81 '\xC5\xBF",
};

/* The same tokens, and bytes that equal the text. */
static bool hold(const Tokenizer *tokenizer, const Lexicon *lexicon, const char *text,
                 const char *name) {
    Encoder *encoder = encoder_new(tokenizer);
    TokenList expected = {0};
    int32_t *tokens;
    const TokenList *before = tokenizer_before(tokenizer);
    tokens_append(&expected, before->items, before->count);
    encoder_encode(encoder, text, strlen(text), 0, &expected);
    long count = lexicon_encode(lexicon, text, &tokens);
    bool ok = count == (long)expected.count &&
                (!count || memcmp(tokens, expected.items, sizeof *tokens * expected.count) == 0);
    if (!ok) {
        printf("%s: '%s'\n", name, text);
        for (size_t i = 0; i < expected.count; i++) printf(" %d", expected.items[i]);
        printf("\n");
        for (long i = 0; i < count; i++) printf(" %d", tokens[i]);
        printf("\n");
    }
    Text written = {0}, whole = {0};
    for (long i = 0; i < count; i++) {
        size_t length;
        const char *bytes = lexicon_text(lexicon, tokens[i], &length);
        text_append(&written, bytes, length);
    }
    tokenizer_decode(tokenizer, expected.items, expected.count, true, &whole);
    if (written.length != whole.length ||
        (whole.length && memcmp(written.bytes, whole.bytes, whole.length) != 0)) {
        printf("%s: '%s' is written '%.*s'\n", name, text, (int)written.length, written.bytes);
        ok = false;
    }
    free(tokens);
    tokens_free(&expected);
    text_free(&written);
    text_free(&whole);
    encoder_free(encoder);
    return ok;
}

static bool hold_kind(const char *kind, bool encodes) {
    char *path = memory_format("tests/tokenizer/fixtures/%s.json", kind);
    char file[] = "/tmp/moec_lexicon_XXXXXX";
    Tokenizer *tokenizer = tokenizer_open(path);
    Text out = {0};
    const char *why;
    Lexicon *lexicon = NULL;
    bool found = portable_write(tokenizer, &out, &why);
    bool ok = found == encodes && close(mkstemp(file)) == 0 &&
                file_write(file, out.bytes, out.length) && lexicon_open(&lexicon, file) == 0 &&
                lexicon_encodes(lexicon) == encodes;
    if (!ok) printf("%s: %s\n", kind, found ? "encodes" : why);
    for (size_t i = 0; encodes && ok && i < sizeof texts / sizeof texts[0]; i++)
        ok = hold(tokenizer, lexicon, texts[i], kind);
    lexicon_free(lexicon);
    /* A truncated table or one with a changed byte is rejected or read, without other effects. */
    for (size_t i = 0; ok && i < out.length; i += 1 + out.length / 97) {
        char kept = out.bytes[i];
        out.bytes[i] ^= 0x41;
        ok = file_write(file, out.bytes, i % 2 ? i : out.length);
        out.bytes[i] = kept;
        int32_t *tokens = NULL;
        if (lexicon_open(&lexicon, file) == 0) lexicon_encode(lexicon, texts[1], &tokens);
        free(tokens);
        lexicon_free(lexicon);
        lexicon = NULL;
    }
    unlink(file);
    text_free(&out);
    tokenizer_close(tokenizer);
    free(path);
    return ok;
}

int main(void) {
    static const struct {
        const char *name;
        bool encodes;
    } kinds[] = {{"gpt2", true},    {"llama3", true}, {"o200k", true}, {"roberta", false},
                 {"llama2", false}, {"gemma", false}, {"bert", false}, {"t5", false}};
    bool ok = true;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        ok = hold_kind(kinds[i].name, kinds[i].encodes) && ok;
    return !ok;
}
