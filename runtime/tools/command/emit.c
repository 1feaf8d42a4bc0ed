/* emit: moec emit: writes a standalone program with its weights. Files that do not depend on the
 * model come from standalone/ and kernels/. */
#include "abi/json_make.h"
#include "abi/refined_inputs.h"
#include "abi/text_find.h"
#include "training/checkpoint.h"
#include "tools/command/line/commands.h"
#include "tools/command/line/arguments.h"
#include "base/files.h"
#include "base/message.h"
#include "tools/command/exchange/torch_folder.h"
#include "tools/command/freestanding/plain_folder.h"
#include "tools/command/internal.h"
#include "base/memory.h"
#include "base/build.h"
#include "training/spec.h"
#include "model/weights.h"
#include "tokenizer/tokenizer.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct EmitOptions {
    const char *operand, *target, *graph, *profile, *weights, *out;
    long context; /* positions of the KV caches; 0: train.context_length */
    DeviceMemory memory;
    bool json, times;
    TextList sets;
} EmitOptions;

/* The values of --mode. */
static const char *const graphs[] = {"decode", "train", "sample"};
enum { DECODE = 1, TRAIN = 2, DRAW = 4, ALL = 7, GRAPHS = 3 };

/* The modes of a file of standalone/ or kernels/, and its target if it has one. Other files belong
 * to all modes and targets, except those of embedded_is_cuda. */
static const struct {
    const char *name;
    int graphs;
    const char *target;
} parts[] = {
    {"model.h", DECODE, NULL},
    {"model.c", DECODE, NULL},
    {"generate.c", DECODE, NULL},
    {"lexicon.h", DECODE, NULL},
    {"lexicon.c", DECODE, NULL},
    {"decode.md", DECODE, "c"},
    {"train.c", TRAIN, NULL},
    {"data.h", TRAIN, NULL},
    {"data.c", TRAIN, NULL},
    {"order.h", TRAIN, NULL},
    {"order.c", TRAIN, NULL},
    {"train.md", TRAIN, "c"},
    {"draw.c", DRAW, NULL},
    {"draw.md", DRAW, "c"},
    {"refined_inputs.h", DRAW, NULL},
    {"tensors.h", TRAIN | DRAW, NULL},
    {"tensors.c", TRAIN | DRAW, NULL},
    {"pick.h", DECODE, NULL},
    {"pick.c", DECODE, NULL},
    {"blocks.c", ALL, "c"},
    {"Makefile", ALL, "c"},
    {"blocks_cuda.cu", ALL, "cuda"},
    {"products_cuda.cu", ALL, "cuda"},
    {"cuda.mk", ALL, "cuda"},
    {"cuda.md", ALL, "cuda"},
    {"shapes.h", ALL, "cuda"},
};

/* DECODE, TRAIN or DRAW; 0 for another name. */
static int graph_of(const char *name) {
    const int at = text_find(graphs, GRAPHS, name);
    return at < 0 ? 0 : 1 << at;
}

static bool is_cuda(const EmitOptions *options) {
    return strcmp(options->target, "cuda") == 0;
}

static bool is_torch(const EmitOptions *options) {
    return strcmp(options->target, "torch") == 0;
}

static bool is_web(const EmitOptions *options) {
    return strcmp(options->target, "web") == 0;
}

static bool is_freestanding(const EmitOptions *options) {
    return is_web(options) || strcmp(options->profile, "freestanding") == 0;
}

/* A program for a GPU has its own kernels and, for its host part, the prelude. */
static bool is_processor_kernel(const EmbeddedFile *file) {
    return strncmp(file->name, "kernels/", strlen("kernels/")) == 0 && !embedded_is_cuda(file) &&
           strcmp(embedded_base(file), "prelude.h") != 0;
}

static bool belongs(const EmbeddedFile *file, const EmitOptions *options) {
    const char *name = embedded_base(file);
    if (strncmp(file->name, "standalone/freestanding/", strlen("standalone/freestanding/")) == 0)
        return false;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strcmp(parts[i].name, name) == 0)
            return (parts[i].graphs & graph_of(options->graph)) &&
                   (!parts[i].target || strcmp(parts[i].target, options->target) == 0);
    return is_cuda(options) ? !is_processor_kernel(file) : !embedded_is_cuda(file);
}

/* Whether the weights are random: from a spec, or from a file of moec init, which has no step. */
static bool is_untrained(const Safetensors *file) {
    return !file || !safetensors_note(file, "step");
}

