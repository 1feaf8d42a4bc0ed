/* compile: the NVRTC functions that the runtime uses. They compile a shared object with the
 * system's C++ compiler (MOEC_CXX, default c++). An image is the mark "SIMULATE", the length and
 * the shared object. */
#include "abi/embedded_file.h"
#include "sim.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#pragma GCC visibility push(default)

enum { GOOD = 0, OUT_OF_MEMORY = 1, INVALID_OPTION = 5, COMPILATION = 6, MARK = 8 };

typedef struct SourceHeader {
    char *name, *text;
} SourceHeader;

typedef struct SimProgram {
    char *text, *name;
    SourceHeader *headers;
    int header_count;
    unsigned char *image;
    size_t image_bytes;
    char *log;
    bool warpgroups; /* compiled for capability 9.0 */
    bool assembly;   /* for an architecture of another device: as PTX */
} SimProgram;

extern const EmbeddedFile sim_files[];

static bool unchecked(void) {
    const char *words = getenv("MOEC_SIM");
    return words && strstr(words, "unchecked");
}

/* True if the processor has a fused multiply-add instruction; otherwise it is a function call. */
static bool has_fma(void) {
#if defined(__x86_64__)
    return __builtin_cpu_supports("fma");
#else
    return false;
#endif
}

/* Encodes the kind of the images, which prevents the use of cached images of another kind. */
int nvrtcVersion(int *major, int *minor) {
    *major = 12;
    *minor = unchecked() + 2 * has_fma();
    return GOOD;
}

const char *nvrtcGetErrorString(int result) {
    return result == GOOD ? "no error" : "compilation failed";
}

int nvrtcCreateProgram(SimProgram **made, const char *text, const char *name, int count,
                       const char *const *headers, const char *const *names) {
    SimProgram *program = calloc(1, sizeof *program);
    if (!program) return OUT_OF_MEMORY;
    program->text = strdup(text);
    program->name = strdup(name ? name : "program.cu");
    program->headers = calloc((size_t)count + 1, sizeof *program->headers);
    program->header_count = count;
    program->log = strdup("");
    for (int i = 0; i < count && program->headers; i++)
        program->headers[i] = (SourceHeader){strdup(names[i]), strdup(headers[i])};
    *made = program;
    return program->text && program->headers ? GOOD : OUT_OF_MEMORY;
}

int nvrtcDestroyProgram(SimProgram **program) {
    SimProgram *old = *program;
    for (int i = 0; i < old->header_count; i++) {
        free(old->headers[i].name);
        free(old->headers[i].text);
    }
    free(old->headers);
    free(old->text);
    free(old->name);
    free(old->image);
    free(old->log);
    free(old);
    *program = NULL;
    return GOOD;
}

static bool write_source(const char *folder, const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    if (!file) return false;
    fputs(text, file);
    return fclose(file) == 0;
}

static bool is_word(char one) {
    return isalnum((unsigned char)one) || one == '_';
}

/* Skips spaces and launch bounds. */
static const char *skip(const char *at) {
    static const char bounds[] = "__launch_bounds__";
    at += strspn(at, " \n\t");
    if (strncmp(at, bounds, sizeof bounds - 1) != 0) return at;
    const char *end = strchr(at, ')');
    return end ? skip(end + 1) : at;
}

/* Registers every `extern "C" __global__ void NAME(` of the source, under the condition that
 * encloses it. */
static void write_entries(FILE *file, const char *text) {
    static const char mark[] = "extern \"C\" __global__", condition[] = "#ifdef MOEC_WGMMA\n";
    for (const char *at = text; (at = strstr(at, mark)); at++) {
        const char *word = skip(at + sizeof mark - 1);
        if (strncmp(word, "void", 4) != 0) continue;
        const char *name = skip(word + 4), *end = name;
        while (is_word(*end)) end++;
        if (end == name || *end != '(') continue;
        bool some = (size_t)(at - text) >= strlen(condition) &&
                    strncmp(at - strlen(condition), condition, strlen(condition)) == 0;
        fprintf(file, "%sSIM_KERNEL(%.*s)\n%s", some ? condition : "", (int)(end - name), name,
                some ? "#endif\n" : "");
    }
}

