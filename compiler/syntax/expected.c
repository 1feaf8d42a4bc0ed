#include "syntax/syntax.h"

#include "parser.h"

#include <string.h>

/* expected: the text of a syntax error.
 *
 * About forty tokens can begin an expression. The message groups them as "an expression".
 */

enum { MAX_QUOTED = 30 };

typedef struct Expectation {
    const char *const *names;
    int count;
    const char *shown[8];
    int shown_count;
} Expectation;

static bool has(const Expectation *expectation, const char *name) {
    for (int i = 0; i < expectation->count; i++)
        if (strcmp(expectation->names[i], name) == 0) return true;
    return false;
}

static bool among(const char *name, const char *const *list) {
    for (; *list; list++)
        if (strcmp(name, *list) == 0) return true;
    return false;
}

static bool is_word_name(const char *name) {
    return strncmp(name, "a ", 2) == 0 || (name[0] >= 'a' && name[0] <= 'z');
}

static const char *const operators[] = {"'+'", "'-'", "'*'", "'/'", "'%'", "'^'",
                                        "'<'", "'>'", "==",  "!=",  "<=",  ">=",
                                        "'['", "'('", "'.'", "'@'", NULL};
/* Between brackets a name may be a layer, and `{` begin its options. */
static const char *const bracketed[] = {
    "'{'", "'+'", "'-'", "'*'", "'/'", "'%'", "'^'", "'<'", "'>'",
    "==",  "!=",  "<=",  ">=",  "'['", "'('", "'.'", "'@'", NULL};
static const char *const beginnings[] = {"'-'", "'('", "'['", "'{'", NULL};

static void show_expectation(Expectation *expectation, const char *text) {
    int most = (int)(sizeof expectation->shown / sizeof *expectation->shown);
    if (expectation->shown_count < most) expectation->shown[expectation->shown_count++] = text;
}

/* Adds the expected punctuation that is not in `grouped`. */
static void show_rest(Expectation *expectation, Parser *parser, const char *const *grouped) {
    for (int i = 0; i < expectation->count; i++) {
        const char *name = expectation->names[i];
        if (among(name, grouped)) continue;
        if (strcmp(name, "end of file") == 0) {
            if (parser->entry_only) show_expectation(expectation, "the end of the text");
        } else if (name[0] == '\'') {
            show_expectation(expectation, name);
        } else if (!is_word_name(name)) {
            show_expectation(expectation, arena_format(parser->arena, "'%s'", name));
        }
    }
}

/* Adds the expected keywords, for positions that do not accept a name. */
static void show_keywords(Expectation *expectation, Parser *parser) {
    for (int i = 0; i < expectation->count; i++) {
        const char *name = expectation->names[i];
        if (strncmp(name, "a ", 2) == 0)
            show_expectation(expectation, name);
        else if (is_word_name(name) && strncmp(name, "end ", 4) != 0)
            show_expectation(expectation, arena_format(parser->arena, "'%s'", name));
    }
}

/* The construct that can begin here, or NULL: an entry accepts `not` as a word, a statement begins
 * with `require`. */
static const char *next_thing(const Expectation *expectation) {
    if (has(expectation, "not") && has(expectation, "in")) return "the next entry";
    if (has(expectation, "require")) return "the next statement";
    return has(expectation, "use") ? "the next item" : NULL;
}

/* After a complete expression, the closing brackets and commas are more useful than the list of
 * operators. */
static void show_after_expression(Expectation *expectation, Parser *parser) {
    const char *next = next_thing(expectation);
    bool inside = has(expectation, "']'") || has(expectation, "')'");
    show_rest(expectation, parser, inside ? bracketed : operators);
    if (next) expectation->shown_count = 0;
    if (expectation->shown_count == 0) show_expectation(expectation, "an operator");
    if (next && has(expectation, "','")) show_expectation(expectation, "','");
    if (next && has(expectation, "'}'")) show_expectation(expectation, "'}'");
    if (next) show_expectation(expectation, next);
}

/* After ':', '.', '@' or at the beginning of an entry, any word is accepted. */
static const char *expectation_name(const Expectation *expectation, const Parser *parser) {
    bool any_word = has(expectation, "or");
    if (parser->before_last.kind == ':')
        return any_word
                   ? "a type (int, float, bool, enum, list, record, axes, layer, layers or any)"
                   : "an input kind (token, next_token, float or class)";
    return any_word && has(expectation, "'}'") ? "the name of an option" : "a name";
}

/* Collects the expected constructs. Returns true if the message includes the token before the
 * error. */
