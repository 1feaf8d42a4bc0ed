/* random_masks: a seed to a model whose sums select entries by masks of any equations.
 *
 * A layer has one or two blocks. Each makes one or two masks, perhaps one of both, values per entry, and a reduction of the
 * values under the mask. The layer is applied to the text, in a repeat, or as an expert of another selection. Include after
 * random_spec.h. Every function is static.
 *
 * The entries of some blocks are positions: their masks select the positions of a network, without a sum.
 *
 * Patterns: # is the number of the block, @ the subscripts s, h#, n# of its entries, & the subscripts h#, n#, $ the subscripts
 * s, h#. Without a second axis, h# is left out. With positions, @ and $ are s. K is 1 to 3. A, B, M and E are the masks and the value at an entry, ! is the name of
 * the mask that the pattern defines. The text of a value or a use after the last = is its expression, after equations.
 */
#ifndef RANDOM_MASKS_H
#define RANDOM_MASKS_H

#include "random_spec.h"

#include <ctype.h>

enum {
    MASK_BLOCKS = 2,  /* of a layer, at most */
    MASK_ACAUSAL = 1, /* reads later positions, or random numbers */
    MASK_TWO = 2,     /* needs two axes of entries */
    MASK_ONE = 4,     /* needs one */
    MASK_WEIGHTS = 8, /* other values than 0 and 1; a use: allows them */
    MASK_DENSE = 16,  /* all entries are computed, or usually */
    MASK_ENTRIES = 32,  /* of entries of a position only */
    MASK_POSITIONS = 64 /* of positions only */
};

typedef struct MaskForm {
    const char *name, *text;
    int flags;
} MaskForm;

