/* Every kernel of small and of published models through NVRTC for three architectures. Says how many registers, how much
 * shared memory the templates take; a template that spills registers is a failure. Needs no GPU; without NVRTC there is
 * nothing to do. Runs in the root of the project; `all` as an argument takes every model below, and minutes. */
#include "moec.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static struct {
    int (*nvrtcCreateProgram)(void **, const char *, const char *, int, const char *const *,
                              const char *const *);
    int (*nvrtcCompileProgram)(void *, int, const char *const *);
    int (*nvrtcGetProgramLogSize)(void *, size_t *);
    int (*nvrtcGetProgramLog)(void *, char *);
    int (*nvrtcDestroyProgram)(void **);
} nvrtc;

static bool open_nvrtc(void) {
    static const char *const names[] = {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12",
                                        "/usr/local/cuda/lib64/libnvrtc.so"};
    void *library = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library) return false;
#define FIND(name)                                                                                 \
    do {                                                                                           \
        void *symbol = dlsym(library, #name);                                                      \
        assert_non_null(symbol);                                                                   \
        memcpy(&nvrtc.name, &symbol, sizeof symbol);                                               \
    } while (0)
    FIND(nvrtcCreateProgram);
    FIND(nvrtcCompileProgram);
    FIND(nvrtcGetProgramLogSize);
    FIND(nvrtcGetProgramLog);
    FIND(nvrtcDestroyProgram);
#undef FIND
    return true;
}

static char *file_text(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("cannot read %s", path);
    fseek(file, 0, SEEK_END);
    size_t length = (size_t)ftell(file);
    rewind(file);
    char *text = calloc(1, length + 1);
    assert_int_equal(fread(text, 1, length, file), length);
    fclose(file);
    return text;
}

/* ---- what the assembler says ---- */

typedef struct Figures {
    int kernels, spilling, registers, shared;
    char most[128]; /* the kernel with most registers */
} Figures;

static int number_before(const char *line, const char *what) {
    const char *at = strstr(line, what);
    while (at && at > line && at[-1] == ' ') at--;
    while (at && at > line && at[-1] >= '0' && at[-1] <= '9') at--;
    return at ? atoi(at) : 0;
}

static Figures read_log(char *log) {
    Figures figures = {.kernels = 0};
    char name[128] = "", *rest = log;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        const char *entry = strstr(line, "Compiling entry function '");
        if (entry) {
            snprintf(name, sizeof name, "%.*s", (int)strcspn(entry + 26, "'"), entry + 26);
            figures.kernels++;
        }
        int spills = number_before(line, "bytes spill stores");
        if (spills > 0) {
            print_message("    %s spills %d bytes\n", name, spills);
            figures.spilling++;
        }
        int registers = number_before(line, "registers"), shared = number_before(line, "bytes smem");
        if (registers > figures.registers) {
            figures.registers = registers;
            snprintf(figures.most, sizeof figures.most, "%s", name);
        }
        if (shared > figures.shared) figures.shared = shared;
    }
    return figures;
}

/* ---- compiling ---- */

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void compile(const char *text, const char *architecture, const char *what) {
    static const char *const names[] = {"kernels.cuh", "prelude.cuh", "product.cuh", "attention.cuh",
                                        "routing.cuh", "shapes.h", "attention_rounded.cuh", "attention_grad.cuh",
                                        "product_stored.cuh", "rounding.cuh", "abi.h"};
    enum { COUNT = sizeof names / sizeof *names };
    const char *headers[COUNT];
    char path[256], option[64];
    for (int i = 0; i < COUNT; i++) {
        snprintf(path, sizeof path, "runtime/%s%s", i == COUNT - 1 ? "" : "kernels/", names[i]);
        headers[i] = file_text(path);
    }
    snprintf(option, sizeof option, "--gpu-architecture=%s", architecture);
    const char *options[] = {option, "--std=c++17", "--ptxas-options=-v"};
    void *program;
    size_t bytes;
    double start = seconds();
    assert_int_equal(nvrtc.nvrtcCreateProgram(&program, text, "program.cu", COUNT, headers, names), 0);
    int result = nvrtc.nvrtcCompileProgram(program, 3, options);
    double taken = seconds() - start;
    nvrtc.nvrtcGetProgramLogSize(program, &bytes);
    char *log = calloc(1, bytes + 1);
    nvrtc.nvrtcGetProgramLog(program, log);
    if (result) fail_msg("%s for %s:\n%s", what, architecture, log);
    Figures figures = read_log(log);
    print_message("  %-40s %-8s %3d kernels, %5.2f s, at most %3d registers (%s), %5d bytes shared\n", what,
                  architecture, figures.kernels, taken, figures.registers, figures.most,
                  figures.shared);
    assert_true(figures.kernels > 0);
    assert_int_equal(figures.spilling, 0);
    nvrtc.nvrtcDestroyProgram(&program);
    free(log);
    for (int i = 0; i < COUNT; i++) free((void *)(uintptr_t)headers[i]);
}

