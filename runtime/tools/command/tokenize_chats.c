/* tokenize_chats: conversations as training examples: tokens, targets, and weights of targets that
 * are 1 in the answers of the assistant and 0 elsewhere (decoder.target_weights).
 *
 *     {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]}
 *     -->  tokens, targets [examples, context], weights [examples, context]
 *
 * The template renders the messages before an answer as a prompt, as in moec generate --chat. The
 * answer is the text that rendering it adds to the prompt, end marks included. Prompts and answers
 * are encoded one by one, so that tokens do not cross their boundaries. The file also contains the
 * template. */
#include "abi/json_make.h"
#include "abi/quantity.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/message.h"
#include "data/safetensors.h"
#include "tools/command/internal.h"
#include "tools/command/line/commands.h"
#include "tools/server/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Chats {
    const ChatOptions *options;
    const Tokenizer *tokenizer;
    Encoder *encoder;
    Template *template;
    int32_t *tokens; /* context + 1 of each example */
    float *weights;  /* of each target */
    long examples, cut, unanswered;
    double answered; /* targets with weight 1 */
} Chats;

/* The text of the first messages. False after a message. */
static bool render_first(const Chats *chats, const json_t *messages, size_t count, bool prompt,
                         Text *out) {
    Problem problem = {0};
    json_auto_t *first = json_array();
    for (size_t i = 0; i < count; i++) json_array_append(first, json_array_get(messages, i));
    return template_render(chats->template, first, NULL, prompt, out, &problem) ||
           error_message("check the conversation and the template", "%s", problem.text);
}

static bool text_starts_with(const Text *text, const Text *start) {
    return text->length >= start->length &&
           (!start->length || !memcmp(text->bytes, start->bytes, start->length));
}

/* Appends the tokens of bytes from..to of the text and their weights. */
static bool add_chat_part(Chats *chats, const Text *text, size_t from, size_t to, bool answer,
                          TokenList *tokens, TokenList *weights) {
    if (from == to) return true;
    if (!from) {
        const TokenList *first = tokenizer_before(chats->tokenizer);
        tokens_append(tokens, first->items, first->count);
    }
    const int flags = from ? ENCODE_CONTINUES : 0;
    if (!encoder_encode(chats->encoder, text->bytes + from, to - from, flags, tokens)) return false;
    if (!from) template_begin_once(chats->tokenizer, tokens);
    while (weights->count < tokens->count) tokens_add(weights, answer);
    return true;
}

static bool report_template(const char *where) {
    return error_message("use a template whose text of the first messages does not depend on later "
                         "ones",
                         "%s: the chat template renders earlier messages differently after an "
                         "answer",
                         where);
}

/* Tokens and weights of one conversation; false after a message. */
static bool encode_chat(Chats *chats, const json_t *messages, const char *where, TokenList *tokens,
                        TokenList *weights) {
    const size_t count = json_array_size(messages);
    AUTO(Text) done = {0}, prompt = {0}, answer = {0};
    bool good = true;
    for (size_t i = 0; i < count && good; i++) {
        const char *role = json_field_text(json_array_get(messages, i), "role");
        if (!role || strcmp(role, "assistant")) continue;
        prompt.length = answer.length = 0;
        good = render_first(chats, messages, i, true, &prompt) &&
               render_first(chats, messages, i + 1, false, &answer) &&
               ((text_starts_with(&prompt, &done) && text_starts_with(&answer, &prompt)) ||
                report_template(where)) &&
               add_chat_part(chats, &prompt, done.length, prompt.length, false, tokens, weights) &&
               add_chat_part(chats, &answer, prompt.length, answer.length, true, tokens, weights);
        done.length = 0;
        text_append(&done, answer.bytes, answer.length);
    }
    return good;
}

/* An example of context + 1 tokens; a longer conversation is cut. */
static void add_chat_example(Chats *chats, const TokenList *tokens, const TokenList *weights) {
    const size_t context = (size_t)chats->options->context,
                 count = tokens->count < context + 1 ? tokens->count : context + 1;
    double answered = 0;
    for (size_t i = 1; i < count; i++) answered += weights->items[i];
    if (answered == 0) {
        chats->unanswered++;
        return;
    }
    const size_t at = (size_t)chats->examples++;
    chats->cut += tokens->count > count;
    chats->answered += answered;
    chats->tokens = memory_grow(chats->tokens, sizeof(int32_t) * (at + 1) * (context + 1));
    chats->weights = memory_grow(chats->weights, sizeof(float) * (at + 1) * context);
    int32_t *to = chats->tokens + at * (context + 1);
    float *weight = chats->weights + at * context;
    memset(to, 0, sizeof *to * (context + 1));
    memset(weight, 0, sizeof *weight * context);
    memcpy(to, tokens->items, sizeof *to * count);
    for (size_t i = 1; i < count; i++) weight[i - 1] = (float)weights->items[i];
}

