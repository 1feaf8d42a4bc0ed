/* sweep: moec sweep: trains the variants of an experiment and compares them. */
#include "abi/json_make.h"
#include "base/files.h"
#include "base/launcher.h"
#include "base/memory.h"
#include "base/message.h"
#include "mesh/mesh.h"
#include "tools/command/line/commands.h"
#include "training/spec.h"
#include "tools/experiment/experiment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Frees the text. last: the message suggests the next command. */
static bool write_result_file(const char *folder, const char *name, char *text, bool last) {
    AUTO_FREE char *path = path_join(folder, name);
    bool good = file_write(path, text, strlen(text));
    if (good) written_message(path, last ? "moec report %s" : NULL, folder);
    free(text);
    return good;
}

/* Prints the comparison as moec compare does, or adds it to the result, and writes DIR/table.json
 * and DIR/table.csv; false after a message. */
static bool table_write(const Plan *plan) {
    AUTO(Gathering) gathering;
    bool good = gather(&gathering, &plan->out, 1);
    if (good) {
        json_auto_t *all = comparison_json(&gathering, -1, false),
                    *lasting = comparison_json(&gathering, -1, true);
        AUTO_FREE char *text = comparison_text(all);
        if (!plan->result) printf("\n%s\n", text);
        if (plan->result) json_object_set(plan->result, "comparison", all);
        good =
            write_result_file(plan->out, "table.json",
                              json_write(lasting, JSON_INDENT(2) | JSON_REAL_PRECISION(9)), false);
        good = write_result_file(plan->out, "table.csv", comparison_csv(lasting), true) && good;
    }
    return good;
}

static int sweep(const Plan *plan) {
    int lock = runs_lock(plan->out);
    if (lock < 0) return EXIT_INPUT;
    int code = plan_keep(plan) ? runs_make(plan) : EXIT_INPUT;
    if (code == 0 && !table_write(plan)) code = EXIT_INPUT;
    runs_unlock(lock);
    return code;
}

static int sweep_by_jobs(Plan *plan, bool dry_run) {
    if (plan->experiment->seconds > 0) {
        error_message("set the budget in tokens, steps or flops",
                      "a budget of %g s cannot be converted to steps: the speed of the machines of "
                      "the jobs is unknown here",
                      plan->experiment->seconds);
        return EXIT_INPUT;
    }
    if (!dry_run) return sweep(plan);
    plan->plain_program = true;
    AUTO_FREE char *text = runs_as_jobs(plan);
    if (plan->result) json_object_set_new(plan->result, "job_script", json_text(text));
    if (!plan->result) fputs(text, stdout);
    return 0;
}

static void print_sweep_json(const Plan *plan, int code, bool dry_run) {
    if (plan->result && code == 0 && dry_run)
        json_result_print(json_incref(plan->result));
    else if (plan->result && code == 0)
        json_result_written(plan->out, json_incref(plan->result));
    json_decref(plan->result);
}

/* Splits "cuda:0,cuda:1"; returns a new block with the list and the names. */
static const char **devices_of(const char *text, int *count) {
    size_t length = strlen(text) + 1;
    const char **names = memory_new(length * (sizeof *names + 1));
    char *copy = memcpy(names + length, text, length);
    *count = 0;
    for (char *at = strtok(copy, ","); at; at = strtok(NULL, ",")) names[(*count)++] = at;
    return names;
}

static int check_options(const Command *command, Plan *plan, bool dry_run) {
    if (!dry_run && (!plan->data || !plan->out))
        return arguments_wrong(command, NULL, "moec sweep requires --data and --out, or --dry-run");
    if (plan->amend && (dry_run || !*plan->amend))
        return arguments_wrong(command, "for example --amend 'two more seeds: wide interval'",
                               dry_run ? "--amend has no effect with --dry-run"
                                       : "--amend expects a reason, got an empty text");
    if (plan->jobs == 0)
        return arguments_wrong(command, "omit --jobs: one run per device",
                               "--jobs expects an integer from 1, got 0");
    if (plan->slurm && !strcmp(plan->slurm, "none")) plan->slurm = "";
    if (plan->slurm && (strpbrk(plan->slurm, "\n\r") || !plan->out))
        return arguments_wrong(command, "--slurm '--partition=gpu --gres=gpu:1' --out DIR",
                               "--slurm expects one line of options and requires --out");
    if (plan->slurm && strpbrk(plan->out, "\n\r\\"))
        return arguments_wrong(command, "choose a path without them",
                               "with --slurm, --out cannot contain line breaks or backslashes");
    return -1;
}

