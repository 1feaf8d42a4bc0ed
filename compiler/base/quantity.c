#include "abi/quantity.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char prefixes[] = " kMGTPE";

static Quantity missing(void) {
    return (Quantity){"-"};
}

/* Decimals with which `value` has so many significant digits; none are needed below `digits`. */
static int decimals_for(double value, int digits) {
    int decimals = digits - 1;
    for (double size = 10; decimals > 0 && value >= size - 0.5 * pow(10, -decimals); size *= 10)
        decimals--;
    return decimals;
}

/* The largest unit in which the value is at least 1, after rounding to `digits` digits. */
static QuantityScale scale_below(double value, double limit, int digits) {
    QuantityScale scale = {.size = 1};
    int at = 0;
    double rounding = 0.5 * pow(10, 3 - digits);
    while (fabs(value) / scale.size >= limit - rounding && prefixes[at + 1]) {
        scale.size *= 1000;
        scale.prefix[0] = prefixes[++at];
    }
    return scale;
}

QuantityScale quantity_line(double total, int digits) {
    QuantityScale scale = scale_below(total, 1000, digits);
    scale.decimals = decimals_for(fabs(total) / scale.size, digits);
    if (scale.size == 1 && total == floor(total)) scale.decimals = 0;
    return scale;
}

QuantityScale quantity_column(double largest) {
    QuantityScale scale = scale_below(largest, 100000, 3);
    scale.decimals = scale.size > 1;
    return scale;
}

QuantityScale quantity_counts(QuantityScale scale) {
    if (scale.prefix[0] == 'G') scale.prefix[0] = 'B';
    return scale;
}

Quantity quantity_grouped(double value, int decimals) {
    char digits[32];
    Quantity result = {""};
    if (!isfinite(value) || fabs(value) >= 1e15) return missing();
    snprintf(digits, sizeof digits, "%.*f", decimals, fabs(value));
    int whole = (int)strcspn(digits, "."), at = 0;
    if (value < 0 && strspn(digits, "0.") < strlen(digits)) result.text[at++] = '-';
    for (int i = 0; digits[i]; i++) {
        if (i && i < whole && (whole - i) % 3 == 0) result.text[at++] = ',';
        result.text[at++] = digits[i];
    }
    return result;
}

Quantity quantity_in(double value, QuantityScale scale) {
    Quantity result;
    double least = pow(10, -scale.decimals), scaled = value / scale.size;
    if (value == 0) return (Quantity){"0"};
    if (fabs(scaled) >= least / 2) return quantity_grouped(scaled, scale.decimals);
    snprintf(result.text, sizeof result.text, "<%.*f", scale.decimals, least);
    return isfinite(value) ? result : missing();
}

static void append(Quantity *result, const char *text) {
    size_t length = strlen(result->text);
    snprintf(result->text + length, sizeof result->text - length, "%s", text);
}

Quantity quantity_prefixed(double value, QuantityScale scale) {
    Quantity result = quantity_in(value, scale);
    if (value == 0 || !isfinite(value) || !*scale.prefix) return result;
    append(&result, " ");
    append(&result, scale.prefix);
    return result;
}

static Quantity with_unit(double value, QuantityScale scale, const char *unit) {
    Quantity result = quantity_grouped(value / scale.size, scale.decimals);
    if (result.text[0] == '-' && !result.text[1]) return result;
    if (scale.prefix[0] || *unit) append(&result, " ");
    append(&result, scale.prefix);
    append(&result, unit);
    return result;
}

/* The digits of a number below 1 continue: 0.00421. */
static QuantityScale small(double value) {
    QuantityScale scale = quantity_line(value, 3);
    for (double size = fabs(value); size > 0 && size < 0.9995 && scale.decimals < 9; size *= 10)
        scale.decimals++;
    return scale;
}

Quantity quantity(double value, const char *unit) {
    return with_unit(value, small(value), unit);
}

Quantity quantity_count(double count) {
    return with_unit(count, quantity_counts(small(count)), "");
}

static Quantity clock_time(double seconds) {
    Quantity result;
    long whole = (long)(seconds + 0.5);
    if (whole < 3600)
        snprintf(result.text, sizeof result.text, "%ldm%02lds", whole / 60, whole % 60);
    else
        snprintf(result.text, sizeof result.text, "%ldh%02ldm", whole / 3600, whole / 60 % 60);
    return result;
}

Quantity quantity_seconds(double seconds) {
    if (!isfinite(seconds) || seconds >= 1e12) return missing();
    if (seconds >= 59.95) return clock_time(seconds);
    return seconds >= 0.9995 ? quantity(seconds, "s") : quantity(seconds * 1000, "ms");
}

Quantity quantity_whole_seconds(double seconds) {
    if (!isfinite(seconds) || seconds >= 1e12) return missing();
    return seconds >= 59.5 ? clock_time(seconds) : quantity(floor(seconds + 0.5), "s");
}

Quantity quantity_percent(double share) {
    Quantity result = quantity_grouped(100 * share, fabs(share) < 0.0995 && share != 0);
    if (isfinite(share)) append(&result, " %");
    return result;
}
