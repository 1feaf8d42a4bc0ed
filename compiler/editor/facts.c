
#include "editor/cursor_context.h"
#include "ir/call.h"
#include "syntax/format.h"

#include <ctype.h>
#include <string.h>

/* ---- text ---- */

static const char *expression_text(Arena *arena, const Node *node) {
    Line line = {.arena = arena, .text = {.arena = arena}};
    line_expr(&line, node);
    return line.text.text;
}

/* A comment may contain a line with an example; the other lines are prose. */
static const char example_sign[] = "Example: ";

static const char *without_example(Arena *arena, const char *comment, const char **example) {
    Text out = text_new(arena);
    for (const char *at = comment; *at;) {
        size_t length = strcspn(at, "\n");
        if (!strncmp(at, example_sign, strlen(example_sign)))
            *example = arena_copy(arena, at + strlen(example_sign), length - strlen(example_sign));
        else
            text_add(&out, "%.*s\n", (int)length, at);
        at += length + (at[length] == '\n');
    }
    return out.text;
}

/* The comment that starts the file, up to its first empty line. */
static const char *comment_of_file(Arena *arena, const Source *source) {
    Text out = text_new(arena);
    for (const char *at = source->text; *at == '#';) {
        at += 1 + (at[1] == ' ');
        size_t length = strcspn(at, "\n");
        text_add(&out, "%.*s\n", (int)length, at);
        at += length + (at[length] == '\n');
    }
    return out.text;
}

/* Whether the file has the name of the declaration: attention in attention.moe. */
static bool names_its_file(const Node *node) {
    const char *slash = strrchr(node->span.source->path, '/');
    const char *file = slash ? slash + 1 : node->span.source->path;
    size_t length = strlen(node->name);
    return !strncmp(file, node->name, length) && !strcmp(file + length, ".moe");
}

/* Whether only `use` precedes it. */
static bool is_first_declaration(const Node *node) {
    const char *text = node->span.source->text;
    for (int at = 0; at < node->span.start;) {
        if (!strchr("#\n", text[at]) && strncmp(text + at, "use ", 4)) return false;
        at += (int)strcspn(text + at, "\n") + 1;
    }
    return true;
}

/* The comment above a declaration. The first declaration of a file and the one with the name of the
 * file have the comment at the start of the file if there is none above them. "": no comment. */
static const char *description_of(Arena *arena, const Node *node) {
    const char *comment = comment_above(arena, node);
    if (*comment || !(is_first_declaration(node) || names_its_file(node))) return comment;
    return comment_of_file(arena, node->span.source);
}

/* "Su et al. 2021" of "RoPE, Su et al. 2021, table 2"; NULL when no year is in it. */
static const char *paper_of(Arena *arena, const char *comment, size_t length) {
    char *text = arena_copy(arena, comment, length);
    for (char *end = text; (end = strchr(end, '\n'));) *end = ' ';
    for (size_t i = 1; i + 4 <= length; i++) {
        bool year = text[i - 1] == ' ' &&
                    (!strncmp(text + i, "19", 2) || !strncmp(text + i, "20", 2)) &&
                    isdigit((unsigned char)text[i + 2]) && isdigit((unsigned char)text[i + 3]);
        if (!year ||
            (i + 4 < length && (isalnum((unsigned char)text[i + 4]) || text[i + 4] == '.')))
            continue;
        size_t start = i;
        while (start > 0 && !strchr(",:(", text[start - 1])) start--;
        while (isspace((unsigned char)text[start])) start++;
        bool author = isupper((unsigned char)text[start]);
        return author ? arena_copy(arena, text + start, i + 4 - start) : NULL;
    }
    const char arxiv[] = "arXiv ";
    return length > strlen(arxiv) && !strncmp(text, arxiv, strlen(arxiv)) ? text : NULL;
}

