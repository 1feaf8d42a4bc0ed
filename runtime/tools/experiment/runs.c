#include "tools/experiment/experiment.h"

#include "tools/experiment/internal.h"

#include "base/message.h"
#include "base/files.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_FAILED = 1, PATIENCE = 1500 };

/* A process of a run; 0: none. */
typedef struct RunProcess {
    pid_t process;
    RunOrder order;
} RunProcess;

typedef struct Sweep {
    const Plan *plan;
    RunProcess *workers;
    long running, ended, failed;
    int variant; /* the next run to begin */
    long seed;
    double share;  /* of each run that is made now; 1: all of it */
    long *steps;   /* by variant */
    bool *stopped; /* the same */
} Sweep;

static void pause_briefly(void) {
    const struct timespec time = {.tv_nsec = 20000000};
    nanosleep(&time, NULL);
}

/* ---- one sweep in a folder ---- */

/* True if the process of the last sweep that held the lock still exists. Its remaining runs end
 * soon after it. */
static bool is_held_by_sweep(int lock) {
    char text[24] = "";
    ssize_t length = pread(lock, text, sizeof text - 1, 0);
    long process = length > 0 ? strtol(text, NULL, 10) : 0;
    return process > 0 && (kill((pid_t)process, 0) == 0 || errno == EPERM);
}

static void sign(int lock) {
    char text[24];
    int length = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    if (ftruncate(lock, 0) == 0 && pwrite(lock, text, (size_t)length, 0) != length) return;
}

/* The runs inherit it: those of a sweep that was killed still write. */
int runs_lock(const char *out) {
    if (!folder_make(out)) return -1;
    char *path = path_join(out, "lock");
    int lock = file_create(path, O_RDWR), tries = 0;
    free(path);
    if (lock < 0) return -1;
    while (flock(lock, LOCK_EX | LOCK_NB) != 0) {
        if (++tries < PATIENCE && !is_held_by_sweep(lock)) {
            pause_briefly();
            continue;
        }
        error_message("wait for it, or choose another --out", "another sweep is running in %s",
                      out);
        close(lock);
        return -1;
    }
    sign(lock);
    return lock;
}

void runs_unlock(int lock) {
    close(lock);
}

static void report_run(const Sweep *sweep, const RunProcess *worker, const RunResult *result) {
    AUTO_FREE char *outcome = result->diverged
                                  ? memory_format("diverged at step %ld", result->step)
                                  : memory_format("%s %.5f", result->metric, result->loss);
    progress_line("%s seed %ld: %s  (%ld of %ld runs)", worker->order.variant->name,
                  worker->order.seed, outcome, sweep->ended, plan_runs(sweep->plan));
}

static void tell_failed(const Plan *plan, const RunProcess *worker, int status) {
    AUTO_FREE char *folder = order_folder(plan, &worker->order);
    progress_clear();
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        error_message("set metric to a column of the log; moec log RUN lists them",
                      "the log of %s seed %ld has no number '%s'", worker->order.variant->name,
                      worker->order.seed,
                      plan->experiment->metric ? plan->experiment->metric : "loss");
    else if (WIFSIGNALED(status))
        error_message("run the same command again to resume", "%s seed %ld was killed by signal %d",
                      worker->order.variant->name, worker->order.seed, WTERMSIG(status));
    else
        error_message("see output.txt in the run directory; the same command resumes it",
                      "%s seed %ld has failed, in %s", worker->order.variant->name,
                      worker->order.seed, folder);
}

/* Stores the result of a run that paused at a fraction of its steps; false if the run did not
 * pause. */
static bool note_pause(Sweep *sweep, const RunProcess *worker, const RunResult *result) {
    const RunOrder *order = &worker->order;
    if (!order->until || result->step != order->until || order->until >= order->steps) return false;
    return run_keep_at(sweep->plan, order->variant, order->seed, order->until, result);
}

/* A process has ended: finished, diverged, at a pause, or none of these. */
static void end_run(Sweep *sweep, RunProcess *worker, int status) {
    const RunOrder *order = &worker->order;
    RunResult result = run_reading(sweep->plan, order->variant, order->seed);
    bool finished = WIFEXITED(status) && WEXITSTATUS(status) == 0 && *result.metric;
    bool diverged = WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILED && result.diverged;
    if (diverged && !*result.metric) strcpy(result.metric, "loss");
    result.diverged = diverged;
    sweep->running--;
    worker->process = 0;
    if (finished && note_pause(sweep, worker, &result)) return;
    if ((finished || diverged) && run_keep(sweep->plan, order->variant, order->seed, &result)) {
        sweep->ended++;
        report_run(sweep, worker, &result);
    } else if (!interrupt_signal()) {
        sweep->failed++;
        tell_failed(sweep->plan, worker, status);
    }
}

/* Whether there is something left to do for a run now. */
static bool is_unfinished(const Sweep *sweep, const RunOrder *order) {
    RunResult result;
    if (run_result(sweep->plan, order->variant, order->seed, &result)) return false;
    return !order->until ||
           !run_result_at(sweep->plan, order->variant, order->seed, order->until, &result);
}

