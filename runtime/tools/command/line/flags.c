#include "tools/command/line/arguments.h"

#include <stddef.h>
#include <string.h>

static const struct {
    char letter;
    const char *name;
} letters[] = {
    {'b', "--batch-size"}, {'c', "--context-length"}, {'d', "--data"},
    {'h', "--help"},       {'n', "--max-tokens"},     {'o', "--out"},
    {'p', "--prompt"},     {'q', "--quiet"},          {'s', "--seed"},
    {'t', "--threads"},    {'v', "--verbose"},
};

static FlagSetting settings[] = {
    {SET_BATCH, OPTION_COUNT, "train.batch_size", "--batch-size", "N", "sequences per micro-batch",
     NULL},
    {SET_CONTEXT, OPTION_COUNT, "train.context_length", "--context-length", "N",
     "positions per sequence", NULL},
    {SET_TRAINING, OPTION_NUMBER, "train.lr", "--lr", "X", "peak learning rate", NULL},
    {SET_TRAINING, OPTION_COUNT, "train.steps", "--steps", "N", "optimizer steps", NULL},
    {SET_PRECISION, OPTION_TEXT, "train.precision", "--precision",
     "f32|bf16|fp8|fp8_tensor|mxfp8|mxfp4|nvfp4|ternary", "operand type of matrix products", NULL},
    {SET_STORAGE, OPTION_TEXT, "inference.weight_dtype", "--weight-dtype",
     "f32|bf16|int8|fp8|mxfp8|int4|mxfp4|nvfp4|ternary", "weight type of evaluation and decoding",
     NULL},
    {SET_STORAGE, OPTION_TEXT, "inference.head_dtype", "--head-dtype",
     "f32|bf16|int8|fp8|mxfp8|int4|mxfp4|nvfp4|ternary",
     "weight type of the output matrix (default: --weight-dtype)", NULL},
    {SET_STORAGE, OPTION_TEXT, "inference.kv_cache_dtype", "--kv-cache-dtype", "f32|bf16|int8",
     "KV-cache type of decoding", NULL},
};

static const RenamedFlag renamed[] = {
    {"serve", "--batch", "--parallel", NULL},
    {"serve", "--queue", "--max-queue", NULL},
    {"serve", "--connections", "--max-connections", NULL},
    {"serve", "--body", "--max-body-size", NULL},
    {"serve", "--patience", "--client-timeout", NULL},
    {"serve", "--name", "--alias", NULL},
    {"train", "--from", "--init-from", NULL},
    {"train", "--missing", "--init-missing", "init"},
    {"train", "--until", "--stop-after", NULL},
    {"forward", "--tokens", "--input", NULL},
    {"forward", "--want", "--outputs", NULL},
    {"generate", "--tokens", "--max-tokens", NULL},
    {"generate", "--samples", "--num-samples", NULL},
    {"generate", "--repetition", "--repeat-penalty", NULL},
    {"generate", "--numbers", "--token-ids", NULL},
    {"generate", "--speed", "--perf", NULL},
    {"tokenize", "--field", "--json-field", NULL},
    {"tokenize", "--plain", "--no-special-tokens", NULL},
    {"tokenize", "--end", "--append-token", NULL},
    {"tokenize", "--width", "--token-bits", NULL},
    {"tokenize", "--part", "--chunk-size", NULL},
    {"tokenizer", "--vocab", "--vocab-size", NULL},
    {"tokenizer", "--least", "--min-frequency", NULL},
    {"tokenizer", "--special", "--special-token", NULL},
    {"eval", "--choices", "--multiple-choice", NULL},
    {"eval", "--decoding", "--incremental", NULL},
    {"coordcheck", "--over", "--vary", NULL},
    {"coordcheck", "--within", "--max-ratio", NULL},
    {"coordcheck", "--draws", "--num-seeds", NULL},
    {"explain", "--gflops", "--peak-gflops", NULL},
    {"explain", "--gbytes", "--peak-gbytes", NULL},
    {"bench", "--prefix", "--prefix-length", NULL},
    {"export", "--as", "--format", NULL},
    {NULL, "--base", "--baseline", NULL},
    {NULL, "--batch", "--batch-size", NULL},
    {NULL, "--context", "--context-length", NULL},
    {NULL, "--graph", "--mode", NULL},
    {NULL, "--val", "--val-data", NULL},
};

static const struct {
    const char *flag, *old, *value;
} renamed_values[] = {
    {"--mode", "measure", "eval"},
    {"--mode", "draw", "sample"},
    {"--device", "eval", "reference"},
};

static const struct {
    const char *theirs, *ours;
} others[] = {
    {"--ctx-size", "--context-length"},
    {"--max-seq-len", "--context-length"},
    {"--block-size", "--context-length"},
    {"--n-predict", "--max-tokens"},
    {"--max-new-tokens", "--max-tokens"},
    {"--num-tokens", "--max-tokens"},
    {"--temp", "--temperature"},
    {"--gpu", "--device cuda"},
    {"--cuda", "--device cuda"},
    {"--output", "--out"},
    {"--output-dir", "--out"},
    {"--learning-rate", "--lr"},
    {"--max-steps", "--steps"},
    {"--epochs", "--steps"},
    {"--batch-size", "--num-samples"},
    {"-b", "--num-samples"},
    {"--num-threads", "--threads"},
    {"--repetition-penalty", "--repeat-penalty"},
};

#define COUNT(table) (sizeof(table) / sizeof(table)[0])

char flag_letter(const char *name) {
    for (size_t i = 0; i < COUNT(letters); i++)
        if (strcmp(letters[i].name, name) == 0) return letters[i].letter;
    return 0;
}

FlagSetting *flag_settings(int *count) {
    *count = (int)COUNT(settings);
    return settings;
}

const char *flag_path(const char *name) {
    for (size_t i = 0; i < COUNT(settings); i++)
        if (strcmp(settings[i].name, name) == 0) return settings[i].path;
    return NULL;
}

const RenamedFlag *flag_renamed(const char *command, const char *old) {
    for (size_t i = 0; i < COUNT(renamed); i++)
        if ((!renamed[i].command || !strcmp(renamed[i].command, command)) &&
            !strcmp(renamed[i].old, old))
            return &renamed[i];
    return NULL;
}

const RenamedFlag *flags_renamed(int *count) {
    *count = (int)COUNT(renamed);
    return renamed;
}

const char *flag_renamed_value(const char *name, const char *value) {
    for (size_t i = 0; i < COUNT(renamed_values); i++)
        if (!strcmp(renamed_values[i].flag, name) && !strcmp(renamed_values[i].old, value))
            return renamed_values[i].value;
    return NULL;
}

const char *flag_of_others(const char *name) {
    for (size_t i = 0; i < COUNT(others); i++)
        if (strcmp(others[i].theirs, name) == 0) return others[i].ours;
    return NULL;
}
