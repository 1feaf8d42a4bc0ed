#include "experiment/runs.h"

#include "base/message.h"
#include "base/files.h"
#include "base/interrupt.h"
#include "base/json_number.h"
#include "base/memory.h"
#include "base/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

enum { MAX_ARGUMENTS = 160, EXIT_FAILED = 1, PATIENCE = 1500 };

/* A process of a run; 0: none. */
typedef struct Worker {
    pid_t process;
    const MoecVariant *variant;
    long seed;
    const char *device;
} Worker;

typedef struct Sweep {
    const Plan *plan;
    Worker *workers;
    long running, ended, failed;
    int variant; /* the next run to begin */
    long seed;
} Sweep;

static void pause_briefly(void) {
    const struct timespec time = {.tv_nsec = 20000000};
    nanosleep(&time, NULL);
}

/* ---- one sweep in a folder ---- */

/* Whether the sweep that took the lock last is still there; those of its runs that are left end
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
    int lock = open(path, O_RDWR | O_CREAT, 0666), tries = 0;
    if (lock < 0)
        error_message("choose another --out", "cannot write %s: %s", path, strerror(errno));
    free(path);
    if (lock < 0) return -1;
    while (flock(lock, LOCK_EX | LOCK_NB) != 0) {
        if (++tries < PATIENCE && !is_held_by_sweep(lock)) {
            pause_briefly();
            continue;
        }
        error_message("wait for it, or choose another --out", "another sweep is at work in %s",
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

/* ---- what a run came to ---- */

static RunResult read_log(const char *folder) {
    History history;
    RunResult result = {.loss = NAN};
    if (!history_open(&history, folder)) return result;
    result = result_of(&history);
    history_free(&history);
    return result;
}

bool run_result(const Plan *plan, const MoecVariant *variant, long seed, RunResult *result) {
    char *folder = plan_folder(plan, variant, seed), *path = path_join(folder, "result.json");
    json_t *object = file_exists(path) ? json_load_file(path, 0, NULL) : NULL;
    json_t *loss = json_object_get(object, "loss");
    const char *metric = json_string_value(json_object_get(object, "metric"));
    *result = (RunResult){.diverged = json_is_true(json_object_get(object, "diverged"))};
    result->step = (long)json_integer_value(json_object_get(object, "step"));
    result->loss = json_is_number(loss) ? json_number_value(loss) : NAN;
    snprintf(result->metric, sizeof result->metric, "%s", metric ? metric : "");
    json_decref(object);
    free(path);
    free(folder);
    return metric != NULL;
}

static bool keep_result(const char *folder, const RunResult *result) {
    json_t *object = json_pack("{s:b, s:I, s:s, s:o}", "diverged", result->diverged, "step",
                               (json_int_t)result->step, "metric", result->metric, "loss",
                               json_number(result->loss));
    char *path = path_join(folder, "result.json"), *text = json_dumps(object, JSON_INDENT(2));
    bool good = file_write(path, text, strlen(text));
    free(text);
    free(path);
    json_decref(object);
    return good;
}

/* ---- processes ---- */

static int add_option(char **arguments, int count, const char *name, const char *value) {
    if (!value) return count;
    arguments[count++] = memory_format("%s", name);
    arguments[count++] = memory_format("%s", value);
    return count;
}

/* The command of a run, as its user would type it. */
static char **command_of(const Plan *plan, const Worker *worker, const char *folder) {
    int room = MAX_ARGUMENTS + 2 * worker->variant->set_count, count = 0;
    char **arguments = memory_new((size_t)room * sizeof *arguments);
    char *seed = memory_format("%ld", worker->seed);
    arguments[count++] = memory_format("moec");
    arguments[count++] = memory_format("train");
    arguments[count++] = memory_format("%s:%s", plan->file, plan->experiment->model);
    arguments[count++] = memory_format("--resume");
    count = add_option(arguments, count, "--data", plan->data);
    count = add_option(arguments, count, "--val", plan->validation);
    count = add_option(arguments, count, "--tokenizer", plan->tokenizer);
    count = add_option(arguments, count, "--device", worker->device);
    count = add_option(arguments, count, "--out", folder);
    count = add_option(arguments, count, "--seed", seed);
    for (int i = 0; i < plan->set_count; i++)
        count = add_option(arguments, count, "--set", plan->sets[i]);
    for (int i = 0; i < worker->variant->set_count; i++)
        count = add_option(arguments, count, "--set", worker->variant->sets[i]);
    free(seed);
    return arguments;
}

