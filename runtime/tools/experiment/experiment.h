/* experiment: plans, runs and results of experiments, and comparisons of runs. */
#ifndef EXPERIMENT_H
#define EXPERIMENT_H

#include "base/memory.h"
#include "moec.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* history: the log of a run, log.jsonl, as columns: a row for each step, a column for each name. */

typedef struct History {
    char **names;    /* the first is "step"; then as they first appear */
    char **former;   /* of a probe, where the log has it; else NULL */
    double **values; /* [column][row]; NaN where there is none, infinity where it is null */
    int columns;
    long rows, room;
    int next;   /* column that the next number is looked for at */
    bool whole; /* see history_open */
    char
        *diverged; /* value that was not finite or above the limit when training stopped, or NULL */
} History;

/* The spec of a run from its run.json, else from a checkpoint. A new string, or NULL. */
char *run_spec(const char *folder);
/* Reads FOLDER/log.jsonl; lines that are damaged are left out. Probes have the names that the
 * standard library has for them now. whole: with the values that a probe
 * has in each layer, which may be thousands (the load of every expert). False, with errno and
 * nothing to free, when there is no such file. */
bool history_open(History *history, const char *folder, bool whole);
void history_free(History *history);
AUTO_OBJECT(History, history_free)
/* The number of a column by its current or former name, or -1. */
int history_column(const History *history, const char *name);
/* The last number of a column; NaN when there is none. */
double history_last(const History *history, const char *name);
/* The mean of the last tenth of the steps that have this column. */
double history_tail(const History *history, const char *name);
/* The first step with a value that is at least as good as `goal`, between two steps by linear
 * interpolation; of the training loss, "loss", with a mean over the last tenth of the steps. NaN:
 * none. */
double history_reached(const History *history, const char *name, double goal, bool higher);
/* The sum over the steps. If the log has a part of them: steps times their mean. */
double history_total(const History *history, const char *name);
/* The median of the steps. */
double history_median(const History *history, const char *name);
/* The last step; 0 before the first. */
long history_step(const History *history);

/* result: result of a run. */

typedef struct RunResult {
    bool diverged;
    bool stopped;    /* before its end, because others were better */
    long step;       /* its last one */
    double loss;     /* NaN of one that diverged */
    char metric[96]; /* name of the loss: "val_bits_per_byte"; "" if there is none */
} RunResult;

/* The last number called `metric`; NULL: the last measure of held-out data, or else the mean loss
 * of the last tenth of the steps. */
RunResult result_of(const History *history, const char *metric);

/* statistics: mean, standard deviation, t-tests, equivalence tests, power, corrections for several
 * comparisons. */

/* Mean and standard deviation (of a sample, with count - 1; NaN for one number). */
typedef struct SampleMoments {
    int count;
    double mean, spread;
} SampleMoments;

/* Of `count` numbers, at least one. */
SampleMoments sample_of(const double *values, int count);
/* Student's t: the probability of at most `t`, and the t of this probability. */
double student_chance(double t, double freedom);
double student_quantile(double chance, double freedom);
/* The noncentral t distribution: the probability of at most `t`. `shift` is the noncentrality. */
double noncentral_chance(double t, double freedom, double shift);
/* The F distribution: the probability of at least `ratio`. */
double fisher_tail(double ratio, double above, double below);
/* Half width of the 95 % confidence interval of the mean; NaN for fewer than two numbers. */
double sample_margin(const SampleMoments *sample);

/* A difference of means, its standard error with the degrees of freedom, the half width of its 95 %
 * confidence interval, and the two-sided p-value. NaN if there are too few numbers. */
typedef struct Difference {
    bool paired;
    int count;     /* of pairs; else of the smaller sample */
    double spread; /* of the paired differences, else pooled over both samples */
    double mean, error, freedom, margin, chance;
} Difference;

/* Student's paired t-test, for pairs with the same seed and order of data. */
Difference difference_paired(const double *values, const double *base, int count);
/* Welch's t-test, for samples with different standard deviations. */
Difference difference_apart(const SampleMoments *sample, const SampleMoments *base);
/* p-value of two one-sided tests (TOST): small if the difference is within +-bound.
 * Schuirmann 1987, J. Pharmacokinet. Biopharm. 15, 657-680. */
