/* diagnostics: sources, spans, and the errors and notes that point into them.
 *
 * Reports are collected, not printed, and nothing exits: the caller prints them when a stage is
 * over.
 *
 *     bad.moe:2:34: error: index 'j' is not bound here
 *         y[s,o] = sum[i] x[s,i] * w[o,j]
 *                                      ^
 */
#ifndef DIAGNOSTICS_H
#define DIAGNOSTICS_H

#include "base/arena.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>

typedef struct Source {
    const char *path; /* as the user wrote it, or "std/NAME.moe", or "--set" */
    const char *text;
    size_t length;
} Source;

bool path_is_standard(const char *path); /* of the standard library, "std/NAME.moe" */

typedef struct Span {
    const Source *source; /* NULL: no place */
    int start, end;       /* byte offsets, end exclusive */
} Span;

typedef enum Severity { SEVERITY_ERROR, SEVERITY_WARNING, SEVERITY_NOTE, SEVERITY_HELP } Severity;

typedef struct Reports {
    Arena *arena;
    List list;  /* Report *, in the order they were made */
    int errors; /* all that were reported */
    int told;   /* those in the list; after MAX_ERRORS the rest is dropped, and the print says so */
    bool repeated;    /* the error reported last is not in the list, nor are its notes */
    Span at;          /* what is being read: the place of what goes wrong for its size alone */
    jmp_buf *way_out; /* see reports_guard */
    bool gave_up;     /* it was taken */
    bool saved; /* the text is from a checkpoint or generated: old names are accepted silently */
    bool shown; /* the text is from an editor: old names are warnings */
} Reports;

Span span_join(Span first, Span last);
int span_line(Span span);   /* 1-based; 0 when there is no place */
int span_column(Span span); /* 1-based, counted in characters, a tab is one */

void report_error(Reports *reports, Span span, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* What is likely not what was meant, and no error. */
void report_warning(Reports *reports, Span span, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A note or a remedy belongs to the error or warning reported last. */
void report_note(Reports *reports, Span span, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void report_help(Reports *reports, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A deprecated name is used: "option 'top' is now 'top_k'". One line on stderr per name and
 * process; in an editor a warning at the span. */
void report_renamed(Reports *reports, Span span, const char *kind, const char *old,
                    const char *now);

/* Runs what may give up halfway; false when it did, and an error was reported. Inside another guard
 * it is the outer one that is left. */
bool reports_guard(Reports *reports, void (*run)(void *data), void *data);
/* Leaves the guard, after an error that nothing can go on from. Where there is none the process
 * ends with the reports. */
_Noreturn void report_give_up(Reports *reports);

/* The report of this number, with its place in brackets. */
const char *report_message(const Reports *reports, int number);
/* All errors as text, with source lines and carets; tabs and wide characters keep the carets in
 * place. */
char *reports_text(const Reports *reports, Arena *arena);
/* The same as a JSON array: severity, file, line, column, end_line, end_column (behind it),
 * message. */
char *reports_json(const Reports *reports, Arena *arena);
/* The warnings, in the same way. */
char *warnings_text(const Reports *reports, Arena *arena);
char *warnings_json(const Reports *reports, Arena *arena);

/* The candidate nearest to `name` by edit distance, or NULL when none is near. */
const char *did_you_mean(const char *name, const char *const *candidates, int count);

#endif
