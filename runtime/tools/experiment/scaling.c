/* Fits of the loss over the size of a model and the number of training tokens:
 *
 *     L(N, D) = E + A / N^alpha + B / D^beta         Hoffmann et al. 2022, arXiv 2203.15556
 *
 * Relative errors are squared. For given exponents the other numbers are a linear problem with
 * coefficients of at least 0 (variable projection, Golub and Pereyra 1973). If D is a multiple of
 * N, the two terms are one. */
#include "tools/experiment/internal.h"

#include "base/memory.h"
#include "data/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TERMS = 3 };

/* ---- the linear part ---- */

/* Solves the normal equations of the terms in the set; false if they are singular. */
static bool solve_terms(double matrix[TERMS][TERMS], const double *right, unsigned set,
                        double *values) {
    double rows[TERMS][TERMS + 1];
    int used[TERMS], count = 0;
    for (int i = 0; i < TERMS; i++) {
        values[i] = 0;
        if (set >> i & 1) used[count++] = i;
    }
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < count; k++) rows[i][k] = matrix[used[i]][used[k]];
        rows[i][count] = right[used[i]];
    }
    for (int i = 0; i < count; i++) {
        double diagonal = matrix[used[i]][used[i]];
        if (!(rows[i][i] > 1e-13 * diagonal)) return false;
        for (int k = i + 1; k < count; k++) {
            double factor = rows[k][i] / rows[i][i];
            for (int j = i; j <= count; j++) rows[k][j] -= factor * rows[i][j];
        }
    }
    for (int i = count - 1; i >= 0; i--) {
        double value = rows[i][count];
        for (int k = i + 1; k < count; k++) value -= rows[i][k] * values[used[k]];
        values[used[i]] = value / rows[i][i];
    }
    return true;
}

/* The points with sizes in units of their means, so that coefficients are losses. */
typedef struct ScalingPoints {
    const ScalingPoint *points;
    int count;
    bool tied; /* D is a multiple of N */
    double size_unit, token_unit;
} ScalingPoints;

static void term_values(const ScalingPoints *all, const ScalingPoint *point,
                        const double *exponents, double *terms) {
    terms[0] = 1;
    terms[1] = pow(point->parameters / all->size_unit, -exponents[0]);
    terms[2] = all->tied ? 0 : pow(point->tokens / all->token_unit, -exponents[1]);
}

/* The best coefficients for these exponents, all at least 0; returns the sum of squares. */
static double fit_terms(const ScalingPoints *all, const double *exponents, double *values) {
    double matrix[TERMS][TERMS] = {{0}}, right[TERMS] = {0}, terms[TERMS], least = INFINITY;
    for (int i = 0; i < all->count; i++) {
        const ScalingPoint *point = &all->points[i];
        term_values(all, point, exponents, terms);
        for (int j = 0; j < TERMS; j++) {
            right[j] += terms[j] / point->loss;
            for (int k = 0; k < TERMS; k++)
                matrix[j][k] += terms[j] * terms[k] / (point->loss * point->loss);
        }
    }
    for (unsigned set = 1; set < 1U << TERMS; set++) {
        double own[TERMS], sum = 0;
        if (all->tied && set >> 2 & 1) continue;
        if (!solve_terms(matrix, right, set, own)) continue;
        if (own[0] < 0 || own[1] < 0 || own[2] < 0) continue;
        for (int i = 0; i < all->count; i++) {
            const ScalingPoint *point = &all->points[i];
            term_values(all, point, exponents, terms);
            double rest = (own[0] + own[1] * terms[1] + own[2] * terms[2]) / point->loss - 1;
            sum += rest * rest;
        }
        if (sum >= least) continue;
        least = sum;
        memcpy(values, own, sizeof own);
    }
    return least;
}

/* ---- the exponents ---- */

static double error_at(const ScalingPoints *all, const double *logs) {
    double exponents[2] = {exp(logs[0]), exp(logs[1])}, values[TERMS];
    double outside = fmax(0, fmax(fabs(logs[0]) - 4, fabs(logs[1]) - 4));
    return fit_terms(all, exponents, values) + outside;
}

enum { MAX_CORNERS = 3 };

