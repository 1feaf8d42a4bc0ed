#include "tools/server/internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST_EXPRESSION = 64 };

static json_t *read_expression(Rendering *r);

/* \xHH, \uHHHH and \UHHHHHHHH; false: it is none of these. */
static bool read_code(Rendering *r, char letter, Text *text) {
    int digits = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
    long code = 0;
    if (!digits) return false;
    for (int i = 0; i < digits; i++, r->at++) {
        char digit[2] = {(char)(r->at < r->end ? r->text[r->at] : 0), 0};
        if (!isxdigit((unsigned char)*digit)) break;
        code = code * 16 + strtol(digit, NULL, 16);
        if (i + 1 == digits) digits = 0;
    }
    bool valid = !digits && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
    if (!valid) reading_wrong(r, "'\\\\%c' is not followed by the code of a character", letter);
    text_append_character(text, valid ? (int32_t)code : 0xFFFD);
    return true;
}

/* An escape sequence of a string. As in Python, an unknown one keeps its '\\'. */
static void read_escape(Rendering *r, Text *text) {
    static const char letters[] = "ntrabfv\\'\"", bytes[] = "\n\t\r\a\b\f\v\\'\"";
    char letter = r->text[r->at++];
    const char *found = letter ? strchr(letters, letter) : NULL;
    if (found) {
        text_append(text, bytes + (found - letters), 1);
    } else if (isdigit((unsigned char)letter) || letter == 'N') {
        reading_wrong(r, "'\\\\%c' in a string is not supported", letter);
    } else if (letter != '\n' && !read_code(r, letter, text)) {
        text_append(text, "\\", 1);
        text_append(text, &letter, 1);
    }
}

/* "text" or 'text' */
static json_t *read_string_literal(Rendering *r) {
    char quote = r->text[r->at++];
    Text text = {0};
    while (r->at < r->end && r->text[r->at] != quote) {
        char byte = r->text[r->at++];
        if (byte == '\\' && r->at < r->end)
            read_escape(r, &text);
        else
            text_append(&text, &byte, 1);
    }
    if (r->at >= r->end) reading_wrong(r, "a string is not terminated");
    if (r->at < r->end) r->at++;
    return values_taken(r, &text);
}

static json_t *read_number_literal(Rendering *r) {
    const char *from = r->text + r->at;
    size_t whole = strspn(from, "0123456789"), length = whole;
    char *end;
    if (from[length] == '.' && isdigit((unsigned char)from[length + 1]))
        length += 1 + strspn(from + length + 1, "0123456789");
    if (from[length] == 'e' || from[length] == 'E') {
        size_t sign = length + 1 + (from[length + 1] == '+' || from[length + 1] == '-');
        if (isdigit((unsigned char)from[sign])) length = sign + strspn(from + sign, "0123456789");
    }
    r->at += length;
    if (r->at < r->end && reading_in_name(r->text[r->at]))
        return reading_wrong(r, "invalid number");
    errno = 0;
    double real = length > whole ? strtod(from, &end) : 0;
    json_int_t number = length > whole ? 0 : strtoll(from, &end, 10);
    if (errno == ERANGE) return reading_wrong(r, "a number exceeds 64 bits");
    return length > whole ? reading_keep(r, json_real(real)) : values_integer(r, number);
}

/* A list [a, b], after its opening bracket. */
static json_t *read_list(Rendering *r) {
    json_t *list = reading_keep(r, json_array());
    while (!r->problem && !reading_sign(r, "]")) {
        json_t *item = read_expression(r);
        json_array_append(list, item ? item : reading_keep(r, json_null()));
        if (!reading_sign(r, ",") && r->at < r->end && r->text[r->at] != ']')
            reading_wrong(r, "expected ',' or ']'");
    }
    reading_spend_on(r, list);
    return list;
}

/* ---- calls ---- */

