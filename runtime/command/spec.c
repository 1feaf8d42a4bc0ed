#include "command/spec.h"

#include "base/message.h"
#include "base/files.h"
#include "base/memory.h"
#include "training/checkpoint.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The start of ":MODEL", or NULL. A file whose name has a colon is meant when it is there. */
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

/* The spec that a checkpoint holds; NULL after a message. */
static MoecCompiler *open_run(const char *operand, const TextList *sets) {
    if (file_is_folder(operand) && !checkpoint_within(operand)) {
        error_message(
            "give the file of the spec, and :MODEL where it has several, or a folder that "
            "moec train has filled",
            "%s is a folder, not a spec", operand);
        return NULL;
    }
    Safetensors *file = checkpoint_open(operand);
    MoecCompiler *compiler = file ? checkpoint_spec_quietly(file, sets->items, sets->count) : NULL;
    safetensors_close(file);
    return compiler;
}

/* A new string: the operand without its ":MODEL". */
static char *file_part(const char *operand, const char *colon) {
    return memory_format("%.*s", colon ? (int)(colon - operand) : (int)strlen(operand), operand);
}

MoecCompiler *spec_open_experiment(const char *operand, const TextList *sets, char **file) {
    const char *colon = model_part(operand);
    *file = file_part(operand, colon);
    return moec_open_experiment(*file, colon ? colon + 1 : NULL, sets->items, sets->count,
                                getenv("MOEC_PATH"));
}

MoecCompiler *spec_open_quietly(const char *operand, const TextList *sets) {
    if (spec_is_run(operand)) return open_run(operand, sets);
    const char *colon = model_part(operand);
    char *file = file_part(operand, colon);
    MoecCompiler *compiler =
        moec_open(file, colon ? colon + 1 : NULL, sets->items, sets->count, getenv("MOEC_PATH"));
    free(file);
    return compiler;
}

MoecCompiler *spec_open(const char *operand, const TextList *sets) {
    MoecCompiler *compiler = spec_open_quietly(operand, sets);
    if (!compiler || reports_good(compiler)) return compiler;
    moec_close(compiler);
    return NULL;
}

bool spec_draws(MoecCompiler *compiler) {
    return moec_option(compiler, "draws") ||
           error_message("train a model of stdlib/diffusion.moe",
                         "model '%s' draws nothing: it has no option 'draws'",
                         moec_model(compiler));
}

bool spec_generates(MoecCompiler *compiler) {
    return !moec_option(compiler, "draws") ||
           error_message(
               "moec draw draws with it; moec emit --graph draw writes a program that does",
               "model '%s' makes examples out of noise, it generates no text",
               moec_model(compiler));
}

bool spec_length_fits(MoecCompiler *compiler, long length) {
    enum { ANY = 32768, TIMES = 8 };
    double context = moec_option_number(compiler, "train.context_length", 256);
    double most = context * TIMES > ANY ? context * TIMES : ANY;
    if ((double)length <= most) return true;
    char *help = memory_format(
        "shorten it to %.0f tokens, or allow it with --set train.context_length=%ld", most, length);
    error_message(help,
                  "the prompt has %ld tokens, and the model was trained on texts of %.0f "
                  "(train.context_length)",
                  length, context);
    free(help);
    return false;
}
