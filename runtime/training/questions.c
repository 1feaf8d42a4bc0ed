#include "training/evaluation.h"

#include "abi/json_make.h"
#include "model/generate/batch.h"
#include "model/generate/speech.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/message.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

typedef struct AnswerChoice {
    Row row;
    size_t from; /* number of tokens before it */
    double characters, logprob;
    long vocabulary;
} AnswerChoice;

typedef struct Question {
    int first, count, answer;
} Question;

struct Questions {
    AnswerChoice *candidates;
    Question *questions;
    int candidate_count, question_count;
    Writing writing;
    const Tokenizer *tokenizer;
    Encoder *encoder;
};

static bool told(Row *row, size_t place, const float *logits) {
    AnswerChoice *candidate = row->context;
    if (place >= candidate->from)
        candidate->logprob += (double)logits[row->tokens.items[place]] -
                              sample_log_sum(logits, candidate->vocabulary);
    return true;
}

/* ---- reading ---- */

static bool encode_question(Questions *questions, const Text *text, TokenList *tokens) {
    return speech_tokens(questions->writing, questions->tokenizer, questions->encoder,
                         text->bytes ? text->bytes : "", text->length, tokens);
}

static bool add_candidate(Questions *questions, const char *context, const char *choice) {
    size_t length = strlen(context), spaces = 0;
    while (spaces < length && context[length - spaces - 1] == ' ') spaces++;
    questions->candidates = memory_grow(
        questions->candidates, sizeof(AnswerChoice) * (size_t)(questions->candidate_count + 1));
    AnswerChoice *candidate = &questions->candidates[questions->candidate_count++];
    *candidate = (AnswerChoice){.row = {.told = told, .sampling = {.repetition = 1}}};
    const char *said = choice + strspn(choice, " ");
    candidate->characters = (double)character_count(said, strlen(said));
    AUTO(Text) text = {0};
    AUTO(TokenList) before = {0};
    text_append(&text, context, length - spaces);
    bool good = encode_question(questions, &text, &before);
    text_append(&text, context + length - spaces, spaces);
    text_append(&text, choice, strlen(choice));
    good = good && encode_question(questions, &text, &candidate->row.tokens);
    candidate->from = before.count;
    candidate->row.prompt = candidate->row.tokens.count;
    return good;
}

static bool is_question(const json_t *line) {
    const json_t *list = json_object_get(line, "choices"),
                 *answer = json_object_get(line, "answer");
    if (!json_is_string(json_object_get(line, "context")) || !json_array_size(list) ||
        !json_is_integer(answer) || json_integer_value(answer) < 0 ||
        (size_t)json_integer_value(answer) >= json_array_size(list))
        return false;
    size_t i;
    json_t *choice;
    json_array_foreach((json_t *)(uintptr_t)list, i, choice) {
        if (!json_is_string(choice) || !json_string_length(choice)) return false;
    }
    return true;
}

static bool add_question(void *context, json_t *line, const char *where) {
    Questions *questions = context;
    static const char form[] =
        "{\"context\": \"Water is\", \"choices\": [\" wet\", \" dry\"], \"answer\": 0}";
    if (!is_question(line)) return error_message(form, "%s: invalid question", where);
    json_t *list = json_object_get(line, "choices"), *choice;
    const char *start = json_field_text(line, "context");
    questions->questions = memory_grow(questions->questions,
                                       sizeof(Question) * (size_t)(questions->question_count + 1));
    questions->questions[questions->question_count++] =
        (Question){.first = questions->candidate_count,
                   .count = (int)json_array_size(list),
                   .answer = (int)json_integer_value(json_object_get(line, "answer"))};
    size_t i;
    json_array_foreach(list, i, choice) {
        if (!add_candidate(questions, start, json_string_value(choice))) return false;
        const AnswerChoice *last = &questions->candidates[questions->candidate_count - 1];
        if (last->from < 1 || last->row.tokens.count <= last->from)
            return error_message("context and choice need at least one token each",
                                 "%s: choice %zu has no token, or no token before it", where, i);
    }
    return true;
}

