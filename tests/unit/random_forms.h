/* random_forms: a seed to a model that uses the statements of the language freely.
 *
 * The root layer is random: products, reductions, attention, recurrences, routed sums, slices and
 * applied layers, each over tensors of earlier statements. Every subscript may be affine (f + 2,
 * 7 - f, 2 * f, a slice of a slice) and belong to an index of another axis. `forms_count` counts
 * the statement forms of a text. Include after random_spec.h. Every function is static.
 */
#ifndef RANDOM_FORMS_H
#define RANDOM_FORMS_H

#include "random_spec.h"

enum { FORM_AXES = 5, FORM_TENSORS = 48, D = 0 };

static const char *const form_axes[FORM_AXES] = {"d", "f", "g", "h", "c"};

/* NAME[s, axes...]; without s where `sequence` is 0. */
typedef struct Made {
    char name[16];
    int sequence, rank, axes[3];
} Made;

typedef struct Forms {
    Spec *spec;
    Random *random;
    long size[FORM_AXES];
    Made tensors[FORM_TENSORS];
    int count, next;
} Forms;

static int form_axis(Forms *forms, unsigned without) {
    int axis = (int)between(forms->random, 0, FORM_AXES - 1);
    while (without & 1u << axis) axis = (axis + 1) % FORM_AXES;
    return axis;
}

/* ---- reads ---- */

/* A subscript for a dimension of the axis by the indices of `in`: usually the index itself if it exists, else an affine
 * expression of one or two indices, which may be out of bounds. */
static void add_subscript(Forms *forms, int axis, unsigned in) {
    Random *random = forms->random;
    Spec *spec = forms->spec;
    if (in & 1u << axis && chance(random, 55)) {
        add(spec, "%s", form_axes[axis]);
        return;
    }
    if (!in) {
        add(spec, "%ld", between(random, 0, forms->size[axis] - 1));
        return;
    }
    const int by = form_axis(forms, ~in), more = form_axis(forms, ~in);
    const char *index = form_axes[by];
    const long left = forms->size[axis] - forms->size[by], start = between(random, 0, 3);
    switch (between(random, 0, 8)) {
    case 0:
        add(spec, "%ld - %s", forms->size[axis] - 1 - start, index);
        break;
    case 1:
        add(spec, "2 * %s + %ld", index, start);
        break;
    case 2:
        add(spec, "%s * size(%s) + %s", index, form_axes[more], form_axes[more]);
        break;
    case 3:
        add(spec, "(%s + %ld) %% size(%s)", index, start, form_axes[axis]);
        break;
    case 4:
        add(spec, "%s - %ld", index, start);
        break;
    case 5:
        add(spec, "floor(%s / 2) + %ld", index, start);
        break;
    default:
        add(spec, "%s + %ld", index, left > 0 ? between(random, 0, left) : start);
    }
}

static void add_position(Forms *forms) {
    Random *random = forms->random;
    const char *ahead[] = {"s + 1", "size(s) - 1 - s", "(s + 2) % size(s)"};
    if (!forms->spec->causal && chance(random, 10))
        add(forms->spec, "%s", ahead[between(random, 0, 2)]);
    else if (chance(random, 20))
        add(forms->spec, "s - %ld", between(random, 1, 3));
    else
        add(forms->spec, "s");
}

/* An earlier tensor at subscripts of the indices of `in`; without s only tensors without s. */
static void add_read(Forms *forms, unsigned in, int sequence) {
    const Made *made = &forms->tensors[between(forms->random, 0, forms->count - 1)];
    while (made->sequence && !sequence) made--;
    add(forms->spec, "%s", made->name);
    if (!made->sequence && !made->rank) return;
    add(forms->spec, "[");
    if (made->sequence) add_position(forms);
    for (int i = 0; i < made->rank; i++) {
        if (i || made->sequence) add(forms->spec, ", ");
        add_subscript(forms, made->axes[i], in);
    }
    add(forms->spec, "]");
}

/* True if the index is a word of the text from `start` on. */
static int mentions(const Forms *forms, size_t start, int axis) {
    const char letter = form_axes[axis][0], *text = forms->spec->text;
    for (size_t i = start; i < forms->spec->length; i++)
        if (text[i] == letter && strchr("[ (", text[i - 1]) && strchr("], )", text[i + 1]) &&
            strncmp(text + i - 5, "size(", 5) != 0)
            return 1;
    return 0;
}

/* The same read, times a vector of the axis unless the read depends on it. */
static void add_read_of(Forms *forms, unsigned in, int sequence, int axis) {
    const size_t start = forms->spec->length;
    add_read(forms, in, sequence);
    if (!mentions(forms, start, axis))
        add(forms->spec, " * v%s[%s]", form_axes[axis], form_axes[axis]);
}

