#include "tokenizer/text/text.h"

#include "base/message.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

struct Pattern {
    char *string; /* or NULL */
    char *source; /* the expression, or NULL */
    size_t length;
    pcre2_code *code;
};

struct Matcher {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

enum { STACK_START = 64 << 10, STACK_LIMIT = 64 << 20, STEP_LIMIT = 1 << 30 };

Matcher *matcher_new(void) {
    Matcher *matcher = memory_new(sizeof *matcher);
    matcher->data = pcre2_match_data_create(1, NULL);
    matcher->context = pcre2_match_context_create(NULL);
    matcher->stack = pcre2_jit_stack_create(STACK_START, STACK_LIMIT, NULL);
    pcre2_jit_stack_assign(matcher->context, NULL, matcher->stack);
    pcre2_set_match_limit(matcher->context, STEP_LIMIT);
    return matcher;
}

void matcher_free(Matcher *matcher) {
    if (!matcher) return;
    pcre2_match_data_free(matcher->data);
    pcre2_match_context_free(matcher->context);
    pcre2_jit_stack_free(matcher->stack);
    free(matcher);
}

bool pattern_is_script(const char *name) {
    AUTO_FREE char *asked = memory_format("\\p{sc:%s}", name);
    int fault;
    size_t fault_offset;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)asked, PCRE2_ZERO_TERMINATED, PCRE2_UTF, &fault,
                                     &fault_offset, NULL);
    pcre2_code_free(code);
    return code != NULL;
}

Pattern *pattern_of_string(const char *bytes, size_t length) {
    Pattern *pattern = memory_new(sizeof *pattern);
    pattern->string = memory_new(length + 1);
    memcpy(pattern->string, bytes, length);
    pattern->length = length;
    return pattern;
}

static bool compile_pattern(Pattern *pattern, const char *file, const Text *text) {
    int number;
    PCRE2_SIZE offset;
    pattern->code = pcre2_compile((PCRE2_SPTR)text->bytes, text->length, PCRE2_UTF | PCRE2_UCP,
                                  &number, &offset, NULL);
    if (pattern->code) {
        pcre2_jit_compile(pattern->code, PCRE2_JIT_COMPLETE); /* slower without, but right */
        return true;
    }
    PCRE2_UCHAR message[200];
    pcre2_get_error_message(number, message, sizeof message);
    return error_message("only expressions that PCRE2 supports are possible",
                         "%s: invalid regular expression: %s", file, (const char *)message);
}

Pattern *pattern_of_expression(const char *file, const char *bytes, size_t length, WordClass word) {
    Pattern *pattern = memory_new(sizeof *pattern);
    pattern->source = memory_new(length + 1);
    memcpy(pattern->source, bytes, length);
    pattern->length = length;
    AUTO(Text) text = {0}, fault = {0};
    bool good = pattern_translate(bytes, length, word, &text, &fault) ||
                error_message("this regular-expression feature is not supported",
                              "%s: regular expression '%.*s' contains %.*s", file, (int)length,
                              bytes, (int)fault.length, fault.bytes ? fault.bytes : "");
    good = good && compile_pattern(pattern, file, &text);
    if (good) return pattern;
    pattern_free(pattern);
    return NULL;
}

void pattern_free(Pattern *pattern) {
    if (!pattern) return;
    pcre2_code_free(pattern->code);
    free(pattern->string);
    free(pattern->source);
    free(pattern);
}

const char *pattern_source(const Pattern *pattern, size_t *length) {
    *length = pattern->length;
    return pattern->source;
}

static Found find_expression(const Pattern *pattern, Matcher *matcher, const char *bytes,
                             size_t length, size_t from, size_t *start, size_t *end) {
    while (from < length) {
        int code = pcre2_match(pattern->code, (PCRE2_SPTR)bytes, length, from, PCRE2_NO_UTF_CHECK,
                               matcher->data, matcher->context);
        if (code == PCRE2_ERROR_NOMATCH) return FOUND_NONE;
        if (code < 0) {
            error_message(
                "split the text into smaller ones",
                "a regular expression of the tokenizer exceeds the match limit (PCRE2 error %d)",
                code);
            return FOUND_FAILED;
        }
        const PCRE2_SIZE *bounds = pcre2_get_ovector_pointer(matcher->data);
        *start = bounds[0];
        *end = bounds[1];
        if (*end > *start) return FOUND_MATCH;
        from =
            *start + (*start < length ? (size_t)character_length((unsigned char)bytes[*start]) : 1);
    }
    return FOUND_NONE;
}

Found pattern_find(const Pattern *pattern, Matcher *matcher, const char *bytes, size_t length,
                   size_t from, size_t *start, size_t *end) {
    if (!pattern->string) return find_expression(pattern, matcher, bytes, length, from, start, end);
    if (!pattern->length || from >= length) return FOUND_NONE;
    const char *at = memmem(bytes + from, length - from, pattern->string, pattern->length);
    if (!at) return FOUND_NONE;
    *start = (size_t)(at - bytes);
    *end = *start + pattern->length;
    return FOUND_MATCH;
}
