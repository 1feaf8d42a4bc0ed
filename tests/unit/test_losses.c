/* losses: losses, auxiliary losses, routing, states and initialization of the standard library,
 * compared with the published formulas, computed here. Runs in the root of the project. */
#include "rules.h"

#include "abi/abi.h"

/* ---- losses ---- */

enum { BATCH = 2, CONTEXT = 8, WORDS = 16, ROWS = BATCH * CONTEXT };

static void set_random(const Rules *rules, uint64_t seed) {
    const MoecTable *table = moec_table(rules->compiler, rules->program);
    const MoecTensor *all = table->parameters;
    for (int i = 0; i < table->parameter_count; i++) {
        size_t size = 1;
        for (int j = 0; j < all[i].rank; j++) size *= (size_t)all[i].shape[j];
        double *values = calloc(size + 1, sizeof *values);
        fill(values, size, seed + (uint64_t)i);
        moec_interpreter_set(rules->eval, all[i].name, values, size);
        free(values);
    }
}

/* The mean over all positions of -log softmax(logits)[target]. */
static void test_cross_entropy(void **state) {
    (void)state;
    Rules rules = rules_open("small", MOEC_FORWARD);
    double tokens[ROWS], targets[ROWS], logits[ROWS * WORDS], loss, expected = 0;
    for (int i = 0; i < ROWS; i++) tokens[i] = i * 7 % WORDS, targets[i] = (i * 5 + 3) % WORDS;
    set_random(&rules, 5);
    rules_set(&rules, "tokens", tokens, ROWS);
    rules_set(&rules, "targets", targets, ROWS);
    rules_run(&rules);
    rules_get(&rules, "logits", logits, ROWS * WORDS);
    rules_get(&rules, "loss", &loss, 1);
    for (int i = 0; i < ROWS; i++) {
        double sum = 0;
        for (int v = 0; v < WORDS; v++) sum += exp(logits[i * WORDS + v]);
        expected -= log(exp(logits[i * WORDS + (int)targets[i]]) / sum) / ROWS;
    }
    near("cross-entropy", loss, expected);
    rules_close(&rules);
}

enum { PATCHES = 4, NUMBERS = 3, IMAGES = BATCH * PATCHES * NUMBERS };

/* Lipman et al. 2022: at time t the network sees (1 - t) image + t noise and predicts the velocity
 * noise - image; the loss is the mean squared error. */
static void test_flow_matching(void **state) {
    (void)state;
    Rules rules = rules_open("images", MOEC_FORWARD),
          same = rules_open("images", MOEC_REFINE);
    double image[IMAGES], noise[IMAGES], seen[IMAGES], velocity[IMAGES], other[IMAGES];
    /* Of 5 refinements, number 3 is at time 1 - 3 / 5 and subtracts a fifth of the velocity. */
    double time[BATCH] = {0.4, 0.4}, label[BATCH] = {1, 3}, loss, expected = 0, step = 3, steps = 5;
    fill(image, IMAGES, 1);
    fill(noise, IMAGES, 2);
    for (int i = 0; i < IMAGES; i++) {
        double t = time[i / (PATCHES * NUMBERS)];
        seen[i] = (1 - t) * image[i] + t * noise[i];
    }
    set_random(&rules, 5);
    set_random(&same, 5);
    rules_set(&rules, "image", image, IMAGES);
    rules_set(&rules, "noise", noise, IMAGES);
    rules_set(&same, "input:image", seen, IMAGES);
    rules_set(&rules, "time", time, BATCH);
    rules_set(&same, "scalar:step", &step, 1);
    rules_set(&same, "scalar:steps", &steps, 1);
    rules_set(&rules, "label", label, BATCH);
    rules_set(&same, "label", label, BATCH);
    rules_run(&rules);
    rules_run(&same);
    rules_get(&rules, "velocity", velocity, IMAGES);
    rules_get(&same, "output:image", other, IMAGES);
    rules_get(&rules, "loss", &loss, 1);
    for (int i = 0; i < IMAGES; i++) {
        near("refinement", other[i], seen[i] - velocity[i] / 5);
        expected += pow(velocity[i] - (noise[i] - image[i]), 2) / IMAGES;
    }
    near("flow matching", loss, expected);
    rules_close(&rules);
    rules_close(&same);
}

/* ---- dropout ---- */

enum { THIN_BATCH = 64, THIN_CONTEXT = 64, DIM = 6, THIN = THIN_BATCH * THIN_CONTEXT * DIM };

/* Of inputs of one, a fraction q is kept as 1 / (1 - rate): the mean is q / (1 - rate), near 1, and
 * the mean square is the mean times 1 / (1 - rate). With whole sequences, the square of the mean of
 * a sequence is its mean square; with single values it is near 1. */