static Arguments read_call_arguments(Rendering *r) {
    Arguments arguments = {.named = reading_keep(r, json_object())};
    while (!r->problem && !reading_sign(r, ")")) {
        size_t before = r->at;
        char name[64];
        bool named = reading_name(r, name) && reading_sign(r, "=") && r->text[r->at] != '=';
        if (!named) r->at = before;
        json_t *value = read_expression(r);
        if (named)
            json_object_set(arguments.named, name, value ? value : json_null());
        else if (arguments.count < MAX_ARGUMENTS)
            arguments.items[arguments.count++] = value;
        else
            reading_wrong(r, "a call has more than %d arguments", MAX_ARGUMENTS);
        if (!reading_sign(r, ",") && r->at < r->end && r->text[r->at] != ')')
            reading_wrong(r, "expected ',' or ')'");
    }
    reading_spend_on(r, arguments.named);
    return arguments;
}

/* ---- from the inside out ---- */

static json_t *read_atom_value(Rendering *r) {
    char name[64];
    reading_spaces(r);
    char byte = (char)(r->at < r->end ? r->text[r->at] : 0);
    if (byte == '"' || byte == '\'') return read_string_literal(r);
    if (isdigit((unsigned char)byte)) return read_number_literal(r);
    if (reading_sign(r, "[")) return read_list(r);
    if (reading_sign(r, "(")) {
        json_t *value = read_expression(r);
        return reading_sign(r, ")") ? value : reading_wrong(r, "expected ')'");
    }
    if (!reading_name(r, name)) return reading_wrong(r, "expected an expression");
    if (!strcmp(name, "true") || !strcmp(name, "True")) return values_truth(r, true);
    if (!strcmp(name, "false") || !strcmp(name, "False")) return values_truth(r, false);
    if (!strcmp(name, "none") || !strcmp(name, "None")) return reading_keep(r, json_null());
    if (reading_sign(r, "(")) {
        const Arguments given = read_call_arguments(r);
        return call_function(r, name, &given);
    }
    return json_object_get(r->scope, name);
}

static bool comes(Rendering *r, char byte) {
    reading_spaces(r);
    return r->at < r->end && r->text[r->at] == byte;
}

/* value[KEY], value[FROM:TO:STEP] after its bracket. */
static json_t *read_subscript(Rendering *r, json_t *value) {
    const json_t *bounds[3] = {0};
    int colons = 0;
    while (!r->problem && !comes(r, ']')) {
        if (!comes(r, ':')) {
            bounds[colons] = read_expression(r);
            if (!bounds[colons]) reading_refused(r, "a value in [] is not defined");
        }
        if (!comes(r, ':')) break;
        if (++colons == 3) return reading_wrong(r, "expected ']'");
        r->at++;
    }
    if (!reading_sign(r, "]")) return reading_wrong(r, "expected ']'");
    if (!colons && !bounds[0] && r->live) return reading_wrong(r, "expected an expression");
    return colons ? values_slice(r, value, bounds) : values_item(r, value, bounds[0]);
}

/* value.NAME, value.NAME(...) after its dot. */
static json_t *read_attribute(Rendering *r, json_t *value) {
    char name[64];
    if (!reading_name(r, name)) return reading_wrong(r, "expected a name after '.'");
    if (reading_sign(r, "(")) {
        const Arguments given = read_call_arguments(r);
        return call_method(r, value, name, &given);
    }
    if (!value) return reading_refused(r, "attribute '.%s' of an undefined value", name);
    return json_object_get(value, name);
}

static json_t *read_filter(Rendering *r, json_t *value) {
    char name[64];
    Arguments given = {0};
    if (!reading_name(r, name)) return reading_wrong(r, "expected a filter after '|'");
    if (reading_sign(r, "(")) given = read_call_arguments(r);
    return call_filter(r, value, name, &given);
}

static json_t *read_test(Rendering *r, const json_t *value) {
    char name[64];
    bool negated = reading_word(r, "not");
    if (!reading_name(r, name)) return reading_wrong(r, "expected a test after 'is'");
    if (reading_word(r, "in") || reading_word(r, "is"))
        return reading_wrong(r, "put the test 'is %s' in parentheses", name);
    return values_truth(r, call_test(r, value, name) != negated);
}

