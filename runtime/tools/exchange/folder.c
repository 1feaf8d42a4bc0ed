#include "tools/exchange/exchange.h"

#include "base/memory.h"
#include "base/message.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_BYTES = 16 << 20 };

static const struct {
    const char *name;
    bool tokens; /* belongs to the tokenizer */
} known[] = {
    {"config.json", false},          {"generation_config.json", false},
    {"tokenizer_config.json", true}, {"special_tokens_map.json", true},
    {"chat_template.jinja", true},
};

enum { KNOWN = sizeof known / sizeof *known };

/* Adds the text of a file to `files`; skips files that are not UTF-8. False after a message. */
static bool read_tokenizer_file(json_t *files, const char *path, const char *name) {
    Mapping mapping;
    if (!file_map(path, "download the folder again", &mapping)) return false;
    bool good = mapping.length <= MAX_BYTES ||
                error_message("remove it from the folder", "%s is larger than %d bytes", path,
                              (int)MAX_BYTES);
    json_auto_t *text = good ? json_stringn((const char *)mapping.bytes, mapping.length) : NULL;
    bool whole = text && strlen(json_string_value(text)) == mapping.length;
    AUTO_FREE char *note = memory_format("file:%s", name);
    if (whole) json_object_set(files, note, text);
    if (good && !whole) note_message("%s is not valid UTF-8 and is skipped", path);
    file_unmap(&mapping);
    return good;
}

json_t *folder_files(const char *folder, bool bare) {
    json_t *files = json_object();
    bool good = true;
    for (int i = 0; good && i < KNOWN; i++) {
        AUTO_FREE char *path = path_join(folder, known[i].name);
        if (file_exists(path) && !(bare && known[i].tokens))
            good = read_tokenizer_file(files, path, known[i].name);
    }
    if (good) return files;
    json_decref(files);
    return NULL;
}

bool folder_write_tokenizer(const char *folder, const Safetensors *checkpoint) {
    static const char config[] = "{\"tokenizer_class\": \"PreTrainedTokenizerFast\"}\n";
    const char *json = safetensors_note(checkpoint, "tokenizer");
    bool good = !json || (folder_write_text(folder, "tokenizer.json", json) &&
                          folder_write_text(folder, "tokenizer_config.json", config));
    for (int i = 1; good && i < KNOWN; i++) {
        AUTO_FREE char *note = memory_format("file:%s", known[i].name);
        const char *text = safetensors_note(checkpoint, note);
        good = !text || folder_write_text(folder, known[i].name, text);
    }
    return good;
}
