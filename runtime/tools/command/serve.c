/* serve: moec serve: completions and chats of a trained model over HTTP. */
#include "abi/quantity.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/message.h"
#include "tools/command/internal.h"
#include "tools/command/line/commands.h"
#include "training/spec.h"
#include "tools/server/request.h"
#include "tools/server/http.h"
#include "training/checkpoint.h"
#include "model/generate/speculate.h"

#include <stdlib.h>
#include <string.h>

typedef struct ServeOptions {
    const char *operand, *tokenizer, *chat_template, *device, *host, *name, *draft;
    long port, context, batch, cache, queue, connections, body, proposals;
    double timeout, patience;
    TextList sets;
} ServeOptions;

typedef struct Serving {
    const ServeOptions *options;
    Safetensors *file;
    Tokenizer *tokenizer;
    Template *template;
    Device *device;
    Model *model;
    Draft draft;
    Service service;
} Serving;

static bool open_served_tokenizer(Serving *serving) {
    const char *path = serving->options->tokenizer;
    bool good = true;
    if (path) {
        serving->tokenizer = tokenizer_open(path);
        good = serving->tokenizer != NULL;
    } else {
        good = checkpoint_tokenizer(serving->file, &serving->tokenizer);
    }
    serving->service.tokenizer = serving->tokenizer;
    serving->service.writing = serving->tokenizer ? WRITING_TEXT : WRITING_BYTES;
    return good;
}

/* Opens the template of the imported model directory. After an invalid one, only chats are
 * refused. */
static bool kept_template(Serving *serving) {
    bool wrong;
    serving->template = template_of_folder(
        serving->file->path, checkpoint_file(serving->file, "chat_template.jinja"),
        checkpoint_file(serving->file, "tokenizer_config.json"), &wrong);
    if (wrong)
        note_message("chat requests are refused; --chat-template FILE sets another template");
    serving->service.template = serving->template;
    return true;
}

static bool open_template(Serving *serving) {
    const char *path = serving->options->chat_template;
    Mapping mapping;
    if (!path) return kept_template(serving);
    if (!file_map(path, "use a chat template (Jinja), or tokenizer_config.json", &mapping))
        return false;
    serving->template = template_open(path, (const char *)mapping.bytes, mapping.length);
    file_unmap(&mapping);
    serving->service.template = serving->template;
    return serving->template != NULL;
}

static size_t model_caches(const Model *model) {
    return model->table->graphs[0].cache_bytes;
}

/* The running sequences and the draft have their caches; prefixes use the rest, by default as much
 * again. */
static bool limit_caches(Serving *serving) {
    const ServeOptions *options = serving->options;
    const Decoder *draft = serving->draft.decoder;
    const size_t drafts = draft ? model_caches(draft->model) : 0,
                 needed = model_caches(serving->model) * (size_t)options->batch + drafts;
    const size_t cache = options->cache < 0 ? 2 * needed : (size_t)options->cache;
    serving->service.prefix_cache = cache - needed;
    return needed <= cache ||
           error_message("raise it, or reduce --parallel or --context-length",
                         "--cache-memory is %s, but the caches of %ld sequences of %ld tokens%s "
                         "need %s",
                         quantity((double)cache, "B").text, options->batch,
                         serving->service.context, draft ? " and of the draft" : "",
                         quantity((double)needed, "B").text);
}

static bool open_model(Serving *serving) {
    const ServeOptions *options = serving->options;
    const TextList *sets = &options->sets;
    MoecCompiler *compiler = checkpoint_spec(serving->file, sets->items, sets->count);
    long context = options->context;
    if (compiler && !context)
        context = (long)moec_option_number(compiler, "train.context_length", 256);
    bool talks = compiler && spec_generates(compiler) && draft_prepare(options->draft, compiler);
    serving->device = talks ? device_open(options->device) : NULL;
    if (serving->device) serving->model = decoder_model(serving->device, compiler, 1, context);
    moec_close(compiler);
    serving->service.context = context;
    const bool good =
        serving->model &&
        draft_open(&serving->draft, options->draft, sets, serving->model, serving->file, context) &&
        limit_caches(serving) && model_read(serving->model, serving->file, false);
    serving->service.draft = serving->draft.decoder;
    serving->service.proposals = options->draft ? (int)options->proposals : 0;
    if (good) model_release_weights(serving->model);
    return good;
}

/* Without a tokenizer, only models of bytes accept text. */
static bool check_served_vocabulary(const Serving *serving) {
    const MoecTensor *input = serving->model->table->graphs[0].inputs;
    long vocabulary = 0;
    for (int i = 0; i < serving->model->table->graphs[0].input_count; i++)
        if (input[i].input == MOEC_INPUT_TOKEN) vocabulary = input[i].vocabulary;
    if (serving->tokenizer) return texts_fit(serving->tokenizer, vocabulary);
    return vocabulary <= 256 ||
           error_message("add --tokenizer FILE",
                         "the model has a vocabulary of %ld tokens, but the checkpoint has no "
                         "tokenizer",
                         vocabulary);
}

