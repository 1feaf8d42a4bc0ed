
#include "abi/utf8_cut.h"
#include "base/memory.h"
#include "base/message.h"
#include "base/build.h"
#include "tools/command/line/arguments.h"

#include <stdlib.h>
#include <string.h>

enum { WIDTH = 79, LEFT = 32 };

static const struct {
    const char *name, *meaning;
} operands[] = {
    {"SPEC", "spec file, FILE.moe:MODEL, run directory, checkpoint, or - for stdin"},
    {"RUN", "run directory or checkpoint, as moec train and moec import write them"},
    {"DATA", "text, token file, directory, quoted pattern, or examples (safetensors)"},
    {"NAME", "layer, optimizer, schedule, function or option; default: all names"},
    {"CODE", "error code, such as E0136"},
    {"INPUT", "text file, directory, quoted pattern, or - for stdin"},
};

const char *help_operand(const char *name) {
    for (size_t i = 0; i < sizeof operands / sizeof operands[0]; i++)
        if (strcmp(operands[i].name, name) == 0) return operands[i].meaning;
    return NULL;
}

int help_operands(const Command *command, char names[OPERAND_LIMIT][OPERAND_BYTES]) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    int count = 0;
    for (const char *at = command->forms; *at && count < OPERAND_LIMIT;) {
        const size_t length = strspn(at, letters);
        bool apart = at == command->forms || strchr(" |[", at[-1]);
        if (length > 1 && length < OPERAND_BYTES && apart) {
            snprintf(names[count], OPERAND_BYTES, "%.*s", (int)length, at);
            bool known = false;
            for (int i = 0; i < count; i++) known |= !strcmp(names[i], names[count]);
            count += !known && help_operand(names[count]);
        }
        at += length ? length : 1;
    }
    return count;
}

char *help_flag(const Option *option) {
    char letter = flag_letter(option->name), start[8] = "    ";
    if (letter) snprintf(start, sizeof start, "-%c, ", letter);
    const char *argument = option->argument ? option->argument : "";
    return memory_format("%s%s%s%s", start, option->name, *argument ? " " : "", argument);
}

char *help_exit_codes(const Command *command) {
    bool stops = command->settings & STOPS_WITH_0;
    return memory_format("0 success%s; 1 %s; 2 usage error%s",
                         stops ? ", also after SIGINT or SIGTERM" : "",
                         command->failure ? command->failure : "invalid input",
                         stops ? "" : "; 130 or 143 after SIGINT or SIGTERM");
}

/* Prints the text in columns from `left` on, where the cursor is. */
static void print_wrapped(const char *text, int left) {
    int column = left;
    while (*text) {
        const int length = (int)strcspn(text, " ");
        if (column > left && column + 1 + length > WIDTH) {
            printf("\n%*s", left, "");
            column = left;
        } else if (column > left) {
            putchar(' ');
            column++;
        }
        printf("%.*s", length, text);
        column += length;
        text += length + (text[length] == ' ');
    }
    putchar('\n');
}

static void print_row(const char *left, const char *right) {
    if (strlen(left) > LEFT - 4)
        printf("  %s\n%*s", left, LEFT, "");
    else
        printf("  %-*s", LEFT - 2, left);
    print_wrapped(right, LEFT);
}

static void print_help_options(const Option *options) {
    bool headed = options->kind == OPTION_GROUP;
    for (const Option *option = options; option->kind != OPTION_END; option++) {
        if (option->kind == OPTION_GROUP) {
            printf("\n%s:\n", option->name);
            continue;
        }
        if (!headed) printf("\noptions:\n");
        headed = true;
        AUTO_FREE char *left = help_flag(option);
        print_row(left, option->help);
    }
}

void help_print(const Command *command, const Option *options) {
    char names[OPERAND_LIMIT][OPERAND_BYTES];
    const int count = help_operands(command, names);
    printf("usage: moec %s %s\n\n%s\n", command->name, command->forms, command->summary);
    if (count) printf("\narguments:\n");
    for (int i = 0; i < count; i++) print_row(names[i], help_operand(names[i]));
    print_help_options(options);
    printf("\nexamples:\n");
    for (int i = 0; i < 2 && command->examples[i]; i++) printf("  moec %s\n", command->examples[i]);
    AUTO_FREE char *codes = help_exit_codes(command);
    printf("\nexit codes:\n  ");
    print_wrapped(codes, 2);
}

static void print_group(FILE *file, const Command *first, int count) {
    char heading[16];
    snprintf(heading, sizeof heading, "%s:", first->group);
    fprintf(file, "  %-9s", heading);
    for (int i = 0; i < count; i++) fprintf(file, " %s", first[i].name);
    fputc('\n', file);
}

void help_overview(FILE *file, CommandList all) {
    const Command *commands = all.rows;
    fprintf(
        file,
        "moec %s: compiler and runtime for sequence models\n\nusage: moec COMMAND [options]\n\n",
        MOEC_VERSION);
    for (int i = 0, next; i < all.count && commands[i].group; i = next) {
        for (next = i + 1;
             commands[next].group && !strcmp(commands[next].group, commands[i].group);)
            next++;
        print_group(file, &commands[i], next - i);
    }
    fprintf(file, "\nexamples:\n"
                  "  moec check examples/first.moe                 parameters, FLOPs, memory\n"
                  "  moec train examples/first.moe -d text.txt -o run\n"
                  "  moec generate run -p 'Once upon a time'\n"
                  "  moec COMMAND --help                           options and examples\n"
                  "\n"
                  "options: -h help, -V version, -q quiet, -v verbose, --color auto|always|never\n"
                  "environment variables: moec help environment; reference: man moec\n");
}

