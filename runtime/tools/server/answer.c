#include "tools/server/internal.h"

#include "abi/json_make.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A token alone, as a name among others: bytes that are no text are written as numbers. */
static void token_name(const Service *service, int32_t token, Text *name) {
    if (service->writing == WRITING_TEXT) {
        tokenizer_decode(service->tokenizer, &token, 1, false, name);
        return;
    }
    char text[16], byte = (char)token;
    if (token < 0x80)
        text_append(name, &byte, 1);
    else
        text_append(name, text, (size_t)snprintf(text, sizeof text, "bytes:\\x%02x", (int)token));
}

/* ---- completions ---- */

/* Of two tokens with one name the likelier stays. */
static void add_likely(json_t *likely, const Service *service, int32_t token, double logprob) {
    AUTO(Text) name = {0}, valid = {0};
    token_name(service, token, &name);
    text_append_valid(&valid, name.bytes ? name.bytes : "", name.length);
    const char *key = valid.bytes ? valid.bytes : "";
    json_t *there = json_object_getn(likely, key, valid.length);
    if (!there || json_real_value(there) < logprob)
        json_object_setn_new(likely, key, valid.length, json_number(logprob));
}

static json_t *likely_object(const Service *service, const Chance *chance) {
    json_t *likely = json_object();
    for (int i = 0; i < chance->best_count; i++)
        add_likely(likely, service, chance->best[i], chance->best_logprobs[i]);
    add_likely(likely, service, chance->token, chance->logprob);
    return likely;
}

/* Of the chances from `from` on; *characters: where their text begins, then ends. */
static json_t *completion_logprobs(const Completion *choice, size_t from, size_t *characters) {
    const Service *service = choice->request->service;
    if (choice->request->logprobs < 0) return json_null();
    json_t *tokens = json_array(), *logprobs = json_array(), *likely = json_array(),
           *offsets = json_array();
    for (size_t i = from; i < choice->chance_count; i++) {
        const Chance *chance = &choice->chances[i];
        json_array_append_new(tokens, text_json(chance->piece.bytes, chance->piece.length));
        json_array_append_new(logprobs, chance->given ? json_number(chance->logprob) : json_null());
        json_array_append_new(likely, chance->given ? likely_object(service, chance) : json_null());
        json_array_append_new(offsets, json_integer((json_int_t)*characters));
        *characters += character_count(chance->piece.bytes, chance->piece.length);
    }
    return json_make("{s:o, s:o, s:o, s:o}", "tokens", tokens, "token_logprobs", logprobs,
                     "top_logprobs", likely, "text_offset", offsets);
}

/* ---- chats ---- */

static json_t *bytes_array(const char *bytes, size_t length) {
    json_t *array = json_array();
    for (size_t i = 0; i < length; i++)
        json_array_append_new(array, json_integer((unsigned char)bytes[i]));
    return array;
}

static json_t *chat_token(const Service *service, int32_t token, double logprob) {
    AUTO(Text) name = {0};
    token_name(service, token, &name);
    return json_make("{s:o, s:f, s:o}", "token", text_json(name.bytes, name.length), "logprob",
                     logprob, "bytes", bytes_array(name.bytes, name.length));
}

static json_t *chat_logprobs(const Completion *choice, size_t from) {
    const Service *service = choice->request->service;
    if (choice->request->logprobs < 0) return json_null();
    json_t *content = json_array();
    for (size_t i = from; i < choice->chance_count; i++) {
        const Chance *chance = &choice->chances[i];
        json_t *token = chat_token(service, chance->token, chance->logprob), *likely = json_array();
        for (int k = 0; k < chance->best_count; k++)
            json_array_append_new(likely,
                                  chat_token(service, chance->best[k], chance->best_logprobs[k]));
        json_object_set_new(token, "top_logprobs", likely);
        json_array_append_new(content, token);
    }
    return json_make("{s:o}", "content", content);
}

/* ---- answers ---- */

static json_t *usage(const TextRequest *request) {
    size_t prompt = 0, made = 0, cached = 0;
    for (int i = 0; i < request->prompt_count; i++) {
        prompt += request->prompts[i].tokens.count;
        cached += request->choices[i * request->copies].cached;
    }
    for (int i = 0; i < request->choice_count; i++)
        made += request->choices[i].row.tokens.count - request->choices[i].row.prompt;
    return json_make("{s:I, s:I, s:I, s:{s:I}}", "prompt_tokens", (json_int_t)prompt,
                     "completion_tokens", (json_int_t)made, "total_tokens",
                     (json_int_t)(prompt + made), "prompt_tokens_details", "cached_tokens",
                     (json_int_t)cached);
}

static json_t *frame(const TextRequest *request, const char *chat, json_t *choices) {
    return json_make("{s:s, s:s, s:I, s:s, s:o}", "id", request->id, "object",
                     request->form == FORM_CHAT ? chat : "text_completion", "created",
                     (json_int_t)request->created, "model", request->service->name, "choices",
                     choices);
}

