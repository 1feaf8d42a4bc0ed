/* generate: moec generate: generates text with the decode graph of a trained model, or with its
 * refinement if it refines tokens (stdlib/masked_diffusion.moe). */
#include "abi/json_make.h"
#include "training/checkpoint.h"
#include "tools/command/line/commands.h"
#include "base/message.h"
#include "abi/refined_inputs.h"
#include "model/decoder.h"
#include "base/memory.h"
#include "tools/command/internal.h"
#include "model/generate/sample.h"
#include "model/generate/speculate.h"
#include "tools/server/request.h"
#include "base/clock.h"
#include "training/spec.h"
#include "model/call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_TEMPERATURE 0.8
enum { DEFAULT_TOKENS = 256, DEFAULT_REFINEMENTS = 64 };

typedef struct GenerateOptions {
    const char *operand, *prompt, *prompts, *tokenizer, *device, *draft;
    long tokens, samples, seed, proposals; /* tokens: -1: not set */
    long steps;                            /* refinements; 0: not set */
    bool speed, numbers, json, chat, ignore_eos;
    TextList stops, sets;
    Sampling sampling;
} GenerateOptions;

typedef struct Generation {
    const GenerateOptions *options;
    Safetensors *file;
    Tokenizer *tokenizer; /* NULL: tokens are bytes, or numbers */
    Writing writing;
    PromptList prompts;
    Device *device;
    Decoder *decoder;       /* NULL: the model refines its tokens */
    MoecCompiler *refining; /* the spec of such a model, else NULL */
    Call *refinement;       /* the program for texts of one length; NULL: none so far */
    Draft draft;
    Together *together;
    Speculation *speculation; /* NULL: without a draft */
    Speech *speech;
    uint64_t seed; /* of this text */
    size_t prompt; /* its tokens */
    float *logits; /* changed by penalties */
    long made;     /* tokens of all texts */
    double seconds;
} Generation;

static long generated_limit(const GenerateOptions *options) {
    return options->tokens < 0 ? DEFAULT_TOKENS : options->tokens;
}

/* Without a tokenizer, only models of bytes accept text. */
static bool check_vocabulary(const Generation *generation, long vocabulary) {
    if (generation->tokenizer && generation->writing == WRITING_TEXT &&
        !texts_fit(generation->tokenizer, vocabulary))
        return false;
    if (generation->writing == WRITING_BYTES && vocabulary > 256)
        return error_message(
            "add --tokenizer FILE, or --token-ids and a prompt of token ids",
            "the model has a vocabulary of %ld tokens, but the checkpoint has no tokenizer",
            vocabulary);
    return prompts_fit(&generation->prompts, generation->writing, vocabulary);
}

static bool choose_next(void *data, const float *logits, const TokenList *text, int32_t *token) {
    Generation *generation = data;
    long vocabulary = decoder_vocabulary(generation->decoder);
    Sampling sampling = generation->options->sampling;
    sampling.seed = generation->seed;
    if (!sample_possible(logits, vocabulary)) return false;
    const Said said = {text->items, text->count, generation->prompt};
    logits = sample_adjust(&sampling, logits, generation->logits, vocabulary, &said);
    *token = sample_token(&sampling, logits, vocabulary, text->count - generation->prompt);
    return true;
}

/* The logits after the text, whose last token is new; first: none of it has been processed. */
static const float *next_logits(Generation *generation, const TokenList *text, bool first,
                                long wanted) {
    if (generation->speculation) return speculation_next(generation->speculation, text, wanted);
    const size_t fresh = first ? text->count : 1;
    return decoder_feed(generation->decoder, text->items + text->count - fresh, (long)fresh);
}

/* Processes the new tokens and selects the next one; -1: a logit is not finite. The arguments are
 * those of next_logits. False after a device error. */
static bool sample_next(Generation *generation, const TokenList *text, bool first, long wanted,
                        int32_t *next) {
    Decoder *decoder = generation->decoder;
    const size_t fresh = first ? text->count : 1;
    if (!generation->speculation && decoder_finds_likely(decoder) &&
        sample_is_greedy(&generation->options->sampling))
        return decoder_feed_likely(decoder, text->items + text->count - fresh, (long)fresh, next);
    const float *logits = next_logits(generation, text, first, wanted);
    if (!logits) return false;
    if (!choose_next(generation, logits, text, next)) *next = -1;
    return true;
}

