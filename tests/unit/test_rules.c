/* rules: optimizers, schedules and the average of the weights against the published update rules, which this test computes from
 * the formulas of the papers. Runs in the root of the project. */
#include "rules.h"

/* ---- element by element ---- */

enum { STEPS = 4 };

typedef struct Element {
    double weight, m, v;
    double sum, shares; /* of the weights so far, with a factor of 0.9 per step */
} Element;

typedef struct Numbers {
    double lr, clip, decay; /* decay of this parameter */
    long step;              /* from 1 */
} Numbers;

typedef void (*Update)(Element *element, double gradient, const Numbers *numbers);

/* Sutskever et al. 2013, as in PyTorch: the decay is added to the gradient. */
static void sgd(Element *element, double gradient, const Numbers *numbers) {
    gradient = numbers->clip * gradient + numbers->decay * element->weight;
    element->m = 0.9 * element->m + gradient;
    element->weight -= numbers->lr * element->m;
}

static void nesterov(Element *element, double gradient, const Numbers *numbers) {
    gradient = numbers->clip * gradient + numbers->decay * element->weight;
    element->m = 0.8 * element->m + gradient;
    element->weight -= numbers->lr * (gradient + 0.8 * element->m);
}

/* Loshchilov and Hutter 2017, algorithm 2, with the decay times the learning rate. */
static void adamw_with(Element *element, double gradient, const Numbers *numbers, double beta1,
                       double beta2, double eps) {
    double g = numbers->clip * gradient, old = element->weight, t = (double)numbers->step;
    element->m = beta1 * element->m + (1 - beta1) * g;
    element->v = beta2 * element->v + (1 - beta2) * g * g;
    double m = element->m / (1 - pow(beta1, t)), v = element->v / (1 - pow(beta2, t));
    element->weight = old - numbers->lr * m / (sqrt(v) + eps) - numbers->lr * numbers->decay * old;
}

static void adamw(Element *element, double gradient, const Numbers *numbers) {
    adamw_with(element, gradient, numbers, 0.9, 0.95, 1e-8);
}

static void adamw_all(Element *element, double gradient, const Numbers *numbers) {
    adamw_with(element, gradient, numbers, 0.8, 0.9, 1e-3);
}

/* The average of the weights after each step; weights of t steps before have the factor 0.9^t. */
static void averaged(Element *element, double gradient, const Numbers *numbers) {
    sgd(element, gradient, numbers);
    element->sum = 0.9 * element->sum + element->weight;
    element->shares = 0.9 * element->shares + 1;
}

static bool has_state(const Rules *rules, const char *name) {
    double value;
    return moec_interpreter_get(rules->eval, name, &value, 1);
}

/* `decay`: of matrices, and of vectors. */
static void check_elements(const char *model, Update update, double of_matrix, double of_vector) {
    Rules rules = rules_open(model, MOEC_UPDATE);
    for (int matrix = 0; matrix < 2; matrix++) {
        Element element = {.weight = 0.7};
        Numbers numbers = {.clip = 0.5, .decay = matrix ? of_matrix : of_vector};
        rules_number(&rules, "weight", 0.7);
        if (has_state(&rules, "m")) rules_number(&rules, "m", 0);
        if (has_state(&rules, "v")) rules_number(&rules, "v", 0);
        if (has_state(&rules, "average")) rules_number(&rules, "average", 0.7);
        for (long step = 1; step <= STEPS; step++) {
            double gradient, weight;
            fill(&gradient, 1, (uint64_t)step);
            numbers.step = step;
            numbers.lr = 0.1 / (double)step;
            rules_number(&rules, "lr", numbers.lr);
            moec_interpreter_set(rules.eval, "step", &(double){(double)step}, 1);
            moec_interpreter_set(rules.eval, "matrix", &(double){matrix}, 1);
            rules_number(&rules, "clip", numbers.clip);
            rules_number(&rules, "grad", gradient);
            rules_run(&rules);
            update(&element, gradient, &numbers);
            rules_get(&rules, "weight", &weight, 1);
            near(model, weight, element.weight);
        }
        double average;
        if (update == averaged) {
            rules_get(&rules, "average", &average, 1);
            near("average", average, element.sum / element.shares);
        }
    }
    rules_close(&rules);
}

static void test_sgd(void **state) {
    (void)state;
    check_elements("by_sgd", sgd, 0.1, 0);
    check_elements("by_nesterov", nesterov, 0.1, 0.1);
}

static void test_adamw(void **state) {
    (void)state;
    check_elements("by_adamw", adamw, 0.1, 0);
    check_elements("by_adamw_all", adamw_all, 0.2, 0.2);
}

