/* transfer: the settings that parametrizations assign to parameters, against numbers by hand: the worked example of the authors
 * of Complete-muE, and models that differ from their base in one aspect. Also their purpose: a mixture that computes the same
 * as a dense model still does so after training steps. Runs in the root of the project. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../compiler/moec.h"
#include "../../runtime/base/memory.h"
#include "../../runtime/training/evaluation.h"
#include "../../runtime/model/model.h"
#include "../../runtime/training/step.h"

#include <jansson.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

static const char file[] = "tests/transfer.moe";

static MoecCompiler *open_model(const char *model, const char *const *sets, int count) {
    MoecCompiler *compiler = moec_open(file, model, sets, count, NULL);
    if (moec_failed(compiler)) fail_msg("%s\n%s", model, moec_reports(compiler));
    return compiler;
}

static json_t *transfer_of(const char *model, const char *const *sets, int count) {
    MoecCompiler *compiler = open_model(model, sets, count);
    const char *text = moec_transfer(compiler, MOEC_TRANSFER_JSON);
    assert_non_null(text);
    json_t *root = json_loads(text, 0, NULL);
    moec_close(compiler);
    assert_non_null(root);
    return root;
}

static json_t *row_of(json_t *root, const char *path) {
    json_t *rows = json_object_get(root, "parameters"), *row;
    size_t i;
    json_array_foreach(rows, i, row) {
        if (!strcmp(json_string_value(json_object_get(row, "path")), path)) return row;
    }
    fail_msg("no parameter '%s'", path);
    return NULL;
}

/* ---- numbers by hand ---- */

/* A setting of a parameter of a model; `value` is the result, or NAN: `times` the original value. */
typedef struct Expected {
    const char *model, *path, *number;
    double value, times;
} Expected;

#define IS(model, path, number, value)                                                             \
    { model, path, number, value, NAN }
#define TIMES(model, path, number, times)                                                          \
    { model, path, number, NAN, times }
#define BLOCK "block.{i}."

/* Complete-muE's page, "a worked example": proxy of width 128, 25k steps; 128e8a1s of width 1024,
 * 100k steps. */