/* ---- models that refine their tokens ---- */

/* The tokens that the model can write: those of the data, without a mask token. */
static long data_vocabulary(MoecCompiler *compiler) {
    const GraphShape shape = {.graph = MOEC_FORWARD, .batch = 1};
    AUTO(Model) *model = model_describe(compiler, &shape);
    const MoecGraphEntry *graph = model ? &model->table->graphs[0] : NULL;
    long vocabulary = 0;
    for (int i = 0; graph && i < graph->input_count; i++)
        if (graph->inputs[i].input == MOEC_INPUT_TOKEN) vocabulary = graph->inputs[i].vocabulary;
    return vocabulary;
}

static void close_refinement(Generation *generation) {
    Model *model = generation->refinement ? generation->refinement->model : NULL;
    call_close(generation->refinement);
    model_close(model);
    generation->refinement = NULL;
}

/* The slot of the refined tokens; -1 after a message. */
static int refined_tokens(const MoecGraphEntry *graph) {
    const int slot = graph->output_count == 1 ? refined_input(graph, 0) : -1;
    if (slot >= 0 && graph->inputs[slot].is_int && graph->inputs[slot].rank == 2) return slot;
    error_message("use moec sample", "the model does not refine one sequence of tokens");
    return -1;
}

/* Whether the program reads the temperature, or it has not been set. */
static bool reads_temperature(const Generation *generation) {
    const Sampling *sampling = &generation->options->sampling;
    return sampling->temperature == DEFAULT_TEMPERATURE ||
           call_has_scalar(generation->refinement, MOEC_SCALAR_TEMPERATURE) ||
           error_message("omit it", "the refinement of the model does not read 'temperature', so "
                                    "--temperature has no effect");
}

/* Opens the program for texts of `length` tokens, unless it is open. False after a message. */
static bool open_refinement(Generation *generation, long length) {
    const Call *open = generation->refinement;
    if (open && open->graph->context == length) return true;
    close_refinement(generation);
    Model *model =
        refining_model(generation->device, generation->refining, generation->file, 1, length);
    generation->refinement = model ? call_open(model, &model->table->graphs[0], NULL) : NULL;
    if (model && !generation->refinement) model_close(model);
    return generation->refinement && reads_temperature(generation);
}

/* Sets the prompt, whose positions are given, and refines the others. NULL after a message. */
static const int32_t *refine_text(Generation *generation, const TokenList *prompt, long length) {
    const GenerateOptions *options = generation->options;
    if (!open_refinement(generation, length)) return NULL;
    Call *call = generation->refinement;
    const int slot = refined_tokens(call->graph);
    if (slot < 0) return NULL;
    int32_t *tokens = call->inputs[slot];
    memset(tokens, 0, sizeof *tokens * (size_t)length);
    memcpy(tokens, prompt->items, sizeof *tokens * prompt->count);
    for (int i = 0; i < call->graph->input_count; i++) {
        float *given = call->inputs[i];
        const bool is_mask = strchr(call->graph->inputs[i].name, '.'); /* "tokens.given" */
        for (long s = 0; is_mask && s < length; s++) given[s] = s < (long)prompt->count;
    }
    const Refinement refinement = {.steps = options->steps ? options->steps : DEFAULT_REFINEMENTS,
                                   .seed = generation->seed,
                                   .temperature = options->sampling.temperature};
    return refine_call(call, &refinement) ? tokens : NULL;
}

/* Tokens of a text with this prompt; 0 after a message. */
static long refined_length(const Generation *generation, size_t prompt) {
    const long most = (long)moec_option_number(generation->refining, "train.context_length", 256),
               asked = generation->options->tokens,
               length = asked < 0 ? most : (long)prompt + asked;
    if (length <= most && (long)prompt < length) return length;
    error_message(
        "shorten the prompt or lower -n: the model refines a text of train.context_length",
        "a prompt of %zu tokens and %ld further ones do not fit into %ld positions", prompt,
        asked < 0 ? 1 : asked, most);
    return 0;
}