/* ---- targets ---- */

static Made *new_target(Forms *forms, int sequence, int rank) {
    Made *made = &forms->tensors[forms->count];
    *made = (Made){.sequence = sequence, .rank = rank};
    snprintf(made->name, sizeof made->name, "t%d", ++forms->next);
    unsigned taken = 0;
    for (int i = 0; i < rank; i++) {
        made->axes[i] = form_axis(forms, taken);
        taken |= 1u << made->axes[i];
    }
    return made;
}

static unsigned indices_of(const Made *made) {
    unsigned in = 0;
    for (int i = 0; i < made->rank; i++) in |= 1u << made->axes[i];
    return in;
}

static void add_subscripts(Forms *forms, const Made *made, int sequence) {
    if (sequence) add(forms->spec, "s%s", made->rank ? ", " : "");
    for (int i = 0; i < made->rank; i++)
        add(forms->spec, "%s%s", i ? ", " : "", form_axes[made->axes[i]]);
}

static void add_target(Forms *forms, const Made *made) {
    add(forms->spec, "  %s", made->name);
    if (made->rank || made->sequence) {
        add(forms->spec, "[");
        add_subscripts(forms, made, made->sequence);
        add(forms->spec, "]");
    }
    add(forms->spec, " = ");
}

static void finish(Forms *forms, const char *rest) {
    add(forms->spec, "%s\n", rest);
    forms->count++;
    if (chance(forms->random, 25))
        add(forms->spec, "  output %s\n", forms->tensors[forms->count - 1].name);
}

/* ---- statements ---- */

/* sum of a product of two reads; a summed index without a read gets a vector. */
static void form_product(Forms *forms) {
    Random *random = forms->random;
    Made *made = new_target(forms, chance(random, 80), (int)between(random, 0, 2));
    unsigned in = indices_of(made), summed = 0;
    for (long i = between(random, 1, 2); i > 0; i--) summed |= 1u << form_axis(forms, in | summed);
    add_target(forms, made);
    const char *wrap = PICK(random, "", "", "tanh");
    add(forms->spec, "%s(sum[", wrap);
    for (int i = 0, first = 1; i < FORM_AXES; i++)
        if (summed & 1u << i) add(forms->spec, "%s%s", first ? "" : ", ", form_axes[i]), first = 0;
    add(forms->spec, "] ");
    const size_t value = forms->spec->length;
    add_read(forms, in | summed, made->sequence);
    add(forms->spec, " * ");
    add_read(forms, in | summed, made->sequence);
    for (int i = 0; i < FORM_AXES; i++)
        if (summed & 1u << i && (chance(random, 10) || !mentions(forms, value, i)))
            add(forms->spec, " * v%s[%s]", form_axes[i], form_axes[i]);
    finish(forms, ")");
}

/* A and B are reads. */
static const char *const pointwise_sides[] = {
    "tanh(A) + B",
    "sigmoid(A) * B",
    "where(A > 0.1 and not (B > 0.5), A, 0.5 * B)",
    "min(A, B) + max(A, 0.3)",
    "exp(0 - A ^ 2) - B",
    "sqrt(abs(A) + 0.1) * rsqrt(abs(B) + 0.5)",
    "sin(A) * cos(B) + atan(A)",
    "erf(A) + softplus(B) * 0.3",
    "log(1 + abs(A)) + sign(B) * 0.1",
    "stop_gradient(A) * B + floor(A) * 0.1",
    "A / (1 + abs(B))",
    "A * pi / 4 - B",
    "where(A < 0 or B >= 0.2, A, B) * (A != B)",
    "A",
};

static void add_pattern(Forms *forms, const char *side, unsigned in, int sequence) {
    for (const char *at = side; *at; at++)
        if (*at == 'A' || *at == 'B')
            add_read(forms, in, sequence);
        else
            add(forms->spec, "%c", *at);
}

static void form_pointwise(Forms *forms) {
    Made *made = new_target(forms, chance(forms->random, 85), (int)between(forms->random, 0, 2));
    add_target(forms, made);
    add_pattern(forms, ANY_OF(forms->random, pointwise_sides), indices_of(made), made->sequence);
    finish(forms, "");
}

static void form_reduction(Forms *forms) {
    Random *random = forms->random;
    Made *made = new_target(forms, chance(random, 85), (int)between(random, 0, 2));
    const unsigned in = indices_of(made);
    const int over = form_axis(forms, in);
    add_target(forms, made);
    add(forms->spec, "%s[%s] ", PICK(random, "mean", "max", "min", "logsumexp", "sum"),
        form_axes[over]);
    add_read_of(forms, in | 1u << over, made->sequence, over);
    finish(forms, "");
}

