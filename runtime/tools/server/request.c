#include "tools/server/request.h"

#include "abi/json_make.h"
#include "abi/utf8_cut.h"
#include "base/memory.h"
#include "base/clock.h"
#include "tools/server/internal.h"

#include <math.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- fields ---- */

typedef struct RequestReading {
    TextRequest *request;
    json_t *body;
    Problem *problem;
} RequestReading;

/* Reads a number of the body into *value, which keeps its default if the field is missing. */
static bool read_number_field(RequestReading *reading, const char *name, double least, double most,
                              double *value) {
    json_t *field = json_object_get(reading->body, name);
    if (!field || json_is_null(field)) return true;
    double number = json_number_value(field);
    if (!json_is_number(field) || !(number >= least && number <= most))
        return problem_set(reading->problem, 400, name, "'%s' must be a number from %g to %g", name,
                           least, most);
    *value = number;
    return true;
}

static bool read_count(RequestReading *reading, const char *name, long least, long most,
                       long *value) {
    json_t *field = json_object_get(reading->body, name);
    if (!field || json_is_null(field)) return true;
    if (!json_is_integer(field) || json_integer_value(field) < least ||
        json_integer_value(field) > most)
        return problem_set(reading->problem, 400, name, "'%s' must be an integer from %ld to %ld",
                           name, least, most);
    *value = (long)json_integer_value(field);
    return true;
}

static bool read_flag_field(RequestReading *reading, const char *name, bool *value) {
    json_t *field = json_object_get(reading->body, name);
    if (!field || json_is_null(field)) return true;
    if (!json_is_boolean(field))
        return problem_set(reading->problem, 400, name, "'%s' must be true or false", name);
    *value = json_is_true(field);
    return true;
}

/* Known fields. `nothing`: accepted only with a value that has no effect. */
typedef struct Field {
    const char *name;
    enum { BOTH, COMPLETION, CHAT } form;
    enum { USED, IGNORED, NOTHING } use;
} Field;

static const Field fields[] = {
    {"model", BOTH, USED},
    {"prompt", COMPLETION, USED},
    {"messages", CHAT, USED},
    {"max_tokens", BOTH, USED},
    {"max_completion_tokens", CHAT, USED},
    {"temperature", BOTH, USED},
    {"top_p", BOTH, USED},
    {"top_k", BOTH, USED},
    {"min_p", BOTH, USED},
    {"repetition_penalty", BOTH, USED},
    {"seed", BOTH, USED},
    {"n", BOTH, USED},
    {"best_of", COMPLETION, USED},
    {"stop", BOTH, USED},
    {"stream", BOTH, USED},
    {"stream_options", BOTH, USED},
    {"echo", COMPLETION, USED},
    {"logprobs", BOTH, USED},
    {"top_logprobs", CHAT, USED},
    {"ignore_eos", BOTH, USED},
    {"user", BOTH, IGNORED},
    {"store", BOTH, IGNORED},
    {"metadata", BOTH, IGNORED},
    {"suffix", COMPLETION, NOTHING},
    {"logit_bias", BOTH, USED},
    {"presence_penalty", BOTH, USED},
    {"frequency_penalty", BOTH, USED},
    {"tools", CHAT, USED},
    {"tool_choice", CHAT, USED},
    {"functions", CHAT, NOTHING},
    {"function_call", CHAT, NOTHING},
    {"response_format", BOTH, USED},
    {"reasoning_effort", CHAT, NOTHING},
    {"service_tier", BOTH, NOTHING},
    {"safety_identifier", BOTH, IGNORED},
    {"prompt_cache_key", BOTH, IGNORED},
    {"parallel_tool_calls", CHAT, IGNORED},
};

/* True for words of clients that request the default behavior. */
static bool is_usual(const json_t *value) {
    const char *word = json_string_value(value);
    return word && (strcmp(word, "none") == 0 || strcmp(word, "auto") == 0);
}

