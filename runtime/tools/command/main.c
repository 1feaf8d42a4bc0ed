/* main: the moec command. */
#include "base/build.h"
#include "base/launcher.h"
#include "base/message.h"
#include "tools/command/line/commands.h"
#include "tools/command/line/arguments.h"
#include "moec.h"
#include "tools/against/against.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int command_version(const Command *command, int argc, char **argv) {
    int code = arguments_read(command, NULL, 0, argc, argv, NULL);
    if (code < 0) printf("moec %s (%s)\n", MOEC_VERSION, build_commit);
    return code < 0 ? 0 : code;
}

/* The number of a closed standard stream would be reused by the next opened file, which would then
 * receive the output. The streams are opened for reading only, so that printing still fails. */
static void hold_streams(void) {
    for (int stream = 0; stream <= 2; stream++)
        if (fcntl(stream, F_GETFD) < 0) open("/dev/null", stream == 2 ? O_WRONLY : O_RDONLY);
}

/* Flushes stdout. Returns the exit code, or EXIT_INPUT after a failed write. */
static int finish(int code) {
    errno = 0;
    bool failed = ferror(stdout) != 0;
    failed = fflush(stdout) != 0 || failed;
    if (!failed) return code;
    error_message("check the destination of the output", "cannot write the standard output%s%s",
                  errno ? ": " : "", errno ? strerror(errno) : "");
    return code ? code : EXIT_INPUT;
}

static int unknown_command(const char *name) {
    const char *names[LIST_LIMIT];
    char help[96] = "moec help lists the commands";
    const CommandList all = command_table();
    for (int i = 0; i < all.count; i++) names[i] = all.rows[i].name;
    const char *near = moec_nearest(name, names, all.count);
    if (near) snprintf(help, sizeof help, "did you mean moec %s?", near);
    error_message(help, "unknown command '%s'", name);
    return EXIT_USAGE;
}

/* True in the processes of a launcher, except process 0, for a command that runs in one. */
static bool is_idle_process(const Command *row) {
    const ProcessGroup launch = launch_read();
    if ((row->run != command_eval && row->run != command_verify) || launch.size == 1) return false;
    if (launch.rank == 0)
        note_message("moec %s runs in one of the %d processes that %s started", row->name,
                     launch.size, launch.command);
    return launch.rank > 0;
}

static int run_named(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "help";
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) name = "version";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) name = "help";
    bool help = strcmp(name, "help") == 0;
    if (help && argc < 3) {
        help_overview(argc > 1 ? stdout : stderr, command_table());
        return argc > 1 ? 0 : EXIT_USAGE;
    }
    if (help) name = argv[2];
    if (help && strcmp(name, "environment") == 0) {
        help_environment();
        return 0;
    }
    const Command *row = command_row(name), *now = row ? NULL : command_renamed(name);
    if (!row && !now) return unknown_command(name);
    arguments_begin(argv, now ? name : NULL);
    if (now) row = now;
    char option[] = "--help";
    if (help) return row->run(row, 2, (char *[]){argv[2], option, NULL});
    return is_idle_process(row) ? 0 : row->run(row, argc - 1, argv + 1);
}

int main(int argc, char **argv) {
    hold_streams();
    model_compare_externs(externs_check);
    setlocale(LC_NUMERIC, "C");
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_IGN); /* exceeding a limit of file sizes is then an error of write */
    return finish(run_named(argc, argv));
}