static void form_softmax(Forms *forms) {
    Random *random = forms->random;
    Made *made = new_target(forms, 1, 2);
    add_target(forms, made);
    add(forms->spec, "softmax[%s", form_axes[made->axes[0]]);
    const int two = chance(random, 40);
    if (two) add(forms->spec, ", %s", form_axes[made->axes[1]]);
    add(forms->spec, "](");
    const size_t start = forms->spec->length;
    add_read_of(forms, indices_of(made), 1, made->axes[0]);
    if (two && !mentions(forms, start, made->axes[1]))
        add(forms->spec, " + v%s[%s]", form_axes[made->axes[1]], form_axes[made->axes[1]]);
    add(forms->spec, ") * ");
    add_read(forms, indices_of(made), 1);
    finish(forms, "");
}

/* A slice of an earlier tensor, itself perhaps a slice. */
static void form_slice(Forms *forms) {
    Made *made = new_target(forms, chance(forms->random, 85), (int)between(forms->random, 1, 3));
    add_target(forms, made);
    add_read(forms, indices_of(made), made->sequence);
    finish(forms, "");
}

static void form_convolution(Forms *forms) {
    const int tap = form_axis(forms, 0);
    Made *made = new_target(forms, 1, 1);
    while (made->axes[0] == tap) made->axes[0] = (made->axes[0] + 1) % FORM_AXES;
    add_target(forms, made);
    add(forms->spec, "sum[%s] v%s[%s] * x[s - %ld * %s, ", form_axes[tap], form_axes[tap],
        form_axes[tap], between(forms->random, 1, 2), form_axes[tap]);
    add_subscript(forms, D, indices_of(made));
    finish(forms, "]");
}

/* Queries, keys and values with separate axes, which the operands slice. */
static void form_attention(Forms *forms) {
    Random *random = forms->random;
    Spec *spec = forms->spec;
    Made *made = new_target(forms, 1, 1);
    const int n = forms->next;
    const long shared = between(random, 1, 3), keys = between(random, 1, 2),
               width = between(random, 1, 7), start = between(random, 0, 3);
    add(spec, "  axis hq%d = %ld\n  axis hk%d = %ld\n  axis e%d = %ld\n  axis wide%d = %ld\n", n,
        shared * keys, n, keys, n, width, n, width + 3);
    add(spec,
        "  param wq%d[d, hq%d, wide%d], wk%d[d, hk%d, wide%d]\n"
        "  q%d[s, hq%d, wide%d] = sum[d] x[s, d] * wq%d[d, hq%d, wide%d]\n"
        "  k%d[s, hk%d, wide%d] = sum[d] x[s, d] * wk%d[d, hk%d, wide%d]\n",
        n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n);
    const char *keys_of = chance(random, 30) ? "[t]" : "";
    add(spec, "  param sink%d[hq%d] ~ normal(0.5)\n", n, n);
    Random apart = {random->state ^ 0xB10C5u};
    const long blocks = *keys_of && chance(&apart, 60) ? between(&apart, 1, 4) : 0;
    if (blocks)
        add(spec,
            "  axis b%d = 24\n  param wb%d[d, hq%d, b%d]\n"
            "  p%d[s, hq%d, b%d] = sum[d] x[s, d] * wb%d[d, hq%d, b%d]\n"
            "  picked%d[s, hq%d, b%d] = top_k[b%d](p%d[s, hq%d, b%d], %ld)\n",
            n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, between(&apart, 1, 23));
    add(spec, "  o%d[s, hq%d, e%d] = attend%s(q%d[s, hq%d, e%d + %ld], k%d[s, hk%d, %s%d%s], ", n,
        n, n, keys_of, n, n, n, start, n, n, chance(random, 50) ? "2 * e" : "e", n,
        PICK(random, " + 1", " + 2", " + 3"));
    add(spec, "k%d[s, hk%d, e%d + %ld]; ", n, n, n, between(random, 0, 3));
    const long alike = chance(&apart, 40) ? shared : 1;
    if (blocks)
        add(spec,
            "mask = %s and (picked%d[s, %ld * floor(hq%d / %ld), floor(t / %ld) %% 24] > 0%s)",
            PICK(&apart, "t <= s", "t <= s and s - t < 6", "t <= s and x[t, 0] > -0.5"), n, alike,
            n, alike, blocks, chance(&apart, 50) ? " or s == t" : "");
    else if (*keys_of && chance(&apart, 40))
        add(spec, "mask = t <= s and (s - t < %ld or t < 2)", between(random, 1, 5));
    else if (*keys_of)
        add(spec, "mask = t <= s and (s - t < %ld or t < 2), bias = -0.3 * (s - t) * (hq%d + 1)",
            between(random, 1, 5), n);
    else
        add(spec, "%s",
            chance(random, 30) && !spec->causal ? "mask = none"
            : chance(random, 40)                ? "mask = window, window = 3"
                                                : "mask = causal");
    if (chance(random, 30)) add(spec, ", scale = 0.7");
    if (chance(random, 30)) add(spec, ", softcap = 3");
    if (chance(random, 30)) add(spec, ", sink = sink%d", n);
    add(spec, ")\n");
    add_target(forms, made);
    add(spec, "sum[hq%d, e%d] o%d[s, hq%d, e%d] * wq%d[", n, n, n, n, n, n);
    add_subscript(forms, D, indices_of(made));
    add(spec, ", hq%d, e%d + %ld]", n, n, between(random, 0, 3));
    if (chance(random, 50)) add(spec, " + 0.3 * (mean[hq%d] o%d.lse[s, hq%d])", n, n, n);
    finish(forms, "");
}