/* The last part of the path of a run, without the name of a checkpoint. */
static char *served_name(const char *operand) {
    size_t end = strlen(operand);
    while (end > 1 && operand[end - 1] == '/') end--;
    size_t start = end;
    while (start && operand[start - 1] != '/') start--;
    const char *suffix = ".safetensors";
    size_t length = end - start, extra = strlen(suffix);
    if (length > extra && strncmp(operand + end - extra, suffix, extra) == 0) length -= extra;
    return memory_format("%.*s", (int)length, operand + start);
}

static bool serve(const ServeOptions *options) {
    Serving serving = {.options = options};
    Service *service = &serving.service;
    char *name = options->name ? memory_format("%s", options->name) : served_name(options->operand);
    const char *key = getenv("MOEC_API_KEY");
    service->name = name;
    service->rows = options->batch;
    service->queue = options->queue;
    service->connections = options->connections;
    service->body = (size_t)options->body;
    service->timeout = options->timeout;
    service->patience = options->patience;
    service->host = options->host;
    service->key = key && *key ? key : NULL;
    serving.file = checkpoint_open(options->operand);
    bool good = serving.file && open_served_tokenizer(&serving) && open_template(&serving) &&
                open_model(&serving) && check_served_vocabulary(&serving);
    if (good) {
        AUTO_FREE char *line = memory_format("  %s, context length %ld, %ld concurrent sequences",
                                             name, service->context, service->rows);
        good = http_serve(service, serving.model, options->port, line);
    }
    draft_close(&serving.draft);
    model_close(serving.model);
    device_close(serving.device);
    template_free(serving.template);
    tokenizer_close(serving.tokenizer);
    safetensors_close(serving.file);
    free(name);
    return good;
}

static int check_service(const Command *command, const ServeOptions *options) {
    const char *key = getenv("MOEC_API_KEY");
    if (options->port > 65535)
        return arguments_wrong(command, "for example --port 8000",
                               "--port must be from 0 to 65535");
    if (!options->batch || options->batch > 1024)
        return arguments_wrong(command, "for example --parallel 8",
                               "--parallel must be from 1 to 1024");
    if (!options->connections || !options->queue || !options->body || options->timeout <= 0 ||
        options->patience <= 0)
        return arguments_wrong(command, "omit them: moec serve --help lists the defaults",
                               "--max-connections, --max-queue, --max-body-size, --timeout and "
                               "--client-timeout must be above 0");
    if (!admission_is_loopback(options->host) && !(key && *key)) {
        error_message("set MOEC_API_KEY to a key for clients, or omit --host",
                      "--host %s accepts remote connections, which requires an API key",
                      options->host);
        return EXIT_INPUT;
    }
    return draft_check(command, options->proposals);
}

int command_serve(const Command *command, int argc, char **argv) {
    ServeOptions options = {.device = "cpu",
                            .host = "127.0.0.1",
                            .port = 8000,
                            .batch = 8,
                            .cache = -1,
                            .proposals = SPECULATE_DEFAULT,
                            .queue = 512,
                            .connections = 512,
                            .body = 4 << 20,
                            .timeout = 600,
                            .patience = 30};
    const Option table[] = {
        {OPTION_TEXT, "--host", "ADDRESS", &options.host,
         "address to listen on (default 127.0.0.1); remote clients require MOEC_API_KEY"},
        {OPTION_COUNT, "--port", "N", &options.port,
         "port (default 8000); 0 = any free port, which is printed"},
        {OPTION_TEXT, "--alias", "NAME", &options.name,
         "model name in the API (default: name of the run)"},
        {OPTION_TEXT, "--tokenizer", "FILE", &options.tokenizer,
         "tokenizer.json (default: of the checkpoint, else tokens are bytes)"},
        {OPTION_TEXT, "--chat-template", "FILE", &options.chat_template,
         "chat template (Jinja), or tokenizer_config.json with one"},
        {OPTION_COUNT, "--context-length", "N", &options.context,
         "positions per sequence, prompt included (default train.context_length)"},
        {OPTION_COUNT, "--parallel", "N", &options.batch,
         "maximum number of concurrent sequences (default 8)"},
        {OPTION_COUNT, "--cache-memory", "BYTES", &options.cache,
         "maximum memory of caches in bytes: those of the concurrent sequences and of a draft, "
         "then saved prompts (default: twice the former)"},
        {OPTION_COUNT, "--max-queue", "N", &options.queue,
         "maximum number of waiting sequences; further requests are refused (default 512)"},
        {OPTION_COUNT, "--max-connections", "N", &options.connections,
         "maximum number of open connections (default 512)"},
        {OPTION_COUNT, "--max-body-size", "BYTES", &options.body,
         "maximum size of a request in bytes (default 4 MiB)"},
        {OPTION_NUMBER, "--timeout", "S", &options.timeout,
         "time limit of an answer in seconds (default 600)"},
        {OPTION_NUMBER, "--client-timeout", "S", &options.patience,
         "client I/O timeout in seconds (default 30)"},
        DRAFT_OPTION(&options.draft),
        DRAFT_TOKENS_OPTION(&options.proposals),
        DEVICE_OPTION(&options.device),
        SET_OPTION(&options.sets),
    };
    int code = arguments_read(command, OPTIONS(table), argc, argv, &options.operand);
    if (code < 0) code = check_service(command, &options);
    if (code >= 0) return code;
    return serve(&options) ? 0 : EXIT_INPUT;
}
