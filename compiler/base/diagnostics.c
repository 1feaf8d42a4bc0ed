#include "base/diagnostics.h"

#include "abi/error_code.h"
#include "abi/json_make.h"
#include "base/table.h"
#include "base/utf8.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_REPORTS = 400, MAX_ERRORS = 20, TAB_COLUMNS = 4, SHOWN_COLUMNS = 120, CLIP_MARGIN = 30 };

typedef struct Report {
    Severity severity;
    Span span;
    const char *message;
} Report;

static const char *const severity_names[] = {"error", "warning", "note", "help"};

Span span_join(Span first, Span last) {
    if (!first.source) return last;
    if (last.source == first.source && last.end > first.end) first.end = last.end;
    return first;
}

bool path_is_standard(const char *path) {
    return strncmp(path, "std/", 4) == 0;
}

bool is_written(Span span) {
    return span.source && !path_is_standard(span.source->path);
}

static int line_start(Span span) {
    int start = span.start;
    while (start > 0 && span.source->text[start - 1] != '\n') start--;
    return start;
}

int span_line(Span span) {
    if (!span.source) return 0;
    const char *at = span.source->text, *end = at + span.start;
    int line = 1;
    for (; (at = memchr(at, '\n', (size_t)(end - at))) != NULL; at++) line++;
    return line;
}

int span_column(Span span) {
    if (!span.source) return 0;
    int column = 1;
    for (int at = line_start(span); at < span.start; column++) {
        unsigned character;
        int bytes = utf8_decode(span.source->text + at, (size_t)(span.start - at), &character);
        at += bytes ? bytes : 1;
    }
    return column;
}

/* A construct can be read more than once (a layer applied twice). Each of its messages is reported
 * once. */
static bool is_known(const Reports *reports, Severity severity, Span span, const char *message) {
    LIST_EACH(const Report, report, &reports->list) {
        if (report->severity != severity || report->span.source != span.source) continue;
        if (report->span.start == span.start && !strcmp(report->message, message)) return true;
    }
    return false;
}

bool errors_at(const Reports *reports, Span span) {
    bool found = false;
    for (int i = 0; i < reports->list.count && is_written(span); i++) {
        const Report *report = reports->list.items[i];
        found |= report->severity == SEVERITY_ERROR && report->span.source == span.source &&
                 report->span.start == span.start;
    }
    return found;
}

static void add_report(Reports *reports, Severity severity, Span span, const char *format,
                       va_list arguments) {
    char *message = arena_vformat(reports->arena, format, arguments);
    if (severity == SEVERITY_ERROR || severity == SEVERITY_WARNING)
        reports->repeated = is_known(reports, severity, span, message);
    reports->errors += severity == SEVERITY_ERROR;
    if (reports->repeated || reports->list.count >= MAX_REPORTS) return;
    if (severity == SEVERITY_ERROR && ++reports->told > MAX_ERRORS) reports->repeated = true;
    if (reports->told > MAX_ERRORS && severity != SEVERITY_WARNING) return;
    Report *report = arena_alloc(reports->arena, sizeof *report);
    report->severity = severity;
    report->span = span;
    report->message = message;
    list_push(reports->arena, &reports->list, report);
}

void report_verror(Reports *reports, Span span, const char *format, va_list arguments) {
    const char *layer = NULL;
    Span cause = {0};
    if (span.source && !is_written(span) && reports->cause)
        cause = reports->cause(reports->cause_data, span, &layer);
    add_report(reports, SEVERITY_ERROR, cause.source ? cause : span, format, arguments);
    if (cause.source) report_note(reports, span, "in layer '%s'", layer);
}

bool report_error(Reports *reports, Span span, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    report_verror(reports, span, format, arguments);
    va_end(arguments);
    return false;
}

bool report_invalid(Reports *reports, Span span, const char *help, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    report_verror(reports, span, format, arguments);
    va_end(arguments);
    report_help(reports, "%s", help);
    return false;
}

void report_caused(Reports *reports, Span cause, Span span, const char *note, const char *format,
                   ...) {
    const bool moves = is_written(cause) && !is_written(span);
    va_list arguments;
    va_start(arguments, format);
    const char *message = arena_vformat(reports->arena, format, arguments);
    va_end(arguments);
    report_error(reports, moves ? cause : span, "%s", message);
    if (moves) report_note(reports, span, "%s", note);
}

void report_warning(Reports *reports, Span span, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    add_report(reports, SEVERITY_WARNING, span, format, arguments);
    va_end(arguments);
}

void report_note(Reports *reports, Span span, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    add_report(reports, SEVERITY_NOTE, span, format, arguments);
    va_end(arguments);
}

