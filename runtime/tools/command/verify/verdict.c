/* verdict: deviation of a device from the definition, limits, and the report. */
#include "verify.h"

#include "abi/json_make.h"
#include "base/memory.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 64 };

static const char *const kind_names[KINDS] = {"outputs", "gradients", "states", "decoding"};
static const double exact_limits[KINDS] = {1e-5, 1e-4, 1e-5, 1e-5};
/* With rounded products: the most there may be, and one rounding, which is let pass anywhere. */
static const double rounded_limit = 2e-2, rounded_floor = 0x1p-9;

/* ---- judging ---- */

static double square_of(const double *values, size_t count) {
    double square = 0;
    for (size_t i = 0; i < count; i++) square += values[i] * values[i];
    return square;
}

/* Squared norm of the deviation of another interpreter run. */
static double square_off(MoecInterpreter *interpreter, const Sample *sample, const double *exact) {
    AUTO_FREE double *other = memory_new(sizeof *other * (sample->whole + 1));
    moec_interpreter_get(interpreter, sample->of, other, sample->whole);
    for (size_t i = 0; i < sample->count; i++) other[i] -= exact[i];
    return square_of(other, sample->count);
}

bool verify_measure(const Comparison *comparison, const Sample *sample, Squares *squares) {
    AUTO_FREE double *exact = memory_new(sizeof *exact * (sample->whole + 1)),
                     *other = memory_new(sizeof *other * (sample->whole + 1));
    bool there = moec_interpreter_get(comparison->exact, sample->of, exact, sample->whole);
    *squares = (Squares){.exact = there ? square_of(exact, sample->count) : 0,
                         .many = sample->count >= MANY};
    for (int way = 0; there && way < WAYS; way++)
        if (comparison->round[way])
            squares->round[way] = square_off(comparison->round[way], sample, exact);
    for (int i = 0; there && i < NOISES && comparison->noise[i]; i++)
        squares->noise[i] = square_off(comparison->noise[i], sample, exact);
    for (size_t i = 0; there && i < sample->count; i++)
        other[i] = (double)sample->given[i] - exact[i];
    if (there) squares->given = square_of(other, sample->count);
    return there;
}

static double most_of(const double *squares, int count) {
    double most = 0;
    for (int i = 0; i < count; i++) most = fmax(most, squares[i]);
    return most;
}

/* Norm relative to `scale`. Infinite for NaN and for a nonzero norm at scale 0. */
static double share(double square, double scale) {
    double of = sqrt(square) / scale;
    return square == 0 ? 0 : isfinite(of) ? of : INFINITY;
}

/* The error of a tensor, the error of rounding alone, and the limit. */
static Worst verdict(const Comparison *comparison, DeviationKind kind, const Squares *squares) {
    double scale = fmax(sqrt(squares->exact), comparison->scale), limit = exact_limits[kind],
           reference = share(most_of(squares->round, EACH), scale);
    if (squares->many)
        reference = fmin(reference, share(most_of(squares->round + EACH, EACH), scale));
    if (comparison->rounded) {
        limit = fmax(rounded_floor, 2 * reference);
        if (kind != GRADIENTS) limit = fmin(limit, fmax(rounded_limit, reference));
    }
    if (squares->kept) limit = fmax(limit, rounded_floor);
    return (Worst){.error = share(squares->given, scale), .reference = reference, .limit = limit};
}

static double closeness(const Worst *worst) {
    return worst->error == worst->limit ? 1 : worst->error / worst->limit;
}

/* How far rounding alone moves a tensor that was run with noise. */
static double moved_by_noise(const Comparison *comparison, const Squares *squares) {
    double scale = fmax(sqrt(squares->exact), comparison->scale);
    return share(most_of(squares->noise, NOISES), scale);
}

static bool is_undecided(const Worst *found, double moved) {
    return found->error > found->limit && isfinite(found->error) && found->error <= 2 * moved;
}