static bool group(Expectation *expectation, Parser *parser) {
    static const char *const nothing[] = {NULL};
    if (has(expectation, "'+'") && has(expectation, "'*'")) {
        show_after_expression(expectation, parser);
        return true;
    }
    if (has(expectation, "a number") && has(expectation, "'('") && has(expectation, "a name")) {
        show_expectation(expectation, has(expectation, "'{'") ? "a value" : "an expression");
        show_rest(expectation, parser, beginnings);
        return true;
    }
    if (has(expectation, "require") && has(expectation, "match") && !has(expectation, "or")) {
        show_rest(expectation, parser, nothing);
        show_expectation(expectation, "a statement");
        return false;
    }
    if (has(expectation, "use") && has(expectation, "end of file") && !has(expectation, "or")) {
        show_rest(expectation, parser, nothing);
        show_expectation(expectation,
                         "'use', 'layer', 'optimizer', 'schedule', 'parametrization', 'model', "
                         "'experiment' or 'layout'");
        return false;
    }
    if (has(expectation, "a name")) {
        show_expectation(expectation, expectation_name(expectation, parser));
        show_rest(expectation, parser, nothing);
        return true;
    }
    show_rest(expectation, parser, nothing);
    show_keywords(expectation, parser);
    return true;
}

static const char *token_description(Parser *parser, const Token *token, const char *kind) {
    if (token->kind == END)
        return parser->entry_only ? "the end of the text" : "the end of the file";
    if (token->kind == NAME || token->kind == NUMBER)
        return arena_format(parser->arena, "'%s'", token->text);
    if (token->kind == STRING) return "a string";
    return kind[0] == '\'' ? kind : arena_format(parser->arena, "'%s'", kind);
}

static bool is_comparison_token(int kind) {
    return kind == '<' || kind == '>' || kind == EQUAL || kind == NOT_EQUAL || kind == AT_MOST ||
           kind == AT_LEAST;
}

/* y = softmax[d] x[s,d]: the token before the error ends a line with an equation. */
static bool follows_equation(const Parser *parser) {
    const char *text = parser->source->text, *end = text + parser->before_last.span.start;
    for (const char *at = end; at > text && at[-1] != '\n'; at--)
        if (at[-1] == '=') return parser->last.first;
    return false;
}

/* Fixes for spellings of other languages. */
static void advise_spelling(Parser *parser, const Expectation *expectation) {
    const Token *found = &parser->last, *before = &parser->before_last;
    const char *text = parser->source->text;
    Reports *reports = parser->reports;
    if (found->kind == '=' && has(expectation, "')'") && before->kind == NAME)
        report_help(reports,
                    "write '==' to compare, { %s = ... } for options, or (x; %s = ...) for "
                    "options of a call",
                    before->text, before->text);
    else if (found->kind == '=' && has(expectation, "=="))
        report_help(reports, "write '==' to compare");
    else if (found->kind == EQUAL && has(expectation, "'='"))
        report_help(reports, "write '=' to define a name");
    else if (found->kind == ':' && has(expectation, "'='"))
        report_help(reports, "write '=' before the value");
    else if (before->kind == NAME && !strcmp(before->text, "return"))
        report_help(reports, "assign the result: y = ...");
    else if (before->kind == NAME && !strcmp(before->text, "self"))
        report_help(reports, "declare a parameter with its axes: param w[d, f]");
    else if (found->kind == ':' && has(expectation, "..."))
        report_help(reports, "name an index for each dimension: x[s, d]");
    else if (found->kind == '(' && expectation->count == 1 && has(expectation, "'['"))
        report_help(reports, "write the index to reduce over: %.*s[d] x[s, d]",
                    before->span.end - before->span.start, text + before->span.start);
    else if (before->kind == ']' && expectation->count == 1 && has(expectation, "'='") &&
             follows_equation(parser))
        report_help(reports,
                    "write the argument of a function in parentheses: softmax[d](x[s, d])");
    else if (found->kind == '/' && (before->kind == '/' || strchr("*/", text[found->span.end])))
        report_help(reports, "write '#' to begin a comment");
    else if (found->kind == '(' && has(expectation, "'{'") && has(expectation, "use"))
        report_help(reports, "write the options in braces: { dim = 64 }");
    else if (found->kind == '*' && before->kind == '*')
        report_help(reports, "write '^' for a power");
    else if (found->kind == ';' && has(expectation, "require"))
        report_help(reports, "remove ';': statements need no separator");
    else if (is_comparison_token(found->kind) && has(expectation, "'+'"))
        report_help(reports, "write 'a < b and b < c': comparisons cannot be chained");
}

