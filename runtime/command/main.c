/* main: the moec command. */
#include "command/commands.h"
#include "base/message.h"
#include "base/threads.h"
#include "base/version.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static const Command commands[] = {
    {"check", command_check, false, "FILE[:MODEL]|DIR [--set key=value]... [--json]",
     "Checks a spec and says what the model costs: parameters, FLOPs, cache, memory."},
    {"transfer", command_transfer, false, "FILE[:MODEL] [--set key=value]... [--json]",
     "Says what each parameter gets from the model that was tuned, and by which clause."},
    {"coordcheck", command_coordcheck, true,
     "FILE[:MODEL] --over KEY=A,B,... [--over KEY=A,B,...] [--steps N] [--svg FILE] [--set "
     "key=value]... [--json]",
     "Says whether activations and their changes stay as they are over sizes of a model."},
    {"fmt", command_fmt, false, "FILE [--check]",
     "Writes a spec in the one layout; with --check only says whether it is so."},
    {"doc", command_doc, false, "[NAME|FILE|FILE:NAME] [--json|--markdown]",
     "Describe layers, optimizers, schedules, builtin functions and their options."},
    {"dump", command_dump, false,
     "FILE[:MODEL]|DIR --after PASS [--graph forward|train|decode|update|measure] [--target "
     "c|cuda] "
     "[--set key=value]...",
     "Prints the program after a pass of the compiler."},
    {"diff", command_diff, false, "A B [--set key=value]...",
     "Says in what two models, specs or folders of runs, differ: options, cost, parameters, "
     "equations."},
    {"explain", command_explain, false,
     "FILE[:MODEL]|DIR [--graph forward|train|decode|measure] [--target c|cuda] [--svg F] [--dot "
     "F] "
     "[--json] [--set key=value]...",
     "Shows what the compiler made of a model: layers, fused units of work, cost, memory."},
    {"init", command_init, false, "FILE[:MODEL] --seed N --out W.safetensors [--set key=value]...",
     "Writes fresh random weights."},
    {"weights", command_weights, false, "FILE.safetensors|DIR [--json]",
     "Lists the tensors of a file, of a published folder or of a run."},
    {"import", command_import, false, "DIR --out RUN [--set key=value]... [--layout FILE]",
     "Makes a run of a published model: config.json, safetensors, tokenizer.json."},
    {"export", command_export, false, "RUN --as LAYOUT --out DIR [--layout FILE]",
     "Writes a trained model as a folder that others read: config.json, model.safetensors."},
    {"run", command_run, true,
     "FILE[:MODEL] --weights W.safetensors --tokens T.bin --want logits,loss,total,aux,grads --out "
     "O.safetensors\n"
     "           [--device cpu|cuda|eval] [--context N] [--seed N] [--set key=value]...",
     "Runs a model once on given tokens and writes what it gives."},
    {"tokenize", command_tokenize, false,
     "TEXT... --tokenizer F --out X.bin [--lines] [--field NAME] [--end TOKEN] [--resume]",
     "Writes the tokens of texts to a file that moec train reads: as llm.c has them, 256 words of "
     "header\n"
     "      (20240520 or 20240801, version 1, the number of tokens), then uint16 or uint32."},
    {"tokenizer", command_tokenizer, false, "train TEXT... --vocab N --out tokenizer.json",
     "Makes a tokenizer (byte-level BPE) from texts."},
    {"train", command_train, true,
     "FILE[:MODEL] --data PATH --out DIR [--tokenizer F] [--val PATH] [--steps N] [--seed N] "
     "[--resume] [--set "
     "key=value]...",
     "Trains a model; DIR receives checkpoints and a log."},
    {"sweep", command_sweep, false,
     "FILE[:EXPERIMENT] --data PATH --out DIR [--jobs N] [--device NAMES] [--slurm OPTIONS] "
     "[--dry-run] [--resume] [--val PATH] [--tokenizer F] [--set key=value]...",
     "Trains everything that an experiment compares and says what differs."},
    {"compare", command_compare, true, "DIR... [--base NAME] [--markdown|--csv|--json|--svg]",
     "Holds runs beside each other: loss, cost, speed, probes, and what differs beyond the "
     "noise.\n"
     "      Of a spec in place of folders it says what moec verify says."},
    {"report", command_report, false, "DIR... [--out FILE] [--base NAME] [--open]",
     "Writes the same with curves, costs and specs as one HTML file to pass on."},
    {"log", command_log, false, "DIR --csv", "Writes the log of a run as a table."},
    {"eval", command_eval, true, "DIR --data PATH|--choices FILE [--json]",
     "Measures the loss of a trained model on data, or how often it finds the right answer."},
    {"generate", command_generate, true,
     "DIR --prompt TEXT|--prompts FILE [--tokens N] [--stop TEXT] [--temperature T] [--top-k K] "
     "[--top-p P] [--seed N]",
     "Continues a text with a trained model."},
    {"serve", command_serve, true,
     "DIR [--host ADDRESS] [--port N] [--context N] [--batch N] [--chat-template F]",
     "Serves completions and chats over HTTP as OpenAI's API has them; GET /metrics, /health."},
    {"draw", command_draw, true, "DIR --out X.safetensors [--count N] [--steps N] [--seed N]",
     "Makes examples out of noise with a trained model of velocities."},
    {"emit", command_emit, false,
     "FILE[:MODEL]|DIR --target c|cuda --graph decode|train|draw --out DIR",
     "Writes a folder of C sources that needs nothing but a C compiler."},
    {"verify", command_verify, true,
     "FILE[:MODEL]|DIR [--device cpu|cuda] [--batch N] [--context N] [--shapes] [--forms] "
     "[--seed N] [--set key=value]... [--json]",
     "Compares what a device computes with the definition: outputs, gradients, decoding."},
    {"bench", command_bench, true,
     "FILE[:MODEL]|DIR [--graph train|decode] [--device cpu|cuda] [--kernels] [--json]",
     "Measures speed beside the ceilings of the machine."},
    {"lsp", command_lsp, false, "[--stdio]",
     "Talks to an editor: errors while typing, descriptions, declarations, completion, layout."},
    {"prepare", command_prepare, false, "DIR",
     "Compiles what all programs share into DIR; `make` does it, to make first starts short."},
};

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

