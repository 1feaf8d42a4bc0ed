#include "model/generate/grammar.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

typedef enum GrammarNodeKind { NODE_END, NODE_BYTES, NODE_EITHER, NODE_CALL } GrammarNodeKind;

typedef struct GrammarNode {
    GrammarNodeKind kind;
    int next;
    int other; /* NODE_EITHER: the other node; NODE_CALL: the rule; NODE_BYTES: the set */
} GrammarNode;

/* A set of bytes. */
typedef struct ByteSet {
    bool has[256];
} ByteSet;

struct Grammar {
    GrammarNode *nodes;
    int *rules; /* their first nodes */
    ByteSet *sets;
    int node_count, rule_count, set_count;
};

/* ---- rules ---- */

/* Room for one more item; capacities are powers of two. */
static void *grown(void *items, int count, size_t size) {
    bool full = (count & (count - 1)) == 0;
    return full ? memory_grow(items, size * (size_t)(count ? 2 * count : 1)) : items;
}

static int add_node(Grammar *grammar, GrammarNodeKind kind, int next, int other) {
    grammar->nodes = grown(grammar->nodes, grammar->node_count, sizeof *grammar->nodes);
    grammar->nodes[grammar->node_count] = (GrammarNode){kind, next, other};
    return grammar->node_count++;
}

Grammar *grammar_new(void) {
    Grammar *grammar = memory_new(sizeof *grammar);
    add_node(grammar, NODE_END, GRAMMAR_END, 0);
    grammar_rule(grammar);
    return grammar;
}

void grammar_free(Grammar *grammar) {
    if (!grammar) return;
    free(grammar->nodes);
    free(grammar->rules);
    free(grammar->sets);
    free(grammar);
}

int grammar_rule(Grammar *grammar) {
    grammar->rules = grown(grammar->rules, grammar->rule_count, sizeof *grammar->rules);
    grammar->rules[grammar->rule_count] = GRAMMAR_END;
    return grammar->rule_count++;
}

void grammar_define(Grammar *grammar, int rule, int node) {
    grammar->rules[rule] = node;
}

int grammar_range(Grammar *grammar, const ByteRange *ranges, int count, int next) {
    ByteSet set = {{0}};
    for (int i = 0; i < count; i++)
        for (int byte = ranges[i].first; byte <= ranges[i].last; byte++) set.has[byte] = true;
    int found = 0;
    while (found < grammar->set_count && memcmp(&grammar->sets[found], &set, sizeof set) != 0)
        found++;
    if (found == grammar->set_count) {
        grammar->sets = grown(grammar->sets, grammar->set_count, sizeof *grammar->sets);
        grammar->sets[grammar->set_count++] = set;
    }
    return add_node(grammar, NODE_BYTES, next, found);
}

int grammar_text(Grammar *grammar, const char *bytes, size_t length, int next) {
    while (length--) {
        const unsigned char byte = (unsigned char)bytes[length];
        next = grammar_range(grammar, &(ByteRange){byte, byte}, 1, next);
    }
    return next;
}

int grammar_either(Grammar *grammar, int first, int second) {
    return add_node(grammar, NODE_EITHER, first, second);
}

int grammar_call(Grammar *grammar, int rule, int next) {
    return add_node(grammar, NODE_CALL, next, rule);
}

int grammar_size(const Grammar *grammar) {
    return grammar->node_count;
}

/* ---- tokens ---- */

struct TokenBytes {
    long vocabulary;
    Text bytes;
    size_t *starts; /* [vocabulary + 1] */
    bool *special;
    int32_t *order; /* tokens with bytes, sorted by them */
    long count;
};

static size_t token_length(const TokenBytes *tokens, int32_t token) {
    return tokens->starts[token + 1] - tokens->starts[token];
}

static const unsigned char *token_start(const TokenBytes *tokens, int32_t token) {
    return (const unsigned char *)tokens->bytes.bytes + tokens->starts[token];
}

static int by_token_bytes(const void *a, const void *b, void *data) {
    const TokenBytes *tokens = data;
    const int32_t one = *(const int32_t *)a, two = *(const int32_t *)b;
    size_t first = token_length(tokens, one), second = token_length(tokens, two);
    int order =
        memcmp(token_start(tokens, one), token_start(tokens, two), first < second ? first : second);
    return order ? order : (first > second) - (first < second);
}

