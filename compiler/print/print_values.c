/* print_values: calls of kernels in runtime/kernels, and records, with the lines of their values.
 *
 *     moec_pack(&moec_options_train_3, mask, NULL,
 *             &(const MoecPacked){.coordinate = (int *const[]){n, k}, .group = first,
 *                                 .other = other, .start = start, .list = list});
 */
#include "print/print.h"

/* Text under construction: lines that are complete, and the next one. */
typedef struct ValueLines {
    Text *text, line;
    int indent, next; /* of this line, of later ones */
} ValueLines;

static void end_value_line(ValueLines *lines) {
    if (lines->line.length) print_line(lines->text, lines->indent, lines->line.text);
    lines->line = (Text){.arena = lines->text->arena};
    lines->indent = lines->next;
}

/* column: the first one of new lines. last: after the last value. */
static void add_values(ValueLines *lines, const List *values, int column, const char *last) {
    for (int i = 0; i < values->count; i++) {
        const HostValue *value = values->items[i];
        const char *mark = value->address ? "&" : "";
        if (value->line) end_value_line(lines);
        text_add(&lines->line, "%*s", value->line ? column : i > 0, "");
        if (value->field) text_add(&lines->line, ".%s = ", value->field);
        if (value->term) {
            text_add(&lines->line, "%s%s", mark, term_text(lines->text->arena, value->term));
        } else {
            if (value->type) text_add(&lines->line, "%s(%s)", mark, value->type);
            text_add(&lines->line, "{");
            add_values(lines, &value->values, (int)lines->line.length, "}");
        }
        text_add(&lines->line, "%s", i < values->count - 1 ? "," : last);
    }
}

void print_call(Text *text, const HostStep *step, int indent) {
    ValueLines lines = {.text = text, .line = {.arena = text->arena}, .indent = indent};
    lines.next = indent + 2;
    text_add(&lines.line, "%s(", step->call.function);
    add_values(&lines, &step->call.values, 0, ");");
    end_value_line(&lines);
}

void print_record(Text *text, const HostRecord *record, int indent) {
    ValueLines lines = {.text = text, .indent = indent, .next = indent + 1};
    lines.line.arena = text->arena;
    text_add(&lines.line, "%s %s = {", record->type, record->name);
    add_values(&lines, &record->values, 0, ",");
    lines.next = indent;
    end_value_line(&lines);
    print_line(text, indent, "};");
}