/* A triangle of exponents, or a line if there is only one. */
typedef struct Simplex {
    int dimensions, low, high; /* low, high: corners with the smallest and the largest error */
    double corners[MAX_CORNERS][2], errors[MAX_CORNERS];
} Simplex;

static void rank_corners(Simplex *simplex) {
    simplex->low = simplex->high = 0;
    for (int i = 1; i <= simplex->dimensions; i++) {
        if (simplex->errors[i] < simplex->errors[simplex->low]) simplex->low = i;
        if (simplex->errors[i] >= simplex->errors[simplex->high]) simplex->high = i;
    }
}

/* Mirrors the worst corner, further out or less far; false if none of these is better. */
static bool move_corner(const ScalingPoints *all, Simplex *simplex) {
    static const double steps[] = {-1, -2, 0.5};
    double middle[2] = {0}, *worst = simplex->corners[simplex->high], least[2] = {0};
    double error = simplex->errors[simplex->high];
    bool found = false;
    for (int i = 0; i <= simplex->dimensions; i++)
        for (int k = 0; k < 2 && i != simplex->high; k++)
            middle[k] += simplex->corners[i][k] / simplex->dimensions;
    for (int i = 0; i < 3; i++) {
        double tried[2];
        for (int k = 0; k < 2; k++) tried[k] = middle[k] + steps[i] * (worst[k] - middle[k]);
        double own = error_at(all, tried);
        if (own >= error) continue;
        error = own;
        memcpy(least, tried, sizeof least);
        found = true;
    }
    if (!found) return false;
    memcpy(worst, least, sizeof least);
    simplex->errors[simplex->high] = error;
    return true;
}

/* Nelder and Mead 1965, in the logarithms of the exponents. */
static void refine_exponents(const ScalingPoints *all, double *best) {
    enum { ROUNDS = 400 };
    Simplex simplex = {.dimensions = all->tied ? 1 : 2};
    for (int i = 0; i <= simplex.dimensions; i++) {
        for (int k = 0; k < 2; k++) simplex.corners[i][k] = best[k] + (i == k + 1 ? 0.3 : 0);
        simplex.errors[i] = error_at(all, simplex.corners[i]);
    }
    for (int round = 0; round < ROUNDS; round++) {
        double extent = 0;
        rank_corners(&simplex);
        const double *low = simplex.corners[simplex.low];
        for (int i = 0; i <= simplex.dimensions; i++)
            for (int k = 0; k < 2; k++) extent = fmax(extent, fabs(simplex.corners[i][k] - low[k]));
        if (extent < 1e-7) break;
        if (move_corner(all, &simplex)) continue;
        for (int i = 0; i <= simplex.dimensions; i++) {
            if (i == simplex.low) continue;
            for (int k = 0; k < 2; k++)
                simplex.corners[i][k] = (simplex.corners[i][k] + low[k]) / 2;
            simplex.errors[i] = error_at(all, simplex.corners[i]);
        }
    }
    rank_corners(&simplex);
    memcpy(best, simplex.corners[simplex.low], 2 * sizeof *best);
}

/* The ratio of tokens and parameters varies because the number of steps is a whole number. */
static bool is_tied(const ScalingPoint *points, int count) {
    double least = INFINITY, most = 0;
    for (int i = 0; i < count; i++) {
        least = fmin(least, points[i].tokens / points[i].parameters);
        most = fmax(most, points[i].tokens / points[i].parameters);
    }
    return most < 1.25 * least;
}

int scaling_least_points(const ScalingPoint *points, int count) {
    return count && is_tied(points, count) ? 3 : 5;
}

