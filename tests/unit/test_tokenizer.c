/* test_tokenizer: tokens and texts compared with those of the tokenizers library.
 *
 *     test_tokenizer                                          the files of tests/tokenizer/fixtures
 *     test_tokenizer compare TOKENIZER EXPECTED [TEXT]        files of tests/tokenizer/compare.py;
 * the
 *                                                             speed of both
 */
#include "base/files.h"
#include "base/memory.h"
#include "base/clock.h"
#include "data/random.h"
#include "model/generate/speech.h"
#include "tokenizer/tokenizer.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Bytes {
    const unsigned char *at, *end;
} Bytes;

static uint32_t read_number(Bytes *bytes) {
    uint32_t value = 0;
    if (bytes->end - bytes->at < 4) return 0;
    memcpy(&value, bytes->at, 4);
    bytes->at += 4;
    return value;
}

/* Numbers or bytes of `width`, and their count. */
static const void *take(Bytes *bytes, size_t width, size_t *count) {
    *count = read_number(bytes);
    const void *start = bytes->at;
    bytes->at += *count * width;
    return start;
}

typedef struct Tally {
    const char *name;
    size_t strings, bytes, different;
    double seconds;
} Tally;

static void differ(Tally *tally, const char *what, const void *text, size_t length) {
    if (tally->different++ > 4) return;
    printf("%s: %s of string %zu:", tally->name, what, tally->strings);
    for (size_t i = 0; i < length && i < 120; i++)
        printf(" %02x", ((const unsigned char *)text)[i]);
    printf("\n");
}

static void print_tokens(const char *what, const int32_t *tokens, size_t count) {
    printf("  %s", what);
    for (size_t i = 0; i < count && i < 60; i++) printf(" %d", tokens[i]);
    printf("\n");
}

static void hold_tokens(Encoder *encoder, Tally *tally, const char *text, size_t length, int flags,
                        Bytes *bytes, TokenList *tokens) {
    size_t count;
    const void *expected = take(bytes, sizeof(int32_t), &count);
    tokens->count = 0;
    double began = seconds_now();
    bool ok = encoder_encode(encoder, text, length, flags, tokens);
    if (flags) tally->seconds += seconds_now() - began;
    if (ok && tokens->count == count &&
        (!count || memcmp(tokens->items, expected, sizeof(int32_t) * count) == 0))
        return;
    differ(tally, flags ? "tokens with the template" : "tokens", text, length);
    int32_t *aligned = memory_new(sizeof *aligned * (count + 1));
    memcpy(aligned, expected, sizeof *aligned * count);
    print_tokens("wanted", aligned, count);
    print_tokens("got   ", tokens->items, tokens->count);
    free(aligned);
}

/* At once, and token by token: no part ends inside a character. */
static void hold_text(const Tokenizer *tokenizer, Tally *tally, const TokenList *tokens, bool skip,
                      Bytes *bytes) {
    size_t length;
    const void *expected = take(bytes, 1, &length);
    Text whole = {0}, parts = {0}, valid = {0};
    Stream *stream = stream_new(tokenizer, skip);
    bool ok = tokenizer_decode(tokenizer, tokens->items, tokens->count, skip, &whole);
    for (size_t i = 0; i < tokens->count && tokens->count < 500; i++) {
        size_t before = parts.length;
        ok = ok && stream_add(stream, tokens->items[i], &parts);
        valid.length = 0;
        ok = ok && !text_append_valid(&valid, parts.bytes + before, parts.length - before);
    }
    if (tokens->count < 500)
        ok = stream_end(stream, &parts) && ok;
    else
        text_append(&parts, whole.bytes, whole.length);
    if (!ok || whole.length != length || (length && memcmp(whole.bytes, expected, length) != 0)) {
        differ(tally, "text", expected, length);
        differ(tally, "  got", whole.bytes, whole.length);
    } else if (parts.length != length || (length && memcmp(parts.bytes, expected, length) != 0)) {
        differ(tally, "text in parts", expected, length);
        differ(tally, "  got", parts.bytes, parts.length);
    }
    stream_free(stream);
    text_free(&whole);
    text_free(&parts);
    text_free(&valid);
}

