/* Each combination of the other options of a ladder is a curve over the sizes. DIR/forecast.json:
 * { "time", "forecasts": { CURVE: { "parameters", "tokens", "seeds", "loss", "low", "high" } } } */
#include "tools/experiment/internal.h"

#include "abi/json_make.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/message.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct ScalingCurve {
    char *name; /* "attention.gate = none"; "all" if nothing else varies */
    ScalingPoint *points;
    int count;
} ScalingCurve;

static int ladder_of(const json_t *design) {
    const json_t *ladder = json_object_get(design, "ladder");
    return json_is_integer(ladder) ? (int)json_integer_value(ladder) : -1;
}

static const json_t *factor_values(const json_t *design, int factor) {
    return json_object_get(json_array_get(json_object_get(design, "factors"), (size_t)factor),
                           "values");
}

/* The levels without the ladder: "attention.gate = none, train.lr = 1e-3", a new string. */
static char *curve_name(const json_t *design, const json_t *levels) {
    const json_t *factors = json_object_get(design, "factors");
    char *name = memory_format("%s", "");
    for (int i = 0; i < (int)json_array_size(factors); i++) {
        if (i == ladder_of(design)) continue;
        size_t level = (size_t)json_integer_value(json_array_get(levels, (size_t)i));
        const json_t *factor = json_array_get(factors, (size_t)i);
        char *longer =
            memory_format("%s%s%s = %s", name, *name ? ", " : "", json_field_text(factor, "name"),
                          json_string_value(json_array_get(factor_values(design, i), level)));
        free(name);
        name = longer;
    }
    if (*name) return name;
    free(name);
    return memory_format("%s", "all");
}

char *ladder_base(const json_t *design, const Group *group) {
    json_t *all = json_object_get(design, "levels"), *levels;
    const json_t *own = json_object_get(all, group->structure ? group->structure : group->name);
    const char *structure;
    int ladder = ladder_of(design);
    if (!own || ladder < 0) return NULL;
    json_object_foreach(all, structure, levels) {
        bool base = true;
        for (size_t i = 0; i < json_array_size(levels); i++)
            base = base && json_integer_value(json_array_get(levels, i)) ==
                               ((int)i == ladder ? json_integer_value(json_array_get(own, i)) : 0);
        if (base) return memory_format("%s", structure);
    }
    return NULL;
}

static ScalingCurve *curve_named(ScalingCurve *curves, int *count, const json_t *design,
                                 const json_t *levels) {
    char *name = curve_name(design, levels);
    for (int i = 0; i < *count; i++) {
        if (strcmp(curves[i].name, name) != 0) continue;
        free(name);
        return &curves[i];
    }
    size_t sizes = json_array_size(factor_values(design, ladder_of(design)));
    curves[*count] =
        (ScalingCurve){.name = name, .points = memory_new(sizes * sizeof(ScalingPoint))};
    return &curves[(*count)++];
}

/* The curves with the sizes that have a loss, as a new block. */
static ScalingCurve *curves_of(const Gathering *gathering, const json_t *comparison, int *count) {
    const json_t *design = gathering->design;
    json_t *all = json_object_get(design, "levels"), *levels;
    ScalingCurve *curves = memory_new((json_object_size(all) + 1) * sizeof *curves);
    const char *structure;
    *count = 0;
    json_object_foreach(all, structure, levels) {
        const json_t *row = structure_row(comparison, structure);
        ScalingPoint point = {json_field_number(row, "active"), json_field_number(row, "tokens"),
                              json_field_number(row, "loss"), json_field_number(row, "spread"),
                              row ? (int)json_field_number(row, "finished") : 0};
        if (!isfinite(point.loss) || !isfinite(point.parameters) || !(point.loss > 0)) continue;
        ScalingCurve *curve = curve_named(curves, count, design, levels);
        curve->points[curve->count++] = point;
    }
    return curves;
}

static void free_curves(ScalingCurve *curves, int count) {
    for (int i = 0; i < count; i++) {
        free(curves[i].name);
        free(curves[i].points);
    }
    free(curves);
}

/* ---- fits ---- */

/* A curve's fit and the fits of its samples. */
typedef struct CurveFit {
    ScalingFit fit, *samples;
    int count;
    double noise;
} CurveFit;