/* Whether the options apply to a model that refines; false after a message. */
static bool refining_options_fit(const GenerateOptions *options) {
    const Sampling *sampling = &options->sampling;
    const char *flag = options->draft              ? "--draft"
                       : sampling->top_k           ? "--top-k"
                       : sampling->top_p != 1      ? "--top-p"
                       : sampling->min_p > 0       ? "--min-p"
                       : sampling->repetition != 1 ? "--repeat-penalty"
                                                   : NULL;
    return !flag || error_message("omit it: the spec defines how a refinement draws tokens",
                                  "%s is not available for a model that refines", flag);
}

static bool open_refining(Generation *generation, MoecCompiler *compiler) {
    generation->refining = compiler;
    if (!refining_options_fit(generation->options)) return false;
    for (int i = 0; i < generation->prompts.count; i++)
        if (!refined_length(generation, generation->prompts.items[i].tokens.count)) return false;
    generation->device = device_open(generation->options->device);
    return generation->device && check_vocabulary(generation, data_vocabulary(compiler));
}

/* Prints the text so far, unless it becomes part of a JSON object. */
static void show(const Generation *generation, Text *text) {
    if (generation->options->json) return;
    fwrite(text->bytes ? text->bytes : "", 1, text->length, stdout);
    text->length = 0;
    if (isatty(1)) fflush(stdout);
}

/* Generates one completion. text: the tokens so far. */
static bool generate_completion(Generation *generation, TokenList *text, Text *out, long *made,
                                SpeechEnd *end) {
    const GenerateOptions *options = generation->options;
    int32_t token = -1;
    const long most = generated_limit(options);
    bool good = sample_next(generation, text, true, most, &token);
    double began = seconds_now();
    for (*made = 0; *made < most && !*end && !interrupt_signal() && !ferror(stdout);) {
        if (!good) return false;
        if (token < 0) return model_tell_nonsense(generation->decoder->model, "a logit is");
        tokens_add(text, token);
        if (!speech_add(generation->speech, token, out, end)) return false;
        show(generation, out);
        if (*end == SPEECH_COMPLETE) break;
        if (++*made < most && !*end)
            good = sample_next(generation, text, false, most - *made, &token);
    }
    generation->seconds += seconds_now() - began;
    generation->made += *made;
    bool ended = *end || speech_end(generation->speech, out);
    show(generation, out);
    return good && ended;
}

/* The same by refinements of all positions, up to the first end. */
static bool refine_completion(Generation *generation, const TokenList *prompt, Text *out,
                              long *made, SpeechEnd *end) {
    const long length = refined_length(generation, prompt->count);
    double began = seconds_now();
    const int32_t *tokens = refine_text(generation, prompt, length);
    if (!tokens) return false;
    generation->seconds += seconds_now() - began;
    for (long i = (long)prompt->count; i < length && !*end; i++) {
        if (!speech_add(generation->speech, tokens[i], out, end)) return false;
        *made += *end != SPEECH_COMPLETE;
    }
    generation->made += *made;
    const bool ended = *end || speech_end(generation->speech, out);
    show(generation, out);
    return ended;
}

static void print_object(const Prompt *prompt, long sample, const Text *out, long made,
                         SpeechEnd end) {
    json_auto_t *object = json_make("{s:o, s:I, s:o, s:I, s:s}", "prompt",
                                    text_json(prompt->text, strlen(prompt->text)), "sample",
                                    (json_int_t)sample, "text", text_json(out->bytes, out->length),
                                    "tokens", (json_int_t)made, "end", end ? "stop" : "length");
    json_dumpf(object, stdout, JSON_COMPACT);
    puts("");
}

/* Clears the caches. */
static bool forget_text(const Generation *generation) {
    if (generation->refining) return true;
    return generation->speculation ? speculation_reset(generation->speculation)
                                   : decoder_reset(generation->decoder);
}