static const MaskForm mask_leaves[] = {
    {"top", "  ![@] = top_k[n#](p#[@], K)\n", MASK_ENTRIES},
    {"top again", "  ![@] = top_k[n#](z#[@], K)\n", MASK_ENTRIES},
    {"top of pairs", "  ![@] = top_k[h#, n#](p#[@], K)\n", MASK_TWO | MASK_ENTRIES},
    {"top of positions", "  ![@] = top_k[s](p#[@], 2)\n", MASK_ACAUSAL},
    {"top of a group",
     "  best![s, h#] = top_k[h#](max[n#] p#[@], 1)\n  own![@] = top_k[n#](p#[@], K)\n"
     "  ![@] = best![s, h#] * own![@]\n",
     MASK_TWO | MASK_ENTRIES},
    {"one or two",
     "  first![@] = top_k[n#](p#[@], 1)\n  two![@] = top_k[n#](z#[@], 2)\n"
     "  ![@] = where(t#[s] > 0, two![@], first![@])\n",
     MASK_ENTRIES},
    {"threshold", "  ![@] = p#[@] > 0.3\n", 0},
    {"upper threshold", "  ![@] = p#[@] <= 0.4\n", 0},
    {"least of a top",
     "  first![@] = top_k[n#](p#[@], K)\n  least![$] = min[n# in first!] p#[@]\n"
     "  ![@] = p#[@] >= least![$]\n",
     MASK_ENTRIES},
    {"largest", "  most![$] = max[n#] p#[@]\n  ![@] = p#[@] == most![$]\n", MASK_ENTRIES},
    {"above the mean", "  ![@] = p#[@] >= (mean[n#] p#[@])\n", MASK_ENTRIES},
    {"number", "  ![@] = floor(size(n#) * sigmoid(t#[s])) == n#\n", MASK_ENTRIES},
    {"hash", "  ![@] = n# == key#[s]\n", MASK_ENTRIES},
    {"hash of pairs", "  ![@] = h# * size(n#) + n# == key#[s]\n", MASK_TWO | MASK_ENTRIES},
    {"position", "  ![@] = (s + n#) % 3 == 0\n", MASK_ENTRIES},
    {"number of a position", "  ![@] = n# == s % size(n#)\n", MASK_ENTRIES},
    {"first entries", "  ![@] = n# < 2\n", MASK_ENTRIES},
    {"part of a top",
     "  among![s, m#] = top_k[m#](wide#[s, m#], K)\n  ![@] = among![s, n# + 1]\n", MASK_ENTRIES},
    {"top of the previous", "  now![@] = top_k[n#](p#[@], K)\n  ![@] = now![s - 1, &]\n", MASK_ENTRIES},
    {"top in reverse", "  now![@] = top_k[n#](p#[@], K)\n  ![@] = now![$, size(n#) - 1 - n#]\n", MASK_ENTRIES},
    {"parameters", "  ![@] = gate#[&] > 0\n", MASK_ENTRIES},
    {"noise", "  ![@] = uniform() < 0.6\n", MASK_ACAUSAL},
    {"votes",
     "  vote![s, j#, n#] = top_k[n#](sum[d] x[s, d] * rj#[d, j#, n#], K)\n"
     "  ![@] = (sum[j#] vote![s, j#, n#]) > 0\n",
     MASK_ENTRIES},
    {"any of two",
     "  vote![s, j#, n#] = top_k[n#](sum[d] x[s, d] * rj#[d, j#, n#], K)\n"
     "  ![@] = max[j#] vote![s, j#, n#]\n",
     MASK_ENTRIES},
    {"none", "  ![@] = p#[@] > 2\n", 0},
    {"all", "  ![@] = p#[@] > -2\n", 0},
    {"token", "  ![@] = t#[s] > 0\n", 0},
    {"relu", "  ![@] = max(p#[@] - 0.2, 0)\n", MASK_WEIGHTS},
    {"gates", "  ![@] = relu(z#[@])\n", MASK_WEIGHTS},
    {"product of gates", "  ![@] = relu(z#[@]) * max(0.4 - p#[@], 0)\n", MASK_WEIGHTS},
    {"gates of a mask", "  some![@] = p#[@] > 0.3\n  ![@] = some![@] * sigmoid(z#[@])\n",
     MASK_WEIGHTS},
    {"gates without a top",
     "  out![@] = top_k[n#](p#[@], 1)\n  ![@] = where(out![@] > 0, 0, sigmoid(z#[@]))\n",
     MASK_WEIGHTS | MASK_ENTRIES},
    {"gates of a condition", "  ![@] = where(z#[@] > 0.1, z#[@], 0) / (1 + abs(t#[s]))\n",
     MASK_WEIGHTS},
    {"gates of either", "  ![@] = min(relu(z#[@]), 1) + relu(p#[@] - 0.4)\n", MASK_WEIGHTS},
    {"softmax of a condition", "  ![@] = softmax[n#](where(z#[@] > 0.1, z#[@], -1e30))\n",
     MASK_WEIGHTS | MASK_ENTRIES},
    {"softmax with penalties",
     "  some![@] = z#[@] >= (mean[n#] z#[@])\n"
     "  ![@] = softmax[n#](z#[@] + (1 - some![@]) * -1e9)\n",
     MASK_WEIGHTS | MASK_ENTRIES},
    {"powers of a condition",
     "  left![@] = where(p#[@] > 0.3, z#[@], -1e30)\n  all![$] = logsumexp[n#] left![@]\n"
     "  ![@] = exp(left![@] - all![$])\n",
     MASK_WEIGHTS | MASK_ENTRIES},
    {"sigmoid of a condition", "  ![@] = sigmoid(where(z#[@] > 0.1, z#[@], -1e30))\n",
     MASK_WEIGHTS},
    {"straight-through", "  some![@] = p#[@] > 0.3\n  ![@] = some![@] + (z#[@] - stop_gradient(z#[@]))\n", MASK_WEIGHTS | MASK_DENSE},
    {"straight-through top", "  some![@] = top_k[n#](p#[@], K)\n  ![@] = z#[@] + stop_gradient(some![@] - z#[@])\n",
     MASK_WEIGHTS | MASK_DENSE | MASK_ENTRIES},
    {"rest of a top",
     "  first![@] = top_k[n#](p#[@], 1)\n  more![@] = top_k[n#](p#[@], 2)\n"
     "  ![@] = more![@] - first![@]\n",
     MASK_ENTRIES},
    {"largest element", "  ![s] = (max[d] x[s, d]) > 1\n", MASK_POSITIONS},
    {"hash of the position's token", "  ![s] = key#[s] % 3 == 1\n", MASK_POSITIONS},
    {"one entry of a top", "  first![s, n#] = top_k[n#](sum[d] x[s, d] * re#[d, n#], K)\n  ![s] = first![s, 1]\n", MASK_POSITIONS},
    {"previous position", "  now![s] = t#[s] > 0\n  ![s] = now![s - 1]\n", MASK_POSITIONS},
    {"still running", "  left![s] = 1 - p#[s]\n  ![s] = left![s] - 0.4 * p#[s] > 0.3\n", MASK_POSITIONS},
};

static const MaskForm mask_compounds[] = {
    {"one mask", "A", 0},
    {"product", "A * B", 0},
    {"and", "A and B", 0},
    {"or", "A or B", 0},
    {"not", "not A", 0},
    {"rest", "1 - A", 0},
    {"largest of two", "max(A, B)", 0},
    {"smallest of two", "min(A, B)", 0},
    {"where", "where(A, B, 0)", 0},
    {"where of a comparison", "where(A > 0, 1, 0)", 0},
    {"either", "where(t#[s] > 0, A, B)", 0},
    {"where not", "where(A > 0, 0, B)", 0},
    {"positive", "A > 0", 0},
    {"nonzero", "A != 0", 0},
    {"zero", "A == 0", 0},
    {"equal", "A == 1", 0},
    {"difference", "abs(A - B)", 0},
    {"without", "A - A * B", 0},
    {"sum of two", "A + B > 0", 0},
    {"both of a sum", "A + B > 1", 0},
    {"union", "A + B - A * B", 0},
    {"stopped", "stop_gradient(A)", 0},
    {"at least", "A >= B", 0},
    {"unequal", "A != B", 0},
    {"with entries", "A * (n# > 0)", MASK_ENTRIES},
    {"with positions", "where(s % 2 == 0, A, 0)", 0},
    {"density", "density(A, 0.25)", 0},
    {"signed weights", "A * p#[@]", MASK_WEIGHTS},
    {"two levels", "0.5 * A + B", MASK_WEIGHTS},
};

