#include "tools/server/internal.h"

#include "tokenizer/text/text.h"

#include <string.h>

/* A method or a filter, its number of arguments and its function. */
typedef struct Callable {
    const char *name;
    int least, most; /* arguments */
    json_t *(*call)(Rendering *r, json_t *value, const Arguments *given);
} Callable;

static json_t *wrong_arguments(Rendering *r, const char *name) {
    return reading_wrong(r, "these arguments of '%s' are not supported", name);
}

/* The i-th argument, or the one of that name; NULL: there is none. */
static json_t *argument(const Arguments *given, int i, const char *name) {
    return i < given->count ? given->items[i] : json_object_get(given->named, name);
}

/* ---- texts ---- */

static bool in_set(int32_t character, const json_t *set) {
    if (!json_is_string(set))
        return character_is_space(character) || (character >= 0x1C && character <= 0x1F);
    const char *bytes = json_string_value(set);
    for (size_t at = 0; at < json_string_length(set);) {
        int taken;
        if (character_at(bytes + at, &taken) == character) return true;
        at += (size_t)taken;
    }
    return false;
}

/* Removes characters of the first argument, or white space: ends has < (left), > (right). */
static json_t *trimmed(Rendering *r, const json_t *value, const Arguments *given,
                       const char *ends) {
    const json_t *set = argument(given, 0, "chars");
    const char *bytes = json_string_value(value);
    size_t from = 0, to = json_string_length(value);
    int taken;
    if (set && !json_is_string(set) && !json_is_null(set)) return wrong_arguments(r, "strip");
    reading_spend(r, json_string_length(value) * (1 + json_string_length(set)));
    if (r->problem) return NULL;
    while (strchr(ends, '<') && from < to && in_set(character_at(bytes + from, &taken), set))
        from += (size_t)taken;
    while (strchr(ends, '>') && to > from) {
        size_t before = character_before(bytes, to);
        if (!in_set(character_at(bytes + before, &taken), set)) break;
        to = before;
    }
    return values_text(r, bytes + from, to - from);
}

static json_t *strip_method(Rendering *r, json_t *value, const Arguments *given) {
    return trimmed(r, value, given, "<>");
}

static json_t *strip_left(Rendering *r, json_t *value, const Arguments *given) {
    return trimmed(r, value, given, "<");
}

static json_t *strip_right(Rendering *r, json_t *value, const Arguments *given) {
    return trimmed(r, value, given, ">");
}

static json_t *in_case(Rendering *r, const json_t *value, LetterCase letter_case) {
    Text text = {0};
    text_append_case(&text, json_string_value(value), json_string_length(value), letter_case);
    return values_taken(r, &text);
}

static json_t *upper(Rendering *r, json_t *value, const Arguments *given) {
    (void)given;
    return in_case(r, value, CASE_UPPER);
}

static json_t *lower(Rendering *r, json_t *value, const Arguments *given) {
    (void)given;
    return in_case(r, value, CASE_LOWER);
}

static json_t *capitalize(Rendering *r, json_t *value, const Arguments *given) {
    (void)given;
    return in_case(r, value, CASE_CAPITALIZE);
}

static json_t *title(Rendering *r, json_t *value, const Arguments *given) {
    (void)given;
    return in_case(r, value, CASE_TITLE);
}

static json_t *title_words(Rendering *r, json_t *value, const Arguments *given) {
    (void)given;
    return in_case(r, value, CASE_WORDS);
}

static json_t *starts_with(Rendering *r, json_t *value, const Arguments *given) {
    size_t length = json_string_length(given->items[0]);
    if (!json_is_string(given->items[0])) return wrong_arguments(r, "startswith");
    return values_truth(
        r, json_string_length(value) >= length &&
               memcmp(json_string_value(value), json_string_value(given->items[0]), length) == 0);
}