static const Expected worked[] = {
    IS("lm_e128a8s1", BLOCK "ffn.expert.down", "multiplier", 8.0 / 9),         /* A = 1/9, R = 8 */
    IS("lm_e128a8s1", BLOCK "ffn.shared.down", "multiplier", 1.0 / 9),         /* A = 1/9, R = 1 */
    TIMES("lm_e128a8s1", BLOCK "ffn.expert.down", "init", 1.0606601717798212), /* 3 / sqrt(8) */
    IS("lm_e128a8s1", BLOCK "ffn.expert.down", "init", 0.010606601717798212),
    IS("lm_e128a8s1", BLOCK "ffn.shared.down", "init", 0.010606601717798212),
    IS("lm_e128a8s1", BLOCK "ffn.expert.down", "lr", 6.25e-5), /* 5e-4 / 8 */
    IS("lm_e128a8s1", BLOCK "ffn.expert.up", "lr", 6.25e-5),
    IS("lm_e128a8s1", BLOCK "ffn.expert.gate", "init", 0.0035355339059327377), /* 0.01 / sqrt(8) */
    IS("lm_e128a8s1", BLOCK "ffn.expert.up", "init", 0.0035355339059327377),
    IS("lm_e128a8s1", BLOCK "ffn.router", "init", 0.0035355339059327377),
    IS("lm_e128a8s1", BLOCK "ffn.router", "lr", 6.25e-5),
    IS("lm_e128a8s1", BLOCK "attention.query", "init", 0.0035355339059327377),
    IS("lm_e128a8s1", BLOCK "attention.key", "lr", 6.25e-5),
    IS("lm_e128a8s1", BLOCK "attention.value", "init", 0.0035355339059327377),
    IS("lm_e128a8s1", BLOCK "attention.output", "init", 0.0035355339059327377),
    IS("lm_e128a8s1", BLOCK "attention.output", "lr", 6.25e-5),
    IS("lm_e128a8s1", BLOCK "attention.output", "multiplier", 1),
    IS("lm_e128a8s1", BLOCK "attention_norm.weight", "lr", 5e-4),
    IS("lm_e128a8s1", "unembedding", "lr", 6.25e-5),
    IS("lm_e128a8s1", "unembedding", "init", 0.0035355339059327377),
    IS("lm_e128a8s1", "unembedding", "multiplier", 0.125),
    IS("lm_e128a8s1", "unembedding", "weight_decay", 0.05),
    IS("lm_e128a8s1", BLOCK "ffn.expert.down", "weight_decay", 0.05),
    IS("lm_e128a8s1", "embedding", "lr", 5e-4),
    IS("lm_e128a8s1", "embedding", "init", 0.01),
    IS("lm_e128a8s1", "embedding", "eps", 2e-8),
    IS("lm_e128a8s1", "embedding", "beta1", 0.975),  /* 1 - 0.1 / 4 */
    IS("lm_e128a8s1", "embedding", "beta2", 0.9875), /* 1 - 0.05 / 4 */
    IS("images_e128a8s1", BLOCK "ffn.expert.down", "multiplier", 8.0 / 9),
    IS("images_e128a8s1", BLOCK "ffn.shared.down", "multiplier", 1.0 / 9),
    IS("images_e128a8s1", BLOCK "ffn.expert.down", "init", 0.021213203435596424),
    IS("images_e128a8s1", BLOCK "ffn.expert.down", "lr", 2.825e-4), /* 2.26e-3 / 8 */
    IS("images_e128a8s1", BLOCK "ffn.expert.up", "init", 0.0070710678118654755),
    IS("images_e128a8s1", BLOCK "ffn.router", "init", 0.0070710678118654755),
    IS("images_e128a8s1", BLOCK "attention.query", "init", 0.0070710678118654755),
    IS("images_e128a8s1", BLOCK "attention.output", "lr", 2.825e-4),
    IS("images_e128a8s1", "head", "lr", 2.825e-4),
    IS("images_e128a8s1", "head", "multiplier", 0.125),
    IS("images_e128a8s1", "head", "weight_decay", 0.01),
    IS("images_e128a8s1", "patch", "lr",
       2.26e-3), /* reads values of a patch, of constant size */
    IS("images_e128a8s1", "patch", "init", 0.02),
};