/* A linear state that products read, or a nonlinear state. */
static void form_scan(Forms *forms) {
    Random *random = forms->random;
    Spec *spec = forms->spec;
    const char *way = !spec->causal && chance(random, 30) ? " reversed" : "";
    const int row = form_axis(forms, 0), column = form_axis(forms, 1u << row), n = forms->next + 1;
    const char *r = form_axes[row], *c = form_axes[column];
    Made *made = new_target(forms, 1, 1);
    made->axes[0] = column;
    if (chance(random, 60)) {
        add(spec, "  scan S%d[%s, %s] from 0.1 over s%s {\n    S%d[%s, %s] = ", n, r, c, way, n, r,
            c);
        add(spec, "%s * S%d[%s, %s] + 0.3 * tanh(", PICK(random, "0.9", "sigmoid(x[s, 0])"), n, r,
            c);
        add_read(forms, 1u << row, 1);
        add(spec, ") * ");
        add_read(forms, 1u << column, 1);
        add(spec, "\n  }\n");
        add_target(forms, made);
        add(spec, "sum[%s] v%s[%s] * S%d[s, %s%s, %s]", r, r, r, n, r, PICK(random, "", " + 1"), c);
        finish(forms, "");
        return;
    }
    add(spec, "  scan S%d[%s] over s%s {\n    S%d[%s] = tanh(0.5 * S%d[", n, c, way, n, c, n);
    if (chance(random, 50))
        add(spec, "size(%s) - 1 - %s] + ", c, c);
    else
        add(spec, "%s - 1] + ", c);
    add_read(forms, 1u << column, 1);
    add(spec, ")\n  }\n");
    add_target(forms, made);
    add(spec, "S%d[s, %s]", n, c);
    finish(forms, "");
}

/* # is a number. */
static void add_numbered(Spec *spec, const char *text, int number) {
    for (; *text; text++)
        if (*text == '#')
            add(spec, "%d", number);
        else
            add(spec, "%c", *text);
}

/* Masks made of a selection b# of scores p#: parts of it, comparisons, products, weights. */
static const char *const mask_sides[] = {
    "b#[s, n#]",
    "b#[s, n#]",
    "b#[s, n# - 1]",
    "b#[s, size(n#) - 1 - n#]",
    "b#[s, n#] * (p#[s, n#] > 0.1)",
    "b#[s, n#] * (n# > 0)",
    "where(s % 2 == 0, b#[s, n#], 0)",
    "not b#[s, n#]",
    "p#[s, n#] > 0.2",
    "density(p#[s, n#] > 0, 0.25)",
    "p#[s, n#] > 0.4 or b#[s, n#]",
    "floor(size(n#) * p#[s, 0]) == n#",
    "max(p#[s, n#] - 0.1, 0)",
};

