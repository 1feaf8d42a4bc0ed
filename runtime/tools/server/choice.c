#include "tools/server/internal.h"

#include "base/memory.h"
#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_piece(Completion *choice, int32_t token, Text *piece) {
    const Service *service = choice->request->service;
    char byte = (char)token;
    if (service->writing == WRITING_TEXT)
        stream_add(choice->spelling, token, piece);
    else
        text_append(piece, &byte, 1);
}

static Chance *add_chance(Completion *choice, int32_t token) {
    if (choice->chance_count == choice->chance_capacity) {
        choice->chance_capacity = choice->chance_capacity * 2 + 16;
        choice->chances = memory_grow(choice->chances, sizeof(Chance) * choice->chance_capacity);
    }
    Chance *chance = &choice->chances[choice->chance_count++];
    *chance = (Chance){.token = token};
    add_piece(choice, token, &chance->piece);
    return chance;
}

static void measure_logprobs(Completion *choice, int32_t token, const float *logits) {
    const TextRequest *request = choice->request;
    long vocabulary = request->service->vocabulary;
    Chance *chance = add_chance(choice, token);
    double sum = sample_log_sum(logits, vocabulary);
    chance->given = true;
    chance->logprob = (double)logits[token] - sum;
    chance->best_count = sample_best(logits, vocabulary, chance->best, request->logprobs);
    for (int i = 0; i < chance->best_count; i++)
        chance->best_logprobs[i] = (double)logits[chance->best[i]] - sum;
}

/* Restricts the next token to those that the grammar allows. */
static bool restrict_choice(Completion *choice) {
    choice->row.sampling.allowed = matching_allowed(choice->matching);
    if (choice->row.sampling.allowed) return true;
    if (!choice->request->problem.status)
        problem_set(&choice->request->problem, 500, NULL,
                    "no token of this model continues the text as its JSON schema requires");
    return false;
}

/* Adds a token to the text of a grammar; false if the text ends with it. */
static bool follow_grammar(Completion *choice, int32_t token) {
    if (matching_add(choice->matching, token) && !matching_over(choice->matching))
        return restrict_choice(choice);
    choice->finish = "stop";
    return false;
}

static bool on_row_token(Row *row, size_t index, const float *logits) {
    Completion *choice = row->context;
    TextRequest *request = choice->request;
    int32_t token = row->tokens.items[index];
    bool made = index >= row->prompt;
    if (request->logprobs >= 0 && (made || request->echo)) measure_logprobs(choice, token, logits);
    if (!made) return !atomic_load(&request->cancelled);
    if (request->first == 0) request->first = seconds_now();
    atomic_fetch_add(&request->service->metrics.made_tokens, 1);
    SpeechEnd end;
    if (!speech_add(choice->speech, token, &choice->text, &end)) end = SPEECH_STOPPED;
    if (end) choice->finish = "stop";
    choice->special = end == SPEECH_COMPLETE;
    if (!end && choice->matching && !follow_grammar(choice, token)) {
        speech_end(choice->speech, &choice->text);
        return false;
    }
    return !end && !atomic_load(&request->cancelled);
}

static void begin_choice(TextRequest *request, Completion *choice, const Prompted *prompt,
                         int copy) {
    Row *row = &choice->row;
    const Service *service = request->service;
    choice->request = request;
    tokens_append(&row->tokens, prompt->tokens.items, prompt->tokens.count);
    row->prompt = prompt->tokens.count;
    row->limit = (size_t)request->limit;
    row->sampling = request->sampling;
    row->sampling.seed = sample_seed(request->sampling.seed, copy);
    row->told = on_row_token;
    row->ignores_logits = choice->request->logprobs < 0;
    row->context = choice;
    choice->speech = speech_new(&(SpeechRule){.writing = service->writing,
                                              .tokenizer = service->tokenizer,
                                              .stops = (const char *const *)request->stops,
                                              .stop_count = request->stop_count,
                                              .ignore_eos = request->ignore_eos});
    speech_begin(choice->speech, &prompt->tokens);
    choice->matching = request->grammar ? matching_new(request->grammar, service->bytes) : NULL;
    if (choice->matching) restrict_choice(choice);
    if (request->logprobs < 0) return;
    if (service->writing == WRITING_TEXT) choice->spelling = stream_new(service->tokenizer, false);
    if (request->echo) {
        add_chance(choice, row->tokens.items[0]);
        return;
    }
    AUTO(Text) before = {0};
    for (size_t i = 0; i < row->prompt; i++) add_piece(choice, row->tokens.items[i], &before);
}

void choices_make(TextRequest *request) {
    request->choice_count = request->left = request->prompt_count * request->copies;
    request->choices = memory_new(sizeof(Completion) * (size_t)request->choice_count);
    for (int i = 0; i < request->choice_count; i++) {
        request->choices[i].index = i;
        begin_choice(request, &request->choices[i], &request->prompts[i / request->copies],
                     i % request->copies);
    }
}

void choices_free(TextRequest *request) {
    for (int i = 0; i < request->choice_count; i++) {
        Completion *choice = &request->choices[i];
        tokens_free(&choice->row.tokens);
        speech_free(choice->speech);
        text_free(&choice->text);
        matching_free(choice->matching);
        json_decref(choice->calls);
        stream_free(choice->spelling);
        for (size_t k = 0; k < choice->chance_count; k++) text_free(&choice->chances[k].piece);
        free(choice->chances);
    }
    free(request->choices);
}

/* Removes the tokens of a stop sequence, which is not part of the text. */
static void drop_past_end(Completion *choice) {
    size_t length = 0, kept = 0;
    size_t prompt = choice->request->echo ? choice->row.prompt : 0;
    for (; kept < choice->chance_count; kept++) {
        if (kept >= prompt && length >= choice->text.length) break;
        if (kept >= prompt) length += choice->chances[kept].piece.length;
    }
    for (size_t i = kept; i < choice->chance_count; i++) text_free(&choice->chances[i].piece);
    choice->chance_count = kept;
}

/* Moves the calls of functions from the text to a list. */
static void find_calls(Completion *choice) {
    const Tools *tools = &choice->request->tools;
    char prefix[48];
    size_t before;
    if (!tools->list) return;
    snprintf(prefix, sizeof prefix, "call_%s_%d", choice->request->id, choice->index);
    choice->calls = tools_calls(tools, &choice->text, prefix, &before);
    if (!choice->calls) return;
    choice->text.length = before;
    if (strcmp(choice->finish, "stop") == 0) choice->finish = "tool_calls";
}

void choice_finish(Completion *choice) {
    if (!choice->finish) {
        speech_end(choice->speech, &choice->text);
        choice->finish = "length";
    } else if (choice->chances && !choice->special && choice->chances_told == 0) {
        drop_past_end(choice);
    }
    find_calls(choice);
}