void verify_judge_squares(Comparison *comparison, DeviationKind kind, const char *name,
                          const Squares *squares) {
    Worst now = verdict(comparison, kind, squares), *worst = &comparison->worst[kind];
    const double moved = moved_by_noise(comparison, squares);
    worst->count++;
    if (is_undecided(&now, moved)) {
        size_t count = (size_t)++comparison->undecided_count;
        comparison->undecided =
            memory_grow(comparison->undecided, sizeof *comparison->undecided * count);
        Undecided *one = &comparison->undecided[count - 1];
        *one = (Undecided){.kind = kind, .error = now.error, .moved = moved};
        snprintf(one->name, sizeof one->name, "%s", name);
        return;
    }
    if (*worst->name && closeness(&now) <= closeness(worst)) return;
    worst->error = now.error, worst->reference = now.reference, worst->limit = now.limit;
    snprintf(worst->name, sizeof worst->name, "%s", name);
}

bool verify_is_off(const Comparison *comparison, DeviationKind kind, const Squares *squares) {
    Worst now = verdict(comparison, kind, squares);
    return now.error > now.limit;
}

/* With as many ways to round, and noise, as it needs; false when the definition lacks it. */
static bool measure_sample(Comparison *comparison, DeviationKind kind, const Sample *sample,
                           Squares *squares) {
    if (!verify_measure(comparison, sample, squares)) return false;
    if (verify_is_off(comparison, kind, squares) && verify_round_all(comparison))
        verify_measure(comparison, sample, squares);
    if (verify_is_off(comparison, kind, squares)) {
        verify_make_noise(comparison);
        verify_measure(comparison, sample, squares);
    }
    return true;
}

void verify_judge(Comparison *comparison, DeviationKind kind, const Sample *sample) {
    Squares squares;
    if (measure_sample(comparison, kind, sample, &squares))
        verify_judge_squares(comparison, kind, sample->name, &squares);
}

bool verify_differs(Comparison *comparison, DeviationKind kind, const Sample *sample,
                    Worst *found) {
    Squares squares;
    if (!measure_sample(comparison, kind, sample, &squares)) return false;
    const Worst now = verdict(comparison, kind, &squares);
    if (!(now.error > now.limit) || is_undecided(&now, moved_by_noise(comparison, &squares)))
        return false;
    *found = now;
    snprintf(found->name, sizeof found->name, "%s", sample->name);
    return true;
}

void verify_judge_outputs(Comparison *comparison, const Call *call) {
    if (comparison->bisect) bisect_outputs(comparison, call);
    comparison->scale = 1e-3;
    for (int i = 0; i < call->graph->output_count; i++) {
        const MoecTensor *output = &call->graph->outputs[i];
        size_t count = tensor_count(output);
        AUTO_FREE char *of = memory_format("output:%s", output->name);
        verify_judge(comparison, OUTPUTS,
                     &(Sample){output->name, of, count, count, call->outputs[i]});
    }
}

/* Every gradient, then all as one; true when one of them is off. */
static bool measure_gradients(Comparison *comparison, Squares *each, Squares *all) {
    const Model *model = comparison->model;
    bool off = false;
    *all = (Squares){.many = true};
    comparison->scale = 0;
    for (int i = 0; i < model->parameter_count; i++) {
        const PublicTensor *one = &model->parameters[i];
        AUTO_FREE char *name = memory_format("gradient:%s", one->name);
        const Sample sample = {name, name, one->count, one->count,
                               model->gradients + one->offset / sizeof(float)};
        verify_measure(comparison, &sample, &each[i]);
        each[i].many = false;
        comparison->scale = fmax(comparison->scale, 1e-3 * sqrt(each[i].exact));
        all->exact += each[i].exact, all->given += each[i].given;
        for (int way = 0; way < WAYS; way++) all->round[way] += each[i].round[way];
        for (int k = 0; k < NOISES; k++) all->noise[k] += each[i].noise[k];
    }
    for (int i = 0; i < model->parameter_count; i++)
        off |= verify_is_off(comparison, GRADIENTS, &each[i]);
    return off || verify_is_off(comparison, GRADIENTS, all);
}