static json_t *read_postfix(Rendering *r) {
    json_t *value = read_atom_value(r);
    while (!r->problem) {
        if (reading_sign(r, "["))
            value = read_subscript(r, value);
        else if (reading_sign(r, "."))
            value = read_attribute(r, value);
        else
            break;
    }
    return value;
}

/* Filters and tests apply to the whole of -x. */
static json_t *read_unary(Rendering *r) {
    bool sign = false, negative = false;
    for (; reading_sign(r, "-") || reading_sign(r, "+"); sign = true)
        negative ^= r->text[r->at - 1] == '-';
    json_t *value = read_postfix(r);
    if (sign && !r->problem) value = values_negative(r, value);
    if (sign && !negative && !r->problem) value = values_negative(r, value);
    while (!r->problem) {
        if (reading_sign(r, "|"))
            value = read_filter(r, value);
        else if (reading_word(r, "is"))
            value = read_test(r, value);
        else
            break;
    }
    return value;
}

static json_t *join_values(Rendering *r, json_t *a, json_t *b) {
    if (!r->live) return NULL;
    reading_spend_on(r, a);
    reading_spend_on(r, b);
    return r->problem ? NULL : values_joined(r, a, b);
}

/* At the end of an expression a '-' belongs to -%} and -}}. */
static bool ends_here(const Rendering *r) {
    size_t at = r->at;
    while (at < r->end && isspace((unsigned char)r->text[at])) at++;
    return at + 1 < r->end && r->text[at] == '-' &&
           (r->text[at + 1] == '%' || r->text[at + 1] == '}');
}

/* Passes one of the signs and returns it; NULL: none comes next. */
static const char *next_sign(Rendering *r, const char *const signs[]) {
    reading_spaces(r);
    bool ends = ends_here(r) || (r->at + 1 < r->end && !memcmp(r->text + r->at, "%}", 2));
    for (int i = 0; signs[i] && !ends; i++)
        if (reading_sign(r, signs[i])) return signs[i];
    return NULL;
}

/* a * b, a / b, a // b, a % b */
static json_t *read_factors(Rendering *r) {
    static const char *const signs[] = {"**", "*", "//", "/", "%", NULL};
    json_t *value = read_unary(r);
    for (const char *sign; !r->problem && (sign = next_sign(r, signs));) {
        if (strcmp(sign, "**") == 0) return reading_wrong(r, "'**' is not supported");
        json_t *other = read_unary(r);
        value = values_arithmetic(r, sign, value, other);
    }
    return value;
}

/* a ~ b binds more tightly than a + b. */
static json_t *read_joined(Rendering *r) {
    json_t *value = read_factors(r);
    while (!r->problem && reading_sign(r, "~")) value = join_values(r, value, read_factors(r));
    return value;
}

static json_t *read_terms(Rendering *r) {
    static const char *const signs[] = {"+", "-", NULL};
    json_t *value = read_joined(r);
    for (const char *sign; !r->problem && (sign = next_sign(r, signs));) {
        json_t *other = read_joined(r);
        reading_spend_on(r, value);
        reading_spend_on(r, other);
        value = values_arithmetic(r, sign, value, other);
    }
    return value;
}

static bool value_within(Rendering *r, const json_t *part, json_t *whole) {
    reading_spend_on(r, whole);
    return r->live && !r->problem && values_contains(r, whole, part);
}

static bool same(Rendering *r, json_t *a, const json_t *b) {
    reading_spend_on(r, a);
    return !r->problem && values_equal(a, b);
}

/* a SIGN b */
static bool compare_values(Rendering *r, const char *sign, json_t *a, json_t *b) {
    if (strcmp(sign, "in") == 0) return value_within(r, a, b);
    if (strcmp(sign, "not in") == 0) return !value_within(r, a, b);
    if (strcmp(sign, "==") == 0) return same(r, a, b);
    if (strcmp(sign, "!=") == 0) return !same(r, a, b);
    return reading_true(values_compare(r, sign, a, b));
}

