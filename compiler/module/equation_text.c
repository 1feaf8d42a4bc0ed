/* equation_text: a statement as a comment of a text. */
#include "module/lowered.h"

#include <ctype.h>
#include <string.h>

const char *source_line(Arena *arena, Span span) {
    if (!span.source) return "";
    const char *path = span.source->path, *slash = strrchr(path, '/');
    bool embedded = path_is_standard(path);
    Text text = {.arena = arena};
    text_add(&text, "%s", slash && !embedded ? slash + 1 : path);
    for (char *c = text.text; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("._-/", *c)) *c = '_';
    text_add(&text, ":%d", span_line(span));
    return text.text;
}

const char *equation_text(Arena *arena, const Statement *statement) {
    const char *equation = print_statement(arena, statement);
    const char *place = source_line(arena, statement->span);
    return arena_format(arena, "%.*s%s%s", (int)strcspn(equation, "\n"), equation,
                        *place ? "   -- " : "", place);
}

void add_template_text(Text *text, const TemplateInstance *template) {
    text_add(text, "%s", template->name);
    for (int i = 0; i < template->arguments.count; i++) {
        const TemplateArgument *argument = template->arguments.items[i];
        text_add(text, "%s", i ? ", " : "<");
        if (argument->template)
            add_template_text(text, argument->template);
        else
            text_add(text, "%s",
                     argument->value ? term_text(text->arena, argument->value)
                                     : term_type_name(argument->type));
    }
    if (template->arguments.count) text_add(text, ">");
}