static json_t *ends_with(Rendering *r, json_t *value, const Arguments *given) {
    size_t length = json_string_length(given->items[0]), all = json_string_length(value);
    if (!json_is_string(given->items[0])) return wrong_arguments(r, "endswith");
    return values_truth(r,
                        all >= length && memcmp(json_string_value(value) + all - length,
                                                json_string_value(given->items[0]), length) == 0);
}

/* The largest number of times; -1: no limit. Returns false for other values. */
static bool read_limit(const json_t *given, json_int_t *limit) {
    *limit = json_is_integer(given) ? json_integer_value(given) : -1;
    return !given || json_is_integer(given) || json_is_null(given);
}

static void append_part(Rendering *r, json_t *parts, const char *bytes, size_t length) {
    json_array_append(parts, values_text(r, bytes, length));
}

/* The parts between white space. */
static void split_words(Rendering *r, json_t *parts, const json_t *value, json_int_t limit) {
    const char *bytes = json_string_value(value);
    size_t length = json_string_length(value), at = 0, end;
    int taken;
    while (!r->problem) {
        while (at < length && in_set(character_at(bytes + at, &taken), NULL)) at += (size_t)taken;
        if (at == length) return;
        for (end = at; end < length && !in_set(character_at(bytes + end, &taken), NULL);)
            end += (size_t)taken;
        if (limit-- == 0) {
            append_part(r, parts, bytes + at, length - at);
            return;
        }
        append_part(r, parts, bytes + at, end - at);
        at = end;
    }
}

static json_t *split(Rendering *r, json_t *value, const Arguments *given) {
    const json_t *mark = argument(given, 0, "sep");
    json_int_t limit;
    json_t *parts = reading_keep(r, json_array());
    bool words = !mark || json_is_null(mark);
    if ((!words && !json_string_length(mark)) ||
        !read_limit(argument(given, 1, "maxsplit"), &limit))
        return wrong_arguments(r, "split");
    if (words) {
        split_words(r, parts, value, limit);
        return parts;
    }
    const char *at = json_string_value(value), *end = at + json_string_length(value), *next;
    size_t length = json_string_length(mark);
    while (!r->problem && limit-- != 0 &&
           (next = memmem(at, (size_t)(end - at), json_string_value(mark), length))) {
        append_part(r, parts, at, (size_t)(next - at));
        at = next + length;
    }
    append_part(r, parts, at, (size_t)(end - at));
    return parts;
}

/* Before each character where `from` is empty, and at the end. */
static size_t next_match(const char *bytes, size_t length, size_t at, const json_t *from) {
    size_t width = json_string_length(from);
    const char *found = memmem(bytes + at, length - at, json_string_value(from), width);
    return found ? (size_t)(found - bytes) : SIZE_MAX;
}

static json_t *replace_filter(Rendering *r, json_t *value, const Arguments *given) {
    const json_t *from = argument(given, 0, "old"), *to = argument(given, 1, "new");
    const char *bytes = json_string_value(value);
    size_t length = json_string_length(value), at = 0, match;
    json_int_t limit;
    Text text = {0};
    if (!json_is_string(from) || !json_is_string(to) ||
        !read_limit(argument(given, 2, "count"), &limit))
        return wrong_arguments(r, "replace");
    while (!r->problem && limit-- != 0 &&
           (match = next_match(bytes, length, at, from)) != SIZE_MAX) {
        text_append(&text, bytes + at, match - at);
        values_write(to, &text);
        reading_spend(r, match - at + json_string_length(to) + 1);
        at = match + json_string_length(from);
        if (json_string_length(from)) continue;
        if (at == length) break;
        int taken;
        character_at(bytes + at, &taken);
        text_append(&text, bytes + at, (size_t)taken);
        at += (size_t)taken;
    }
    text_append(&text, bytes + at, length - at);
    return values_taken(r, &text);
}

static json_t *as_text(Rendering *r, json_t *value);

/* The filter, which accepts any values. */
static json_t *replace_any(Rendering *r, json_t *value, const Arguments *given) {
    Arguments texts = *given;
    for (int i = 0; i < 2 && i < texts.count; i++) texts.items[i] = as_text(r, texts.items[i]);
    return replace_filter(r, value, &texts);
}