/* start: a fit of similar points, or NULL. */
static ScalingFit fit_from(const ScalingPoint *points, int count, const ScalingFit *start) {
    ScalingPoints all = {points, count, is_tied(points, count), 0, 0};
    double best[2] = {log(0.3), log(0.3)}, values[TERMS] = {0};
    for (int i = 0; i < count; i++) {
        all.size_unit += points[i].parameters / count;
        all.token_unit += points[i].tokens / count;
    }
    if (start) {
        best[0] = log(start->alpha);
        if (!all.tied) best[1] = log(start->beta);
    }
    for (int i = 0; !start && i < 24 * (all.tied ? 1 : 24); i++) {
        double own[2] = {-3 + 0.17 * (i % 24), all.tied ? best[1] : -3 + 0.17 * (int)(i / 24)};
        if (error_at(&all, own) < error_at(&all, best)) memcpy(best, own, sizeof best);
    }
    refine_exponents(&all, best);
    double exponents[2] = {exp(best[0]), exp(best[1])};
    ScalingFit fit = {.alpha = exponents[0], .beta = all.tied ? NAN : exponents[1]};
    fit.error = sqrt(fit_terms(&all, exponents, values) / count);
    fit.limit = values[0];
    fit.size = values[1] * pow(all.size_unit, fit.alpha);
    fit.tokens = all.tied ? NAN : values[2] * pow(all.token_unit, fit.beta);
    return fit;
}

ScalingFit scaling_fit(const ScalingPoint *points, int count) {
    return fit_from(points, count, NULL);
}

double scaling_loss(const ScalingFit *fit, double parameters, double tokens) {
    double loss = fit->limit + fit->size * pow(parameters, -fit->alpha);
    return isnan(fit->beta) ? loss : loss + fit->tokens * pow(tokens, -fit->beta);
}

/* ---- uncertainty ---- */

static int ascending_numbers(const void *one, const void *other) {
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

/* Standard deviation of the losses around the mean of their size, relative to the loss. */
static double pooled_spread(const ScalingPoint *points, int count, double *freedom) {
    double squares = 0;
    *freedom = 0;
    for (int i = 0; i < count; i++) {
        if (points[i].seeds < 2) continue;
        double relative = points[i].spread / points[i].loss;
        squares += relative * relative * (points[i].seeds - 1);
        *freedom += points[i].seeds - 1;
    }
    return sqrt(squares / *freedom);
}

int scaling_resample(const ScalingPoint *points, int count, const ScalingFit *fit, ScalingFit *fits,
                     double *noise) {
    double freedom, spread = pooled_spread(points, count, &freedom);
    ScalingPoint *own = memory_new((size_t)count * sizeof *own);
    *noise = NAN;
    if (freedom < 1) {
        free(own);
        return 0;
    }
    /* wider than normal noise, because the standard deviation itself is estimated */
    *noise = spread * student_quantile(0.975, freedom) / 1.959963984540054;
    for (int i = 0; i < SCALING_SAMPLES; i++) {
        memcpy(own, points, (size_t)count * sizeof *own);
        for (int k = 0; k < count; k++)
            own[k].loss *= 1 + *noise / sqrt(fmax(1, points[k].seeds)) *
                                   random_normal(1, (uint64_t)(i * count + k));
        fits[i] = fit_from(own, count, fit);
    }
    free(own);
    return SCALING_SAMPLES;
}

LossInterval scaling_interval(double *values, int count) {
    int kept = 0;
    for (int i = 0; i < count; i++)
        if (!isnan(values[i])) values[kept++] = values[i];
    if (kept < 2) return (LossInterval){NAN, NAN};
    qsort(values, (size_t)kept, sizeof *values, ascending_numbers);
    return (LossInterval){values[(int)(0.025 * kept)], values[(int)(0.975 * kept)]};
}

LossInterval scaling_forecast(const ScalingFit *fits, int count, double noise,
                              const ScalingPoint *target) {
    AUTO_FREE double *values = memory_new((size_t)(count + 1) * sizeof *values);
    for (int i = 0; i < count; i++)
        values[i] = scaling_loss(&fits[i], target->parameters, target->tokens) *
                    (1 + noise / sqrt(fmax(1, target->seeds)) * random_normal(2, (uint64_t)i));
    return scaling_interval(values, count);
}

double scaling_crossing(const ScalingFit *one, const ScalingFit *other, double ratio, double least,
                        double most) {
    enum { STEPS = 400 };
    double before = NAN, at = NAN;
    for (int i = 0; i <= STEPS; i++) {
        double size = least * pow(most / least, (double)i / STEPS),
               gap =
                   scaling_loss(one, size, ratio * size) - scaling_loss(other, size, ratio * size);
        if (i && gap * before < 0) return sqrt(at * size);
        before = gap;
        at = size;
    }
    return NAN;
}