/* One change per model; a setting that is not listed for a model is unchanged. */
static const Expected changes[] = {
    /* width 4 */
    TIMES("wide", BLOCK "ffn.up", "lr", 0.25),
    TIMES("wide", BLOCK "ffn.up", "init", 0.5),
    TIMES("wide", BLOCK "ffn.up", "eps", 0.25),
    TIMES("wide", BLOCK "ffn.gate", "lr", 0.25),
    TIMES("wide", BLOCK "ffn.gate", "init", 0.5),
    TIMES("wide", BLOCK "ffn.gate", "eps", 0.25),
    TIMES("wide", BLOCK "ffn.down", "lr", 0.25),
    TIMES("wide", BLOCK "ffn.down", "init", 0.5),
    TIMES("wide", BLOCK "ffn.down", "eps", 0.25),
    TIMES("wide", BLOCK "attention.query", "lr", 0.25),
    TIMES("wide", BLOCK "attention.query", "init", 0.5),
    TIMES("wide", BLOCK "attention.query", "eps", 0.25),
    TIMES("wide", BLOCK "attention.key", "lr", 0.25),
    TIMES("wide", BLOCK "attention.key", "init", 0.5),
    TIMES("wide", BLOCK "attention.key", "eps", 0.25),
    TIMES("wide", BLOCK "attention.value", "lr", 0.25),
    TIMES("wide", BLOCK "attention.value", "init", 0.5),
    TIMES("wide", BLOCK "attention.value", "eps", 0.25),
    TIMES("wide", BLOCK "attention.output", "lr", 0.25),
    TIMES("wide", BLOCK "attention.output", "init", 0.5),
    TIMES("wide", BLOCK "attention.output", "eps", 0.25),
    TIMES("wide", "unembedding", "lr", 0.25),
    TIMES("wide", "unembedding", "init", 0.5),
    TIMES("wide", "unembedding", "multiplier", 0.25),
    /* depth 4, alpha 1: branches by 1/4, learning rates unchanged */
    TIMES("deep", BLOCK "ffn.down", "multiplier", 0.25),
    TIMES("deep", BLOCK "attention.output", "multiplier", 0.25),
    TIMES("deep", BLOCK "ffn.up", "eps", 0.25),
    TIMES("deep", BLOCK "ffn.gate", "eps", 0.25),
    TIMES("deep", BLOCK "ffn.down", "eps", 0.25),
    TIMES("deep", BLOCK "attention.query", "eps", 0.25),
    TIMES("deep", BLOCK "attention.key", "eps", 0.25),
    TIMES("deep", BLOCK "attention.value", "eps", 0.25),
    TIMES("deep", BLOCK "attention.output", "eps", 0.25),
    TIMES("deep", BLOCK "attention_norm.weight", "eps", 0.25),
    TIMES("deep", BLOCK "ffn_norm.weight", "eps", 0.25),
    /* 4 times the experts: unchanged. 4 times the active: A 1/4, R 4, deviation 2 */
    TIMES("more_active", BLOCK "ffn.expert.down", "init", 2),
    /* 4 times as many and as fine: R 4 */
    TIMES("finer", BLOCK "ffn.expert.down", "multiplier", 4),
    /* two groups, one sum of weights: unchanged; one sum each: R is 4 / 2 instead of 4 */
    TIMES("grouped_weights", BLOCK "ffn.expert.down", "multiplier", 0.5),
    /* a shared expert and 4 routed: A 4/5; a routed expert has 1/4 of the settings */
    TIMES("sharing", BLOCK "ffn.expert.down", "multiplier", 0.8),
    TIMES("sharing", BLOCK "ffn.expert.down", "init", 1.118033988749895),
    TIMES("sharing", BLOCK "ffn.shared.down", "multiplier", 0.2),
    TIMES("sharing", BLOCK "ffn.shared.down", "init", 1.118033988749895),
    /* a dense block 4 times as wide: A 1/4, deviation 2 */
    TIMES("wide_ffn", BLOCK "ffn.down", "multiplier", 0.25),
    TIMES("wide_ffn", BLOCK "ffn.down", "init", 2),
    /* the same width as four experts, all active: R 4 */
    TIMES("bridge", BLOCK "ffn.expert.down", "multiplier", 4),
    /* 4 of 16 of that width: A 1/4, R 4 */
    TIMES("routed", BLOCK "ffn.expert.down", "init", 2),
    /* no R: weights without a constant sum, a custom factor, expert-choice routing */
    TIMES("raw_weights", BLOCK "ffn.expert.down", "multiplier", 0.25),
    TIMES("raw_weights", BLOCK "ffn.expert.down", "init", 2),
    TIMES("own_route", BLOCK "ffn.expert.down", "multiplier", 0.25),
    TIMES("own_route", BLOCK "ffn.expert.down", "init", 2),
    TIMES("choosing", BLOCK "ffn.expert.down", "multiplier", 0.25),
    TIMES("choosing", BLOCK "ffn.expert.down", "init", 2),
};

static const char *const changed_models[] = {
    "same",        "wide",      "deep",     "more_experts",
    "more_active", "finer",     "grouped",  "grouped_weights",
    "sharing",     "wide_ffn",  "bridge",   "routed",
    "raw_weights", "own_route", "choosing", "wide_standard"};

/* All parameters the same: batch, steps and data. */
static const Expected horizons[] = {
    /* a batch 4 times as large, a fourth of the steps */
    TIMES("large_batch", "*", "lr", 2),
    TIMES("large_batch", "*", "weight_decay", 2),
    TIMES("large_batch", "*", "eps", 0.5),
    IS("large_batch", "*", "beta1", 0.6),
    IS("large_batch", "*", "beta2", 0.8),
    /* and the same number of steps: unchanged */
    TIMES("more_data", "*", "lr", 1),
    TIMES("more_data", "*", "weight_decay", 1),
    TIMES("more_data", "*", "eps", 1),
    IS("more_data", "*", "beta1", 0.9),
    IS("more_data", "*", "beta2", 0.95),
    /* 4 times the steps */
    TIMES("long", "*", "lr", 0.5),
    TIMES("long", "*", "weight_decay", 0.5),
    TIMES("long", "*", "eps", 2),
    IS("long", "*", "beta1", 0.975),
    IS("long", "*", "beta2", 0.9875),
};