/* Adds the works that brackets cite: (Su et al. 2021; Chen et al. 2023). */
static void add_papers(Arena *arena, const char *text, List *papers) {
    for (const char *at = strchr(text, '('); at; at = strchr(at, '(')) {
        at++;
        while (*at && *at != ')' && *at != '(') {
            while (isspace((unsigned char)*at)) at++;
            size_t length = strcspn(at, ";()");
            const char *paper = paper_of(arena, at, length);
            if (paper && !list_has_text(papers, paper)) list_push(arena, papers, (void *)paper);
            at += length + (at[length] == ';');
        }
    }
}

/* ---- options ---- */

static const char *limits_text(Arena *arena, const Node *limits) {
    if (limits->kind == NODE_LIST) return expression_text(arena, limits);
    const char *low = limits->kids[0] ? expression_text(arena, limits->kids[0]) : "";
    const char *high = limits->kids[1] ? expression_text(arena, limits->kids[1]) : "";
    return arena_format(arena, "%s..%s", low, high);
}

/* An alias is a former name, a former value (which has a new one), or a suggestion (number 1). */
static List former_names(Arena *arena, const Node *declared) {
    List names = {0};
    const Node *aliases = declared->aliases;
    for (int i = 0; aliases && i < aliases->count; i++)
        if (aliases->kids[i]->number != 1 && !aliases->kids[i]->count)
            list_push(arena, &names, (void *)aliases->kids[i]->name);
    return names;
}

OptionFacts *option_facts(Arena *arena, const Node *option) {
    static const RowColumns plain = {0, 0, 0};
    OptionFacts *facts = arena_alloc(arena, sizeof *facts);
    const Node *limits = option->kids[1] ? option->kids[1]->kids[0] : NULL;
    *facts = (OptionFacts){.name = option->name, .type = option->kids[0]->name};
    if (limits) facts->limits = limits_text(arena, limits);
    for (int i = 0; limits && limits->kind == NODE_LIST && i < limits->count; i++)
        if (limits->kids[i]->kind == NODE_NAME)
            list_push(arena, &facts->values, (void *)limits->kids[i]->name);
    if (option->kids[2]) facts->value = expression_text(arena, option->kids[2]);
    facts->text = option->kids[3] ? option->kids[3]->name : "";
    facts->former = former_names(arena, option);
    Line line = {.arena = arena, .text = {.arena = arena}};
    line_option_head(&line, option, 0);
    if (option->kids[2]) line_expr(&line, option->kids[2]);
    line_option_text(&line, option, &plain);
    facts->declaration = line.text.text;
    return facts;
}

/* ---- examples ---- */

/* A value for an option that has no default. */
static const char *some_value(Arena *arena, const Node *option) {
    const Node *limits = option->kids[1] ? option->kids[1]->kids[0] : NULL;
    const Node *first = limits && limits->count ? limits->kids[0] : NULL;
    return first ? expression_text(arena, first) : "1";
}

/* The required options, or else the first one with a plain default. */
static const char *some_options(Arena *arena, const Node *body) {
    Text out = {.arena = arena};
    const Node *plain = NULL;
    text_add(&out, "%s", "");
    for (int i = 0; i < body->count; i++) {
        const Node *option = body->kids[i];
        if (option->kind != NODE_OPTION) continue;
        const Node *value = option->kids[2];
        if (value && !plain && (value->kind == NODE_NUMBER || value->kind == NODE_NAME))
            plain = option;
        if (!value)
            text_add(&out, "%s%s = %s", *out.text ? ", " : "", option->name,
                     some_value(arena, option));
    }
    if (!*out.text && plain)
        text_add(&out, "%s = %s", plain->name, expression_text(arena, plain->kids[2]));
    return out.text;
}

static bool has_equations(const Node *body) {
    for (int i = 0; i < body->count; i++)
        if (body->kids[i]->kind != NODE_OPTION) return true;
    return false;
}

