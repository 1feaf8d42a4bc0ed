#include "training/settings.h"

static long whole(MoecCompiler *compiler, const char *path, long otherwise) {
    return (long)moec_option_number(compiler, path, (double)otherwise);
}

Settings settings_of(MoecCompiler *compiler) {
    Settings settings = {
        .batch = whole(compiler, "train.batch_size", 8),
        .context = whole(compiler, "train.context_length", 256),
        .accumulate = whole(compiler, "train.gradient_accumulation_steps", 1),
        .steps = whole(compiler, "train.steps", 1000),
        .seed = whole(compiler, "train.seed", 0),
        .evaluate = whole(compiler, "train.eval_interval", 0),
        .checkpoint = whole(compiler, "train.save_interval", 0),
        .rate = moec_option_number(compiler, "train.lr", 1e-3),
        .clip = moec_option_number(compiler, "train.grad_clip", 0),
    };
    if (settings.accumulate < 1) settings.accumulate = 1;
    return settings;
}
