#include "syntax/syntax.h"

#include "parser.h"

/* recover: passes tokens to the parser and resynchronizes after a syntax error.
 *
 * Parsing resumes at the end of the entry, statement or item with the error. Only recovery reads
 * the line structure, which has no meaning in the language. A word that is first on its line begins
 * a statement or entry. A keyword at the left margin that begins an item closes all open
 * constructs.
 *
 *     y[s] = sum[f x[s,f] * w[f]     <- error at 'x'; dropped up to the end of the line
 *     z[s] = y[s]                    <- RESYNC before 'z'
 */

static bool is_word_token(int kind) {
    return kind == NAME || (kind >= USE && kind <= NOT) || kind == NONE;
}

static bool begins_item(const Token *token) {
    bool keyword = token->kind == USE || token->kind == LAYER || token->kind == OPTIMIZER ||
                   token->kind == SCHEDULE || token->kind == PARAMETRIZATION ||
                   token->kind == MODEL || token->kind == EXPERIMENT || token->kind == LAYOUT ||
                   token->kind == MACHINE;
    return keyword && token->first && token->indent == 0;
}

static Token fetch(Parser *parser) {
    if (parser->queued > 0) return parser->queue[--parser->queued];
    Token token = scan_token(parser);
    /* The end of the file is located after the last token: an error there means that something is
     * missing. */
    if (token.kind == END) token.span.start = token.span.end = parser->scanned;
    const char *text = parser->source->text;
    int line = parser->scanned == 0 ? 0 : -1;
    for (int i = parser->scanned; i < token.span.start; i++)
        if (text[i] == '\n') line = i + 1;
    if (line >= 0) parser->line_indent = token.span.start - line;
    token.first = line >= 0;
    token.indent = parser->line_indent;
    parser->scanned = token.span.end;
    return token;
}

static void put_back(Parser *parser, Token token) {
    parser->queue[parser->queued++] = token;
}

static bool opens_record(const Parser *parser) {
    int before = parser->last.kind;
    if (is_word_token(before)) before = parser->before_last.kind;
    return before == '=' || before == '[' || before == ',' || before == EXPERIMENT;
}

static char partner(int closing) {
    return closing == ')' ? '(' : closing == ']' ? '[' : '{';
}

/* Updates the stack of open brackets for a token that is about to be returned. */
static void note_bracket(Parser *parser, const Token *token) {
    parser->has_closed = false;
    switch (token->kind) {
    case '(':
    case '[':
    case '{':
        if (parser->bracket_count == MAX_DEPTH) {
            report_error(parser->reports, token->span, "nesting is deeper than %d levels",
                         MAX_DEPTH);
            parser->stopped = true;
            return;
        }
        parser->brackets[parser->bracket_count++] =
            (Bracket){token->span, (char)token->kind, token->kind == '{' && opens_record(parser),
                      token->indent};
        return;
    case ')':
    case ']':
    case '}':
        if (parser->bracket_count == 0) return;
        if (parser->brackets[parser->bracket_count - 1].character != partner(token->kind)) return;
        parser->closed = parser->brackets[--parser->bracket_count];
        parser->has_closed = true;
        return;
    default:
        return;
    }
}

static void undo_bracket(Parser *parser) {
    int kind = parser->last.kind;
    if (parser->has_closed)
        parser->brackets[parser->bracket_count++] = parser->closed;
    else if ((kind == '(' || kind == '[' || kind == '{') && parser->bracket_count > 0)
        parser->bracket_count--;
    parser->has_closed = false;
}

static Token invented(const Parser *parser, int kind, int offset) {
    return (Token){.kind = kind, .span = {parser->source, offset, offset}};
}

/* While tokens are dropped: brackets that open and close among them. */
static void drop_token(Parser *parser, const Token *token, int base) {
    int kind = token->kind;
    if ((kind == '(' || kind == '[' || kind == '{') && parser->bracket_count < MAX_DEPTH)
        parser->brackets[parser->bracket_count++] =
            (Bracket){token->span, (char)kind, false, token->indent};
    if (kind != ')' && kind != ']' && kind != '}') return;
    int match = parser->bracket_count;
    while (match > base && parser->brackets[match - 1].character != partner(kind)) match--;
    if (match > base) parser->bracket_count = match - 1;
}

static bool is_place_to_go_on(const Parser *parser, const Token *token, int base) {
    const Bracket *brackets = parser->brackets;
    bool clear = true; /* no brace was opened since the error */
    for (int i = base; i < parser->bracket_count; i++)
        clear = clear && brackets[i].character != '{';
    if (token->kind == END || begins_item(token)) return true;
    if (base == 0) return false;
    if (token->kind == '}') return clear;
    if (token->kind == ',') return parser->bracket_count == base && brackets[base - 1].record;
    if (!is_word_token(token->kind) || !token->first) return false;
    return parser->bracket_count == base || (clear && token->indent <= brackets[base].indent);
}

static int closing(char character) {
    return character == '(' ? ')' : character == '[' ? ']' : '}';
}

/* Drops tokens up to the point of resynchronization, queues the next tokens of the parser and
 * returns RESYNC. */
static Token resync(Parser *parser) {
    bool must_drop = parser->repeated;
    parser->recovering = false;
    undo_bracket(parser);
    put_back(parser, parser->last);
    /* The parser detects some errors late: `layer f` in an open record, or `a = x +` and on the
     * next line `b = 1`. */
    bool late = (begins_item(&parser->before_last) && parser->bracket_count > 0) ||
                (parser->last.kind == '=' && is_word_token(parser->before_last.kind) &&
                 parser->before_last.first);
    if (late && !must_drop) put_back(parser, parser->before_last);

    /* Parsing continues in the list of the innermost open brace. Constructs inside it are
     * abandoned; their closing brackets are still in the input. */
    int base = parser->bracket_count;
    while (base > 0 && parser->brackets[base - 1].character != '{') base--;
    Token token = fetch(parser);
    if (must_drop && token.kind == END) {
        parser->stopped = true;
        return invented(parser, MOE_EOF, token.span.start);
    }
    while (must_drop || !is_place_to_go_on(parser, &token, base)) {
        drop_token(parser, &token, base);
        must_drop = false;
        token = fetch(parser);
    }
    parser->bracket_count = base;
    put_back(parser, token);
    if (token.kind == END || begins_item(&token))
        for (int i = 0; i < base; i++)
            put_back(parser,
                     invented(parser, closing(parser->brackets[i].character), token.span.start));
    return invented(parser, RESYNC, token.span.start);
}

Token next_token(Parser *parser) {
    Token token;
    if (!parser->started) {
        parser->started = true;
        return invented(parser, parser->entry_only ? START_ENTRY : START_FILE, 0);
    }
    if (parser->stopped || (parser->last.kind == END && !parser->recovering))
        return invented(parser, MOE_EOF, parser->last.span.end);
    if (parser->recovering) {
        token = resync(parser);
    } else {
        token = fetch(parser);
        note_bracket(parser, &token);
        if (parser->stopped) token.kind = MOE_EOF;
    }
    parser->earlier_kind = parser->before_last.kind;
    parser->before_last = parser->last;
    parser->last = token;
    return token;
}
