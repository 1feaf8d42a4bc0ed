#include "abi/error_code.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static const struct {
    const char *code, *format;
} rows[] = {
#define ERROR(code, format) {code, format},
#define RETIRED(code)
#include "base/errors.def"
#undef RETIRED
#undef ERROR
};

/* The end of a conversion, "%-8.3ld". */
static const char *after_conversion(const char *at) {
    at += 1 + strspn(at + 1, "-+# 0123456789.*hlzjt");
    return at + (*at != 0);
}

/* Whether the format makes the text if each conversion makes any text. *own: characters of the
 * format outside of conversions. */
static bool matches(const char *format, const char *text, size_t *own) {
    const char *retry = NULL, *from = NULL; /* after the last conversion, and its text so far */
    *own = 0;
    for (;;) {
        bool percent = format[0] == '%' && format[1] == '%';
        if (*format == '%' && !percent) {
            retry = format = after_conversion(format);
            from = text;
        } else if (*format == *text) {
            if (!*text) return true;
            format += 1 + percent;
            text++;
            ++*own;
        } else if (retry && *from) {
            *own -= (size_t)(text - from);
            format = retry;
            text = ++from;
        } else {
            return false;
        }
    }
}

const char *error_code(const char *message) {
    const char *best = NULL;
    size_t most = 0, own;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (matches(rows[i].format, message, &own) && own > most) {
            best = rows[i].code;
            most = own;
        }
    return best;
}