/* In the process of the run: it ends when the sweep does, and what it says goes to a file. */
_Noreturn static void become(const Plan *plan, char **arguments, const char *output, pid_t sweep) {
    int file = open(output, O_WRONLY | O_CREAT | O_APPEND, 0666);
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGTERM);
#endif
    if (file < 0 || getppid() != sweep) _exit(EXIT_FAILED);
    dup2(file, 1);
    dup2(file, 2);
    close(file);
    long processors = sysconf(_SC_NPROCESSORS_ONLN), share = processors / plan->jobs;
    char threads[24];
    snprintf(threads, sizeof threads, "%ld", share > 1 ? share : 1);
    if (plan->jobs > 1) setenv("OMP_NUM_THREADS", threads, 0);
    execv("/proc/self/exe", arguments);
    execvp(arguments[0], arguments);
    _exit(EXIT_FAILED);
}

static bool begin(const Plan *plan, Worker *worker) {
    char *folder = plan_folder(plan, worker->variant, worker->seed);
    char *output = path_join(folder, "output.txt");
    bool good = folder_make(folder);
    char **arguments = command_of(plan, worker, folder);
    pid_t sweep = getpid();
    fflush(NULL);
    worker->process = good ? fork() : -1;
    if (worker->process == 0) become(plan, arguments, output, sweep);
    if (good && worker->process < 0) error_message(NULL, "cannot start a run: %s", strerror(errno));
    if (worker->process < 0) good = false;
    if (!good) worker->process = 0;
    for (int i = 0; arguments[i]; i++) free(arguments[i]);
    free(arguments);
    free(output);
    free(folder);
    return good;
}

static void tell(const Sweep *sweep, const Worker *worker, const RunResult *result) {
    progress_clear();
    printf("%s seed %ld: ", worker->variant->name, worker->seed);
    if (result->diverged)
        printf("diverged at step %ld", result->step);
    else
        printf("%s %.5f", result->metric, result->loss);
    printf("  (%ld of %ld runs)\n", sweep->ended, plan_runs(sweep->plan));
    fflush(stdout);
}

static void tell_failed(const Worker *worker, const char *folder, int status) {
    progress_clear();
    if (WIFSIGNALED(status))
        error_message("the same command goes on with it", "%s seed %ld was killed by signal %d",
                      worker->variant->name, worker->seed, WTERMSIG(status));
    else
        error_message("what it said stands in its output.txt; the same command goes on with it",
                      "%s seed %ld has failed, in %s", worker->variant->name, worker->seed, folder);
}

/* A process has ended: finished, diverged, or neither. */
static void end(Sweep *sweep, Worker *worker, int status) {
    char *folder = plan_folder(sweep->plan, worker->variant, worker->seed);
    RunResult result = read_log(folder);
    bool finished = WIFEXITED(status) && WEXITSTATUS(status) == 0 && *result.metric;
    bool diverged = WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILED && result.diverged;
    if (diverged && !*result.metric) strcpy(result.metric, "loss");
    result.diverged = diverged;
    sweep->running--;
    if ((finished || diverged) && keep_result(folder, &result)) {
        sweep->ended++;
        tell(sweep, worker, &result);
    } else if (!interrupt_signal()) {
        sweep->failed++;
        tell_failed(worker, folder, status);
    }
    worker->process = 0;
    free(folder);
}

