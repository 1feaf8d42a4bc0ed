/* quantity: numbers with units, as every table, line and message prints them. Powers of 1000; three
 * digits unless stated otherwise. Both sides use it; compiler/base/quantity.c defines it.
 *
 *     printf("%s\n", quantity(74.34e6, "B").text);     74.3 MB
 *
 * A result is a value and needs no memory. A number that is not finite prints as "-".
 */
#ifndef QUANTITY_H
#define QUANTITY_H

typedef struct Quantity {
    char text[48];
} Quantity;

/* "74.3 MB", "4.06 MFLOP/token", "38.6 GB/s", "0 B" */
Quantity quantity(double value, const char *unit);
/* Things that are counted, such as parameters and tokens: "512", "1.50 M", "7.24 B" (10^9). */
Quantity quantity_count(double count);
/* "0.42 ms", "3.21 s", "3m20s", "2h05m" */
Quantity quantity_seconds(double seconds);
/* Whole seconds: "45 s", "3m20s". */
Quantity quantity_whole_seconds(double seconds);
/* "17,960" and, with one decimal, "1,179.6" */
Quantity quantity_grouped(double value, int decimals);
/* "12 %"; below 10 with one decimal. share: 1 is all. */
Quantity quantity_percent(double share);

/* One unit for several numbers: those of a column, or of a line. */
typedef struct QuantityScale {
    double size;
    char prefix[2]; /* "k", "M" ...; "" */
    int decimals;
} QuantityScale;

/* For a column whose header names the unit: the largest value is below 100,000. */
QuantityScale quantity_column(double largest);
/* For a total and its parts: the total is below 1000 and has so many digits. */
QuantityScale quantity_line(double total, int digits);
/* The same two for counts, whose letter for 10^9 is B. */
QuantityScale quantity_counts(QuantityScale scale);
/* The number alone: "1,179.6"; "0" for zero; "<0.1" where the digits would all be 0. */
Quantity quantity_in(double value, QuantityScale scale);
/* With the prefix: "1,179.6 k", "0". */
Quantity quantity_prefixed(double value, QuantityScale scale);

#endif
