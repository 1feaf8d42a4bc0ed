#include "tools/exchange/internal.h"

#include "abi/json_make.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const GgufCut cuts[] = {
    {.name = "llama-bpe",
     .mark = "\\\\p{N}{1,3}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*",
     .pattern = CONTRACTIONS "\\p{N}{1,3}" REST,
     .whole = true},
    {.name = "qwen2",
     .mark = "\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*",
     .pattern = CONTRACTIONS "\\p{N}" REST,
     .nfc = true},
    {.name = "smollm", .mark = "\"individual_digits\":true", .digits = true},
    {.name = "gpt-2", .mark = "\"use_regex\":true"},
};

const GgufCut *gguf_cuts(int *count) {
    *count = sizeof cuts / sizeof *cuts;
    return cuts;
}

const GgufCut *gguf_cut_named(const char *name) {
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
        if (strcmp(cuts[i].name, name) == 0) return &cuts[i];
    return NULL;
}

typedef struct Merge {
    char *left, *right;
    float score;
} Merge;

/* By score; ties: longer parts first, as in the transformers library. */
static int by_score(const void *a, const void *b) {
    const Merge *first = a, *second = b;
    if (first->score != second->score) return first->score > second->score ? -1 : 1;
    size_t one = strlen(first->left), two = strlen(second->left);
    if (one != two) return one > two ? -1 : 1;
    return strcmp(first->left, second->left);
}

typedef struct Merges {
    Merge *items;
    size_t count;
} Merges;

/* Adds each split of a token into two tokens. */
static void add_splits(Merges *merges, const json_t *vocabulary, const char *text, float score) {
    for (const char *at = text; *at;) {
        at += character_length((unsigned char)*at);
        if (!*at) break;
        char *left = memory_format("%.*s", (int)(at - text), text);
        if (!json_object_get(vocabulary, left) || !json_object_get(vocabulary, at)) {
            free(left);
            continue;
        }
        merges->items = memory_grow(merges->items, sizeof(Merge) * (merges->count + 1));
        merges->items[merges->count++] = (Merge){left, memory_format("%s", at), score};
    }
}

json_t *gguf_merges(const json_t *vocabulary, const float *scores, const json_t *made) {
    Merges merges = {0};
    json_t *list = json_array(), *id, *all = (json_t *)(uintptr_t)made;
    const char *text;
    json_object_foreach(all, text, id)
        add_splits(&merges, vocabulary, text, scores[json_integer_value(id)]);
    if (merges.count) qsort(merges.items, merges.count, sizeof(Merge), by_score);
    for (size_t i = 0; i < merges.count; i++) {
        json_array_append_new(list,
                              json_make("[s, s]", merges.items[i].left, merges.items[i].right));
        free(merges.items[i].left);
        free(merges.items[i].right);
    }
    free(merges.items);
    return list;
}
