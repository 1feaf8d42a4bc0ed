#include "tools/experiment/internal.h"

#include "base/files.h"
#include "base/memory.h"
#include "base/message.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { POLL_SECONDS = 5, MAX_REPLY = 256 };

/* ---- the file ---- */

/* A file name in an #SBATCH line: sbatch reads quotes and backslashes, then %j and so on. */
static void add_pattern(FILE *file, const char *path) {
    for (; *path; path++) {
        if (strchr("\"\\", *path)) fputc('\\', file);
        if (*path == '%') fputc('%', file);
        fputc(*path, file);
    }
}

/* True if the options of sbatch ask for tasks: the processes of each run. */
static bool asks_tasks(const char *options) {
    for (const char *at = options; *at; at += strspn(at, " ")) {
        if (!strncmp(at, "--ntasks", 8) || (!strncmp(at, "-n", 2) && strchr(" 123456789", at[2])))
            return true;
        at += strcspn(at, " ");
    }
    return false;
}

static void add_order(FILE *file, const Plan *plan, const RunOrder *order, int number,
                      const char *program) {
    char **command = order_command(plan, order);
    fprintf(file, "%d) # %s, seed %ld\n    ", number, order->variant->name, order->seed);
    if (asks_tasks(plan->slurm)) fputs("srun --kill-on-bad-exit ", file);
    put_shell_word(file, program);
    for (int i = 1; command[i]; i++) {
        bool option = command[i][0] == '-' && command[i][1] == '-';
        fputs(option ? " \\\n        " : " ", file);
        put_shell_word(file, command[i]);
    }
    fputs("\n    ;;\n", file);
    command_free(command);
}

char *slurm_text(const Plan *plan, const RunOrder *orders, int count) {
    char *text = NULL, program[PATH_MAX];
    size_t length;
    FILE *file = open_memstream(&text, &length);
    ssize_t own = readlink("/proc/self/exe", program, sizeof program - 1);
    program[own > 0 ? own : 0] = '\0';
    if (plan->plain_program || !*program) strcpy(program, "moec");
    fprintf(
        file,
        "#!/bin/bash\n"
        "# Experiment %s: each job of this array is one run. `moec sweep` with the same options\n"
        "# collects the results; unfinished jobs resume from their checkpoints.\n"
        "#SBATCH --job-name=%s\n"
        "#SBATCH --array=0-%d\n"
        "#SBATCH --output=\"",
        plan->experiment->name, plan->experiment->name, count - 1);
    add_pattern(file, plan->out);
    fputs("/slurm_%a.txt\"\n", file);
    if (*plan->slurm) fprintf(file, "#SBATCH %s\n", plan->slurm);
    fputs("case $SLURM_ARRAY_TASK_ID in\n", file);
    for (int i = 0; i < count; i++) add_order(file, plan, &orders[i], i, program);
    fputs("esac\n", file);
    fclose(file);
    return text;
}

/* ---- jobs ---- */

/* The first line that a command writes; false when it fails. */
static bool ask(const char *command, char reply[MAX_REPLY]) {
    FILE *file = popen(command, "r");
    if (!file) return false;
    if (!fgets(reply, MAX_REPLY, file)) *reply = '\0';
    reply[strcspn(reply, "\n;")] = '\0';
    while (fgetc(file) != EOF) continue;
    return pclose(file) == 0;
}

/* Jobs of the array that wait or run; an array that is long over is not known any more. */
static bool is_going_on(const char *job) {
    char reply[MAX_REPLY], *command = memory_format("squeue -h -j %s 2>/dev/null", job);
    bool going = ask(command, reply) && *reply;
    free(command);
    return going;
}

static bool is_job(const char *text) {
    size_t digits = strspn(text, "0123456789");
    return digits > 0 && text[digits] == '\0';
}

/* The job that was submitted before, into `job`; false when there is none. */
static bool read_job(const char *path, char job[MAX_REPLY]) {
    FILE *file = file_exists(path) ? file_stream(path, NULL) : NULL;
    bool found = file && fgets(job, MAX_REPLY, file);
    if (file) fclose(file);
    if (found) job[strcspn(job, "\n")] = '\0';
    return found && is_job(job);
}

/* A new string. */
static char *submit_command(const char *path) {
    char *text = NULL;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    fputs("sbatch --parsable ", file);
    put_shell_word(file, path);
    fclose(file);
    return text;
}

static bool submit_batch(const Plan *plan, const RunOrder *orders, int count, const char *kept,
                         char job[MAX_REPLY]) {
    char *path = path_join(plan->out, "sweep.sbatch"), *text = slurm_text(plan, orders, count);
    bool good = file_write(path, text, strlen(text));
    AUTO_FREE char *command = submit_command(path);
    free(text);
    if (good && (!ask(command, job) || !is_job(job)))
        good = error_message(
            "see the message of sbatch; the file can be changed and submitted by hand",
            "%s could not be submitted", path);
    if (good) progress_line("%s is submitted as job %s: %d runs", path, job, count);
    good = good && file_write(kept, job, strlen(job));
    free(path);
    return good;
}

/* Each run needs its folder before a job writes there. */
static bool make_folders(const Plan *plan, const RunOrder *orders, int count) {
    bool good = true;
    for (int i = 0; i < count && good; i++) {
        AUTO_FREE char *folder = order_folder(plan, &orders[i]);
        good = folder_make(folder);
    }
    return good;
}

bool slurm_make(const Plan *plan, const RunOrder *orders, int count) {
    char *kept = path_join(plan->out, "slurm.job"), job[MAX_REPLY] = "";
    bool good = make_folders(plan, orders, count);
    if (good && read_job(kept, job) && is_going_on(job))
        progress_line("waiting for job %s", job);
    else
        good = good && submit_batch(plan, orders, count, kept, job);
    while (good && !interrupt_signal() && is_going_on(job)) sleep(POLL_SECONDS);
    if (interrupt_signal())
        progress_line("the jobs continue; the same command waits for them, scancel %s stops them",
                      job);
    free(kept);
    return good && !interrupt_signal();
}
