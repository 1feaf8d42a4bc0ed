#include "model/generate/speech.h"

#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct Speech {
    SpeechRule rule;
    Stream *stream;
    Text held; /* not written yet */
};

bool speech_tokens(Writing writing, const Tokenizer *tokenizer, Encoder *encoder, const char *bytes,
                   size_t length, TokenList *out) {
    if (writing == WRITING_TEXT) {
        const TokenList *before = tokenizer_before(tokenizer);
        tokens_append(out, before->items, before->count);
        return encoder_encode(encoder, bytes, length, 0, out);
    }
    for (size_t i = 0; i < length; i++) tokens_add(out, (unsigned char)bytes[i]);
    return true;
}

Speech *speech_new(const SpeechRule *rule) {
    Speech *speech = memory_new(sizeof *speech);
    speech->rule = *rule;
    return speech;
}

void speech_free(Speech *speech) {
    if (!speech) return;
    stream_free(speech->stream);
    text_free(&speech->held);
    free(speech);
}

bool speech_begin(Speech *speech, const TokenList *prompt) {
    stream_free(speech->stream);
    const SpeechRule *rule = &speech->rule;
    speech->stream = rule->writing == WRITING_TEXT ? stream_new(rule->tokenizer, true) : NULL;
    bool good = true;
    for (size_t i = 0; i < prompt->count && speech->stream && good; i++)
        good = stream_add(speech->stream, prompt->items[i], &speech->held);
    good = good && (!speech->stream || stream_end(speech->stream, &speech->held));
    speech->held.length = 0;
    return good;
}

static bool take(Speech *speech, int32_t token) {
    char number[16], byte = (char)token;
    switch (speech->rule.writing) {
    case WRITING_BYTES:
        text_append(&speech->held, &byte, 1);
        return true;
    case WRITING_TOKENS:
        text_append(&speech->held, number,
                    (size_t)snprintf(number, sizeof number, " %d", (int)token));
        return true;
    default:
        return stream_add(speech->stream, token, &speech->held);
    }
}

/* Offset of the first stop sequence in the held text, or its length. */
static size_t first_stop(const Speech *speech) {
    const Text *held = &speech->held;
    size_t first = held->length;
    for (int i = 0; i < speech->rule.stop_count && held->length; i++) {
        const char *found =
            memmem(held->bytes, held->length, speech->rule.stops[i], strlen(speech->rule.stops[i]));
        if (found && (size_t)(found - held->bytes) < first) first = (size_t)(found - held->bytes);
    }
    return first;
}

/* Number of bytes at the end that may start a stop sequence. */
static size_t maybe_stop(const Speech *speech) {
    const Text *held = &speech->held;
    size_t most = 0;
    for (int i = 0; i < speech->rule.stop_count; i++) {
        size_t length = strlen(speech->rule.stops[i]);
        for (size_t n = length ? length - 1 : 0; n > most; n--)
            if (n <= held->length &&
                memcmp(held->bytes + held->length - n, speech->rule.stops[i], n) == 0)
                most = n;
    }
    return most;
}

static SpeechEnd end_at(const SpeechRule *rule, int32_t token) {
    for (int i = 0; i < rule->stop_count && rule->tokenizer; i++)
        if (tokenizer_find(rule->tokenizer, rule->stops[i], strlen(rule->stops[i])) == token)
            return SPEECH_STOPPED;
    return rule->writing == WRITING_TEXT && !rule->ignore_eos &&
                   tokenizer_is_special(rule->tokenizer, token)
               ? SPEECH_COMPLETE
               : SPEECH_CONTINUES;
}

/* Writes the first `length` bytes of the held text. */
static void write_held(Speech *speech, size_t length, Text *out) {
    Text *held = &speech->held;
    text_append(out, held->bytes, length);
    if (length) memmove(held->bytes, held->bytes + length, held->length - length);
    held->length -= length;
}

bool speech_add(Speech *speech, int32_t token, Text *out, SpeechEnd *end) {
    *end = end_at(&speech->rule, token);
    if (*end) return speech_end(speech, out);
    if (!take(speech, token)) return false;
    size_t stop = first_stop(speech);
    if (stop < speech->held.length) {
        *end = SPEECH_STOPPED;
        write_held(speech, stop, out);
        speech->held.length = 0;
        return true;
    }
    size_t kept = maybe_stop(speech);
    bool inside = speech->rule.writing == WRITING_BYTES && text_ends_inside(&speech->held);
    if (inside && kept < 3) kept = speech->held.length < 3 ? speech->held.length : 3;
    write_held(speech, speech->held.length - kept, out);
    return true;
}

bool speech_end(Speech *speech, Text *out) {
    bool good = !speech->stream || stream_end(speech->stream, &speech->held);
    write_held(speech, first_stop(speech), out);
    return good;
}