/* Selected entries of scores, sliced or whole, with a routed product, perhaps of a nested selection, or rows of a table. */
static void form_route(Forms *forms) {
    Random *random = forms->random;
    Spec *spec = forms->spec;
    const long experts = chance(random, 20) ? between(random, 17, 40) : between(random, 2, 6),
               top = between(random, 1, experts > 3 ? 3 : experts);
    Made *made = new_target(forms, 1, 1);
    const int n = forms->next, in = form_axis(forms, indices_of(made));
    const char *f = form_axes[in], *y = form_axes[made->axes[0]];
    add(spec, "  axis n%d = %ld\n  axis m%d = %ld\n  param rt%d[d, m%d], we%d[n%d, %s, %s]\n", n,
        experts, n, experts + 2, n, n, n, n, f, y);
    add(spec, "  a%d[s, m%d] = sum[d] x[s, d] * rt%d[d, m%d]\n", n, n, n, n);
    add(spec, "  p%d[s, n%d] = %s(a%d[s, n%d + %ld])\n", n, n,
        chance(random, 50) ? "sigmoid" : "tanh", n, n, between(random, 0, 2));
    add(spec, "  b%d[s, n%d] = top_k[n%d](p%d[s, n%d], %ld)\n  on%d[s, n%d] = ", n, n, n, n, n, top,
        n, n);
    add_numbered(spec, ANY_OF(random, mask_sides), n);
    add(spec, "\n");
    const int nested = chance(random, 20);
    if (nested) {
        add_numbered(spec, "  axis k# = 3\n  param rk#[d, n#, k#], wk#[n#, k#, ", n);
        add(spec, "%s, %s]\n", f, y);
        add_numbered(spec, "  c#[s, n#, k#] = top_k[k#](sum[d] x[s, d] * rk#[d, n#, k#], 2)\n", n);
    }
    add_target(forms, made);
    if (chance(random, 25)) {
        add(spec, "%s[n%d in on%d] p%d[s, n%d] * ", PICK(random, "mean", "max", "logsumexp"), n, n,
            n, n);
        add_read(forms, indices_of(made), 1);
        finish(forms, "");
        return;
    }
    add(spec, "sum[n%d in on%d] p%d[s, n%d] * ", n, n, n, n);
    if (chance(random, 20)) {
        add(spec, "we%d[n%d, %ld, %s]", n, n, between(random, 0, forms->size[in] - 1), y);
        finish(forms, "");
        return;
    }
    if (nested) add_numbered(spec, "(sum[k# in c#] 0.5 * ", n);
    add(spec, "tanh(sum[%s] ", f);
    add_read(forms, 1u << in, 1);
    if (nested)
        add(spec, " * wk%d[n%d, k%d, %s, %s]))", n, n, n, f, y);
    else
        add(spec, " * we%d[n%d, %s, %s])", n, n, f, y);
    finish(forms, "");
}

/* Entries that each of two heads selects, with values that the heads share: vectors of groups, or numbers of rows of a table. */
static void form_heads_route(Forms *forms) {
    Random *random = forms->random;
    Spec *spec = forms->spec;
    Made *made = new_target(forms, 1, 1);
    const int n = forms->next, in = form_axis(forms, indices_of(made)), rows = chance(random, 50);
    const char *f = form_axes[in], *y = form_axes[made->axes[0]];
    add(spec, "  axis n%d = %ld\n", n, rows ? between(random, 32, 50) : between(random, 2, 9));
    add_numbered(spec, "  axis k# = 2\n  param rt#[d, k#, n#]\n  p#[s, k#, n#] = ", n);
    add_numbered(spec, "sigmoid(sum[d] x[s, d] * rt#[d, k#, n#])\n", n);
    add_numbered(spec, "  b#[s, k#, n#] = top_k[n#](p#[s, k#, n#], 1)\n", n);
    if (rows)
        add(spec, "  param we%d[n%d, %s], wo%d[n%d, %s]\n", n, n, f, n, n, y);
    else
        add(spec, "  param we%d[n%d, %s, %s]\n", n, n, f, y);
    add_target(forms, made);
    add_numbered(spec, "sum[k#] (sum[n# in b#] p#[s, k#, n#] * tanh(sum[", n);
    add(spec, "%s] ", f);
    add_read(forms, 1u << in, 1);
    if (rows)
        add(spec, " * we%d[n%d, %s]) * wo%d[n%d, %s])", n, n, f, n, n, y);
    else
        add(spec, " * we%d[n%d, %s, %s]))", n, n, f, y);
    finish(forms, "");
}

static void form_applied(Forms *forms) {
    Random *random = forms->random;
    Spec *spec = forms->spec;
    Made *made = new_target(forms, 1, 1);
    const int n = forms->next;
    made->axes[0] = D;
    switch (between(random, 0, 2)) {
    case 0:
        add(spec, "  r%d = pair@pair%d(x; by = %ld)\n", n, n, between(random, 1, 3));
        add_target(forms, made);
        add(spec, "r%d[s, d] * r%d.total[s]", n, n);
        break;
    case 1:
        add(spec, "  axis n%d = %ld\n", n, between(random, 1, 3));
        add_target(forms, made);
        add(spec, "sum[n%d] scaled@each%d[n%d](x; per = [d])[s, d]", n, n, n);
        break;
    default:
        add(spec,
            "  u%d = x\n  repeat part%d[i < %ld] { u%d = u%d + 0.2 * (i + 1) * "
            "scaled@one(tanh(u%d); per = [])[s, d] }\n",
            n, n, between(random, 2, 3), n, n, n);
        add_target(forms, made);
        add(spec, "u%d[s, d]", n);
    }
    finish(forms, "");
}