static CurveFit fit_curve(const ScalingCurve *curve) {
    CurveFit own = {.samples = memory_new(SCALING_SAMPLES * sizeof(ScalingFit))};
    own.fit = scaling_fit(curve->points, curve->count);
    own.count = scaling_resample(curve->points, curve->count, &own.fit, own.samples, &own.noise);
    return own;
}

static bool can_fit(const ScalingCurve *curve) {
    return curve->count >= scaling_least_points(curve->points, curve->count);
}

/* The 95 % interval of a field of all samples. */
static json_t *field_interval(const CurveFit *fit, size_t field) {
    AUTO_FREE double *values = memory_new(SCALING_SAMPLES * sizeof *values);
    for (int i = 0; i < fit->count; i++)
        values[i] = *(const double *)(const void *)((const char *)&fit->samples[i] + field);
    LossInterval interval = scaling_interval(values, fit->count);
    return json_make("[f, f]", interval.low, interval.high);
}

static json_t *fit_json(const CurveFit *fit) {
    const ScalingFit *own = &fit->fit;
    json_t *object = json_make(
        "{s:f, s:o, s:f, s:f, s:o, s:f}", "limit", own->limit, "limit_95",
        field_interval(fit, offsetof(ScalingFit, limit)), "size", own->size, "alpha", own->alpha,
        "alpha_95", field_interval(fit, offsetof(ScalingFit, alpha)), "error", own->error);
    if (isnan(own->beta)) return object;
    json_object_set_new(object, "tokens", json_number(own->tokens));
    json_object_set_new(object, "beta", json_number(own->beta));
    json_object_set_new(object, "beta_95", field_interval(fit, offsetof(ScalingFit, beta)));
    return object;
}

/* The size at which the curve meets that of the base, up to 100 times the largest size. */
static json_t *crossing_json(const ScalingCurve *base, const CurveFit *base_fit,
                             const CurveFit *fit) {
    const ScalingPoint *first = &base->points[0], *last = &base->points[base->count - 1];
    double ratio = last->tokens / last->parameters, most = 100 * last->parameters,
           *values = memory_new(SCALING_SAMPLES * sizeof *values);
    double at = scaling_crossing(&base_fit->fit, &fit->fit, ratio, first->parameters, most);
    int count = base_fit->count < fit->count ? base_fit->count : fit->count, found = 0;
    for (int i = 0; i < count; i++) {
        values[i] = scaling_crossing(&base_fit->samples[i], &fit->samples[i], ratio,
                                     first->parameters, most);
        found += !isnan(values[i]);
    }
    LossInterval interval = scaling_interval(values, count);
    free(values);
    return json_make("{s:f, s:f, s:f, s:f}", "parameters", at, "low", interval.low, "high",
                     interval.high, "share", count ? (double)found / count : NAN);
}

static json_t *points_json(const ScalingCurve *curve) {
    json_t *list = json_array();
    for (int i = 0; i < curve->count; i++) {
        const ScalingPoint *point = &curve->points[i];
        json_array_append_new(list, json_make("{s:f, s:f, s:f, s:f, s:i}", "parameters",
                                              point->parameters, "tokens", point->tokens, "loss",
                                              point->loss, "spread", point->spread, "seeds",
                                              point->seeds));
    }
    return list;
}

/* Adds the measured loss to the forecast of a curve; NULL if there is no forecast. */
static json_t *checked_forecast(const json_t *forecasts, const ScalingCurve *curve) {
    json_t *forecast = json_deep_copy(json_object_get(forecasts, curve->name));
    double size = json_field_number(forecast, "parameters");
    if (!forecast) return NULL;
    for (int i = 0; i < curve->count; i++) {
        double loss = curve->points[i].loss;
        if (fabs(curve->points[i].parameters - size) > 0.5) continue;
        json_object_set_new(forecast, "measured", json_number(loss));
        json_object_set_new(forecast, "within",
                            json_boolean(loss >= json_field_number(forecast, "low") &&
                                         loss <= json_field_number(forecast, "high")));
    }
    return forecast;
}

static json_t *forecasts_of(const char *folder) {
    AUTO_FREE char *path = path_join(folder, "forecast.json");
    json_t *file = file_json(path), *forecasts = json_object_get(file, "forecasts");
    json_incref(forecasts);
    json_decref(file);
    return forecasts;
}