/* The next run that is not finished; false when there is none. */
static bool next(Sweep *sweep, RunProcess *worker) {
    const MoecExperiment *experiment = sweep->plan->experiment;
    while (sweep->seed <= experiment->seeds) {
        int at = sweep->variant;
        RunOrder *order = &worker->order;
        order->variant = &experiment->variants[at];
        order->seed = sweep->seed;
        order->steps = sweep->steps[at];
        order->until = sweep->share < 1 ? halving_step(order->steps, sweep->share) : 0;
        if (++sweep->variant == experiment->count) {
            sweep->variant = 0;
            sweep->seed++;
        }
        if (order->variant->same) continue;
        if (is_unfinished(sweep, order) && !sweep->stopped[at]) return true;
    }
    return false;
}

static void collect_finished(Sweep *sweep) {
    for (long i = 0; i < sweep->plan->jobs; i++) {
        int status;
        RunProcess *worker = &sweep->workers[i];
        if (worker->process && waitpid(worker->process, &status, WNOHANG) == worker->process)
            end_run(sweep, worker, status);
    }
}

static void stop_all(const Sweep *sweep) {
    for (long i = 0; i < sweep->plan->jobs; i++)
        if (sweep->workers[i].process) kill(sweep->workers[i].process, SIGTERM);
}

static void start_workers(Sweep *sweep) {
    for (long i = 0; i < sweep->plan->jobs && !interrupt_signal(); i++) {
        RunProcess *worker = &sweep->workers[i];
        if (worker->process || !next(sweep, worker)) continue;
        worker->process = process_begin(sweep->plan, &worker->order);
        if (worker->process > 0)
            sweep->running++;
        else
            sweep->failed++, worker->process = 0;
    }
}

/* ---- progress ---- */

/* The last step and loss of a run's log. */
static bool last_logged_step(const char *folder, long *step, double *loss) {
    char *path = path_join(folder, "log.jsonl"), text[4096];
    AUTO(FILE) *file = file_exists(path) ? file_stream(path, NULL) : NULL;
    bool found = false;
    free(path);
    if (!file) return false;
    if (fseek(file, -(long)sizeof text + 1, SEEK_END) != 0) rewind(file);
    while (fgets(text, sizeof text, file)) {
        json_t *line = json_loads(text, 0, NULL), *value = json_object_get(line, "loss");
        if (value) {
            found = true;
            *step = (long)json_integer_value(json_object_get(line, "step"));
            *loss = json_number_value(value);
        }
        json_decref(line);
    }
    return found;
}

static char *worker_line(const Sweep *sweep, const RunProcess *worker) {
    char *folder = plan_folder(sweep->plan, worker->order.variant, worker->order.seed), *line;
    long step = 0;
    double loss = NAN;
    if (last_logged_step(folder, &step, &loss))
        line = memory_format("  %-32s seed %-3ld %-8s step %ld/%ld  loss %.4f",
                             worker->order.variant->name, worker->order.seed, worker->order.device,
                             step, worker->order.steps, loss);
    else
        line = memory_format("  %-32s seed %-3ld %-8s starting", worker->order.variant->name,
                             worker->order.seed, worker->order.device);
    free(folder);
    return line;
}

/* On a terminal: one line per active run. */
static void show_progress(const Sweep *sweep) {
    AUTO_FREE char **lines = memory_new((size_t)(sweep->plan->jobs + 1) * sizeof *lines);
    int count = 0;
    lines[count++] = memory_format("%ld of %ld runs finished, %ld active", sweep->ended,
                                   plan_runs(sweep->plan), sweep->running);
    for (long i = 0; i < sweep->plan->jobs; i++)
        if (sweep->workers[i].process) lines[count++] = worker_line(sweep, &sweep->workers[i]);
    progress_block((const char *const *)lines, count);
    for (int i = 0; i < count; i++) free(lines[i]);
}

static long count_ended(const Plan *plan) {
    RunResult result;
    long count = 0;
    for (int i = 0; i < plan->experiment->count; i++) {
        const MoecVariant *variant = &plan->experiment->variants[i];
        for (long seed = 1; seed <= plan->experiment->seeds && !variant->same; seed++)
            count += run_result(plan, variant, seed, &result);
    }
    return count;
}

/* Makes all remaining runs, up to the fraction sweep->share of their steps. */
static void make_share(Sweep *sweep) {
    bool told = false;
    sweep->variant = 0;
    sweep->seed = 1;
    sweep->ended = count_ended(sweep->plan);
    for (start_workers(sweep); sweep->running; start_workers(sweep)) {
        collect_finished(sweep);
        if (interrupt_signal() && !told) {
            stop_all(sweep);
            told = true;
        }
        if (sweep->running) pause_briefly();
        if (progress_is_live() && progress_due()) show_progress(sweep);
    }
    progress_clear();
}

/* ---- on a scheduler ---- */