/* Where the weights come from, for the README. A new string. */
static char *origin_of(const EmitOptions *options, const Safetensors *file) {
    bool trains = graph_of(options->graph) == TRAIN;
    long step = file ? checkpoint_step(file) : 0;
    if (is_freestanding(options) && step > 0)
        return memory_format("It has the weights of training step %ld.", step);
    if (is_freestanding(options))
        return memory_format(is_untrained(file) ? "Its weights are random: it is not trained."
                                                : "It has the weights of a checkpoint.");
    if (step > 0)
        return memory_format("`weights.bin` holds the weights of training step %ld.", step);
    if (!is_untrained(file))
        return memory_format("`weights.bin` holds the weights of a checkpoint without training "
                             "steps of its own.");
    return memory_format("**The weights in `weights.bin` are random: this model is not trained.**"
                         "%s",
                         trains ? "" : " `moec emit RUN` of a trained run writes its weights.");
}

/* The README of the template, with the origin of the weights. */
static bool write_readme(const EmitOptions *options, const char *text, const char *origin) {
    static const char mark[] = "@WEIGHTS@";
    const char *at = strstr(text, mark);
    AUTO_FREE char *whole = at ? memory_format("%.*sWritten by moec %s. %s%s", (int)(at - text),
                                               text, MOEC_VERSION, origin, at + sizeof mark - 1)
                               : memory_format("%s", text);
    return folder_write_text(options->out, "README.md", whole);
}

static bool write_common(const EmitOptions *options, const Safetensors *checkpoint) {
    AUTO_FREE char *origin = origin_of(options, checkpoint);
    bool good = true;
    for (const EmbeddedFile *file = embedded_files; file->name && good; file++) {
        if (!belongs(file, options)) continue;
        const char *name = embedded_base(file), *ending = strrchr(name, '.');
        if (ending && strcmp(ending, ".mk") == 0) name = "Makefile";
        good = ending && strcmp(ending, ".md") == 0
                   ? write_readme(options, file->text, origin)
                   : folder_write_text(options->out, name, file->text);
    }
    return good;
}

static bool write_settings(const char *folder, const Settings *settings) {
    AUTO_FREE char *text =
        memory_format("/* training: training options of the spec. Written by moec %s. */\n"
                      "#ifndef TRAINING_H\n"
                      "#define TRAINING_H\n\n"
                      "#define SETTING_RATE %.17g\n"
                      "#define SETTING_CLIP %.17g\n"
                      "#define SETTING_STEPS %ld\n"
                      "#define SETTING_ACCUMULATE %ld\n"
                      "#define SETTING_SEED %ld\n\n"
                      "#endif\n",
                      MOEC_VERSION, settings->rate, settings->clip, settings->steps,
                      settings->accumulate, settings->seed);
    return folder_write_text(folder, "training.h", text);
}

/* The weights of the checkpoint, or initial ones, in the memory layout of the same program. */
static bool write_emitted_weights(const EmitOptions *options, Model *model, const Safetensors *file,
                                  uint64_t seed) {
    model_initialise(model, seed);
    if (file && !model_read(model, file, false)) return false;
    AUTO_FREE char *path = path_join(options->out, "weights.bin");
    return file_replaceable(path) &&
           (weights_write(path, model->table, NULL, model->weights, model->there.rounded,
                          model->layer_states) == WEIGHTS_FINE ||
            error_message("is there space left on the disk?", "cannot write %s", path));
}

/* The tokenizer of the checkpoint, as a standalone program reads it. */
static bool write_tokenizer(const EmitOptions *options, const Safetensors *file,
                            const char *folder) {
    AUTO(Tokenizer) *tokenizer = NULL;
    if (!file || graph_of(options->graph) != DECODE) return true;
    if (!checkpoint_tokenizer(file, &tokenizer)) return false;
    if (!tokenizer) return true;
    AUTO(Text) text = {0};
    const char *why;
    if (!portable_write(tokenizer, &text, &why))
        note_message(
            "the program cannot tokenize text, because %s; run ./generate with token ids and "
            "--token-ids",
            why);
    return folder_write(folder, "tokenizer.bin", text.bytes, text.length);
}

/* Of a page, the folder of its parts. */
static char *freestanding_folder(const EmitOptions *options) {
    return is_web(options) ? path_join(options->out, "source") : memory_format("%s", options->out);
}