static bool includes(const char *text, const char *name) {
    char line[256];
    snprintf(line, sizeof line, "#include \"%s\"", name);
    return strstr(text, line) != NULL;
}

/* Marks the headers that `text` includes, directly or indirectly. */
static void reach(const SimProgram *program, const char *text, bool *reached) {
    for (int i = 0; i < program->header_count; i++)
        if (!reached[i] && includes(text, program->headers[i].name)) {
            reached[i] = true;
            reach(program, program->headers[i].text, reached);
        }
}

static void write_all_entries(FILE *file, const SimProgram *program) {
    bool *reached = calloc((size_t)program->header_count + 1, sizeof *reached);
    if (!reached) return;
    reach(program, program->text, reached);
    write_entries(file, program->text);
    for (int i = 0; i < program->header_count; i++)
        if (reached[i]) write_entries(file, program->headers[i].text);
    free(reached);
}

static bool write_kernel_program(const SimProgram *program, const char *folder) {
    bool good = true;
    for (int i = 0; sim_files[i].name && good; i++) {
        const char *slash = strrchr(sim_files[i].name, '/');
        good = write_source(folder, slash ? slash + 1 : sim_files[i].name, sim_files[i].text);
    }
    for (int i = 0; i < program->header_count && good; i++)
        good = write_source(folder, program->headers[i].name, program->headers[i].text);
    char path[512];
    snprintf(path, sizeof path, "%s/unit.cpp", folder);
    FILE *file = good ? fopen(path, "w") : NULL;
    if (!file) return false;
    if (program->warpgroups) fputs("#define __CUDA_ARCH_FEAT_SM90_ALL\n", file);
    fprintf(file, "#include \"cuda_sim.h\"\n#line 1 \"%s\"\n%s\n", program->name, program->text);
    write_all_entries(file, program);
    return fclose(file) == 0;
}

static char *read_whole_source(const char *path, size_t before, size_t *length) {
    FILE *file = fopen(path, "rb");
    struct stat status;
    if (!file || fstat(fileno(file), &status)) {
        if (file) fclose(file);
        return NULL;
    }
    *length = (size_t)status.st_size;
    char *bytes = calloc(1, before + *length + 1);
    if (bytes && fread(bytes + before, 1, *length, file) != *length) {
        free(bytes);
        bytes = NULL;
    }
    fclose(file);
    return bytes;
}

/* Flags for calls of the simulator at every access, for gcc and clang. */
static const char *const gcc_flags =
    "-g1 -gdwarf-4 -fno-var-tracking -fsanitize=kernel-address -fno-gnu-unique "
    "--param asan-instrumentation-with-call-threshold=0 --param asan-stack=0 "
    "--param asan-globals=0";
static const char *const clang_flags =
    "-g1 -gdwarf-4 -fsanitize=kernel-address "
    "-mllvm -asan-instrumentation-with-call-threshold=0 -mllvm -asan-stack=0 "
    "-mllvm -asan-globals=0";

/* Functions that kernels call with these flags: see check.c. */
static const char *const entries =
    "load1_noabort load2_noabort load4_noabort load8_noabort load16_noabort loadN_noabort "
    "store1_noabort store2_noabort store4_noabort store8_noabort store16_noabort storeN_noabort "
    "handle_no_return before_dynamic_init after_dynamic_init memcpy memmove memset";

static const char *const unchecked_flags = "-DSIM_UNCHECKED";

static const char *sim_compiler_name(void) {
    const char *name = getenv("MOEC_CXX");
    return name && *name ? name : "c++";
}

