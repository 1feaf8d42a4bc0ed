/* driver: common parts of the mutating drivers: random numbers, texts, a child process with limits,
 * findings.
 *
 * Mutant K of seed S depends only on S and K. DRIVER --seed S --only K repeats it. */
#ifndef DRIVER_H
#define DRIVER_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined __SANITIZE_ADDRESS__
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

/* Limits of a command: the sanitizers are several times slower and need additional memory. */
enum { CPU_SECONDS = SANITIZED ? 20 : 2, WALL_SECONDS = 120, MEMORY_MEGABYTES = 500 };
enum { MAX_SHOWN = 20, MESSAGE_BYTES = 1 << 14, SANITIZER_CODE = 99 };

/* ---- numbers ---- */

static uint64_t random_state;

static inline void random_begin(uint64_t seed, uint64_t mutant) {
    random_state = (seed + 1) * 0x9E3779B97F4A7C15u ^ (mutant + 1) * 0xD1B54A32D192ED03u;
    if (!random_state) random_state = 1;
}

static inline size_t pick(size_t count) {
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return count ? (size_t)((random_state * 0x2545F4914F6CDD1Du) >> 33) % count : 0;
}

#define PICK(list) ((list)[pick(sizeof(list) / sizeof((list)[0]))])

/* ---- bytes ---- */

typedef struct Bytes {
    char *data;
    size_t length;
} Bytes;

static inline void *taken(void *memory) {
    if (memory) return memory;
    fputs("no memory for the driver\n", stderr);
    exit(2);
}

/* `bytes` with the range from `start` to `end` replaced; the old bytes are released. */
static inline void replace_bytes(Bytes *bytes, size_t start, size_t end, const char *with,
                                 size_t length) {
    size_t rest = bytes->length - end;
    char *data = taken(malloc(start + length + rest + 1));
    memcpy(data, bytes->data, start);
    if (length) memcpy(data + start, with, length);
    memcpy(data + start + length, bytes->data + end, rest);
    bytes->length = start + length + rest;
    data[bytes->length] = 0;
    free(bytes->data);
    bytes->data = data;
}

static inline Bytes bytes_of(const char *data, size_t length) {
    Bytes bytes = {taken(calloc(1, length + 1)), length};
    if (length) memcpy(bytes.data, data, length);
    return bytes;
}

static inline bool read_file(const char *path, Bytes *bytes) {
    FILE *file = fopen(path, "rb");
    *bytes = (Bytes){0};
    if (!file) return false;
    fseek(file, 0, SEEK_END);
    long length = ftell(file);
    rewind(file);
    bytes->data = taken(calloc(1, (size_t)length + 1));
    bytes->length = fread(bytes->data, 1, (size_t)length, file);
    fclose(file);
    return true;
}

static inline void write_file(const char *path, const char *data, size_t length) {
    FILE *file = fopen(path, "wb");
    if (file && fwrite(data, 1, length, file) == length && fclose(file) == 0) return;
    fprintf(stderr, "cannot write %s: %s\n", path, strerror(errno));
    exit(2);
}

/* ---- a child ---- */

static char work[512]; /* the folder of this run */

typedef struct Outcome {
    int code; /* exit code, -1 after a signal */
    int signal;
    char message[MESSAGE_BYTES]; /* its standard error */
} Outcome;

static inline void limit(int what, rlim_t most) {
    struct rlimit both = {most, most};
    setrlimit(what, &both);
}

/* In the child: sets limits, discards the output, writes errors to a file. */
static inline void confine(const char *errors) {
    int nowhere = open("/dev/null", O_RDWR), to = open(errors, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    limit(RLIMIT_CPU, CPU_SECONDS);
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_FSIZE, 64 << 20);
    if (!SANITIZED) limit(RLIMIT_AS, (rlim_t)MEMORY_MEGABYTES << 20);
    dup2(nowhere, 0);
    dup2(nowhere, 1);
    dup2(to, 2);
    alarm(WALL_SECONDS);
}

/* Runs `run` in a child process, which exits with its result. */
static inline void run_child(int (*run)(void *data), void *data, Outcome *outcome) {
    char errors[600];
    int status = 0;
    snprintf(errors, sizeof errors, "%s/errors", work);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        confine(errors);
        int code = run(data);
        fflush(NULL);
        _exit(code);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    *outcome = (Outcome){.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
                         .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0};
    FILE *file = fopen(errors, "rb");
    size_t length = file ? fread(outcome->message, 1, MESSAGE_BYTES - 1, file) : 0;
    outcome->message[length] = 0;
    if (file) fclose(file);
}