static bool write_web(const FreestandingFolder *folder, const EmitOptions *options,
                      const Safetensors *file) {
    AUTO_FREE char *page = path_join(options->out, "index.html");
    return write_tokenizer(options, file, folder->out) && page_write(folder, page);
}

/* The spec of a checkpoint or of a file. */
static MoecCompiler *open_emitted_spec(const EmitOptions *options, const Safetensors *file) {
    const TextList *sets = &options->sets;
    return file ? checkpoint_spec(file, sets->items, sets->count)
                : spec_open(options->operand, sets);
}

/* A model to open again with another setting. */
typedef struct EmittedSpec {
    const EmitOptions *options;
    const Safetensors *file;
} EmittedSpec;

static MoecCompiler *open_emitted_variant(const void *context, const char *set) {
    const EmittedSpec *spec = context;
    EmitOptions options = *spec->options;
    options.sets.items[options.sets.count++] = set;
    return open_emitted_spec(&options, spec->file);
}

/* The folder of the profile freestanding, instead of that of a hosted program. */
static bool write_freestanding(const EmitOptions *options, MoecCompiler *compiler,
                               const GraphShape *shape, Model *model, const Safetensors *file,
                               uint64_t seed) {
    MoecProgram *decoding =
        moec_compile(compiler, shape->graph, shape->batch, shape->context, shape->tokens);
    const MoecFreestanding *program = decoding ? moec_emit_freestanding(compiler, decoding) : NULL;
    if (!program) return reports_good(compiler);
    if (!device_memory_holds(&options->memory, program, open_emitted_variant,
                             &(EmittedSpec){options, file}))
        return false;
    model_initialise(model, seed);
    if (file && !model_read(model, file, false)) return false;
    AUTO_FREE char *origin = origin_of(options, file);
    const size_t bytes = freestanding_weight_bytes(program);
    const bool apart =
        is_web(options) || (options->weights ? strcmp(options->weights, "incbin") == 0
                                             : bytes > FREESTANDING_ARRAY_BYTES);
    AUTO_FREE char *path = freestanding_folder(options);
    const FreestandingFolder folder = {path, origin, compiler, model, program, apart};
    bool good = !is_web(options) || bytes <= PAGE_WEIGHT_BYTES ||
                error_message("add --set inference.weight_dtype=int8, or emit a smaller model",
                              "the weights have %zu MB; a page holds at most %d MB",
                              bytes / 1000000, PAGE_WEIGHT_BYTES / 1000000);
    return good && freestanding_write(&folder) &&
           (!is_web(options) || write_web(&folder, options, file));
}

/* The files of the hand-written kernels that the programs call. */
static bool write_externs(const EmitOptions *options, MoecCompiler *compiler,
                          MoecProgram *const *programs, int count) {
    bool good = true;
    for (int i = 0; i < count; i++) {
        int calls;
        const MoecExtern *list = moec_externs(compiler, programs[i], &calls);
        for (int j = 0; j < calls && good; j++) {
            for (int k = 0; k < j && good; k++)
                if (!strcmp(list[k].emitted, list[j].emitted) &&
                    strcmp(list[k].path, list[j].path) != 0)
                    good = error_message("rename one of them", "the files %s and %s have one name",
                                         list[k].path, list[j].path);
            good = good && folder_write_text(options->out, list[j].emitted, list[j].text);
            if (good && is_cuda(options) && !list[j].gradient && i == 0)
                note_message("%s is not compared with the equations of layer '%s': use moec verify "
                             "%s --device cuda",
                             list[j].name, list[j].layer, options->operand);
        }
    }
    return good;
}

static bool write_program(const EmitOptions *options, MoecCompiler *compiler,
                          const GraphShape *shapes, int count) {
    MoecProgram *programs[2];
    moec_use_externs(compiler, externs_are_trusted(compiler) ? options->target : NULL);
    for (int i = 0; i < count; i++) {
        programs[i] = moec_compile(compiler, shapes[i].graph, shapes[i].batch, shapes[i].context,
                                   shapes[i].tokens);
        if (!programs[i]) return reports_good(compiler);
    }
    MoecKernels kernels = {0};
    moec_use_externs(compiler, NULL);
    const char *text = is_cuda(options) ? moec_emit_cuda(compiler, programs, count, &kernels)
                                        : moec_emit_c(compiler, programs, count, true);
    if (!text) return reports_good(compiler);
    return folder_write_text(options->out, "program.c", text) &&
           write_externs(options, compiler, programs, count) &&
           (!kernels.text || folder_write_text(options->out, "kernels.cu", kernels.text));
}