static bool one_text(Generation *generation, const Prompt *prompt, long sample) {
    const GenerateOptions *options = generation->options;
    AUTO(TokenList) text = {0};
    AUTO(Text) out = {0};
    long made = 0;
    SpeechEnd end = SPEECH_CONTINUES;
    bool good = forget_text(generation) && speech_begin(generation->speech, &prompt->tokens);
    generation->seed = sample_seed((uint64_t)options->seed, sample);
    generation->prompt = prompt->tokens.count;
    tokens_append(&text, prompt->tokens.items, prompt->tokens.count);
    if (!options->json && !options->chat) fputs(prompt->text, stdout);
    fflush(stdout);
    good =
        good && (generation->refining ? refine_completion(generation, &text, &out, &made, &end)
                                      : generate_completion(generation, &text, &out, &made, &end));
    if (good && options->json) print_object(prompt, sample, &out, made, end);
    if (good && !options->json && isatty(1)) putchar('\n');
    fflush(stdout);
    return good;
}

static void tell_acceptance(const Speculation *speculation) {
    note_message("%ld of %ld tokens of the draft accepted (%.0f %%)", speculation->accepted,
                 speculation->proposed,
                 100 * (double)speculation->accepted /
                     (double)(speculation->proposed ? speculation->proposed : 1));
}

static bool all_texts(Generation *generation) {
    const GenerateOptions *options = generation->options;
    generation->speech = speech_new(&(SpeechRule){.writing = generation->writing,
                                                  .tokenizer = generation->tokenizer,
                                                  .stops = options->stops.items,
                                                  .stop_count = options->stops.count,
                                                  .ignore_eos = options->ignore_eos});
    if (generation->decoder)
        generation->logits =
            memory_new(sizeof(float) * (size_t)decoder_vocabulary(generation->decoder));
    bool good = true;
    interrupt_watch();
    for (int i = 0; i < generation->prompts.count && good; i++)
        for (long k = 0; k < options->samples && good && !interrupt_signal(); k++)
            good = one_text(generation, &generation->prompts.items[i], k);
    fflush(stdout);
    if (good && generation->speculation) tell_acceptance(generation->speculation);
    if (!good || !options->speed) return good;
    fprintf(stderr, "%s%ld tokens, %.1f tokens/s\n", options->json || isatty(1) ? "" : "\n",
            generation->made, (double)generation->made / generation->seconds);
    return good;
}

/* Replaces each prompt by a user message in the chat template of the model. */
static bool write_chats(Generation *generation) {
    const Safetensors *file = generation->file;
    bool wrong, good = true;
    Template *template =
        template_of_folder(file->path, checkpoint_file(file, "chat_template.jinja"),
                           checkpoint_file(file, "tokenizer_config.json"), &wrong);
    if (!template && !wrong)
        return error_message("leave --chat out; moec import keeps the template of a folder",
                             "%s holds no chat template", file->path);
    for (int i = 0; template && good && i < generation->prompts.count; i++) {
        Prompt *prompt = &generation->prompts.items[i];
        AUTO(Text) text = {0};
        Problem problem = {0};
        json_auto_t *messages = json_make("[{s:s, s:o}]", "role", "user", "content",
                                          text_json(prompt->text, strlen(prompt->text)));
        good = template_chat(template, messages, NULL, &text, &problem) ||
               error_message("leave --chat out", "%s", problem.text);
        free(prompt->text);
        prompt->text = memory_format("%.*s", (int)text.length, text.bytes ? text.bytes : "");
        free(problem.text);
    }
    template_free(template);
    return good && !wrong;
}

/* The prompts and their tokens. */
static bool open_prompts(Generation *generation) {
    const GenerateOptions *options = generation->options;
    PromptList *prompts = &generation->prompts;
    bool good = prompts_read(prompts, options->prompt, options->prompts) &&
                (!options->chat || write_chats(generation)) &&
                prompts_encode(prompts, generation->writing, generation->tokenizer);
    for (int i = 0; good && options->chat && generation->tokenizer && i < prompts->count; i++)
        template_begin_once(generation->tokenizer, &prompts->items[i].tokens);
    return good;
}