static bool add_chat(void *context, json_t *line, const char *where) {
    Chats *chats = context;
    const json_t *messages = json_object_get(line, "messages");
    AUTO(TokenList) tokens = {0}, weights = {0};
    if (!json_array_size(messages))
        return error_message("{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, ...]}",
                             "%s: the line has no list of messages", where);
    const bool good = encode_chat(chats, messages, where, &tokens, &weights);
    if (good) add_chat_example(chats, &tokens, &weights);
    return good;
}

/* Writes one of the three tensors; called by safetensors_write_made. */
static void fill_chat_tensor(void *context, int index, void *bytes) {
    const Chats *chats = context;
    const size_t length = (size_t)chats->options->context;
    if (index == 2) {
        memcpy(bytes, chats->weights, sizeof(float) * length * (size_t)chats->examples);
        return;
    }
    for (size_t i = 0; i < (size_t)chats->examples; i++)
        memcpy((int32_t *)bytes + i * length, chats->tokens + i * (length + 1) + index,
               sizeof(int32_t) * length);
}

static bool write_chat_examples(Chats *chats, const char *template) {
    const ChatOptions *options = chats->options;
    TensorEntry entries[3];
    char *names[] = {"tokens", "targets", "weights"};
    const size_t length = strlen(options->template);
    const bool config = length > 5 && !strcmp(options->template + length - 5, ".json");
    json_auto_t *notes =
        json_make("{s:o}", config ? "file:tokenizer_config.json" : "file:chat_template.jinja",
                  json_text(template));
    for (int i = 0; i < 3; i++)
        entries[i] = (TensorEntry){.name = names[i],
                                   .number = i < 2 ? NUMBER_I32 : NUMBER_F32,
                                   .rank = 2,
                                   .shape = {chats->examples, options->context},
                                   .bytes = sizeof(float) * (size_t)chats->examples *
                                            (size_t)options->context};
    return safetensors_write_made(options->out, entries, 3, notes, fill_chat_tensor, chats);
}

static void report_chats(const Chats *chats) {
    const ChatOptions *options = chats->options;
    const double targets = (double)chats->examples * (double)options->context;
    if (options->json)
        json_result_written(options->out,
                            json_make("{s:I, s:I, s:I, s:I}", "examples",
                                      (json_int_t)chats->examples, "answer_tokens",
                                      (json_int_t)chats->answered, "cut", (json_int_t)chats->cut,
                                      "without_answer", (json_int_t)chats->unanswered));
    else
        printf("%s: %ld examples of %ld tokens, %s of the targets in answers\n", options->out,
               chats->examples, options->context, quantity_percent(chats->answered / targets).text);
    written_message(options->out,
                    "moec train SPEC --set target_weights=true -c %ld --data %s --tokenizer %s "
                    "--out DIR",
                    options->context, options->out, options->tokenizer);
    if (chats->cut)
        note_message("%ld conversations are longer than %ld tokens and were cut", chats->cut,
                     options->context + 1);
    if (chats->unanswered)
        note_message("%ld conversations have no answer in the first %ld tokens and were left out",
                     chats->unanswered, options->context + 1);
}

bool tokenize_chats(const ChatOptions *options, const Tokenizer *tokenizer, const Paths *paths) {
    Chats chats = {.options = options, .tokenizer = tokenizer};
    Mapping mapping;
    if (!file_map(options->template, "use a chat template (Jinja), or tokenizer_config.json",
                  &mapping))
        return false;
    AUTO_FREE char *text = memory_format("%.*s", (int)mapping.length, (const char *)mapping.bytes);
    chats.template = template_open(options->template, text, mapping.length);
    file_unmap(&mapping);
    chats.encoder = encoder_new(tokenizer);
    bool good = chats.template != NULL;
    for (int i = 0; good && i < paths->count; i++)
        good = file_json_lines(paths->items[i], "use a file with one conversation per line",
                               add_chat, &chats);
    if (good && !chats.examples)
        good = error_message("write messages with the role assistant, or use a longer context",
                             "no conversation has an answer in its first %ld tokens",
                             options->context + 1);
    good = good && write_chat_examples(&chats, text);
    if (good) report_chats(&chats);
    encoder_free(chats.encoder);
    template_free(chats.template);
    free(chats.tokens);
    free(chats.weights);
    return good;
}