/* ---- matrices ---- */

enum { SIDE = 16, MOST = SIDE * SIDE };

typedef struct Matrix {
    int rows, columns;
    double at[MOST]; /* [row, column] */
} Matrix;

static Matrix matrix_new(int rows, int columns) {
    Matrix matrix = {.rows = rows, .columns = columns};
    return matrix;
}

static Matrix transposed(const Matrix *a) {
    Matrix t = matrix_new(a->columns, a->rows);
    for (int i = 0; i < a->rows; i++)
        for (int j = 0; j < a->columns; j++) t.at[j * t.columns + i] = a->at[i * a->columns + j];
    return t;
}

static Matrix product(const Matrix *a, const Matrix *b) {
    Matrix c = matrix_new(a->rows, b->columns);
    for (int i = 0; i < a->rows; i++)
        for (int j = 0; j < b->columns; j++)
            for (int k = 0; k < a->columns; k++)
                c.at[i * c.columns + j] += a->at[i * a->columns + k] * b->at[k * b->columns + j];
    return c;
}

/* a * x + b * y */
static Matrix sum_of(double a, const Matrix *x, double b, const Matrix *y) {
    Matrix c = matrix_new(x->rows, x->columns);
    for (int i = 0; i < x->rows * x->columns; i++) c.at[i] = a * x->at[i] + b * y->at[i];
    return c;
}

static double mean_square(const Matrix *a) {
    double sum = 0;
    for (int i = 0; i < a->rows * a->columns; i++) sum += a->at[i] * a->at[i];
    return sum / (a->rows * a->columns);
}

/* One rotation of Jacobi's method for the pair (p, q) of a symmetric matrix; vectors: columns. */
static void rotate(Matrix *a, Matrix *vectors, int p, int q) {
    const int n = a->rows;
    double apq = a->at[p * n + q];
    if (apq == 0) return;
    double theta = 0.5 * atan2(2 * apq, a->at[q * n + q] - a->at[p * n + p]);
    double c = cos(theta), s = sin(theta);
    for (int k = 0; k < n; k++) {
        double x = a->at[k * n + p], y = a->at[k * n + q];
        a->at[k * n + p] = c * x - s * y;
        a->at[k * n + q] = s * x + c * y;
    }
    for (int k = 0; k < n; k++) {
        double x = a->at[p * n + k], y = a->at[q * n + k];
        a->at[p * n + k] = c * x - s * y;
        a->at[q * n + k] = s * x + c * y;
        x = vectors->at[k * n + p], y = vectors->at[k * n + q];
        vectors->at[k * n + p] = c * x - s * y;
        vectors->at[k * n + q] = s * x + c * y;
    }
}

/* The power of a symmetric positive matrix, from its eigenvalues. */
static Matrix power_of(Matrix a, double power) {
    const int n = a.rows;
    Matrix vectors = matrix_new(n, n), result = matrix_new(n, n);
    for (int i = 0; i < n; i++) vectors.at[i * n + i] = 1;
    for (int sweep = 0; sweep < 40; sweep++)
        for (int p = 0; p < n; p++)
            for (int q = p + 1; q < n; q++) rotate(&a, &vectors, p, q);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k++)
                result.at[i * n + j] +=
                    vectors.at[i * n + k] * pow(a.at[k * n + k], power) * vectors.at[j * n + k];
    return result;
}

typedef struct Kept {
    Matrix m, left, right;
    Matrix sum; /* of the weights so far, with a factor of 0.9 per step */
    double shares;
} Kept;

typedef void (*MatrixUpdate)(Matrix *w, const Matrix *g, const Numbers *numbers, Kept *kept);

/* Jordan et al. 2024: five Newton-Schulz steps X <- a X + (b G + c G G) X with G = X X'. */
static Matrix newton_schulz(Matrix x) {
    bool tall = x.rows > x.columns;
    if (tall) x = transposed(&x);
    x = sum_of(1 / sqrt(mean_square(&x) * x.rows * x.columns), &x, 0, &x);
    for (int i = 0; i < 5; i++) {
        Matrix t = transposed(&x), gram = product(&x, &t), square = product(&gram, &gram);
        Matrix odd = sum_of(-4.7750, &gram, 2.0315, &square), moved = product(&odd, &x);
        x = sum_of(3.4445, &x, 1, &moved);
    }
    return tall ? transposed(&x) : x;
}

/* Liu et al. 2025: 0.2 sqrt(max(rows, columns)), decay times the learning rate. */
static void muon(Matrix *w, const Matrix *g, const Numbers *numbers, Kept *kept) {
    kept->m = sum_of(0.95, &kept->m, 0.05 * numbers->clip, g);
    Matrix x = newton_schulz(sum_of(0.95, &kept->m, 0.05 * numbers->clip, g));
    double scale = 0.2 * sqrt(fmax(w->rows, w->columns));
    *w = sum_of(1 - numbers->lr * 0.1, w, -numbers->lr * scale, &x);
}

