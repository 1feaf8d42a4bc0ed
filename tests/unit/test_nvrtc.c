/* Compiles every kernel of small and of published models with NVRTC for three architectures. Prints registers and shared
 * memory, and fails on register spills, or if products in 8 bits lack their instruction. Needs no GPU; without NVRTC it does nothing. Runs in the root of the project.
 *
 *     test_nvrtc          one of the published models, for sm_90a, which has every kernel form
 *     test_nvrtc all      all models below and every model of tests/small_models.sh; ten minutes of CPU time
 *     test_nvrtc WORD     the models whose FILE:MODEL contains the word
 *     test_nvrtc images FOLDER    images for sm_90a of the models of tests/checks/sass.sh, and of products in 8 bits
 *     test_nvrtc start    time of a whole model from its text to images for sm_90a: compiled, and from the cache
 */
#include "../../runtime/device/cuda/cuda.h"
#include "../../runtime/base/files.h"
#include "moec.h"

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { HEADERS = 64, LINE = 512, SETS = 8, WORKERS = 16, PARTS = 8 };

static CudaCompiler nvrtc;

static bool open_nvrtc(void) {
    static const char *const names[] = {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12",
                                        "/usr/local/cuda/lib64/libnvrtc.so"};
    void *library = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library) return false;
#define FIND(member, name, arguments)                                                              \
    do {                                                                                           \
        void *symbol = dlsym(library, name);                                                       \
        assert_non_null(symbol);                                                                   \
        memcpy(&nvrtc.member, &symbol, sizeof symbol);                                             \
    } while (0);
    CUDA_COMPILER_CALLS(FIND)
#undef FIND
    return true;
}

/* ---- messages of the assembler ---- */

typedef struct Figures {
    int kernels, spilling, registers, shared;
    char most[128]; /* kernel with the most registers */
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
            printf("    %s spills %d bytes\n", name, spills);
            figures.spilling++;
        }
        /* Products of warpgroups that were serialized because an instruction accesses their sums. */
        if (strstr(line, "wgmma") && strstr(line, "serialized")) {
            printf("    %s\n", line);
            figures.spilling++;
        }
        int registers = number_before(line, "registers"),
            shared = number_before(line, "bytes smem");
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

static const char *images; /* folder for the images; NULL: none */