TokenBytes *token_bytes_new(const Tokenizer *tokenizer, long vocabulary) {
    TokenBytes *tokens = memory_new(sizeof *tokens);
    tokens->vocabulary = vocabulary;
    /* texts_fit: the vocabulary of the model is at least that of the tokenizer */
    tokens->starts = memory_new(sizeof *tokens->starts * (size_t)(vocabulary + 1));
    tokens->special = memory_new(sizeof *tokens->special * (size_t)vocabulary);
    tokens->order = memory_new(sizeof *tokens->order * (size_t)vocabulary);
    const long known = tokenizer ? tokenizer_size(tokenizer) : 0;
    if (tokenizer) tokenizer_bytes(tokenizer, &tokens->bytes, tokens->starts + 1);
    for (int32_t token = 0; token < vocabulary; token++) {
        const char byte = (char)token;
        if (!tokenizer) text_append(&tokens->bytes, &byte, 1);
        if (token >= known) tokens->starts[token + 1] = tokens->bytes.length;
        tokens->special[token] = tokenizer && tokenizer_is_special(tokenizer, token);
        if (token_length(tokens, token) && !tokens->special[token])
            tokens->order[tokens->count++] = token;
    }
    qsort_r(tokens->order, (size_t)tokens->count, sizeof *tokens->order, by_token_bytes, tokens);
    return tokens;
}

void token_bytes_free(TokenBytes *tokens) {
    if (!tokens) return;
    text_free(&tokens->bytes);
    free(tokens->starts);
    free(tokens->special);
    free(tokens->order);
    free(tokens);
}

/* ---- texts ---- */

enum { MASKS = 16, MOST_WORK = 1 << 12, LONGEST_TOKEN = 1 << 10 };

/* A call of a rule that has not ended: where it continues, and the call around it (-1: none). */
typedef struct CallFrame {
    int node, around;
} CallFrame;

/* A way to continue a text: a node of kind NODE_BYTES or NODE_END. */
typedef struct MatchPoint {
    int node, frame;
} MatchPoint;

/* Points after the first `depth` bytes of a token: points[starts[depth]] to starts[depth + 1]. */
typedef struct PointStack {
    MatchPoint *points;
    int capacity;
    int starts[LONGEST_TOKEN + 2];
} PointStack;

/* The allowed tokens after a text with these points. */
typedef struct KnownMask {
    MatchPoint *points;
    int count;
    bool *allowed;
    bool some;
} KnownMask;

struct Matching {
    const Grammar *grammar;
    const TokenBytes *tokens;
    CallFrame *frames;
    int frame_count;
    PointStack stack; /* depth 0: the text so far */
    int work;         /* of one byte */
    KnownMask masks[MASKS];
    int next_mask;
};

static int find_frame(Matching *matching, int node, int around) {
    for (int i = matching->frame_count - 1; i >= 0; i--)
        if (matching->frames[i].node == node && matching->frames[i].around == around) return i;
    matching->frames = grown(matching->frames, matching->frame_count, sizeof *matching->frames);
    matching->frames[matching->frame_count] = (CallFrame){node, around};
    return matching->frame_count++;
}

/* Adds a point to the level that ends at starts[level]. */
static void add_code_point(PointStack *stack, int level, MatchPoint point) {
    for (int i = stack->starts[level - 1]; i < stack->starts[level]; i++)
        if (stack->points[i].node == point.node && stack->points[i].frame == point.frame) return;
    if (stack->starts[level] == stack->capacity) {
        stack->capacity = stack->capacity * 2 + 64;
        stack->points = memory_grow(stack->points, sizeof *stack->points * (size_t)stack->capacity);
    }
    stack->points[stack->starts[level]++] = point;
}

/* Adds all points that a node leads to without a byte. */
static void enter_node(Matching *matching, int level, int node, int frame) {
    while (matching->work++ < MOST_WORK) {
        const GrammarNode *here = &matching->grammar->nodes[node];
        switch (here->kind) {
        case NODE_EITHER:
            enter_node(matching, level, here->next, frame);
            node = here->other;
            break;
        case NODE_CALL:
            /* a call at the end of a rule needs no frame, which keeps long lists flat */
            if (here->next != GRAMMAR_END) frame = find_frame(matching, here->next, frame);
            node = matching->grammar->rules[here->other];
            break;
        case NODE_END:
            if (frame < 0) {
                add_code_point(&matching->stack, level, (MatchPoint){node, frame});
                return;
            }
            node = matching->frames[frame].node;
            frame = matching->frames[frame].around;
            break;
        default:
            add_code_point(&matching->stack, level, (MatchPoint){node, frame});
            return;
        }
    }
}

/* The points after one more byte, at the next depth. False if there are none. */
static bool add_byte(Matching *matching, int depth, unsigned char byte) {
    PointStack *stack = &matching->stack;
    const Grammar *grammar = matching->grammar;
    const int level = depth + 2;
    stack->starts[level] = stack->starts[level - 1];
    matching->work = 0;
    for (int i = stack->starts[depth]; i < stack->starts[depth + 1]; i++) {
        const MatchPoint point = stack->points[i];
        const GrammarNode *node = &grammar->nodes[point.node];
        if (node->kind == NODE_BYTES && grammar->sets[node->other].has[byte])
            enter_node(matching, level, node->next, point.frame);
    }
    return stack->starts[level] > stack->starts[level - 1] && matching->work < MOST_WORK;
}

