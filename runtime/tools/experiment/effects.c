/* Analysis of variance of a full grid with one run per cell and seed. Seeds are blocks:
 *
 *     y[cell, seed] = mean + seed + main effects + interactions + error
 *
 * Montgomery, Design and Analysis of Experiments, chapters 4 and 5. */
#include "tools/experiment/internal.h"

#include "abi/json_make.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FACTORS = 8 };

/* Losses of a grid: the last factor changes fastest. */
typedef struct LossGrid {
    int factors, sizes[MAX_FACTORS], cells, seeds;
    double *losses;     /* [cell][seed] */
    double *means;      /* [cell], over the seeds */
    double *seed_means; /* [seed], over the cells */
    double mean;
} LossGrid;

static int cell_level(const LossGrid *grid, int cell, int factor) {
    for (int i = grid->factors - 1; i > factor; i--) cell /= grid->sizes[i];
    return cell % grid->sizes[factor];
}

/* Whether two cells have the same levels of the factors in the set. */
static bool is_alike(const LossGrid *grid, int cell, int other, unsigned set) {
    for (int i = 0; i < grid->factors; i++)
        if (set >> i & 1 && cell_level(grid, cell, i) != cell_level(grid, other, i)) return false;
    return true;
}

/* ---- the losses ---- */

const json_t *structure_row(const json_t *comparison, const char *structure) {
    json_t *row;
    size_t at;
    json_array_foreach(json_object_get(comparison, "variants"), at, row) {
        const char *own = json_field_text(row, "structure");
        const char *name = json_field_text(row, "variant");
        if (own ? !strcmp(own, structure) && json_is_true(json_object_get(row, "best"))
                : name && !strcmp(name, structure))
            return row;
    }
    return NULL;
}

/* NaN if the run has no loss. */
static double loss_of_seed(const json_t *row, const json_t *seed) {
    json_t *run;
    size_t at;
    json_array_foreach(json_object_get(row, "runs"), at, run) {
        if (json_equal(json_object_get(run, "seed"), seed)) return json_field_number(run, "loss");
    }
    return NAN;
}

static int cell_of(const LossGrid *grid, const json_t *levels) {
    int cell = 0;
    for (int i = 0; i < grid->factors; i++)
        cell = cell * grid->sizes[i] + (int)json_integer_value(json_array_get(levels, (size_t)i));
    return cell;
}

/* Reads the sizes; false if there is no grid. */
static bool grid_sizes(LossGrid *grid, const json_t *design) {
    const json_t *factors = json_object_get(design, "factors"), *factor;
    size_t at;
    grid->factors = (int)json_array_size(factors);
    grid->cells = 1;
    if (grid->factors < 2 || grid->factors > MAX_FACTORS) return false;
    json_array_foreach(factors, at, factor) {
        grid->sizes[at] = (int)json_array_size(json_object_get(factor, "values"));
        if (grid->sizes[at] < 2) return false;
        grid->cells *= grid->sizes[at];
    }
    return true;
}

/* False unless every cell has a loss of every seed of the first row. */
static bool grid_read(LossGrid *grid, const json_t *design, const json_t *comparison) {
    const json_t *first = json_array_get(json_object_get(comparison, "variants"), 0),
                 *seeds = json_object_get(first, "runs");
    const char *structure;
    json_t *levels;
    if (!grid_sizes(grid, design)) return false;
    grid->seeds = (int)json_array_size(seeds);
    size_t numbers = (size_t)grid->cells * (size_t)grid->seeds;
    grid->losses = memory_new((numbers + 1) * sizeof *grid->losses);
    for (size_t i = 0; i < numbers; i++) grid->losses[i] = NAN;
    json_object_foreach(json_object_get(design, "levels"), structure, levels) {
        const json_t *row = structure_row(comparison, structure);
        double *losses = &grid->losses[cell_of(grid, levels) * grid->seeds];
        for (int k = 0; k < grid->seeds; k++)
            losses[k] =
                loss_of_seed(row, json_object_get(json_array_get(seeds, (size_t)k), "seed"));
    }
    for (size_t i = 0; i < numbers; i++)
        if (!isfinite(grid->losses[i])) return false;
    return grid->seeds > 1;
}

static void grid_means(LossGrid *grid) {
    grid->means = memory_new((size_t)grid->cells * sizeof *grid->means);
    grid->seed_means = memory_new((size_t)grid->seeds * sizeof *grid->seed_means);
    grid->mean = 0;
    for (int i = 0; i < grid->cells; i++) {
        for (int k = 0; k < grid->seeds; k++) {
            double loss = grid->losses[i * grid->seeds + k];
            grid->means[i] += loss / grid->seeds;
            grid->seed_means[k] += loss / grid->cells;
        }
        grid->mean += grid->means[i] / grid->cells;
    }
}

/* ---- effects ---- */

/* Mean of the cells that have these levels. */
static double level_mean(const LossGrid *grid, const double *cells, int cell, unsigned set) {
    double sum = 0;
    int count = 0;
    for (int i = 0; i < grid->cells; i++) {
        if (!is_alike(grid, cell, i, set)) continue;
        sum += cells[i];
        count++;
    }
    return sum / count;
}

/* The effect of a set of factors at a cell, less those of its subsets. */
static double interaction_at(const LossGrid *grid, int cell, unsigned set) {
    double effect = 0;
    for (unsigned part = set;; part = (part - 1) & set) {
        int apart = __builtin_popcount(set ^ part);
        effect += (apart % 2 ? -1 : 1) * level_mean(grid, grid->means, cell, part);
        if (!part) return effect;
    }
}