static bool open_prompt_tokenizer(Generation *generation) {
    const GenerateOptions *options = generation->options;
    bool good = true;
    if (options->tokenizer) {
        generation->tokenizer = tokenizer_open(options->tokenizer);
        good = generation->tokenizer != NULL;
    } else {
        good = checkpoint_tokenizer(generation->file, &generation->tokenizer);
    }
    generation->writing = options->numbers        ? WRITING_TOKENS
                          : generation->tokenizer ? WRITING_TEXT
                                                  : WRITING_BYTES;
    return good && open_prompts(generation);
}

/* --steps counts refinements. */
static bool steps_fit(const GenerateOptions *options, const MoecCompiler *compiler) {
    return !options->steps ||
           error_message("omit it", "--steps: model '%s' refines no input", moec_model(compiler));
}

/* The model: a decoder, or a spec that refines. */
static bool open_decoder(Generation *generation) {
    const GenerateOptions *options = generation->options;
    const TextList *sets = &options->sets;
    MoecCompiler *compiler = checkpoint_spec(generation->file, sets->items, sets->count);
    if (compiler && moec_refines(compiler)) return open_refining(generation, compiler);
    long length = prompts_length(&generation->prompts);
    bool talks = compiler && steps_fit(options, compiler) && spec_length_fits(compiler, length) &&
                 draft_prepare(options->draft, compiler);
    generation->device = talks ? device_open(options->device) : NULL;
    if (generation->device)
        generation->decoder = decoder_open(generation->device, compiler, 1, length,
                                           length + generated_limit(options));
    moec_close(compiler);
    const bool good = generation->decoder &&
                      check_vocabulary(generation, decoder_vocabulary(generation->decoder)) &&
                      model_read(generation->decoder->model, generation->file, false);
    if (good) model_release_weights(generation->decoder->model);
    return good;
}

static bool open_draft(Generation *generation) {
    const GenerateOptions *options = generation->options;
    Decoder *decoder = generation->decoder;
    const int most = (int)options->proposals;
    if (!options->draft) return true;
    if (!draft_open(&generation->draft, options->draft, &options->sets, decoder->model,
                    generation->file, decoder->length))
        return false;
    generation->together = together_new(decoder->model, most + 1);
    if (generation->together)
        generation->speculation =
            speculation_new(decoder, generation->draft.decoder, generation->together, most,
                            choose_next, generation);
    return generation->speculation != NULL;
}

static bool generate(const GenerateOptions *options) {
    Generation generation = {.options = options, .file = checkpoint_open(options->operand)};
    bool good = generation.file && open_prompt_tokenizer(&generation) &&
                open_decoder(&generation) && open_draft(&generation) && all_texts(&generation);
    speculation_free(generation.speculation);
    together_free(generation.together);
    draft_close(&generation.draft);
    speech_free(generation.speech);
    prompts_free(&generation.prompts);
    tokenizer_close(generation.tokenizer);
    decoder_close(generation.decoder);
    close_refinement(&generation);
    moec_close(generation.refining);
    device_close(generation.device);
    safetensors_close(generation.file);
    free(generation.logits);
    return good;
}

static int check_generation(const Command *command, GenerateOptions *options) {
    const Sampling *sampling = &options->sampling;
    if (!options->prompts && (!options->prompt || !*options->prompt))
        return arguments_wrong(command, "add -p TEXT, not empty, or -p - for stdin",
                               "moec generate requires --prompt or --prompts");
    if (options->chat && options->numbers)
        return arguments_wrong(command, "omit one of them",
                               "--chat and --token-ids exclude each other");
    if (options->prompt && options->prompts)
        return arguments_wrong(command, "omit one of them",
                               "--prompt and --prompts exclude each other");
    if (sampling->temperature < 0 || sampling->top_p <= 0 || sampling->top_p > 1)
        return arguments_wrong(command, "for example --temperature 0.8 --top-p 0.95",
                               "--temperature must be at least 0, --top-p above 0 and at most 1");
    if (sampling->min_p < 0 || sampling->min_p > 1 || sampling->repetition <= 0)
        return arguments_wrong(command, "for example --min-p 0.05 --repeat-penalty 1.1",
                               "--min-p must be from 0 to 1, --repeat-penalty above 0");
    for (int i = 0; i < options->stops.count; i++)
        if (!*options->stops.items[i])
            return arguments_wrong(command, "for example --stop END",
                                   "--stop expects at least one character");
    if (!options->samples)
        return arguments_wrong(command, "omit --num-samples for one completion",
                               "--num-samples must be at least 1");
    options->json = options->json || options->prompts || options->samples > 1;
    return draft_check(command, options->proposals);
}