static void check_dropout(const char *model, bool sequences, double error) {
    Rules rules = rules_open(model, MOEC_TRAIN);
    double *ones = calloc(THIN, sizeof *ones), loss, squares, wholes;
    for (int i = 0; i < THIN; i++) ones[i] = 1;
    rules_set(&rules, "x", ones, THIN);
    rules_run(&rules);
    rules_get(&rules, "loss", &loss, 1);
    rules_get(&rules, "squares", &squares, 1);
    rules_get(&rules, "sequences", &wholes, 1);
    if (fabs(loss - 1) > error) fail_msg("%s: the mean is %g, not 1 +- %g", model, loss, error);
    near("mean square", squares, loss / 0.75);
    if (sequences)
        near("squares of sequences", wholes, loss / 0.75);
    else if (fabs(wholes - 1) > 0.05)
        fail_msg("%s: the mean square over sequences is %g, not 1", model, wholes);
    free(ones);
    rules_close(&rules);
}

/* Errors of four standard deviations: sqrt(rate / (1 - rate) / count). */
static void test_dropout(void **state) {
    (void)state;
    check_dropout("dropped", false, 4 * sqrt(0.25 / 0.75 / THIN));
    check_dropout("paths", true, 4 * sqrt(0.25 / 0.75 / THIN_BATCH));
}

/* ---- mixtures ---- */

enum { EXPERTS = 5, TOP = 2, HIDDEN = 4, XS = ROWS * DIM };

typedef struct Mixture {
    double router[DIM * EXPERTS], up[EXPERTS * DIM * HIDDEN], gate[EXPERTS * DIM * HIDDEN],
        down[EXPERTS * HIDDEN * DIM];
    double x[XS], bias[EXPERTS];
    bool sigmoid, renormalised;
    double route, multiplier;
    /* results */
    double y[XS], logit[ROWS][EXPERTS], p[ROWS][EXPERTS], load[EXPERTS];
    bool chosen[ROWS][EXPERTS];
} Mixture;

static void score(Mixture *mixture, int row) {
    double *logit = mixture->logit[row], *p = mixture->p[row], sum = 0;
    for (int n = 0; n < EXPERTS; n++) {
        logit[n] = 0;
        for (int d = 0; d < DIM; d++)
            logit[n] += mixture->x[row * DIM + d] * mixture->router[d * EXPERTS + n];
        sum += exp(logit[n]);
    }
    for (int n = 0; n < EXPERTS; n++)
        p[n] = mixture->sigmoid ? 1 / (1 + exp(-logit[n])) : exp(logit[n]) / sum;
}

/* The bias of auxiliary-loss-free balancing ranks experts and does not weight them. */
static void select_experts(Mixture *mixture, int row) {
    for (int n = 0; n < EXPERTS; n++) {
        double own = mixture->p[row][n] + mixture->bias[n];
        int better = 0;
        for (int m = 0; m < EXPERTS; m++) {
            double other = mixture->p[row][m] + mixture->bias[m];
            better += other > own || (other == own && m < n);
        }
        mixture->chosen[row][n] = better < TOP;
        mixture->load[n] += (better < TOP) / (double)(ROWS * TOP);
    }
}

/* SwiGLU (Shazeer 2020): (silu(x gate) * (x up)) down. */
static void add_expert(Mixture *mixture, int row, int n, double weight) {
    for (int f = 0; f < HIDDEN; f++) {
        double a = 0, b = 0;
        for (int d = 0; d < DIM; d++) {
            a += mixture->x[row * DIM + d] * mixture->gate[(n * DIM + d) * HIDDEN + f];
            b += mixture->x[row * DIM + d] * mixture->up[(n * DIM + d) * HIDDEN + f];
        }
        double h = a / (1 + exp(-a)) * b;
        for (int d = 0; d < DIM; d++)
            mixture->y[row * DIM + d] += weight * h * mixture->down[(n * HIDDEN + f) * DIM + d];
    }
}

static void compute(Mixture *mixture) {
    memset(mixture->y, 0, sizeof mixture->y);
    memset(mixture->load, 0, sizeof mixture->load);
    for (int row = 0; row < ROWS; row++) {
        double total = 0;
        score(mixture, row);
        select_experts(mixture, row);
        for (int n = 0; n < EXPERTS; n++) total += mixture->chosen[row][n] * mixture->p[row][n];
        if (!mixture->renormalised) total = 1;
        for (int n = 0; n < EXPERTS; n++)
            if (mixture->chosen[row][n])
                add_expert(mixture, row, n,
                           mixture->multiplier * mixture->route * mixture->p[row][n] / total);
    }
}

/* Fedus et al. 2021, equations 4 to 6, with k experts per token: N times the sum of the share of
 * the assignments and the mean probability of each expert. Sigmoid scores are normalized first. */
static double balance_of(const Mixture *mixture, const double *load) {
    double sum = 0;
    for (int n = 0; n < EXPERTS; n++) {
        double mean = 0;
        for (int row = 0; row < ROWS; row++) {
            double total = 0;
            for (int m = 0; m < EXPERTS; m++) total += mixture->p[row][m];
            mean += mixture->p[row][n] / total / ROWS;
        }
        sum += load[n] * mean;
    }
    return EXPERTS * sum;
}

