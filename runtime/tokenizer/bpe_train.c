#include "tokenizer/tokenizer.h"

#include "abi/json_make.h"
#include "base/message.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/clock.h"
#include "tokenizer/internal.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 1 << 20, QUIET_SECONDS = 1 };

/* A word of the text as tokens, and how often it was there. */
typedef struct Spelling {
    int32_t *tokens;
    int32_t length;
    int64_t count;
} Spelling;

/* Two neighbours: how often, and in which words (some twice). */
typedef struct Neighbours {
    uint64_t key;
    int64_t count;
    int32_t *words;
    int32_t word_count, word_capacity;
    bool changed; /* waits to be entered into the heap */
} Neighbours;

typedef struct MergeCandidate {
    int64_t count;
    uint64_t key;
} MergeCandidate;

typedef struct Trainer {
    const BpeTraining *training;
    char **blocks; /* the bytes of words */
    int block_count;
    size_t block_used, block_size;
    Dictionary words;
    Spelling *spellings;
    int32_t spelling_count, spelling_capacity;
    PairTable pairs; /* key to the index in `neighbours` */
    Neighbours *neighbours;
    int32_t neighbour_count, neighbour_capacity;
    int32_t *changed;
    int32_t changed_count, changed_capacity;
    MergeCandidate *heap;
    size_t heap_count, heap_capacity;
    Name *names; /* [token]: letters */
    int32_t token_count;
    Dictionary numbers;
    uint64_t *merges;
    int32_t merge_count;
} Trainer;

/* Room for one more of a list. */
static void *room(void *items, int32_t count, int32_t *capacity, size_t size) {
    if (count < *capacity) return items;
    *capacity = *capacity ? 2 * *capacity : 64;
    return memory_grow(items, size * (size_t)*capacity);
}

/* Bytes that stay until the end. */
static char *keep_spelling(Trainer *trainer, const char *bytes, size_t length) {
    if (trainer->block_used + length > trainer->block_size) {
        trainer->block_size = length > BLOCK_BYTES ? length : BLOCK_BYTES;
        trainer->blocks =
            memory_grow(trainer->blocks, sizeof(char *) * (size_t)(trainer->block_count + 1));
        trainer->blocks[trainer->block_count++] = memory_new(trainer->block_size + 1);
        trainer->block_used = 0;
    }
    char *kept = trainer->blocks[trainer->block_count - 1] + trainer->block_used;
    memcpy(kept, bytes, length);
    trainer->block_used += length;
    return kept;
}

/* ---- counting words ---- */

static void count_word(void *context, const char *bytes, size_t length) {
    Trainer *trainer = context;
    int32_t number = dictionary_find(&trainer->words, bytes, length);
    if (number < 0) {
        number = trainer->spelling_count;
        trainer->spellings = room(trainer->spellings, number, &trainer->spelling_capacity,
                                  sizeof *trainer->spellings);
        trainer->spellings[trainer->spelling_count++] = (Spelling){.length = (int32_t)length};
        dictionary_put(&trainer->words, keep_spelling(trainer, bytes, length), length, number);
    }
    trainer->spellings[number].count++;
}

/* Each line is a text of its own, with its end. */
static bool count_file(Trainer *trainer, Encoder *encoder, const char *path) {
    Mapping mapping;
    if (!file_map(path, "check the path of the text", &mapping)) return false;
    const char *at = (const char *)mapping.bytes, *end = at + mapping.length;
    bool good = true;
    double began = seconds_now();
    while (at < end && good && !interrupt_signal()) {
        const char *line = memchr(at, '\n', (size_t)(end - at));
        const char *next = line ? line + 1 : end;
        good = encoder_split(encoder, at, (size_t)(next - at), count_word, trainer);
        at = next;
        if (good && seconds_now() - began > QUIET_SECONDS && progress_due())
            progress_show(false, "%s: %.0f %%, %d words", path,
                          100.0 * (double)(at - (const char *)mapping.bytes) /
                              (double)mapping.length,
                          trainer->spelling_count);
    }
    file_unmap(&mapping);
    return good;
}

/* ---- tokens ---- */

