/* internal: declarations that only files of this folder use. */
#ifndef EXPERIMENT_INTERNAL_H
#define EXPERIMENT_INTERNAL_H

#include "tools/experiment/experiment.h"

#include <sys/types.h>

/* The numbers of the values of a variant, one per factor. */
json_t *variant_levels(const MoecExperiment *experiment, const MoecVariant *variant);

/* registry: the plans of a sweep in the order in which they were made, DIR/plans.json. */

/* Adds a plan unless it is the last one. before: the plan that it changes, and why; NULL: the first
 * plan. False after a message. */
bool registry_add(const char *out, json_t *plan, const json_t *before, const char *reason);
/* Moves the runs that are not part of the new plan to DIR/earlier_plans/HASH; false after a
 * message. */
bool registry_set_aside(const char *out, const json_t *before, const json_t *now);
/* { "hash", "registered", "hypothesis", "plans": [ { "time", "hash", "reason", "finished_runs" } ],
 * "set_aside": [ { "variant", "finished_runs" } ] }; NULL if no plan is registered. "registered" is
 * false if sweep.json is not the last registered plan. lasting: without times. */
json_t *registry_json(const char *out, bool lasting);

/* halving: at given fractions of a run, the better half of the variants continues. */

/* The step at which a run of `steps` steps pauses. */
long halving_step(long steps, double share);
/* Called when all remaining runs have reached the fraction: selects the variants that stop there,
 * and stores this in `stopped` and in the results of their runs. `steps`: steps of each variant.
 * Prints the stopped variants. */
void halving_stop(const Plan *plan, double share, const long *steps, bool *stopped);

/* outcome: results of the runs of a sweep, as files in their folders: result.json of an ended run,
 * at_STEP.json of a run that paused at a step. */

/* Result of a run; false if it has not ended. */
bool run_result(const Plan *plan, const MoecVariant *variant, long seed, RunResult *result);
/* Current result according to its log. */
RunResult run_reading(const Plan *plan, const MoecVariant *variant, long seed);
bool run_keep(const Plan *plan, const MoecVariant *variant, long seed, const RunResult *result);
/* The same at a step. */
bool run_result_at(const Plan *plan, const MoecVariant *variant, long seed, long step,
                   RunResult *result);
bool run_keep_at(const Plan *plan, const MoecVariant *variant, long seed, long step,
                 const RunResult *result);

/* pace: number of steps that a variant completes in the time budget of a run. */

/* Measured once, alone, over a few steps, and kept in DIR/VARIANT/pace.json. 0 after a message. */
long pace_steps(const Plan *plan, const MoecVariant *variant);

/* process: a run of a sweep as a process of moec train. */

typedef struct RunOrder {
    const MoecVariant *variant;
    long seed;
    const char *device;
    long steps; /* in total; passed to the command if it differs from the variant */
    long until; /* pauses after this step; 0: no pause */
    bool trial; /* short run that measures the time per step, in VARIANT/pace */
} RunOrder;

/* A new string: DIR/VARIANT/seed_N. */
char *order_folder(const Plan *plan, const RunOrder *order);
/* The command of a run, as its user would type it: new strings, NULL at the end. */
char **order_command(const Plan *plan, const RunOrder *order);
void command_free(char **command);
/* Starts the run; its output is written to output.txt in its folder. -1 after a message. */
pid_t process_begin(const Plan *plan, const RunOrder *order);

/* sweep_renamed: continuation of a sweep that began with option names that are deprecated now. */

/* Whether the stored plan `before` is the plan `now` under other names: equal except for the names
 * of variants and metric, and each run in the folder trains the same model as its variant. Then the
 * folders of the variants get the current names. */
bool plan_adopt(const Plan *plan, json_t *before, json_t *now);

/* scaling: fits of the loss over sizes and numbers of tokens. */

/* The runs of one size: mean and standard deviation of their losses over the seeds. */
typedef struct ScalingPoint {
    double parameters, tokens, loss, spread;
    int seeds;
} ScalingPoint;

/* loss = limit + size / parameters^alpha + tokens / tokens^beta. `tokens` and `beta` are NaN if
 * the number of tokens is a multiple of the size. error: root mean square of the relative errors.
 */