/* ---- findings ---- */

typedef struct Plan {
    const char *driver;
    uint64_t seed;
    double seconds;
    long only, count; /* -1: any */
    bool few;         /* only texts that seldom change: a seed keeps its mutants */
} Plan;

static int findings, shown;
static char *known[256];

/* The fault of the outcome, or NULL. */
static inline const char *complaint(const Outcome *outcome) {
    if (outcome->signal == SIGXCPU || outcome->signal == SIGKILL || outcome->signal == SIGALRM)
        return "timeout";
    if (strstr(outcome->message, "internal error")) return "internal error";
    if (strstr(outcome->message, "Sanitizer") || strstr(outcome->message, "runtime error:") ||
        outcome->code == SANITIZER_CODE)
        return "sanitizer report";
    if (outcome->signal) return strsignal(outcome->signal);
    if (outcome->code != 0 && outcome->code != 1) return "the exit code is neither 0 nor 1";
    if (outcome->code == 1 && !outcome->message[0]) return "failure without a message";
    return NULL;
}

/* The most informative line of the message, without its numbers: equal for findings of one kind. */
static inline char *kind_of(const char *what, const Outcome *outcome) {
    const char *line = outcome->message;
    static const char *const marks[] = {"internal error", "runtime error:", "ERROR: "};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        const char *found = strstr(outcome->message, marks[i]);
        if (!found) continue;
        while (found > outcome->message && found[-1] != '\n') found--;
        line = found;
        break;
    }
    const char *frame = strstr(outcome->message, "#1 ");
    size_t length = strcspn(line, "\n");
    char text[1024];
    snprintf(text, sizeof text, "%s: %.*s %.*s", what, (int)(length < 300 ? length : 300), line,
             frame ? (int)strcspn(frame, "\n") : 0, frame ? frame : "");
    char *to = text;
    for (const char *from = text; *from; from++)
        if (*from < '0' || *from > '9') *to++ = *from;
    *to = 0;
    return taken(strdup(text));
}

/* True if a finding of this kind was printed before. */
static inline bool is_known(char *kind) {
    int count = 0;
    for (; known[count]; count++)
        if (strcmp(known[count], kind) == 0) return true;
    if (count < 255) known[count] = kind;
    return false;
}

/* Prints a finding; returns true for the first of its kind. */
static inline bool report_finding(const char *what, const Outcome *outcome, const Plan *plan,
                        uint64_t mutant) {
    findings++;
    if (is_known(kind_of(what, outcome)) || ++shown > MAX_SHOWN) return false;
    printf("\n%s --seed %llu%s --only %llu: %s\n", plan->driver, (unsigned long long)plan->seed,
           plan->few ? " --texts few" : "", (unsigned long long)mutant, what);
    printf("%.1500s\n", outcome->message);
    fflush(stdout);
    return true;
}

/* ---- the run ---- */

static inline double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static inline Plan read_plan(int argc, char **argv) {
    Plan plan = {.driver = argv[0], .seed = 1, .seconds = 60, .only = -1, .count = -1};
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--seed")) plan.seed = strtoull(argv[i + 1], NULL, 10);
        if (!strcmp(argv[i], "--seconds")) plan.seconds = atof(argv[i + 1]);
        if (!strcmp(argv[i], "--only")) plan.only = atol(argv[i + 1]);
        if (!strcmp(argv[i], "--count")) plan.count = atol(argv[i + 1]);
        if (!strcmp(argv[i], "--texts")) plan.few = !strcmp(argv[i + 1], "few");
    }
    if (argc % 2 == 0) {
        fprintf(stderr,
                "usage: %s [--seed N] [--seconds S] [--count N] [--only MUTANT] "
                "[--texts all|few]\n",
                argv[0]);
        exit(2);
    }
    return plan;
}

/* Runs mutants until the time is over; returns the exit code of the driver. */
static inline int run_plan(const Plan *plan, void (*mutant)(const Plan *plan, uint64_t number)) {
    double began = now();
    uint64_t number = plan->only >= 0 ? (uint64_t)plan->only : 0, done = 0;
    for (;; number++) {
        if (plan->only < 0 && plan->count >= 0 && (long)done >= plan->count) break;
        if (plan->only < 0 && plan->count < 0 && now() - began > plan->seconds) break;
        random_begin(plan->seed, number);
        mutant(plan, number);
        done++;
        if (plan->only >= 0) break;
    }
    printf("%llu mutants of seed %llu, %d findings of %d kinds\n", (unsigned long long)done,
           (unsigned long long)plan->seed, findings, shown);
    return findings ? 1 : 0;
}

#endif