static const MaskForm mask_values[] = {
    {"networks",
     "  e#[@, d] = sum[f#] tanh(sum[d] x[s, d] * w1#[&, d, f#]) * w2#[&, f#, d]\n=e#[@, d]", MASK_ENTRIES},
    {"products", "  e#[@, d] = sum[f#] u#[s, f#] * w2#[&, f#, d]\n=e#[@, d]", MASK_ENTRIES},
    {"steps",
     "  c#[@, f#] = sum[d] x[s, d] * w1#[&, d, f#]\n  g#[@, f#] = silu(c#[@, f#]) * (1 + c#[@, "
     "f#])\n"
     "  e#[@, d] = sum[f#] g#[@, f#] * w2#[&, f#, d]\n=e#[@, d]",
     MASK_ENTRIES},
    {"network in the sum", "=(sum[f#] relu(sum[d] x[s, d] * w1#[&, d, f#]) * w2#[&, f#, d])", MASK_ENTRIES},
    {"layers", "=swiglu@expert#[&](x; hidden_dim = 3)[s, d]", MASK_ENTRIES},
    {"table", "=value#[&, d]", MASK_ENTRIES},
    {"flat table", "=flat#[h# * size(n#) + n#, d]", MASK_TWO | MASK_ENTRIES},
    {"shared by heads",
     "  e#[s, n#, d] = sum[f#] tanh(sum[d] x[s, d] * w3#[n#, d, f#]) * w4#[n#, f#, d]\n=e#[s, n#, "
     "d]",
     MASK_TWO | MASK_ENTRIES},
    {"shared rows", "=tanh(sum[d] x[s, d] * w5#[n#, d]) * w6#[n#, d]", MASK_TWO | MASK_ENTRIES},
    {"elementwise", "  e#[@, d] = p#[@] * value#[&, d] + x[s, d]\n=e#[@, d]", MASK_ENTRIES},
    {"of the previous position", "  e#[@, d] = tanh(x[s, d] * value#[&, d])\n=e#[s - 1, &, d]",
     MASK_DENSE | MASK_ENTRIES},
    {"nested",
     "  inner_#[@, j#] = top_k[j#](sum[d] x[s, d] * rk#[d, &, j#], 1)\n"
     "  e#[@, d] = sum[j# in inner_#] tanh(x[s, d] * wk#[&, j#, d])\n=e#[@, d]",
     MASK_ENTRIES},
    {"network of a position", "  e#[s, d] = sum[f#] tanh(sum[d] x[s, d] * wu#[d, f#]) * wd#[f#, d]\n=e#[s, d]", MASK_POSITIONS},
    {"product", "  e#[s, d] = sum[f#] u#[s, f#] * wd#[f#, d]\n=e#[s, d]", MASK_POSITIONS},
    {"steps of a position",
     "  c#[s, f#] = sum[d] x[s, d] * wu#[d, f#]\n  g#[s, f#] = silu(c#[s, f#]) * (1 + c#[s, f#])\n"
     "  e#[s, d] = (sum[f#] g#[s, f#] * wd#[f#, d]) + x[s, d]\n=e#[s, d]", MASK_POSITIONS},
    {"inline network", "=(sum[f#] relu(sum[d] x[s, d] * wu#[d, f#]) * wd#[f#, d])", MASK_POSITIONS},
    {"layer", "=swiglu@deep#x(x; hidden_dim = 3)[s, d]", MASK_POSITIONS},
    {"layer and norm", "  v# = x + swiglu@deep#x(rms_norm@norm#x(x); hidden_dim = 5)\n=rms_norm@last#x(v#)[s, d]", MASK_POSITIONS},
    {"experts", "=moe@deep#x(x; experts = 3, top_k = 1, expert = swiglu { hidden_dim = 2 })[s, d]", MASK_POSITIONS},
    {"attention", "=attention@deep#x(x; heads.q = 2, head_dim = 2)[s, d]", MASK_POSITIONS},
    {"earlier network", "  e#[s, d] = sum[f#] tanh(sum[d] x[s, d] * wu#[d, f#]) * wd#[f#, d]\n=e#[s - 1, d]", MASK_POSITIONS | MASK_DENSE},
};