/* Moves the points of a depth to depth 0. */
static void keep_depth(PointStack *stack, int depth) {
    const int count = stack->starts[depth + 1] - stack->starts[depth];
    memmove(stack->points, stack->points + stack->starts[depth],
            sizeof *stack->points * (size_t)count);
    stack->starts[1] = count;
}

Matching *matching_new(const Grammar *grammar, const TokenBytes *tokens) {
    Matching *matching = memory_new(sizeof *matching);
    matching->grammar = grammar;
    matching->tokens = tokens;
    enter_node(matching, 1, grammar->rules[0], -1);
    if (matching->stack.starts[1] > 0 && matching->work < MOST_WORK) return matching;
    matching_free(matching);
    return NULL;
}

void matching_free(Matching *matching) {
    if (!matching) return;
    for (int i = 0; i < MASKS; i++) {
        free(matching->masks[i].points);
        free(matching->masks[i].allowed);
    }
    free(matching->frames);
    free(matching->stack.points);
    free(matching);
}

bool matching_add(Matching *matching, int32_t token) {
    const TokenBytes *tokens = matching->tokens;
    const size_t length = token_length(tokens, token);
    if (!length || length > LONGEST_TOKEN || tokens->special[token]) return false;
    for (size_t i = 0; i < length; i++)
        if (!add_byte(matching, (int)i, token_start(tokens, token)[i])) return false;
    keep_depth(&matching->stack, (int)length);
    return true;
}

bool matching_complete(const Matching *matching) {
    const PointStack *stack = &matching->stack;
    for (int i = 0; i < stack->starts[1]; i++)
        if (stack->points[i].node == GRAMMAR_END) return true;
    return false;
}

bool matching_over(const Matching *matching) {
    return matching_complete(matching) && matching->stack.starts[1] == 1;
}

static size_t common_bytes(const TokenBytes *tokens, int32_t one, int32_t two) {
    size_t count = 0, first = token_length(tokens, one), second = token_length(tokens, two);
    while (count < first && count < second &&
           token_start(tokens, one)[count] == token_start(tokens, two)[count])
        count++;
    return count;
}

/* Tokens with the same first bytes are neighbors in the order. The points after these bytes are
 * computed once. After a byte that cannot follow, all of them are skipped. */
static void fill_mask(Matching *matching, KnownMask *mask) {
    const TokenBytes *tokens = matching->tokens;
    size_t reached = 0; /* bytes of the token before that can follow */
    const bool complete = matching_complete(matching);
    memset(mask->allowed, 0, sizeof *mask->allowed * (size_t)tokens->vocabulary);
    mask->some = false;
    for (int32_t token = 0; complete && token < tokens->vocabulary; token++)
        if (tokens->special[token]) mask->some = mask->allowed[token] = true;
    for (long i = 0; i < tokens->count; i++) {
        const int32_t token = tokens->order[i];
        const size_t length = token_length(tokens, token),
                     same = i ? common_bytes(tokens, tokens->order[i - 1], token) : 0;
        if (same > reached || length > LONGEST_TOKEN) continue;
        reached = same;
        while (reached < length &&
               add_byte(matching, (int)reached, token_start(tokens, token)[reached]))
            reached++;
        if (reached == length) mask->some = mask->allowed[token] = true;
    }
}

static KnownMask *find_mask(Matching *matching) {
    const PointStack *stack = &matching->stack;
    for (int i = 0; i < MASKS; i++) {
        KnownMask *mask = &matching->masks[i];
        if (mask->allowed && mask->count == stack->starts[1] &&
            memcmp(mask->points, stack->points, sizeof(MatchPoint) * (size_t)mask->count) == 0)
            return mask;
    }
    return NULL;
}

const bool *matching_allowed(Matching *matching) {
    const PointStack *stack = &matching->stack;
    KnownMask *mask = find_mask(matching);
    if (!mask) {
        mask = &matching->masks[matching->next_mask];
        matching->next_mask = (matching->next_mask + 1) % MASKS;
        const size_t vocabulary = (size_t)matching->tokens->vocabulary;
        if (!mask->allowed) mask->allowed = memory_new(sizeof *mask->allowed * vocabulary);
        mask->count = stack->starts[1];
        mask->points = memory_grow(mask->points, sizeof(MatchPoint) * (size_t)mask->count);
        memcpy(mask->points, stack->points, sizeof(MatchPoint) * (size_t)mask->count);
        fill_mask(matching, mask);
    }
    return mask->some ? mask->allowed : NULL;
}
