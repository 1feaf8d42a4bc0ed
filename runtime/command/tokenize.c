/* tokenize: moec tokenize: texts to a file of tokens; moec tokenizer: makes a tokenizer from text.
 */
#include "base/message.h"
#include "abi/quantity.h"
#include "base/files.h"
#include "base/interrupt.h"
#include "base/memory.h"
#include "command/commands.h"
#include "data/data.h"
#include "tokenizer/bpe_train.h"
#include "tokenizer/token_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The files that the arguments mean. */
static bool find_paths(const TextList *texts, Paths *paths) {
    for (int i = 0; i < texts->count; i++)
        if (!paths_add(paths, texts->items[i])) return false;
    return true;
}

typedef struct Options {
    TextList texts;
    const char *tokenizer, *out, *last;
    bool plain;
    long threads, part, width;
    BulkOptions bulk;
} Options;

static bool find_last(const Tokenizer *tokenizer, Options *options) {
    options->bulk.last = -1;
    if (!options->last) return true;
    options->bulk.last = tokenizer_find(tokenizer, options->last, strlen(options->last));
    return options->bulk.last >= 0 ||
           error_message("give a token of the tokenizer", "%s has no token '%s'",
                         options->tokenizer, options->last);
}

static void tell(const Options *options, const BulkResult *found) {
    printf("%s: %" PRIu64 " tokens of %" PRIu64 " document%s, %s of text, %.2f bytes/token\n",
           options->out, found->tokens, found->documents, found->documents == 1 ? "" : "s",
           quantity((double)found->bytes, "B").text,
           (double)found->bytes / (double)(found->tokens ? found->tokens : 1));
    written_message(options->out, "moec train SPEC --data %s --tokenizer %s --out DIR",
                    options->out, options->tokenizer);
    if (found->replaced)
        note_message("%" PRIu64 " invalid UTF-8 sequences were replaced by U+FFFD",
                     found->replaced);
}

static bool tokenize(Options *options) {
    Tokenizer *tokenizer = tokenizer_open(options->tokenizer);
    Paths paths = {0};
    BulkResult found;
    bool good = tokenizer && find_last(tokenizer, options) && find_paths(&options->texts, &paths);
    if (good && options->bulk.width == 2 && tokenizer_size(tokenizer) > 1 << 16)
        good = error_message("leave --width out", "%ld tokens do not fit in 16 bits",
                             tokenizer_size(tokenizer));
    interrupt_watch();
    good = good && bulk_tokenize(tokenizer, (const char *const *)paths.items, paths.count,
                                 &options->bulk, options->out, &found);
    if (good) tell(options, &found);
    paths_free(&paths);
    tokenizer_close(tokenizer);
    return good;
}

int command_tokenize(int argc, char **argv) {
    const Command *command = command_row("tokenize");
    Options options = {0};
    const Option table[] = {
        {OPTION_TEXT, "--tokenizer", "F", &options.tokenizer, "a tokenizer.json"},
        {OPTION_TEXT, "--out", "X.bin", &options.out, "the file of tokens"},
        {OPTION_FLAG, "--lines", NULL, &options.bulk.lines,
         "each line is a document; else each file is one"},
        {OPTION_TEXT, "--field", "NAME", &options.bulk.field,
         "each line is a JSON object, and this field the document"},
        {OPTION_FLAG, "--plain", NULL, &options.plain,
         "without what the tokenizer's template puts around a document"},
        {OPTION_TEXT, "--end", "TOKEN", &options.last, "a token after each document"},
        {OPTION_COUNT, "--width", "BITS", &options.width,
         "16 or 32 for a token; else 16 where they suffice"},
        {OPTION_FLAG, "--resume", NULL, &options.bulk.resume, "go on with what was stopped"},
        {OPTION_COUNT, "--threads", "N", &options.threads, "else all processors"},
        {OPTION_COUNT, "--part", "BYTES", &options.part,
         "of text that one thread takes at a time (default 1 MiB)"},
        {.kind = OPTION_END},
    };
    int code = arguments_read_all(command, table, argc, argv, &options.texts);
    if (code >= 0) return code;
    if (!options.tokenizer || !options.out)
        return arguments_wrong(command, NULL, "moec tokenize needs --tokenizer and --out");
    if (options.width && options.width != 16 && options.width != 32)
        return arguments_wrong(command, NULL, "--width is 16 or 32");
    if (options.threads > 256 || options.part > 1 << 30)
        return arguments_wrong(command, NULL,
                               "--threads is at most 256, --part at most 1073741824");
    options.bulk.special = !options.plain;
    options.bulk.lines = options.bulk.lines || options.bulk.field;
    options.bulk.threads = (int)options.threads;
    options.bulk.part = (size_t)options.part;
    options.bulk.width = (int)options.width / 8;
    if (tokenize(&options)) return 0;
    return interrupt_signal() ? 128 + interrupt_signal() : EXIT_INPUT;
}

static bool train(const TextList *texts, BpeTraining *training, const char *out) {
    Paths paths = {0};
    long tokens = 0;
    bool good = find_paths(texts, &paths);
    training->paths = (const char *const *)paths.items;
    training->path_count = paths.count;
    interrupt_watch();
    char *text = good ? bpe_train(training, &tokens) : NULL;
    good = text && file_write(out, text, strlen(text));
    if (good) {
        printf("%s: %ld tokens\n", out, tokens);
        written_message(out, "moec tokenize --tokenizer %s --out X.bin FILE...", out);
    }
    if (good && tokens < training->vocabulary)
        note_message("the text has no more pairs: %ld tokens instead of %ld", tokens,
                     training->vocabulary);
    free(text);
    paths_free(&paths);
    return good;
}

int command_tokenizer(int argc, char **argv) {
    const Command *command = command_row("tokenizer");
    TextList texts = {0}, special = {0};
    const char *out = NULL;
    BpeTraining training = {0};
    const Option table[] = {
        {OPTION_COUNT, "--vocab", "N", &training.vocabulary, "tokens in all"},
        {OPTION_TEXT, "--out", "F", &out, "the tokenizer.json"},
        {OPTION_LIST, "--special", "TOKEN", &special,
         "a special token, may be given again (default <|endoftext|>)"},
        {OPTION_TEXT, "--pattern", "REGEX", &training.pattern,
         "what splits the text before pairs are counted (default: as GPT-2)"},
        {OPTION_COUNT, "--least", "N", &training.least,
         "how often a pair must occur to become a token (default 0)"},
        {.kind = OPTION_END},
    };
    int code = arguments_read_all(command, table, argc, argv, &texts);
    if (code >= 0) return code;
    if (strcmp(texts.items[0], "train") != 0 || texts.count < 2)
        return arguments_wrong(command, "moec tokenizer train TEXT... --vocab N --out F",
                               "moec tokenizer knows one thing: train");
    if (!special.count) special.items[special.count++] = "<|endoftext|>";
    if (!out || training.vocabulary < 256 + special.count || training.vocabulary > 1 << 24)
        return arguments_wrong(command, "a token for each byte and each special token is needed",
                               "moec tokenizer train needs --out and a --vocab from %d to 16777216",
                               256 + special.count);
    training.special = special.items;
    training.special_count = special.count;
    texts.count--;
    memmove(texts.items, texts.items + 1, sizeof *texts.items * (size_t)texts.count);
    if (train(&texts, &training, out)) return 0;
    return interrupt_signal() ? 128 + interrupt_signal() : EXIT_INPUT;
}
