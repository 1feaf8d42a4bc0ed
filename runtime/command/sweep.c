/* sweep: moec sweep: an experiment, from the question to the table. */
#include "base/memory.h"
#include "base/message.h"
#include "command/commands.h"
#include "command/spec.h"
#include "experiment/sweep_plan.h"
#include "experiment/runs.h"
#include "experiment/sweep_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
        error_message("give the budget in tokens, steps or flops",
                      "how many steps fit into %g s would be measured here, and not where the "
                      "jobs run",
                      plan->experiment->seconds);
        return EXIT_INPUT;
    }
    if (!dry_run) return sweep(plan);
    plan->plain_program = true;
    char *text = runs_as_jobs(plan);
    fputs(text, stdout);
    free(text);
    return 0;
}

/* "cuda:0,cuda:1" as a list; a new block of memory that holds the names, too. */
static const char **devices_of(const char *text, int *count) {
    size_t length = strlen(text) + 1;
    const char **names = memory_new(length * (sizeof *names + 1));
    char *copy = memcpy(names + length, text, length);
    *count = 0;
    for (char *at = strtok(copy, ","); at; at = strtok(NULL, ",")) names[(*count)++] = at;
    return names;
}

int command_sweep(int argc, char **argv) {
    const Command *command = command_row("sweep");
    const char *operand;
    bool dry_run = false, resume;
    TextList sets = {0};
    Plan plan = {.jobs = -1};
    const char *device = "cpu";
    const Option table[] = {
        {OPTION_TEXT, "--data", "PATH", &plan.data, "what every run trains on (see moec train)"},
        {OPTION_TEXT, "--val", "PATH", &plan.validation,
         "data to evaluate on; else the end of --data is held out"},
        {OPTION_TEXT, "--tokenizer", "F", &plan.tokenizer, "a tokenizer.json"},
        {OPTION_TEXT, "--out", "DIR", &plan.out, "receives VARIANT/seed_N and the table"},
        {OPTION_COUNT, "--jobs", "N", &plan.jobs, "runs at a time (one on each device)"},
        {OPTION_FLAG, "--dry-run", NULL, &dry_run, "only print the plan"},
        {OPTION_TEXT, "--device", "NAMES", &device,
         "cpu (default), cuda, cuda:N, or several that share the runs: cuda:0,cuda:1"},
        {OPTION_TEXT, "--slurm", "OPTIONS", &plan.slurm,
         "submit the runs as a job array, with these options of sbatch, or `none`"},
        {OPTION_FLAG, "--resume", NULL, &resume,
         "go on with the sweep in DIR, which a sweep does unasked"},
        {OPTION_FLAG, "--tensorboard", NULL, &plan.tensorboard,
         "write the logs for TensorBoard as well, in the folder of each run"},
        {OPTION_LIST, "--set", "KEY=VALUE", &sets, "an option of every variant, as in the file"},
        {.kind = OPTION_END},
    };
    int code = arguments_read(command, table, argc, argv, &operand);
    if (code >= 0) return code;
    if (!dry_run && (!plan.data || !plan.out))
        return arguments_wrong(command, NULL, "moec sweep needs --data and --out, or --dry-run");
    if (plan.jobs == 0) return arguments_wrong(command, NULL, "--jobs takes a number from 1");
    if (plan.slurm && !strcmp(plan.slurm, "none")) plan.slurm = "";
    if (plan.slurm && (strpbrk(plan.slurm, "\n\r") || !plan.out))
        return arguments_wrong(command, "--slurm '--partition=gpu --gres=gpu:1' --out DIR",
                               "--slurm takes one line of options, and needs --out");
    if (plan.slurm && strpbrk(plan.out, "\n\r\\"))
        return arguments_wrong(command, "choose a name without them",
                               "with --slurm, --out cannot contain line breaks or backslashes");
    plan.devices = devices_of(device, &plan.device_count);
    if (plan.jobs < 0) plan.jobs = plan.device_count;
    if (!plan.device_count) return arguments_wrong(command, NULL, "--device names no device");
    char *file;
    MoecCompiler *compiler = spec_open_experiment(operand, &sets, &file);
    plan.experiment = compiler ? moec_expand(compiler) : NULL;
    plan.file = file;
    plan.sets = sets.items;
    plan.set_count = sets.count;
    code = EXIT_INPUT;
    if (compiler && reports_good(compiler)) {
        plan_print(&plan);
        code = plan.slurm                ? sweep_by_jobs(&plan, dry_run)
               : !plan_print_time(&plan) ? EXIT_INPUT
               : dry_run                 ? 0
                                         : sweep(&plan);
    }
    moec_close(compiler);
    free(file);
    free((void *)plan.devices);
    return code;
}
