/* stream: incremental decoding. A window of tokens is decoded again with each new token; the added
 * text is returned unless it ends inside a character. */
#include "tokenizer/internal.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

struct Stream {
    const Tokenizer *tokenizer;
    bool skip_special;
    Matcher *matcher;
    TokenList tokens; /* the window: tokens that are written */
    size_t given;     /* how many of them are out; at least one once there was one */
    Text before;      /* the text of those */
};

Stream *stream_new(const Tokenizer *tokenizer, bool skip_special) {
    Stream *stream = memory_new(sizeof *stream);
    stream->tokenizer = tokenizer;
    stream->skip_special = skip_special;
    stream->matcher = matcher_new();
    return stream;
}

void stream_free(Stream *stream) {
    if (!stream) return;
    matcher_free(stream->matcher);
    tokens_free(&stream->tokens);
    text_free(&stream->before);
    free(stream);
}

/* Appends the text of the tokens after `given`, and removes earlier ones from the window. */
static bool append_new_text(Stream *stream, bool all, Text *out) {
    const DecoderList *decoders = &stream->tokenizer->decoders;
    AUTO(Strings) strings = {0};
    AUTO(Text) now = {0};
    tokenizer_strings(stream->tokenizer, stream->tokens.items, stream->tokens.count,
                      stream->skip_special, &strings);
    bool good = true;
    if (all || !decode_waits(decoders, &strings)) {
        good = decode_strings(decoders, stream->matcher, &strings, &now);
        if (now.length > stream->before.length)
            text_append(out, now.bytes + stream->before.length, now.length - stream->before.length);
        size_t kept = stream->tokens.count - stream->given;
        memmove(stream->tokens.items, stream->tokens.items + stream->given,
                sizeof *stream->tokens.items * kept);
        stream->tokens.count = stream->given = kept;
        stream->before.length = 0;
        good = good && tokenizer_decode(stream->tokenizer, stream->tokens.items, kept,
                                        stream->skip_special, &stream->before);
    }
    return good;
}

bool stream_add(Stream *stream, int32_t token, Text *out) {
    if (!tokenizer_shows(stream->tokenizer, token, stream->skip_special)) return true;
    tokens_add(&stream->tokens, token);
    return append_new_text(stream, false, out);
}

bool stream_end(Stream *stream, Text *out) {
    return stream->given == stream->tokens.count || append_new_text(stream, true, out);
}