/* The programs of a mode; returns their number. */
static int emitted_shapes(const EmitOptions *options, const Settings *settings,
                          GraphShape shapes[2]) {
    switch (graph_of(options->graph)) {
    case TRAIN:
        shapes[0] = (GraphShape){.graph = MOEC_TRAIN};
        shapes[1] = (GraphShape){.graph = MOEC_UPDATE};
        return 2;
    case DRAW:
        shapes[0] = (GraphShape){.graph = MOEC_REFINE, .batch = REFINED_AT_ONCE};
        return 1;
    default:
        shapes[0] = (GraphShape){.graph = MOEC_DECODE, .batch = 1, .tokens = 1};
        shapes[0].context = options->context ? options->context : settings->context;
        return 1;
    }
}

static bool write_folder(const EmitOptions *options, MoecCompiler *compiler,
                         const Safetensors *file) {
    bool trains = graph_of(options->graph) == TRAIN;
    Settings settings = settings_of(compiler);
    GraphShape shapes[2];
    int stages;
    moec_stages(compiler, &stages);
    if (trains && stages)
        return error_message("add --set train.stages=[]",
                             "an emitted program cannot train in stages (train.stages)");
    int count = emitted_shapes(options, &settings, shapes);
    AUTO(Model) *model = model_open(device_cpu(), compiler, shapes, count, true);
    const uint64_t seed = (uint64_t)settings.seed;
    const bool plain = is_freestanding(options);
    bool good =
        model && (graph_of(options->graph) != DRAW || sample_inputs_fit(model->table->graphs));
    if (good && plain)
        good = write_freestanding(options, compiler, shapes, model, file, seed);
    else
        good = good && write_program(options, compiler, shapes, count) &&
               write_common(options, file) &&
               (!trains || write_settings(options->out, &settings)) &&
               write_emitted_weights(options, model, file, seed) &&
               write_tokenizer(options, file, options->out);
    return good;
}

static bool can_train(const MoecCompiler *compiler) {
    return !moec_gathers(compiler) ||
           error_message(
               "train it with moec train, or use one micro-batch per step, without aux_loss_scope "
               "= global_batch",
               "an emitted program does not support step_mean, which needs all micro-batches");
}

/* The folder of a target, after its checks. */
static bool write_target(const EmitOptions *options, MoecCompiler *compiler,
                         const Safetensors *file) {
    if (moec_use_externs(compiler, NULL) && (is_torch(options) || is_freestanding(options)))
        note_message("programs of this target call no hand-written kernels: the equations run");
    if (is_torch(options))
        return torch_folder_write(&(TorchFolder){options->operand, options->out, compiler, file});
    return (graph_of(options->graph) != DECODE || spec_generates(compiler)) &&
           (graph_of(options->graph) != TRAIN || can_train(compiler)) &&
           (graph_of(options->graph) != DRAW || spec_refines(compiler)) &&
           write_folder(options, compiler, file);
}

/* The files of a target, all or none. */
static bool write_aside(const EmitOptions *options, MoecCompiler *compiler,
                        const Safetensors *file) {
    AsideFolder aside;
    if (!aside_folder_open(&aside, options->out)) return false;
    EmitOptions partial = *options;
    partial.out = aside.partial;
    return aside_folder_close(&aside, write_target(&partial, compiler, file));
}

static void report_emit(const EmitOptions *options, const MoecCompiler *compiler,
                        const Safetensors *file) {
    const bool untrained = is_untrained(file);
    written_message(options->out,
                    is_torch(options)          ? "moec import %s --out DIR"
                    : is_web(options)          ? "open %s/index.html in a browser"
                    : is_freestanding(options) ? "cc -std=c99 -O2 -c %s/model.c"
                                               : "make -C %s",
                    options->out);
    if (graph_of(options->graph) != TRAIN && untrained)
        note_message("%s is not a trained run: the weights in %s are random", options->operand,
                     options->out);
    if (options->json)
        json_result_written(options->out,
                            json_make("{s:s, s:s, s:s, s:b, s:I}", "model", moec_model(compiler),
                                      "target", options->target, "mode", options->graph, "trained",
                                      !untrained, "step",
                                      (json_int_t)(file ? checkpoint_step(file) : 0)));
}