/* Other rules, and options. */
static const Expected rules[] = {
    TIMES("deep_half", BLOCK "ffn.down", "multiplier", 0.5),
    TIMES("deep_half", BLOCK "ffn.down", "lr", 0.5),
    TIMES("deep_half", BLOCK "attention_norm.weight", "lr", 0.5),
    TIMES("deep_half", "embedding", "lr", 1),
    TIMES("deep_half", BLOCK "ffn.up", "eps", 0.5),
    TIMES("wide_mup", BLOCK "ffn.up", "lr", 0.25),
    TIMES("wide_mup", BLOCK "ffn.up", "init", 0.5),
    TIMES("wide_mup", BLOCK "ffn.up", "weight_decay", 1),
    TIMES("wide_mup", "unembedding", "lr", 1),
    TIMES("wide_mup", "unembedding", "multiplier", 0.25),
    TIMES("wide_mup", "unembedding", "init", 1),
    TIMES("wide_mup", "embedding", "lr", 1),
    TIMES("wide_completep", BLOCK "ffn.down", "multiplier", 0.25),
    TIMES("wide_completep", BLOCK "ffn.down", "lr", 0.25),
    TIMES("wide_completep", BLOCK "ffn.down", "weight_decay", 4),
    TIMES("wide_completep", BLOCK "ffn.up", "eps", 0.0625),
    TIMES("wide_completep", BLOCK "ffn.up", "multiplier", 1),
    TIMES("wide_completep", "unembedding", "multiplier", 0.25),
    TIMES("wide_tied", "embedding", "lr", 1),
    TIMES("wide_tied", "embedding", "init", 1),
    TIMES("wide_tied", "embedding", "multiplier", 0.25),
    /* (x + a) + f: both are branches */
    TIMES("deep_parallel", BLOCK "attention.output", "multiplier", 0.25),
    TIMES("deep_parallel", BLOCK "ffn.down", "multiplier", 0.25),
    /* x + norm(f): a factor of f has no effect */
    TIMES("deep_post_norm", BLOCK "ffn.down", "multiplier", 1),
    TIMES("deep_post_norm", BLOCK "ffn_out_norm.weight", "multiplier", 0.25),
    TIMES("deep_post_norm", BLOCK "attention_out_norm.weight", "multiplier", 0.25),
    TIMES("deep_post_norm", BLOCK "ffn_norm.weight", "multiplier", 1),
    TIMES("deep_post_layer_norm", BLOCK "ffn.down", "multiplier", 1),
    TIMES("deep_post_layer_norm", BLOCK "ffn_out_norm.weight", "multiplier", 0.25),
    TIMES("deep_post_layer_norm", BLOCK "ffn_out_norm.shift", "multiplier", 0.25),
    /* x + (f + bias) */
    TIMES("deep_biases", BLOCK "ffn.down", "multiplier", 0.25),
    TIMES("deep_biases", BLOCK "ffn.down_bias", "multiplier", 0.25),
    TIMES("deep_biases", BLOCK "attention.output_bias", "multiplier", 0.25),
    TIMES("deep_biases", BLOCK "ffn.up_bias", "multiplier", 1),
    TIMES("deep_biases", BLOCK "attention.query_bias", "multiplier", 1),
    TIMES("deep_unit", BLOCK "attention.state", "multiplier", 1),
    TIMES("deep_unit", BLOCK "attention.bias", "multiplier", 1),
    TIMES("deep_unit", BLOCK "ffn.down", "multiplier", 0.25),
    /* A 1/4; the weights of the base are unknown, so R is 1 */
    TIMES("raw_all", BLOCK "ffn.expert.down", "multiplier", 0.25),
};