static bool hold_file(const char *tokenizer_path, const char *expected_path, Tally *tally) {
    Tokenizer *tokenizer = tokenizer_open(tokenizer_path);
    Mapping mapping;
    if (!tokenizer || !file_map(expected_path, NULL, &mapping)) return false;
    Bytes bytes = {mapping.bytes, mapping.bytes + mapping.length};
    Encoder *encoder = encoder_new(tokenizer);
    TokenList tokens = {0}, plain = {0};
    tally->name = strrchr(tokenizer_path, '/') ? strrchr(tokenizer_path, '/') + 1 : tokenizer_path;
    for (uint32_t left = read_number(&bytes); left; left--, tally->strings++) {
        size_t length;
        const char *text = take(&bytes, 1, &length);
        tally->bytes += length;
        hold_tokens(encoder, tally, text, length, ENCODE_SPECIAL, &bytes, &tokens);
        hold_tokens(encoder, tally, text, length, 0, &bytes, &plain);
        hold_text(tokenizer, tally, &tokens, false, &bytes);
        hold_text(tokenizer, tally, &tokens, true, &bytes);
    }
    tokens_free(&tokens);
    tokens_free(&plain);
    encoder_free(encoder);
    file_unmap(&mapping);
    tokenizer_close(tokenizer);
    return tally->different == 0;
}

/* Damaged copies of a file are rejected or read; a tokenizer that is read encodes. */
static void try_broken(const char *path, int copies) {
    static const char *const others[] = {"null", "0", "-1", "\"\"", "[]", "{}", "1e9"};
    Mapping mapping;
    if (!file_map(path, NULL, &mapping)) return;
    for (int i = 0; i < copies; i++) {
        Text copy = {0};
        text_append(&copy, (const char *)mapping.bytes, mapping.length);
        size_t at = (size_t)(random_uniform(7, (uint64_t)i) * (double)mapping.length);
        const char *other = others[i % 7];
        char *colon = memchr(copy.bytes + at, ':', copy.length - at);
        if (colon && copy.bytes + copy.length - colon > 20)
            memcpy(colon + 1, other, strlen(other));
        else
            copy.bytes[at] = '"';
        Tokenizer *tokenizer = tokenizer_read(path, copy.bytes, copy.length);
        Encoder *encoder = tokenizer ? encoder_new(tokenizer) : NULL;
        TokenList tokens = {0};
        Text text = {0};
        if (encoder) encoder_encode(encoder, "Hello <s> 12 \xE6\xBC\xA2 x", 18, 1, &tokens);
        if (tokenizer) tokenizer_decode(tokenizer, tokens.items, tokens.count, false, &text);
        encoder_free(encoder);
        tokenizer_close(tokenizer);
        tokens_free(&tokens);
        text_free(&text);
        text_free(&copy);
    }
    file_unmap(&mapping);
}

static double speed(const char *tokenizer_path, const char *text_path) {
    Tokenizer *tokenizer = tokenizer_open(tokenizer_path);
    Mapping mapping;
    if (!tokenizer || !file_map(text_path, NULL, &mapping)) return 0;
    Encoder *encoder = encoder_new(tokenizer);
    TokenList tokens = {0};
    double began = seconds_now();
    for (int part = 0; part < 3; part++)
        encoder_encode(encoder, (const char *)mapping.bytes + mapping.length / 3 * (size_t)part,
                       mapping.length / 3, ENCODE_SPECIAL, &tokens);
    double rate = (double)mapping.length / (seconds_now() - began) / 1e6;
    tokens_free(&tokens);
    encoder_free(encoder);
    file_unmap(&mapping);
    tokenizer_close(tokenizer);
    return rate;
}

static int compare(int count, char **arguments) {
    Tally tally = {0};
    bool ok = hold_file(arguments[2], arguments[3], &tally);
    printf("%zu different of %zu  ours %6.1f %6.1f\n", tally.different, tally.strings,
           (double)tally.bytes / tally.seconds / 1e6,
           count > 4 ? speed(arguments[2], arguments[4]) : 0.0);
    return !ok;
}