double difference_equivalence(const Difference *difference, double bound);
/* p-value of the one-sided test that the mean is not worse than the base by `bound` or more. */
double difference_not_worse(const Difference *difference, double bound, bool higher);
/* Runs per variant with which a t-test at level `alpha` finds a difference of this size with
 * probability `power`, if the spread is that of `pilot`; 0: more than 100000, or not known. */
int seeds_needed(const Difference *pilot, double size, double alpha, double power);

/* Corrections of p-values for several comparisons. Holm bounds the probability of any false
 * finding (Scand. J. Statist. 6, 65-70, 1979), Benjamini-Hochberg the expected share of false ones
 * (J. R. Stat. Soc. B 57, 289-300, 1995). */
typedef enum PValueCorrection {
    CORRECTION_HOLM,
    CORRECTION_BENJAMINI_HOCHBERG,
    CORRECTION_NONE
} PValueCorrection;
/* Replaces the p-values by the corrected ones, at most 1. NaN do not count. Returns the number of
 * comparisons. */
int correct_chances(PValueCorrection correction, double *chances, int count);
/* "holm", "benjamini_hochberg", "none". */
const char *correction_name(PValueCorrection correction);

/* verdicts: verdicts of the differences from one baseline. */

/* How an experiment judges its differences. Bounds are in units of the metric; 0: not asked for. */
typedef struct TestRules {
    PValueCorrection correction;
    double equivalence;   /* smaller differences do not matter */
    double detect, power; /* a difference that the runs should find, and how probably */
} TestRules;

/* A difference and its verdict. p-values are NaN where it has too few runs or is not asked for. */
typedef struct Judgement {
    Difference difference;
    bool counts;                            /* one of the comparisons that the corrections count */
    double adjusted, equivalent, not_worse; /* corrected p-values */
} Judgement;

/* Sets the corrected p-values. Returns the number of comparisons. */
int judge_differences(const TestRules *rules, bool higher, Judgement *judgements, int count);
/* "better" (less than the base, or more if higher is better), "worse", "not significant" (corrected
 * p-value of at least 0.05), "one seed", "not selected" (does not count); "" without values. With a
 * bound of equivalence also "better, equivalent", "worse, equivalent", "equivalent", "not worse".
 */
const char *judgement_verdict(const Judgement *judgement, bool higher);

/* gather: the runs that folders hold, those of one model together. */

typedef struct Run {
    char *folder;
    long seed; /* -1: not known */
    bool ended;
    RunResult result;
    History history;
    json_t *account; /* its run.json, or NULL */
} Run;

/* The runs of one model, which differ in their seeds. */
typedef struct Group {
    char *name, *spec; /* spec: with all that it uses, or NULL */
    Run *runs;
    int count;
    char *structure, *tuned; /* see MoecVariant; NULL where nothing is tuned */
    json_t *sets;            /* changes of an experiment to its baseline, "key=value"; or NULL */
    json_t *cost, *options;  /* cost of the model, its resolved options; or NULL */
} Group;

typedef struct Gathering {
    char *folder;     /* of the first sweep, or NULL */
    char *experiment; /* NULL: runs that were started one by one */
    char *metric;     /* a number of the log that the experiment asks for, or NULL */
    bool higher;      /* of it is better */
    TestRules rules;
    json_t *design; /* factors and levels of a grid, as in sweep.json; or NULL */
    Group *groups;
    int count;
} Gathering;

/* Each folder is that of a run, of a sweep, or holds such folders. False after a message. */
bool gather(Gathering *gathering, const char *const *folders, int count);
void gathering_free(Gathering *gathering);
AUTO_OBJECT(Gathering, gathering_free)
/* Index of a group; -1 after a message that lists the existing ones. */
int gathering_find(const Gathering *gathering, const char *name);

/* comparison: compares models by their runs. Per model: the loss and its standard deviation over
 * seeds, cost, speed, probes, and the difference from a baseline. */

