#include "model/internal.h"

#include "base/cache.h"
#include "base/message.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* gnu11, not c11, for contraction to fused multiply-adds. No flag changes results for finite
 * numbers. Without -fno-trapping-math GCC 12 loses stores of loops with two conditions on AVX-512;
 * without the width preference it uses half of the vector registers. The hot loops of the kernels
 * use vector types: -O3 would only compile longer. */
static const char *const flags[] = {"-std=gnu11",
                                    "-O2",
                                    "-ftree-vectorize",
                                    "-march=native",
#ifdef __x86_64__
                                    "-mprefer-vector-width=512",
#endif
                                    "-fno-math-errno",
                                    "-fno-trapping-math",
                                    "-fPIC",
                                    "-w"};
/* On some processors GCC contracts a sum of products or not, depending on the rest of the loop:
 * processes of a mesh, which run other loops, would have other bits. All programs share the
 * kernels, which are faster without this flag. */
#ifdef __x86_64__
static const char *const contracts = "--param=avoid-fma-max-bits=0";
#else
static const char *const contracts = NULL;
#endif

enum {
    FLAG_COUNT = sizeof flags / sizeof flags[0],
    WORD_LIMIT = 16,
    COMMAND_LIMIT = 2 * WORD_LIMIT + FLAG_COUNT + 16,
    WORK_LIMIT = 8
};

/* A command line; the words of MOEC_CC are parts of `name`, those of MOEC_CFLAGS of `more`. */
typedef struct CompilerCommand {
    char *words[COMMAND_LIMIT];
    int count;
    char *name, *more;
} CompilerCommand;

/* True if PATH has the first word of a command; *status describes its file. */
static bool compiler_on_path(const char *name, struct stat *status) {
    const size_t length = strcspn(name, " ");
    const char *path = getenv("PATH");
    bool found = false;
    for (const char *at = path ? path : ""; *at && !found;) {
        const size_t folder = strcspn(at, ":");
        AUTO_FREE char *file = memory_format("%.*s/%.*s", (int)folder, at, (int)length, name);
        found = stat(file, status) == 0;
        at += folder + (at[folder] == ':');
    }
    return found;
}

/* Without MOEC_CC: `cc`, or the C compiler that Zig contains if there is no `cc`. */
static const char *compiler_name(void) {
    const char *name = getenv("MOEC_CC");
    struct stat status;
    if (name && *name) return name;
    return !compiler_on_path("cc", &status) && compiler_on_path("zig", &status) ? "zig cc" : "cc";
}

/* Identifies the compiler by its file: a query of its version would start a process at every
 * run. */
static void hash_compiler(XXH3_state_t *state) {
    struct stat status;
    const char *name = compiler_name();
    cache_add(state, name);
    if (!compiler_on_path(name, &status)) return;
    XXH3_128bits_update(state, &status.st_size, sizeof status.st_size);
    XXH3_128bits_update(state, &status.st_mtim, sizeof status.st_mtim);
}

/* The meaning of -march=native depends on the processor, and machines can share a home folder. */
static void hash_processor(XXH3_state_t *state) {
    AUTO(FILE) *file = fopen("/proc/cpuinfo", "r");
    if (!file) return;
    char line[8192];
    while (fgets(line, sizeof line, file) && line[0] != '\n')
        if (strncmp(line, "flags", 5) == 0 || strncmp(line, "model name", 10) == 0 ||
            strncmp(line, "Features", 8) == 0)
            cache_add(state, line);
}

/* Splits MOEC_CFLAGS at spaces: returns the count of flags, which are parts of *text, a new string.
 * The kernels are the same for all programs: -O0 of a test does not apply to them. */
static int more_flags(bool kernels, char **text, char *flag[WORD_LIMIT]) {
    const char *more = getenv("MOEC_CFLAGS");
    char *rest = NULL;
    int count = 0;
    *text = memory_format("%s", more ? more : "");
    for (char *word = strtok_r(*text, " ", &rest); word && count < WORD_LIMIT;
         word = strtok_r(NULL, " ", &rest))
        if (!kernels || strncmp(word, "-O", 2) != 0) flag[count++] = word;
    return count;
}

void toolchain_hash(XXH3_state_t *state, bool kernels) {
    char *text, *more[WORD_LIMIT];
    const int count = more_flags(kernels, &text, more);
    for (int i = 0; i < count; i++) cache_add(state, more[i]);
    free(text);
    for (int i = 0; i < FLAG_COUNT; i++) cache_add(state, flags[i]);
    if (!kernels && contracts) cache_add(state, contracts);
    hash_compiler(state);
    hash_processor(state);
}

static void add_word(CompilerCommand *command, const char *word) {
    command->words[command->count++] = (char *)(uintptr_t)word;
    command->words[command->count] = NULL;
}