static void keep_image(CudaCompilation *program, const char *what) {
    char path[LINE];
    size_t bytes;
    snprintf(path, sizeof path, "%s/%.*s.cubin", images, (int)strcspn(what, " "), what);
    assert_int_equal(nvrtc.image_bytes(program, &bytes), 0);
    char *image = calloc(1, bytes);
    assert_int_equal(nvrtc.image(program, image), 0);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(image, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
    free(image);
}

static char *assembly_of(CudaCompilation *program) {
    size_t bytes;
    assert_int_equal(nvrtc.assembly_bytes(program, &bytes), 0);
    char *assembly = calloc(1, bytes + 1);
    assert_int_equal(nvrtc.assembly(program, assembly), 0);
    return assembly;
}

/* False if a kernel spills. assembly: receives the PTX text, which the caller frees; or NULL. */
static bool compile(const char *text, const char *architecture, const char *what, char **assembly) {
    const char *names[HEADERS], *headers[HEADERS];
    char option[64];
    int count = 0;
    for (const EmbeddedFile *file = embedded_files; file->name; file++) {
        if (!embedded_is_header(file)) continue;
        assert_true(count < HEADERS);
        names[count] = embedded_base(file);
        headers[count++] = file->text;
    }
    snprintf(option, sizeof option, "--gpu-architecture=%s", architecture);
    const char *options[] = {option, "--std=c++17", "--extra-device-vectorization",
                             "--ptxas-options=-v"};
    CudaCompilation *program;
    size_t bytes;
    double start = seconds();
    assert_int_equal(nvrtc.create(&program, text, "program.cu", count, headers, names), 0);
    int result = nvrtc.compile(program, 4, options);
    double taken = seconds() - start;
    nvrtc.log_bytes(program, &bytes);
    char *log = calloc(1, bytes + 1);
    nvrtc.log(program, log);
    if (result) printf("%s for %s:\n%s", what, architecture, log);
    Figures figures = read_log(log);
    if (!result)
        printf("  %-40s %-7s %3d kernels, %5.2f s, at most %3d registers (%s), %6d bytes shared, "
               "%d spill\n",
               what, architecture, figures.kernels, taken, figures.registers, figures.most,
               figures.shared, figures.spilling);
    fflush(stdout);
    if (!result && images) keep_image(program, what);
    if (!result && assembly) *assembly = assembly_of(program);
    nvrtc.destroy(&program);
    free(log);
    return !result && figures.kernels > 0 && !figures.spilling;
}

/* ---- models ---- */

typedef struct Case {
    char line[LINE]; /* FILE:MODEL, then options */
    char *text;      /* with the kernels that no previous case has; NULL: none */
} Case;

static const char *const published[] = {
    "models/tiny.moe:tiny_lore",
    "models/gated_attention.moe:moe_15b_sdpa",
    "+models/gated_attention.moe:moe_15b_sdpa train.precision=bf16",
    "tests/attention.moe:widths train.precision=bf16",
    "tests/attention.moe:groups train.precision=bf16",
    "models/sigma.moe:mha_best",
    "models/gpt2.moe:gpt2 train.precision=bf16",
    "models/sigma.moe:sigma_1b5",
    "models/sigma.moe:sigma_1b5 train.precision=bf16",
    "models/tiny.moe:tiny_uneven train.precision=bf16",
    "models/structmoe.moe:structmoe_410m train.precision=bf16",
    "models/complete_mue.moe:mue_e128a8g4s1 train.precision=bf16",
    "tests/gpu.moe:moe_layer",
    "tests/gpu.moe:recurrences train.precision=bf16",
    "models/hybrid.moe:hybrid_small train.scan_chunk_size=16",
    "models/hybrid.moe:lstm_small",
    "models/hybrid.moe:mamba2_small train.scan_chunk_size=16 train.precision=bf16",
    "models/hybrid.moe:rwkv7_small train.scan_chunk_size=16 train.precision=bf16",
};

/* Every form of kernel: products and attention of warpgroups, rows, recurrences, routing. */
static const char *const disassembled[] = {
    "models/gpt2.moe:gpt2 train.precision=bf16",          "tests/gpu.moe:moe_layer",
    "tests/gpu.moe:recurrences train.precision=bf16",     "models/gpt2.moe:wide",
    "models/sigma.moe:standard_1b5 train.precision=bf16",
};

static Case *cases;
static int case_count;
static const char *wanted; /* substring of a line; NULL: all */

static void add_case(const char *line) {
    if (wanted && !strstr(line, wanted)) return;
    cases = realloc(cases, sizeof *cases * (size_t)(case_count + 1));
    snprintf(cases[case_count++].line, LINE, "%s", line);
}

static void list_cases(bool all) {
    char line[LINE], more[2 * LINE];
    if (images) {
        for (size_t i = 0; i < sizeof disassembled / sizeof *disassembled; i++)
            add_case(disassembled[i]);
        return;
    }
    for (size_t i = 0; i < sizeof published / sizeof *published; i++)
        if (all || published[i][0] == '+') add_case(published[i] + (published[i][0] == '+'));
    FILE *pipe = all ? popen("tests/small_models.sh | sed 's/--set//g; s/-[bc] [0-9]*//g'", "r") : NULL;
    while (pipe && fgets(line, sizeof line, pipe)) {
        snprintf(more, sizeof more, "%s train.precision=bf16", strtok(line, "\n"));
        add_case(more);
    }
    if (pipe) assert_int_equal(pclose(pipe), 0);
}

static MoecCompiler *open_case(const Case *one) {
    char line[LINE], *rest = NULL;
    const char *sets[SETS];
    int count = 0;
    snprintf(line, sizeof line, "%s", one->line);
    const char *file = strtok_r(line, ":", &rest), *model = strtok_r(NULL, " ", &rest);
    for (char *set; count < SETS && (set = strtok_r(NULL, " ", &rest));) sets[count++] = set;
    MoecCompiler *compiler = moec_open(file, model, sets, count, NULL);
    if (moec_failed(compiler)) fail_msg("%s", moec_reports(compiler));
    return compiler;
}

static double cost_of(const char *json, const char *key) {
    const char *at = strstr(json, key);
    return at ? atof(at + strlen(key)) : 0;
}

/* The kernels of training, of the optimizer and, if the model decodes, of a decode step. */
static MoecKernels kernels_of(MoecCompiler *compiler) {
    MoecProgram *programs[4] = {moec_compile(compiler, MOEC_TRAIN, 0, 0, 0),
                                moec_compile(compiler, MOEC_UPDATE, 0, 0, 0),
                                moec_compile(compiler, MOEC_MEASURE, 0, 0, 0)};
    int count = 3;
    if (moec_failed(compiler)) fail_msg("%s", moec_reports(compiler));
    const char *cost = moec_cost_json(compiler);
    /* One sequence, as in the commands. */
    if (cost_of(cost, "\"cache_bytes_per_token\":") + cost_of(cost, "\"constant_bytes\":") > 0)
        programs[count++] = moec_compile(compiler, MOEC_DECODE, 1, 0, 1);
    if (moec_failed(compiler)) fail_msg("%s", moec_reports(compiler));
    MoecDeviceProgram *program = moec_device_program(compiler, programs, count);
    const MoecKernels kernels = program->kernels;
    moec_device_program_free(program);
    return kernels;
}

/* ---- kernels that were compiled before ---- */

static uint64_t *seen;
static int seen_count;

static bool is_new(uint64_t hash) {
    for (int i = 0; i < seen_count; i++)
        if (seen[i] == hash) return false;
    if (seen_count % 1024 == 0) seen = realloc(seen, sizeof *seen * (size_t)(seen_count + 1024));
    seen[seen_count++] = hash;
    return true;
}

/* Hash of a kernel and the text before it, without comments, and without unit numbers such as "train_3". */
static uint64_t hash_of(const char *text, const char *end) {
    uint64_t hash = 14695981039346656037u;
    for (const char *at = text; at < end; at++) {
        if (at[0] == '/' && at[1] == '*') at = strstr(at, "*/") + 2;
        hash = (hash ^ (unsigned char)*at) * 1099511628211u;
        if (at[0] == '_' && (at - text >= 5) &&
            (!memcmp(at - 5, "train", 5) || !memcmp(at - 6, "decode", 6) ||
             !memcmp(at - 6, "update", 6)))
            at += strspn(at + 1, "0123456789");
    }
    return hash;
}

/* The text with the new kernels; NULL if there are none. */
static char *fresh_of(const MoecKernels *kernels) {
    bool *fresh = calloc((size_t)kernels->count, sizeof *fresh);
    const char *from = kernels->text;
    for (int i = 0; i < kernels->count; i++) {
        if (kernels->pieces[i].kernel == MOEC_EVERY_KERNEL) continue;
        const char *end = kernels->text + kernels->pieces[i].end;
        fresh[i] = is_new(hash_of(from, end));
        from = end;
    }
    char *result = cuda_kernels(kernels, fresh) ? cuda_part(kernels, fresh, 0, 1) : NULL;
    free(fresh);
    return result;
}

static void collect_texts(void) {
    for (int i = 1; i < case_count; i++) {
        MoecCompiler *compiler = open_case(&cases[i]);
        const MoecKernels kernels = kernels_of(compiler);
        cases[i].text = fresh_of(&kernels);
        moec_close(compiler);
    }
}

static bool all;

static bool compile_case(int number) {
    static const char *const architectures[] = {"sm_90a", "sm_80", "sm_100"};
    const Case *one = &cases[number];
    bool ok = true;
    for (int i = 0; i < (all ? 3 : 1) && one->text; i++)
        ok &= compile(one->text, architectures[i], strchr(one->line, ':') + 1, NULL);
    return ok;
}

/* One process per CPU. */
static void test_architectures(void **state) {
    (void)state;
    if (!open_nvrtc()) {
        print_message("  no NVRTC here\n");
        skip();
    }
    cases = calloc(1, sizeof *cases);
    cases[case_count++] =
        (Case){":every_program", strdup("#include \"fixed.cuh\"\n#include \"sums.cuh\"\n")};
    list_cases(all);
    assert_true(case_count > 1);
    collect_texts();
    print_message("  %d kernels of %d models\n", seen_count, case_count);
    long workers = sysconf(_SC_NPROCESSORS_ONLN);
    if (workers > WORKERS) workers = WORKERS;
    fflush(stdout);
    for (long worker = 0; worker < workers; worker++) {
        if (fork() != 0) continue;
        bool ok = true;
        for (int i = (int)worker; i < case_count; i += (int)workers) ok &= compile_case(i);
        fflush(stdout);
        _exit(!ok);
    }
    int status, failed = 0;
    while (wait(&status) > 0) failed += status != 0;
    assert_int_equal(failed, 0);
}

/* ---- products of units in 8 bits ---- */

#define UNITS(name, height, breadth, block, a, b, c)                                               \
    "extern \"C\" __global__ void __launch_bounds__(MOEC_STORED_TWICE_BOUNDS) " name               \
    "(MoecProduct p, MoecEpilogue e, const " a " *x, const " b " *y, " c " *z) {\n"                \
    "    moec_begin();\n    moec_dense_units<MoecTileUnits<" height ", " breadth ", " block         \
    ">>(p, e, x, y, z);\n}\n"
static const char units_text[] = "#include \"kernels.cuh\"\n"
    UNITS("large", "128", "128", "0", "MoecE4M3", "MoecE4M3", "float")
    UNITS("gradient", "128", "128", "0", "MoecE5M2", "MoecE4M3", "MoecBf16")
    UNITS("weights", "128", "64", "0", "MoecE4M3", "MoecE5M2", "float")
    UNITS("blocks", "64", "128", "32", "MoecE4M3", "MoecE4M3", "float")
    UNITS("small_blocks", "64", "128", "16", "MoecE4M3", "MoecE4M3", "MoecBf16");

/* Their instruction exists from capability 8.9 and NVRTC 12.4 on; without it they multiply f16. */
static void test_units(void **state) {
    (void)state;
    static const char *const architectures[] = {"sm_80", "sm_89", "sm_90a", "sm_100"},
                             *const formats[] = {"e4m3.e4m3", "e5m2.e4m3", "e4m3.e5m2"};
    int major, minor;
    if (!open_nvrtc()) skip();
    assert_int_equal(nvrtc.version(&major, &minor), 0);
    const bool knows = 100 * major + minor >= 1204, has_last = 100 * major + minor >= 1208;
    for (int i = 0; i < (has_last ? 4 : 3); i++) {
        char what[32], instruction[96], *assembly = NULL;
        snprintf(what, sizeof what, "units_%s", architectures[i]);
        assert_true(compile(units_text, architectures[i], what, &assembly));
        for (int j = 0; j < 3; j++) {
            snprintf(instruction, sizeof instruction, "mma.sync.aligned.m16n8k32.row.col.f32.%s.f32", formats[j]);
            if ((strstr(assembly, instruction) != NULL) != (knows && i > 0))
                fail_msg("%s: %s", architectures[i], instruction);
        }
        free(assembly);
    }
}

/* ---- the part of the start without a GPU ---- */

typedef struct Part {
    CudaText text;
    CudaImage image;
    bool ok;
} Part;

static CudaLibrary library;

static void *make_part(void *data) {
    Part *part = data;
    part->ok = cuda_compile(&library, &part->text, &part->image);
    return NULL;
}

static double processor_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double make_all(const MoecKernels *kernels, const bool *chosen, int parts, bool *cached) {
    Part made[PARTS];
    pthread_t threads[PARTS];
    double start = seconds();
    for (int i = 0; i < parts; i++) {
        made[i] = (Part){.text = {.name = "program.cu",
                                  .text = cuda_part(kernels, chosen, i, parts),
                                  .major = 9,
                                  .minor = 0,
                                  .keep = true}};
        assert_int_equal(pthread_create(&threads[i], NULL, make_part, &made[i]), 0);
    }
    *cached = true;
    for (int i = 0; i < parts; i++) {
        pthread_join(threads[i], NULL);
        assert_true(made[i].ok);
        *cached &= made[i].image.cached;
        free(made[i].image.bytes);
        free((void *)(uintptr_t)made[i].text.text);
    }
    return seconds() - start;
}

/* The parts that are needed if cuBLASLt computes every dense product. */
static bool *without_own(const MoecKernels *kernels) {
    bool *chosen = calloc((size_t)kernels->count, sizeof *chosen);
    int own = 0;
    for (int i = 0, begin = 0; i < kernels->count; begin = (int)kernels->pieces[i++].end) {
        const char *found = strstr(kernels->text + begin, "moec_dense<");
        chosen[i] = !found || found >= kernels->text + kernels->pieces[i].end;
        own += !chosen[i];
    }
    int count = cuda_kernels(kernels, chosen);
    print_message("  %d kernels of %d\n", count, count + own);
    return chosen;
}

static void measure_start(void **state) {
    static const char *const models[] = {
        "models/gpt2.moe:gpt2 train.precision=bf16",
        "models/gpt2.moe:gpt2_small train.precision=bf16",
        "models/gpt2.moe:gpt2_small_moe train.precision=bf16",
        "models/gated_attention.moe:moe_15b_sdpa train.precision=bf16"};
    (void)state;
    if (!open_nvrtc()) skip();
    library.compiler = nvrtc;
    library.place = "";
    char folder[] = "/tmp/moec-start-XXXXXX", command[64];
    assert_non_null(mkdtemp(folder));
    setenv("XDG_CACHE_HOME", folder, 1);
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        Case one;
        snprintf(one.line, LINE, "%s", models[i]);
        double start = seconds();
        MoecCompiler *compiler = open_case(&one);
        const MoecKernels kernels = kernels_of(compiler);
        bool *chosen = without_own(&kernels);
        double text = seconds() - start;
        for (int parts = 1; parts <= PARTS; parts *= 2) {
            bool cached;
            double before = processor_seconds(), cold = make_all(&kernels, chosen, parts, &cached),
                   work = processor_seconds() - before;
            assert_false(cached);
            double warm = make_all(&kernels, chosen, parts, &cached);
            assert_true(cached);
            printf("%s: text %.2f s, %d parts: images %.2f s, %.2f s of all processors, from the "
                   "cache %.3f s\n",
                   models[i], text, parts, cold, work, warm);
            fflush(stdout);
        }
        free(chosen);
        moec_close(compiler);
    }
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

int main(int count, char **arguments) {
    bool start_only = count > 1 && strcmp(arguments[1], "start") == 0;
    images = count > 2 && strcmp(arguments[1], "images") == 0 ? arguments[2] : NULL;
    all = count > 1 && !images;
    wanted = all && strcmp(arguments[1], "all") != 0 ? arguments[1] : NULL;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_architectures), cmocka_unit_test(test_units)};
    const struct CMUnitTest start[] = {cmocka_unit_test(measure_start)};
    if (start_only) return cmocka_run_group_tests(start, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
