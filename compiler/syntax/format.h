/* format: what the files of the formatter share.
 *
 *     format.c        items, statements, records, comments, blank lines
 *     format_row.c    options and entries below each other, in columns
 *     format_line.c   expressions and values as text, and the breaking of lines that are too long
 */
#ifndef FORMAT_H
#define FORMAT_H

#include "syntax/tree.h"

#include <stdbool.h>

enum { LINE_COLUMNS = 120, INDENT_COLUMNS = 2, CONTINUE_COLUMNS = 4 };

/* A place where a line may be broken; the lower the level, the better the place. */
typedef struct Break {
    size_t at;
    int level;
} Break;

/* One logical line that is being written. */
typedef struct Line {
    Arena *arena;
    Text text;
    Break *breaks;
    int break_count, break_capacity;
    int nesting;
    bool tight;   /* inside subscripts: no spaces around operators */
    size_t limit; /* a trial: stop when the text is longer; 0: none */
} Line;

bool line_is_full(const Line *line);
void line_clear(Line *line);
void line_add(Line *line, const char *text);
void line_break(Line *line,
                int level); /* a place for a break; what follows carries its own space */
/* An expression or a value on one line. */
void line_expr(Line *line, const Node *expr);
void line_subs(Line *line, const Node *subs); /* "[s,d]"; nothing for NULL */
/* A row of a layout that is no entry. */
void line_layout(Line *line, const Node *row);
/* Writes the line, in several when it is too long, without the last newline. */
void line_write(Line *line, Text *out, int indent);

int line_columns(const Line *line);

/* Where the columns of a run of rows begin: what follows the name, and an option's description; 0:
 * as it comes. */
typedef struct Columns {
    int name, head;
    int most; /* columns that the line may have */
} Columns;

/* A row is an option or an entry of a record on one line; only the description of an option may go
 * to the next. */
bool line_is_row(Line *trial, const Node *node, int most);
void line_row(Line *line, const Node *node, const Columns *columns);
Columns line_row_columns(Line *trial, Node *const *nodes, int count, int most);
/* "PATH = ", "vary PATH = " or "match WORD by ", what stands before the value of an entry. */
void line_entry_head(Line *line, const Node *entry, int name_columns);
/* An option before and after its default. */
void line_option_head(Line *line, const Node *option, int name_columns);
void line_option_text(Line *line, const Node *option, const Columns *columns);
/* Former and similar names; aliases may be NULL. */
void line_aliases(Line *line, const Node *aliases, const char *gap);

#endif