/* Returns the comparison as JSON; missing numbers are null:
 *
 *     { "experiment", "base", "metric", "higher", "seeds", "comparisons", "correction",
 *       "equivalence", "detect", "power", "effects", "plan",
 *       "variants": [ { "variant", "sets", "parameters", "active", "flops", "cache", "steps",
 *                       "tokens", "flops_total", "finished", "diverged", "unfinished", "loss",
 *                       "spread", "nats", "train_loss", "steps_to_base", "speed", "seconds",
 *                       "probes",
 *                       "difference": { "paired", "pairs", "mean", "margin_95", "low", "high",
 *                                       "chance", "adjusted", "equivalence", "not_worse",
 *                                       "seeds_needed", "verdict" },
 *                       "runs": [ { "seed", "folder", "step", "loss", "diverged", ... } ] } ] }
 *
 * flops: training FLOPs per token; speed: tokens/s. loss and spread are mean and standard deviation
 * of the metric: the last evaluation, or the metric of the experiment. "higher" is true if larger
 * values are better. For a tuned setting a row has the setting ("tuned"), its "structure", whether
 * it is the "best" of the number of "choices", and whether it is "at_edge" of them. "stopped" is
 * the step at which halving stopped the variant.
 *
 * base: index of a group. -1 selects the first model, or the best of its tuned variants. lasting:
 * without times and folders, which differ when a run is repeated. */
json_t *comparison_json(const Gathering *gathering, int base, bool lasting);

/* Printed; each returns a new string. */
char *comparison_text(const json_t *comparison);
char *comparison_markdown(const json_t *comparison);
char *comparison_csv(const json_t *comparison);
char *comparison_svg(const json_t *comparison);

/* csv: fields of comma-separated values (RFC 4180). */

/* Writes a text as one field, in quotes where it has a comma, a quote or a line break. */
static inline void csv_text(FILE *file, const char *text) {
    if (!strpbrk(text, ",\"\r\n")) {
        fputs(text, file);
        return;
    }
    fputc('"', file);
    for (; *text; text++) fprintf(file, *text == '"' ? "\"\"" : "%c", *text);
    fputc('"', file);
}

/* sweep_plan: the runs of a sweep: every variant with every seed, except variants that are the same
 * model as an earlier one. */

typedef struct Plan {
    const MoecExperiment *experiment;
    const char *file, *data, *validation, *tokenizer, *out; /* some may be NULL */
    const char *const *sets;                                /* those of the command */
    int set_count;
    const char *const *devices; /* shared by the runs that are active at the same time */
    int device_count;
    long jobs;
    const char
        *slurm;     /* options of sbatch: the runs are jobs of a scheduler; NULL: of this machine */
    json_t *result; /* of --json; NULL: the plan and the table are printed as text */
    const char *amend;  /* reason of a change of the plan in the folder, or NULL */
    bool tensorboard;   /* of every run, as moec train has it */
    bool plain_program; /* the job script calls `moec` from PATH */
} Plan;

/* Runs that are to be made in all. */
long plan_runs(const Plan *plan);
/* Prints a table or adds to the result: variants, parameters, FLOPs. */
void plan_show(const Plan *plan);
/* Prints a lower bound of the duration or adds it to the result: the FLOPs of the runs at the
 * measured peak of the devices. False after a message if a device does not exist. */
bool plan_show_time(const Plan *plan);
/* Creates the folder, registers the plan and writes it to DIR/sweep.json. An existing file must
 * have the same content unless the change is given a reason: false after a message that names the
 * difference. */
bool plan_keep(const Plan *plan);
/* A new string: DIR/VARIANT/seed_N. */
char *plan_folder(const Plan *plan, const MoecVariant *variant, long seed);

/* runs: the runs of a sweep, each a separate process with its own folder. A finished run has a
 * result.json and is not repeated; any other resumes from its checkpoint. */

/* Makes the folder and keeps other sweeps out of it until runs_unlock or the end of the process and
 * of its runs. -1 after a message. */
int runs_lock(const char *out);
void runs_unlock(int lock);
/* Makes all runs that are not finished; the exit code. */
int runs_make(const Plan *plan);

/* Text of the job script for a scheduler: a new string. */
char *runs_as_jobs(const Plan *plan);

#endif