static void check_number(json_t *row, const Expected *expected) {
    json_t *number = json_object_get(json_object_get(row, "numbers"), expected->number);
    if (!number) fail_msg("%s: %s has no %s", expected->model, expected->path, expected->number);
    double before = json_number_value(json_object_get(number, "before"));
    double after = json_number_value(json_object_get(number, "after"));
    double wanted = isnan(expected->value) ? before * expected->times : expected->value;
    if (!(fabs(after - wanted) <= 1e-9 * fabs(wanted)))
        fail_msg("%s: %s of %s is %.12g, not %.12g", expected->model, expected->number,
                 json_string_value(json_object_get(row, "path")), after, wanted);
}

static void check_table(const Expected *table, size_t count) {
    json_t *root = NULL, *row;
    for (size_t i = 0; i < count; i++) {
        if (!i || strcmp(table[i].model, table[i - 1].model)) {
            json_decref(root);
            root = transfer_of(table[i].model, NULL, 0);
        }
        size_t at;
        if (strcmp(table[i].path, "*")) {
            check_number(row_of(root, table[i].path), &table[i]);
            continue;
        }
        json_array_foreach(json_object_get(root, "parameters"), at, row) {
            check_number(row, &table[i]);
        }
    }
    json_decref(root);
}

static void test_worked_example(void **state) {
    (void)state;
    check_table(worked, sizeof worked / sizeof *worked);
}

static void test_horizons(void **state) {
    (void)state;
    check_table(horizons, sizeof horizons / sizeof *horizons);
}

static void test_rules(void **state) {
    (void)state;
    check_table(rules, sizeof rules / sizeof *rules);
}

static bool is_listed(const char *model, const char *path, const char *number) {
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
        if (!strcmp(changes[i].model, model) && !strcmp(changes[i].path, path) &&
            !strcmp(changes[i].number, number))
            return true;
    return false;
}

static void test_one_change(void **state) {
    (void)state;
    check_table(changes, sizeof changes / sizeof *changes);
    for (size_t m = 0; m < sizeof changed_models / sizeof *changed_models; m++) {
        const char *model = changed_models[m], *name;
        json_t *root = transfer_of(model, NULL, 0), *row, *number;
        size_t at;
        json_array_foreach(json_object_get(root, "parameters"), at, row) {
            const char *path = json_string_value(json_object_get(row, "path"));
            json_object_foreach(json_object_get(row, "numbers"), name, number) {
                const Expected same = {model, path, name, NAN, 1};
                if (!is_listed(model, path, name)) check_number(row, &same);
            }
        }
        json_decref(root);
    }
}

/* Complete-muE, table of layer rules, for a block y = A * (shared + R * sum of w_i E_i) of width d:
 *
 *     A = d / H_act                   H_act: active width, shared experts included
 *     R = a                           where the weights w_i of the a active experts add up to 1;
 *                                     a / S where they add up to S (S groups, each with its sum)
 *     deviation of down = sqrt(H_act / d) times that of the dense model with H = d
 *
 * Both models of a transfer follow the table; the settings are the ratios of their values. A factor
 * that a model has itself counts: the rule's A * R is the product of both. Without a constant sum
 * of weights the table has no R, so R = 1 remains. */
typedef struct Block {
    double width;       /* h of one expert, or H of a dense block */
    double active, sum; /* a and S; S = 0: no constant sum */
    double own, shared; /* the model's own factor; width of the shared expert */
} Block;

typedef struct Scored {
    const char *model;
    Block block, base;
} Scored;

#define DENSE                                                                                      \
    { 128, 1, 1, 1, 0 }
#define MIXTURE                                                                                    \
    { 128, 4, 1, 1, 0 }