void verify_judge_gradients(Comparison *comparison) {
    const Model *model = comparison->model;
    Squares all, *each = memory_new(sizeof *each * (size_t)(model->parameter_count + 1));
    bool off = measure_gradients(comparison, each, &all);
    if (off && verify_round_all(comparison)) off = measure_gradients(comparison, each, &all);
    if (off) {
        verify_make_noise(comparison);
        measure_gradients(comparison, each, &all);
    }
    for (int i = 0; i < model->parameter_count; i++)
        verify_judge_squares(comparison, GRADIENTS, model->parameters[i].name, &each[i]);
    verify_judge_squares(comparison, GRADIENTS, "all together", &all);
    free(each);
}

void verify_judge_states(Comparison *comparison) {
    const Model *model = comparison->model;
    comparison->scale = 1e-3;
    for (int i = 0; i < model->state_count; i++) {
        const PublicTensor *one = &model->states[i];
        verify_judge(comparison, STATES,
                     &(Sample){one->name, one->name, one->count, one->count,
                               model->layer_states + one->offset / sizeof(float)});
    }
}

/* ---- the report ---- */

static bool within(const Worst *worst) {
    return !*worst->name || worst->error <= worst->limit;
}

bool verify_agrees(const Comparison *comparison) {
    bool good = comparison->worst[OUTPUTS].count > 0 && !*comparison->first.worst.name;
    for (int kind = 0; kind < KINDS; kind++) good = good && within(&comparison->worst[kind]);
    return good && (!comparison->variant || comparison->variant_launched > 0);
}

static json_t *forms_of(const Comparison *comparison) {
    json_t *forms = json_object();
    int count;
    const char *const *names = moec_form_names(comparison->compiler, &count);
    for (int i = 0; i < count; i++)
        json_object_set_new(forms, names[i], json_boolean(comparison->forms[i]));
    return forms;
}

static const char *precision_of(const Comparison *comparison) {
    return comparison->rounded ? moec_option(comparison->compiler, "train.precision") : "f32";
}

/* The model, the device and the sizes, which each report begins with. */
static json_t *heading(const Comparison *comparison) {
    json_t *report = json_make(
        "{s:s, s:s, s:s, s:I, s:I}", "model", moec_model(comparison->compiler), "device",
        comparison->device->name, "precision", precision_of(comparison), "batch",
        (json_int_t)comparison->shape.batch, "context", (json_int_t)comparison->shape.context);
    if (comparison->shape.set) json_object_set_new(report, "set", json_text(comparison->shape.set));
    return report;
}

static json_t *undecided_of(const Comparison *comparison) {
    json_t *undecided = json_array();
    for (int i = 0; i < comparison->undecided_count; i++) {
        const Undecided *one = &comparison->undecided[i];
        json_array_append_new(undecided,
                              json_make("{s:s, s:s, s:f, s:f}", "of", kind_names[one->kind], "name",
                                        one->name, "error", one->error, "moved", one->moved));
    }
    return undecided;
}

static json_t *report_of(const Comparison *comparison) {
    json_t *report = heading(comparison);
    json_object_set_new(report, "seed", json_integer((json_int_t)comparison->seed));
    json_object_set_new(report, "agrees", json_boolean(verify_agrees(comparison)));
    for (int kind = 0; kind < KINDS; kind++) {
        const Worst *worst = &comparison->worst[kind];
        if (!*worst->name) continue;
        json_t *row = json_make("{s:i, s:s, s:f, s:f}", "tensors", worst->count, "worst",
                                worst->name, "error", worst->error, "limit", worst->limit);
        if (comparison->rounded)
            json_object_set_new(row, "reference", json_number(worst->reference));
        json_object_set_new(report, kind_names[kind], row);
    }
    if (comparison->undecided_count)
        json_object_set_new(report, "undecided", undecided_of(comparison));
    if (comparison->bisect)
        json_object_set_new(report, "first_difference", bisect_json(comparison));
    if (comparison->forms) json_object_set_new(report, "forms", forms_of(comparison));
    if (comparison->variant)
        json_object_set_new(report, "variant",
                            json_make("{s:s, s:i, s:i}", "name", comparison->variant, "launched",
                                      comparison->variant_launched, "missing",
                                      comparison->variant_missing));
    return report;
}