Questions *questions_read(const char *path, const Tokenizer *tokenizer) {
    Questions *questions = memory_new(sizeof *questions);
    questions->tokenizer = tokenizer;
    questions->writing = tokenizer ? WRITING_TEXT : WRITING_BYTES;
    questions->encoder = tokenizer ? encoder_new(tokenizer) : NULL;
    bool good =
        file_json_lines(path, "use a file with one question per line", add_question, questions) &&
        (questions->question_count ||
         error_message("write one question per line", "%s contains no questions", path));
    if (good) return questions;
    questions_free(questions);
    return NULL;
}

void questions_free(Questions *questions) {
    if (!questions) return;
    for (int i = 0; i < questions->candidate_count; i++)
        tokens_free(&questions->candidates[i].row.tokens);
    encoder_free(questions->encoder);
    free(questions->candidates);
    free(questions->questions);
    free(questions);
}

long questions_length(const Questions *questions) {
    size_t longest = 0;
    for (int i = 0; i < questions->candidate_count; i++)
        if (questions->candidates[i].row.prompt > longest)
            longest = questions->candidates[i].row.prompt;
    return (long)longest;
}

/* ---- measuring ---- */

static bool check_tokens(const Questions *questions, long vocabulary) {
    if (!questions->tokenizer && vocabulary > 256)
        return error_message(
            "train it with a tokenizer, which becomes part of the checkpoint",
            "the model has %ld tokens and no tokenizer, so text cannot be converted to its tokens",
            vocabulary);
    for (int i = 0; i < questions->candidate_count; i++) {
        const TokenList *tokens = &questions->candidates[i].row.tokens;
        for (size_t k = 0; k < tokens->count; k++)
            if (tokens->items[k] >= vocabulary)
                return error_message(
                    "use the tokenizer of the model",
                    "token %d of a question is outside the vocabulary of %ld tokens",
                    (int)tokens->items[k], vocabulary);
    }
    return true;
}

static bool answer_questions(Questions *questions, Decoder *decoder) {
    Batch *batch = batch_new(decoder);
    AUTO_FREE Row **rows = memory_new(sizeof *rows * (size_t)decoder->rows);
    bool good = true;
    for (int done = 0; done < questions->candidate_count && good;) {
        int count = 0;
        while (count < decoder->rows && done < questions->candidate_count) {
            AnswerChoice *candidate = &questions->candidates[done++];
            candidate->row.context = candidate;
            candidate->vocabulary = decoder_vocabulary(decoder);
            rows[count++] = &candidate->row;
        }
        good = batch_begin(batch, rows, count);
        while (good && batch_active(batch)) good = batch_step(batch);
        for (int i = 0; i < count && good; i++)
            good = !rows[i]->nonsense || model_tell_nonsense(decoder->model, "a logit is");
    }
    batch_free(batch);
    return good;
}

bool questions_measure(Questions *questions, Decoder *decoder, Accuracy *accuracy) {
    *accuracy = (Accuracy){.questions = questions->question_count};
    if (!check_tokens(questions, decoder_vocabulary(decoder)) ||
        !answer_questions(questions, decoder))
        return false;
    for (int i = 0; i < questions->question_count; i++) {
        const Question *question = &questions->questions[i];
        const AnswerChoice *all = &questions->candidates[question->first];
        int best = 0, best_by_length = 0;
        for (int k = 1; k < question->count; k++) {
            const AnswerChoice *top = &all[best_by_length];
            if (all[k].logprob > all[best].logprob) best = k;
            if (all[k].logprob * top->characters > top->logprob * all[k].characters)
                best_by_length = k;
        }
        accuracy->right += best == question->answer;
        accuracy->right_by_length += best_by_length == question->answer;
    }
    return true;
}