static void append_echo(const Completion *choice, Text *text) {
    const TextRequest *request = choice->request;
    const Text *prompt = &request->prompts[choice->index / request->copies].text;
    if (request->echo) text_append(text, prompt->bytes, prompt->length);
}

/* The message with its text; if there are calls, an empty one is null. */
static json_t *chat_message(const Completion *choice, json_t *said) {
    bool none = choice->calls && !json_string_length(said);
    json_t *message = json_make("{s:s, s:o}", "role", "assistant", "content", said);
    if (none) json_object_set_new(message, "content", json_null());
    if (choice->calls) json_object_set(message, "tool_calls", choice->calls);
    return message;
}

static json_t *choice_object(const Completion *choice) {
    Text text = {0};
    size_t characters = 0;
    append_echo(choice, &text);
    text_append(&text, choice->text.bytes, choice->text.length);
    json_t *said = text_json(text.bytes, text.length), *object;
    text_free(&text);
    if (choice->request->form == FORM_CHAT)
        object = json_make("{s:i, s:o, s:o, s:s}", "index", choice->index, "message",
                           chat_message(choice, said), "logprobs", chat_logprobs(choice, 0),
                           "finish_reason", choice->finish);
    else
        object =
            json_make("{s:i, s:o, s:o, s:s}", "index", choice->index, "text", said, "logprobs",
                      completion_logprobs(choice, 0, &characters), "finish_reason", choice->finish);
    return object;
}

char *answer_text(const TextRequest *request) {
    json_t *choices = json_array();
    for (int i = 0; i < request->choice_count; i++)
        json_array_append_new(choices, choice_object(&request->choices[i]));
    json_t *answer = frame(request, "chat.completion", choices);
    json_object_set_new(answer, "usage", usage(request));
    return json_write_new(answer, JSON_COMPACT);
}

/* ---- events: https://html.spec.whatwg.org/multipage/server-sent-events.html ---- */

/* Releases the text. */
static void append_data(Text *out, char *text) {
    text_append(out, "data: ", 6);
    text_append(out, text, strlen(text));
    text_append(out, "\n\n", 2);
    free(text);
}

static void append_event(Text *out, json_t *object) {
    append_data(out, json_write_new(object, JSON_COMPACT));
}

static json_t *completion_event(Completion *choice) {
    Text text = {0};
    if (!choice->begun) append_echo(choice, &text);
    text_append(&text, choice->text.bytes + choice->told, choice->text.length - choice->told);
    json_t *said = text_json(text.bytes, text.length);
    text_free(&text);
    return json_make("{s:i, s:o, s:o, s:s?}", "index", choice->index, "text", said, "logprobs",
                     completion_logprobs(choice, choice->chances_told, &choice->characters),
                     "finish_reason", choice->finish);
}

/* Calls of a delta have their index. */
static json_t *indexed_calls(const json_t *calls) {
    json_t *list = json_deep_copy(calls), *call;
    size_t i;
    json_array_foreach(list, i, call)
        json_object_set_new(call, "index", json_integer((json_int_t)i));
    return list;
}

static json_t *chat_event(const Completion *choice) {
    json_t *delta = json_object();
    const size_t length = choice->text.length - choice->told;
    if (!choice->begun) json_object_set_new(delta, "role", json_text("assistant"));
    if (!choice->begun || length)
        json_object_set_new(delta, "content",
                            choice->calls && !length
                                ? json_null()
                                : text_json(choice->text.bytes + choice->told, length));
    if (choice->calls) json_object_set_new(delta, "tool_calls", indexed_calls(choice->calls));
    return json_make("{s:i, s:o, s:o, s:s?}", "index", choice->index, "delta", delta, "logprobs",
                     chat_logprobs(choice, choice->chances_told), "finish_reason", choice->finish);
}

void answer_event(Completion *choice, Text *out) {
    const TextRequest *request = choice->request;
    bool news = choice->told < choice->text.length || choice->chances_told < choice->chance_count;
    if (choice->begun && !news && !choice->finish) return;
    /* calls are known at the end only */
    if (request->tools.list && !choice->finish) return;
    json_t *object = request->form == FORM_CHAT ? chat_event(choice) : completion_event(choice);
    json_t *event = frame(request, "chat.completion.chunk", json_make("[o]", object));
    if (request->stream_usage) json_object_set_new(event, "usage", json_null());
    append_event(out, event);
    choice->begun = true;
    choice->told = choice->text.length;
    choice->chances_told = choice->chance_count;
}

void answer_end(const TextRequest *request, Text *out) {
    if (request->problem.status) {
        append_data(out, problem_text(&request->problem));
    } else if (request->stream_usage) {
        json_t *event = frame(request, "chat.completion.chunk", json_array());
        json_object_set_new(event, "usage", usage(request));
        append_event(out, event);
    }
    text_append(out, "data: [DONE]\n\n", 14);
}