static const MaskForm mask_uses[] = {
    {"in", "(sum[n# in M] p#[@] * E)", MASK_WEIGHTS | MASK_ENTRIES},
    {"in, alone", "(sum[n# in M] E)", MASK_WEIGHTS | MASK_ENTRIES},
    {"mean in", "(mean[n# in M] p#[@] * E)", MASK_WEIGHTS | MASK_ENTRIES},
    {"max in", "(max[n# in M] E)", MASK_WEIGHTS | MASK_ENTRIES},
    {"min in", "(min[n# in M] p#[@] * E)", MASK_WEIGHTS | MASK_ENTRIES},
    {"in, with a mask", "(sum[n# in M] B * E)", MASK_WEIGHTS | MASK_ENTRIES},
    {"weights", "(sum[n#] M * E)", MASK_WEIGHTS | MASK_ENTRIES},
    {"weights and scores", "(sum[n#] p#[@] * E * M)", MASK_WEIGHTS | MASK_ENTRIES},
    {"normalized weights", "(sum[n#] M * E) / (1.5 + (sum[n#] abs(M)))", MASK_WEIGHTS | MASK_ENTRIES},
    {"max of the selected", "(max[n#] where(M > 0, E, -2))", MASK_WEIGHTS | MASK_ENTRIES},
    {"min of a condition", "(min[n#] where(z#[@] > 0.1, M * E, 1))", MASK_WEIGHTS | MASK_ENTRIES},
    {"sum of the selected and others", "(sum[n#] where(M > 0, E, 0.1))", MASK_WEIGHTS | MASK_ENTRIES},
    {"in, normalized", "(sum[n# in M] p#[@] * E) / (1.5 + (sum[n# in M] abs(p#[@])))", MASK_ENTRIES},
    {"logsumexp in", "(logsumexp[n# in M] E)", MASK_ENTRIES},
    {"softmax of the selected", "(sum[n# in M] softmax[n#](where(M > 0, z#[@], -50)) * E)", MASK_ENTRIES},
    {"factor", "(sum[n#] M * p#[@] * E)", MASK_ENTRIES},
    {"last factor", "(sum[n#] p#[@] * E * M)", MASK_ENTRIES},
    {"pairs", "(sum[h#, n#] M * p#[@] * E)", MASK_TWO | MASK_ENTRIES},
    {"mean of a factor", "(mean[n#] M * E)", MASK_ENTRIES},
    {"where", "(sum[n#] where(M > 0, p#[@] * E, 0))", MASK_ENTRIES},
    {"where of values", "(sum[n#] where(M, E, 0) * p#[@])", MASK_ENTRIES},
    {"where zero", "(sum[n#] where(M == 0, 0, E))", MASK_ENTRIES},
    {"where not", "(sum[n#] where(not M, 0, E * p#[@]))", MASK_ENTRIES},
    {"twice", "(sum[n#] M * p#[@] * M * E)", MASK_ENTRIES},
    {"quotient", "(sum[n#] M * E / (1 + abs(p#[@])))", MASK_ENTRIES},
    {"function of a product", "(sum[n#] tanh(M * E))", MASK_ENTRIES},
    {"function of a mask", "(sum[n#] sin(M) * E)", MASK_ENTRIES},
    {"comparison of a mask", "(sum[n#] (M > 0) * E)", MASK_ENTRIES},
    {"power", "(sum[n#] M ^ 2 * E)", MASK_ENTRIES},
    {"negative", "(sum[n#] p#[@] * (0 - M) * E)", MASK_ENTRIES},
    {"larger values", "(sum[n#] M * max(E, p#[@]))", MASK_ENTRIES},
    {"factor without the rest", "(sum[n#] M * E) - (sum[n#] M * p#[@])", MASK_ENTRIES},
    {"rest", "(sum[n#] (1 - M) * E)", MASK_ENTRIES},
    {"where the mask is zero", "(sum[n#] where(M > 0, 0, E))", MASK_ENTRIES},
    {"condition", "(sum[n#] (p#[@] > 0.1) * M * E)", MASK_ENTRIES},
    {"number of an entry", "(sum[n#] (n# < 1) * (E + M))", MASK_ENTRIES | MASK_DENSE},
    {"mask and numbers of entries", "(sum[n#] (n# > 0) * (M * E))", MASK_ENTRIES},
    {"mask and parameters", "(sum[n#] M * p#[@] * (gate#[&] > 0) * E)", MASK_ENTRIES},
    {"two conditions", "(sum[n#] where(z#[@] > 0 and M > 0, p#[@], 0) * (p#[@] < 0.6) * E)", MASK_ENTRIES},
    {"conditions of other axes", "(sum[h#, n#] M * (z#[s, 0, n#] > 0) * E)", MASK_TWO | MASK_ENTRIES},
    {"two masks", "(sum[n#] M * E) + 0.5 * (sum[n#] B * p#[@] * E)", MASK_ENTRIES},
    {"difference of masks", "(sum[n#] (M - B) * E)", MASK_ENTRIES},
    {"smaller weight", "(sum[n#] min(M, p#[@]) * E)", MASK_DENSE | MASK_ENTRIES},
    {"cosine", "(sum[n#] cos(M) * E)", MASK_DENSE | MASK_ENTRIES},
    {"weights of a part", "(sum[n# in M] sigmoid(wide#[s, n# + 1]) * E)", MASK_WEIGHTS | MASK_ENTRIES},
    {"shifted mask", "(sum[n#] (M - 0.5) * E)", MASK_DENSE | MASK_ENTRIES},
    {"power of zero", "(sum[n#] M ^ 0 * E)", MASK_DENSE | MASK_ENTRIES},
    {"always true", "(sum[n#] (M >= 0) * E)", MASK_DENSE | MASK_ENTRIES},
    {"dense as well", "(sum[n#] M * E) + 0.1 * (mean[n#] E)", MASK_DENSE | MASK_ENTRIES},
    {"factor of a position", "M * E", MASK_POSITIONS | MASK_WEIGHTS},
    {"weighed factor", "sigmoid(t#[s]) * E * M", MASK_POSITIONS | MASK_WEIGHTS},
    {"added to the rest", "M * E + (1 - M) * x[s, d]", MASK_POSITIONS},
    {"added to the input", "x[s, d] - 0.5 * M * E", MASK_POSITIONS | MASK_WEIGHTS},
    {"where of a position", "where(M > 0, p#[s] * E, 0)", MASK_POSITIONS | MASK_WEIGHTS},
    {"where not, of a position", "where(M == 0, 0, E)", MASK_POSITIONS | MASK_WEIGHTS},
    {"instead of the input", "where(M > 0, E, x[s, d])", MASK_POSITIONS},
    {"the input instead", "where(M > 0, x[s, d], E)", MASK_POSITIONS},
    {"one of two networks", "where(M, E, (sum[f#] u#[s, f#] * wo#[f#, d]))", MASK_POSITIONS},
    {"both of two networks", "M * E - (1 - M) * (sum[f#] u#[s, f#] * wo#[f#, d])", MASK_POSITIONS},
    {"condition of a position", "(z#[s] > 0.1) * E + M", MASK_POSITIONS | MASK_WEIGHTS},
    {"two conditions of a position", "(z#[s] > -0.2) * M * E", MASK_POSITIONS | MASK_WEIGHTS},
    {"two terms", "M * E + 0.5 * B * E", MASK_POSITIONS | MASK_DENSE},
    {"quotient of a position", "M * E / (1 + abs(t#[s]))", MASK_POSITIONS | MASK_WEIGHTS},
    {"function of a position", "tanh(M * E)", MASK_POSITIONS | MASK_WEIGHTS},
    {"mask of the previous position", "where(on#[s - 1] > 0, E, x[s, d])", MASK_POSITIONS},
    {"positions by number", "where(s % 3 == 1, p#[s] * E, x[s, d])", MASK_POSITIONS | MASK_WEIGHTS},
    {"condition on the text", "((mean[s] t#[s]) > 0) * E", MASK_POSITIONS | MASK_ACAUSAL | MASK_WEIGHTS},
    {"product of the selected", "(sum[f#] M * u#[s, f#] * wo#[f#, d] * E)", MASK_POSITIONS | MASK_WEIGHTS},
    {"norm of the selected", "sqrt(0.1 + (sum[d] M * E * E)) * x[s, d]", MASK_POSITIONS | MASK_WEIGHTS},
    {"number of the selected", "x[s, d] * (M * (sum[d] E * E) / (1 + abs(t#[s])))", MASK_POSITIONS | MASK_WEIGHTS},
    {"number of a condition", "where(M > 0, logsumexp[d] E, 0) + x[s, d]", MASK_POSITIONS | MASK_WEIGHTS},
    {"recurrence", "  q#[s, d] = E\n  scan rec#[d] from 0 over s { rec#[d] = 0.5 * rec#[d] + M * q#[s, d] }\n=rec#[s, d]",
     MASK_POSITIONS | MASK_WEIGHTS},
    {"recurrence by a condition",
     "  q#[s, d] = E\n  scan rec#[d] from 0 over s { rec#[d] = where(M > 0, tanh(q#[s, d] - rec#[d]), rec#[d]) }\n=rec#[s, d]",
     MASK_POSITIONS | MASK_WEIGHTS},
    {"recurrence by an inline condition",
     "  q#[s, d] = E\n  scan rec#[d] from 0 over s { rec#[d] = rec#[d] + (z#[s] > 0.1) * (q#[s, d] - rec#[d]) }\n=rec#[s, d] + M",
     MASK_POSITIONS | MASK_WEIGHTS},
    {"mask and half", "(M - 0.5) * E", MASK_POSITIONS | MASK_DENSE},
    {"cosine of a position", "cos(M) * E", MASK_POSITIONS | MASK_DENSE},
    {"dense as well, of a position", "M * E + 0.1 * E", MASK_POSITIONS | MASK_DENSE},
};

