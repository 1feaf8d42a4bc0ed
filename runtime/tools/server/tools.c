/* Calls of functions of the client. A model writes a call as
 *
 *     <tool_call>{"name": "f", "arguments": {...}}</tool_call>
 *
 * any number of times after other text, or answers with one such object or a list of them. The key
 * `parameters` is another name of `arguments`. */
#include "tools/server/internal.h"

#include "abi/json_make.h"
#include "base/memory.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- fields ---- */

static const char *called_name(const json_t *function) {
    return json_field_text(function, "name");
}

static bool is_tool(const json_t *tool) {
    const char *type = json_field_text(tool, "type"),
               *name = called_name(json_object_get(tool, "function"));
    const json_t *parameters = json_object_get(json_object_get(tool, "function"), "parameters");
    if (!type || strcmp(type, "function") != 0 || !name || !*name || strlen(name) > 64)
        return false;
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && *name != '_' && *name != '-') return false;
    return !parameters || json_is_object(parameters);
}

static json_t *find_listed_function(const json_t *functions, const char *name) {
    for (size_t i = 0; i < json_array_size(functions); i++) {
        json_t *function = json_array_get(functions, i);
        if (name && strcmp(called_name(function), name) == 0) return function;
    }
    return NULL;
}

static bool read_tool_list(Tools *tools, const json_t *list, Problem *problem) {
    if (!list || json_is_null(list)) return true;
    bool good = json_is_array(list);
    tools->functions = json_array();
    for (size_t i = 0; i < json_array_size(list) && good; i++) {
        good = is_tool(json_array_get(list, i));
        json_array_append(tools->functions, json_object_get(json_array_get(list, i), "function"));
    }
    if (good && json_array_size(list)) tools->list = json_deep_copy(list);
    return good || problem_set(problem, 400, "tools",
                               "'tools' must be a list of {\"type\": \"function\", \"function\": "
                               "{\"name\": ..., \"parameters\": {...}}}");
}

static bool choose_named(Tools *tools, const json_t *choice, Problem *problem) {
    json_t *function =
        find_listed_function(tools->functions, called_name(json_object_get(choice, "function")));
    if (!function)
        return problem_set(problem, 400, "tool_choice",
                           "'tool_choice' must be none, auto, required or {\"type\": \"function\", "
                           "\"function\": {\"name\": ...}} with a name in 'tools'");
    json_t *only = json_array();
    json_array_append(only, function);
    json_decref(tools->functions);
    tools->functions = only;
    tools->choice = TOOLS_NAMED;
    return true;
}

bool tools_read(Tools *tools, const json_t *body, Problem *problem) {
    const json_t *choice = json_object_get(body, "tool_choice");
    const char *word = json_string_value(choice);
    if (!read_tool_list(tools, json_object_get(body, "tools"), problem)) return false;
    if (!choice || json_is_null(choice) || (word && !strcmp(word, "auto"))) return true;
    if (word && !strcmp(word, "none")) {
        tools_free(tools);
        return true;
    }
    if (!word || strcmp(word, "required") != 0) return choose_named(tools, choice, problem);
    tools->choice = TOOLS_REQUIRED;
    return tools->list || problem_set(problem, 400, "tool_choice",
                                      "'tool_choice' is required, but there are no 'tools'");
}

void tools_free(Tools *tools) {
    json_decref(tools->list);
    json_decref(tools->functions);
    *tools = (Tools){0};
}

Grammar *tools_grammar(const Tools *tools, Problem *problem) {
    if (tools->choice == TOOLS_REQUIRED)
        return schema_call_grammar(tools->functions, "tools", problem);
    return schema_grammar(json_object_get(json_array_get(tools->functions, 0), "parameters"),
                          "tools", problem);
}

/* ---- calls ---- */

typedef struct CallList {
    const Tools *tools;
    json_t *calls;
    const char *prefix;
} CallList;

static void append_call(CallList *list, const char *name, const char *arguments, size_t length) {
    AUTO_FREE char *id = memory_format("%s_%zu", list->prefix, json_array_size(list->calls));
    json_array_append_new(list->calls, json_make("{s:s, s:s, s:{s:s, s:o}}", "id", id, "type",
                                                 "function", "function", "name", name, "arguments",
                                                 json_text_bytes(arguments, length)));
}

/* Adds the call of an object; false if it is none. */
static bool append_object(CallList *list, const json_t *object) {
    const json_t *function = find_listed_function(list->tools->functions, called_name(object)),
                 *arguments = json_object_get(object, "arguments");
    if (!arguments) arguments = json_object_get(object, "parameters");
    if (!function || !json_is_object(arguments)) return false;
    AUTO_FREE char *text = json_write(arguments, JSON_COMPACT);
    append_call(list, called_name(function), text, strlen(text));
    return true;
}

/* Adds the calls of a text in JSON; false if it is anything else. */
static bool append_text(CallList *list, const char *bytes, size_t length) {
    json_error_t error;
    json_t *value = json_loadb(bytes, length, 0, &error), *object;
    bool good = value != NULL;
    size_t i;
    if (json_is_array(value)) {
        json_array_foreach(value, i, object) good = good && append_object(list, object);
    } else {
        good = good && append_object(list, value);
    }
    json_decref(value);
    return good;
}

/* Adds the calls between marks; *before: where the first mark begins. */
static bool append_marked(CallList *list, const Text *text, size_t *before) {
    static const char open[] = "<tool_call>", close[] = "</tool_call>";
    const char *at = text->bytes, *end = at + text->length;
    for (bool first = true;; first = false) {
        const char *start = memmem(at, (size_t)(end - at), open, strlen(open));
        if (!start) return !first;
        if (first) *before = (size_t)(start - at);
        start += strlen(open);
        const char *stop = memmem(start, (size_t)(end - start), close, strlen(close));
        if (!append_text(list, start, (size_t)((stop ? stop : end) - start))) return false;
        if (!stop) return true;
        at = stop + strlen(close);
    }
}

json_t *tools_calls(const Tools *tools, const Text *text, const char *prefix, size_t *before) {
    CallList list = {tools, json_array(), prefix};
    *before = 0;
    bool good = true;
    if (tools->choice == TOOLS_NAMED)
        append_call(&list, called_name(json_array_get(tools->functions, 0)),
                    text->bytes ? text->bytes : "", text->length);
    else
        good = text->length && (append_text(&list, text->bytes, text->length) ||
                                append_marked(&list, text, before));
    if (good && json_array_size(list.calls)) return list.calls;
    json_decref(list.calls);
    return NULL;
}
