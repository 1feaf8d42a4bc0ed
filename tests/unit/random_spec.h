/* random_spec: the text of a model from a seed.
 *
 * Sizes that are not multiples of the tiles, uneven heads, gates, nested routing, and a layer of random equations. The spec
 * depends only on its seed. Every function is static.
 */
#ifndef RANDOM_SPEC_H
#define RANDOM_SPEC_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { SPEC_BYTES = 32768 };

typedef struct Random {
    uint64_t state;
} Random;

static uint64_t draw(Random *random) {
    uint64_t z = random->state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static long between(Random *random, long low, long high) {
    return low + (long)(draw(random) % (uint64_t)(high - low + 1));
}

static int chance(Random *random, long percent) {
    return between(random, 1, 100) <= percent;
}

/* A number in -1 .. 1. */
static inline double spread(Random *random) {
    return (double)(draw(random) >> 11) * 0x1p-52 - 1;
}

#define PICK(random, ...)                                                                          \
    ((const char *const[]){                                                                        \
        __VA_ARGS__})[draw(random) %                                                               \
                      (sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))]

typedef struct Spec {
    char text[SPEC_BYTES];
    size_t length;
    Random random;
    int causal; /* may be decoded */
    int images; /* reads numbers instead of tokens */
    int resets; /* states are reset where on[s] is 0 */
    int grouped; /* its outer experts are in groups */
    int differentiable; /* its gradient is that of its loss: no `stop` */
    long context, vocabulary, batch, dim;
} Spec;