#define MASK_ROWS(list) ((int)(sizeof(list) / sizeof *(list)))

enum {
    MASK_LEAVES = MASK_ROWS(mask_leaves),
    MASK_COMPOUNDS = MASK_ROWS(mask_compounds),
    MASK_VALUES = MASK_ROWS(mask_values),
    MASK_USES = MASK_ROWS(mask_uses),
    MASK_FORMS = MASK_LEAVES + MASK_COMPOUNDS + MASK_VALUES + MASK_USES
};

static const struct {
    const char *kind;
    const MaskForm *forms;
    int count;
} mask_tables[] = {{"mask", mask_leaves, MASK_LEAVES},
                   {"mask of masks", mask_compounds, MASK_COMPOUNDS},
                   {"value", mask_values, MASK_VALUES},
                   {"use", mask_uses, MASK_USES}};

typedef struct MaskBlock {
    Spec *spec;
    int number, two, positions;
    long experts;
    const char *made;  /* the mask that a pattern defines */
    const char *value; /* the pattern of E */
    int form[5];       /* leaves, side, value, use; -1: none */
} MaskBlock;

static void expand(const MaskBlock *block, const char *text) {
    Spec *spec = block->spec;
    for (; *text; text++) {
        const char *heads = block->two ? ", h#" : "";
        const char next = text[1];
        if (*text == '@' && next != ']' && next != ',') {
            add(spec, "@"); /* the name of a layer */
            continue;
        }
        if (*text == '!' && next == '=') {
            add(spec, "!");
            continue;
        }
        switch (*text) {
        case '#':
            add(spec, "%d", block->number);
            break;
        case '!':
            add(spec, "%s%d", block->made, block->number);
            break;
        case '$':
        case '@':
            add(spec, "s");
            expand(block, heads);
            if (*text == '@' && !block->positions) expand(block, ", n#");
            break;
        case '&':
            expand(block, block->two ? "h#, n#" : "n#");
            break;
        case 'K':
            add(spec, "%ld", between(&spec->random, 1, block->experts < 3 ? block->experts : 3));
            break;
        case 'A':
            expand(block, "a#[@]");
            break;
        case 'B':
            expand(block, "b#[@]");
            break;
        case 'M':
            expand(block, "on#");
            /* the mask of `in` has no subscripts */
            if (strncmp(text - 3, "in ", 3) != 0) expand(block, "[@]");
            break;
        case 'E':
            expand(block, block->value);
            break;
        default:
            add(spec, "%c", *text);
        }
    }
}