static const char *next_comparison(Rendering *r) {
    static const char *const signs[] = {"==", "!=", "<=", ">=", "<", ">", NULL};
    const char *sign = next_sign(r, signs);
    size_t before = r->at;
    if (sign) return sign;
    if (reading_word(r, "in")) return "in";
    if (reading_word(r, "not") && reading_word(r, "in")) return "not in";
    r->at = before;
    return NULL;
}

/* a < b < c holds where a < b and b < c do; after one that does not, nothing is computed. */
static json_t *read_comparison(Rendering *r) {
    json_t *a = read_terms(r);
    bool live = r->live, some = false, all = true;
    for (const char *sign; !r->problem && (sign = next_comparison(r)); some = true) {
        json_t *b = read_terms(r);
        all = compare_values(r, sign, a, b) && all;
        r->live = live && all;
        a = b;
    }
    r->live = live;
    return some ? values_truth(r, all) : a;
}

static json_t *read_not(Rendering *r) {
    bool negated = false, odd = false;
    for (; reading_word(r, "not"); negated = true) odd = !odd;
    json_t *value = read_comparison(r);
    return negated ? values_truth(r, reading_true(value) != odd) : value;
}

/* The second of `and` and `or` is read, and computed only where it counts. */
static json_t *read_second(Rendering *r, bool counts, json_t *(*read)(Rendering *r)) {
    bool live = r->live;
    r->live = live && counts;
    json_t *value = read(r);
    r->live = live;
    return value;
}

static json_t *read_and(Rendering *r) {
    json_t *value = read_not(r);
    while (!r->problem && reading_word(r, "and")) {
        bool counts = reading_true(value);
        json_t *other = read_second(r, counts, read_not);
        if (counts) value = other;
    }
    return value;
}

static json_t *read_or(Rendering *r) {
    json_t *value = read_and(r);
    while (!r->problem && reading_word(r, "or")) {
        bool counts = !reading_true(value);
        json_t *other = read_second(r, counts, read_and);
        if (counts) value = other;
    }
    return value;
}

/* A problem of the first value of VALUE if CONDITION, until the condition is known. */
typedef struct Held {
    char *problem;
    bool raised, refused;
} Held;

/* Removes a problem of values and reads the value again without computing it. */
static Held hold_problem(Rendering *r, size_t start) {
    Held held = {0};
    if (!r->problem || !(r->raised || r->refused)) return held;
    held = (Held){r->problem, r->raised, r->refused};
    r->problem = NULL;
    r->raised = r->refused = false;
    r->at = start;
    read_second(r, false, read_or);
    return held;
}

static void release_problem(Rendering *r, const Held *held, bool counts) {
    if (!counts || r->problem || !held->problem) {
        free(held->problem);
        return;
    }
    r->problem = held->problem;
    r->raised = held->raised;
    r->refused = held->refused;
}

/* VALUE if CONDITION else OTHER */
static json_t *read_choice(Rendering *r) {
    size_t start = r->at;
    json_t *value = read_or(r);
    const Held held = hold_problem(r, start);
    bool alone = r->problem || !reading_word(r, "if"), truth = alone || reading_true(read_or(r));
    release_problem(r, &held, truth);
    if (alone || r->problem) return value;
    if (!reading_word(r, "else")) return truth ? value : NULL;
    json_t *other = read_second(r, !truth, read_expression);
    return truth ? value : other;
}

static json_t *read_expression(Rendering *r) {
    if (r->depth == DEEPEST_EXPRESSION)
        return reading_wrong(r, "expressions are nested too deeply");
    r->depth++;
    json_t *value = read_choice(r);
    r->depth--;
    return value;
}

json_t *expression_read(Rendering *r) {
    return read_expression(r);
}
