#include "tools/exchange/exchange.h"

#include "abi/json_make.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/message.h"
#include "tokenizer/text/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 8 };

static void flatten_value(Config *config, const char *key, json_t *value, int depth);

static void add_object(Config *config, const char *key, json_t *object, int depth) {
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value) {
        AUTO_FREE char *whole = memory_format("%s%s%s", key, *key ? "." : "", name);
        flatten_value(config, whole, value, depth + 1);
    }
}

/* A list of strings, one per line; NULL if an element is not a string. */
static char *lines_text(json_t *list) {
    Text text = {0};
    bool good = true;
    for (size_t i = 0; i < json_array_size(list) && good; i++) {
        const char *item = json_string_value(json_array_get(list, i));
        good = item != NULL;
        if (i) text_append(&text, "\n", 1);
        if (good) text_append(&text, item, strlen(item));
    }
    text_append(&text, "", 1);
    if (good) return text.bytes;
    text_free(&text);
    return NULL;
}

static void flatten_value(Config *config, const char *key, json_t *value, int depth) {
    if (json_is_object(value) && depth < MAX_DEPTH && json_object_size(value)) {
        add_object(config, key, value, depth);
        return;
    }
    config->pairs = memory_grow(config->pairs, sizeof *config->pairs * (size_t)(config->count + 1));
    MoecPair *pair = &config->pairs[config->count++];
    *pair = (MoecPair){.key = memory_format("%s", key), .kind = MOEC_PAIR_NONE};
    if (json_is_boolean(value)) {
        pair->kind = MOEC_PAIR_FLAG;
        pair->number = json_is_true(value);
    } else if (json_is_number(value)) {
        pair->kind = MOEC_PAIR_NUMBER;
        pair->number = json_number_value(value);
    } else if (json_is_string(value)) {
        pair->kind = MOEC_PAIR_TEXT;
        pair->text = memory_format("%s", json_string_value(value));
    } else if (!json_is_null(value)) {
        pair->kind = MOEC_PAIR_LIST;
        pair->text = lines_text(value);
        if (pair->text && json_is_array(value)) return;
        free((void *)(uintptr_t)pair->text);
        pair->kind = MOEC_PAIR_OTHER;
        pair->text = json_write(value, JSON_COMPACT | JSON_ENCODE_ANY);
    }
}

Config *config_of(const char *path, json_t *object) {
    Config *config = memory_new(sizeof *config);
    config->path = memory_format("%s", path);
    add_object(config, "", object, 0);
    return config;
}

Config *config_open(const char *path) {
    Mapping mapping;
    if (!file_map(path, "use a complete Hugging Face model directory", &mapping)) return NULL;
    json_error_t error;
    json_auto_t *object =
        json_loadb((const char *)mapping.bytes, mapping.length, JSON_REJECT_DUPLICATES, &error);
    Config *config = NULL;
    if (!object)
        error_message("download the folder again", "%s:%d:%d: invalid JSON: %s", path, error.line,
                      error.column, error.text);
    else if (!json_is_object(object))
        error_message("download the folder again", "%s does not contain a JSON object", path);
    else
        config = config_of(path, object);
    file_unmap(&mapping);
    return config;
}

void config_close(Config *config) {
    if (!config) return;
    for (int i = 0; i < config->count; i++) {
        free((void *)(uintptr_t)config->pairs[i].key);
        free((void *)(uintptr_t)config->pairs[i].text);
    }
    free(config->pairs);
    free(config->path);
    free(config);
}

const char *config_text(const Config *config, const char *key) {
    for (int i = 0; i < config->count; i++)
        if (strcmp(config->pairs[i].key, key) == 0) return config->pairs[i].text;
    return NULL;
}

static json_t *lines_json(const char *text) {
    json_t *list = json_array();
    while (*text) {
        size_t length = strcspn(text, "\n");
        json_array_append_new(list, json_text_bytes(text, length));
        text += length + (text[length] == '\n');
    }
    return list;
}

static json_t *pair_json(const MoecPair *pair) {
    switch (pair->kind) {
    case MOEC_PAIR_FLAG:
        return json_boolean(pair->number != 0);
    case MOEC_PAIR_NUMBER:
        if (!pair->real && pair->number == floor(pair->number) && fabs(pair->number) < 0x1p53)
            return json_integer((json_int_t)pair->number);
        return json_real(pair->number);
    case MOEC_PAIR_TEXT:
        return json_text(pair->text);
    case MOEC_PAIR_LIST:
        return lines_json(pair->text);
    case MOEC_PAIR_OTHER:
        return json_loads(pair->text, 0, NULL);
    default:
        return json_null();
    }
}

/* "rope.theta" is stored in the object "rope". */
static void put_nested(json_t *object, const char *key, json_t *value) {
    for (const char *dot; (dot = strchr(key, '.')); key = dot + 1) {
        AUTO_FREE char *head = memory_format("%.*s", (int)(dot - key), key);
        json_t *inner = json_object_get(object, head);
        if (!inner) {
            inner = json_object();
            json_object_set_new(object, head, inner);
        }
        object = inner;
    }
    json_object_set_new(object, key, value);
}

/* True if the original model has a larger value of a limit. */
static bool exceeds_before(const MoecPair *pair, const json_t *before) {
    const json_t *value = json_object_get(before, pair->key);
    return pair->least && json_is_number(value) && json_number_value(value) > pair->number;
}

bool config_write(const char *path, const NewConfig *config) {
    json_error_t error;
    json_t *before = config->before ? json_loads(config->before, 0, &error) : NULL, *value;
    json_auto_t *object = json_object();
    const char *key;
    json_object_foreach(before, key, value) {
        if (moec_layout_unread(config->layouts, config->layout, key) && !strstr(key, "dtype"))
            json_object_set(object, key, value);
    }
    for (int i = 0; i < config->count; i++) {
        const MoecPair *pair = &config->pairs[i];
        put_nested(object, pair->key,
                   exceeds_before(pair, before) ? json_incref(json_object_get(before, pair->key))
                                                : pair_json(pair));
    }
    put_nested(object, "torch_dtype", json_text(config->type));
    AUTO_FREE char *text = json_write(object, JSON_INDENT(2));
    bool written = file_write(path, text, strlen(text));
    json_decref(before);
    return written;
}