static int generate_checked(const Command *command, GenerateOptions *options) {
    const int code = check_generation(command, options);
    if (code >= 0) return code;
    if (!generate(options)) return EXIT_INPUT;
    return interrupt_signal() ? 128 + interrupt_signal() : 0;
}

int command_generate(const Command *command, int argc, char **argv) {
    GenerateOptions options = {
        .device = "cpu",
        .seed = 1,
        .tokens = -1,
        .samples = 1,
        .proposals = SPECULATE_DEFAULT,
        .sampling = {.temperature = DEFAULT_TEMPERATURE, .top_p = 1, .repetition = 1}};
    Sampling *sampling = &options.sampling;
    const Option table[] = {
        {OPTION_GROUP, "prompts and output", NULL, NULL, NULL},
        {OPTION_TEXT, "--prompt", "TEXT", &options.prompt, "prompt; - reads stdin"},
        {OPTION_TEXT, "--prompts", "FILE", &options.prompts,
         "file with a prompt per line, - for stdin; the output is a JSON object per line"},
        {OPTION_FLAG, "--chat", NULL, &options.chat,
         "prompts as user messages; the output is the answer of a chat model"},
        {OPTION_TEXT, "--tokenizer", "FILE", &options.tokenizer,
         "tokenizer.json (default: of the checkpoint, else tokens are bytes)"},
        {OPTION_FLAG, "--token-ids", NULL, &options.numbers, "token ids as prompt and output"},
        {OPTION_FLAG, "--json", NULL, &options.json,
         "prompt, completion and finish reason as JSON"},
        {OPTION_FLAG, "--perf", NULL, &options.speed, "tokens/s on stderr"},
        {OPTION_GROUP, "sampling", NULL, NULL, NULL},
        {OPTION_COUNT, "--max-tokens", "N", &options.tokens,
         "maximum number of generated tokens (default 256; refined: up to the context length)"},
        {OPTION_COUNT, "--steps", "N", &options.steps,
         "number of refinements of a model that refines its tokens (default 64)"},
        {OPTION_LIST, "--stop", "TEXT", &options.stops,
         "stop sequence or name of a token; repeatable"},
        {OPTION_FLAG, "--ignore-eos", NULL, &options.ignore_eos,
         "continue after special tokens such as end of text"},
        {OPTION_NUMBER, "--temperature", "T", &sampling->temperature,
         "sampling temperature; 0 = most likely token (default 0.8)"},
        {OPTION_COUNT, "--top-k", "K", &sampling->top_k,
         "sampling from the K most likely tokens; 0 = all (default 0)"},
        {OPTION_NUMBER, "--top-p", "P", &sampling->top_p,
         "sampling from the most likely tokens with total probability P (default 1)"},
        {OPTION_NUMBER, "--min-p", "P", &sampling->min_p,
         "sampling from tokens with at least P times the highest probability (default 0)"},
        {OPTION_NUMBER, "--repeat-penalty", "R", &sampling->repetition,
         "repetition penalty; above 1, earlier tokens are less likely (default 1)"},
        {OPTION_COUNT, "--num-samples", "N", &options.samples,
         "number of completions per prompt; above 1 as JSON (default 1)"},
        {OPTION_COUNT, "--seed", "N", &options.seed, "seed of the sampling (default 1)"},
        {OPTION_GROUP, "speculative decoding", NULL, NULL, NULL},
        DRAFT_OPTION(&options.draft),
        DRAFT_TOKENS_OPTION(&options.proposals),
        {OPTION_GROUP, "device", NULL, NULL, NULL},
        DEVICE_OPTION(&options.device),
        SET_OPTION(&options.sets),
    };
    const int code = arguments_read(command, OPTIONS(table), argc, argv, &options.operand);
    return code < 0 ? generate_checked(command, &options) : code;
}
