/* format: declarations that the files of the formatter share.
 *
 *     format.c        items, statements, records, comments, blank lines
 *     format_row.c    aligned columns of consecutive options and entries
 *     format_line.c   expressions and values as text; breaks of long lines
 */
#ifndef FORMAT_H
#define FORMAT_H

#include "syntax/tree.h"

#include <stdbool.h>

enum { LINE_COLUMNS = 120, INDENT_COLUMNS = 2, CONTINUE_COLUMNS = 4 };

/* A possible line break. Breaks of a lower level are preferred. */
typedef struct Break {
    size_t at;
    int level;
} Break;

/* One logical line of the output. */
typedef struct Line {
    Arena *arena;
    Text text;
    Break *breaks;
    int break_count, break_capacity;
    int nesting;
    bool tight;   /* inside subscripts: no spaces around operators */
    size_t limit; /* of a trial: stop above this length; 0: none */
} Line;

bool line_is_full(const Line *line);
void line_clear(Line *line);
void line_add(Line *line, const char *text);
void line_break(Line *line,
                int level); /* a possible break; the next text begins with its own space */
/* An expression or a value on one line. */
void line_expr(Line *line, const Node *expr);
void line_subs(Line *line, const Node *subs); /* "[s,d]"; nothing for NULL */
/* A row of a layout other than an entry. */
void line_layout(Line *line, const Node *row);
/* Writes the line, in several when it is too long, without the last newline. */
void line_write(Line *line, Text *out, int indent);

int line_columns(const Line *line);

/* Column positions of consecutive rows: the text after the name, and the description of an option;
 * 0: not aligned. */
typedef struct RowColumns {
    int name, head;
    int most; /* maximum columns of the line */
} RowColumns;

/* A row is an option or a record entry on one line. Only the description of an option can continue
 * on the next line. */
bool line_is_row(Line *trial, const Node *node, int most);
void line_row(Line *line, const Node *node, const RowColumns *columns);
RowColumns line_row_columns(Line *trial, Node *const *nodes, int count, int most);
/* "PATH = ", "vary PATH = " or "match WORD by ", the text before the value of an entry. */
void line_entry_head(Line *line, const Node *entry, int name_columns);
/* An option before and after its default. */
void line_option_head(Line *line, const Node *option, int name_columns);
void line_option_text(Line *line, const Node *option, const RowColumns *columns);
/* Former and similar names; aliases may be NULL. */
void line_aliases(Line *line, const Node *aliases, const char *gap);

/* { freeze, lr = expr }; NULL: none. extern c "norm.c:norm" { gradient }. */
void line_attributes(Line *line, const Node *record);
void line_extern(Line *line, const Node *node);

#endif