static void advise_keyword(Parser *parser, const Expectation *expectation) {
    static const char *const items[] = {
        "use", "layer", "optimizer", "schedule", "parametrization", "model", "experiment"};
    static const char *const statements[] = {
        "option", "axis",    "sequence", "param", "state",  "input",   "update",  "loss",
        "aux",    "probe",   "output",   "cache", "repeat", "scan",    "if",      "match",
        "for",    "require", "else",     "kind",  "refine", "provide", "request", "extern"};
    static const char *const python[] = {"import", "class", "def", NULL};
    const Token *found = &parser->last, *before = &parser->before_last;
    const char *near = NULL;
    if (found->kind == NAME && has(expectation, "use") && !has(expectation, "or"))
        near = did_you_mean(found->text, items, sizeof items / sizeof *items);
    else if (before->kind == NAME && has(expectation, "'='") && has(expectation, "'['"))
        near = did_you_mean(before->text, statements, sizeof statements / sizeof *statements);
    if (near) report_help(parser->reports, "did you mean '%s'?", near);
    if (!near && (found->kind == FROM || (found->kind == NAME && among(found->text, python))) &&
        has(expectation, "use") && !has(expectation, "or"))
        report_help(parser->reports, "a spec is not Python: write 'use decoder', then "
                                     "model NAME = decoder { ... }");
}

/* Points at the innermost open bracket if the unexpected token indicates that it is not closed. */
static void advise_bracket(Parser *parser) {
    const Token *found = &parser->last, *before = &parser->before_last;
    if (parser->bracket_count == 0) return;
    const Bracket *bracket = &parser->brackets[parser->bracket_count - 1];
    bool brace = bracket->character == '{';
    bool wrong_closer =
        !parser->has_closed &&
        (found->kind == '}' || (!brace && (found->kind == ')' || found->kind == ']')));
    bool margin =
        (found->first && found->indent == 0) ||
        (before->first && before->indent == 0 && before->span.start > bracket->span.start);
    bool new_line = found->first && !brace;
    if (bracket->span.end < found->span.end &&
        (found->kind == END || wrong_closer || margin || new_line))
        report_note(parser->reports, bracket->span, "this '%c' is not closed", bracket->character);
}

/* An incomplete line absorbs the `y` of a following `y = x`; `y = 2 x` was read as y = 2 and a
 * statement `x`. */
static bool report_late(Parser *parser, const Expectation *expectation) {
    const Token *found = &parser->last, *before = &parser->before_last;
    if (before->kind != NAME) return false;
    bool ended = has(expectation, "'}'") || has(expectation, "')'") || has(expectation, "']'");
    if (found->kind == '=' && before->first && ended && !has(expectation, "a number")) {
        report_invalid(parser->reports, before->span, "complete the statement, or remove it",
                       "the statement before '%s' is incomplete", before->text);
        return true;
    }
    bool statement = expectation->count == 2 && has(expectation, "'='") && has(expectation, "'['");
    int earlier = parser->earlier_kind;
    bool complete = earlier == NAME || earlier == NUMBER || earlier == STRING || earlier == ')' ||
                    earlier == ']';
    if (!statement || before->first || !complete) return false;
    report_error(parser->reports, before->span,
                 "expected an operator or the next statement, found '%s'", before->text);
    report_help(parser->reports, "write an operator before '%s', such as *", before->text);
    return true;
}

void report_expected(Parser *parser, const char *const *names, int count, const char *found_kind) {
    const Token *found = &parser->last;
    parser->recovering = true;
    parser->repeated = found->span.end <= parser->error_end;
    parser->repeats = parser->repeated ? parser->repeats + 1 : 0;
    if (parser->repeats > MAX_DEPTH) parser->stopped = true; /* no progress */
    bool silent = parser->stopped || parser->repeated || found->kind == INVALID;
    if (found->span.end > parser->error_end) parser->error_end = found->span.end;
    if (silent) return;

    Expectation expectation = {.names = names, .count = count};
    Text text = {.arena = parser->arena};
    if (report_late(parser, &expectation)) return;
    bool quotes_token = group(&expectation, parser);
    for (int i = 0; i < expectation.shown_count; i++)
        text_add(&text, "%s%s",
                 i == 0                             ? ""
                 : i == expectation.shown_count - 1 ? " or "
                                                    : ", ",
                 expectation.shown[i]);
    Span before = parser->before_last.span;
    int length = before.end - before.start;
    if (quotes_token && length > 0 && length <= MAX_QUOTED)
        text_add(&text, " after '%.*s'", length, before.source->text + before.start);
    report_error(parser->reports, found->span, "expected %s, found %s", text.text,
                 token_description(parser, found, found_kind));
    advise_spelling(parser, &expectation);
    advise_keyword(parser, &expectation);
    advise_bracket(parser);
}