json_t *scaling_json(const Gathering *gathering, const json_t *comparison) {
    int count;
    if (ladder_of(gathering->design) < 0 || gathering->higher) return NULL;
    ScalingCurve *curves = curves_of(gathering, comparison, &count);
    json_t *list = json_array(), *forecasts = forecasts_of(gathering->folder);
    CurveFit base = {0};
    for (int i = 0; i < count; i++) {
        json_t *own = json_make("{s:s, s:o}", "curve", curves[i].name, "points",
                                points_json(&curves[i])),
               *forecast = checked_forecast(forecasts, &curves[i]);
        if (forecast) json_object_set_new(own, "forecast", forecast);
        json_array_append_new(list, own);
        if (!can_fit(&curves[i])) continue;
        CurveFit fit = fit_curve(&curves[i]);
        json_object_set_new(own, "fit", fit_json(&fit));
        if (i && base.samples)
            json_object_set_new(own, "crossing", crossing_json(&curves[0], &base, &fit));
        if (i == 0)
            base = fit;
        else
            free(fit.samples);
    }
    free(base.samples);
    json_decref(forecasts);
    free_curves(curves, count);
    return list;
}

/* ---- the forecast ---- */

bool ladder_is_last(const MoecExperiment *experiment, const MoecVariant *variant) {
    int ladder = experiment->ladder;
    for (int i = 0; ladder >= 0 && i < experiment->count; i++) {
        const MoecVariant *own = &experiment->variants[i];
        bool runs = own == variant || (own->same && !strcmp(own->same, variant->name));
        if (runs && own->levels && own->levels[ladder] == experiment->factors[ladder].count - 1)
            return true;
    }
    return false;
}

static json_t *target_forecast(const CurveFit *fit, const MoecVariant *variant, long seeds) {
    const ScalingPoint target = {
        .parameters = variant->active, .tokens = variant->tokens, .seeds = (int)seeds};
    LossInterval interval = scaling_forecast(fit->samples, fit->count, fit->noise, &target);
    return json_make("{s:f, s:f, s:i, s:f, s:f, s:f}", "parameters", target.parameters, "tokens",
                     target.tokens, "seeds", target.seeds, "loss",
                     scaling_loss(&fit->fit, target.parameters, target.tokens), "low", interval.low,
                     "high", interval.high);
}

/* The largest variant of a curve; of tuned ones the first. */
static const MoecVariant *target_of(const MoecExperiment *experiment, const json_t *design,
                                    const char *curve) {
    for (int i = 0; i < experiment->count; i++) {
        const MoecVariant *variant = &experiment->variants[i];
        if (!variant->levels || !ladder_is_last(experiment, variant)) continue;
        json_t *levels = variant_levels(experiment, variant);
        char *name = curve_name(design, levels);
        bool same = !strcmp(name, curve);
        free(name);
        json_decref(levels);
        if (same) return variant;
    }
    return NULL;
}

static json_t *forecasts_json(const Plan *plan, const Gathering *gathering) {
    json_t *forecasts = json_object(), *comparison = compared_json(gathering, -1, true);
    int count;
    ScalingCurve *curves = curves_of(gathering, comparison, &count);
    for (int i = 0; i < count; i++) {
        const MoecVariant *target = target_of(plan->experiment, gathering->design, curves[i].name);
        if (!target || !can_fit(&curves[i])) continue;
        CurveFit fit = fit_curve(&curves[i]);
        json_object_set_new(forecasts, curves[i].name,
                            target_forecast(&fit, target, plan->experiment->seeds));
        free(fit.samples);
    }
    free_curves(curves, count);
    json_decref(comparison);
    return forecasts;
}

bool ladder_forecast(const Plan *plan) {
    char *path = path_join(plan->out, "forecast.json"), when[TIME_TEXT];
    Gathering gathering;
    bool good = file_exists(path) || gather(&gathering, &plan->out, 1);
    if (good && !file_exists(path)) {
        json_auto_t *forecasts = forecasts_json(plan, &gathering);
        time_text(when);
        json_auto_t *file = json_make("{s:s, s:O}", "time", when, "forecasts", forecasts);
        AUTO_FREE char *text = json_write(file, JSON_INDENT(2));
        if (json_object_size(forecasts))
            good = file_write(path, text, strlen(text));
        else
            note_message("no forecast of the largest size: it requires three smaller sizes");
        gathering_free(&gathering);
    }
    free(path);
    return good;
}