/* -1 to continue, otherwise the exit code after a message. */
static int read_arguments(const Command *command, const Option *options, int count, int argc,
                          char **argv, const char **operand) {
    const ProcessGroup launch = launch_read();
    mesh_hold_messages(&launch);
    const int code = arguments_read(command, options, count, argc, argv, operand);
    if (code >= 0 || launch.size == 1) return code;
    error_message("omit the launcher; --slurm '--ntasks=N' starts runs of N processes",
                  "moec sweep runs in one process, but %s started %d", launch.command, launch.size);
    return EXIT_INPUT;
}

int command_sweep(const Command *command, int argc, char **argv) {
    const char *operand;
    bool dry_run = false, json = false, resume;
    TextList sets = {0};
    Plan plan = {.jobs = -1};
    const char *device = "cpu";
    const Option table[] = {
        {OPTION_TEXT, "--data", "DATA", &plan.data, "training data of every run; see moec train"},
        {OPTION_TEXT, "--val-data", "DATA", &plan.validation,
         "validation data (default: the end of --data)"},
        {OPTION_TEXT, "--tokenizer", "FILE", &plan.tokenizer, "tokenizer.json for text"},
        {OPTION_TEXT, "--out", "DIR", &plan.out,
         "directory of the runs, VARIANT/seed_N, and the table"},
        {OPTION_COUNT, "--jobs", "N", &plan.jobs,
         "number of concurrent runs (default: one per device)"},
        {OPTION_FLAG, "--dry-run", NULL, &dry_run, "plan only: variants, sizes, time"},
        {OPTION_TEXT, "--device", "DEVICES", &device,
         "cpu (default), cuda, cuda:N, or a list that shares the runs: cuda:0,cuda:1"},
        {OPTION_TEXT, "--slurm", "OPTIONS", &plan.slurm,
         "submission as a Slurm job array with these options of sbatch, or none"},
        {OPTION_FLAG, "--resume", NULL, &resume,
         "continuation of the sweep in --out (the default)"},
        {OPTION_TEXT, "--amend", "REASON", &plan.amend,
         "change of the plan in --out, recorded with its reason in plans.json"},
        {OPTION_FLAG, "--json", NULL, &json, "plan and comparison as JSON"},
        {OPTION_FLAG, "--tensorboard", NULL, &plan.tensorboard,
         "logs for TensorBoard in the directory of each run"},
        SET_OPTION(&sets),
    };
    int code = read_arguments(command, OPTIONS(table), argc, argv, &operand);
    if (code < 0) code = check_options(command, &plan, dry_run);
    if (code >= 0) return code;
    plan.devices = devices_of(device, &plan.device_count);
    if (plan.jobs < 0) plan.jobs = plan.device_count;
    if (!plan.device_count)
        return arguments_wrong(command, "for example --device cpu, or --device cuda:0,cuda:1",
                               "--device expects a device, got an empty list");
    char *file;
    AUTO(MoecCompiler) *compiler = spec_open_experiment(operand, &sets, &file);
    plan.experiment = compiler ? moec_expand(compiler) : NULL;
    plan.file = file;
    plan.sets = sets.items;
    plan.set_count = sets.count;
    code = EXIT_INPUT;
    if (compiler && reports_good(compiler)) {
        if (json) plan.result = json_object();
        plan_show(&plan);
        code = plan.slurm               ? sweep_by_jobs(&plan, dry_run)
               : !plan_show_time(&plan) ? EXIT_INPUT
               : dry_run                ? 0
                                        : sweep(&plan);
        print_sweep_json(&plan, code, dry_run);
    }
    free(file);
    free((void *)plan.devices);
    return code;
}