/* The first version: sqrt(max(1, outputs / inputs)) and no Nesterov momentum. */
static void plain_muon(Matrix *w, const Matrix *g, const Numbers *numbers, Kept *kept) {
    kept->m = sum_of(0.95, &kept->m, 0.05 * numbers->clip, g);
    Matrix x = newton_schulz(kept->m);
    double scale = sqrt(fmax(1, (double)w->columns / w->rows));
    *w = sum_of(1 - numbers->lr * 0.3, w, -numbers->lr * scale, &x);
}

static Matrix damped_root(const Matrix *a) {
    Matrix damped = *a;
    double trace = 0;
    for (int i = 0; i < a->rows; i++) trace += a->at[i * a->rows + i];
    for (int i = 0; i < a->rows; i++) damped.at[i * a->rows + i] += 1e-4 * trace / a->rows;
    return power_of(damped, -0.25);
}

/* Gupta et al. 2018: L^-1/4 M R^-1/4, scaled to a root mean square of 0.2. */
static void shampoo(Matrix *w, const Matrix *gradient, const Numbers *numbers, Kept *kept) {
    Matrix g = sum_of(numbers->clip, gradient, 0, gradient), t = transposed(&g);
    Matrix outer = product(&g, &t), inner = product(&t, &g);
    kept->m = sum_of(0.9, &kept->m, 0.1, &g);
    kept->left = sum_of(0.95, &kept->left, 0.05, &outer);
    kept->right = sum_of(0.95, &kept->right, 0.05, &inner);
    Matrix left = damped_root(&kept->left), right = damped_root(&kept->right);
    Matrix x = product(&left, &kept->m);
    x = product(&x, &right);
    *w = sum_of(1 - numbers->lr * 0.1, w, -numbers->lr * 0.2 / sqrt(mean_square(&x)), &x);
}

/* Shazeer and Stern 2018, algorithms 4 and 5: beta2 = 1 - t^-0.8, clipping at 1, relative steps;
 * the estimate is R C / mean(R). kept.left: R in its first column; kept.right: C in its first row. */
static void adafactor(Matrix *w, const Matrix *g, const Numbers *numbers, Kept *kept) {
    double t = (double)numbers->step, beta = 1 - pow(t, -0.8), mean = 0;
    double *row = kept->left.at, *column = kept->right.at;
    Matrix u = matrix_new(w->rows, w->columns);
    for (int i = 0; i < w->rows; i++) row[i] *= beta;
    for (int j = 0; j < w->columns; j++) column[j] *= beta;
    for (int i = 0; i < w->rows * w->columns; i++) {
        double square = numbers->clip * g->at[i] * numbers->clip * g->at[i];
        row[i / w->columns] += (1 - beta) * square / w->columns;
        column[i % w->columns] += (1 - beta) * square / w->rows;
    }
    for (int i = 0; i < w->rows; i++) mean += row[i] / w->rows;
    for (int i = 0; i < w->rows * w->columns; i++)
        u.at[i] =
            numbers->clip * g->at[i] / sqrt(row[i / w->columns] * column[i % w->columns] / mean);
    double pace = fmin(numbers->lr, 1 / sqrt(t)) * fmax(1e-3, sqrt(mean_square(w)));
    *w = sum_of(1 - numbers->lr * 0.1, w, -pace / fmax(1, sqrt(mean_square(&u))), &u);
}

static void check_average(const Rules *rules, const char *path, const Kept *kept) {
    Matrix average = kept->sum;
    const size_t count = (size_t)(average.rows * average.columns);
    char name[128];
    snprintf(name, sizeof name, "optimizer.average:%s", path);
    rules_get(rules, name, average.at, count);
    for (size_t i = 0; i < count; i++) near(name, average.at[i], kept->sum.at[i] / kept->shares);
}

