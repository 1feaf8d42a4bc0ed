/* syntax: what lexer, parser and recovery share while one source is read. No one else includes
 * this.
 *
 *     lexer.l  --token-->  recover.c (next_token)  --token-->  parser.y
 *
 * After a syntax error recover.c drops tokens up to the next statement, entry or item and marks the
 * place with a RESYNC token, which the error rules of the grammar wait for. So every error is
 * reported once and the next one is real.
 */
#ifndef SYNTAX_H
#define SYNTAX_H

#include "syntax/tree.h"

#include <stdbool.h>

enum { MAX_DEPTH = 200, MAX_SOURCE_BYTES = 16 << 20 };

typedef struct Token {
    int kind;
    Span span;
    const char *text; /* names, keywords, numbers as written; strings without quotes */
    double number;
    bool first; /* on its line */
    int indent; /* of its line, when first */
} Token;

/* What a node takes from a token. The parser moves it at every reduction, so it is small. */
typedef struct Word {
    const char *text;
    double number;
    int start, end;
} Word;

/* An opening bracket that waits for its partner. */
typedef struct Bracket {
    Span span;
    char character;
    bool record; /* a '{' with entries in it, not statements */
    int indent;  /* of its line */
} Bracket;

typedef struct Parser {
    Arena *arena;
    Reports *reports;
    const Source *source;
    void *scanner;
    Node *result;
    bool entry_only; /* one entry, not a file */
    bool started;

    int scanned, line_indent; /* end of the token scanned last, and the indentation of its line */

    Token queue[MAX_DEPTH + 8]; /* tokens to give out again, last first */
    int queued;
    Token last, before_last; /* given out most recently */
    int earlier_kind;        /* of the one before these */
    Bracket brackets[MAX_DEPTH];
    int bracket_count;
    Bracket closed; /* what `last` closed, when it closed something */
    bool has_closed;

    bool recovering; /* a syntax error was reported and the place to go on is not reached */
    bool repeated;   /* it was about a token that an earlier error was about already */
    int repeats;     /* so many such errors in a row */
    int error_end;   /* end of the token that the last error was about */
    bool stopped;    /* nothing more will be read */
} Parser;

/* recover.c */
Token next_token(Parser *parser);
/* lexer.l, the tokens as they stand in the text */
Token scan_token(Parser *parser);
void *scanner_open(const Source *source);
void scanner_close(void *scanner);
/* expected.c: reports "expected A or B, found C". `names` are the names of the tokens that would
 * have been right. */
void report_expected(Parser *parser, const char *const *names, int count, const char *found_kind);

#endif
