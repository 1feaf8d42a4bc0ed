/* sweep: moec sweep: an experiment, from the question to the table. */
#include "base/message.h"
#include "command/commands.h"
#include "command/spec.h"
#include "experiment/plan.h"
#include "experiment/runs.h"
#include "experiment/table.h"

#include <stdlib.h>

static int sweep(const Plan *plan) {
    int lock = runs_lock(plan->out);
    if (lock < 0) return EXIT_INPUT;
    int code = plan_keep(plan) ? runs_make(plan) : EXIT_INPUT;
    if (code == 0 && !table_write(plan)) code = EXIT_INPUT;
    runs_unlock(lock);
    return code;
}

int command_sweep(int argc, char **argv) {
    const Command *command = command_row("sweep");
    const char *operand;
    bool dry_run = false;
    TextList sets = {0};
    Plan plan = {.jobs = 1, .device = "cpu"};
    const Option table[] = {
        {OPTION_TEXT, "--data", "PATH", &plan.data, "what every run trains on (see moec train)"},
        {OPTION_TEXT, "--val", "PATH", &plan.validation,
         "data to evaluate on; else the end of --data is held out"},
        {OPTION_TEXT, "--tokenizer", "F", &plan.tokenizer, "a tokenizer.json"},
        {OPTION_TEXT, "--out", "DIR", &plan.out, "receives VARIANT/seed_N and the table"},
        {OPTION_COUNT, "--jobs", "N", &plan.jobs, "runs at a time (1)"},
        {OPTION_FLAG, "--dry-run", NULL, &dry_run, "only print the plan"},
        {OPTION_TEXT, "--device", "NAME", &plan.device, "cpu (default), cuda or cuda:N"},
        {OPTION_LIST, "--set", "KEY=VALUE", &sets, "an option of every variant, as in the file"},
        {.kind = OPTION_END},
    };
    int code = arguments_read(command, table, argc, argv, &operand);
    if (code >= 0) return code;
    if (!dry_run && (!plan.data || !plan.out))
        return arguments_wrong(command, NULL, "moec sweep needs --data and --out, or --dry-run");
    if (plan.jobs < 1) return arguments_wrong(command, NULL, "--jobs takes a number from 1");
    char *file;
    MoecCompiler *compiler = spec_open_experiment(operand, &sets, &file);
    plan.experiment = compiler ? moec_expand(compiler) : NULL;
    plan.file = file;
    plan.sets = sets.items;
    plan.set_count = sets.count;
    code = EXIT_INPUT;
    if (compiler && reports_good(compiler)) {
        plan_print(&plan);
        code = dry_run ? 0 : sweep(&plan);
    }
    moec_close(compiler);
    free(file);
    return code;
}