static bool emit(const EmitOptions *options) {
    bool trained = spec_is_run(options->operand);
    AUTO(Safetensors) *file = trained ? checkpoint_open(options->operand) : NULL;
    if (trained && !file) return false;
    AUTO(MoecCompiler) *compiler = open_emitted_spec(options, file);
    bool good = compiler && write_aside(options, compiler, file);
    if (good) report_emit(options, compiler, file);
    if (good && options->times) pass_times_print(compiler);
    return good;
}

/* Whether the directory is missing or empty; false after a message. */
static bool is_empty(const char *path) {
    DIR *folder = opendir(path);
    int count = 0;
    for (const struct dirent *entry; folder && (entry = readdir(folder));) count++;
    if (folder) closedir(folder);
    return count <= 2 || error_message("add --force to replace its files, or choose another --out",
                                       "the directory %s is not empty", path);
}

/* Programs other than that of decoding have the context length as an option of the model. */
static void keep_context(EmitOptions *options) {
    static char set[64];
    if (!options->context || (graph_of(options->graph) == DECODE && !is_torch(options))) return;
    snprintf(set, sizeof set, "%s=%ld", flag_path("--context-length"), options->context);
    options->sets.items[options->sets.count++] = set;
}

int command_emit(const Command *command, int argc, char **argv) {
    EmitOptions options = {.target = "c", .graph = "decode", .profile = "hosted"};
    bool force = false;
    const Option table[] = {
        {OPTION_TEXT, "--target", "c|cuda|torch|web", &options.target,
         "language: c needs a C compiler, cuda needs nvcc; torch: a model for the transformers "
         "library; web: a page that runs the model in a browser, needs clang (default c)"},
        {OPTION_TEXT, "--mode", "decode|train|sample", &options.graph,
         "program: decode generates text, train trains, sample draws samples (default decode)"},
        {OPTION_TEXT, "--profile", "hosted|freestanding", &options.profile,
         "environment of a C program: hosted has files, memory and threads; freestanding has none: "
         "one C99 file for decoding (default hosted)"},
        {OPTION_TEXT, "--weights", "array|incbin", &options.weights,
         "weights of a freestanding program: array in C, or incbin of the assembler (default array "
         "up to 16 MB)"},
        {OPTION_COUNT, "--flash", "BYTES", &options.memory.flash,
         "read-only memory of the device of a freestanding program, for weights, code and tables "
         "(default: no limit)"},
        {OPTION_COUNT, "--ram", "BYTES", &options.memory.ram,
         "RAM of this device, for the state and the stack (default: no limit)"},
        {OPTION_TEXT, "--out", "DIR", &options.out, "directory to write"},
        {OPTION_FLAG, "--force", NULL, &force, "replacement of existing files"},
        {OPTION_FLAG, "--json", NULL, &options.json, "result as JSON"},
        {OPTION_COUNT, "--context-length", "N", &options.context,
         "positions of the KV cache (default train.context_length)"},
        TIME_OPTION(&options.times),
        SET_OPTION(&options.sets),
    };
    int code = arguments_read(command, OPTIONS(table), argc, argv, &options.operand);
    if (code >= 0) return code;
    if (!options.out) return arguments_wrong(command, NULL, "moec emit requires --out");
    if (is_torch(&options) && graph_of(options.graph) != DECODE)
        return arguments_wrong(command, NULL, "--mode is an option of the targets c and cuda");
    if (is_web(&options) && graph_of(options.graph) != DECODE)
        return arguments_wrong(command, NULL, "--target web requires --mode decode");
    if (is_freestanding(&options) && !is_web(&options) &&
        (strcmp(options.target, "c") != 0 || graph_of(options.graph) != DECODE))
        return arguments_wrong(command, NULL,
                               "--profile freestanding requires --target c and --mode decode");
    if (options.weights && (is_web(&options) || !is_freestanding(&options)))
        return arguments_wrong(command, NULL, "--weights is an option of --profile freestanding");
    if ((options.memory.flash || options.memory.ram) &&
        (is_web(&options) || !is_freestanding(&options)))
        return arguments_wrong(command, NULL,
                               "--flash and --ram are options of --profile freestanding");
    if (!force && !is_empty(options.out)) return EXIT_INPUT;
    keep_context(&options);
    return emit(&options) ? 0 : EXIT_INPUT;
}