bool report_help(Reports *reports, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    add_report(reports, SEVERITY_HELP, (Span){NULL, 0, 0}, format, arguments);
    va_end(arguments);
    return false;
}

bool reports_guard(Reports *reports, void (*run)(void *data), void *data) {
    jmp_buf here;
    if (reports->way_out) {
        run(data);
        return true;
    }
    reports->way_out = &here;
    bool whole = !setjmp(here);
    if (whole) run(data);
    reports->way_out = NULL;
    reports->cause = NULL;
    return whole;
}

_Noreturn void report_give_up(Reports *reports) {
    reports->gave_up = true;
    if (reports->way_out) longjmp(*reports->way_out, 1);
    fputs(reports_text(reports, reports->arena), stderr);
    exit(1);
}

/* One source line in printable form: tabs become spaces, control characters become U+FFFD. `first`
 * and `last` are the columns of the span. `last` is exclusive.
 */
typedef struct Picture {
    Text text;
    int columns, first, last;
} Picture;

static void picture_add(Picture *picture, const char *bytes, int count, int width) {
    text_add_bytes(&picture->text, bytes, (size_t)count);
    picture->columns += width;
}

/* Control characters could move the cursor or change the color of the terminal. */
static bool is_hidden(int bytes, unsigned character) {
    return bytes == 0 || character < 0x20 || character == 0x7F ||
           (character < 0xA0 && character >= 0x80);
}

/* File names and strings of a spec can contain any character. Line breaks of a message are kept. */
static const char *shown(Arena *arena, const char *text) {
    Text out = {.arena = arena};
    size_t length = strlen(text);
    text_add(&out, "%s", "");
    for (size_t at = 0; at < length;) {
        unsigned character = 0;
        int bytes = utf8_decode(text + at, length - at, &character);
        if (is_hidden(bytes, character) && text[at] != '\n')
            text_add(&out, "\xEF\xBF\xBD");
        else
            text_add_bytes(&out, text + at, (size_t)bytes);
        at += bytes ? (size_t)bytes : 1;
    }
    return out.text;
}

static Picture draw_line(Arena *arena, Span span) {
    Picture picture = {.text = {.arena = arena}, .first = -1, .last = -1};
    const char *text = span.source->text;
    int length = (int)span.source->length;
    for (int at = line_start(span); at < length && text[at] != '\n';) {
        if (at >= span.start && picture.first < 0) picture.first = picture.columns;
        if (at >= span.end && picture.last < 0) picture.last = picture.columns;
        unsigned character = 0;
        int bytes = utf8_decode(text + at, (size_t)(length - at), &character);
        if (character == '\t') do
                picture_add(&picture, " ", 1, 1);
            while (picture.columns % TAB_COLUMNS);
        else if (is_hidden(bytes, character))
            picture_add(&picture, "\xEF\xBF\xBD", character == '\r' ? 0 : 3, character != '\r');
        else
            picture_add(&picture, text + at, bytes, utf8_width(character));
        at += bytes ? bytes : 1;
    }
    text_add(&picture.text, "%s", "");
    if (picture.first < 0) picture.first = picture.columns;
    if (picture.last < 0) picture.last = picture.columns;
    if (picture.last <= picture.first) picture.last = picture.first + 1;
    return picture;
}

/* The part of the line in columns [from, to), whole characters only. */
static void add_columns(Text *out, const Picture *picture, int from, int to) {
    const char *text = picture->text.text;
    size_t length = picture->text.length;
    int column = 0;
    for (size_t at = 0; at < length;) {
        unsigned character = ' ';
        int bytes = utf8_decode(text + at, length - at, &character);
        int width = utf8_width(character);
        if (column >= from && column + width <= to) text_add_bytes(out, text + at, (size_t)bytes);
        if (column < from && column + width > from) text_add(out, " ");
        column += width;
        at += (size_t)bytes;
    }
}

/* The source line with carets under the span. Of a long line, only the part around the span is
 * shown. */
static void add_picture(Text *out, Arena *arena, Span span) {
    Picture picture = draw_line(arena, span);
    int from = 0, to = picture.columns;
    if (picture.columns > SHOWN_COLUMNS) {
        if (picture.first > SHOWN_COLUMNS - CLIP_MARGIN) from = picture.first - CLIP_MARGIN;
        if (from > picture.columns - SHOWN_COLUMNS) from = picture.columns - SHOWN_COLUMNS;
        to = from + SHOWN_COLUMNS;
        if (picture.last > to) picture.last = to;
    }
    text_add(out, "    %s", from > 0 ? "... " : "");
    add_columns(out, &picture, from, to);
    text_add(out, "%s\n    %s%*s", to < picture.columns ? " ..." : "", from > 0 ? "    " : "",
             picture.first - from, "");
    for (int i = picture.first; i < picture.last; i++) text_add(out, "^");
    text_add(out, "\n");
}

