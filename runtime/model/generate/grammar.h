/* grammar: a set of texts, and the tokens that continue a text of it.
 *
 * Rules are graphs of nodes over bytes; a node continues at `next`. They are built from the end:
 *
 *     rule 0:  "[" number ("," number)* "]"
 *
 *     more = grammar_rule(g)
 *     grammar_define(g, more, grammar_either(g, grammar_text(g, ",", 1, grammar_call(g, number,
 *                                               grammar_call(g, more, GRAMMAR_END))), GRAMMAR_END))
 *     grammar_define(g, 0, grammar_text(g, "[", 1, grammar_call(g, number, grammar_call(g, more,
 *                                       grammar_text(g, "]", 1, GRAMMAR_END))))) */
#ifndef GRAMMAR_H
#define GRAMMAR_H

#include "tokenizer/tokenizer.h"

typedef struct Grammar Grammar;

enum { GRAMMAR_END = 0 }; /* the node at the end of each rule */

/* Bytes from `first` to `last`. */
typedef struct ByteRange {
    unsigned char first, last;
} ByteRange;

/* Rule 0 exists and is the whole text. */
Grammar *grammar_new(void);
void grammar_free(Grammar *grammar);
/* A rule, to be defined later. */
int grammar_rule(Grammar *grammar);
void grammar_define(Grammar *grammar, int rule, int node);
/* One byte of the ranges; these bytes; one of two nodes; a text of the rule. */
int grammar_range(Grammar *grammar, const ByteRange *ranges, int count, int next);
int grammar_text(Grammar *grammar, const char *bytes, size_t length, int next);
int grammar_either(Grammar *grammar, int first, int second);
int grammar_call(Grammar *grammar, int rule, int next);
/* Number of nodes. */
int grammar_size(const Grammar *grammar);

/* The bytes of all tokens of a vocabulary. */
typedef struct TokenBytes TokenBytes;

/* tokenizer: NULL if tokens are bytes. */
TokenBytes *token_bytes_new(const Tokenizer *tokenizer, long vocabulary);
void token_bytes_free(TokenBytes *tokens);

/* A text that follows a grammar, token by token. Both must exist as long. */
typedef struct Matching Matching;

/* NULL if the grammar has no text, or is too ambiguous. */
Matching *matching_new(const Grammar *grammar, const TokenBytes *tokens);
void matching_free(Matching *matching);
/* Adds a token. False if the text is no longer the beginning of one of the grammar. */
bool matching_add(Matching *matching, int32_t token);
/* True if the text is complete; over: and nothing can follow. */
bool matching_complete(const Matching *matching);
bool matching_over(const Matching *matching);
/* The tokens that can follow [vocabulary]; special tokens of the tokenizer end a complete text.
 * NULL if there is none. Valid until the next call. */
const bool *matching_allowed(Matching *matching);

#endif