/* The continuation of a prompt starts with its space. A stop sequence is never printed, and its
 * beginning is if the text ends there. */
typedef struct SpeechCase {
    const char *text, *expected;
    bool ignore_eos;
    SpeechEnd end;
} SpeechCase;

static bool hold_speech(const SpeechCase *speech_case) {
    static const char *const stops[] = {"mat."};
    Tokenizer *tokenizer = tokenizer_open("tests/tokenizer/fixtures/llama2.json");
    Encoder *encoder = encoder_new(tokenizer);
    Speech *speech = speech_new(&(SpeechRule){.writing = WRITING_TEXT,
                                              .tokenizer = tokenizer,
                                              .stops = stops,
                                              .stop_count = 1,
                                              .ignore_eos = speech_case->ignore_eos});
    TokenList prompt = {0}, rest = {0};
    Text out = {0};
    SpeechEnd end = SPEECH_CONTINUES;
    bool ok = encoder_encode(encoder, "The cat \xF0\x9F\x98\x80", 12, ENCODE_SPECIAL, &prompt) &&
              encoder_encode(encoder, speech_case->text, strlen(speech_case->text),
                             ENCODE_CONTINUES, &rest) &&
              speech_begin(speech, &prompt);
    for (size_t i = 0; i < rest.count && ok && !end; i++)
        ok = speech_add(speech, rest.items[i], &out, &end);
    if (ok && !end) ok = speech_end(speech, &out);
    text_append(&out, "", 1);
    ok = ok && end == speech_case->end && !strcmp(out.bytes, speech_case->expected);
    if (!ok) printf("speech: '%s', end %d\n", out.bytes, end);
    tokens_free(&prompt);
    tokens_free(&rest);
    text_free(&out);
    speech_free(speech);
    encoder_free(encoder);
    tokenizer_close(tokenizer);
    return ok;
}

static bool hold_speeches(void) {
    static const SpeechCase cases[] = {
        {" sat on a mat. x", " sat on a ", false, SPEECH_STOPPED},
        {" sat on a ma<s> x", " sat on a ma", false, SPEECH_COMPLETE},
        {" sat<s> on", " sat  on", true, SPEECH_CONTINUES},
    };
    bool ok = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) ok = hold_speech(&cases[i]) && ok;
    return ok;
}

/* Decoders that each double a text are stopped before they exhaust the memory. */
static bool hold_growth(void) {
    const char *step = "{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, "
                       "\"content\": \"aa\"}, ";
    Text file = {0}, text = {0};
    const char *head = "{\"model\": {\"type\": \"WordLevel\", \"vocab\": {\"a\": 0}, "
                       "\"unk_token\": \"a\"}, \"decoder\": {\"type\": \"Sequence\", "
                       "\"decoders\": [";
    text_append(&file, head, strlen(head));
    for (int i = 0; i < 40; i++) text_append(&file, step, strlen(step) - (i == 39 ? 2 : 0));
    text_append(&file, "]}}", 3);
    Tokenizer *tokenizer = tokenizer_read("doubling", file.bytes, file.length);
    const int32_t token = 0;
    bool ok = tokenizer && !tokenizer_decode(tokenizer, &token, 1, false, &text);
    if (!ok) printf("decoders that double a text 40 times are not stopped\n");
    tokenizer_close(tokenizer);
    text_free(&file);
    text_free(&text);
    return ok;
}

int main(int count, char **arguments) {
    if (count > 3 && strcmp(arguments[1], "compare") == 0) return compare(count, arguments);
    glob_t found = {0};
    glob("tests/tokenizer/fixtures/*.json", 0, NULL, &found);
    bool ok = found.gl_pathc > 9 && hold_speeches() && hold_growth();
    for (size_t i = 0; i < found.gl_pathc; i++) {
        Tally tally = {0};
        char *expected =
            memory_format("%.*s.expected", (int)strlen(found.gl_pathv[i]) - 5, found.gl_pathv[i]);
        ok = hold_file(found.gl_pathv[i], expected, &tally) && tally.strings && ok;
        try_broken(found.gl_pathv[i], 30);
        free(expected);
    }
    globfree(&found);
    return !ok;
}
