/* initial: the initialization of every parameter and state of the standard library, compared with a table of the published
 * initializations. Runs in the root of the project. */
#include "rules.h"

#include "../../runtime/abi/abi.h"

typedef struct Start {
    const char *model; /* NULL: any */
    const char *path;  /* suffix of the path, in whole names */
    MoecInit kind;
    double a, b;
} Start;

/* normal(1 / sqrt(terms of a sum)): keeps the variance of the input (He et al. 2015, gain 1). */
#define FAN_IN(model, path, terms)                                                                 \
    { model, path, MOEC_INIT_NORMAL, 0, -(terms) }
#define NORMAL(model, path, deviation)                                                             \
    { model, path, MOEC_INIT_NORMAL, 0, deviation }
#define ALL(model, path, value)                                                                    \
    { model, path, MOEC_INIT_CONSTANT, value, 0 }
#define UNIFORM(model, path, low, high)                                                            \
    { model, path, MOEC_INIT_UNIFORM, low, high }

/* Width 16, heads 2 x 4, hidden width 24, unless the model sets others. The first matching row counts. */
static const Start starts[] = {
    /* DiT (Peebles and Xie 2022): adaLN-zero, the last layer zero; labels and time normal(0.02) */
    ALL("start_images", "steer", 0),
    ALL("start_images", "head", 0),
    NORMAL("start_images", "class", 0.02),
    FAN_IN("start_images", "patch", 3),
    FAN_IN("start_images", "time_embedding.up", 64),
    FAN_IN("start_images", "time_embedding.down", 8),
    FAN_IN("start_images", "query", 8),
    FAN_IN("start_images", "key", 8),
    FAN_IN("start_images", "value", 8),
    FAN_IN("start_images", "output", 8),
    FAN_IN("start_images", "up", 8),
    FAN_IN("start_images", "down", 8),
    /* embeddings: GPT-2 (Radford et al. 2019) has 0.02; before a norm 1 is possible */
    NORMAL("start_tied", "embedding", 0.02),
    NORMAL(NULL, "embedding", 1),
    NORMAL(NULL, "unembedding", 0.02),
    NORMAL(NULL, "place", 0.02),
    /* norms start as the identity; Gemma's factor is 1 + weight */
    ALL("start_tied", "attention_norm.weight", 0),
    ALL("start_tied", "ffn_norm.weight", 0),
    ALL("start_tied", "final_norm.weight", 0),
    ALL(NULL, "query_norm.weight", 1),
    ALL(NULL, "key_norm.weight", 1),
    ALL(NULL, "out_norm.weight", 1),
    ALL(NULL, "out_weight", 1),
    ALL(NULL, "latent_norm.weight", 1),
    ALL(NULL, "attention_norm.weight", 1),
    ALL(NULL, "ffn_norm.weight", 1),
    ALL(NULL, "final_norm.weight", 1),
    ALL(NULL, "attention_norm.shift", 0),
    ALL(NULL, "ffn_norm.shift", 0),
    ALL(NULL, "final_norm.shift", 0),
    /* gates: learned scores without an input start at 0 (Qiu et al. 2025) */
    ALL(NULL, "value_gate.weight", 0),
    ALL("start_gates", "sdpa_gate.weight", 0),
    FAN_IN(NULL, "query_gate.weight", 16),
    FAN_IN(NULL, "key_gate.weight", 16),
    FAN_IN(NULL, "sdpa_gate.weight", 16),
    FAN_IN(NULL, "output_gate.weight", 16),
    /* biases and sinks */
    ALL(NULL, "query_bias", 0),
    ALL(NULL, "key_bias", 0),
    ALL(NULL, "value_bias", 0),
    ALL(NULL, "output_bias", 0),
    ALL(NULL, "sink_logit", 0),
    ALL(NULL, "up_bias", 0),
    ALL(NULL, "down_bias", 0),
    ALL(NULL, "gate_bias", 0),
    ALL(NULL, "router_shift", 0),
    /* Sigma: the augmented queries read all heads, wider keys a narrow one */
    FAN_IN(NULL, "augment.up", 8),
    FAN_IN(NULL, "augment.gate", 8),
    FAN_IN(NULL, "augment.down", 12),
    FAN_IN(NULL, "widen.weight", 2),
    /* StructMoE: NeoX small_init sqrt(2 / (5 d)) for all but `down` */
    NORMAL(NULL, "expert.up", 0.15811388300841897),
    NORMAL(NULL, "expert.A", 0.15811388300841897),
    NORMAL(NULL, "expert.B", 0.15811388300841897),
    NORMAL(NULL, "expert.router", 0.15811388300841897),
    NORMAL(NULL, "expert.line", 0.15811388300841897),
    FAN_IN(NULL, "router", 16),
    FAN_IN(NULL, "shared_open", 16),
    ALL("start_mixture", "ffn.bias", 0),
    ALL("start_mixture", "ffn.counts", 0),
    ALL("start_mixture", "ffn.loads", 0.25), /* even: 1 / experts */
    /* latent attention: from the latent vector of width 32, from the residual stream */
    FAN_IN("start_latent", "latent_key", 16),
    FAN_IN("start_latent", "shared_key", 16),
    FAN_IN("start_latent", "attention.key", 32),
    FAN_IN("start_latent", "attention.value", 32),
    FAN_IN("start_latent", "output", 16),
    FAN_IN("start_latent", "turning_query", 16),
    FAN_IN("start_more", "latent_query", 16),
    FAN_IN("start_more", "query_of_latent", 12),
    FAN_IN("start_more", "turning_of_latent", 12),
    FAN_IN("start_more", "0.attention.key", 32),
    FAN_IN("start_more", "0.attention.value", 32),
    FAN_IN("start_more", "0.attention.output", 16),
    FAN_IN("start_more", "1.attention.output", 16),
    FAN_IN("start_more", "latent_key", 16),
    FAN_IN("start_more", "shared_key", 16),
    FAN_IN("start_more", "widen.up", 2),
    FAN_IN("start_more", "widen.down", 6),
    /* Mamba-2 (Dao and Gu 2024): A in 1 .. 16 by its logarithm; the step 0.001 .. 0.1 by the inverse
     * of softplus; gated delta rule alike */
    UNIFORM("start_recurrent", "3.attention.rate", 0, 2.772588722239781),
    UNIFORM("start_recurrent", "4.attention.rate", 0, 2.772588722239781),
    UNIFORM("start_recurrent", "3.attention.shift", -6.907255, -2.252168),
    UNIFORM("start_recurrent", "4.attention.shift", -6.907255, -2.252168),
    ALL("start_recurrent", "4.attention.skip", 1),
    ALL("start_recurrent", "4.attention.weight", 1),
    FAN_IN("start_recurrent", "4.attention.output", 32),
    FAN_IN("start_recurrent", "into", 16),
    FAN_IN("start_recurrent", "out_of", 16),
    FAN_IN("start_recurrent", "time", 16),
    /* causal convolutions of four positions */
    FAN_IN("start_recurrent", "conv.weight", 4),
    ALL("start_recurrent", "conv.shift", 0),
    /* LSTM, minGRU */
    FAN_IN("start_recurrent", "0.attention.input", 16),
    FAN_IN("start_recurrent", "0.attention.state", 16),
    ALL("start_recurrent", "0.attention.bias", 0),
    FAN_IN("start_recurrent", "candidate", 16),
    /* gated linear attention, rank 16; the gated delta rule */
    FAN_IN("start_recurrent", "5.attention.narrow", 16),
    FAN_IN("start_recurrent", "5.attention.wide", 16),
    ALL("start_recurrent", "5.attention.shift", 0),
    FAN_IN("start_recurrent", "3.attention.share", 16),
    FAN_IN("start_recurrent", "3.attention.fade", 16),
    /* RWKV-7 (Peng et al. 2025) */
    UNIFORM("start_recurrent", "6.attention.fade", -6, -1),
    ALL("start_recurrent", "6.attention.share", 0),
    ALL("start_recurrent", "removed", 0.85),
    ALL("start_recurrent", "replaced", 1),
    ALL("start_recurrent", "bonus", 0),
    ALL("start_recurrent", "6.attention.weight", 1),
    ALL("start_recurrent", "6.attention.bias", 0),
    ALL("start_recurrent", "shift.share", 0.5),
    FAN_IN("start_recurrent", "rank.narrow", 16),
    FAN_IN("start_recurrent", "rank.wide", 32),
    FAN_IN("start_recurrent", "receptance", 16),
    FAN_IN("start_recurrent", "attention.output", 16),
    FAN_IN("start_recurrent", "attention.gate", 16),
    /* attention, feed-forward networks */
    FAN_IN(NULL, "query", 16),
    FAN_IN(NULL, "key", 16),
    FAN_IN(NULL, "value", 16),
    FAN_IN(NULL, "attention.output", 8),
    FAN_IN(NULL, "up", 16),
    FAN_IN(NULL, "gate", 16),
    FAN_IN(NULL, "down", 24),
};

