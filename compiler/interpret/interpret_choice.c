/* interpreter_choice: top: the largest values of each row, and the margins of their selection.
 *
 * Evaluations that differ by rounding are compared with the same selections: one repeats those of
 * the other. The margins of both show if a selection could have been different.
 */
#include "interpret/interpreter.h"

#include <math.h>
#include <stdlib.h>

static void put(const View *view, long offset, long value) {
    if (view->real)
        view->real[offset] = (double)value;
    else
        view->ints[offset] = value;
}

/* NaN is smaller than any number. */
static bool larger(double a, double b) {
    return a > b || (isnan(b) && !isnan(a));
}

/* The values of one selection: n of them, p_stride apart, marked at mask_stride from `offset`. */
typedef struct Choice {
    long n, k, p_stride, mask_stride;
} Choice;

/* Room for `count` more elements; moves nothing while another evaluation reads them. */
static void *grow(void *array, size_t count, size_t *capacity, size_t bytes) {
    if (count <= *capacity) return array;
    *capacity = 2 * count + 64;
    array = realloc(array, *capacity * bytes);
    if (!array) abort();
    return array;
}

/* The k largest values; of equal ones the earlier. */
static void find_largest(const Choice *choice, const double *p, bool *chosen) {
    for (long i = 0; i < choice->n; i++) chosen[i] = false;
    for (long round = 0; round < choice->k; round++) {
        long best = -1;
        for (long i = 0; i < choice->n; i++)
            if (!chosen[i] &&
                (best < 0 || larger(p[i * choice->p_stride], p[best * choice->p_stride])))
                best = i;
        chosen[best] = true;
    }
}

static double margin_of(const Choice *choice, const double *p, const bool *chosen) {
    double least = INFINITY, most = -INFINITY;
    for (long i = 0; i < choice->n; i++) {
        double value = p[i * choice->p_stride];
        if (chosen[i] && value < least) least = value;
        if (!chosen[i] && value > most) most = value;
    }
    return least - most;
}

static void choose(Interpreter *interpreter, const Choice *choice, const double *p,
                   const View *mask, long offset) {
    Choices *own = &interpreter->choices;
    const Choices *other = interpreter->followed;
    size_t first = own->chosen_count, n = (size_t)choice->n;
    own->chosen = grow(own->chosen, first + n, &own->chosen_capacity, sizeof *own->chosen);
    own->margins =
        grow(own->margins, own->margin_count + 1, &own->margin_capacity, sizeof *own->margins);
    bool *chosen = own->chosen + first;
    if (other && first + n <= other->chosen_count)
        for (size_t i = 0; i < n; i++) chosen[i] = other->chosen[first + i];
    else
        find_largest(choice, p, chosen);
    own->chosen_count += n;
    own->margins[own->margin_count++] = margin_of(choice, p, chosen);
    for (long i = 0; i < choice->n; i++) put(mask, offset + i * choice->mask_stride, chosen[i]);
}

void interpreter_top(Interpreter *interpreter, const Statement *statement) {
    View p = interpreter_view(interpreter, statement->inputs.items[0]),
         mask = interpreter_view(interpreter, statement->outputs.items[0]);
    int along = statement->top.dimension;
    Choice choice = {p.size[along], statement->top.k, p.stride[along], mask.stride[along]};
    long others = 1;
    for (int i = 0; i < p.rank; i++)
        if (i != along) others *= p.size[i];
    for (long other = 0; other < others && !interpreter->message; other++) {
        long rest = other, from = 0, to = 0;
        for (int i = p.rank - 1; i >= 0; i--) {
            if (i == along) continue;
            from += rest % p.size[i] * p.stride[i];
            to += rest % p.size[i] * mask.stride[i];
            rest /= p.size[i];
        }
        choose(interpreter, &choice, p.real + from, &mask, to);
    }
}

void interpreter_follow(Interpreter *interpreter, const Interpreter *other) {
    interpreter->followed = &other->choices;
}

const double *interpreter_margins(const Interpreter *interpreter, size_t *count) {
    *count = interpreter->choices.margin_count;
    return interpreter->choices.margins;
}
