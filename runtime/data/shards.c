#include "data/shards.h"

#include "base/memory.h"
#include "base/message.h"

#include <stdlib.h>
#include <string.h>

static const char *const index_name = "model.safetensors.index.json";
static const char *const remedy_folder =
    "use a safetensors file, or a folder with model.safetensors or model.safetensors.index.json";

static bool open_shard(Shards *shards, const char *path) {
    for (int i = 0; i < shards->file_count; i++)
        if (strcmp(shards->files[i]->path, path) == 0) return true;
    Safetensors *file = safetensors_open(path);
    if (!file) return false;
    shards->files =
        memory_grow(shards->files, sizeof *shards->files * (size_t)(shards->file_count + 1));
    shards->files[shards->file_count++] = file;
    return true;
}

static int by_tensor_name(const void *a, const void *b) {
    const TensorEntry *const *first = a, *const *second = b;
    return strcmp((*first)->name, (*second)->name);
}

/* Merges all tensors into one list; duplicate names are an error. */
static bool merge(Shards *shards) {
    const GgufFile *gguf = shards->gguf;
    shards->count = gguf ? gguf->count : 0;
    for (int i = 0; i < shards->file_count; i++) shards->count += shards->files[i]->count;
    shards->entries = memory_new(sizeof *shards->entries * ((size_t)shards->count + 1));
    int at = 0;
    for (int i = 0; gguf && i < gguf->count; i++) shards->entries[at++] = &gguf->entries[i];
    for (int i = 0; i < shards->file_count; i++)
        for (int j = 0; j < shards->files[i]->count; j++)
            shards->entries[at++] = &shards->files[i]->entries[j];
    qsort(shards->entries, (size_t)shards->count, sizeof *shards->entries, by_tensor_name);
    for (int i = 1; i < shards->count; i++)
        if (strcmp(shards->entries[i - 1]->name, shards->entries[i]->name) == 0)
            return error_message("download the folder again", "%s contains tensor %s twice",
                                 shards->path, shards->entries[i]->name);
    return true;
}

/* True for a file name without a folder. */
static bool is_plain_name(const char *name) {
    return *name && *name != '.' && !strchr(name, '/') && !strchr(name, '\\');
}

static bool open_named(Shards *shards, const char *folder, const char *index, json_t *map) {
    const char *name;
    json_t *value;
    json_object_foreach(map, name, value) {
        const char *file = json_string_value(value);
        if (!file || !is_plain_name(file))
            return error_message("the index may only name files in its own folder",
                                 "%s: tensor %s is in '%s', which is not a file name", index, name,
                                 file ? file : "");
        AUTO_FREE char *path = path_join(folder, file);
        bool good =
            file_exists(path) || error_message("download the folder again",
                                               "%s names %s, which does not exist", index, path);
        good = good && open_shard(shards, path);
        if (!good) return false;
    }
    return shards->file_count > 0 || error_message(remedy_folder, "%s names no tensors", index);
}

static const TensorEntry *entry_in(const Shards *shards, const char *folder, const char *file,
                                   const char *name) {
    AUTO_FREE char *path = path_join(folder, file);
    const TensorEntry *found = NULL;
    for (int i = 0; i < shards->file_count; i++)
        if (strcmp(shards->files[i]->path, path) == 0)
            found = safetensors_find(shards->files[i], name);
    return found;
}

/* Checks that the index and the files list the same tensors. */
static bool index_agrees(const Shards *shards, const char *folder, const char *index, json_t *map) {
    const char *name;
    json_t *value;
    json_object_foreach(map, name, value) {
        if (!entry_in(shards, folder, json_string_value(value), name))
            return error_message("download the folder again", "%s: %s does not contain tensor %s",
                                 index, json_string_value(value), name);
    }
    for (int i = 0; i < shards->count; i++)
        if (!json_object_get(map, shards->entries[i]->name))
            return error_message("download the folder again",
                                 "%s does not list tensor %s of the files", index,
                                 shards->entries[i]->name);
    return true;
}

static bool open_index(Shards *shards, const char *folder, const char *path) {
    Mapping mapping;
    if (!file_map(path, "check the path", &mapping)) return false;
    json_error_t error;
    json_auto_t *index =
        json_loadb((const char *)mapping.bytes, mapping.length, JSON_REJECT_DUPLICATES, &error);
    json_t *map = json_object_get(index, "weight_map");
    bool good = index || error_message("download the folder again", "%s:%d:%d: invalid JSON: %s",
                                       path, error.line, error.column, error.text);
    if (good && !json_is_object(map))
        good = error_message("download the folder again", "%s has no key weight_map", path);
    good = good && open_named(shards, folder, path, map) && merge(shards) &&
           index_agrees(shards, folder, path, map);
    file_unmap(&mapping);
    return good;
}

static bool open_folder(Shards *shards, const char *folder) {
    AUTO_FREE char *index = path_join(folder, index_name),
                   *single = path_join(folder, "model.safetensors");
    bool good;
    if (file_exists(index))
        good = open_index(shards, folder, index);
    else if (file_exists(single))
        good = open_shard(shards, single) && merge(shards);
    else
        good = error_message(remedy_folder, "%s contains no safetensors files", folder);
    return good;
}

Shards *shards_open(const char *path) {
    Shards *shards = memory_new(sizeof *shards);
    shards->path = memory_format("%s", path);
    bool good;
    if (file_is_folder(path))
        good = open_folder(shards, path);
    else if (gguf_is(path))
        good = (shards->gguf = gguf_open(path)) && merge(shards);
    else
        good = open_shard(shards, path) && merge(shards);
    if (good) return shards;
    shards_close(shards);
    return NULL;
}

void shards_close(Shards *shards) {
    if (!shards) return;
    for (int i = 0; i < shards->file_count; i++) safetensors_close(shards->files[i]);
    gguf_close(shards->gguf);
    free(shards->files);
    free(shards->entries);
    free(shards->path);
    free(shards);
}

int shards_find(const Shards *shards, const char *name) {
    int low = 0, high = shards->count;
    while (low < high) {
        int middle = (low + high) / 2, order = strcmp(name, shards->entries[middle]->name);
        if (order == 0) return middle;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return -1;
}