static CompilerCommand command_new(bool openmp, bool kernels) {
    CompilerCommand command = {.name = memory_format("%s", compiler_name())};
    char *rest = NULL;
    for (char *word = strtok_r(command.name, " ", &rest); word && command.count < WORD_LIMIT;
         word = strtok_r(NULL, " ", &rest))
        add_word(&command, word);
    for (int i = 0; i < FLAG_COUNT; i++) add_word(&command, flags[i]);
    if (!kernels && contracts) add_word(&command, contracts);
    if (openmp) add_word(&command, "-fopenmp");
    char *more[WORD_LIMIT];
    const int count = more_flags(kernels, &command.more, more);
    for (int i = 0; i < count; i++) add_word(&command, more[i]);
    return command;
}

static void command_free(CompilerCommand *command) {
    free(command->name);
    free(command->more);
}

pid_t compiler_start(char *const *words, const char *log) {
    AUTO_FREE char *line = memory_format("%s", words[0]);
    for (int i = 1; words[i]; i++) line = memory_append(line, " %s", words[i]);
    detail_message("%s", line);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    pid_t child;
    int failed = posix_spawnp(&child, words[0], &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (!failed) return child;
    errno = failed;
    return -1;
}

int compiler_wait(pid_t child) {
    int status = -1;
    if (child < 0) return -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    return status;
}

void compiler_print_log(const char *log) {
    AUTO(FILE) *file = fopen(log, "r");
    char line[512];
    for (int i = 0; file && i < 20 && fgets(line, sizeof line, file); i++)
        fprintf(message_file(), "    %s", line);
}

/* Exit status of the first failed compilation, 0 if all succeeded, -1 if the compiler could not be
 * started. */
static int translate(const char *include, const Translation *work, int count, bool openmp,
                     char *const *logs) {
    pid_t children[WORK_LIMIT];
    for (int i = 0; i < count; i++) {
        CompilerCommand command = command_new(openmp, work[i].kernels);
        AUTO_FREE char *define = memory_format("-D%s", work[i].define);
        const char *words[] = {define,         include, "-c", "-o",
                               work[i].output, "-x",    "c",  work[i].source};
        for (size_t j = 0; j < sizeof words / sizeof words[0]; j++) add_word(&command, words[j]);
        children[i] = compiler_start(command.words, logs[i]);
        command_free(&command);
    }
    int reason = errno, worst = 0;
    for (int i = 0; i < count; i++) {
        int status = compiler_wait(children[i]);
        if (status && !worst) worst = status;
    }
    errno = reason;
    return worst;
}

static int link_objects(const Translation *work, int count, const char *ready, bool openmp,
                        const char *output, const char *log) {
    CompilerCommand command = command_new(openmp, false);
    add_word(&command, "-shared");
    add_word(&command, "-o");
    add_word(&command, output);
    for (int i = 0; i < count; i++) add_word(&command, work[i].output);
    if (ready) add_word(&command, ready);
    add_word(&command, "-lm");
    int status = compiler_wait(compiler_start(command.words, log));
    command_free(&command);
    return status;
}

/* True if the disk of the compiler output, or of its temporary files, is full. */
static bool is_full(const char *folder, char *const *logs, int count) {
    enum { MIN_ROOM = 1 << 20 };
    struct statvfs room;
    bool full = statvfs(folder, &room) == 0 && room.f_blocks > 0 &&
                (double)room.f_bavail * (double)room.f_frsize < MIN_ROOM;
    for (int i = 0; i < count && !full; i++) {
        AUTO(FILE) *file = fopen(logs[i], "r");
        char line[512];
        while (file && !full && fgets(line, sizeof line, file))
            full = strstr(line, "No space left on device") != NULL;
    }
    return full;
}

/* Retries without OpenMP, which some compilers lack. */
bool toolchain_build(const char *folder, const Translation *work, int count, const char *ready,
                     const char *output) {
    char *include = memory_format("-I%s", folder), *logs[WORK_LIMIT];
    for (int i = 0; i < count; i++) logs[i] = memory_format("%s.log", work[i].output);
    int status = 1;
    for (int openmp = 1; openmp >= 0 && status > 0; openmp--) {
        status = translate(include, work, count, openmp, logs);
        if (!status && output) status = link_objects(work, count, ready, openmp, output, logs[0]);
        if (!status && !openmp)
            note_message("%s has no OpenMP: the program uses one thread", compiler_name());
    }
    if (status < 0)
        error_message("install one (Debian: apt-get install gcc; anywhere: pip install ziglang), "
                      "or set MOEC_CC to its command",
                      "no C compiler found: %s: %s", compiler_name(), strerror(errno));
    else if (status > 0 && is_full(folder, logs, count))
        error_message(
            "free some disk space, or set TMPDIR and XDG_CACHE_HOME to folders with free space",
            "cannot compile the program in %s: the disk is full", folder);
    else if (status > 0) {
        error_message("please report this with the spec",
                      "%s rejects the generated program:", compiler_name());
        for (int i = 0; i < count; i++) compiler_print_log(logs[i]);
    }
    for (int i = 0; i < count; i++) {
        unlink(logs[i]);
        free(logs[i]);
    }
    free(include);
    return status == 0;
}