/* Statements without a result for later ones, or decided at compile time; # is a number. The first OTHER_CAUSAL keep a causal
 * model causal. */
static const char *const other_statements[] = {
    "  state m#[d] = 0.1\n  update m#[d] = 0.9 * m#[d] + 0.1 * (mean[batch, s] x[s, d])\n"
    "  x[s, d] = x[s, d] - m#[d]\n",
    "  axis j# = size(d) + size(f)\n  param wj#[j#, f]\n  z#[s, f] = sum[d] x[s, d] * df[d, f]\n"
    "  zz#[s, j#] = concat[j#](x, z#)\n  output zz#\n"
    "  x[s, d] = x[s, d] + 0.1 * (sum[j#, f] zz#[s, j#] * wj#[j#, f]) * vd[d]\n",
    "  probe seen# = max[batch, s, d] abs(x[s, d])\n  probe width#[d] = mean[batch, s] x[s, d]\n",
    "  aux extra# = 0.01 * (mean[batch, s, d] x[s, d] ^ 2)\n",
    "  require size(d) > 0 \"a width\"\n  for j in 0..2 { x[s, d] = x[s, d] + 0.1 * (j + 1) * "
    "vd[d] "
    "}\n",
    "  match way { one => { x = tanh(x) } two => { x = 0.5 * x } else => {} }\n",
    "  if way == one { x = 0.9 * x } else if way == two { x = tanh(x) } else { x = x + 0.1 }\n",
    "  if training { x[s, d] = x[s, d] * 1.0 } else { x[s, d] = x[s, d] }\n",
    "  axis hn# = 2\n  axis en# = 3\n  param wn#[d, hn#, en#]\n"
    "  cn#[s, en#, hn#] = sum[d] x[s, d] * wn#[d, hn#, en#]\n  cache cn#\n"
    "  kn#[s, hn#, en#] = tanh(cn#[s, en#, hn#])\n  on# = attend(kn#, kn#, kn#; mask = causal)\n"
    "  x[s, d] = x[s, d] + 0.2 * (sum[hn#, en#] on#[s, hn#, en#] * wn#[d, hn#, en#])\n",
    "  axis hn# = 2\n  axis en# = 3\n  param wn#[d, hn#, en#]\n"
    "  kn#[s, hn#, en#] = sum[d] x[s, d] * wn#[d, hn#, en#]\n"
    "  page#[s] = sum[t] (tokens[t] == 3 and t <= s)\n"
    "  on# = attend(kn#, kn#, kn#; document_ids = page#)\n"
    "  x[s, d] = x[s, d] + 0.2 * (sum[hn#, en#] on#[s, hn#, en#] * wn#[d, hn#, en#])\n",
    "  scan A#[d] from 0.2, B#[d] from vd[d] over s {\n    A#[d] = 0.6 * A#[d] + 0.2 * tanh(B#[d]) "
    "+ "
    "0.1 * x[s, d]\n    B#[d] = 0.5 * B#[d] + 0.3 * A#[d]\n  }\n  x[s, d] = x[s, d] + 0.1 * A#[s, "
    "d] "
    "* B#[s, d]\n",
    "  key#[s] = (tokens[s] * 31337 + tokens[s - 1] * 7919) % size(f)\n"
    "  x[s, d] = x[s, d] + 0.3 * df[d, key#[s]]\n",
    "  both# = [g, c]\n  param wl#[d, both#]\n"
    "  x[s, d] = x[s, d] + 0.1 * (sum[both#] w4[both#] * wl#[d, both#])\n",
    "  x[s, d] = x[s, d] * (uniform() >= 0.2) + 0.1 * normal() * vd[d]\n",
    "  state c#[d] = 0\n  update c#[d] = step_mean(mean[batch, s] x[s, d])\n"
    "  x[s, d] = x[s, d] + 0.1 * c#[d]\n",
    "  x[s, d] = x[s, d] - 0.1 * (mean[s] x[s, d])\n",
};

enum { OTHER_CAUSAL = 13 };

static void form_other(Forms *forms) {
    const long count = sizeof other_statements / sizeof *other_statements;
    const int number = ++forms->next;
    const char *text = other_statements[between(forms->random, 0,
                                                (forms->spec->causal ? OTHER_CAUSAL : count) - 1)];
    add_numbered(forms->spec, text, number);
}