/* Number of a form that the block allows. */
static int pick_form(MaskBlock *block, const MaskForm *forms, int count, int without) {
    if (!block->spec->causal)
        without &= ~MASK_ACAUSAL;
    else
        without |= MASK_ACAUSAL;
    without |= block->two ? MASK_ONE : MASK_TWO;
    without |= block->positions ? MASK_ENTRIES : MASK_POSITIONS;
    for (;;) {
        const int form = (int)between(&block->spec->random, 0, count - 1);
        if (!(forms[form].flags & without)) return form;
    }
}

/* Sizes, scores and parameters of a network. */
static void begin_positions(MaskBlock *block) {
    Random *random = &block->spec->random;
    add(block->spec, "  axis n%d = %ld\n  axis f%d = %ld\n", block->number, block->experts + 1, block->number,
        between(random, 1, 6));
    expand(block, "  param r#[d] ~ normal(1), rt#[d] ~ normal(1), re#[d, n#]\n"
                  "  param wu#[d, f#], wd#[f#, d], wo#[f#, d]\n  z#[s] = sum[d] x[s, d] * r#[d]\n  p#[s] = ");
    expand(block, PICK(random, "sigmoid(0.3 * z#[s])", "tanh(0.3 * z#[s])"));
    expand(block, "\n  t#[s] = sum[d] x[s, d] * rt#[d]\n  u#[s, f#] = sum[d] x[s, d] * wu#[d, f#]\n"
                  "  if ids != none { key#[s] = ids[s] * 31337 % 11 } else { key#[s] = s % 5 }\n");
}

/* The same of the networks of entries. */
static void begin_block(MaskBlock *block) {
    Spec *spec = block->spec;
    Random *random = &spec->random;
    add(spec, "  axis n%d = %ld\n  axis m%d = %ld\n  axis j%d = 2\n  axis f%d = %ld\n",
        block->number, block->experts, block->number, block->experts + 2, block->number,
        block->number, between(random, 1, 5));
    if (block->two)
        add(spec, "  axis h%d = %ld\n  axis hn%d = %ld\n", block->number, block->experts % 2 + 2L,
            block->number, block->experts * (block->experts % 2 + 2));
    expand(
        block,
        "  param r#[d, &] ~ normal(1), rt#[d] ~ normal(1), rm#[d, m#], rj#[d, j#, n#], gate#[&]\n"
        "  param w1#[&, d, f#], w2#[&, f#, d], wu#[d, f#], value#[&, d], rk#[d, &, j#], wk#[&, j#, "
        "d]\n");
    if (block->two)
        expand(block,
               "  param w3#[n#, d, f#], w4#[n#, f#, d], w5#[n#, d], w6#[n#, d], flat#[hn#, d]\n");
    expand(block, "  z#[@] = sum[d] x[s, d] * r#[d, &]\n  p#[@] = ");
    expand(block, PICK(random, "sigmoid(0.3 * z#[@])", "tanh(0.3 * z#[@])", "softmax[n#](z#[@])"));
    expand(block,
           "\n  t#[s] = sum[d] x[s, d] * rt#[d]\n  u#[s, f#] = sum[d] x[s, d] * wu#[d, f#]\n"
           "  wide#[s, m#] = sum[d] x[s, d] * rm#[d, m#]\n");
    expand(block,
           "  if ids != none { key#[s] = ids[s] * 31337 % size(n#) } else { key#[s] = s % 5 }\n");
}