static int32_t add_token(Trainer *trainer, const char *bytes, size_t length) {
    int32_t number = dictionary_find(&trainer->numbers, bytes, length);
    if (number >= 0) return number;
    const char *kept = keep_spelling(trainer, bytes, length);
    trainer->names[trainer->token_count] = (Name){kept, (uint32_t)length};
    dictionary_put(&trainer->numbers, kept, length, trainer->token_count);
    return trainer->token_count++;
}

/* Special tokens, then the letters of all bytes in the order of letters. */
static void add_alphabet(Trainer *trainer) {
    const BpeTraining *training = trainer->training;
    for (int i = 0; i < training->special_count; i++)
        add_token(trainer, training->special[i], strlen(training->special[i]));
    AUTO(Text) letter = {0};
    for (int32_t c = 0; c <= 0x143; c++) {
        if (byte_of_letter(c) < 0) continue;
        letter.length = 0;
        text_append_character(&letter, c);
        add_token(trainer, letter.bytes, letter.length);
    }
}

/* Words from bytes to the tokens of letters. */
static void spell_words(Trainer *trainer) {
    int32_t letters[256];
    AUTO(Text) letter = {0};
    for (int byte = 0; byte < 256; byte++) {
        letter.length = 0;
        text_append_character(&letter, letter_of_byte((unsigned char)byte));
        letters[byte] = dictionary_find(&trainer->numbers, letter.bytes, letter.length);
    }
    for (size_t i = 0; i < trainer->words.size; i++) {
        const WordEntry *word = &trainer->words.slots[i];
        if (word->number < 0) continue;
        Spelling *spelling = &trainer->spellings[word->number];
        spelling->tokens = memory_new(sizeof(int32_t) * (word->length + 1));
        for (uint32_t k = 0; k < word->length; k++)
            spelling->tokens[k] = letters[(unsigned char)word->bytes[k]];
    }
}

/* ---- pairs ---- */

/* The higher count first, then the lower numbers. */
static bool precedes(const MergeCandidate *a, const MergeCandidate *b) {
    return a->count != b->count ? a->count > b->count : a->key < b->key;
}