/* The errors or the warnings, each with its notes. */
static List reports_of(const Reports *reports, Arena *arena, Severity severity) {
    List chosen = {0};
    bool within = false;
    LIST_EACH(Report, report, &reports->list) {
        if (report->severity == SEVERITY_ERROR || report->severity == SEVERITY_WARNING)
            within = report->severity == severity;
        if (within) list_push(arena, &chosen, report);
    }
    return chosen;
}

static const char *code_of(const Report *report) {
    return report->severity == SEVERITY_ERROR ? error_code(report->message) : NULL;
}

/* "FILE:LINE:COLUMN: ", or "moec: " without a location. */
static const char *location_of(Arena *arena, Span span) {
    if (!span.source) return "moec: ";
    return arena_format(arena, "%s:%d:%d: ", shown(arena, span.source->path), span_line(span),
                        span_column(span));
}

static void add_reports(Text *text, Arena *arena, const List *list) {
    Text out = *text;
    LIST_EACH(const Report, report, list) {
        if (report->severity == SEVERITY_HELP) {
            text_add(&out, "  help: %s\n", shown(arena, report->message));
            continue;
        }
        const char *code = code_of(report);
        text_add(&out, "%s%s%s%s%s: %s\n", location_of(arena, report->span),
                 severity_names[report->severity], code ? "[" : "", code ? code : "",
                 code ? "]" : "", shown(arena, report->message));
        if (report->span.source) add_picture(&out, arena, report->span);
    }
    *text = out;
}

/* The release that drops the names deprecated in this one. */
#define REMOVAL "0.4"

static bool notes_are_off;

void reports_print_notes(bool print) {
    notes_are_off = !print;
}

void report_renamed(Reports *reports, Span span, const char *kind, const char *old,
                    const char *now) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static Arena *arena;
    static Table printed; /* const char *: lines */
    if (reports->saved) return;
    if (reports->shown) {
        report_warning(reports, span, "%s '%s' is now '%s'", kind, old, now);
        report_help(reports, "write '%s'; the old name will be removed in version " REMOVAL, now);
        return;
    }
    if (notes_are_off) return;
    pthread_mutex_lock(&lock);
    if (!arena) arena = arena_new();
    const char *line = arena_format(arena, "%s '%s' is now '%s'", kind, old, now);
    uint64_t hash = hash_text(HASH_START, line);
    const List *known = table_find(&printed, hash);
    bool repeated = false;
    for (int i = 0; i < known->count; i++) repeated |= !strcmp(known->items[i], line);
    if (!repeated) {
        table_add(arena, &printed, hash, (void *)line);
        fprintf(stderr, "%snote: %s; the old name will be removed in version " REMOVAL "\n",
                location_of(arena, span), line);
    }
    pthread_mutex_unlock(&lock);
}

char *reports_text(const Reports *reports, Arena *arena) {
    Text out = text_new(arena);
    List errors = reports_of(reports, arena, SEVERITY_ERROR);
    add_reports(&out, arena, &errors);
    if (reports->told > MAX_ERRORS)
        text_add(&out, "... and %d more error%s\n", reports->told - MAX_ERRORS,
                 reports->told == MAX_ERRORS + 1 ? "" : "s");
    return out.text;
}

char *reports_all(const Reports *reports, Arena *arena) {
    Text out = text_new(arena);
    add_reports(&out, arena, &reports->list);
    return out.text;
}

const char *report_message(const Reports *reports, int number) {
    const Report *report = reports->list.items[number];
    const char *message = shown(reports->arena, report->message);
    if (!report->span.source) return message;
    return arena_format(reports->arena, "%s (%s:%d:%d)", message,
                        shown(reports->arena, report->span.source->path), span_line(report->span),
                        span_column(report->span));
}

const char *report_source_line(const Reports *reports, int number) {
    const Report *report = reports->list.items[number];
    if (!report->span.source) return NULL;
    Picture picture = draw_line(reports->arena, report->span);
    Text line = {.arena = reports->arena};
    add_columns(&line, &picture, 0, picture.columns);
    return line.text ? line.text + strspn(line.text, " ") : NULL;
}

char *warnings_text(const Reports *reports, Arena *arena) {
    Text out = text_new(arena);
    List warnings = reports_of(reports, arena, SEVERITY_WARNING);
    add_reports(&out, arena, &warnings);
    return out.text;
}