typedef struct VarianceRow {
    unsigned set; /* of factors */
    double squares, freedom, ratio, chance;
} VarianceRow;

static VarianceRow variance_of(const LossGrid *grid, unsigned set) {
    VarianceRow row = {.set = set, .freedom = 1};
    for (int i = 0; i < grid->factors; i++)
        if (set >> i & 1) row.freedom *= grid->sizes[i] - 1;
    for (int i = 0; i < grid->cells; i++) {
        double effect = interaction_at(grid, i, set);
        row.squares += effect * effect * grid->seeds;
    }
    return row;
}

/* Errors: losses less the means of their cells and seeds. */
static VarianceRow residual_of(const LossGrid *grid) {
    VarianceRow row = {.freedom = (grid->cells - 1.0) * (grid->seeds - 1.0)};
    for (int i = 0; i < grid->cells; i++)
        for (int k = 0; k < grid->seeds; k++) {
            double rest = grid->losses[i * grid->seeds + k] - grid->means[i] - grid->seed_means[k] +
                          grid->mean;
            row.squares += rest * rest;
        }
    return row;
}

/* All effects, those of fewer factors first. Returns their number. */
static int variance_rows(const LossGrid *grid, VarianceRow *rows, PValueCorrection correction,
                         double *adjusted) {
    const VarianceRow residual = residual_of(grid);
    int count = 0;
    for (int size = 1; size <= grid->factors; size++)
        for (unsigned set = 1; set < 1U << grid->factors; set++)
            if (__builtin_popcount(set) == size) rows[count++] = variance_of(grid, set);
    for (int i = 0; i < count; i++) {
        rows[i].ratio = rows[i].squares / rows[i].freedom / (residual.squares / residual.freedom);
        rows[i].chance = isfinite(rows[i].ratio)
                             ? fisher_tail(rows[i].ratio, rows[i].freedom, residual.freedom)
                             : 0;
        adjusted[i] = rows[i].chance;
    }
    correct_chances(correction, adjusted, count);
    return count;
}

/* ---- as JSON ---- */

static const json_t *factor_at(const json_t *design, int factor) {
    return json_array_get(json_object_get(design, "factors"), (size_t)factor);
}

/* "attention.gate x train.lr", a new string. */
static char *effect_name(const json_t *design, unsigned set, int factors) {
    char *name = memory_format("%s", "");
    for (int i = 0; i < factors; i++) {
        if (!(set >> i & 1)) continue;
        char *longer = memory_format("%s%s%s", name, *name ? " x " : "",
                                     json_field_text(factor_at(design, i), "name"));
        free(name);
        name = longer;
    }
    return name;
}

static json_t *variances_json(const LossGrid *grid, const json_t *design,
                              PValueCorrection correction) {
    int most = 1 << grid->factors;
    AUTO_FREE VarianceRow *rows = memory_new((size_t)most * sizeof *rows);
    AUTO_FREE double *adjusted = memory_new((size_t)most * sizeof *adjusted);
    json_t *list = json_array();
    int count = variance_rows(grid, rows, correction, adjusted);
    for (int i = 0; i < count; i++) {
        AUTO_FREE char *name = effect_name(design, rows[i].set, grid->factors);
        json_array_append_new(list, json_make("{s:s, s:f, s:f, s:f, s:f}", "effect", name,
                                              "freedom", rows[i].freedom, "f", rows[i].ratio,
                                              "chance", rows[i].chance, "adjusted", adjusted[i]));
    }
    return list;
}

/* Mean of a level over all cells that have it, less the mean of all cells, for each seed. */
static SampleMoments level_effect(const LossGrid *grid, int factor, int level) {
    AUTO_FREE double *effects = memory_new((size_t)grid->seeds * sizeof *effects);
    for (int k = 0; k < grid->seeds; k++) {
        double sum = 0;
        int count = 0;
        for (int i = 0; i < grid->cells; i++) {
            if (cell_level(grid, i, factor) != level) continue;
            sum += grid->losses[i * grid->seeds + k];
            count++;
        }
        effects[k] = sum / count - grid->seed_means[k];
    }
    return sample_of(effects, grid->seeds);
}

static json_t *levels_json(const LossGrid *grid, const json_t *design) {
    json_t *list = json_array();
    for (int i = 0; i < grid->factors; i++) {
        const json_t *factor = factor_at(design, i);
        for (int k = 0; k < grid->sizes[i]; k++) {
            SampleMoments sample = level_effect(grid, i, k);
            double margin = sample_margin(&sample);
            json_array_append_new(
                list,
                json_make("{s:O, s:O, s:f, s:f, s:f}", "factor", json_object_get(factor, "name"),
                          "value", json_array_get(json_object_get(factor, "values"), (size_t)k),
                          "mean", sample.mean, "low", sample.mean - margin, "high",
                          sample.mean + margin));
        }
    }
    return list;
}

json_t *effects_json(const json_t *design, PValueCorrection correction, const json_t *comparison) {
    LossGrid grid = {0};
    json_t *effects = NULL;
    if (grid_read(&grid, design, comparison)) {
        grid_means(&grid);
        effects = json_make("{s:o, s:o}", "variance", variances_json(&grid, design, correction),
                            "levels", levels_json(&grid, design));
    }
    free(grid.losses);
    free(grid.means);
    free(grid.seed_means);
    return effects;
}