static const Scored scores[] = {
    /* softmax, sigmoid */
    {"routed", MIXTURE, DENSE},
    {"soft_routed", MIXTURE, DENSE},
    {"soft_shared", {128, 4, 1, 1, 128}, DENSE},
    {"soft_nodes", MIXTURE, DENSE},
    {"soft_chosen", MIXTURE, DENSE}, /* expert choice: 4 of 16 on average */
    {"soft_route", {128, 4, 1, 4, 0}, DENSE},
    {"own_factor_soft", {128, 4, 1, 0.5, 0}, {128, 1, 1, 0.5, 0}},
    /* groups: one sum over all, or one for each */
    {"soft_groups", MIXTURE, DENSE},
    {"soft_group_sums", {128, 4, 2, 1, 0}, DENSE},
    /* raw probabilities add up to 1 only if all experts are active */
    {"raw_weights", {128, 4, 0, 1, 0}, DENSE},
    {"sigmoid_raw", {128, 4, 0, 1, 0}, DENSE},
    {"soft_raw_all", MIXTURE, DENSE},
    /* from mixture to mixture */
    {"soft_more_active", {128, 16, 1, 1, 0}, MIXTURE},
    {"more_active", {128, 16, 1, 1, 0}, MIXTURE},
    {"soft_finer", {32, 16, 1, 1, 0}, MIXTURE},
    {"soft_more_groups", {128, 4, 2, 1, 0}, MIXTURE},
    {"soft_to_sigmoid", MIXTURE, MIXTURE},
    {"raw_more_active", {128, 8, 0, 1, 0}, {128, 4, 0, 1, 0}},
    {"custom_more_active", {128, 16, 1, 1, 0}, MIXTURE},
    /* custom spellings of weights that add up to 1 */
    {"custom_divided", MIXTURE, DENSE},
    {"custom_after", MIXTURE, DENSE},
    {"custom_masked", MIXTURE, DENSE},
    {"custom_logits", MIXTURE, DENSE},
    {"custom_shifted", MIXTURE, DENSE},
    {"custom_squares", MIXTURE, DENSE},
    {"custom_hidden", MIXTURE, DENSE},
    {"custom_double", {128, 4, 1, 2, 0}, DENSE},
    {"custom_all", {128, 16, 1, 1, 0}, DENSE},
    {"custom_mean", {128, 16, 1, 1, 0}, DENSE},      /* each weight is 1/16 */
    {"custom_rectified", {128, 16, 0, 1, 0}, DENSE}, /* no constant sum */
};

static double active_width(const Block *block) {
    return block->active * block->width + block->shared;
}

/* A * R over the factor that the model has. */
static double factor_of(const Block *block) {
    double route = block->sum > 0 ? block->active / block->sum : 1;
    return 128 / active_width(block) * route / block->own;
}

/* R depends on the sum of the weights, not on the spelling of scores and weights. */
static void test_scores(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof scores / sizeof *scores; i++) {
        const Scored *one = &scores[i];
        double spread = sqrt(active_width(&one->block) / active_width(&one->base));
        json_t *root = transfer_of(one->model, NULL, 0),
               *row = row_of(root, BLOCK "ffn.expert.down");
        const Expected init = TIMES(one->model, BLOCK "ffn.expert.down", "init", spread);
        const Expected forward = IS(one->model, BLOCK "ffn.expert.down", "multiplier",
                                    factor_of(&one->block) / factor_of(&one->base));
        check_number(row, &init);
        check_number(row, &forward);
        json_decref(root);
    }
}

/* Overrides change the settings that they must change. */
static void test_overrides(void **state) {
    (void)state;
    const char *const sets[] = {"ffn.top_k=16"};
    json_t *root = transfer_of("lm_e128a8s1", sets, 1);
    const Expected down = IS("lm_e128a8s1", BLOCK "ffn.expert.down", "multiplier", 16.0 / 17);
    const Expected shared = IS("lm_e128a8s1", BLOCK "ffn.shared.down", "multiplier", 1.0 / 17);
    const Expected init = IS("lm_e128a8s1", BLOCK "ffn.expert.down", "init",
                             0.014577379737113251); /* 0.01 sqrt(17) / sqrt(8) */
    check_number(row_of(root, down.path), &down);
    check_number(row_of(root, shared.path), &shared);
    check_number(row_of(root, init.path), &init);
    json_decref(root);
}

/* ---- training ---- */

enum { TOKENS = 4096, WORDS = 64, TEXT_TOKENS = 1 << 16 };

/* All words are equally frequent, or the k-th is 1/k as frequent as the first. */
static int32_t word_of(uint64_t bits, bool uneven) {
    if (!uneven) return (int32_t)((bits >> 40) % WORDS);
    int32_t word = (int32_t)(exp((double)(bits >> 40) * 0x1p-24 * log(WORDS + 1.0)) - 1);
    return word < WORDS ? word : WORDS - 1;
}