static bool asks_nothing(const json_t *value) {
    return is_usual(value) || json_is_null(value) || json_is_false(value) ||
           (json_is_number(value) && json_number_value(value) == 0) ||
           (json_is_string(value) && json_string_length(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0);
}

static const Field *find_field(const char *name, AnswerForm form) {
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (strcmp(fields[i].name, name) == 0 &&
            (fields[i].form == BOTH || (fields[i].form == CHAT) == (form == FORM_CHAT)))
            return &fields[i];
    return NULL;
}

static bool check_fields(const RequestReading *reading) {
    const char *name;
    json_t *value;
    json_object_foreach(reading->body, name, value) {
        const Field *field = find_field(name, reading->request->form);
        if (!field) {
            problem_set(reading->problem, 400, NULL, "unknown field '%.*s'", utf8_cut(name, 60),
                        name);
            return problem_code(reading->problem, "unknown_parameter");
        }
        if (field->use == NOTHING && !asks_nothing(value)) {
            problem_set(reading->problem, 400, field->name, "'%s' is not supported by this server",
                        field->name);
            return problem_code(reading->problem, "unsupported_parameter");
        }
    }
    return true;
}

static bool check_model(const RequestReading *reading) {
    const char *served = reading->request->service->name;
    const json_t *model = json_object_get(reading->body, "model");
    if (!model || (json_is_string(model) && strcmp(json_string_value(model), served) == 0))
        return true;
    problem_set(reading->problem, 404, "model", "unknown model: this server has one model, '%s'",
                served);
    return problem_code(reading->problem, "model_not_found");
}

static bool add_stop(RequestReading *reading, const json_t *stop) {
    TextRequest *request = reading->request;
    const char *text = json_string_value(stop);
    if (!text || !*text || strlen(text) != json_string_length(stop) ||
        request->stop_count == MAX_STOPS)
        return problem_set(reading->problem, 400, "stop",
                           "'stop' must be a non-empty string or a list of up to %d of them",
                           MAX_STOPS);
    request->stops[request->stop_count++] = memory_format("%s", text);
    return true;
}

static bool read_stops(RequestReading *reading) {
    json_t *stop = json_object_get(reading->body, "stop"), *one;
    if (!stop || json_is_null(stop)) return true;
    if (!json_is_array(stop)) return add_stop(reading, stop);
    size_t i;
    json_array_foreach(stop, i, one) if (!add_stop(reading, one)) return false;
    return true;
}

static bool is_missing(const RequestReading *reading, const char *name) {
    if (json_object_get(reading->body, name)) return false;
    problem_set(reading->problem, 400, name, "'%s' is missing", name);
    problem_code(reading->problem, "missing_required_parameter");
    return true;
}

/* {"13": -100, ...}: token ids and addends of their logits. */
static bool read_biases(RequestReading *reading) {
    TextRequest *request = reading->request;
    json_t *map = json_object_get(reading->body, "logit_bias"), *value;
    const char *name;
    if (!map || json_is_null(map)) return true;
    request->biases = memory_new(sizeof *request->biases * (json_object_size(map) + 1));
    json_object_foreach(map, name, value) {
        char *end;
        long token = strtol(name, &end, 10);
        double bias = json_number_value(value);
        if (*end || end == name || token < 0 || token >= request->service->vocabulary ||
            !json_is_number(value) || !(fabs(bias) <= 100))
            break;
        request->biases[request->sampling.bias_count++] = (TokenBias){(int32_t)token, (float)bias};
    }
    request->sampling.biases = request->biases;
    return (json_is_object(map) && (size_t)request->sampling.bias_count == json_object_size(map)) ||
           problem_set(reading->problem, 400, "logit_bias",
                       "'logit_bias' must map token ids below %ld to numbers from -100 to 100",
                       request->service->vocabulary);
}

static bool read_sampling(RequestReading *reading) {
    Sampling *sampling = &reading->request->sampling;
    long seed = -1;
    *sampling = (Sampling){.temperature = 1, .top_p = 1, .repetition = 1};
    bool good =
        read_number_field(reading, "temperature", 0, 2, &sampling->temperature) &&
        read_number_field(reading, "top_p", 0, 1, &sampling->top_p) &&
        read_number_field(reading, "min_p", 0, 1, &sampling->min_p) &&
        read_number_field(reading, "repetition_penalty", 0.01, 100, &sampling->repetition) &&
        read_number_field(reading, "presence_penalty", -2, 2, &sampling->presence) &&
        read_number_field(reading, "frequency_penalty", -2, 2, &sampling->frequency) &&
        read_biases(reading) && read_count(reading, "top_k", -1, LONG_MAX, &sampling->top_k) &&
        read_count(reading, "seed", LONG_MIN, LONG_MAX, &seed);
    const json_t *given = json_object_get(reading->body, "seed");
    static atomic_ulong number;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t fresh = (uint64_t)now.tv_sec * 1000000007u + (uint64_t)now.tv_nsec * 1009u +
                     atomic_fetch_add(&number, 1) * 7919u;
    sampling->seed = given && !json_is_null(given) ? (uint64_t)seed : fresh;
    if (sampling->top_p <= 0) sampling->top_k = 1; /* of the most likely alone */
    if (sampling->top_k < 0) sampling->top_k = 0;
    return good;
}

/* Completions have a count `logprobs`; chats have a flag `logprobs` and a count `top_logprobs`. */
static bool read_logprobs(RequestReading *reading) {
    long count = -1;
    bool wanted = false;
    if (reading->request->form == FORM_COMPLETION) {
        const json_t *given = json_object_get(reading->body, "logprobs");
        if (given && json_is_false(given)) return true;
        if (!read_count(reading, "logprobs", 0, MAX_LOGPROBS, &count)) return false;
    } else {
        if (!read_flag_field(reading, "logprobs", &wanted) ||
            !read_count(reading, "top_logprobs", 0, MAX_LOGPROBS, &count))
            return false;
        if (!wanted && count > 0)
            return problem_set(reading->problem, 400, "top_logprobs",
                               "'top_logprobs' requires 'logprobs': true");
        if (wanted && count < 0) count = 0;
        if (!wanted) count = -1;
    }
    reading->request->logprobs = (int)count;
    return true;
}

static bool read_stream(RequestReading *reading) {
    TextRequest *request = reading->request;
    json_t *options = json_object_get(reading->body, "stream_options");
    if (!read_flag_field(reading, "stream", &request->stream)) return false;
    if (options && !json_is_null(options) && !json_is_object(options))
        return problem_set(reading->problem, 400, "stream_options",
                           "'stream_options' must be an object");
    request->stream_usage = json_is_true(json_object_get(options, "include_usage"));
    return true;
}

/* ---- grammars ---- */

static bool read_format(RequestReading *reading) {
    const char *const field = "response_format";
    TextRequest *request = reading->request;
    const json_t *format = json_object_get(reading->body, field),
                 *schema = json_object_get(json_object_get(format, "json_schema"), "schema");
    const char *type = json_field_text(format, "type");
    if (!format || json_is_null(format) || (type && !strcmp(type, "text"))) return true;
    bool object = type && !strcmp(type, "json_object");
    if (!object && !(type && !strcmp(type, "json_schema")))
        return problem_set(reading->problem, 400, field,
                           "'response_format' must have the type text, json_object or json_schema");
    if (!object && !schema)
        return problem_set(reading->problem, 400, field,
                           "'response_format' needs {\"json_schema\": {\"schema\": ...}}");
    request->grammar = schema_grammar(object ? NULL : schema, field, reading->problem);
    return request->grammar != NULL;
}

static bool read_tools(RequestReading *reading) {
    TextRequest *request = reading->request;
    if (!tools_read(&request->tools, reading->body, reading->problem)) return false;
    if (!request->tools.list || request->tools.choice == TOOLS_AUTO) return true;
    if (request->grammar)
        return problem_set(reading->problem, 400, "tool_choice",
                           "a required call and a 'response_format' exclude each other");
    request->grammar = tools_grammar(&request->tools, reading->problem);
    return request->grammar != NULL;
}

/* Whether there is a text of the grammar. */
static bool check_grammar(RequestReading *reading) {
    TextRequest *request = reading->request;
    Service *service = request->service;
    if (!request->grammar) return true;
    if (!service->bytes) service->bytes = token_bytes_new(service->tokenizer, service->vocabulary);
    Matching *matching = matching_new(request->grammar, service->bytes);
    bool good = matching && matching_allowed(matching);
    matching_free(matching);
    return good ||
           problem_set(reading->problem, 400, request->tools.list ? "tools" : "response_format",
                       "no text of this model begins a value of the JSON schema");
}

/* ---- prompts ---- */

static Prompted *append_prompt(TextRequest *request) {
    request->prompts =
        memory_grow(request->prompts, sizeof(Prompted) * (size_t)(request->prompt_count + 1));
    Prompted *prompt = &request->prompts[request->prompt_count++];
    *prompt = (Prompted){0};
    return prompt;
}

static bool add_token_prompt(RequestReading *reading, const json_t *numbers) {
    const Service *service = reading->request->service;
    Prompted *prompt = append_prompt(reading->request);
    size_t i;
    json_t *number;
    json_array_foreach(numbers, i, number) {
        json_int_t token = json_is_integer(number) ? json_integer_value(number) : -1;
        if (token < 0 || token >= service->vocabulary)
            return problem_set(reading->problem, 400, "prompt",
                               "item %zu of 'prompt' is not a token id from 0 to %ld", i,
                               service->vocabulary - 1);
        tokens_add(&prompt->tokens, (int32_t)token);
        char byte = (char)token;
        if (service->writing == WRITING_BYTES) text_append(&prompt->text, &byte, 1);
    }
    if (service->writing == WRITING_TEXT)
        tokenizer_decode(service->tokenizer, prompt->tokens.items, prompt->tokens.count, true,
                         &prompt->text);
    return true;
}

static bool add_text_prompt(RequestReading *reading, Encoder *encoder, const char *bytes,
                            size_t length) {
    const Service *service = reading->request->service;
    Prompted *prompt = append_prompt(reading->request);
    text_append(&prompt->text, bytes, length);
    if (!speech_tokens(service->writing, service->tokenizer, encoder, bytes, length,
                       &prompt->tokens))
        return problem_set(reading->problem, 400, "prompt",
                           "the tokenizer cannot encode this text");
    for (size_t i = 0; i < prompt->tokens.count; i++)
        if (prompt->tokens.items[i] >= service->vocabulary)
            return problem_set(reading->problem, 400, "prompt",
                               "token %d of this text is outside the vocabulary of the model",
                               (int)prompt->tokens.items[i]);
    return true;
}

static bool add_any(RequestReading *reading, Encoder *encoder, const json_t *prompt) {
    if (json_is_string(prompt))
        return add_text_prompt(reading, encoder, json_string_value(prompt),
                               json_string_length(prompt));
    if (json_is_array(prompt)) return add_token_prompt(reading, prompt);
    return problem_set(reading->problem, 400, "prompt",
                       "'prompt' must be a string, a list of token ids, or a list of either");
}

static bool read_prompts(RequestReading *reading, Encoder *encoder) {
    json_t *prompt = json_object_get(reading->body, "prompt"), *one;
    bool many = json_is_array(prompt) && !json_is_integer(json_array_get(prompt, 0));
    if (is_missing(reading, "prompt")) return false;
    if (!many) return add_any(reading, encoder, prompt);
    if (json_array_size(prompt) == 0 || json_array_size(prompt) > MAX_CHOICES)
        return problem_set(reading->problem, 400, "prompt", "'prompt' must have 1 to %d items",
                           MAX_CHOICES);
    size_t i;
    json_array_foreach(prompt, i, one) if (!add_any(reading, encoder, one)) return false;
    return true;
}

static bool read_messages(RequestReading *reading, Encoder *encoder) {
    const Service *service = reading->request->service;
    AUTO(Text) text = {0};
    if (!service->template) {
        problem_set(reading->problem, 400, "messages",
                    "this model has no chat template: start the server with --chat-template FILE, "
                    "or use /v1/completions");
        return problem_code(reading->problem, "no_chat_template");
    }
    if (is_missing(reading, "messages")) return false;
    return template_chat(service->template, json_object_get(reading->body, "messages"),
                         reading->request->tools.list, &text, reading->problem) &&
           add_text_prompt(reading, encoder, text.bytes ? text.bytes : "", text.length);
}

static bool check_lengths(RequestReading *reading) {
    TextRequest *request = reading->request;
    long context = request->service->context, longest = 0;
    for (int i = 0; i < request->prompt_count; i++) {
        long count = (long)request->prompts[i].tokens.count;
        if (count == 0)
            return problem_set(reading->problem, 400, "prompt",
                               "the prompt must have at least one token");
        if (count > longest) longest = count;
    }
    if (request->limit < 0) request->limit = longest < context ? context - longest : 0;
    if (longest + request->limit <= context) return true;
    problem_set(reading->problem, 400, "prompt",
                "the prompt has %ld tokens and %ld more are requested, but the context length of "
                "this server is %ld (--context-length)",
                longest, request->limit, context);
    return problem_code(reading->problem, "context_length_exceeded");
}

static bool read_fields(RequestReading *reading) {
    TextRequest *request = reading->request;
    bool chat = request->form == FORM_CHAT;
    long copies = 1, best = -1;
    request->limit = chat ? -1 : 16;
    bool good = check_fields(reading) && check_model(reading) && read_sampling(reading) &&
                read_count(reading, "max_tokens", 0, INT32_MAX, &request->limit) &&
                read_count(reading, "max_completion_tokens", 0, INT32_MAX, &request->limit) &&
                read_count(reading, "n", 1, MAX_CHOICES, &copies) &&
                read_count(reading, "best_of", 1, MAX_CHOICES, &best) &&
                read_flag_field(reading, "echo", &request->echo) &&
                read_flag_field(reading, "ignore_eos", &request->ignore_eos) &&
                read_stops(reading) && read_stream(reading) && read_logprobs(reading) &&
                read_format(reading) && (!chat || read_tools(reading)) && check_grammar(reading);
    if (good && best >= 0 && best != copies)
        good = problem_set(reading->problem, 400, "best_of", "'best_of' must be equal to 'n'");
    request->copies = (int)copies;
    return good;
}

static bool read_request_body(RequestReading *reading) {
    TextRequest *request = reading->request;
    const Service *service = request->service;
    if (!json_is_object(reading->body))
        return problem_set(reading->problem, 400, NULL, "the body must be a JSON object");
    if (!read_fields(reading)) return false;
    Encoder *encoder = service->tokenizer ? encoder_new(service->tokenizer) : NULL;
    bool chat = request->form == FORM_CHAT;
    bool good = chat ? read_messages(reading, encoder) : read_prompts(reading, encoder);
    encoder_free(encoder);
    if (good && chat && service->tokenizer)
        template_begin_once(service->tokenizer, &request->prompts[0].tokens);
    if (good && (long)request->prompt_count * request->copies > MAX_CHOICES)
        good = problem_set(reading->problem, 400, "n", "a request can have at most %d completions",
                           MAX_CHOICES);
    return good && check_lengths(reading);
}

TextRequest *request_read(Service *service, AnswerForm form, const char *body, size_t length,
                          Problem *problem) {
    json_error_t error;
    TextRequest *request = memory_new(sizeof *request);
    RequestReading reading = {.request = request, .problem = problem};
    static atomic_ulong number;
    request->service = service;
    request->form = form;
    request->logprobs = -1;
    request->holders = 1;
    request->created = (long)time(NULL);
    request->began = seconds_now();
    request->deadline = request->began + service->timeout;
    snprintf(request->id, sizeof request->id, "%s-%lx%lx", form == FORM_CHAT ? "chatcmpl" : "cmpl",
             (unsigned long)request->created, atomic_fetch_add(&number, 1));
    reading.body = json_loadb(body, length, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &error);
    bool good = reading.body && read_request_body(&reading);
    if (!reading.body) {
        problem_set(problem, 400, NULL, "the body is not valid JSON: %s (line %d)", error.text,
                    error.line);
        problem_code(problem, "invalid_json");
    }
    json_decref(reading.body);
    if (good) {
        choices_make(request);
        return request;
    }
    request_free(request);
    return NULL;
}

void request_free(TextRequest *request) {
    choices_free(request);
    for (int i = 0; i < request->prompt_count; i++) {
        text_free(&request->prompts[i].text);
        tokens_free(&request->prompts[i].tokens);
    }
    for (int i = 0; i < request->stop_count; i++) free(request->stops[i]);
    free(request->prompts);
    free(request->biases);
    grammar_free(request->grammar);
    tools_free(&request->tools);
    free(request->problem.text);
    text_free(&request->out);
    free(request);
}
