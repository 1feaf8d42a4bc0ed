#include "module.h"

#include "complain.h"
#include "embedded.h"
#include "files.h"
#include "memory.h"
#include "seconds.h"
#include "version.h"

#define XXH_INLINE_ALL
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

extern char **environ;

/* gnu11 and not c11: contraction to fused multiply-adds is wanted. Nothing here changes what finite numbers give. */
static const char *const flags[] = {"-std=gnu11", "-O3",     "-march=native", "-fno-math-errno", "-fno-trapping-math",
                                    "-fPIC",      "-shared", "-w",            "-fopenmp"};
enum { FLAG_COUNT = sizeof flags / sizeof flags[0], WORD_LIMIT = 16 };

static const char *compiler_name(void) {
    const char *name = getenv("MOEC_CC");
    return name && *name ? name : "cc";
}

static void hash_text(XXH3_state_t *state, const char *text) { XXH3_128bits_update(state, text, strlen(text) + 1); }

/* The compiler by what its file looks like: asking it for its version would cost a process at every start. */
static void hash_compiler(XXH3_state_t *state) {
    const char *name = compiler_name();
    hash_text(state, name);
    size_t length = strcspn(name, " ");
    const char *path = getenv("PATH");
    for (const char *at = path ? path : ""; *at;) {
        size_t folder = strcspn(at, ":");
        char *file = memory_format("%.*s/%.*s", (int)folder, at, (int)length, name);
        struct stat status;
        bool found = stat(file, &status) == 0;
        free(file);
        if (found) {
            XXH3_128bits_update(state, &status.st_size, sizeof status.st_size);
            XXH3_128bits_update(state, &status.st_mtim, sizeof status.st_mtim);
            return;
        }
        at += folder + (at[folder] == ':');
    }
}

/* -march=native means another thing on another processor, and home folders are shared between machines. */
static void hash_processor(XXH3_state_t *state) {
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (!file)
        return;
    char line[8192];
    while (fgets(line, sizeof line, file) && line[0] != '\n')
        if (strncmp(line, "flags", 5) == 0 || strncmp(line, "model name", 10) == 0 || strncmp(line, "Features", 8) == 0)
            hash_text(state, line);
    fclose(file);
}

/* digits[33] receives the name under which the program is kept. */
static void module_key(char *digits, const char *text) {
    XXH3_state_t *state = XXH3_createState();
    XXH3_128bits_reset(state);
    hash_text(state, MOEC_VERSION);
    hash_text(state, text);
    for (const EmbeddedFile *file = embedded_files; file->name; file++)
        if (embedded_is_header(file))
            XXH3_128bits_update(state, file->text, file->length);
    for (int i = 0; i < FLAG_COUNT; i++)
        hash_text(state, flags[i]);
    hash_compiler(state);
    hash_processor(state);
    XXH128_hash_t hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    snprintf(digits, 33, "%016" PRIx64 "%016" PRIx64, (uint64_t)hash.high64, (uint64_t)hash.low64);
}

bool module_write_headers(const char *folder) {
    bool good = true;
    for (const EmbeddedFile *file = embedded_files; file->name && good; file++) {
        char *path = path_join(folder, embedded_base(file));
        good = !embedded_is_header(file) || file_write(path, file->text, file->length);
        free(path);
    }
    return good;
}

