#include "syntax.h"

#include "parser.h"

#include <string.h>

/* expected: the text of a syntax error.
 *
 * Where an expression may stand, some forty tokens may; they are told as one thing: "an expression".
 */

enum { MOST_QUOTED = 30 };

typedef struct Expectation {
    const char *const *names;
    int count;
    const char *shown[8];
    int shown_count;
} Expectation;

static bool has(const Expectation *expectation, const char *name)
{
    for (int i = 0; i < expectation->count; i++)
        if (strcmp(expectation->names[i], name) == 0) return true;
    return false;
}

static bool among(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(name, *list) == 0) return true;
    return false;
}

static bool is_word_name(const char *name)
{
    return strncmp(name, "a ", 2) == 0 || (name[0] >= 'a' && name[0] <= 'z');
}

static const char *const operators[] = {"'+'", "'-'", "'*'", "'/'", "'%'", "'^'", "'<'", "'>'", "==", "!=",
                                        "<=", ">=", "'['", "'('", "'.'", "'@'", NULL};
static const char *const beginnings[] = {"'-'", "'('", "'['", "'{'", NULL};

static void show(Expectation *expectation, const char *text)
{
    int most = (int)(sizeof expectation->shown / sizeof *expectation->shown);
    if (expectation->shown_count < most) expectation->shown[expectation->shown_count++] = text;
}

/* Punctuation that is expected and not told by a group already. */
static void show_rest(Expectation *expectation, Parser *parser, const char *const *told)
{
    for (int i = 0; i < expectation->count; i++) {
        const char *name = expectation->names[i];
        if (among(name, told)) continue;
        if (strcmp(name, "end of file") == 0 && !parser->entry_only) continue;
        if (name[0] == '\'' || strcmp(name, "end of file") == 0) show(expectation, name);
        else if (!is_word_name(name)) show(expectation, arena_format(parser->arena, "'%s'", name));
    }
}

/* Keywords that are expected where no name is. */
static void show_keywords(Expectation *expectation, Parser *parser)
{
    for (int i = 0; i < expectation->count; i++) {
        const char *name = expectation->names[i];
        if (strncmp(name, "a ", 2) == 0) show(expectation, name);
        else if (is_word_name(name) && strncmp(name, "end ", 4) != 0)
            show(expectation, arena_format(parser->arena, "'%s'", name));
    }
}

static bool group(Expectation *expectation, Parser *parser)
{
    static const char *const nothing[] = {NULL};
    if (has(expectation, "'+'") && has(expectation, "'*'")) {
        show_rest(expectation, parser, operators);
        bool ends = has(expectation, "require") || has(expectation, "use");
        if (expectation->shown_count == 0) show(expectation, "an operator");
        else if (ends && expectation->shown_count == 1 && has(expectation, "'}'"))
            expectation->shown[0] = "an operator", show(expectation, "'}'");
        if (ends) show(expectation, "the next statement");
        return true;
    }
    if (has(expectation, "a number") && has(expectation, "'('") && has(expectation, "a name")) {
        show(expectation, has(expectation, "'{'") ? "a value" : "an expression");
        show_rest(expectation, parser, beginnings);
        return true;
    }
    if (has(expectation, "require") && has(expectation, "match") && !has(expectation, "or")) {
        show_rest(expectation, parser, nothing);
        show(expectation, "a statement");
        return false;
    }
    if (has(expectation, "use") && has(expectation, "end of file") && !has(expectation, "or")) {
        show_rest(expectation, parser, nothing);
        show(expectation, "'use', 'layer', 'optimizer', 'schedule', 'model' or 'experiment'");
        return false;
    }
    if (has(expectation, "a name")) {
        bool path = has(expectation, "or") && (has(expectation, "'}'") || has(expectation, "','"));
        show(expectation, path ? "the name of an option" : "a name");
        show_rest(expectation, parser, nothing);
        return true;
    }
    show_rest(expectation, parser, nothing);
    show_keywords(expectation, parser);
    return true;
}

static const char *describe(Parser *parser, const Token *token, const char *kind)
{
    if (token->kind == END) return parser->entry_only ? "the end of the text" : "the end of the file";
    if (token->kind == NAME || token->kind == NUMBER) return arena_format(parser->arena, "'%s'", token->text);
    if (token->kind == STRING) return "a text in quotes";
    return kind[0] == '\'' ? kind : arena_format(parser->arena, "'%s'", kind);
}

static void advise(Parser *parser, const Expectation *expectation)
{
    const Token *found = &parser->last, *before = &parser->before_last;
    if (found->kind == '=' && before->first)
        report_help(parser->reports, "is the line above it complete?");
    else if (found->kind == '=' && has(expectation, "==")) report_help(parser->reports, "to compare, write '=='");
    if (found->kind == EQUAL && has(expectation, "'='")) report_help(parser->reports, "to define, write '='");
    if (found->kind == ':' && has(expectation, "'='")) report_help(parser->reports, "write '=' before the value");
    if (found->kind == '/' && before->kind == '/')
        report_help(parser->reports, "comments begin with '#'");
    if (found->kind == '*' && before->kind == '*') report_help(parser->reports, "a power is written '^'");
    if (found->kind == ';') report_help(parser->reports, "nothing stands between statements");

    bool closer = found->kind == ')' || found->kind == ']' || found->kind == '}';
    bool wrong_closer = closer && !parser->has_closed;
    bool item = (found->first && found->indent == 0) || (before->first && before->indent == 0);
    if (parser->bracket_count > 0 && (found->kind == END || wrong_closer || item)) {
        const Bracket *bracket = &parser->brackets[parser->bracket_count - 1];
        report_note(parser->reports, bracket->span, "this '%c' is not closed", bracket->character);
    }
}

void report_expected(Parser *parser, const char *const *names, int count, const char *found_kind)
{
    const Token *found = &parser->last;
    parser->recovering = true;
    parser->repeated = found->span.end <= parser->error_end;
    bool silent = parser->stopped || parser->repeated || found->kind == INVALID;
    if (found->span.end > parser->error_end) parser->error_end = found->span.end;
    if (silent) return;

    Expectation expectation = {.names = names, .count = count};
    Text text = {.arena = parser->arena};
    bool tell_before = group(&expectation, parser);
    for (int i = 0; i < expectation.shown_count; i++)
        text_add(&text, "%s%s", i == 0 ? "" : i == expectation.shown_count - 1 ? " or " : ", ",
                 expectation.shown[i]);
    Span before = parser->before_last.span;
    int length = before.end - before.start;
    if (tell_before && length > 0 && length <= MOST_QUOTED)
        text_add(&text, " after '%.*s'", length, before.source->text + before.start);
    report_error(parser->reports, found->span, "expected %s, found %s", text.text,
                 describe(parser, found, found_kind));
    advise(parser, &expectation);
}