typedef struct Case {
    const char *file, *model;
    MoecGraph graph;
    bool always;
    const char *set;
} Case;

static bool all;

static const Case cases[] = {
    {"models/tiny.moe", "tiny", MOEC_TRAIN, false, NULL},
    {"models/tiny.moe", "tiny_uneven", MOEC_DECODE, false, NULL},
    {"models/tiny.moe", "tiny_lore", MOEC_TRAIN, true, NULL},
    {"models/tiny.moe", "tiny_expert_choice", MOEC_TRAIN, false, NULL},
    {"models/gpt2.moe", "gpt2", MOEC_TRAIN, false, NULL},
    {"models/gated_attention.moe", "moe_15b_sdpa", MOEC_TRAIN, true, NULL},
    {"models/sigma.moe", "sigma_1b5", MOEC_TRAIN, false, NULL},
    {"models/gated_attention.moe", "moe_15b_sdpa", MOEC_TRAIN, true, "train.precision=bf16"},
    {"models/sigma.moe", "sigma_1b5", MOEC_TRAIN, false, "train.precision=bf16"},
    {"models/tiny.moe", "tiny_uneven", MOEC_TRAIN, false, "train.precision=bf16"},
    {"tests/attention.moe", "widths", MOEC_TRAIN, true, "train.precision=bf16"},
    {"models/sigma.moe", "mha_best", MOEC_DECODE, true, NULL},
    {"models/structmoe.moe", "structmoe_410m", MOEC_TRAIN, false, NULL},
    {"models/complete_mue.moe", "mue_e128a8g4s1", MOEC_TRAIN, false, NULL},
};

static void test_architectures(void **state) {
    (void)state;
    static const char *const architectures[] = {"sm_80", "sm_90a", "sm_100"};
    if (!open_nvrtc()) {
        print_message("  no NVRTC here\n");
        skip();
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const Case *one = &cases[i];
        if (!all && !one->always) continue;
        MoecCompiler *compiler = moec_open(one->file, one->model, &one->set, one->set != NULL, NULL);
        if (moec_failed(compiler)) fail_msg("%s", moec_reports(compiler));
        MoecProgram *programs[2] = {
            moec_compile(compiler, one->graph, 0, 0, one->graph == MOEC_DECODE ? 1 : 0), NULL};
        int count = 1;
        if (one->graph == MOEC_TRAIN)
            programs[count++] = moec_compile(compiler, MOEC_UPDATE, 0, 0, 0);
        if (moec_failed(compiler)) fail_msg("%s", moec_reports(compiler));
        const char *device;
        moec_emit_cuda(compiler, programs, count, false, &device);
        char what[128];
        snprintf(what, sizeof what, "%s %s%s", one->model,
                 one->graph == MOEC_DECODE ? "decode" : "train", one->set ? " bf16" : "");
        for (int j = 0; j < 3; j++) compile(device, architectures[j], what);
        moec_close(compiler);
    }
}

int main(int count, char **arguments) {
    all = count > 1 && strcmp(arguments[1], "all") == 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_architectures)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