static json_t *join_list(Rendering *r, json_t *list, const json_t *mark, bool any) {
    Text text = {0};
    size_t i;
    json_t *item;
    list = values_list(r, list);
    json_array_foreach(list, i, item) {
        if (!any && !json_is_string(item)) wrong_arguments(r, "join");
        reading_spend(r, json_string_length(mark));
        if (r->problem) break;
        if (i && mark) values_write(mark, &text);
        values_write(item, &text);
    }
    return values_taken(r, &text);
}

static json_t *join_method(Rendering *r, json_t *value, const Arguments *given) {
    reading_spend_on(r, given->items[0]);
    return r->problem ? NULL : join_list(r, given->items[0], value, false);
}

static const Callable text_methods[] = {
    {"strip", 0, 1, strip_method},
    {"lstrip", 0, 1, strip_left},
    {"rstrip", 0, 1, strip_right},
    {"upper", 0, 0, upper},
    {"lower", 0, 0, lower},
    {"capitalize", 0, 0, capitalize},
    {"title", 0, 0, title},
    {"startswith", 1, 1, starts_with},
    {"endswith", 1, 1, ends_with},
    {"split", 0, 2, split},
    {"replace", 2, 3, replace_filter},
    {"join", 1, 1, join_method},
    {NULL, 0, 0, NULL},
};

/* ---- objects ---- */

static json_t *get_method(Rendering *r, json_t *value, const Arguments *given) {
    const char *key = json_string_value(given->items[0]);
    json_t *found = key ? json_object_get(value, key) : NULL;
    return found ? found : given->count > 1 ? given->items[1] : reading_keep(r, json_null());
}

static const Callable object_methods[] = {{"get", 1, 2, get_method}, {NULL, 0, 0, NULL}};

static bool arguments_fit(const Callable *callable, const Arguments *given) {
    int count = given->count + (int)json_object_size(given->named);
    return given->count >= callable->least && count <= callable->most;
}

json_t *call_method(Rendering *r, json_t *value, const char *name, const Arguments *given) {
    const Callable *one = json_is_object(value) ? object_methods : text_methods;
    if (!r->live || r->problem) return NULL;
    reading_spend_on(r, value);
    while (one->name && strcmp(one->name, name) != 0) one++;
    if (!one->name || (!json_is_string(value) && !json_is_object(value)))
        return reading_wrong(r, "method '.%s()' is not supported", name);
    for (int i = 0; i < given->count; i++)
        if (!given->items[i]) reading_refused(r, "an argument of '%s' is not defined", name);
    if (r->problem) return NULL;
    return arguments_fit(one, given) ? one->call(r, value, given) : wrong_arguments(r, name);
}

json_t *call_function(Rendering *r, const char *name, const Arguments *given) {
    if (!strcmp(name, "namespace")) return given->named;
    if (!strcmp(name, "raise_exception")) {
        if (!r->live) return NULL;
        r->raised = true;
        const char *why = given->count ? json_string_value(given->items[0]) : NULL;
        return reading_wrong(r, "%s", why ? why : "the template refuses these messages");
    }
    return reading_wrong(r, "function '%s()' is not supported", name);
}

/* ---- filters ---- */

/* str(value) */
static json_t *as_text(Rendering *r, json_t *value) {
    if (json_is_string(value)) return value;
    Text text = {0};
    values_write(value, &text);
    return values_taken(r, &text);
}

static json_t *string(Rendering *r, json_t *value, const Arguments *given) {
    (void)given;
    return as_text(r, value);
}

static json_t *list_filter(Rendering *r, json_t *value, const Arguments *given) {
    (void)given;
    return values_list(r, value ? value : reading_keep(r, json_array()));
}

static json_t *length_filter(Rendering *r, json_t *value, const Arguments *given) {
    (void)given;
    return values_length(r, value);
}

