
#include "abi/json_make.h"
#include "editor/cursor_context.h"
#include "moec.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* doc: the facts of declarations as text, as Markdown and as JSON. */

/* ---- lookup ---- */

typedef struct DocGroup {
    const char *name;
    size_t list; /* offset of its nodes in Unit; 0: the functions of the language */
} DocGroup;

static const DocGroup groups[] = {{"layers", offsetof(Unit, layers)},
                                  {"optimizers", offsetof(Unit, optimizers)},
                                  {"schedules", offsetof(Unit, schedules)},
                                  {"parametrizations", offsetof(Unit, parametrizations)},
                                  {"functions", 0}};
enum { GROUP_COUNT = sizeof groups / sizeof *groups };

static const List *group_nodes(const Unit *unit, const DocGroup *group) {
    static const List none;
    return group->list ? (const List *)((const char *)unit + group->list) : &none;
}

/* Lists the declarations of the file itself; for the standard library, those of all its files. */
static List facts_of_group(const Unit *unit, const DocGroup *group) {
    List found = {0};
    const Source *first = unit->sources.items[0];
    const List *nodes = group_nodes(unit, group);
    LIST_EACH(const Node, node, nodes)
        if (path_is_standard(first->path) || node->span.source == first)
            list_push(unit->arena, &found, (void *)facts_of(unit->arena, node));
    if (!group->list && path_is_standard(first->path)) add_function_facts(unit, &found);
    return found;
}

static void add_option_facts(Arena *arena, const Node *layer, const Node *option, List *found) {
    Facts *facts = arena_alloc(arena, sizeof *facts);
    *facts = (Facts){.kind = "option",
                     .name = arena_format(arena, "%s.%s", layer->name, option->name),
                     .signature = "",
                     .text = "",
                     .path = option->span.source->path,
                     .line = span_line(option->span)};
    list_push(arena, &facts->options, option_facts(arena, option));
    list_push(arena, found, facts);
}

/* The option that the name, a former name or a suggestion for it means; NULL: another one. */
static const Node *option_meant(Unit *unit, const Node *layer, const Node *option,
                                const char *name) {
    if (!strcmp(option->name, name) || option_was(option, name)) return option;
    const Node *alias = alias_find(option, name, true);
    if (!alias) return NULL;
    return alias->count ? option_of(unit, layer, alias->kids[0]->name) : option;
}

static void add_options_meant(Unit *unit, const Node *layer, const char *name, List *found) {
    const Node *body = layer_body(layer);
    for (int i = 0; i < body->count; i++) {
        const Node *option = body->kids[i]->kind == NODE_OPTION ? body->kids[i] : NULL;
        option = option ? option_meant(unit, layer, option, name) : NULL;
        if (option) add_option_facts(unit->arena, layer, option, found);
    }
}

/* Options of that name in every declaration. */
static void add_options_called(Unit *unit, const char *name, List *found) {
    for (int g = 0; g < GROUP_COUNT; g++) {
        const List *nodes = group_nodes(unit, &groups[g]);
        for (int i = 0; i < nodes->count; i++)
            add_options_meant(unit, nodes->items[i], name, found);
    }
}

/* A declaration by its name or a former one. */
static const Node *declaration_called(Unit *unit, const char *name) {
    const Node *found = named_layer(unit, name);
    for (int g = 0; g < GROUP_COUNT && !found; g++) {
        const List *nodes = group_nodes(unit, &groups[g]);
        for (int i = 0; i < nodes->count && !found; i++)
            if (alias_find(nodes->items[i], name, false)) found = nodes->items[i];
    }
    return found;
}

/* A declaration, a function, or an option with or without its layer. */
static List find_facts(Unit *unit, const char *name) {
    List found = {0};
    const Node *layer = declaration_called(unit, name);
    if (layer) list_push(unit->arena, &found, (void *)facts_of(unit->arena, layer));
    List functions = {0};
    add_function_facts(unit, &functions);
    for (int i = 0; i < functions.count; i++)
        if (!strcmp(((const Facts *)functions.items[i])->name, name))
            list_push(unit->arena, &found, functions.items[i]);
    const char *dot = strchr(name, '.');
    const Node *owner =
        dot ? declaration_called(unit, arena_copy(unit->arena, name, (size_t)(dot - name))) : NULL;
    const Node *option = owner ? option_of(unit, owner, dot + 1) : NULL;
    if (option) add_option_facts(unit->arena, owner, option, &found);
    if (owner && !option) add_options_meant(unit, owner, dot + 1, &found);
    if (!found.count) add_options_called(unit, name, &found);
    return found;
}

/* ---- text ---- */

/* The first sentence on one line. */
static const char *summary_of(Arena *arena, const Facts *facts) {
    const char *text = *facts->text ? facts->text : facts->signature;
    Text out = text_new(arena);
    for (const char *at = text; *at; at++) {
        const char *next = at + 1 + strspn(at + 1, " \n");
        bool last = !*next || !strncmp(at + 1, "\n\n", 2);
        if (*at == '.' && next > at + 1 && (last || isupper((unsigned char)*next))) break;
        if (*at == '\n' && (!*next || at[1] == '\n')) break;
        text_add(&out, "%c", *at == '\n' ? ' ' : *at);
    }
    return out.text;
}