static const char *example_of(Arena *arena, const Node *node) {
    const char *name = node->name, *options = some_options(arena, layer_body(node));
    const char *record = *options ? arena_format(arena, "%s { %s }", name, options) : name;
    switch (node->kind) {
    case NODE_OPTIMIZER:
        return arena_format(arena, "train.optimizer = %s", record);
    case NODE_SCHEDULE:
        return arena_format(arena, "train.schedule = %s", record);
    case NODE_PARAMETRIZATION:
        return arena_format(arena, "model large = small { dim = 128 } transfer %s from small",
                            record);
    default:
        break;
    }
    const Node *formals = node->kids[0];
    if (!formals->count)
        return has_equations(layer_body(node)) ? arena_format(arena, "model example = %s", record)
                                               : arena_format(arena, "%s = { %s }", name, options);
    Text out = {.arena = arena};
    text_add(&out, "%s = %s(", node->kids[1] ? node->kids[1]->name : "y", name);
    for (int i = 0; i < formals->count; i++)
        text_add(&out, "%s%s", i ? ", " : "", formals->kids[i]->name);
    text_add(&out, "%s%s)", *options ? "; " : "", options);
    return out.text;
}

const Facts *facts_of(Arena *arena, const Node *node) {
    Facts *facts = arena_alloc(arena, sizeof *facts);
    const char *line = line_of_declaration(arena, node);
    *facts = (Facts){.kind = node_kind_name(node->kind),
                     .name = node->name,
                     .signature = strchr(line, ' ') ? strchr(line, ' ') + 1 : line,
                     .path = node->span.source->path,
                     .line = span_line(node->span)};
    facts->text = without_example(arena, description_of(arena, node), &facts->example);
    if (!facts->example) facts->example = example_of(arena, node);
    add_papers(arena, facts->text, &facts->papers);
    const Node *body = layer_body(node);
    for (int i = 0; i < body->count; i++) {
        if (body->kids[i]->kind != NODE_OPTION) continue;
        OptionFacts *option = option_facts(arena, body->kids[i]);
        list_push(arena, &facts->options, option);
        add_papers(arena, option->text, &facts->papers);
    }
    return facts;
}

/* ---- functions ---- */

static const Facts functions[] = {
#define FUNCTION(function, form, meaning, use, values)                                             \
    {.kind = "function",                                                                           \
     .name = function,                                                                             \
     .signature = form,                                                                            \
     .text = meaning "\n",                                                                         \
     .example = use,                                                                               \
     .result = values},
#include "editor/functions.def"
#undef FUNCTION
};

static void add_call_facts(const Unit *unit, List *facts) {
    for (int call = 0; call < CALLS; call++) {
        const CallFunction *function = &unit->calls[call]->function;
        if (!function->name) continue;
        Facts *own = arena_alloc(unit->arena, sizeof *own);
        *own = (Facts){.kind = "function",
                       .name = function->name,
                       .signature = function->form,
                       .text = arena_format(unit->arena, "%s\n", function->meaning),
                       .example = function->example,
                       .result = function->result};
        list_push(unit->arena, facts, own);
    }
}

static bool has_facts(const List *facts, const char *name) {
    return list_named(facts, offsetof(Facts, name), name) != NULL;
}

void add_function_facts(const Unit *unit, List *facts) {
    Arena *arena = unit->arena;
    List names = {0};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        list_push(arena, facts, (void *)&functions[i]);
    add_call_facts(unit, facts);
    /* A function without a row in the table has a name only. */
    function_names(unit, &names);
    for (int i = 0; i < names.count; i++) {
        if (has_facts(facts, names.items[i])) continue;
        Facts *bare = arena_alloc(arena, sizeof *bare);
        *bare = (Facts){.kind = "function",
                        .name = names.items[i],
                        .signature = "",
                        .text = "",
                        .example = "",
                        .result = ""};
        list_push(arena, facts, bare);
    }
}
