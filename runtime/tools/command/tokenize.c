/* tokenize: moec tokenize and moec tokenizer. */
#include "abi/json_make.h"
#include "base/message.h"
#include "abi/quantity.h"
#include "base/files.h"
#include "tools/command/internal.h"
#include "tools/command/line/commands.h"
#include "training/spec.h"
#include "data/data.h"
#include "tokenizer/tokenizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Adds the files of the arguments. */
static bool collect_paths(const TextList *texts, Paths *paths) {
    for (int i = 0; i < texts->count; i++)
        if (!paths_add(paths, texts->items[i])) return false;
    return true;
}

typedef struct TokenizeOptions {
    TextList texts;
    const char *tokenizer, *out, *last, *width;
    ChatOptions chats;
    bool plain, json;
    long threads, part;
    BulkOptions bulk;
} TokenizeOptions;

static bool find_last(const Tokenizer *tokenizer, TokenizeOptions *options) {
    options->bulk.last = -1;
    if (!options->last) return true;
    options->bulk.last = tokenizer_find(tokenizer, options->last, strlen(options->last));
    return options->bulk.last >= 0 ||
           error_message("use a token of the tokenizer", "%s has no token '%s'", options->tokenizer,
                         options->last);
}

static void report_tokens(const TokenizeOptions *options, const BulkResult *found) {
    const double tokens = (double)(found->tokens ? found->tokens : 1);
    if (options->json)
        json_result_written(options->out,
                            json_make("{s:I, s:I, s:I, s:I}", "tokens", (json_int_t)found->tokens,
                                      "documents", (json_int_t)found->documents, "text_bytes",
                                      (json_int_t)found->bytes, "invalid_utf8",
                                      (json_int_t)found->replaced));
    else
        printf("%s: %" PRIu64 " tokens of %" PRIu64 " document%s, %s of text, %.2f bytes/token\n",
               options->out, found->tokens, found->documents, found->documents == 1 ? "" : "s",
               quantity((double)found->bytes, "B").text, (double)found->bytes / tokens);
    written_message(options->out, "moec train SPEC --data %s --tokenizer %s --out DIR",
                    options->out, options->tokenizer);
    if (found->replaced)
        note_message("%" PRIu64 " invalid UTF-8 sequences were replaced by U+FFFD",
                     found->replaced);
}

static bool tokenize(TokenizeOptions *options) {
    Tokenizer *tokenizer = tokenizer_open(options->tokenizer);
    Paths paths = {0};
    BulkResult found;
    bool good =
        tokenizer && find_last(tokenizer, options) && collect_paths(&options->texts, &paths);
    if (good && options->bulk.width == 2 && tokenizer_size(tokenizer) > 1 << 16)
        good =
            error_message("omit --token-bits", "a vocabulary of %ld tokens does not fit in 16 bits",
                          tokenizer_size(tokenizer));
    interrupt_watch();
    if (good && options->chats.template) {
        options->chats.tokenizer = options->tokenizer;
        options->chats.out = options->out;
        options->chats.json = options->json;
        good = tokenize_chats(&options->chats, tokenizer, &paths);
        paths_free(&paths);
        tokenizer_close(tokenizer);
        return good;
    }
    good = good && bulk_tokenize(tokenizer, (const char *const *)paths.items, paths.count,
                                 &options->bulk, options->out, &found);
    if (good) report_tokens(options, &found);
    paths_free(&paths);
    tokenizer_close(tokenizer);
    return good;
}