enum { STARTS = sizeof starts / sizeof *starts };

/* A row matches the end of a name: "conv.weight" fits "query_conv.weight". */
static bool fits(const Start *start, const char *model, const char *path) {
    size_t length = strlen(path), end = strlen(start->path);
    if (start->model && strcmp(start->model, model) != 0) return false;
    if (length < end || strcmp(path + length - end, start->path) != 0) return false;
    bool whole = length == end || path[length - end - 1] == '.';
    return whole || (strchr(start->path, '.') && path[length - end - 1] == '_');
}

static void check_start(const char *model, const MoecTensor *tensor, bool *used) {
    int i = 0;
    while (i < STARTS && !fits(&starts[i], model, tensor->name)) i++;
    if (i == STARTS) fail_msg("%s: no row for '%s'", model, tensor->name);
    const Start *start = &starts[i];
    const double b =
        start->b < 0 && start->kind == MOEC_INIT_NORMAL ? 1 / sqrt(-start->b) : start->b;
    const double off = start->kind == MOEC_INIT_UNIFORM ? 0.01 : 1e-9;
    used[i] = true;
    if (tensor->init != start->kind || fabs(tensor->a - start->a) > off ||
        (start->kind != MOEC_INIT_CONSTANT && fabs(tensor->b - b) > off))
        fail_msg("%s: '%s' starts as kind %d (%.9g, %.9g), not %d (%.9g, %.9g)", model,
                 tensor->name, (int)tensor->init, tensor->a, tensor->b, (int)start->kind, start->a, b);
}

static void test_starts(void **state) {
    (void)state;
    static const char *const models[] = {"start_plain",     "start_gates",   "start_more",
                                         "start_tied",      "start_mixture", "start_latent",
                                         "start_recurrent", "start_images"};
    bool used[STARTS] = {false};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        Rules rules = rules_open(models[m], MOEC_TRAIN);
        const MoecTable *table = moec_table(rules.compiler, rules.program);
        for (int i = 0; i < table->parameter_count; i++)
            check_start(models[m], &table->parameters[i], used);
        for (int i = 0; i < table->state_count; i++)
            check_start(models[m], &table->states[i], used);
        rules_close(&rules);
    }
    for (int i = 0; i < STARTS; i++)
        if (!used[i]) fail_msg("no tensor for the row '%s'", starts[i].path);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_starts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