/* A parameter [rows, columns] of the model, wide or tall. */
static void check_matrix(const char *model, MatrixUpdate update, const char *path, int rows,
                         int columns) {
    Rules rules = rules_open(model, MOEC_STEP);
    Matrix w = matrix_new(rows, columns), g = w, actual = w;
    Kept kept = {
        .m = w, .sum = w, .left = matrix_new(rows, rows), .right = matrix_new(columns, columns)};
    const size_t count = (size_t)(rows * columns);
    char gradient[128];
    snprintf(gradient, sizeof gradient, "gradient:%s", path);
    fill(w.at, count, 99);
    rules_set(&rules, path, w.at, count);
    for (long step = 1; step <= STEPS; step++) {
        Numbers numbers = {.lr = 0.05 / (double)step, .clip = 0.5, .step = step};
        fill(g.at, count, (uint64_t)step);
        rules_set(&rules, gradient, g.at, count);
        rules_number(&rules, "lr", numbers.lr);
        rules_number(&rules, "clip", numbers.clip);
        moec_interpreter_set(rules.eval, "step", &(double){(double)step}, 1);
        rules_run(&rules);
        update(&w, &g, &numbers, &kept);
        kept.sum = sum_of(0.9, &kept.sum, 1, &w);
        kept.shares = 0.9 * kept.shares + 1;
        rules_get(&rules, path, actual.at, count);
        for (size_t i = 0; i < count; i++) {
            if (!(fabs(actual.at[i] - w.at[i]) <= 1e-6))
                fail_msg("%s, %s, step %ld: element %zu is %.10g, not %.10g", model, path, step, i,
                         actual.at[i], w.at[i]);
        }
    }
    if (!strncmp(model, "averaged", 8)) check_average(&rules, path, &kept);
    rules_close(&rules);
}

static void check_matrices(const char *model, MatrixUpdate update) {
    check_matrix(model, update, "block.0.ffn.up", 6, 10);
    check_matrix(model, update, "block.0.ffn.down", 10, 6);
    check_matrix(model, update, "block.0.attention.output", 8, 6);
}

static void test_muon(void **state) {
    (void)state;
    check_matrices("by_muon", muon);
    check_matrices("by_plain_muon", plain_muon);
}

static void test_average(void **state) {
    (void)state;
    check_elements("averaged", averaged, 0, 0);
    check_matrices("averaged_matrices", muon);
}

static void test_shampoo(void **state) {
    (void)state;
    check_matrices("by_shampoo", shampoo);
}

/* For a vector every mean square is stored. */
static void adafactor_vector(Matrix *w, const Matrix *g, const Numbers *numbers, Kept *kept) {
    double t = (double)numbers->step, beta = 1 - pow(t, -0.8);
    Matrix u = matrix_new(w->rows, w->columns);
    for (int i = 0; i < w->rows * w->columns; i++) {
        double move = numbers->clip * g->at[i];
        kept->m.at[i] = beta * kept->m.at[i] + (1 - beta) * move * move;
        u.at[i] = move / sqrt(kept->m.at[i]);
    }
    double pace = fmin(numbers->lr, 1 / sqrt(t)) * fmax(1e-3, sqrt(mean_square(w)));
    *w = sum_of(1, w, -pace / fmax(1, sqrt(mean_square(&u))), &u);
}

static void test_adafactor(void **state) {
    (void)state;
    check_matrices("by_adafactor", adafactor);
    check_matrix("by_adafactor", adafactor_vector, "final_norm.weight", 6, 1);
}

/* ---- schedules ---- */

enum { RUN = 60, WARM = 10 };

/* Loshchilov and Hutter 2016: half a cosine over the steps after the warm-up. */
static double cosine(double t) {
    return 0.1 + 0.9 * (1 + cos(acos(-1) * (t - WARM) / (RUN - WARM))) / 2;
}

/* Hu et al. 2024: constant, then linear to the floor over the last fifth. */
static double wsd(double t) {
    const double last = RUN / 5.0;
    return t < RUN - last ? 1 : 0.1 + 0.9 * (RUN - t) / last;
}

static double constant(double t) {
    return t >= 0 ? 1 : 0;
}

static void check_schedule(const char *model, double (*after_warmup)(double t)) {
    Rules rules = rules_open(model, MOEC_UPDATE);
    moec_interpreter_set(rules.eval, "steps", &(double){RUN}, 1);
    for (long t = 0; t < RUN; t++) {
        double rate;
        rules_number(&rules, "schedule_step", (double)t);
        rules_run(&rules);
        rules_get(&rules, "rate", &rate, 1);
        near(model, rate, t < WARM ? (double)(t + 1) / WARM : after_warmup((double)t));
    }
    rules_close(&rules);
}

static void test_schedules(void **state) {
    (void)state;
    check_schedule("constant_rate", constant);
    check_schedule("cosine_rate", cosine);
    check_schedule("wsd_rate", wsd);
}

/* An argument selects tests by name. */
int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sgd),       cmocka_unit_test(test_adamw),
        cmocka_unit_test(test_average),   cmocka_unit_test(test_muon),
        cmocka_unit_test(test_shampoo),   cmocka_unit_test(test_adafactor),
        cmocka_unit_test(test_schedules),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