typedef struct ScalingFit {
    double limit, size, alpha, tokens, beta, error;
} ScalingFit;

typedef struct LossInterval {
    double low, high;
} LossInterval;

/* The number of points that a fit requires. */
int scaling_least_points(const ScalingPoint *points, int count);
ScalingFit scaling_fit(const ScalingPoint *points, int count);
double scaling_loss(const ScalingFit *fit, double parameters, double tokens);

/* Fits of SCALING_SAMPLES sets of losses around the measured ones (parametric bootstrap). Returns
 * their number: 0 if no size has two seeds. noise: relative standard deviation of one loss. */
enum { SCALING_SAMPLES = 500 };
int scaling_resample(const ScalingPoint *points, int count, const ScalingFit *fit, ScalingFit *fits,
                     double *noise);
/* 95 % of the values, which it sorts; NaN are left out. */
LossInterval scaling_interval(double *values, int count);
/* 95 % interval of the mean loss at the size, tokens and seeds of the target. */
LossInterval scaling_forecast(const ScalingFit *fits, int count, double noise,
                              const ScalingPoint *target);
/* The size from `least` to `most` at which both losses are equal; NaN if there is none. ratio:
 * tokens per parameter. */
double scaling_crossing(const ScalingFit *one, const ScalingFit *other, double ratio, double least,
                        double most);

/* ladder: experiments whose variants differ in size. */

/* A list of { "curve", "points": [ { "parameters", "tokens", "loss", "spread", "seeds" } ],
 * "fit": { "limit", "limit_95", "size", "alpha", "alpha_95", "tokens", "beta", "beta_95",
 * "error" }, "crossing": { "parameters", "low", "high", "share" }, "forecast": { "parameters",
 * "tokens", "seeds", "loss", "low", "high", "measured", "within" } }; NULL without a ladder. The
 * first curve is the one that the others cross. share: of the samples that cross. */
json_t *scaling_json(const Gathering *gathering, const json_t *comparison);
/* The structure of the first curve that has the size of this group, as a new string; NULL without
 * a ladder or for a model outside of it. */
char *ladder_base(const json_t *design, const Group *group);
/* Whether the runs of the variant are of the largest size. */
bool ladder_is_last(const MoecExperiment *experiment, const MoecVariant *variant);
/* Writes DIR/forecast.json from the runs of all smaller sizes, unless it exists; false after a
 * message. */
bool ladder_forecast(const Plan *plan);

/* comparison: the rows of models. */

/* comparison_json without "effects", "scaling" and "plan". */
json_t *compared_json(const Gathering *gathering, int base, bool lasting);

/* effects: analysis of variance of experiments that combine several options in all ways. */

/* The row of a structure: its only one, or the best tuned one; NULL if there is none. */
const json_t *structure_row(const json_t *comparison, const char *structure);
/* { "variance": [ { "effect", "freedom", "f", "chance", "adjusted" } ], "levels": [ { "factor",
 * "value", "mean", "low", "high" } ] }; NULL if the experiment has no grid, a run of it is missing,
 * or there is only one seed. "mean": of a level less that of all cells, with its 95 % interval. */
json_t *effects_json(const json_t *design, PValueCorrection correction, const json_t *comparison);

/* optimum: the best value of the tuned option between the tested ones. */

/* { "option", "curves": [ { "structure", "values", "losses", "best", "optimum", "low", "high",
 * "edge", "drift": { "mean", "low", "high" } } ] }, with 95 % intervals over the seeds. "drift": of
 * the logarithm to base 2 from that of the first structure. "edge": "low" or "high" if the best
 * mean is that of the first or last value, else null. Without structures of fewer than three
 * values; NULL unless one numeric option alone is tuned. */
json_t *optima_json(const json_t *comparison);

/* slurm: the runs of a sweep as the job array of a scheduler. */

/* The array as text: one file that can be read, changed and submitted by hand. A new string. */
char *slurm_text(const Plan *plan, const RunOrder *orders, int count);
/* Writes DIR/sweep.sbatch, submits it and waits until none of its jobs is left; one that was
 * submitted before and is not over is waited for instead. False after a message or a signal. */
bool slurm_make(const Plan *plan, const RunOrder *orders, int count);

#endif
