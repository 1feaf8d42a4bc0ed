#include "tools/experiment/internal.h"

#include "base/files.h"
#include "base/memory.h"
#include "base/message.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

enum { MAX_ARGUMENTS = 160, EXIT_FAILED = 1 };

static int add_flag(char **arguments, int count, const char *name, const char *value) {
    if (!value) return count;
    arguments[count++] = memory_format("%s", name);
    arguments[count++] = memory_format("%s", value);
    return count;
}

static int add_number_flag(char **arguments, int count, const char *name, long number) {
    AUTO_FREE char *text = number ? memory_format("%ld", number) : NULL;
    count = add_flag(arguments, count, name, text);
    return count;
}

char *order_folder(const Plan *plan, const RunOrder *order) {
    if (order->trial) return memory_format("%s/%s/pace", plan->out, order->variant->name);
    return plan_folder(plan, order->variant, order->seed);
}

char **order_command(const Plan *plan, const RunOrder *order) {
    const MoecVariant *variant = order->variant;
    int room = MAX_ARGUMENTS + 2 * variant->set_count, count = 0;
    char **arguments = memory_new((size_t)room * sizeof *arguments);
    AUTO_FREE char *folder = order_folder(plan, order), *limit = NULL;
    if (plan->experiment->limit > 0) limit = memory_format("%g", plan->experiment->limit);
    arguments[count++] = memory_format("moec");
    arguments[count++] = memory_format("train");
    arguments[count++] = memory_format("%s:%s", plan->file, plan->experiment->model);
    arguments[count++] = memory_format("--resume");
    count = add_flag(arguments, count, "--data", plan->data);
    count = add_flag(arguments, count, "--val-data", plan->validation);
    count = add_flag(arguments, count, "--tokenizer", plan->tokenizer);
    count = add_flag(arguments, count, "--device", order->device);
    count = add_flag(arguments, count, "--out", folder);
    count = add_number_flag(arguments, count, "--seed", order->seed);
    if (order->trial || plan->experiment->seconds > 0)
        count = add_number_flag(arguments, count, "--steps", order->steps);
    count = add_number_flag(arguments, count, "--stop-after", order->until);
    count = add_flag(arguments, count, "--diverged-above", limit);
    if (plan->tensorboard) arguments[count++] = memory_format("--tensorboard");
    for (int i = 0; i < plan->set_count; i++)
        count = add_flag(arguments, count, "--set", plan->sets[i]);
    for (int i = 0; i < variant->set_count; i++)
        count = add_flag(arguments, count, "--set", variant->sets[i]);
    return arguments;
}

void command_free(char **command) {
    for (int i = 0; command[i]; i++) free(command[i]);
    free(command);
}

/* Child process: executes the run, ends when the sweep ends, and writes its output to a file. */
_Noreturn static void become(const Plan *plan, char **arguments, int output, pid_t sweep) {
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGTERM);
#endif
    if (getppid() != sweep) _exit(EXIT_FAILED);
    dup2(output, 1);
    dup2(output, 2);
    long processors = sysconf(_SC_NPROCESSORS_ONLN), share = processors / plan->jobs;
    char threads[24];
    snprintf(threads, sizeof threads, "%ld", share > 1 ? share : 1);
    if (plan->jobs > 1) setenv("OMP_NUM_THREADS", threads, 0);
    execv("/proc/self/exe", arguments);
    execvp(arguments[0], arguments);
    _exit(EXIT_FAILED);
}

pid_t process_begin(const Plan *plan, const RunOrder *order) {
    AUTO_FREE char *folder = order_folder(plan, order), *path = path_join(folder, "output.txt");
    int output = folder_make(folder) ? file_create(path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
    bool good = output >= 0;
    char **arguments = order_command(plan, order);
    pid_t sweep = getpid();
    fflush(NULL);
    pid_t process = good ? fork() : -1;
    if (process == 0) become(plan, arguments, output, sweep);
    if (good && process < 0)
        error_message("use fewer --jobs, or raise the limit of processes: ulimit -u",
                      "cannot start a run: %s", strerror(errno));
    command_free(arguments);
    if (good) close(output);
    return process;
}