static uint64_t next_bits(uint64_t *state) {
    return *state = *state * 6364136223846793005u + 1442695040888963407u;
}

/* A text with learnable structure: most words follow from the previous one; of an uneven text, half. */
static Data *make_data(bool uneven) {
    Data *data = memory_new(sizeof *data);
    uint64_t state = 7;
    int32_t follows[WORDS];
    for (int i = 0; i < WORDS; i++)
        follows[i] = uneven ? word_of(next_bits(&state), true) : (i * 5 + 3) % WORDS;
    data->count = uneven ? TEXT_TOKENS : TOKENS;
    data->words = memory_new(sizeof *data->words * data->count);
    for (uint64_t i = 1; i < data->count; i++) {
        uint64_t bits = next_bits(&state);
        bool known = (bits >> 33) % (uneven ? 2 : 4);
        data->words[i] = known ? follows[data->words[i - 1]] : word_of(bits, uneven);
    }
    return data;
}

typedef struct Run {
    Model *model;
    Call *train;
    Stepper stepper;
    Data *data;
} Run;

static Run run_open(const char *name, bool uneven) {
    const GraphShape shapes[] = {{.graph = MOEC_TRAIN}, {.graph = MOEC_UPDATE}};
    MoecCompiler *compiler = open_model(name, NULL, 0);
    Run run = {.model = model_open(device_cpu(), compiler, shapes, 2, true),
               .data = make_data(uneven)};
    if (!run.model) fail_msg("%s does not compile", name);
    run.train = call_open(run.model, model_graph(run.model, MOEC_GRAPH_TRAIN), NULL);
    run.stepper = (Stepper){.train = run.train,
                            .data = run.data,
                            .order = {1, run.data->count, call_context(run.train), 0},
                            .settings = settings_of(compiler),
                            .seed = 1};
    step_prepare(&run.stepper);
    moec_close(compiler);
    model_initialise(run.model, 3);
    model_put(run.model);
    return run;
}

static void run_close(Run *run) {
    step_release(&run->stepper);
    data_close(run->data);
    call_close(run->train);
    model_close(run->model);
}

static double run_step(Run *run, long step) {
    StepResult result;
    assert_true(
        step_run(&run->stepper, step, (uint64_t)(step * run->train->graph->batch), &result));
    return result.loss;
}

static const PublicTensor *parameter_of(const Run *run, const char *name) {
    for (int i = 0; i < run->model->parameter_count; i++)
        if (!strcmp(run->model->parameters[i].name, name)) return &run->model->parameters[i];
    return NULL;
}

static float *values_of(const Run *run, const PublicTensor *one) {
    return run->model->weights + one->offset / sizeof(float);
}

/* Index of element (n, d, f) of a slice in the whole matrix: [d, n f] or, for the output map, [n f, d]. */
static size_t place_in_whole(const PublicTensor *slice, size_t i, bool back) {
    size_t rows = (size_t)slice->shape[1], columns = (size_t)slice->shape[2],
           parts = (size_t)slice->shape[0];
    size_t n = i / (rows * columns), row = i / columns % rows, column = i % columns;
    return back ? (n * rows + row) * columns + column : (row * parts + n) * columns + column;
}

/* Weights of the mixture from those of the dense model. */
static void slice_weights(const Run *from, const Run *to) {
    for (int i = 0; i < to->model->parameter_count; i++) {
        const PublicTensor *one = &to->model->parameters[i];
        const char *expert = strstr(one->name, "expert.");
        char name[128];
        snprintf(name, sizeof name, "%.*s%s",
                 expert ? (int)(expert - one->name) : (int)strlen(one->name), one->name,
                 expert ? expert + strlen("expert.") : "");
        const PublicTensor *whole = parameter_of(from, name);
        for (size_t j = 0; whole && j < one->count; j++)
            values_of(to, one)[j] = values_of(
                from, whole)[expert ? place_in_whole(one, j, strstr(name, "down") != NULL) : j];
    }
    model_put(to->model);
}

