/* The subset of Jinja that chat templates use, rendered during parsing. A loop parses its body once
 * per item; a branch that is not selected is parsed but not evaluated. Whitespace is trimmed as in
 * the transformers library: no newline after a block, no spaces before one. */
#include "tools/server/request.h"

#include "abi/json_make.h"
#include "base/memory.h"
#include "base/message.h"
#include "tools/server/internal.h"

#include <stdlib.h>
#include <string.h>

struct Template {
    char *text;
    size_t length;
    json_t *names; /* bos_token, eos_token */
};

enum { DEEPEST = 32, LOOP_BYTES = 512 };

/* ---- text between blocks ---- */

static bool is_space(char byte) {
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

/* Where the next {{, {% or {# begins. */
static size_t next_mark(const Rendering *r) {
    for (size_t i = r->at; i + 1 < r->end; i++)
        if (r->text[i] == '{' && strchr("{%#", r->text[i + 1])) return i;
    return r->end;
}

/* Writes the text up to a mark, without the whitespace that the mark trims. */
static void write_literal(Rendering *r, size_t mark) {
    size_t from = r->at, to = mark, line = mark;
    bool whole = mark == r->end;
    if (!whole && mark + 2 < r->end && r->text[mark + 2] == '-') {
        while (to > from && is_space(r->text[to - 1])) to--;
    } else if (!whole && r->text[mark + 1] != '{') {
        while (line > from && (r->text[line - 1] == ' ' || r->text[line - 1] == '\t')) line--;
        if (line == 0 || r->text[line - 1] == '\n') to = line;
    }
    if (r->live && to > from) text_append(r->out, r->text + from, to - from);
}

/* The end of a block or of an expression. */
static bool close_mark(Rendering *r, const char *mark) {
    bool trims = reading_sign(r, "-");
    if (!reading_sign(r, mark)) {
        reading_wrong(r, "expected '%s'", mark);
        return false;
    }
    if (trims)
        reading_spaces(r);
    else if (mark[0] != '}' && r->at < r->end && r->text[r->at] == '\n')
        r->at++;
    return true;
}

static void skip_comment(Rendering *r) {
    const char *end = strstr(r->text + r->at, "#}");
    bool trims = end && end[-1] == '-';
    r->at = end ? (size_t)(end - r->text) + 2 : r->end;
    if (!end) reading_wrong(r, "a comment is not terminated");
    if (trims) reading_spaces(r);
    if (!trims && r->at < r->end && r->text[r->at] == '\n') r->at++;
}

/* ---- blocks ---- */

static void render_block(Rendering *r, int depth, char word[64]);

static void run_if_block(Rendering *r, int depth, char word[64]) {
    bool live = r->live, taken = false, more = true;
    strcpy(word, "if");
    while (more && !r->problem) {
        bool truth = true;
        more = strcmp(word, "else") != 0;
        r->live = live && !taken;
        if (more) truth = reading_true(expression_read(r));
        if (!close_mark(r, "%}")) break;
        r->live = live && !taken && truth;
        taken = taken || truth;
        render_block(r, depth + 1, word);
        if (strcmp(word, "elif") != 0 && strcmp(word, "else") != 0) break;
    }
    r->live = live;
    if (strcmp(word, "endif") != 0) reading_wrong(r, "expected 'endif'");
    close_mark(r, "%}");
}

static void set_loop(Rendering *r, const json_t *list, size_t i) {
    int count = (int)json_array_size(list), at = (int)i;
    json_t *loop =
        json_make("{s:i, s:i, s:b, s:b, s:i, s:i, s:i, s:i, s:i}", "index", at + 1, "index0", at,
                  "first", at == 0, "last", at + 1 == count, "length", count, "revindex",
                  count - at, "revindex0", count - at - 1, "depth", 1, "depth0", 0);
    if (i) json_object_set(loop, "previtem", json_array_get(list, i - 1));
    if (at + 1 < count) json_object_set(loop, "nextitem", json_array_get(list, i + 1));
    json_object_set_new(r->scope, "loop", loop);
}

/* Variables set in a loop are not visible after it. */
static void run_for(Rendering *r, int depth, char word[64]) {
    char name[64];
    if (!reading_name(r, name) || !reading_word(r, "in")) {
        reading_wrong(r, "only 'for NAME in LIST' is supported");
        return;
    }
    json_t *list = values_list(r, expression_read(r)), *outside = r->scope;
    if (r->problem || !close_mark(r, "%}")) return;
    size_t body = r->at, count = json_array_size(list), end = body;
    bool live = r->live;
    for (size_t i = 0; (i == 0 || (i < count && live)) && !r->problem; i++) {
        r->at = body;
        r->live = live && i < count;
        r->scope = reading_keep(r, json_copy(outside));
        if (r->live) {
            json_object_set(r->scope, name, json_array_get(list, i));
            set_loop(r, list, i);
        }
        render_block(r, depth + 1, word);
        end = r->at;
        reading_spend(r, end - body + LOOP_BYTES + VALUE_BYTES * json_object_size(outside));
        if (strcmp(word, "endfor") != 0) reading_wrong(r, "expected 'endfor'");
    }
    r->at = end;
    r->live = live;
    r->scope = outside;
    close_mark(r, "%}");
}

static void run_set(Rendering *r) {
    char name[64], field[64] = "";
    bool named = reading_name(r, name) && (!reading_sign(r, ".") || reading_name(r, field));
    if (!named || !reading_sign(r, "=")) {
        reading_wrong(r, "only 'set NAME = VALUE' is supported");
        return;
    }
    json_t *value = expression_read(r);
    if (*field && value) { /* a copy: nothing may hold itself */
        reading_spend_on(r, value);
        if (!r->problem) value = reading_keep(r, json_deep_copy(value));
    }
    json_t *within = *field ? json_object_get(r->scope, name) : r->scope;
    if (r->live && !r->problem && json_is_object(within))
        json_object_set(within, *field ? field : name,
                        value ? value : reading_keep(r, json_null()));
    close_mark(r, "%}");
}

/* Renders up to the block that ends this one, whose first word it leaves in `word`; "" at the end
 * of the text. */
static void render_block(Rendering *r, int depth, char word[64]) {
    word[0] = 0;
    if (depth > DEEPEST) reading_wrong(r, "blocks are nested too deeply");
    while (!r->problem) {
        size_t mark = next_mark(r);
        write_literal(r, mark);
        r->at = mark + 2;
        if (mark >= r->end) {
            r->at = r->end;
            return;
        }
        char kind = r->text[mark + 1];
        if (kind == '#') {
            skip_comment(r);
            continue;
        }
        if (r->at < r->end && r->text[r->at] == '-') r->at++;
        if (kind == '{') {
            json_t *value = expression_read(r);
            if (r->live) reading_spend_on(r, value);
            if (r->live && !r->problem) values_write(value, r->out);
            close_mark(r, "}}");
            continue;
        }
        word[0] = 0;
        if (!reading_name(r, word)) reading_wrong(r, "expected the name of a block");
        if (!strcmp(word, "if"))
            run_if_block(r, depth, word);
        else if (!strcmp(word, "for"))
            run_for(r, depth, word);
        else if (!strcmp(word, "set"))
            run_set(r);
        else if (!strncmp(word, "end", 3) || !strcmp(word, "elif") || !strcmp(word, "else"))
            return;
        else
            reading_wrong(r, "block '%s' is not supported", word);
        word[0] = 0;
    }
}

/* Why a rendering failed: a new string, or NULL. */
typedef struct Failure {
    char *text;
    bool raised;  /* raised by the template */
    bool refused; /* other messages may be valid */
} Failure;

static Failure render(const Template *template, json_t *messages, const json_t *tools, bool prompt,
                      Text *out) {
    Rendering r = {.text = template->text,
                   .end = template->length,
                   .live = true,
                   .scope = json_copy(template->names),
                   .made = json_array(),
                   .out = out};
    json_t *scope = r.scope;
    char word[64];
    json_object_set(scope, "messages", messages);
    json_object_set_new(scope, "add_generation_prompt", json_boolean(prompt));
    json_object_set_new(scope, "tools", tools ? json_deep_copy(tools) : json_null());
    json_object_set_new(scope, "documents", json_null());
    render_block(&r, 0, word);
    if (*word) reading_wrong(&r, "'%s' without a matching block", word);
    json_decref(scope);
    json_decref(r.made);
    return (Failure){r.problem, r.raised, r.refused};
}

/* ---- messages ---- */

/* Content in parts as one text. */
static json_t *whole_content(const json_t *content) {
    if (json_is_string(content)) return json_incref((json_t *)(uintptr_t)content);
    AUTO(Text) text = {0};
    bool good = json_is_array(content);
    for (size_t i = 0; i < json_array_size(content) && good; i++) {
        const json_t *said = json_object_get(json_array_get(content, i), "text");
        good = json_is_string(said);
        if (good) values_write(said, &text);
    }
    return good ? json_stringn(text.bytes ? text.bytes : "", text.length) : NULL;
}

/* Calls of an earlier answer, with arguments as values instead of their text. */
static json_t *whole_calls(const json_t *calls) {
    json_t *list = json_deep_copy(calls), *call;
    json_error_t error;
    size_t i;
    json_array_foreach(list, i, call) {
        json_t *function = json_object_get(call, "function");
        const char *text = json_field_text(function, "arguments");
        json_t *arguments = text ? json_loads(text, 0, &error) : NULL;
        if (arguments) json_object_set_new(function, "arguments", arguments);
    }
    return list;
}

/* The content of a message; with calls of functions it can be missing. */
static json_t *message_content(const json_t *message) {
    const json_t *content = json_object_get(message, "content");
    bool calls = json_array_size(json_object_get(message, "tool_calls")) > 0;
    return calls && (!content || json_is_null(content)) ? json_text("") : whole_content(content);
}

/* The messages as templates expect them; NULL: they are not. */
static json_t *whole_messages(const json_t *messages) {
    json_t *list = json_array();
    bool good = json_array_size(messages) > 0;
    for (size_t i = 0; i < json_array_size(messages) && good; i++) {
        const json_t *message = json_array_get(messages, i);
        json_t *content = message_content(message), *calls = json_object_get(message, "tool_calls");
        good = content && json_is_string(json_object_get(message, "role"));
        json_t *copy = good ? json_copy((json_t *)(uintptr_t)message) : NULL;
        if (copy) json_object_set(copy, "content", content);
        if (copy && json_is_array(calls))
            json_object_set_new(copy, "tool_calls", whole_calls(calls));
        if (copy) json_array_append_new(list, copy);
        json_decref(content);
    }
    if (good) return list;
    json_decref(list);
    return NULL;
}

bool template_render(const Template *template, const json_t *messages, const json_t *tools,
                     bool prompt, Text *out, Problem *problem) {
    json_t *list = whole_messages(messages);
    if (!list)
        return problem_set(
            problem, 400, "messages",
            "'messages' must be a list of objects with string fields 'role' and 'content'");
    const Failure failure = render(template, list, tools, prompt, out);
    json_decref(list);
    if (!failure.text) return true;
    problem_set(problem, 400, "messages", "%s%s",
                failure.raised ? "" : "error in the chat template of this server, ", failure.text);
    free(failure.text);
    return false;
}

bool template_chat(const Template *template, const json_t *messages, const json_t *tools, Text *out,
                   Problem *problem) {
    return template_render(template, messages, tools, true, out, problem);
}

void template_begin_once(const Tokenizer *tokenizer, TokenList *tokens) {
    const TokenList *before = tokenizer_before(tokenizer);
    size_t count = before->count, bytes = count * sizeof(int32_t);
    if (!count || tokens->count < 2 * count) return;
    if (memcmp(tokens->items, before->items, bytes) != 0 ||
        memcmp(tokens->items + count, before->items, bytes) != 0)
        return;
    tokens->count -= count;
    memmove(tokens->items, tokens->items + count, tokens->count * sizeof(int32_t));
}

/* ---- files ---- */

static json_t *read_config(const char *path) {
    json_error_t error;
    return json_load_file(path, JSON_REJECT_DUPLICATES, &error);
}

/* bos_token and eos_token: a text, or an object that has it. */
static void take_names(json_t *names, const json_t *config) {
    static const char *const all[] = {"bos_token", "eos_token", "pad_token", "unk_token"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        json_t *token = json_object_get(config, all[i]);
        if (json_is_object(token)) token = json_object_get(token, "content");
        if (json_is_string(token)) json_object_set(names, all[i], token);
    }
}

/* Of several templates that of the name "default". */
static const char *chat_template_of(const json_t *config) {
    const json_t *found = json_object_get(config, "chat_template");
    for (size_t i = 0; i < json_array_size(found); i++) {
        const json_t *one = json_array_get(found, i);
        const char *name = json_field_text(one, "name");
        if (name && strcmp(name, "default") == 0) return json_field_text(one, "template");
    }
    return json_string_value(found);
}

/* The tokenizer_config.json in the folder of a template file. */
static json_t *config_beside(const char *path) {
    const char *slash = strrchr(path, '/');
    AUTO_FREE char *beside =
        memory_format("%.*stokenizer_config.json", slash ? (int)(slash - path) + 1 : 0, path);
    return read_config(beside);
}

static bool try_out(const Template *template, const char *path) {
    Text out = {0};
    json_t *messages = json_make("[{s:s, s:s}]", "role", "user", "content", "x");
    const Failure failure = render(template, messages, NULL, true, &out);
    json_decref(messages);
    text_free(&out);
    bool good = !failure.text || failure.raised || failure.refused;
    if (!good)
        error_message("use a simpler template, or send formatted chats to /v1/completions",
                      "%s, %s", path, failure.text);
    free(failure.text);
    return good;
}

/* Normalizes the text as Jinja does: lines end with \n, without a final newline. */
static void normalize_template_text(Template *template, const char *text, size_t length) {
    template->text = memory_new(length + 1);
    for (size_t i = 0; i < length && text[i]; i++) {
        bool pair = text[i] == '\r' && i + 1 < length && text[i + 1] == '\n';
        if (!pair) template->text[template->length++] = (char)(text[i] == '\r' ? '\n' : text[i]);
    }
    if (template->length && template->text[template->length - 1] == '\n')
        template->text[--template->length] = 0;
}

/* text: NULL if there is none, which is reported for `path`. */
static Template *template_new(const char *path, const char *text, size_t length,
                              const json_t *config) {
    Template *template = memory_new(sizeof *template);
    normalize_template_text(template, text ? text : "", text ? length : 0);
    template->names = json_object();
    take_names(template->names, config);
    bool good =
        text || error_message("write the template to a file", "%s has no key chat_template", path);
    if (good && try_out(template, path)) return template;
    template_free(template);
    return NULL;
}

Template *template_open(const char *path, const char *text, size_t length) {
    size_t dot = strlen(path);
    bool is_config = dot > 5 && strcmp(path + dot - 5, ".json") == 0;
    json_auto_t *config = is_config ? read_config(path) : config_beside(path);
    if (is_config) {
        text = chat_template_of(config);
        length = text ? strlen(text) : 0;
    }
    return template_new(path, text, length, config);
}

Template *template_of_folder(const char *path, const char *jinja, const char *config, bool *wrong) {
    json_error_t error;
    json_auto_t *object = config ? json_loads(config, JSON_REJECT_DUPLICATES, &error) : NULL;
    const char *text = jinja ? jinja : chat_template_of(object);
    Template *template = text ? template_new(path, text, strlen(text), object) : NULL;
    *wrong = text && !template;
    return template;
}

void template_free(Template *template) {
    if (!template) return;
    json_decref(template->names);
    free(template->text);
    free(template);
}