/* ---- the model ---- */

static void add_helpers(Spec *spec) {
    add(spec,
        "use adafactor\nuse decoder\nuse muon\n\nlayer pair(x[s, d]) -> y[s, d], total[s] {\n  "
        "option by: int in 1..3 = "
        "2  \"factor\"\n  param bias[d] ~ zeros { lr = 0.5 }\n  y[s, d] = tanh(x[s, d] * by + "
        "bias[d])\n  total[s] = mean[d] x[s, d]\n}\n\n");
    add(spec, "layer scaled(x[s, d]) -> y[s, d] {\n  option per: axes = []\n  param factor[per] ~ "
              "normal(1, 0.1)\n  y = x * factor\n}\n\n");
}

/* Inputs of every kind in addition to the text; x starts as the embedding plus their terms. */
static void add_inputs(Forms *forms) {
    Random *random = forms->random;
    Spec *spec = forms->spec;
    add(spec, "  sequence s = train.context_length\n  input tokens[s]: token\n  input targets[s]: "
              "next_token\n");
    add(spec, "  param embedding[v, d] ~ normal(0.5), df[d, f] ~ uniform(0.5), dg[d, g] ~ "
              "uniform(-1, 1)\n");
    add(spec, "  param w3[f, g, h] ~ normal(0.1, 0.4), w2[c, d] { weight_decay = 0 }\n");
    add(spec, "  all = [g, c]\n  param w4[all] ~ 0.3\n");
    for (int i = 0; i < FORM_AXES; i++)
        add(spec, "  param v%s[%s] ~ ones\n", form_axes[i], form_axes[i]);
    add(spec, "  x[s, d] = embedding[tokens[s], d]\n");
    if (spec->causal) return;
    if (chance(random, 40))
        add(spec, "  axis z = 5\n  input numbers[z, h]: float\n"
                  "  x[s, d] = x[s, d] + 0.2 * (sum[z, h] numbers[z, h] * vh[h])\n");
    if (chance(random, 40))
        add(spec, "  axis o = 4\n  input source[o]: token\n"
                  "  x[s, d] = x[s, d] + (mean[o] embedding[source[o], d])\n");
    if (chance(random, 40))
        add(spec, "  axis k = 3\n  input label: class\n  param kind[k, d]\n"
                  "  x[s, d] = x[s, d] + kind[label, d]\n");
}

static void begin_tensors(Forms *forms) {
    static const Made first[] = {
        {"vf", 0, 1, {1}},       {"vd", 0, 1, {D}},    {"w2", 0, 2, {4, D}}, {"dg", 0, 2, {D, 2}},
        {"w3", 0, 3, {1, 2, 3}}, {"df", 0, 2, {D, 1}}, {"x", 1, 1, {D}},     {"x", 1, 1, {D}}};
    forms->count = sizeof first / sizeof *first;
    memcpy(forms->tensors, first, sizeof first);
}

static void (*const form_makers[])(Forms *) = {
    form_product,     form_product, form_product, form_pointwise,
    form_reduction,   form_softmax, form_slice,   form_slice,
    form_attention,   form_scan,    form_route,   form_heads_route,
    form_convolution, form_applied, form_other,   form_other};

/* y adds a mean of every tensor of the sequence: gradients reach all tensors. */
static void add_end(Forms *forms) {
    Spec *spec = forms->spec;
    add(spec, "  y[s, d] = x[s, d]");
    for (int i = 8; i < forms->count; i++) {
        const Made *made = &forms->tensors[i];
        int first = 1;
        add(spec, " + ");
        for (int j = 0; j < made->rank; j++) {
            if (made->axes[j] == D) continue;
            add(spec, "%s%s", first ? "(mean[" : ", ", form_axes[made->axes[j]]);
            first = 0;
        }
        add(spec, "%s%s", first ? "" : "] ", made->name);
        if (made->rank || made->sequence) {
            add(spec, "[");
            add_subscripts(forms, made, made->sequence);
            add(spec, "]");
        }
        if (!first) add(spec, ")");
    }
    add(spec, "\n  logits[s, v] = sum[d] tanh(0.3 * y[s, d]) * embedding[v, d]\n  output logits\n"
              "  loss = mean[batch, s] (logsumexp[v] logits[s, v] - logits[s, targets[s]])\n}\n\n");
}

