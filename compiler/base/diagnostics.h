/* diagnostics: sources, spans, and the errors and notes that point into them.
 *
 * Reports are collected, not printed, and do not end the process. The caller prints them after a
 * stage.
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
    bool is_kernel; /* of an `extern`, in another language: no spec */
} Source;

bool path_is_standard(const char *path); /* of the standard library, "std/NAME.moe" */

typedef struct Span {
    const Source *source; /* NULL: no location */
    int start, end;       /* byte offsets, end exclusive */
} Span;

typedef enum Severity { SEVERITY_ERROR, SEVERITY_WARNING, SEVERITY_NOTE, SEVERITY_HELP } Severity;

typedef struct Reports {
    Arena *arena;
    List list;     /* Report *, in the order they were made */
    int errors;    /* all reported errors */
    int told;      /* errors in the list, at most MAX_ERRORS */
    bool repeated; /* the error reported last is not in the list, nor are its notes */
    Span at;       /* the construct being read: the location of errors about its size */
    /* While layers are applied: the location in a user file that causes an error at `span` in the
     * standard library, and the name of the layer at `span`; or NULL. */
    Span (*cause)(void *data, Span span, const char **layer);
    void *cause_data;
    jmp_buf *way_out; /* see reports_guard */
    bool gave_up;     /* report_give_up was called */
    bool saved;       /* text of a checkpoint or generated text: old names are accepted silently */
    bool shown;       /* text in an editor: old names are warnings */
} Reports;

Span span_join(Span first, Span last);
bool is_written(Span span); /* in a user file, not in the standard library */
int span_line(Span span);   /* 1-based; 0 without a location */
int span_column(Span span); /* 1-based, counted in characters, a tab is one */

/* An error in the standard library is reported at its cause in a user file, if that is known; the
 * location in the library is a note. Returns false, as report_help and report_choices do, so that a
 * function can end with it. */
bool report_error(Reports *reports, Span span, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void report_verror(Reports *reports, Span span, const char *format, va_list arguments)
    __attribute__((nonnull(1, 3)));
/* An error at `span`; if that is in the standard library and `cause` in a user file, an error at
 * `cause` with a note at `span`. */
void report_caused(Reports *reports, Span cause, Span span, const char *note, const char *format,
                   ...) __attribute__((format(printf, 5, 6)));
/* A likely mistake that is not an error. */
void report_warning(Reports *reports, Span span, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A note or a help line belongs to the error or warning that was reported last. A help line is
 * imperative and contains text to type. */
void report_note(Reports *reports, Span span, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool report_help(Reports *reports, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* An error and its help line. */
bool report_invalid(Reports *reports, Span span, const char *help, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Whether an error was reported at this location of a user file. */
bool errors_at(const Reports *reports, Span span);

/* Notes the use of a deprecated name: "option 'top' is now 'top_k'". One line on stderr per name
 * and process, with the location of its first use; in an editor a warning at the span. */
void report_renamed(Reports *reports, Span span, const char *kind, const char *old,
                    const char *now);

/* Whether report_renamed prints lines on stderr; the initial state. */
void reports_print_notes(bool print);

/* Runs a function that can call report_give_up. Returns false if it did; an error was reported.
 * Inside another guard, control returns to the outer guard. */
bool reports_guard(Reports *reports, void (*run)(void *data), void *data);
/* Returns to the guard after an error that prevents any further work. Without a guard the process
 * prints the reports and ends. */
_Noreturn void report_give_up(Reports *reports);

/* The report of this number, with its location in parentheses. */
const char *report_message(const Reports *reports, int number);
/* The source line of that report without its indentation, or NULL. */
const char *report_source_line(const Reports *reports, int number);
/* All errors as text, with source lines and carets, which are aligned also after tabs and wide
 * characters. */
char *reports_text(const Reports *reports, Arena *arena);
/* The same as a JSON array: severity, code (if the error has one), file, line, column, end_line,
 * end_column (exclusive), message. */
char *reports_json(const Reports *reports, Arena *arena);
/* The warnings, in the same way. */
char *warnings_text(const Reports *reports, Arena *arena);
char *reports_all(const Reports *reports, Arena *arena); /* as text, notes on their own included */
char *warnings_json(const Reports *reports, Arena *arena);

/* The candidate nearest to `name` by edit distance, else one of which `name` is a part or that is a
 * part of `name` ("batch" for "batch_size"); NULL without one. */
const char *did_you_mean(const char *name, const char *const *candidates, int count);
/* The length of the shorter name if the longer one contains it between underscores; else 0. */
int part_length(const char *a, const char *b);
/* "a, b, c": at most 20 names, then "... and 37 more". */
const char *names_text(Arena *arena, const char *const *names, int count);
/* The help line of an unknown name: the nearest candidate, else the list of all `kind`
 * ("models"); nothing without candidates. */
bool report_choices(Reports *reports, const char *name, const char *const *candidates, int count,
                    const char *kind);

#endif