static void add_mask(MaskBlock *block, const char *made, int leaf) {
    block->made = made;
    expand(block, mask_leaves[leaf].text);
}

static void add_block_of_masks(Spec *spec, int number) {
    Random *random = &spec->random;
    MaskBlock block = {.spec = spec, .number = number, .positions = chance(random, 30)};
    block.two = !block.positions && chance(random, 30);
    block.experts = chance(random, 25) ? between(random, 17, 40) : between(random, 2, 6);
    const int weights = chance(random, 25);
    int *form = block.form;
    form[0] = pick_form(&block, mask_leaves, MASK_LEAVES, weights ? 0 : MASK_WEIGHTS);
    form[1] = pick_form(&block, mask_leaves, MASK_LEAVES, MASK_WEIGHTS);
    form[2] = chance(random, 40)
                  ? 0
                  : pick_form(&block, mask_compounds, MASK_COMPOUNDS, weights ? 0 : MASK_WEIGHTS);
    form[3] = pick_form(&block, mask_values, MASK_VALUES, 0);
    do form[4] = pick_form(&block, mask_uses, MASK_USES, 0);
    while (weights && !(mask_uses[form[4]].flags & MASK_WEIGHTS));
    const char *side = mask_compounds[form[2]].text, *use = mask_uses[form[4]].text;
    if (!strchr(side, 'B') && !strchr(use, 'B')) form[1] = -1;
    add(spec, "  # %d:", number);
    for (int i = 0; i < 5; i++) add(spec, " %d", form[i]);
    add(spec, "\n");
    if (block.positions)
        begin_positions(&block);
    else
        begin_block(&block);
    const char *value = mask_values[form[3]].text, *last = strchr(value, '=');
    while (last > value && last[-1] != '\n') last = strchr(last + 1, '=');
    block.value = last + 1;
    const int early = chance(random, 30);
    for (int turn = 0; turn < 2; turn++) {
        if (turn == early) {
            add_mask(&block, "a", form[0]);
            if (form[1] >= 0) add_mask(&block, "b", form[1]);
            expand(&block, "  on#[@] = ");
            expand(&block, side);
            add(spec, "\n");
        } else {
            char equations[600] = "";
            memcpy(equations, value, (size_t)(last - value));
            expand(&block, equations);
        }
    }
    if (!block.positions && chance(random, 15))
        expand(&block, "  aux load# = 0.01 * (mean[batch, s] (max[&] on#[@] * p#[@]))\n");
    const char *equations = use;
    use = strstr(use, "\n=") ? strstr(use, "\n=") + 2 : use;
    if (use > equations) {
        char text[600] = "";
        memcpy(text, equations, (size_t)(use - equations - 1));
        expand(&block, text);
    }
    expand(&block, "  y#[s, d] = ");
    const int heads = block.two && !strstr(use, "h#");
    if (heads) expand(&block, "sum[h#] (h# + 1) * tanh(");
    expand(&block, use);
    add(spec, heads ? ")\n" : "\n");
}

static void make_masks(Spec *spec, uint64_t seed) {
    *spec = (Spec){.random = {seed * 0x2545F4914F6CDD1Du}};
    Random *random = &spec->random;
    draw(random);
    spec->causal = chance(random, 70);
    spec->context = chance(random, 15) ? between(random, 16, 24) : between(random, 3, 9);
    spec->vocabulary = between(random, 11, 20);
    spec->batch = between(random, 1, 3);
    spec->dim = between(random, 2, 9);
    add(spec,
        "use adafactor\nuse decoder\nuse moe\nuse muon\n\nlayer masked(x[s, d]) -> y[s, d] {\n"
        "  option ids: any = none\n");
    const int blocks = chance(random, 70) ? 1 : 2;
    for (int i = 1; i <= blocks; i++) add_block_of_masks(spec, i);
    add(spec, "  y[s, d] = y1[s, d]%s\n}\n\n", blocks > 1 ? " + y2[s, d]" : "");
    add(spec,
        "layer whole {\n  option train: layer = train\n  axis v = %ld\n  axis d = %ld\n"
        "  sequence s = train.context_length\n  input tokens[s]: token\n  input targets[s]: "
        "next_token\n"
        "  param embedding[v, d] ~ normal(1)\n  x[s, d] = embedding[tokens[s], d]\n",
        spec->vocabulary, spec->dim);
    const char *apply = "masked@one(rms_norm@before(x); ids = tokens)";
    if (chance(random, 20))
        apply = "moe@some(rms_norm@before(x); experts = 3, top_k = 2, expert = masked)";
    if (chance(random, 30))
        add(spec, "  repeat block[i < %ld] { x = x + %s }\n", between(random, 2, 3), apply);
    else
        add(spec, "  x = x + %s\n", apply);
    add(spec, "  logits[s, v] = sum[d] tanh(0.5 * x[s, d]) * embedding[v, d]\n  output logits\n"
              "  loss = mean[batch, s] (logsumexp[v] logits[s, v] - logits[s, targets[s]])\n}\n\n"
              "model random = whole {\n");
    spec->differentiable = !strstr(spec->text, "stop_gradient(");
    add_training(spec);
}

