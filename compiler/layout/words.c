/* words: translation of enum values between a configuration and options, and lists of such values.
 *
 *     from hidden_act = ffn.act in { silu = silu, gelu_pytorch_tanh = gelu_tanh }
 *     from layer_types = repeat(pattern, layers) in { sliding_attention = local }
 */
#include "layout/layout.h"

#include <string.h>

/* { theirs = ours, ... } of a rule, or NULL. */
static const Node *rule_words(const Node *rule) {
    const Node *words = rule->kids[1] ? rule->kids[1]->kids[0] : NULL;
    return words && words->kind == NODE_RECORD ? words : NULL;
}

const char *layout_our_word(const Node *rule, const char *theirs) {
    const Node *words = rule_words(rule);
    for (int i = 0; words && i < words->count; i++) {
        const Node *word = words->kids[i];
        if (strcmp(word->name, theirs) == 0) return ((Node *)word->kids[0])->name;
    }
    return words ? NULL : theirs;
}

/* The name of "rotary { base = 5 }" is its first word. */
const char *layout_their_word(Arena *arena, const Node *rule, const char *ours) {
    const Node *words = rule_words(rule);
    size_t length = strcspn(ours, " {");
    for (int i = 0; words && i < words->count; i++) {
        const Node *word = words->kids[i];
        const char *name = ((Node *)word->kids[0])->name;
        if (strlen(name) == length && !strncmp(name, ours, length)) return word->name;
    }
    return words ? NULL : arena_copy(arena, ours, length);
}

char *layout_known_words(Arena *arena, const Node *rule) {
    const Node *words = rule_words(rule);
    Text text = text_new(arena);
    for (int i = 0; words && i < words->count; i++)
        text_add(&text, "%s%s", i ? ", " : "", ((Node *)words->kids[i])->name);
    return text.text;
}

const Node *layout_repeated(const Node *value, const Node **count) {
    const Node *call = value->kind == NODE_CALL ? value : NULL;
    if (!call || strcmp(((Node *)call->kids[0])->name, "repeat") || call->kids[1]->count != 2)
        return NULL;
    if (count) *count = call->kids[1]->kids[1];
    return call->kids[1]->kids[0];
}

/* The smallest number of words whose repetition is the whole list. */
static int period_of(const List *words) {
    for (int period = 1; period < words->count; period++) {
        bool same = true;
        for (int i = period; same && i < words->count; i++)
            same = !strcmp(words->items[i], words->items[i - period]);
        if (same) return period;
    }
    return words->count;
}

char *layout_pattern(Arena *arena, const Node *rule, const char *lines, const char **unknown) {
    List words = {0};
    for (const char *at = lines; *at;) {
        size_t length = strcspn(at, "\n");
        const char *theirs = arena_copy(arena, at, length);
        const char *ours = layout_our_word(rule, theirs);
        if (!ours) {
            *unknown = theirs;
            return NULL;
        }
        list_push(arena, &words, (void *)(uintptr_t)ours);
        at += length + (at[length] == '\n');
    }
    Text text = {.arena = arena};
    text_add(&text, "[");
    for (int i = 0, period = period_of(&words); i < period; i++)
        text_add(&text, "%s%s", i ? ", " : "", (const char *)words.items[i]);
    text_add(&text, "]");
    return text.text;
}

char *layout_lines(Arena *arena, const Node *rule, const char *list, long count) {
    List words = {0};
    for (const char *at = list + strspn(list, "[ "); *at && *at != ']';) {
        size_t length = strcspn(at, ",]");
        const char *ours = arena_copy(arena, at, length);
        const char *theirs = layout_their_word(arena, rule, ours);
        if (!theirs) return NULL;
        list_push(arena, &words, (void *)(uintptr_t)theirs);
        at += length;
        at += strspn(at, ", ");
    }
    Text text = text_new(arena);
    for (long i = 0; words.count && i < count; i++)
        text_add(&text, "%s%s", i ? "\n" : "", (const char *)words.items[i % words.count]);
    return text.text;
}

const char *layout_word_list(Arena *arena, const Node *list) {
    Text text = {.arena = arena};
    if (list->kind != NODE_LIST) return NULL;
    text_add(&text, "[");
    for (int i = 0; i < list->count; i++) {
        const Node *word = list->kids[i];
        if (word->kind != NODE_NAME) return NULL;
        text_add(&text, "%s%s", i ? ", " : "", word->name);
    }
    text_add(&text, "]");
    return text.text;
}