static char *list_json(Arena *arena, const List *list) {
    json_t *array = json_array();
    LIST_EACH(const Report, report, list) {
        json_t *object = json_object();
        json_object_set_new(object, "severity", json_text(severity_names[report->severity]));
        const char *code = code_of(report);
        if (code) json_object_set_new(object, "code", json_text(code));
        if (report->span.source) {
            json_object_set_new(object, "file", json_text(report->span.source->path));
            json_object_set_new(object, "line", json_integer(span_line(report->span)));
            json_object_set_new(object, "column", json_integer(span_column(report->span)));
            Span end = {report->span.source, report->span.end, report->span.end};
            json_object_set_new(object, "end_line", json_integer(span_line(end)));
            json_object_set_new(object, "end_column", json_integer(span_column(end)));
        }
        json_object_set_new(object, "message", json_text(report->message));
        json_array_append_new(array, object);
    }
    return arena_take(arena, json_write_new(array, JSON_INDENT(2) | JSON_PRESERVE_ORDER));
}

char *reports_json(const Reports *reports, Arena *arena) {
    List errors = reports_of(reports, arena, SEVERITY_ERROR);
    return list_json(arena, &errors);
}

char *warnings_json(const Reports *reports, Arena *arena) {
    List warnings = reports_of(reports, arena, SEVERITY_WARNING);
    return list_json(arena, &warnings);
}

/* Optimal string alignment distance: insertions, deletions, changes and swaps of neighbors. */
static int edit_distance(const char *a, int a_length, const char *b, int b_length) {
    enum { LONGEST = 64 };
    int rows[3][LONGEST + 1];
    if (a_length > LONGEST || b_length > LONGEST) return LONGEST;
    for (int j = 0; j <= b_length; j++) rows[0][j] = j;
    for (int i = 1; i <= a_length; i++) {
        int *row = rows[i % 3], *above = rows[(i + 2) % 3], *second = rows[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= b_length; j++) {
            int change = above[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = above[j] + 1 < row[j - 1] + 1 ? above[j] + 1 : row[j - 1] + 1;
            if (change < row[j]) row[j] = change;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                second[j - 2] + 1 < row[j])
                row[j] = second[j - 2] + 1;
        }
    }
    return rows[a_length % 3][b_length];
}

/* Whether `longer` contains `part` between underscores: "batch" of "batch_size". */
static bool is_part(const char *part, int length, const char *longer) {
    enum { MIN_PART = 3 };
    for (const char *at = longer; length >= MIN_PART && (at = strstr(at, part)); at++) {
        if ((at == longer || at[-1] == '_') && (!at[length] || at[length] == '_')) return true;
    }
    return false;
}

int part_length(const char *a, const char *b) {
    int length = (int)strlen(a), other = (int)strlen(b);
    return is_part(a, length, b) ? length : is_part(b, other, a) ? other : 0;
}

/* The candidate with the longest common part, or NULL. */
static const char *part_match(const char *name, const char *const *candidates, int count) {
    const char *best = NULL;
    for (int i = 0, most = 0; i < count; i++) {
        int length = part_length(name, candidates[i]);
        if (length <= most) continue;
        most = length;
        best = candidates[i];
    }
    return best;
}

const char *did_you_mean(const char *name, const char *const *candidates, int count) {
    int length = (int)strlen(name);
    int limit = length < 3 ? 1 : (length + 2) / 3;
    const char *best = NULL;
    for (int i = 0; i < count; i++) {
        int candidate_length = (int)strlen(candidates[i]);
        int distance = edit_distance(name, length, candidates[i], candidate_length);
        /* Ignore names without common characters. */
        if (distance > limit || distance >= length || distance >= candidate_length) continue;
        limit = distance - 1;
        best = candidates[i];
        if (limit < 0) break;
    }
    return best ? best : part_match(name, candidates, count);
}

const char *names_text(Arena *arena, const char *const *names, int count) {
    enum { MAX_NAMES = 20 };
    Text text = text_new(arena);
    for (int i = 0; i < count && i < MAX_NAMES; i++)
        text_add(&text, "%s%s", i ? ", " : "", names[i]);
    if (count > MAX_NAMES) text_add(&text, ", ... and %d more", count - MAX_NAMES);
    return text.text;
}

bool report_choices(Reports *reports, const char *name, const char *const *candidates, int count,
                    const char *kind) {
    const char *near = did_you_mean(name, candidates, count);
    if (near)
        report_help(reports, "did you mean '%s'?", near);
    else if (count)
        report_help(reports, "use one of the %s: %s", kind,
                    names_text(reports->arena, candidates, count));
    return false;
}