const Command *command_row(const char *name) {
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i].name, name) == 0) return &commands[i];
    return NULL;
}

static int print_help(FILE *file) {
    fprintf(file, "moec %s: architectures as a few lines of text, compiled to C\n\n", MOEC_VERSION);
    for (int i = 0; i < COMMAND_COUNT; i++)
        fprintf(file, "  moec %s %s\n      %s\n", commands[i].name, commands[i].forms,
                commands[i].summary);
    fprintf(file, "\n`moec COMMAND --help` tells the options of a command.\n"
                  "MOEC_PATH: more folders for `use`, colon separated.  MOEC_CC: the C compiler "
                  "(default cc).\n"
                  "NO_COLOR: no colours.  Compiled programs are kept in $XDG_CACHE_HOME/moec or "
                  "~/.cache/moec.\n");
    return file == stdout ? 0 : EXIT_USAGE;
}

/* A standard stream that is closed would give its number to the next file that is opened, which
 * then receives what is printed. These read only: printing fails as it does on what is closed. */
static void hold_streams(void) {
    for (int stream = 0; stream <= 2; stream++)
        if (fcntl(stream, F_GETFD) < 0) open("/dev/null", stream == 2 ? O_WRONLY : O_RDONLY);
}

/* The exit code, once everything that was printed has got where it was to go. */
static int finish(int code) {
    errno = 0;
    bool failed = ferror(stdout) != 0;
    failed = fflush(stdout) != 0 || failed;
    if (!failed) return code;
    error_message("look at where the output goes", "cannot write the standard output%s%s",
                  errno ? ": " : "", errno ? strerror(errno) : "");
    return code ? code : EXIT_INPUT;
}

static int run(int argc, char **argv) {
    if (argc < 2) return print_help(stderr);
    const char *name = argv[1];
    if (strcmp(name, "--version") == 0) {
        printf("moec %s\n", MOEC_VERSION);
        return 0;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) return print_help(stdout);
    if (strcmp(name, "help") == 0) {
        const Command *row = argc > 2 ? command_row(argv[2]) : NULL;
        char help[] = "--help";
        return row ? row->run(2, (char *[]){argv[2], help, NULL}) : print_help(stdout);
    }
    const Command *row = command_row(name);
    if (row) {
        if (row->computes) threads_wait_briefly(argv);
        return row->run(argc - 1, argv + 1);
    }
    error_message("`moec help` lists the commands", "there is no command '%s'", name);
    return EXIT_USAGE;
}

int main(int argc, char **argv) {
    hold_streams();
    setlocale(LC_NUMERIC, "C");
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ,
           SIG_IGN); /* a limit on file sizes then is an error of write, and told like one */
    return finish(run(argc, argv));
}