static void make_forms(Spec *spec, uint64_t seed) {
    *spec = (Spec){.random = {seed * 0x2545F4914F6CDD1Du}};
    Random *random = &spec->random;
    Forms forms = {.spec = spec, .random = random};
    draw(random);
    spec->causal = chance(random, 50);
    spec->context = chance(random, 30) ? between(random, 20, 40) : between(random, 3, 13);
    spec->vocabulary = between(random, 11, 30);
    spec->batch = between(random, 1, 3);
    for (int i = 0; i < FORM_AXES; i++)
        forms.size[i] = chance(random, 25) ? between(random, 9, 24) : between(random, 1, 8);
    spec->dim = forms.size[D];
    add_helpers(spec);
    add(spec,
        "layer whole {\n  option train: layer = train\n  option way: enum in [one, two, three] = "
        "%s\n  axis v = %ld\n",
        PICK(random, "one", "two", "three"), spec->vocabulary);
    for (int i = 0; i < FORM_AXES; i++) add(spec, "  axis %s = %ld\n", form_axes[i], forms.size[i]);
    add_inputs(&forms);
    begin_tensors(&forms);
    for (long i = between(random, 3, 8); i > 0; i--) ANY_OF(random, form_makers)(&forms);
    add_end(&forms);
    spec->differentiable = !strstr(spec->text, "stop_gradient(");
    add(spec, "model random = whole {\n");
    add_training(spec);
}

/* ---- forms of a text ---- */

typedef struct Form {
    const char *name, *sign; /* a substring that only this form has */
} Form;

static const Form form_table[] = {
    {"option", "  option "},
    {"axis", "  axis "},
    {"sequence", "  sequence "},
    {"param", "  param "},
    {"param with settings", "{ lr = 0.5 }"},
    {"state", "  state "},
    {"update", "  update "},
    {"step_mean", "step_mean("},
    {"input token", "]: token"},
    {"input next_token", "]: next_token"},
    {"input float", "]: float"},
    {"input class", ": class"},
    {"second token input", "input source"},
    {"loss", "  loss "},
    {"aux", "  aux "},
    {"probe", "  probe seen"},
    {"probe by axis", "  probe width"},
    {"output", "  output "},
    {"cache", "  cache "},
    {"repeat", "  repeat "},
    {"scan", "  scan "},
    {"scan of two states", "  scan A"},
    {"scan reversed", " reversed {"},
    {"if", "  if "},
    {"else if", "else if "},
    {"match", "  match "},
    {"for", "  for "},
    {"require", "  require "},
    {"sum", "(sum["},
    {"mean", "(mean["},
    {"max", "= max["},
    {"min", "= min["},
    {"logsumexp", "= logsumexp["},
    {"softmax", "= softmax["},
    {"concat", "= concat["},
    {"top_k", "= top_k["},
    {"part of a mask", " - 1]\n  "},
    {"mask of a comparison", "] > 0.2\n"},
    {"product of masks", "] > 0.1)\n"},
    {"mask of equality", "[s, 0]) == n"},
    {"mask of weights", "] - 0.1, 0)\n"},
    {"density", "= density("},
    {"nested mask", " in c"},
    {"mask per head", "] (sum[n"},
    {"sum of chosen", "= sum[n"},
    {"mean of chosen", "= mean[n"},
    {"max of chosen", "= max[n"},
    {"logsumexp of chosen", "= logsumexp[n"},
    {"attend", "= attend("},
    {"attend with a condition", "= attend[t]("},
    {"attend without a mask", "mask = none"},
    {"attend to chosen blocks", "(picked"},
    {"document_ids", "document_ids = "},
    {"lse", ".lse["},
    {"sink", "sink = "},
    {"softcap", "softcap = "},
    {"scale", "scale = "},
    {"window", "window = "},
    {"slice f + c", "f + "},
    {"reversal c - f", " - f"},
    {"stride 2 * f", "2 * f"},
    {"two indices", "* size("},
    {"floor", "floor(f / 2)"},
    {"remainder", ") % size("},
    {"position s - k", "[s - "},
    {"position s + k", "[s + "},
    {"position from the end", "size(s) - 1 - s"},
    {"integer under a name", "  key"},
    {"layer of several results", ".total["},
    {"layer under an index", "scaled@each"},
    {"axis list", "per = [d]"},
    {"axis list by name", "  both"},
    {"uniform", "uniform() >="},
    {"normal", "normal() *"},
    {"stop_gradient", "stop_gradient("},
    {"where", "where("},
    {"training", "if training"},
};

enum { FORM_COUNT = sizeof form_table / sizeof *form_table };

/* Adds 1 to the count of each form in the text. */
static inline void forms_count(const char *text, long *counts) {
    for (int i = 0; i < FORM_COUNT; i++) counts[i] += strstr(text, form_table[i].sign) != NULL;
}

#endif