/* Maximum difference of the losses of ten steps, relative to the first. */
static double difference_of(const char *dense, const char *mixture) {
    Run a = run_open(dense, false), b = run_open(mixture, false);
    slice_weights(&a, &b);
    double most = 0;
    for (long step = 0; step < 10; step++) {
        double loss = run_step(&a, step), off = fabs(run_step(&b, step) - loss) / loss;
        if (!(off <= most)) most = off; /* also NaN */
    }
    run_close(&a);
    run_close(&b);
    return most;
}

/* Bridge I: slices of a dense block, all active with equal weights, equal the dense block, also after training. */
static void test_bridge(void **state) {
    (void)state;
    double off = difference_of("whole", "slices"),
           without = difference_of("whole", "slices_standard");
    if (!(off <= 1e-5)) fail_msg("the losses differ by %.2e", off);
    if (without < 1e-3) fail_msg("without the rule the losses differ by at most %.2e", without);
}

enum { LOSSES = 100, WINDOW = 10, DRAWS = 2 };

/* Means over some initializations, all with the same data. */
static void losses_of(const char *name, bool uneven, double *losses) {
    memset(losses, 0, LOSSES * sizeof *losses);
    for (uint64_t seed = 1; seed <= DRAWS; seed++) {
        Run run = run_open(name, uneven);
        model_initialise(run.model, seed);
        for (long step = 0; step < LOSSES; step++) losses[step] += run_step(&run, step) / DRAWS;
        run_close(&run);
    }
}

/* Maximum difference of two loss curves, as means over windows of steps: this reduces the noise. */
static double apart(const double *a, const double *b) {
    double most = 0;
    for (int i = 0; i + WINDOW <= LOSSES; i++) {
        double x = 0, y = 0;
        for (int j = i; j < i + WINDOW; j++) x += a[j], y += b[j];
        const double off = fabs(x - y) / x;
        if (!(off <= most)) most = off; /* also NaN, which fmax ignores */
    }
    return most;
}

/* The first of `names` is the dense model. */
static double farthest(const char *const *names, bool uneven) {
    double dense[LOSSES], mixture[LOSSES], most = 0;
    losses_of(names[0], uneven, dense);
    for (int i = 1; names[i]; i++) {
        losses_of(names[i], uneven, mixture);
        double off = apart(dense, mixture);
        if (getenv("MOEC_SHOW")) printf("%s: %.4f\n", names[i], off);
        if (!(off <= most)) most = off;
    }
    return most;
}

/* The authors' own check: the first 100 losses of the dense model and of every mixture agree. */
static void check_tracking(const char *const *with, const char *const *without, bool uneven,
                           double least) {
    double off = farthest(with, uneven);
    if (!(off <= 0.01)) fail_msg("losses are %.4f apart", off);
    off = farthest(without, uneven);
    if (off < least) fail_msg("without the rule the losses differ by at most %.4f", off);
}

static void test_dense_mixtures_track(void **state) {
    (void)state;
    static const char *const with[] = {"tracked_dense", "tracked_e8a8", "tracked_e32a32", NULL};
    static const char *const without[] = {"untracked_dense", "untracked_e32a32", NULL};
    check_tracking(with, without, false, 0.1);
}

static void test_sparse_mixtures_track(void **state) {
    (void)state;
    static const char *const with[] = {"early_dense",   "early_e16a8",   "early_e64a32",
                                       "early_e16a7s1", "early_e16a8g2", NULL};
    static const char *const without[] = {"stray_dense", "stray_e64a32", NULL};
    check_tracking(with, without, false, 0.015);
}

static void test_few_of_many_track(void **state) {
    (void)state;
    static const char *const names[] = {"proxy_dense", "proxy_e64a8", NULL};
    double off = farthest(names, true);
    if (!(off <= 0.01)) fail_msg("losses are %.4f apart", off);
}

/* An argument selects tests by their name: '*few*'. */
int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worked_example),
        cmocka_unit_test(test_one_change),
        cmocka_unit_test(test_horizons),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_scores),
        cmocka_unit_test(test_overrides),
        cmocka_unit_test(test_bridge),
        cmocka_unit_test(test_dense_mixtures_track),
        cmocka_unit_test(test_sparse_mixtures_track),
        cmocka_unit_test(test_few_of_many_track),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    omp_set_num_threads(
        1); /* more threads do not speed up models this small */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