/* The next run that is not finished; false when there is none. */
static bool next(Sweep *sweep, Worker *worker) {
    const MoecExperiment *experiment = sweep->plan->experiment;
    RunResult result;
    while (sweep->seed <= experiment->seeds) {
        const MoecVariant *variant = &experiment->variants[sweep->variant];
        worker->process = 0;
        worker->variant = variant;
        worker->seed = sweep->seed;
        if (++sweep->variant == experiment->count) {
            sweep->variant = 0;
            sweep->seed++;
        }
        if (variant->same) continue;
        if (!run_result(sweep->plan, variant, worker->seed, &result)) return true;
        sweep->ended++;
    }
    return false;
}

static void collect(Sweep *sweep) {
    for (long i = 0; i < sweep->plan->jobs; i++) {
        int status;
        Worker *worker = &sweep->workers[i];
        if (worker->process && waitpid(worker->process, &status, WNOHANG) == worker->process)
            end(sweep, worker, status);
    }
}

static void stop_all(const Sweep *sweep) {
    for (long i = 0; i < sweep->plan->jobs; i++)
        if (sweep->workers[i].process) kill(sweep->workers[i].process, SIGTERM);
}

static void fill(Sweep *sweep) {
    for (long i = 0; i < sweep->plan->jobs && !interrupt_signal(); i++) {
        Worker *worker = &sweep->workers[i];
        if (worker->process || !next(sweep, worker)) continue;
        if (begin(sweep->plan, worker))
            sweep->running++;
        else
            sweep->failed++;
    }
}

/* ---- how it stands ---- */

/* The last step and loss of a run's log. */
static bool last_step(const char *folder, long *step, double *loss) {
    char *path = path_join(folder, "log.jsonl"), text[4096];
    FILE *file = fopen(path, "re");
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
    fclose(file);
    return found;
}

static char *worker_line(const Sweep *sweep, const Worker *worker) {
    char *folder = plan_folder(sweep->plan, worker->variant, worker->seed), *line;
    long step = 0;
    double loss = NAN;
    if (last_step(folder, &step, &loss))
        line =
            memory_format("  %-32s seed %-3ld %-8s step %ld/%.0f  loss %.4f", worker->variant->name,
                          worker->seed, worker->device, step, worker->variant->steps, loss);
    else
        line = memory_format("  %-32s seed %-3ld %-8s begins", worker->variant->name, worker->seed,
                             worker->device);
    free(folder);
    return line;
}

/* On a terminal: a line for each run that goes on. */
static void show(const Sweep *sweep) {
    char **lines = memory_new((size_t)(sweep->plan->jobs + 1) * sizeof *lines);
    int count = 0;
    lines[count++] = memory_format("%ld of %ld runs have ended, %ld go on", sweep->ended,
                                   plan_runs(sweep->plan), sweep->running);
    for (long i = 0; i < sweep->plan->jobs; i++)
        if (sweep->workers[i].process) lines[count++] = worker_line(sweep, &sweep->workers[i]);
    progress_block((const char *const *)lines, count);
    for (int i = 0; i < count; i++) free(lines[i]);
    free(lines);
}

int runs_make(const Plan *plan) {
    Sweep sweep = {.plan = plan, .seed = 1};
    sweep.workers = memory_new((size_t)plan->jobs * sizeof *sweep.workers);
    for (long i = 0; i < plan->jobs; i++)
        sweep.workers[i].device = plan->devices[i % plan->device_count];
    bool told = false;
    interrupt_watch();
    for (fill(&sweep); sweep.running; fill(&sweep)) {
        collect(&sweep);
        if (interrupt_signal() && !told) {
            stop_all(&sweep);
            told = true;
        }
        if (sweep.running) pause_briefly();
        if (progress_is_live() && progress_due()) show(&sweep);
    }
    progress_clear();
    free(sweep.workers);
    if (interrupt_signal()) {
        printf("stopped; the same command goes on\n");
        return 128 + interrupt_signal();
    }
    return sweep.failed ? EXIT_FAILED : 0;
}