/* Optimization beyond -Og costs more compile time than it saves. */
static int run_compiler(const char *folder) {
    char command[4096];
    snprintf(command, sizeof command,
             "cd '%s' && { f='%s'; case $(%s --version 2>&1) in *clang*) f='%s' ;; esac; "
             "for e in %s; do f=\"$f -Wl,--wrap=__asan_$e\"; done; "
             "%s -std=c++17 -Og %s -fPIC -shared -w -fvisibility=hidden "
             "-ffp-contract=off -fno-strict-aliasing $f "
             "-I. -o unit.so unit.cpp; } >log 2>&1",
             folder, unchecked() ? unchecked_flags : gcc_flags, sim_compiler_name(),
             unchecked() ? unchecked_flags : clang_flags, unchecked() ? "" : entries,
             sim_compiler_name(), has_fma() ? "-mfma" : "");
    int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static void remove_all(const SimProgram *program, const char *folder) {
    static const char *const own[] = {"unit.cpp", "unit.so", "log"};
    char path[512];
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, own[i]);
        unlink(path);
    }
    for (int i = 0; sim_files[i].name; i++) {
        const char *slash = strrchr(sim_files[i].name, '/');
        snprintf(path, sizeof path, "%s/%s", folder, slash ? slash + 1 : sim_files[i].name);
        unlink(path);
    }
    for (int i = 0; i < program->header_count; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, program->headers[i].name);
        unlink(path);
    }
    rmdir(folder);
}

static const int architectures[] = {80, 90};

int nvrtcGetNumSupportedArchs(int *count) {
    *count = sizeof architectures / sizeof *architectures;
    return GOOD;
}

int nvrtcGetSupportedArchs(int *known) {
    memcpy(known, architectures, sizeof architectures);
    return GOOD;
}

/* Reads --gpu-architecture=sm_80, sm_90a or compute_90; false for another architecture. */
static bool read_architecture(SimProgram *program, const char *option) {
    int number = 0;
    const char *name = strchr(option, '=');
    program->assembly = name && strncmp(name, "=compute_", 9) == 0;
    if (!name || sscanf(name, program->assembly ? "=compute_%d" : "=sm_%d", &number) != 1)
        return false;
    program->warpgroups = strcmp(name, "=sm_90a") == 0;
    for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++)
        if (architectures[i] == number) return true;
    return false;
}

int nvrtcCompileProgram(SimProgram *program, int count, const char *const *options) {
    for (int i = 0; i < count; i++)
        if (strncmp(options[i], "--gpu-architecture", 18) == 0 &&
            !read_architecture(program, options[i])) {
            free(program->log);
            program->log = strdup("nvrtc: error: invalid value for --gpu-architecture (-arch)\n");
            return INVALID_OPTION;
        }
    char folder[] = "/tmp/moec-sim-make.XXXXXX", path[64];
    size_t length = 0;
    if (!mkdtemp(folder)) return COMPILATION;
    bool good = write_kernel_program(program, folder) && run_compiler(folder) == 0;
    snprintf(path, sizeof path, "%s/log", folder);
    char *log = read_whole_source(path, 0, &length);
    if (log) {
        free(program->log);
        program->log = log;
    }
    snprintf(path, sizeof path, "%s/unit.so", folder);
    unsigned char *image =
        good ? (unsigned char *)read_whole_source(path, 2 * MARK, &length) : NULL;
    if (image) {
        unsigned long long bytes = length;
        memcpy(image, "SIMULATE", MARK);
        memcpy(image + MARK, &bytes, sizeof bytes);
        program->image = image;
        program->image_bytes = length + 2 * MARK;
    }
    remove_all(program, folder);
    return image ? GOOD : COMPILATION;
}

int nvrtcGetCUBINSize(const SimProgram *program, size_t *bytes) {
    *bytes = program->assembly ? 0 : program->image_bytes;
    return GOOD;
}

int nvrtcGetCUBIN(const SimProgram *program, char *image) {
    memcpy(image, program->image, program->image_bytes);
    return GOOD;
}

/* The assembly is the image too: the simulated driver runs both. */
int nvrtcGetPTXSize(const SimProgram *program, size_t *bytes) {
    *bytes = program->image_bytes;
    return GOOD;
}

int nvrtcGetPTX(const SimProgram *program, char *assembly) {
    return nvrtcGetCUBIN(program, assembly);
}

int nvrtcGetProgramLogSize(const SimProgram *program, size_t *bytes) {
    *bytes = strlen(program->log) + 1;
    return GOOD;
}

int nvrtcGetProgramLog(const SimProgram *program, char *log) {
    strcpy(log, program->log);
    return GOOD;
}
