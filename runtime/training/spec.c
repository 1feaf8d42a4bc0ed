#include "training/spec.h"

#include "base/message.h"
#include "base/files.h"
#include "base/memory.h"
#include "training/checkpoint.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The start of ":MODEL", or NULL. An existing file with a colon in its name has precedence. */
static const char *model_part(const char *operand) {
    const char *colon = strrchr(operand, ':');
    if (!colon || colon == operand || !colon[1] || file_exists(operand)) return NULL;
    for (const char *at = colon + 1; *at; at++)
        if (!isalnum((unsigned char)*at) && *at != '_') return NULL;
    return colon;
}

bool spec_is_run(const char *operand) {
    static const char ending[] = ".safetensors";
    size_t length = strlen(operand), own = sizeof ending - 1;
    return file_is_folder(operand) || (length > own && strcmp(operand + length - own, ending) == 0);
}

/* The spec in a checkpoint; NULL after a message. */
static MoecCompiler *open_run(const char *operand, const TextList *sets) {
    if (file_is_folder(operand) && !checkpoint_within(operand)) {
        error_message("use a spec file, FILE.moe:MODEL, or a run directory of moec train",
                      "%s is a directory without a checkpoint", operand);
        return NULL;
    }
    AUTO(Safetensors) *file = checkpoint_open(operand);
    return file ? checkpoint_spec_quietly(file, sets->items, sets->count) : NULL;
}

/* A new string: the operand without its ":MODEL". */
static char *file_part(const char *operand, const char *colon) {
    return memory_format("%.*s", colon ? (int)(colon - operand) : (int)strlen(operand), operand);
}

MoecCompiler *spec_open_experiment(const char *operand, const TextList *sets, char **file) {
    const char *colon = model_part(operand);
    *file = file_part(operand, colon);
    MoecCompiler *compiler = moec_open_experiment(*file, colon ? colon + 1 : NULL, sets->items,
                                                  sets->count, getenv("MOEC_PATH"));
    externs_trust(compiler);
    return compiler;
}

MoecCompiler *spec_open_quietly(const char *operand, const TextList *sets) {
    if (spec_is_run(operand)) return open_run(operand, sets);
    const char *colon = model_part(operand);
    AUTO_FREE char *file = file_part(operand, colon);
    if (file_is_standard(file) && !file_hold_input()) return NULL;
    MoecCompiler *compiler =
        moec_open(file, colon ? colon + 1 : NULL, sets->items, sets->count, getenv("MOEC_PATH"));
    externs_trust(compiler);
    return compiler;
}

MoecCompiler *spec_open(const char *operand, const TextList *sets) {
    MoecCompiler *compiler = spec_open_quietly(operand, sets);
    if (!compiler || reports_good(compiler)) return compiler;
    moec_close(compiler);
    return NULL;
}

bool spec_may_write(const char *path, bool force) {
    struct stat status;
    bool exists = !file_is_standard(path) && lstat(path, &status) == 0 && S_ISREG(status.st_mode);
    return !exists || force ||
           error_message("add --force to replace it, or choose another path", "%s already exists",
                         path);
}

bool spec_refines(const MoecCompiler *compiler) {
    return moec_refines(compiler) ||
           error_message("train a model with a refine statement, such as those of "
                         "stdlib/diffusion.moe and stdlib/masked_diffusion.moe",
                         "model '%s' refines no input", moec_model(compiler));
}

bool spec_generates(MoecCompiler *compiler) {
    return !moec_refines(compiler) ||
           error_message("use moec sample or moec emit --mode sample; for tokens, moec generate",
                         "model '%s' refines its inputs; it does not generate token by token",
                         moec_model(compiler));
}

bool spec_length_fits(MoecCompiler *compiler, long length) {
    enum { ANY = 32768, TIMES = 8 };
    double context = moec_option_number(compiler, "train.context_length", 256);
    double most = context * TIMES > ANY ? context * TIMES : ANY;
    if ((double)length <= most) return true;
    AUTO_FREE char *help = memory_format("shorten it to %.0f tokens, or set -c %ld", most, length);
    error_message(help, "the prompt has %ld tokens, but the context length of the model is %.0f",
                  length, context);
    return false;
}

/* ---- settings ---- */

static long whole_number(MoecCompiler *compiler, const char *path, long otherwise) {
    return (long)moec_option_number(compiler, path, (double)otherwise);
}

Settings settings_of(MoecCompiler *compiler) {
    Settings settings = {
        .batch = whole_number(compiler, "train.batch_size", 8),
        .context = whole_number(compiler, "train.context_length", 256),
        .accumulate = whole_number(compiler, "train.gradient_accumulation_steps", 1),
        .steps = whole_number(compiler, "train.steps", 1000),
        .seed = whole_number(compiler, "train.seed", 0),
        .evaluate = whole_number(compiler, "train.eval_interval", 0),
        .checkpoint = whole_number(compiler, "train.save_interval", 0),
        .rate = moec_option_number(compiler, "train.lr", 1e-3),
        .clip = moec_option_number(compiler, "train.grad_clip", 0),
        .processes = whole_number(compiler, "train.mesh.data", 0),
        .lanes = whole_number(compiler, "train.reduction_lanes", 0),
        .zero = whole_number(compiler, "train.zero", 1) != 0,
    };
    const char *reduction = moec_option(compiler, "train.reduction");
    settings.fast = reduction && strcmp(reduction, "fast") == 0;
    const char *precision = moec_option(compiler, "train.precision");
    snprintf(settings.precision, sizeof settings.precision, "%s", precision ? precision : "f32");
    if (settings.accumulate < 1) settings.accumulate = 1;
    settings.most_parts = settings.accumulate;
    return settings;
}