int command_tokenize(const Command *command, int argc, char **argv) {
    TokenizeOptions options = {0};
    bool force = false;
    const Option table[] = {
        {OPTION_TEXT, "--tokenizer", "FILE", &options.tokenizer, "tokenizer.json"},
        {OPTION_TEXT, "--out", "FILE", &options.out, "token file to write"},
        {OPTION_FLAG, "--force", NULL, &force, "replacement of an existing file"},
        {OPTION_FLAG, "--json", NULL, &options.json, "result as JSON"},
        {OPTION_FLAG, "--lines", NULL, &options.bulk.lines,
         "one document per line (default: one per file)"},
        {OPTION_TEXT, "--json-field", "NAME", &options.bulk.field,
         "JSON object per line, with the document in this field"},
        {OPTION_TEXT, "--chat-template", "FILE", &options.chats.template,
         "conversations, a JSON object with messages per line, as examples with a weight for each "
         "target (decoder.target_weights): 1 in answers, else 0"},
        {OPTION_COUNT, "--context-length", "N", &options.chats.context,
         "with --chat-template: targets per example, the train.context_length of the model"},
        {OPTION_FLAG, "--no-special-tokens", NULL, &options.plain,
         "documents without the special tokens of the tokenizer's template"},
        {OPTION_TEXT, "--append-token", "TOKEN", &options.last, "token after each document"},
        {OPTION_TEXT, "--token-bits", "16|32", &options.width,
         "bits per token (default: 16 if the vocabulary fits)"},
        {OPTION_FLAG, "--resume", NULL, &options.bulk.resume,
         "continuation of an interrupted conversion"},
        {OPTION_COUNT, "--threads", "N", &options.threads,
         "number of threads (default: all processors)"},
        {OPTION_COUNT, "--chunk-size", "BYTES", &options.part,
         "text per thread and chunk in bytes (default 1 MiB)"},
    };
    int code = arguments_read_all(command, OPTIONS(table), argc, argv, &options.texts);
    if (code >= 0) return code;
    if (!options.tokenizer || !options.out)
        return arguments_wrong(command, NULL, "moec tokenize requires --tokenizer and --out");
    if (file_is_standard(options.out))
        return arguments_wrong(command, "use a file",
                               "moec tokenize cannot write stdout: the header has the final count");
    if (!options.chats.template != !options.chats.context)
        return arguments_wrong(command, "add both, or neither",
                               "--chat-template and --context-length N belong together");
    if (options.threads > 256 || options.part > 1 << 30)
        return arguments_wrong(command, "omit them: the defaults fit all processors",
                               "--threads must be at most 256, --chunk-size at most 1073741824");
    if (!options.bulk.resume && !spec_may_write(options.out, force)) return EXIT_INPUT;
    options.bulk.special = !options.plain;
    options.bulk.lines = options.bulk.lines || options.bulk.field;
    options.bulk.threads = (int)options.threads;
    options.bulk.part = (size_t)options.part;
    options.bulk.width = options.width ? atoi(options.width) / 8 : 0;
    if (tokenize(&options)) return 0;
    return interrupt_signal() ? 128 + interrupt_signal() : EXIT_INPUT;
}

static bool train_tokenizer(const TextList *texts, BpeTraining *training, const char *out,
                            bool json) {
    AUTO(Paths) paths = {0};
    long tokens = 0;
    bool good = collect_paths(texts, &paths);
    training->paths = (const char *const *)paths.items;
    training->path_count = paths.count;
    interrupt_watch();
    AUTO_FREE char *text = good ? bpe_train(training, &tokens) : NULL;
    good = text && file_write(out, text, strlen(text));
    FILE *file = file_is_standard(out) ? stderr : stdout;
    if (good && json)
        json_result_written(out, json_make("{s:I}", "tokens", (json_int_t)tokens));
    else if (good)
        fprintf(file, "%s: %ld tokens\n", out, tokens);
    if (good) written_message(out, "moec tokenize --tokenizer %s --out X.bin FILE...", out);
    if (good && tokens < training->vocabulary)
        note_message("the text has no further pairs: the vocabulary has %ld tokens instead of %ld",
                     tokens, training->vocabulary);
    return good;
}

int command_tokenizer(const Command *command, int argc, char **argv) {
    TextList texts = {0}, special = {0};
    const char *out = NULL;
    bool json = false;
    BpeTraining training = {0};
    const Option table[] = {
        {OPTION_COUNT, "--vocab-size", "N", &training.vocabulary, "vocabulary size in tokens"},
        {OPTION_TEXT, "--out", "FILE", &out, "tokenizer.json to write, - for stdout"},
        {OPTION_LIST, "--special-token", "TOKEN", &special,
         "special token; repeatable (default <|endoftext|>)"},
        {OPTION_TEXT, "--pattern", "REGEX", &training.pattern,
         "regular expression that splits the text before merging (default: of GPT-2)"},
        {OPTION_COUNT, "--min-frequency", "N", &training.least,
         "minimum frequency of a merged pair (default 0)"},
        {OPTION_FLAG, "--json", NULL, &json, "result as JSON"},
    };
    int code = arguments_read_all(command, OPTIONS(table), argc, argv, &texts);
    if (code >= 0) return code;
    if (strcmp(texts.items[0], "train") != 0 || texts.count < 2)
        return arguments_wrong(command, NULL, "moec tokenizer requires the word train and a text");
    if (!special.count) special.items[special.count++] = "<|endoftext|>";
    if ((code = json_result_check(command, json, out)) >= 0) return code;
    if (!out || training.vocabulary < 256 + special.count || training.vocabulary > 1 << 24)
        return arguments_wrong(
            command, "each byte and each special token is a token",
            "moec tokenizer requires --out and a --vocab-size from %d to 16777216",
            256 + special.count);
    training.special = special.items;
    training.special_count = special.count;
    texts.count--;
    memmove(texts.items, texts.items + 1, sizeof *texts.items * (size_t)texts.count);
    if (train_tokenizer(&texts, &training, out, json)) return 0;
    return interrupt_signal() ? 128 + interrupt_signal() : EXIT_INPUT;
}