static void add(Spec *spec, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(Spec *spec, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int written =
        vsnprintf(spec->text + spec->length, SPEC_BYTES - spec->length, format, arguments);
    va_end(arguments);
    spec->length += (size_t)written;
}

/* ---- a layer of random equations ---- */

/* Right sides with earlier tensors A and B of axes [s,f]; N is the number of the equation, K is 1 to 3. */
static const char *const causal_sides[] = {
    "tanh(A[s,f]) + B[s,f]",
    "sigmoid(A[s,f]) * B[s,f]",
    "A[s,f] * c[f] - B[s,f]",
    "where(A[s,f] > 0.1, A[s,f], 0.5 * B[s,f])",
    "softmax[f](A[s,f]) * B[s,f]",
    "A[s,f] * rsqrt((mean[f] B[s,f] * B[s,f]) + 0.01)",
    "A[s - K,f] + 0.5 * B[s,f]",
    "(max[f] A[s,f]) * B[s,f]",
    "(min[f] A[s,f]) - B[s,f]",
    "A[s,f] - (logsumexp[f] B[s,f])",
    "exp(0 - A[s,f] ^ 2) + B[s,f]",
    "sum[r] (sum[f] A[s,f] * w[f,r]) * u[r,f] + B[s,f]",
    "sin(A[s,f]) * (1 + abs(B[s,f]))",
    "(sum[f in nearN] A[s,f] * B[s,f]) + B[s,f]",
    "nearN[s,f] * A[s,f] + B[s,f]",
    "sum[f in nearN] (sum[r] A[s,f] * w[f,r] * e[r])",
    "A[s,(f + 3) % size(f)] + silu(B[s,f])",
    "gelu(A[s,f]) + B[s,f] * (s + 1) / 16",
    "(sum[g] A[s,g] * m[g,f]) - B[s,f]",
    "min(A[s,f], B[s,f]) + max(A[s,f], 0.3)",
    "stop(A[s,f]) * B[s,f] + sign(A[s,f])",
    "where(A[s,f] > 0 and not (B[s,f] > 0.5), cos(A[s,f]), B[s,f])",
    "log(1 + B[s,f] * B[s,f]) + sqrt(abs(A[s,f]) + 0.1)",
    "A[0,f] * c[f] + B[s,f] * softplus(A[s,f])",
    "A[s,f] / (1 + abs(B[s,f])) + erf(B[s,f])",
    "A[s - K,f] * B[s - 1,f] + A[s,where(f < 2, f, 0)]",
    "(mean[r] (sum[f] A[s,f] * w[f,r]) * e[r]) + B[s,f]",
    "floor(A[s,f]) * 0.1 + relu2(B[s,f])",
    "look@lookN(A)[s,f] + B[s,f]",
    "A[s,(f * 2654435761 + s * 16777619) % size(f)] + B[s,f]",
    ("A[s,((f + K) * 1099511627776 + s) * 9007199254740881 % size(f)] + (s * 1000003 % 7) / 7 * "
     "B[s,f]"),
};

/* The same for equations that cannot be decoded. */
static const char *const other_sides[] = {
    "A[s + K,f] + 0.5 * B[s,f]",
    "(mean[s] A[s,f]) + B[s,f]",
    "A[s,f] - (max[s] B[s,f])",
    "softmax[s](A[s,f]) * B[s,f]",
    "where(uniform() < 0.25, 0, A[s,f]) + B[s,f]",
    "A[s,f] + 0.3 * normal() * B[s,f]",
    "(sum[s in farN] A[s,f]) * 0.1 + B[s,f]",
    "(mean[batch,s] A[s,f]) * B[s,f]",
};

#define ANY_OF(random, list) list[draw(random) % (sizeof(list) / sizeof *(list))]

/* t<i>[s,f] from earlier ones. */
static void add_equation(Spec *spec, long i) {
    Random *random = &spec->random;
    int other = !spec->causal && chance(random, 40);
    const char *side = other ? ANY_OF(random, other_sides) : ANY_OF(random, causal_sides);
    long a = between(random, 0, i - 1), b = between(random, 0, i - 1),
         by = between(random, 0, i - 1);
    if (strstr(side, "nearN"))
        add(spec, "  near%ld[s,f] = top[f](t%ld[s,f], %ld)\n", i, by, between(random, 1, 2));
    if (strstr(side, "farN")) add(spec, "  far%ld[s,f] = top[s](t%ld[s,f], 2)\n", i, by);
    add(spec, "  t%ld[s,f] = ", i);
    for (const char *at = side; *at; at++) {
        if (*at == 'A' || *at == 'B')
            add(spec, "t%ld", *at == 'A' ? a : b);
        else if (*at == 'N')
            add(spec, "%ld", i);
        else if (*at == 'K')
            add(spec, "%ld", between(random, 1, 3));
        else
            add(spec, "%c", *at);
    }
    add(spec, "\n");
}

/* The next value of the state S[f] at a position, from the previous state and earlier tensors. */
static const char *const state_sides[] = {
    "sigmoid(A[s,f]) * S[f] + B[s,f]",
    "tanh(A[s,f] + 0.5 * S[f])",
    "max(0.9 * S[f], A[s,f])",
    "where(B[s,f] > 0.2, 0, 0.7 * S[f]) + A[s,f]",
    "tanh((sum[g] S[g] * m[g,f]) + A[s,f])",
    "0.5 * S[(f + 1) % size(f)] + A[s,f] * tanh(A[s - 1,f])",
    "S[f] * rsqrt((mean[f] S[f] * S[f]) + 0.5) + A[s,f]",
    "softmax[f](S[f] + A[s,f]) + 0.1 * B[s,f]",
    "silu(0.5 * S[f] + B[s,f]) + A[s,f] * (s + 1) / 16",
    "0.6 * S[f] + (sum[r] (sum[g] S[g] * w[g,r]) * u[r,f]) * 0.1 + B[s,f]",
};

/* The same for a matrix M[f,r]: linear in it, corrected by its result, or nonlinear. */
static const char *const matrix_sides[] = {
    "sigmoid(A[s,f]) * M[f,r] + tanh(B[s,f]) * e[r]",
    ("0.9 * M[f,r] + 0.2 * tanh(A[s,f]) * (tanh((sum[g] B[s,g] * w[g,r])) - (sum[g] tanh(A[s,g]) * "
     "M[g,r]))"),
    "tanh(0.5 * M[f,r] + A[s,f] * e[r]) + 0.1 * (sum[q] M[f,q])",
};

/* Decays of a state L[p,r,f]: numbers, factors from 1e-4 to 1, resets; per element of the read or of the summed axis. */
static const char *const linear_fades[] = {
    "",
    "0.9 * ",
    "sigmoid(A[s,0] + p) * ",
    "where(B[s,1 % size(f)] > 0.3, 0.0001, 1) * ",
    "(s % 3 > 0) * ",
    "(s != 4) * exp(-softplus(B[s,0])) * ",
    "sigmoid(A[s,f]) * ",
    "sigmoid(key[s,p,r]) * ",
    "where(r == 0, s % 4 > 0, where(r == 1, 1e-4, exp(-softplus(4 * key[s,p,r])))) * ",
};

/* The inputs of that state: outer products, corrected by the result of the state for a key. */
static const char *const linear_inputs[] = {
    "key[s,p,r] * A[s,f]",
    "0.5 * key[s,p,r] * (A[s,f] - key[s,0,r] * B[s,f]) + tanh(B[s,f]) * e[r]",
    "key[s,p,r] * sigmoid(B[s,0]) * (A[s,f] - (sum[r] key[s,p,r] * L[p,r,f]))",
    "0.4 * key[s,p,r] * A[s,f] - 0.4 * key[s,p,r] * (sum[r] e[r] * sigmoid(B[s,0]) * L[p,r,f])",
    "key[s,p,r] * A[s,f] - 0.4 * tanh(key[s,p,r] * e[r]) * (sum[r] key[s,p,r] * L[p,r,f])",
    ("e[r] * B[s,f] + key[s,p,r] * (0.3 * A[s,f] - sigmoid(B[s,0]) * (sum[r] key[s,p,r] * "
     "L[p,r,f]))"),
};

static const char *const linear_readers[] = {
    "sum[p] (sum[r] L[s,p,r,f] * key[s,p,r]) * (p + 1)",
    "tanh(sum[p,r] L[s,p,r,f] * e[r])",
    "(sum[r] L[s,0,r,f] * u[r,f]) - 0.3 * (sum[r] key[s,1,r] * L[s,1,r,f])",
    "sum[p] tanh(sum[r] L[s,p,r,f] * e[r] * A[s,f]) * (sum[r] key[s,p,r] * L[s,p,r,f])",
};

static void add_side(Spec *spec, const char *side, long a, long b) {
    for (const char *at = side; *at; at++) {
        if (*at == 'A' || *at == 'B')
            add(spec, "t%ld", *at == 'A' ? a : b);
        else
            add(spec, "%c", *at);
    }
}

/* t<i>[s,f] by a linear recurrence whose state is read by a sum: evaluated in chunks. */
static void add_linear(Spec *spec, Random *random, long i, const char *way) {
    long a = between(random, 0, i - 1), b = between(random, 0, i - 1);
    add(spec, "  axis p = 2\n  key[s,p,r] = 0.6 * tanh((sum[g] t%ld[s,g] * w[g,r]) * (p + 1))\n",
        b);
    const char *from = PICK(random, "", " from 0.3", " from c[f]", " from e[r] * c[f]");
    int two = chance(random, 30);
    add(spec, "  scan L[p,r,f]%s%s over s%s {\n", from, two ? ", G[r]" : "", way);
    if (spec->resets) add(spec, "    L[p,r,f] = on[s] * L[p,r,f]\n");
    add(spec, "    L[p,r,f] = ");
    add_side(spec, ANY_OF(random, linear_fades), a, b);
    add(spec, "L[p,r,f] + ");
    add_side(spec, ANY_OF(random, linear_inputs), a, b);
    if (two) add(spec, "\n    G[r] = 0.8 * G[r] + key[s,0,r]");
    add(spec, "\n  }\n  t%ld[s,f] = ", i);
    add_side(spec, ANY_OF(random, linear_readers), a, b);
    add(spec, "%s\n", two ? " + 0.1 * (sum[r] G[s,r] * u[r,0])" : "");
}

/* t<i>[s,f] by a recurrence of one or two states. Separate random numbers: the rest of the model does not depend on it. */
static void add_recurrence(Spec *spec, Random *random, long i) {
    long a = between(random, 0, i - 1), b = between(random, 0, i - 1);
    const char *from = PICK(random, "", " from 0", " from 0.3", " from c[f]");
    const char *way = !spec->causal && chance(random, 40) ? " reversed" : "";
    if (chance(random, 30)) {
        add(spec, "  scan M[f,r]%s over s%s {\n", chance(random, 50) ? "" : " from 0.1", way);
        if (spec->resets) add(spec, "    M[f,r] = on[s] * M[f,r]\n");
        add(spec, "    M[f,r] = ");
        add_side(spec, ANY_OF(random, matrix_sides), a, b);
        add(spec, "\n  }\n  t%ld[s,f] = sum[r] M[s,f,r] * u[r,f]\n", i);
        return;
    }
    int two = chance(random, 40);
    add(spec, "  scan S[f]%s%s over s%s {\n", from, two ? ", T[f] from 0.2" : "", way);
    if (spec->resets) add(spec, "    S[f] = on[s] * S[f]\n");
    if (two) add(spec, "    T[f] = 0.4 * T[f] + tanh(S[f]) + 0.2 * t%ld[s,f]\n", b);
    add(spec, "    S[f] = ");
    add_side(spec, ANY_OF(random, state_sides), a, b);
    add(spec, "%s\n  }\n", two ? " + 0.3 * T[f]" : "");
    add(spec, "  t%ld[s,f] = S[s,f]%s\n", i, two ? " * T[s,f]" : "");
}

/* Numbers that training updates without a gradient, or that are logged. */
static void add_extras(Spec *spec, long last) {
    Random *random = &spec->random;
    if (chance(random, 15))
        add(spec,
            "  state centre[f] = 0.1\n  update centre[f] = 0.9 * centre[f] + 0.1 * (mean[batch,s] "
            "t%ld[s,f])\n"
            "  z[s,f] = t%ld[s,f] - centre[f]\n",
            between(random, 0, last), last);
    else
        add(spec, "  z[s,f] = t%ld[s,f]\n", last);
    if (chance(random, 15))
        add(spec, "  aux extra = 0.01 * (mean[batch,s,f] t%ld[s,f] ^ 2)\n",
            between(random, 0, last));
    if (chance(random, 15))
        add(spec, "  probe largest = max[batch,s,f] abs(t%ld[s,f])\n", between(random, 0, last));
}

static void add_layer(Spec *spec) {
    Random *random = &spec->random;
    long count = between(random, 2, 6);
    add(spec, "layer look(x[s,f]) -> y[s,f] {\n  axis h = 2\n  axis c = %ld\n",
        between(random, 1, 4));
    add(spec, "  param q[f,h,c], v[f,c], out[h,c,f]\n");
    add(spec, "  a[s,h,c] = sum[f] x[s,f] * q[f,h,c]\n  one[s,c] = sum[f] x[s,f] * v[f,c]\n");
    add(spec, "  o[s,h,c] = attend(a, a, a; %s)\n",
        PICK(random, "mask = causal", "mask = window, window = 3"));
    add(spec, "  y[s,f] = sum[h,c] (o[s,h,c] * one[s,c] + 0.3 * o.lse[s,h]) * out[h,c,f]\n}\n\n");
    add(spec,
        "layer made(x[s,d]) -> y[s,d] {\n  option size: int = 5\n  axis f = size\n  axis r = %ld\n",
        between(random, 1, 4));
    add(spec,
        "  param a[d,f], b[f,d], c[f] ~ normal(1), e[r] ~ ones\n  param w[f,r], u[r,f], m[f,f]\n"
        "  t0[s,f] = sum[d] x[s,d] * a[d,f]\n");
    for (long i = 1; i <= count; i++) add_equation(spec, i);
    Random apart = {random->state ^ 0x5CA17A11u};
    if (chance(&apart, 50)) add_recurrence(spec, &apart, ++count);
    Random linear = {random->state ^ 0x11EA4u};
    int reversed = !spec->causal && chance(&linear, 40);
    if (chance(&linear, 40)) add_linear(spec, &linear, ++count, reversed ? " reversed" : "");
    add_extras(spec, count);
    add(spec, "  y[s,d] = sum[f] z[s,f] * b[f,d]\n}\n\n");
}

/* ---- attention ---- */

static void add_gate(Spec *spec) {
    Random *random = &spec->random;
    const char *at = PICK(random, "sdpa", "v", "k", "q", "out");
    int out = strcmp(at, "out") == 0;
    add(spec, "{ at = %s, per = %s, act = %s, mode = %s", at,
        out ? "element" : PICK(random, "element", "head", "shared"),
        PICK(random, "sigmoid", "silu", "ns_sigmoid", "identity", "tanh"),
        PICK(random, "multiply", "add"));
    if (chance(random, 25))
        add(spec, ", source = %s", out ? "self" : PICK(random, "constant", "self"));
    if (chance(random, 25)) add(spec, ", average = logits");
    if (chance(random, 25)) add(spec, ", after = norm");
    add(spec, " }");
}

static long divisor(Random *random, long of) {
    long one = between(random, 1, of);
    while (of % one) one--;
    return one;
}

/* Heads of any counts, possibly shared; cached_key_dim below head_dim expands cached keys. */
static void add_heads(Spec *spec) {
    Random *random = &spec->random;
    long width = between(random, 1, 8);
    int rotated = chance(random, 70) && width > 1;
    if (rotated && chance(random, 60)) width += width % 2;
    long heads = between(random, 1, 8);
    add(spec, "    heads = { q = %ld, k = %ld, v = %ld }\n", heads, divisor(random, heads),
        divisor(random, heads));
    add(spec, "    head_dim = %ld\n    value_dim = %ld\n", width, between(random, 1, 7));
    if (!rotated)
        add(spec, "    rotary = none\n");
    else if (width % 2 || chance(random, 30))
        add(spec, "    rotary = { rotary_dim = 2, theta = %ld }\n", between(random, 10, 10000));
    if (width > 1 && chance(random, 15)) {
        add(spec, "    cached_key_dim = %ld\n", between(random, 1, width - 1));
        add(spec, "    key_expansion = { per = %s, hidden_dim = %s }\n", PICK(random, "shared", "head"),
            PICK(random, "0", "3"));
    }
    if (chance(random, 15))
        add(spec, "    augment = augment { hidden_dim = 5, residual = %s }\n",
            PICK(random, "true", "false"));
}

static void add_attention(Spec *spec) {
    Random *random = &spec->random;
    add(spec, "  attention = {\n");
    add_heads(spec);
    long gates = between(random, 0, 2);
    if (gates) {
        add(spec, "    gate = [");
        for (long i = 0; i < gates; i++) {
            if (i) add(spec, ", ");
            add_gate(spec);
        }
        add(spec, "]\n");
    }
    if (chance(random, 30)) add(spec, "    qk_norm = true\n");
    if (chance(random, 20))
        add(spec, "    output_norm = true\n    output_norm_scale = %s\n", PICK(random, "head", "shared"));
    if (!spec->causal && chance(random, 30))
        add(spec, "    mask = none\n");
    else if (chance(random, 20))
        add(spec, "    mask = window\n    window = %ld\n", between(random, 1, 6));
    if (chance(random, 20)) add(spec, "    softcap = 3\n");
    if (chance(random, 20)) add(spec, "    sink = true\n");
    if (chance(random, 20)) add(spec, "    bias = true\n");
    if (chance(random, 20)) add(spec, "    probes = true\n");
    if (chance(random, 10)) add(spec, "    scale = 0.7\n");
    if (chance(random, 10)) add(spec, "    top_values = 72\n"); /* at least the context */
    add(spec, "  }\n");
}

/* ---- feed-forward networks ---- */

static void add_block(Spec *spec, int depth);

static void add_lores(Spec *spec) {
    Random *random = &spec->random;
    add(spec, "lore_mlp { hidden_dim = %ld, lores = 4, top_k = %ld, rank = %ld", between(random, 3, 11),
        between(random, 1, 2), between(random, 1, 3));
    if (chance(random, 20)) add(spec, ", routed = false");
    if (chance(random, 25))
        add(spec, ", on = output, inner = %s", PICK(random, "gelu", "identity", "tanh"));
    if (chance(random, 25)) add(spec, ", gated = true");
    add(spec, " }");
}

static void add_moe(Spec *spec, int depth) {
    Random *random = &spec->random;
    long groups = chance(random, 25) ? between(random, 2, 3) : 1;
    /* At most 9 dimensions: two levels of groups with low-rank maps and a matrix optimizer have 10. */
    if (depth == 0) spec->grouped = groups > 1;
    if (depth > 0 && spec->grouped) groups = 1;
    long each = between(random, 1 + (groups == 1), groups > 1 ? 3 : 6);
    long top = between(random, 1, each < 3 ? each : 3);
    add(spec, "moe {\n    experts = %ld\n    top_k = %ld\n", groups * each, groups * top);
    if (groups > 1) add(spec, "    uniform_groups = %ld\n", groups);
    add(spec, "    score = %s\n    route_norm = %s\n", PICK(random, "softmax", "sigmoid"),
        PICK(random, "none", "top_k"));
    if (chance(random, 30)) add(spec, "    aux_loss_coef = 0.01\n");
    if (chance(random, 30)) add(spec, "    z_loss_coef = 0.001\n");
    if (chance(random, 15)) add(spec, "    route_scale = 1.5\n");
    if (chance(random, 15)) add(spec, "    multiplier = 0.7\n");
    if (!spec->causal && chance(random, 40) && spec->context * top >= each)
        add(spec, "    routing = expert_choice\n");
    else if (chance(random, 20) && top < each)
        add(spec, "    bias_update_rate = 0.01\n");
    if (chance(random, 30)) add(spec, "    shared_expert = swiglu { hidden_dim = 5 }\n");
    add(spec, "    expert = ");
    add_block(spec, depth + 1);
    add(spec, "\n  }");
}

static void add_block(Spec *spec, int depth) {
    Random *random = &spec->random;
    switch (between(random, 0, depth == 0 ? 7 : depth == 1 ? 4 : 3)) {
    case 0:
        add(spec, "swiglu { hidden_dim = %ld }", between(random, 3, 17));
        break;
    case 1:
        add(spec, "mlp { hidden_dim = %ld, bias = %s, act = %s }", between(random, 3, 17),
            PICK(random, "true", "false"),
            PICK(random, "gelu", "gelu_tanh", "relu", "relu2", "silu"));
        break;
    case 2:
        add(spec, "made { size = %ld }", between(random, 3, 9));
        break;
    case 3:
        add_lores(spec);
        break;
    default:
        add_moe(spec, depth);
    }
}

/* ---- models ---- */

/* A stack of different layers that share a matrix. */
static void add_stack(Spec *spec) {
    Random *random = &spec->random;
    add(spec, "layer stack {\n  option attention: layer = attention\n  option ffn: layer = swiglu\n"
              "  option norm: layer = rms_norm\n  option train: layer = train\n");
    add(spec, "  axis d = %ld\n  axis v = %ld\n  sequence s = train.context_length\n", spec->dim,
        spec->vocabulary);
    add(spec, "  input tokens[s]: token\n  input targets[s]: next_token\n  param embedding[v,d] ~ "
              "normal(1), mix[d,d]\n");
    add(spec, "  x[s,d] = embedding[tokens[s],d]\n  repeat block[i < %ld] {\n",
        between(random, 2, 6));
    long every = between(random, 2, 3);
    add(spec, "    if i %% %ld == %ld { x = x + attention(norm@first(x)) }", every,
        between(random, 0, every - 1));
    if (chance(random, 50))
        add(spec, " else { x = x + 0.3 * (i + 1) * swiglu@other(norm@first(x); hidden_dim = 5) }");
    add(spec, "\n    y[s,j] = sum[d] x[s,d] * mix[d,j]\n    x = x + 0.3 * tanh(y)\n");
    if (chance(random, 50))
        add(spec, "    if i > 0 { x = x + ffn(norm@second(x)) }\n");
    else
        add(spec, "    x = x + ffn(norm@second(x))\n");
    add(spec, "  }\n  logits[s,v] = sum[d] norm@last(x)[s,d] * embedding[v,d]\n  output logits\n");
    add(spec, "  loss = mean[batch,s] ((logsumexp[v] logits[s,v]) - logits[s,targets[s]])\n}\n\n");
}

static void add_training(Spec *spec) {
    Random *random = &spec->random, apart = {random->state ^ 0x91ACE5u};
    add(spec, "  train = { batch_size = %ld, context_length = %ld, activation_checkpointing = %s", spec->batch,
        spec->images ? 1 : spec->context, PICK(random, "none", "layer"));
    add(spec, ", scan_chunk_size = %ld",
        chance(&apart, 25) ? between(&apart, 8, 20) : between(&apart, 1, 5));
    switch (between(random, 0, 3)) {
    case 0:
        add(spec, ", optimizer = sgd { nesterov = %s, weight_decay = 0.1 }",
            PICK(random, "true", "false"));
        break;
    case 1:
        add(spec, ", optimizer = adamw { beta1 = 0.8, eps = 1e-3, weight_decay = 0.3 }");
        break;
    default:
        if (chance(&apart, 30))
            add(spec, ", optimizer = muon { ns_steps = %ld }", between(&apart, 1, 5));
        else if (chance(&apart, 30))
            add(spec, ", optimizer = adafactor");
    }
    add(spec, " }\n}\n");
}

/* An image model instead of a token model. */
static void add_images(Spec *spec) {
    Random *random = &spec->random;
    spec->images = 1;
    spec->causal = 0;
    add(spec,
        "model random = diffusion {\n  patches = %ld\n  numbers = %ld\n  classes = %ld\n  dim = "
        "%ld\n  draws = %s\n",
        spec->context, between(random, 1, 5), between(random, 2, 5), spec->dim,
        PICK(random, "inside", "given"));
    add(spec,
        "  layers = %ld\n  attention = { heads.q = %ld, head_dim = 4, qk_norm = %s }\n  ffn = ",
        between(random, 1, 3), between(random, 1, 3), PICK(random, "true", "false"));
    add_block(spec, 0);
    add(spec, "\n");
    add_training(spec);
}

/* Parameters with separate settings, from overrides and from a transfer that changes every setting. */
static void add_transfer(Spec *spec) {
    Random *random = &spec->random;
    if (!chance(random, 40)) return;
    add(spec, "\nparametrization mixed {\n  lr = lr * %s\n", PICK(random, "0.5", "2"));
    add(spec, "  kind last if last { multiplier = 0.7  lr = lr / 3 }\n");
    add(spec, "  kind branch if matmul and residual { multiplier = multiplier * 1.5 / route_weight  weight_decay = weight_decay "
              "* 3  eps = eps * 10 }\n");
    add(spec, "  kind matrix if matmul { multiplier = 0.8  beta1 = 0.7  init = init * 2 }\n");
    add(spec, "  kind other { eps = 1e-4 }\n}\nmodel tuned = random {");
    if (chance(random, 50))
        add(spec, " parameters = [{ of = \"%s\", %s }] ", PICK(random, "*", "*weight"),
            PICK(random, "freeze = true", "lr = 0.25", "weight_decay = 0.5, lr = 3"));
    add(spec, "} transfer mixed from random\n");
}

static void make_model(Spec *spec, uint64_t seed) {
    *spec = (Spec){.random = {seed * 0x2545F4914F6CDD1Du}};
    Random *random = &spec->random;
    draw(random);
    spec->causal = chance(random, 75);
    /* Parallel loops and strip-mined temporaries: some models are wide enough for them. */
    int wide = chance(random, 8);
    spec->context = wide ? between(random, 20, 70) : between(random, 4, 13);
    spec->vocabulary = wide ? between(random, 100, 400) : between(random, 11, 30);
    spec->batch = between(random, 1, 3);
    spec->dim = wide ? between(random, 16, 48) : between(random, 3, 14);
    int images = chance(random, 7);
    if (images) spec->causal = 0;
    add(spec, "use adafactor\nuse decoder\nuse diffusion\nuse muon\n\n");
    add_layer(spec);
    if (images) {
        add_images(spec);
        return;
    }
    int stack = chance(random, 25);
    if (stack) add_stack(spec);
    add(spec, "model random = %s {\n", stack ? "stack" : "decoder");
    add_attention(spec);
    add(spec, "  ffn = ");
    add_block(spec, 0);
    add(spec, "\n  norm = %s\n", PICK(random, "rms_norm", "layer_norm"));
    if (!stack) {
        add(spec, "  vocab_size = %ld\n  dim = %ld\n  layers = %ld\n", spec->vocabulary, spec->dim,
            between(random, 1, 4));
        add(spec, "  post_norm = %s\n  tie_embeddings = %s\n  softcap = %s\n", PICK(random, "false", "true"),
            PICK(random, "false", "true"), PICK(random, "0", "0", "5"));
        if (chance(random, 15)) add(spec, "  document_start_token = %ld\n", between(random, 0, 5));
        add(spec, "  position_embedding = %s\n  probes = %s\n", PICK(random, "none", "none", "learned"),
            PICK(random, "false", "true"));
    }
    add_training(spec);
}

/* A decoder whose mixer is one or two recurrences of any kind, or whose experts are. */
static void make_recurrence(Spec *spec, uint64_t seed) {
    *spec = (Spec){.random = {seed * 0x2545F4914F6CDD1Du}};
    Random *random = &spec->random;
    draw(random);
    spec->causal = chance(random, 70);
    /* Wide enough for matrix products over chunks. */
    Random apart = {random->state ^ 0xC4A2Fu};
    const int wide = chance(&apart, 35);
    spec->context = wide ? between(&apart, 24, 70) : between(random, 4, 13);
    spec->vocabulary = between(random, 11, 30);
    spec->batch = between(random, 1, 2);
    spec->dim = between(random, 3, 9);
    int chosen = chance(random, 25), two = chance(random, 20), linear = chance(random, 60);
    spec->resets = chance(random, 40);
    add(spec, "use adafactor\nuse decoder\nuse muon\nuse recurrent\n\nlayer made(x[s,d]) -> y[s,d] "
              "{\n  option document_ids: "
              "any = none\n");
    add(spec, "  axis f = %ld\n  axis r = %ld\n",
        wide ? between(&apart, 8, 20) : between(random, 2, 5),
        wide ? between(&apart, 8, 16) : between(random, 1, 4));
    add(spec,
        "  param a[d,f], b[f,d], c[f] ~ normal(1), e[r] ~ ones\n  param w[f,r], u[r,f], m[f,f]\n");
    if (spec->resets)
        add(spec,
            "  if document_ids != none { on = same_document(document_ids) } else { on[s] = s %% 5 != 3 }\n");
    add(spec,
        "  t0[s,f] = sum[d] x[s,d] * a[d,f]\n  t1[s,f] = t0[s,f] * c[f] + 0.3 * t0[s - 1,f]\n");
    const char *way = !spec->causal && chance(random, 60) ? " reversed" : "";
    if (linear) add_linear(spec, random, 2, way);
    if (!linear || two) add_recurrence(spec, random, 2 + linear);
    add(spec, "  y[s,d] = sum[f] t%d[s,f] * b[f,d]\n}\n\n", 2 + (linear && two));
    add(spec, "model random = decoder {\n  vocab_size = %ld\n  dim = %ld\n  layers = %ld\n",
        spec->vocabulary, spec->dim, between(random, 1, 2));
    if (spec->resets && !chosen) add(spec, "  document_start_token = %ld\n", between(random, 0, 3));
    if (chosen)
        add(spec,
            "  attention = { heads.q = 1, rotary = none }\n  ffn = moe { experts = 3, top_k = %ld, "
            "expert = made }\n",
            between(random, 1, 2));
    else
        add(spec, "  attention = made\n  ffn = swiglu { hidden_dim = 5 }\n");
    add_training(spec);
}

static void make_spec(Spec *spec, uint64_t seed) {
    make_model(spec, seed);
    add_transfer(spec);
}

#endif