static void push_candidate(Trainer *trainer, MergeCandidate candidate) {
    if (trainer->heap_count == trainer->heap_capacity) {
        trainer->heap_capacity = trainer->heap_capacity ? 2 * trainer->heap_capacity : 1024;
        trainer->heap = memory_grow(trainer->heap, sizeof *trainer->heap * trainer->heap_capacity);
    }
    MergeCandidate *heap = trainer->heap;
    size_t at = trainer->heap_count++;
    for (; at > 0 && precedes(&candidate, &heap[(at - 1) / 2]); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = candidate;
}

static MergeCandidate pop_candidate(Trainer *trainer) {
    MergeCandidate *heap = trainer->heap, top = heap[0], moved = heap[--trainer->heap_count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= trainer->heap_count) break;
        if (child + 1 < trainer->heap_count && precedes(&heap[child + 1], &heap[child])) child++;
        if (!precedes(&heap[child], &moved)) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
    return top;
}

static Neighbours *neighbours_of(Trainer *trainer, uint64_t key) {
    TokenPair *pair = pairs_put(&trainer->pairs, key);
    if (pair->first < 0) {
        pair->first = trainer->neighbour_count;
        trainer->neighbours = room(trainer->neighbours, trainer->neighbour_count,
                                   &trainer->neighbour_capacity, sizeof *trainer->neighbours);
        trainer->neighbours[trainer->neighbour_count++] = (Neighbours){.key = key};
    }
    return &trainer->neighbours[pair->first];
}

/* A pair is there once more, or (sign -1) once less, each time that the word is. */
static void change_pair(Trainer *trainer, int32_t left, int32_t right, int32_t word, int sign) {
    Neighbours *pair = neighbours_of(trainer, pair_key(left, right));
    pair->count += sign * trainer->spellings[word].count;
    if (sign < 0) return;
    if (!pair->word_count || pair->words[pair->word_count - 1] != word) {
        pair->words =
            room(pair->words, pair->word_count, &pair->word_capacity, sizeof *pair->words);
        pair->words[pair->word_count++] = word;
    }
    if (pair->changed) return;
    pair->changed = true;
    trainer->changed = room(trainer->changed, trainer->changed_count, &trainer->changed_capacity,
                            sizeof *trainer->changed);
    trainer->changed[trainer->changed_count++] = (int32_t)(pair - trainer->neighbours);
}

static void push_changed(Trainer *trainer) {
    for (int32_t i = 0; i < trainer->changed_count; i++) {
        Neighbours *pair = &trainer->neighbours[trainer->changed[i]];
        pair->changed = false;
        if (pair->count > 0) push_candidate(trainer, (MergeCandidate){pair->count, pair->key});
    }
    trainer->changed_count = 0;
}

static void count_pairs(Trainer *trainer) {
    for (int32_t word = 0; word < trainer->spelling_count; word++) {
        const Spelling *spelling = &trainer->spellings[word];
        for (int32_t i = 0; i + 1 < spelling->length; i++)
            change_pair(trainer, spelling->tokens[i], spelling->tokens[i + 1], word, 1);
    }
    push_changed(trainer);
}

/* Every occurrence in a word becomes the new token, from left to right. */
static void merge_word(Trainer *trainer, int32_t word, int32_t left, int32_t right, int32_t made) {
    Spelling *spelling = &trainer->spellings[word];
    int32_t *tokens = spelling->tokens;
    for (int32_t i = 0; i + 1 < spelling->length; i++) {
        if (tokens[i] != left || tokens[i + 1] != right) continue;
        if (i > 0) {
            change_pair(trainer, tokens[i - 1], left, word, -1);
            change_pair(trainer, tokens[i - 1], made, word, 1);
        }
        tokens[i] = made;
        spelling->length--;
        memmove(tokens + i + 1, tokens + i + 2,
                sizeof *tokens * (size_t)(spelling->length - i - 1));
        if (i + 1 < spelling->length) {
            change_pair(trainer, right, tokens[i + 1], word, -1);
            change_pair(trainer, made, tokens[i + 1], word, 1);
        }
    }
}

static int32_t join_names(Trainer *trainer, int32_t left, int32_t right) {
    AUTO(Text) joined = {0};
    text_append(&joined, trainer->names[left].bytes, trainer->names[left].length);
    text_append(&joined, trainer->names[right].bytes, trainer->names[right].length);
    return add_token(trainer, joined.bytes, joined.length);
}

static void merge_pair(Trainer *trainer, uint64_t key) {
    int32_t left = (int32_t)(key >> 32), right = (int32_t)(uint32_t)key;
    int32_t made = join_names(trainer, left, right);
    trainer->merges =
        memory_grow(trainer->merges, sizeof *trainer->merges * (size_t)(trainer->merge_count + 1));
    trainer->merges[trainer->merge_count++] = key;
    Neighbours *pair = neighbours_of(trainer, key);
    int32_t *words = pair->words, count = pair->word_count;
    pair->words = NULL;
    pair->word_count = pair->word_capacity = 0;
    for (int32_t i = 0; i < count; i++) merge_word(trainer, words[i], left, right, made);
    free(words);
    push_changed(trainer);
}

static void merge_all(Trainer *trainer) {
    const BpeTraining *training = trainer->training;
    double began = seconds_now();
    while (trainer->token_count < training->vocabulary && trainer->heap_count &&
           !interrupt_signal()) {
        MergeCandidate top = pop_candidate(trainer);
        int64_t count = neighbours_of(trainer, top.key)->count;
        if (count != top.count) {
            push_candidate(trainer, (MergeCandidate){count, top.key});
            continue;
        }
        if (count < 1 || count < training->least) break;
        merge_pair(trainer, top.key);
        if (seconds_now() - began > QUIET_SECONDS && progress_due())
            progress_show(false, "%d of %ld tokens", trainer->token_count, training->vocabulary);
    }
}

/* ---- the file ---- */

static json_t *token_name_json(const Trainer *trainer, int32_t token) {
    return json_text_bytes(trainer->names[token].bytes, trainer->names[token].length);
}

static json_t *byte_level_part(bool prefix, bool splits) {
    return json_make("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", prefix,
                     "trim_offsets", 1, "use_regex", splits);
}

static json_t *splitter(const BpeTraining *training) {
    if (!training->pattern) return byte_level_part(false, true);
    return json_make("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, o]}", "type", "Sequence", "pretokenizers",
                     "type", "Split", "pattern", "Regex", training->pattern, "behavior", "Isolated",
                     "invert", 0, byte_level_part(false, false));
}

static json_t *bpe_model_json(const Trainer *trainer) {
    json_t *model = json_make("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b}", "type", "BPE", "dropout",
                              "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                              "fuse_unk", 0, "byte_fallback", 0, "ignore_merges", 0);
    json_t *vocabulary = json_object(), *merges = json_array();
    for (int32_t i = 0; i < trainer->token_count; i++)
        json_object_setn_new(vocabulary, trainer->names[i].bytes, trainer->names[i].length,
                             json_integer(i));
    for (int32_t i = 0; i < trainer->merge_count; i++) {
        uint64_t key = trainer->merges[i];
        json_array_append_new(merges,
                              json_make("[o, o]", token_name_json(trainer, (int32_t)(key >> 32)),
                                        token_name_json(trainer, (int32_t)(uint32_t)key)));
    }
    json_object_set_new(model, "vocab", vocabulary);
    json_object_set_new(model, "merges", merges);
    return model;
}

/* added: special tokens are found in texts, too; while words are counted they are not. */
static char *file_text(const Trainer *trainer, bool added_too) {
    const BpeTraining *training = trainer->training;
    json_t *added = json_array();
    for (int i = 0; i < training->special_count && added_too; i++) {
        int32_t id =
            dictionary_find(&trainer->numbers, training->special[i], strlen(training->special[i]));
        json_array_append_new(added,
                              json_make("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", (int)id,
                                        "content", training->special[i], "single_word", 0, "lstrip",
                                        0, "rstrip", 0, "normalized", 0, "special", 1));
    }
    json_auto_t *root = json_make("{s:s, s:n, s:n, s:o, s:n, s:o, s:n, s:o, s:o}", "version", "1.0",
                                  "truncation", "padding", "added_tokens", added, "normalizer",
                                  "pre_tokenizer", splitter(training), "post_processor", "decoder",
                                  byte_level_part(true, true), "model", bpe_model_json(trainer));
    return root ? json_write(root, JSON_INDENT(2)) : NULL;
}

/* A tokenizer of letters alone splits the texts. */
static bool count_words(Trainer *trainer) {
    AUTO_FREE char *text = file_text(trainer, false);
    AUTO(Tokenizer) *letters =
        text ? tokenizer_read("the new tokenizer", text, strlen(text)) : NULL;
    if (!letters)
        return error_message("special tokens and the pattern must be valid UTF-8",
                             "cannot create the initial tokenizer");
    AUTO(Encoder) *encoder = encoder_new(letters);
    bool good = true;
    for (int i = 0; i < trainer->training->path_count && good; i++)
        good = count_file(trainer, encoder, trainer->training->paths[i]);
    return good && !interrupt_signal();
}

static void trainer_release(Trainer *trainer) {
    for (int i = 0; i < trainer->block_count; i++) free(trainer->blocks[i]);
    for (int32_t i = 0; i < trainer->spelling_count; i++) free(trainer->spellings[i].tokens);
    for (int32_t i = 0; i < trainer->neighbour_count; i++) free(trainer->neighbours[i].words);
    free(trainer->blocks);
    free(trainer->spellings);
    free(trainer->neighbours);
    free(trainer->changed);
    free(trainer->heap);
    free(trainer->names);
    free(trainer->merges);
    dictionary_free(&trainer->words);
    dictionary_free(&trainer->numbers);
    pairs_free(&trainer->pairs);
}

char *bpe_train(const BpeTraining *training, long *tokens) {
    Trainer trainer = {.training = training};
    trainer.names = memory_new(
        sizeof(Name) * ((size_t)training->vocabulary + (size_t)training->special_count + 257));
    add_alphabet(&trainer);
    bool good = count_words(&trainer);
    if (good) {
        spell_words(&trainer);
        count_pairs(&trainer);
        merge_all(&trainer);
    }
    progress_clear();
    char *text = good && !interrupt_signal() ? file_text(&trainer, true) : NULL;
    *tokens = trainer.token_count;
    trainer_release(&trainer);
    return text;
}