static json_t *first(Rendering *r, json_t *value, const Arguments *given) {
    return json_array_get(list_filter(r, value, given), 0);
}

static json_t *last(Rendering *r, json_t *value, const Arguments *given) {
    const json_t *items = list_filter(r, value, given);
    return json_array_size(items) ? json_array_get(items, json_array_size(items) - 1) : NULL;
}

static json_t *reverse(Rendering *r, json_t *value, const Arguments *given) {
    const json_t *back = values_integer(r, -1);
    return values_slice(r, json_is_string(value) ? value : list_filter(r, value, given),
                        (const json_t *const[3]){NULL, NULL, back});
}

static json_t *or_default(Rendering *r, json_t *value, const Arguments *given) {
    json_t *otherwise = argument(given, 0, "default_value");
    const json_t *falsy = argument(given, 1, "boolean");
    if (value && (!reading_true(falsy) || reading_true(value))) return value;
    return otherwise ? otherwise : values_text(r, "", 0);
}

static json_t *to_json(Rendering *r, json_t *value, const Arguments *given) {
    Text text = {0};
    (void)given;
    if (!value) return reading_refused(r, "'tojson' requires a defined value");
    values_write_json(value, &text);
    return values_taken(r, &text);
}

static json_t *join_filter(Rendering *r, json_t *value, const Arguments *given) {
    const json_t *mark = argument(given, 0, "d");
    if (mark && !json_is_string(mark)) return wrong_arguments(r, "join");
    return join_list(r, value, mark, true);
}

/* The filters of the first group convert the value to a string. */
static const Callable filters[] = {
    {"trim", 0, 1, strip_method},   {"upper", 0, 0, upper},
    {"lower", 0, 0, lower},         {"capitalize", 0, 0, capitalize},
    {"title", 0, 0, title_words},   {"replace", 2, 3, replace_any},
    {"string", 0, 0, string},       {"safe", 0, 0, string},
    {"list", 0, 0, list_filter},    {"length", 0, 0, length_filter},
    {"count", 0, 0, length_filter}, {"first", 0, 0, first},
    {"last", 0, 0, last},           {"reverse", 0, 0, reverse},
    {"default", 0, 2, or_default},  {"d", 0, 2, or_default},
    {"tojson", 0, 0, to_json},      {"join", 0, 1, join_filter},
};

enum { OF_TEXTS = 8 };

json_t *call_filter(Rendering *r, json_t *value, const char *name, const Arguments *given) {
    size_t count = sizeof filters / sizeof *filters, i = 0;
    while (i < count && strcmp(filters[i].name, name) != 0) i++;
    if (i == count) return reading_wrong(r, "filter '%s' is not supported", name);
    reading_spend_on(r, value);
    if (!r->live || r->problem) return NULL;
    if (!arguments_fit(&filters[i], given)) return wrong_arguments(r, name);
    return filters[i].call(r, i < OF_TEXTS ? as_text(r, value) : value, given);
}

/* ---- tests ---- */

bool call_test(Rendering *r, const json_t *value, const char *name) {
    if (!strcmp(name, "defined")) return value != NULL;
    if (!strcmp(name, "undefined")) return value == NULL;
    if (!strcmp(name, "none")) return json_is_null(value);
    if (!strcmp(name, "string")) return json_is_string(value);
    if (!strcmp(name, "mapping")) return json_is_object(value);
    if (!strcmp(name, "iterable") || !strcmp(name, "sequence"))
        return !value || json_is_array(value) || json_is_string(value) || json_is_object(value);
    if (!strcmp(name, "true")) return json_is_true(value);
    if (!strcmp(name, "false")) return json_is_false(value);
    if (!strcmp(name, "boolean")) return json_is_boolean(value);
    if (!strcmp(name, "integer")) return json_is_integer(value);
    if (!strcmp(name, "float")) return json_is_real(value);
    if (!strcmp(name, "number")) return json_is_number(value) || json_is_boolean(value);
    reading_wrong(r, "test '%s' is not supported", name);
    return false;
}