/* Zoph et al. 2022, equation 5: the mean of the squared log-sum-exp of the router logits. */
static double z_loss(const Mixture *mixture) {
    double mean = 0;
    for (int row = 0; row < ROWS; row++) {
        double sum = 0;
        for (int n = 0; n < EXPERTS; n++) sum += exp(mixture->logit[row][n]);
        mean += log(sum) * log(sum) / ROWS;
    }
    return mean;
}

static Rules open_mixture(const char *model, MoecGraph graph, Mixture *mixture) {
    Rules rules = rules_open(model, graph);
    const size_t matrix = EXPERTS * DIM * HIDDEN;
    fill(mixture->router, DIM * EXPERTS, 11);
    fill(mixture->up, matrix, 12);
    fill(mixture->gate, matrix, 13);
    fill(mixture->down, matrix, 14);
    fill(mixture->x, XS, 15);
    rules_set(&rules, "part.router", mixture->router, DIM * EXPERTS);
    rules_set(&rules, "part.expert.up", mixture->up, matrix);
    rules_set(&rules, "part.expert.gate", mixture->gate, matrix);
    rules_set(&rules, "part.expert.down", mixture->down, matrix);
    rules_set(&rules, "x", mixture->x, XS);
    return rules;
}

static void check_mixture(const char *model, Mixture mixture) {
    Rules rules = open_mixture(model, MOEC_FORWARD, &mixture);
    double y[XS], busiest, value, most = 0;
    rules_run(&rules);
    compute(&mixture);
    rules_get(&rules, "y", y, XS);
    for (int i = 0; i < XS; i++) near(model, y[i], mixture.y[i]);
    for (int n = 0; n < EXPERTS; n++) most = fmax(most, mixture.load[n]);
    rules_get(&rules, "part.max_expert_load", &busiest, 1);
    near("busiest", busiest, EXPERTS * most);
    rules_get(&rules, "balance", &value, 1);
    near("load-balancing loss", value, 0.1 * balance_of(&mixture, mixture.load));
    rules_get(&rules, "router_z", &value, 1);
    near("router z-loss", value, 0.2 * z_loss(&mixture));
    rules_close(&rules);
}

static void test_mixture(void **state) {
    (void)state;
    check_mixture("routed", (Mixture){.route = 1, .multiplier = 1});
    check_mixture("renormalised", (Mixture){.renormalised = true, .route = 2, .multiplier = 0.5});
    check_mixture("by_sigmoid", (Mixture){
                                    .sigmoid = true,
                                    .renormalised = true,
                                    .route = 1,
                                    .multiplier = 1,
                                });
}

/* Wang et al. 2024, algorithm 1: b_i += u sign(mean load - load of i), from 0; here loads are
 * shares, whose mean is 1 / N. The loss of each step shows that the bias ranks. */
static void test_steer(void **state) {
    (void)state;
    Mixture mixture = {.sigmoid = true, .renormalised = true, .route = 1, .multiplier = 1};
    Rules rules = open_mixture("steered", MOEC_TRAIN, &mixture);
    double bias[EXPERTS], loss;
    rules_set(&rules, "part.bias", mixture.bias, EXPERTS);
    for (int step = 0; step < 5; step++) {
        double mean = 0;
        compute(&mixture);
        rules_run(&rules);
        for (int i = 0; i < XS; i++) mean += mixture.y[i] / XS;
        rules_get(&rules, "loss", &loss, 1);
        near("mean of the result", loss, mean);
        for (int n = 0; n < EXPERTS; n++) {
            double less = 1.0 / EXPERTS - mixture.load[n];
            mixture.bias[n] += 0.25 * ((less > 0) - (less < 0));
        }
        rules_get(&rules, "part.bias", bias, EXPERTS);
        for (int n = 0; n < EXPERTS; n++) near("bias", bias[n], mixture.bias[n]);
    }
    rules_close(&rules);
}

/* Global-batch balance: the load is gathered over the step, and the loss uses that load. */
static void test_global_balance(void **state) {
    (void)state;
    Mixture mixture = {.route = 1, .multiplier = 1};
    const double loads[EXPERTS] = {0.1, 0.4, 0.2, 0.25, 0.05};
    double gathered[EXPERTS], value;
    Rules rules = open_mixture("gathered", MOEC_GATHER, &mixture);
    rules_run(&rules);
    compute(&mixture);
    rules_get(&rules, "output:part.loads", gathered, EXPERTS);
    for (int n = 0; n < EXPERTS; n++) near("gathered load", gathered[n], mixture.load[n]);
    rules_close(&rules);
    rules = open_mixture("gathered", MOEC_TRAIN, &mixture);
    rules_set(&rules, "part.loads", loads, EXPERTS);
    rules_run(&rules);
    rules_get(&rules, "balance", &value, 1);
    near("loss of the gathered load", value, 0.1 * balance_of(&mixture, loads));
    rules_close(&rules);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cross_entropy), cmocka_unit_test(test_flow_matching),
        cmocka_unit_test(test_dropout),       cmocka_unit_test(test_mixture),
        cmocka_unit_test(test_steer),         cmocka_unit_test(test_global_balance),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