/* ---- forms of a text ---- */

/* Number of blocks per form, and of those whose mask selects rows. */
typedef struct MaskTally {
    long blocks[MASK_FORMS], rows[MASK_FORMS];
} MaskTally;

/* True if the program packs a mask of the block: on1[, a1_2[. */
static int packs_block(const char *program, int number) {
    for (const char *at = program; (at = strstr(at, " = pack(")); at++)
        for (const char *name = at + 8; *name != '['; name++)
            if (isalpha(name[0]) && name[1] == '0' + number && (name[2] == '[' || name[2] == '_'))
                return 1;
    return 0;
}

/* The weights of networks in products of a program, as bits: those read on rows, and those read for all entries. */
typedef struct WeightReads {
    unsigned rows, all;
} WeightReads;

static WeightReads weight_reads(const char *program) {
    static const char kinds[] = "12ud";
    WeightReads reads = {0, 0};
    for (const char *line = program, *end; (end = strchr(line, '\n')); line = end + 1)
        for (const char *at = line; (at = strstr(at, "_w")) && at < end; at++) {
            const char *kind = at[2] ? strchr(kinds, at[2]) : NULL, *subscripts = at + 4;
            if (!kind || (at[3] != '1' && at[3] != '2') || *subscripts != '[' || !memmem(line, (size_t)(at - line), " = ", 3))
                continue;
            const unsigned bit = 1u << (2 * (kind - kinds) + at[3] - '1');
            const char *text = memmem(line, (size_t)(end - line), "[r]", 3);
            if (!text) text = memmem(line, (size_t)(end - line), "[r,", 3);
            if (!text) text = memmem(line, (size_t)(end - line), ",r,", 3);
            *(text ? &reads.rows : &reads.all) |= bit;
        }
    return reads;
}

/* True if training computes a product for all entries that evaluation computes on rows. It needs all of them for a gradient that is
 * not 0 where the mask is: straight-through. */
static int trains_all(const char *text, const char *evaluation, const char *training) {
    if (strstr(text, "- stop_gradient(") || strstr(text, "stop_gradient(some")) return 0;
    const WeightReads forward = weight_reads(evaluation), both = weight_reads(training);
    return (forward.rows & ~forward.all & both.all) != 0;
}

/* Adds the forms of the blocks of a text; program: the text after `route`. */
static void masks_count(const char *text, const char *program, MaskTally *tally) {
    for (int number = 1; number <= MASK_BLOCKS; number++) {
        char sign[16];
        snprintf(sign, sizeof sign, "  # %d:", number);
        const char *at = strstr(text, sign);
        int form[5];
        if (!at ||
            sscanf(at + 6, "%d %d %d %d %d", &form[0], &form[1], &form[2], &form[3], &form[4]) != 5)
            return;
        const int first[] = {0, 0, MASK_LEAVES, MASK_LEAVES + MASK_COMPOUNDS,
                             MASK_LEAVES + MASK_COMPOUNDS + MASK_VALUES},
                  rows = packs_block(program, number);
        for (int i = 0; i < 5; i++) {
            if (form[i] < 0) continue;
            tally->blocks[first[i] + form[i]]++;
            tally->rows[first[i] + form[i]] += rows;
        }
    }
}

static void masks_add(MaskTally *total, const MaskTally *tally) {
    for (int i = 0; i < MASK_FORMS; i++) {
        total->blocks[i] += tally->blocks[i];
        total->rows[i] += tally->rows[i];
    }
}

/* Prints the table of forms; returns the number of forms of which no model selects rows. */
static long masks_print(const MaskTally *tally) {
    long missing = 0;
    int row = 0;
    for (int table = 0; table < MASK_ROWS(mask_tables); table++)
        for (int i = 0; i < mask_tables[table].count; i++, row++) {
            const MaskForm *form = &mask_tables[table].forms[i];
            const int dense = form->flags & MASK_DENSE;
            printf("%6ld blocks, %4ld on rows: %s %s\n", tally->blocks[row], tally->rows[row],
                   mask_tables[table].kind, form->name);
            missing += !tally->blocks[row] || (!dense && !tally->rows[row]);
        }
    return missing;
}

#endif