/* Runs the compiler; what it prints goes to the file `log`. Returns its exit status, or -1 when it could not be started. */
static int run_compiler(const char *folder, const char *source, const char *output, const char *log, bool openmp) {
    char *name = memory_format("%s", compiler_name()), *include = memory_format("-I%s", folder);
    char *words[WORD_LIMIT + FLAG_COUNT + 6];
    int count = 0;
    char *rest = NULL;
    for (char *word = strtok_r(name, " ", &rest); word && count < WORD_LIMIT; word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    for (int i = 0; i < FLAG_COUNT - !openmp; i++)
        words[count++] = (char *)(uintptr_t)flags[i];
    words[count++] = include;
    words[count++] = (char *)(uintptr_t)"-o";
    words[count++] = (char *)(uintptr_t)output;
    words[count++] = (char *)(uintptr_t)source;
    words[count++] = (char *)(uintptr_t)"-lm";
    words[count] = NULL;

    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    pid_t child;
    int status = -1, failed = posix_spawnp(&child, words[0], &actions, NULL, words, environ);
    while (!failed && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    posix_spawn_file_actions_destroy(&actions);
    free(name);
    free(include);
    return failed ? -1 : status;
}

/* The first lines of what the compiler printed. */
static void print_log(const char *log) {
    FILE *file = fopen(log, "r");
    char line[512];
    for (int i = 0; file && i < 20 && fgets(line, sizeof line, file); i++)
        fprintf(stderr, "    %s", line);
    if (file)
        fclose(file);
}

static bool compile(const char *folder, const char *source, const char *output) {
    char *log = memory_format("%s.log", output);
    int status = run_compiler(folder, source, output, log, true);
    if (status > 0) /* some compilers come without OpenMP: slower, but it works */
        status = run_compiler(folder, source, output, log, false) == 0 ? 0 : status;
    if (status < 0)
        complain("install one (Debian: apt-get install gcc), or name yours in MOEC_CC", "there is no C compiler: %s: %s",
                 compiler_name(), strerror(errno));
    else if (status > 0) {
        complain("please report this with the spec", "%s does not take the generated program %s:", compiler_name(), source);
        print_log(log);
    }
    unlink(log);
    free(log);
    return status == 0;
}

static bool load(Module *module, const char *path, bool say) {
    module->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    module->table = module->handle ? dlsym(module->handle, "moec_table") : NULL;
    if (module->table && module->table->abi == MOEC_ABI)
        return true;
    if (say)
        complain("remove the file and try again", "cannot load %s: %s", path,
                 module->handle ? "it is not a program of this version" : dlerror());
    if (module->handle)
        dlclose(module->handle);
    module->handle = NULL;
    return false;
}

/* Compiles in a folder of its own below `parent`, then moves the result to `kept` in one step (when kept is not NULL). */
static bool make(Module *module, const char *text, const char *parent, const char *kept) {
    char *folder = memory_format("%s/make.XXXXXX", parent);
    if (!mkdtemp(folder)) {
        complain("set TMPDIR or XDG_CACHE_HOME to a folder that may be written", "cannot make a folder below %s: %s", parent,
                 strerror(errno));
        free(folder);
        return false;
    }
    char *source = path_join(folder, "program.c"), *output = path_join(folder, "program.so");
    char *kept_source = memory_format("%.*s.c", (int)(kept ? strlen(kept) - 3 : 0), kept ? kept : "");
    bool good = module_write_headers(folder) && file_write(source, text, strlen(text)) && compile(folder, source, output);
    if (good && kept)
        good = rename(source, kept_source) == 0 && rename(output, kept) == 0;
    good = good && load(module, kept ? kept : output, true);
    unlink(source);
    unlink(output);
    for (const EmbeddedFile *file = embedded_files; file->name; file++) {
        char *path = path_join(folder, embedded_base(file));
        unlink(path);
        free(path);
    }
    rmdir(folder);
    free(folder);
    free(source);
    free(output);
    free(kept_source);
    return good;
}

/* The cache folder, made when it is not there; NULL when there can be none. */
static char *cache_folder(void) {
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *folder = base && *base == '/'   ? path_join(base, "moec")
                   : home && *home == '/' ? path_join(home, ".cache/moec")
                                          : NULL;
    if (folder && folder_make(folder) && access(folder, W_OK) == 0)
        return folder;
    remark("the compiled program is not kept: there is no cache folder that may be written");
    free(folder);
    return NULL;
}

Module *module_load(const char *text, bool keep) {
    Module *module = memory_new(sizeof *module);
    module->text_bytes = strlen(text);
    double start = seconds_now();
    char *folder = keep ? cache_folder() : NULL, *kept = NULL;
    if (folder) {
        char digits[33];
        module_key(digits, text);
        kept = memory_format("%s/%s.so", folder, digits);
        module->cached = file_exists(kept) && load(module, kept, false);
    }
    const char *temporary = getenv("TMPDIR");
    if (!module->cached)
        make(module, text, folder ? folder : temporary && *temporary ? temporary : "/tmp", kept);
    module->compile_seconds = seconds_now() - start;
    free(folder);
    free(kept);
    if (module->handle)
        return module;
    free(module);
    return NULL;
}

void module_free(Module *module) {
    if (!module)
        return;
    dlclose(module->handle);
    free(module);
}
