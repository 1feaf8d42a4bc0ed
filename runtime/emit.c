/* emit: moec emit: a folder of C sources with the weights, which needs nothing of ours. The files
 * that do not depend on the model are those of standalone/ and kernels/. */
#include "checkpoint.h"
#include "commands.h"
#include "complain.h"
#include "embedded.h"
#include "memory.h"
#include "settings.h"
#include "spec.h"
#include "weights.h"

#include <stdlib.h>
#include <string.h>

typedef struct Options {
    const char *operand, *target, *graph, *out;
    long context; /* places of the caches; 0: train.context */
    TextList sets;
} Options;

/* Files of standalone/ that belong to one of the graphs only. */
static const char *const decode_only[] = {"model.h", "model.c", "generate.c", "decode.md", NULL};
static const char *const train_only[] = {"train.c",  "train.md", "order.h", "order.c",
                                         "random.h", "random.c", NULL};

static bool listed(const char *const *list, const char *name) {
    for (; *list; list++)
        if (strcmp(*list, name) == 0) return true;
    return false;
}

static bool write_text(const char *folder, const char *name, const char *text) {
    char *path = path_join(folder, name);
    bool good = file_write(path, text, strlen(text));
    free(path);
    return good;
}

/* Files that only one of the targets wants; embedded_is_cuda says it of the others. */
static const char *const c_only[] = {"kernels.h", "matmul.h", "attention.h", "routing.h", "blocks.c",
                                     "Makefile",  "decode.md", "train.md",   NULL};
static const char *const cuda_only[] = {"blocks_cuda.cu", "cuda.mk", "cuda.md", "shapes.h", NULL};

static bool belongs(const EmbeddedFile *file, bool trains, bool cuda) {
    const char *name = embedded_base(file);
    if (!embedded_is_header(file) && listed(trains ? decode_only : train_only, name)) return false;
    return cuda ? !listed(c_only, name) : !embedded_is_cuda(file) && !listed(cuda_only, name);
}

static bool write_common(const char *folder, bool trains, bool cuda) {
    bool good = true;
    for (const EmbeddedFile *file = embedded_files; file->name && good; file++) {
        if (!belongs(file, trains, cuda)) continue;
        const char *name = embedded_base(file), *ending = strrchr(name, '.');
        if (ending && strcmp(ending, ".md") == 0) name = "README.md";
        if (ending && strcmp(ending, ".mk") == 0) name = "Makefile";
        good = write_text(folder, name, file->text);
    }
    return good;
}

static bool write_settings(const char *folder, const Settings *settings) {
    char *text = memory_format("/* training: what the specification says of the training. */\n"
                               "#ifndef TRAINING_H\n"
                               "#define TRAINING_H\n\n"
                               "#define SETTING_RATE %.17g\n"
                               "#define SETTING_CLIP %.17g\n"
                               "#define SETTING_STEPS %ld\n"
                               "#define SETTING_ACCUMULATE %ld\n"
                               "#define SETTING_SEED %ld\n\n"
                               "#endif\n",
                               settings->rate, settings->clip, settings->steps,
                               settings->accumulate, settings->seed);
    bool good = write_text(folder, "training.h", text);
    free(text);
    return good;
}

/* The weights of the checkpoint, or fresh ones. The hosted program of the same graphs tells where
 * they lie. */
static bool write_weights(const Options *options, Model *model, const Safetensors *file,
                          uint64_t seed) {
    model_initialise(model, seed);
    if (file && !model_read(model, file, false)) return false;
    char *path = path_join(options->out, "weights.bin");
    bool good =
        weights_write(path, model->table, model->weights, model->layer_states) == WEIGHTS_FINE ||
        complain("is there space left on the disk?", "cannot write %s", path);
    free(path);
    return good;
}

static bool is_cuda(const Options *options) {
    return strcmp(options->target, "cuda") == 0;
}

static bool write_program(const Options *options, MoecCompiler *compiler, const Wish *wishes,
                          int count) {
    MoecProgram *programs[2];
    for (int i = 0; i < count; i++) {
        programs[i] = moec_compile(compiler, wishes[i].graph, wishes[i].batch, wishes[i].context,
                                   wishes[i].tokens);
        if (!programs[i]) return spec_good(compiler);
    }
    const char *kernels = NULL, *text = is_cuda(options)
                                            ? moec_emit_cuda(compiler, programs, count, true, &kernels)
                                            : moec_emit_c(compiler, programs, count, true);
    if (!text) return spec_good(compiler);
    return write_text(options->out, "program.c", text) &&
           (!kernels || write_text(options->out, "kernels.cu", kernels));
}

static bool write_folder(const Options *options, MoecCompiler *compiler, const Safetensors *file) {
    bool trains = strcmp(options->graph, "train") == 0;
    Settings settings = settings_of(compiler);
    const Wish training[] = {{.graph = MOEC_TRAIN}, {.graph = MOEC_UPDATE}};
    const Wish decoding = {.graph = MOEC_DECODE,
                           .batch = 1,
                           .tokens = 1,
                           .context = options->context ? options->context : settings.context};
    const Wish *wishes = trains ? training : &decoding;
    int count = trains ? 2 : 1;
    Model *model = model_open(compiler, wishes, count, true);
    bool good = model && folder_make(options->out) &&
                write_program(options, compiler, wishes, count) &&
                write_common(options->out, trains, is_cuda(options)) &&
                (!trains || write_settings(options->out, &settings)) &&
                write_weights(options, model, file, (uint64_t)settings.seed);
    model_close(model);
    return good;
}

int command_emit(int argc, char **argv) {
    const Command *command = command_row("emit");
    Options options = {.target = "c", .graph = "decode"};
    const Option table[] = {
        {OPTION_TEXT, "--target", "NAME", &options.target,
         "c: needs a C compiler; cuda: needs nvcc"},
        {OPTION_TEXT, "--graph", "NAME", &options.graph,
         "decode: generates text; train: trains on a text"},
        {OPTION_TEXT, "--out", "DIR", &options.out, "the folder to write"},
        {OPTION_COUNT, "--context", "N", &options.context,
         "tokens that the decode graph can hold (train.context)"},
        {OPTION_LIST, "--set", "KEY=VALUE", &options.sets,
         "an option of the model, as in the file"},
        {.kind = OPTION_END},
    };
    int code = arguments_read(command, table, argc, argv, &options.operand);
    if (code >= 0) return code;
    if (!options.out) return arguments_wrong(command, NULL, "moec emit needs --out");
    if (strcmp(options.target, "c") != 0 && !is_cuda(&options))
        return arguments_wrong(command, "c or cuda", "there is no target '%s'", options.target);
    if (strcmp(options.graph, "decode") != 0 && strcmp(options.graph, "train") != 0)
        return arguments_wrong(command, "decode or train", "there is no graph '%s'", options.graph);
    size_t length = strlen(options.operand);
    bool trained = file_is_folder(options.operand) ||
                   (length > 12 && strcmp(options.operand + length - 12, ".safetensors") == 0);
    Safetensors *file = trained ? checkpoint_open(options.operand) : NULL;
    MoecCompiler *compiler = file ? checkpoint_spec(file, options.sets.items, options.sets.count)
                             : !trained ? spec_open(options.operand, &options.sets)
                                        : NULL;
    bool good = compiler && write_folder(&options, compiler, file);
    moec_close(compiler);
    safetensors_close(file);
    return good ? 0 : EXIT_INPUT;
}