static void add_facts_list(Text *out, const char *title, const List *found) {
    int width = 0;
    for (int i = 0; i < found->count; i++) {
        int length = (int)strlen(((const Facts *)found->items[i])->name);
        if (length > width) width = length;
    }
    if (found->count) text_add(out, "%s%s\n", out->length ? "\n" : "", title);
    LIST_EACH(const Facts, facts, found)
        text_add(out, "  %-*s  %s\n", width, facts->name, summary_of(out->arena, facts));
}

static const char *option_head(Arena *arena, const OptionFacts *option) {
    return arena_format(arena, "%s: %s%s%s%s%s", option->name, option->type,
                        option->limits ? " in " : "", option->limits ? option->limits : "",
                        option->value ? " = " : ", required", option->value ? option->value : "");
}

/* Each line with an indentation. */
static void add_indented_lines(Text *out, const char *text, const char *first, const char *others) {
    for (const char *at = text; *at;) {
        size_t length = strcspn(at, "\n");
        const char *indentation = !length ? "" : at == text ? first : others;
        text_add(out, "%s%.*s\n", indentation, (int)length, at);
        at += length + (at[length] == '\n');
    }
}

static const char *names_joined(Arena *arena, const List *names, const char *separator) {
    Text out = {.arena = arena};
    for (int i = 0; i < names->count; i++)
        text_add(&out, "%s%s", i ? separator : "", (const char *)names->items[i]);
    return out.text;
}

static void add_facts_text(Text *out, const Facts *facts) {
    bool option = !strcmp(facts->kind, "option");
    text_add(out, "%s%s %s\n", out->length ? "\n" : "", facts->kind,
             option ? facts->name : facts->signature);
    add_indented_lines(out, facts->text, "  ", "  ");
    for (int i = 0; i < facts->options.count; i++) {
        const OptionFacts *row = facts->options.items[i];
        text_add(out, "%s  %s\n      %s\n", i || option ? "" : "\n", option_head(out->arena, row),
                 row->text);
        if (row->former.count)
            text_add(out, "      former name: %s\n", names_joined(out->arena, &row->former, ", "));
    }
    if (!option) text_add(out, "\n");
    if (facts->papers.count)
        text_add(out, "  papers   %s\n", names_joined(out->arena, &facts->papers, "; "));
    if (facts->example) add_indented_lines(out, facts->example, "  example  ", "           ");
    if (facts->result && *facts->result) text_add(out, "  y        %s\n", facts->result);
    if (facts->path) text_add(out, "  source   %s:%d\n", facts->path, facts->line);
}

/* ---- Markdown ---- */

/* A cell of a table: no bar ends it. */
static const char *cell(Arena *arena, const char *text) {
    Text out = text_new(arena);
    for (const char *at = text; *at; at++) text_add(&out, "%s%c", *at == '|' ? "\\" : "", *at);
    return out.text;
}

/* Prose; lines with an indentation become a list. */
static void add_doc_text(Text *out, const char *text) {
    bool listed = false;
    for (const char *at = text; *at;) {
        size_t length = strcspn(at, "\n"), indentation = strspn(at, " ");
        bool item = indentation >= 2 && indentation < length;
        text_add(out, "%s%s%.*s\n", item != listed ? "\n" : "", item ? "- " : "",
                 (int)(length - indentation), at + indentation);
        listed = item;
        at += length + (at[length] == '\n');
    }
}

static void add_declaration(Text *out, const Facts *facts) {
    Arena *arena = out->arena;
    text_add(out, "\n### %s\n\n", facts->name);
    const char *file = facts->path ? strrchr(facts->path, '/') : NULL;
    if (*facts->signature) text_add(out, "`%s`", facts->signature);
    if (file)
        text_add(out, "%sdeclared in [%s](%s)", *facts->signature ? ", " : "", file + 1, file + 1);
    text_add(out, "\n\n");
    add_doc_text(out, facts->text);
    if (facts->options.count)
        text_add(out, "\n| option | type | default | description |\n|---|---|---|---|\n");
    LIST_EACH(const OptionFacts, row, &facts->options) {
        const char *limits = row->limits ? arena_format(arena, " in %s", row->limits) : "";
        const char *value = row->value ? arena_format(arena, "`%s`", row->value) : "required";
        text_add(out, "| `%s` | `%s%s` | %s | %s |\n", row->name, row->type, limits, value,
                 cell(arena, row->text));
    }
    if (facts->example) text_add(out, "\n    %s\n", facts->example);
}