void help_environment(void) {
    int count;
    const EnvironmentVariable *variables = environment_variables(&count);
    for (int i = 0; i < count; i++) print_row(variables[i].name, variables[i].meaning);
}

/* ---- environment ---- */

static const EnvironmentVariable variables[] = {
    {"MOEC_PATH", "directories for `use` after the directory of the spec, separated by colons"},
    {"MOEC_CC", "C compiler of models, with options (default `cc`; `zig cc` without one)"},
    {"MOEC_CFLAGS", "options of the C compiler after those of moec, separated by spaces"},
    {"MOEC_API_KEY", "API key of `moec serve`; required with a `--host` that is not local"},
    {"MOEC_LIBRARY", "path of `libmoec.so` for the Python package"},
    {"PYTHON", "Python with PyTorch, for `moec verify --against` (default `python3`)"},
    {"MOEC_AGAINST_TIMEOUT", "seconds until code under comparison that does not return is ended "
                             "(default 300)"},
    {"MOEC_MPICC", "C compiler of the MPI library that started the processes (default `mpicc`)"},
    {"MOEC_MESH_OVERLAP", "off = exchanges of a mesh do not overlap with computation"},
    {"MOEC_WATCHDOG_TIMEOUT",
     "seconds until a process that does not continue ends the run (default 60)"},
    {"MASTER_ADDR", "host of rank 0 for processes without MPI, as set by torchrun"},
    {"MASTER_PORT", "port of rank 0 for processes without MPI"},
    {"TORCHELASTIC_USE_AGENT_STORE", "True = an agent uses that port, so the next one is taken"},
    {"MOEC_NCCL", "NCCL library, or directory with it (default `libnccl.so.2`, or `MOEC_CUDA`)"},
    {"MOEC_CUDA", "CUDA driver library, or directory with it; empty = no GPU"},
    {"MOEC_EXTERN",
     "hand-written kernels of a spec (`extern`): off = programs call none, on = those of any "
     "checkpoint"},
    {"MOEC_VARIANT", "variant of GPU kernels: mma, wgmma or wide (default: the fastest one)"},
    {"MOEC_WGMMA", "off = no warpgroup kernels (compute capability 9.0)"},
    {"MOEC_OVERLAP", "off = no overlap of consecutive kernels (compute capability 9.0)"},
    {"MOEC_GRAPH", "off = no CUDA graphs"},
    {"MOEC_NVTX", "on, or the path of an NVTX library: ranges around GPU kernels for a profiler"},
    {"MOEC_CHOICE", "first = GPU kernels by rule instead of time: equal bits in every run"},
    {"MOEC_BLAS", "off = no cuBLASLt; products by the own GPU kernels"},
    {"MOEC_SIM", "modes of the simulated CUDA driver: unchecked, serial, pair, hopper"},
    {"MOEC_CXX", "C++ compiler of the simulated CUDA driver (default `c++`)"},
    {"OMP_NUM_THREADS", "number of CPU threads; `--threads` overrides it"},
    {"OMP_WAIT_POLICY", "active wait of OpenMP threads; moec sets a short one if it is not set"},
    {"GOMP_SPINCOUNT", "active wait of OpenMP threads of GCC, in iterations"},
    {"XDG_CACHE_HOME", "directory of the cache `moec/` of compiled programs (default `~/.cache`)"},
    {"HOME", "home directory; its `.cache` is the default of `XDG_CACHE_HOME`"},
    {"TMPDIR", "directory of temporary files (default `/tmp`)"},
    {"PATH", "directories of the C compiler, `nvcc` and browsers"},
    {"BROWSER", "program of `moec report --open` (default `xdg-open`)"},
    {"NO_COLOR", "no color in messages, if set to any text"},
    {"TERM", "dumb or unset = no redrawn progress line"},
};

const EnvironmentVariable *environment_variables(int *count) {
    *count = (int)(sizeof variables / sizeof variables[0]);
    return variables;
}

/* Variables with words as values; another value has no effect. */
static const struct {
    const char *name, *words[3];
} worded[] = {
    {"MOEC_EXTERN", {"off", "on"}}, {"MOEC_MESH_OVERLAP", {"off", "on"}},
    {"MOEC_WGMMA", {"off", "on"}},  {"MOEC_OVERLAP", {"off", "on"}},
    {"MOEC_GRAPH", {"off", "on"}},  {"MOEC_BLAS", {"off", "on"}},
    {"MOEC_CHOICE", {"first"}},
};

void environment_check(void) {
    for (size_t i = 0; i < sizeof worded / sizeof worded[0]; i++) {
        const char *const *words = worded[i].words, *value = getenv(worded[i].name);
        bool known = !value || !*value;
        for (int k = 0; words[k]; k++) known = known || strcmp(value, words[k]) == 0;
        if (!known)
            note_message("%s=%.*s has no effect: expected %s%s%s", worded[i].name,
                         utf8_cut(value, 40), value, words[0], words[1] ? " or " : "",
                         words[1] ? words[1] : "");
    }
}
