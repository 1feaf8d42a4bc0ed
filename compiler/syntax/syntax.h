/* syntax: state that lexer, parser and recovery share while they read one source. Only syntax/
 * includes this header.
 *
 *     lexer.l  --token-->  recover.c (next_token)  --token-->  parser.y
 *
 * After a syntax error recover.c drops tokens up to the next statement, entry or item and inserts a
 * RESYNC token, which ends the error rules of the grammar. Each error is reported once, and the
 * next one is independent of it.
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

/* The part of a token that nodes use. The parser copies it at every reduction; it is small. */
typedef struct Word {
    const char *text;
    double number;
    int start, end;
} Word;

/* An open bracket. */
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

    Token queue[MAX_DEPTH + 8]; /* tokens to return again, last first */
    int queued;
    Token last, before_last; /* returned most recently */
    int earlier_kind;        /* of the one before these */
    Bracket brackets[MAX_DEPTH];
    int bracket_count;
    Bracket closed; /* the bracket that `last` closed, if has_closed */
    bool has_closed;

    bool recovering; /* a syntax error was reported; not resynchronized yet */
    bool repeated;   /* it is at a token of an earlier error */
    int repeats;     /* consecutive errors of this kind */
    int error_end;   /* end of the token of the last error */
    bool stopped;    /* nothing more will be read */
} Parser;

/* recover.c */
Token next_token(Parser *parser);
/* lexer.l: the next token of the text */
Token scan_token(Parser *parser);
void *scanner_open(const Source *source);
void scanner_close(void *scanner);
/* expected.c: reports "expected A or B, found C". `names` are the names of the expected tokens. */
void report_expected(Parser *parser, const char *const *names, int count, const char *found_kind);

#endif