/* How many of a kind hang on a tie, and that of them which is furthest off. */
static void print_undecided(const Comparison *comparison, DeviationKind kind) {
    const Undecided *most = NULL;
    int count = 0;
    for (int i = 0; i < comparison->undecided_count; i++) {
        const Undecided *one = &comparison->undecided[i];
        if (one->kind != kind) continue;
        count++;
        if (!most || one->error > most->error) most = one;
    }
    if (!most) return;
    printf("  undecided: %d of the %s, the most %s, off by %.1e where rounding alone moves it by "
           "%.1e\n             (values within rounding of a tie, or terms that cancel)\n",
           count, kind_names[kind], most->name, most->error, most->moved);
}

static void print_forms(const Comparison *comparison) {
    int count, listed = 0;
    const char *const *names = moec_form_names(comparison->compiler, &count);
    printf("  forms    ");
    for (int i = 0; i < count; i++)
        if (comparison->forms[i]) printf("%s %s", listed++ ? "," : "", names[i]);
    puts("");
}

static void print_sizes(const Comparison *comparison) {
    const VerifyShape *shape = &comparison->shape;
    printf("batch %ld, context %ld%s", shape->batch, shape->context, shape->source);
    if (shape->set) printf(", %s", shape->set);
}

/* Storage that a setting asks for; a cache that no graph has is not compared. */
static void print_storage(const Comparison *comparison) {
    const char *weights = moec_option(comparison->compiler, "inference.weight_dtype"),
               *head = moec_option(comparison->compiler, "inference.head_dtype"),
               *cache = moec_option(comparison->compiler, "inference.kv_cache_dtype");
    if (comparison->smaller_weights) {
        printf(", %s weights", weights);
        if (head && strcmp(head, "same") != 0) printf(", %s head", head);
        printf(" (f32 in training)");
    }
    if (cache && strcmp(cache, "f32") != 0)
        printf(*comparison->worst[DECODING].name ? ", %s cache"
                                                 : ", %s cache not compared: no decoding",
               cache);
}

static void print_verdict_text(const Comparison *comparison) {
    printf("%s on %s, %s%s", moec_model(comparison->compiler), comparison->device->name,
           comparison->rounded ? "products of " : "", precision_of(comparison));
    print_storage(comparison);
    printf(", seed %llu, ", (unsigned long long)comparison->seed);
    print_sizes(comparison);
    puts("");
    if (!comparison->worst[OUTPUTS].count) puts("  DISAGREES: no output was compared");
    for (int kind = 0; kind < KINDS; kind++) {
        const Worst *worst = &comparison->worst[kind];
        if (!*worst->name) continue;
        printf("  %-9s %3d tensors, the worst is off by %.1e of %.1e", kind_names[kind],
               worst->count, worst->error, worst->limit);
        if (comparison->rounded) printf(" (rounding alone %.1e)", worst->reference);
        printf(": %s%s\n", worst->name, within(worst) ? "" : " DISAGREES");
    }
    for (int kind = 0; kind < KINDS; kind++) print_undecided(comparison, (DeviationKind)kind);
    if (comparison->bisect) bisect_print(comparison);
    if (comparison->forms) print_forms(comparison);
    if (comparison->variant)
        printf("  variant %s: %d kernels launched, missing in %d%s\n", comparison->variant,
               comparison->variant_launched, comparison->variant_missing,
               comparison->variant_launched ? "" : " DISAGREES");
}

void verify_print(const Comparison *comparison, json_t *json) {
    if (json)
        json_array_append_new(json, report_of(comparison));
    else
        print_verdict_text(comparison);
    fflush(stdout);
}

void verify_print_skipped(const Comparison *comparison, const char *problem, json_t *json) {
    const VerifyShape *shape = &comparison->shape;
    if (json) {
        json_t *report = heading(comparison);
        json_object_set_new(report, "skipped", json_text(problem));
        json_array_append_new(json, report);
        return;
    }
    printf("%s on %s, skipped: ", moec_model(comparison->compiler), comparison->device->name);
    print_sizes(comparison);
    printf(" %s\n  to compare it: moec verify %s -b %ld -c %ld", problem, comparison->operand,
           shape->batch, shape->context);
    if (shape->set) printf(" --set %s", shape->set);
    puts("");
}