/* The exit code of a job is not known; its result is read from its log. */
static void end_job(Sweep *sweep, RunProcess *worker) {
    RunResult result = run_reading(sweep->plan, worker->order.variant, worker->order.seed);
    long last = worker->order.until ? worker->order.until : worker->order.steps;
    int failed = result.diverged ? EXIT_FAILED << 8 : 0;
    sweep->running++;
    if (result.diverged || result.step >= last) {
        end_run(sweep, worker, failed);
        return;
    }
    sweep->running--;
    sweep->failed++;
    error_message("see slurm_N.txt; run the same command again to resume",
                  "%s seed %ld has stopped at step %ld of %ld", worker->order.variant->name,
                  worker->order.seed, result.step, last);
}

/* Every run that is open now; a new list. */
static RunOrder *open_orders(Sweep *sweep, int *count) {
    RunOrder *orders = memory_new((size_t)plan_runs(sweep->plan) * sizeof *orders);
    RunProcess worker = sweep->workers[0];
    *count = 0;
    sweep->variant = 0;
    sweep->seed = 1;
    while (next(sweep, &worker)) orders[(*count)++] = worker.order;
    return orders;
}

static void make_share_of_jobs(Sweep *sweep) {
    int count;
    AUTO_FREE RunOrder *orders = open_orders(sweep, &count);
    sweep->ended = count_ended(sweep->plan);
    if (count && !slurm_make(sweep->plan, orders, count)) {
        sweep->failed++;
        count = 0;
    }
    for (int i = 0; i < count; i++) end_job(sweep, &(RunProcess){0, orders[i]});
}

char *runs_as_jobs(const Plan *plan) {
    size_t variants = (size_t)plan->experiment->count;
    RunProcess worker = {.order.device = plan->devices[0]};
    Sweep sweep = {.plan = plan, .workers = &worker, .share = 1};
    int count;
    sweep.steps = memory_new(variants * sizeof *sweep.steps);
    sweep.stopped = memory_new(variants * sizeof *sweep.stopped);
    AUTO_FREE RunOrder *orders = open_orders(&sweep, &count);
    char *text = slurm_text(plan, orders, count);
    free(sweep.steps);
    free(sweep.stopped);
    return text;
}

/* Steps of each variant: from its spec, or from the time budget. */
static bool find_steps(Sweep *sweep) {
    const MoecExperiment *experiment = sweep->plan->experiment;
    for (int i = 0; i < experiment->count; i++) {
        const MoecVariant *variant = &experiment->variants[i];
        sweep->stopped[i] = variant->same != NULL;
        sweep->steps[i] = (long)variant->steps;
        if (variant->same || experiment->seconds == 0) continue;
        sweep->steps[i] = pace_steps(sweep->plan, variant);
        if (!sweep->steps[i]) return false;
    }
    return true;
}

/* All sizes of a ladder except the largest, then its forecast. */
static bool make_smaller_sizes(Sweep *sweep) {
    const MoecExperiment *experiment = sweep->plan->experiment;
    if (experiment->ladder < 0) return true;
    for (int i = 0; i < experiment->count; i++)
        sweep->stopped[i] |= ladder_is_last(experiment, &experiment->variants[i]);
    sweep->share = 1;
    (sweep->plan->slurm ? make_share_of_jobs : make_share)(sweep);
    for (int i = 0; i < experiment->count; i++)
        sweep->stopped[i] = experiment->variants[i].same != NULL;
    return sweep->failed || interrupt_signal() || ladder_forecast(sweep->plan);
}

static void make_all(Sweep *sweep) {
    const MoecExperiment *experiment = sweep->plan->experiment;
    if (!make_smaller_sizes(sweep)) sweep->failed++;
    if (sweep->failed || interrupt_signal()) return;
    for (int i = 0; i <= experiment->halving_count; i++) {
        sweep->share = i < experiment->halving_count ? experiment->halvings[i] : 1;
        (sweep->plan->slurm ? make_share_of_jobs : make_share)(sweep);
        if (sweep->failed || interrupt_signal()) return;
        if (sweep->share < 1) halving_stop(sweep->plan, sweep->share, sweep->steps, sweep->stopped);
    }
}

int runs_make(const Plan *plan) {
    size_t count = (size_t)plan->experiment->count;
    Sweep sweep = {.plan = plan, .seed = 1, .share = 1};
    sweep.workers = memory_new((size_t)plan->jobs * sizeof *sweep.workers);
    sweep.steps = memory_new(count * sizeof *sweep.steps);
    sweep.stopped = memory_new(count * sizeof *sweep.stopped);
    for (long i = 0; i < plan->jobs; i++)
        sweep.workers[i].order.device = plan->devices[i % plan->device_count];
    interrupt_watch();
    bool good = find_steps(&sweep);
    if (good) make_all(&sweep);
    free(sweep.workers);
    free(sweep.steps);
    free(sweep.stopped);
    if (interrupt_signal()) {
        progress_line("interrupted; run the same command again to resume");
        return 128 + interrupt_signal();
    }
    return sweep.failed || !good ? EXIT_FAILED : 0;
}