/* Lines of code in a cell. */
static void add_code_cell(Text *out, const char *code) {
    for (const char *at = code; *at;) {
        size_t length = strcspn(at, "\n");
        text_add(out, "%s`%.*s`", at == code ? "" : "<br>", (int)length, at);
        at += length + (at[length] == '\n');
    }
}

static void add_function(Text *out, const Facts *facts) {
    size_t length = strcspn(facts->text, "\n");
    text_add(out, "| `%s` | %.*s | ", facts->signature, (int)length, facts->text);
    add_code_cell(out, facts->example);
    text_add(out, " | ");
    add_code_cell(out, *facts->result ? facts->result : "random");
    text_add(out, " |\n");
}

static void add_markdown(Text *out, const List *found) {
    bool table = false;
    LIST_EACH(const Facts, facts, found) {
        bool function = !strcmp(facts->kind, "function");
        if (function && !table)
            text_add(out, "\n| function | value | example | `y` |\n|---|---|---|---|\n");
        table = function;
        (function ? add_function : add_declaration)(out, facts);
    }
}

/* ---- JSON ---- */

static json_t *texts_json(const List *texts) {
    json_t *array = json_array();
    for (int i = 0; i < texts->count; i++) json_array_append_new(array, json_text(texts->items[i]));
    return array;
}

static json_t *option_facts_json(const OptionFacts *option) {
    return json_make("{s:s, s:s, s:s, s:o, s:s, s:b, s:s, s:o}", "name", option->name, "type",
                     option->type, "limits", option->limits, "values", texts_json(&option->values),
                     "default", option->value, "required", option->value == NULL, "description",
                     option->text, "former_names", texts_json(&option->former));
}

static json_t *facts_json(const Facts *facts) {
    json_t *options = json_array();
    for (int i = 0; i < facts->options.count; i++)
        json_array_append_new(options, option_facts_json(facts->options.items[i]));
    return json_make("{s:s, s:s, s:s, s:s, s:i, s:s, s:o, s:s, s:s, s:o}", "kind", facts->kind,
                     "name", facts->name, "signature", facts->signature, "file", facts->path,
                     "line", facts->line, "description", facts->text, "papers",
                     texts_json(&facts->papers), "example", facts->example, "result", facts->result,
                     "options", options);
}

static const char *json_of(Arena *arena, const List *found) {
    json_t *array = json_array();
    for (int i = 0; i < found->count; i++)
        json_array_append_new(array, facts_json(found->items[i]));
    char *text = json_write_new(array, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    const char *copy = arena_format(arena, "%s\n", text);
    free(text);
    return copy;
}

/* ---- the interface ---- */

static void add_title(Text *out, const char *name) {
    text_add(out, "%s## %c%s\n", out->length ? "\n" : "", toupper((unsigned char)*name), name + 1);
}

const char *moec_doc(MoecCompiler *compiler, const char *name, MoecDocForm form) {
    Unit *unit = moec_unit(compiler);
    if (!unit || !unit->sources.count) return NULL;
    List all = {0};
    Text out = {.arena = unit->arena};
    bool list = false;
    for (int i = 0; i < GROUP_COUNT; i++) {
        if (name && strcmp(groups[i].name, name)) continue;
        list = true;
        List found = facts_of_group(unit, &groups[i]);
        list_append(unit->arena, &all, &found);
        if (form == MOEC_DOC_MARKDOWN && found.count) {
            add_title(&out, groups[i].name);
            add_markdown(&out, &found);
        }
        if (form == MOEC_DOC_TEXT) add_facts_list(&out, groups[i].name, &found);
    }
    if (!list) {
        all = find_facts(unit, name);
        for (int i = 0; form == MOEC_DOC_TEXT && i < all.count; i++)
            add_facts_text(&out, all.items[i]);
        if (form == MOEC_DOC_MARKDOWN) add_markdown(&out, &all);
    }
    return !all.count ? NULL : form == MOEC_DOC_JSON ? json_of(unit->arena, &all) : out.text;
}

const char *moec_doc_nearest(MoecCompiler *compiler, const char *name) {
    Unit *unit = moec_unit(compiler);
    List names = {0}, functions = {0};
    for (int g = 0; unit && g < GROUP_COUNT; g++) {
        list_push(unit->arena, &names, (void *)groups[g].name);
        const List *nodes = group_nodes(unit, &groups[g]);
        LIST_EACH(const Node, node, nodes) {
            const Node *body = layer_body(node);
            list_push(unit->arena, &names, (void *)node->name);
            for (int k = 0; k < body->count; k++)
                if (body->kids[k]->kind == NODE_OPTION) {
                    const char *option = body->kids[k]->name;
                    if (strchr(name, '.'))
                        option = arena_format(unit->arena, "%s.%s", node->name, option);
                    list_push(unit->arena, &names, (void *)option);
                }
        }
    }
    if (unit) add_function_facts(unit, &functions);
    for (int i = 0; i < functions.count; i++)
        list_push(unit->arena, &names, (void *)((const Facts *)functions.items[i])->name);
    return did_you_mean(name, (const char *const *)names.items, names.count);
}
