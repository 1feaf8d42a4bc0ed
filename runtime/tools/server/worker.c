#include "tools/server/internal.h"

#include "base/memory.h"
#include "base/message.h"
#include "base/clock.h"
#include "model/generate/prefix.h"
#include "model/generate/speculate.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Room for one running sequence: a decoder with its own caches, at its own position. */
typedef struct DecodeSlot {
    Decoder *decoder;
    Batch *batch;
    Completion *choice; /* NULL: free */
    CachedPrompt prompt;
} DecodeSlot;

struct Worker {
    Service *service;
    Model *model;
    void (*wake)(void *connection);
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work;
    Completion **waiting; /* in the order they came; a ring */
    long first, count, capacity;
    bool stopping, started;
    DecodeSlot *slots; /* [service->rows] */
    long active;
    Prefixes *prefixes;
    Together *together;
    Speculation *speculation; /* NULL: none */
    DecodeSlot *speculating;  /* whose last step was speculative, or NULL */
    /* of a step, [service->rows] */
    DecodeSlot **stepped;
    Batch **batches;
    bool *good;
};

void worker_lock(Worker *worker) {
    pthread_mutex_lock(&worker->lock);
}

void worker_unlock(Worker *worker) {
    pthread_mutex_unlock(&worker->lock);
}

void worker_release(Worker *worker, TextRequest *request) {
    worker_lock(worker);
    bool last = --request->holders == 0;
    worker_unlock(worker);
    if (last) request_free(request);
}

bool worker_submit(Worker *worker, TextRequest *request, Problem *problem) {
    Service *service = worker->service;
    worker_lock(worker);
    bool full = worker->count + request->choice_count > worker->capacity;
    bool good = !full && !worker->stopping;
    if (good) {
        request->holders++;
        for (int i = 0; i < request->choice_count; i++)
            worker->waiting[(worker->first + worker->count++) % worker->capacity] =
                &request->choices[i];
        atomic_store(&service->metrics.waiting, worker->count);
        pthread_cond_signal(&worker->work);
    }
    worker_unlock(worker);
    if (!good)
        return problem_set(problem, full ? 429 : 503, NULL,
                           full ? "too many requests in the queue: try again later"
                                : "the server is shutting down");
    for (int i = 0; i < request->prompt_count; i++)
        atomic_fetch_add(&service->metrics.prompt_tokens, request->prompts[i].tokens.count);
    return true;
}

/* The next sequence of the queue, which is not empty. Requires the lock. */
static Completion *take_waiting(Worker *worker) {
    Completion *choice = worker->waiting[worker->first];
    worker->first = (worker->first + 1) % worker->capacity;
    atomic_store(&worker->service->metrics.waiting, --worker->count);
    return choice;
}

/* ---- results ---- */

/* Publishes new text and the end of a request. True if the worker has finished the request. */
static bool publish(Worker *worker, TextRequest *request, Text *news) {
    worker_lock(worker);
    text_append(&request->out, news->bytes, news->length);
    request->complete = request->left == 0;
    if (request->connection && (request->complete || news->length)) {
        worker->wake(request->connection);
        request->connection = NULL;
    }
    bool complete = request->complete;
    worker_unlock(worker);
    text_free(news);
    return complete;
}

/* A choice has something new, or has ended. */
static void report_progress(Worker *worker, Completion *choice) {
    TextRequest *request = choice->request;
    Text news = {0};
    if (choice->row.ended) {
        choice_finish(choice);
        request->left--;
    }
    if (request->stream) {
        answer_event(choice, &news);
        if (request->left == 0) answer_end(request, &news);
    } else if (request->left == 0) {
        AUTO_FREE char *text =
            request->problem.status ? problem_text(&request->problem) : answer_text(request);
        text_append(&news, text, strlen(text));
    }
    if (!publish(worker, request, &news)) return;
    Metrics *metrics = &request->service->metrics;
    metrics_time(&metrics->seconds, seconds_now() - request->began);
    if (request->first > 0) metrics_time(&metrics->first_token, request->first - request->began);
    worker_release(worker, request);
}

/* Ends a sequence with an error; the first error is sent to the client. */
static void fail_choice(Completion *choice, int status, const char *text) {
    Problem *problem = &choice->request->problem;
    choice->row.ended = true;
    if (!problem->status) problem_set(problem, status, NULL, "%s", text);
}

static void look_at_clock(Completion *choice, double now) {
    const TextRequest *request = choice->request;
    if (choice->row.ended) return;
    if (atomic_load(&request->cancelled))
        fail_choice(choice, 499, "the client disconnected");
    else if (now > request->deadline)
        fail_choice(choice, 504, "the answer exceeded the time limit of this server (--timeout)");
    else if (request->problem.status)
        choice->row.ended = true;
}

/* ---- slots ---- */

static void fail_on_device(Completion *choice) {
    fail_choice(choice, 500, "the device failed");
}

/* Sequences whose first tokens are those of an earlier prompt start after them, unless their
 * log-probabilities are needed. */
static bool begin_sequence(Worker *worker, DecodeSlot *slot) {
    Completion *choice = slot->choice;
    const TextRequest *request = choice->request;
    Row *row = &choice->row;
    slot->prompt = (CachedPrompt){.tokens = row->tokens.items, .count = (long)row->prompt};
    if (!batch_begin(slot->batch, &row, 1)) return false;
    if (request->echo && request->logprobs >= 0) return true;
    if (!prefixes_load(worker->prefixes, slot->decoder, &slot->prompt)) return false;
    choice->cached = (size_t)slot->decoder->position;
    atomic_fetch_add(&worker->service->metrics.cached_tokens, choice->cached);
    return true;
}

/* Moves waiting sequences to free slots. */
static void fill_slots(Worker *worker) {
    for (long i = 0; i < worker->service->rows; i++) {
        DecodeSlot *slot = &worker->slots[i];
        if (slot->choice) continue;
        worker_lock(worker);
        bool waits = worker->count > 0;
        if (waits) slot->choice = take_waiting(worker);
        worker_unlock(worker);
        if (!waits) return;
        worker->active++;
        look_at_clock(slot->choice, seconds_now());
        if (!slot->choice->row.ended && !begin_sequence(worker, slot)) fail_on_device(slot->choice);
    }
}

/* Saves the prompt and checks the logits after a step. */
static void check_step(Worker *worker, DecodeSlot *slot, bool good) {
    Row *row = &slot->choice->row;
    slot->prompt.tokens = row->tokens.items;
    if (!good || !prefixes_save(worker->prefixes, slot->decoder, &slot->prompt))
        fail_on_device(slot->choice);
    if (row->nonsense)
        fail_choice(slot->choice, 500, "the model produced a logit that is not a finite number");
}

/* SpeculationChoice: with the options of the only running sequence. */
static bool choose_token(void *data, const float *logits, const TokenList *text, int32_t *token) {
    const DecodeSlot *slot = ((const Worker *)data)->speculating;
    if (!sample_possible(logits, decoder_vocabulary(slot->decoder))) return false;
    *token = batch_choose(slot->batch, &slot->choice->row, text, logits);
    return true;
}

/* The only running sequence, if it has a token after its prompt and follows no grammar: the draft
 * would not know which tokens the grammar allows after a proposal. NULL: none. */
static DecodeSlot *lone_slot(const Worker *worker) {
    if (!worker->speculation || worker->active != 1) return NULL;
    DecodeSlot *slot = worker->slots;
    while (!slot->choice) slot++;
    const Row *row = &slot->choice->row;
    return !row->ended && row->tokens.count > row->prompt && !row->sampling.allowed ? slot : NULL;
}

/* One token of the only running sequence by speculation. False without a step: the draft lacks
 * blocks of the text, and has read one of them. */
static bool speculate_slot(Worker *worker, DecodeSlot *slot) {
    Speculation *speculation = worker->speculation;
    const Row *row = &slot->choice->row;
    if (worker->speculating != slot) {
        bool good;
        if (speculation_catches_up(speculation, &row->tokens, &good)) {
            if (!good) check_step(worker, slot, false);
            return !good;
        }
        speculation_take(speculation, slot->decoder);
        worker->speculating = slot;
    }
    const long wanted = (long)(row->prompt + row->limit - row->tokens.count);
    const float *logits = speculation_next(speculation, &row->tokens, wanted);
    if (logits) batch_tell(slot->batch, logits);
    check_step(worker, slot, logits != NULL);
    Metrics *metrics = &worker->service->metrics;
    atomic_store(&metrics->proposed_tokens, (unsigned long)speculation->proposed);
    atomic_store(&metrics->accepted_tokens, (unsigned long)speculation->accepted);
    return true;
}

/* One step of all running sequences: the next block of a prompt, or one token. */
static void step_slots(Worker *worker) {
    int count = 0;
    DecodeSlot *lone = lone_slot(worker);
    if (lone && speculate_slot(worker, lone)) return;
    worker->speculating = NULL;
    for (long i = 0; i < worker->service->rows; i++) {
        DecodeSlot *slot = &worker->slots[i];
        if (!slot->choice || !batch_active(slot->batch)) continue;
        worker->stepped[count] = slot;
        worker->batches[count++] = slot->batch;
    }
    together_step(worker->together, worker->batches, worker->good, count);
    for (int i = 0; i < count; i++) check_step(worker, worker->stepped[i], worker->good[i]);
}

/* Publishes the result of the last step of a sequence; a finished one leaves its slot. */
static void tell_slot(Worker *worker, DecodeSlot *slot) {
    Completion *choice = slot->choice;
    look_at_clock(choice, seconds_now());
    bool ended = choice->row.ended;
    if (ended) {
        batch_drop(slot->batch, &choice->row);
        slot->choice = NULL;
        worker->active--;
    }
    report_progress(worker, choice);
}

static void step_all(Worker *worker) {
    Metrics *metrics = &worker->service->metrics;
    atomic_fetch_add(&metrics->steps, 1);
    atomic_fetch_add(&metrics->rows, (unsigned long)worker->active);
    step_slots(worker);
    for (long i = 0; i < worker->service->rows; i++)
        if (worker->slots[i].choice) tell_slot(worker, &worker->slots[i]);
    atomic_store(&metrics->active, worker->active);
    atomic_store(&metrics->cache_bytes, (long)prefixes_bytes(worker->prefixes));
}

static bool wait_for_work(Worker *worker) {
    worker_lock(worker);
    while (!worker->stopping && !worker->count && !worker->active)
        pthread_cond_wait(&worker->work, &worker->lock);
    bool goes_on = !worker->stopping;
    worker_unlock(worker);
    return goes_on;
}

static void end_sequence(Worker *worker, Completion *choice) {
    fail_choice(choice, 503, "the server is shutting down");
    report_progress(worker, choice);
}

static void end_all(Worker *worker) {
    for (long i = 0; i < worker->service->rows; i++)
        if (worker->slots[i].choice) end_sequence(worker, worker->slots[i].choice);
    worker_lock(worker);
    while (worker->count) {
        Completion *choice = take_waiting(worker);
        worker_unlock(worker);
        end_sequence(worker, choice);
        worker_lock(worker);
    }
    worker_unlock(worker);
}

static void *worker_loop(void *argument) {
    Worker *worker = argument;
    while (wait_for_work(worker)) {
        fill_slots(worker);
        step_all(worker);
    }
    end_all(worker);
    return NULL;
}

/* ---- from start to end ---- */

static bool open_decode_slots(Worker *worker) {
    Service *service = worker->service;
    worker->slots = memory_new(sizeof(DecodeSlot) * (size_t)service->rows);
    worker->stepped = memory_new(sizeof(DecodeSlot *) * (size_t)service->rows);
    worker->batches = memory_new(sizeof(Batch *) * (size_t)service->rows);
    worker->good = memory_new(sizeof(bool) * (size_t)service->rows);
    for (long i = 0; i < service->rows; i++) {
        DecodeSlot *slot = &worker->slots[i];
        slot->decoder = decoder_over(worker->model, service->context);
        if (!slot->decoder) return false;
        slot->batch = batch_new(slot->decoder);
    }
    const Decoder *decoder = worker->slots[0].decoder;
    service->vocabulary = decoder_vocabulary(decoder);
    worker->prefixes = prefixes_new(decoder, service->prefix_cache);
    const int rows = (int)service->rows, most = service->proposals;
    worker->together = together_new(worker->model, rows > most ? rows : most + 1);
    if (!worker->together || !most) return worker->together != NULL;
    worker->speculation = speculation_new(worker->slots[0].decoder, service->draft,
                                          worker->together, most, choose_token, worker);
    return worker->speculation != NULL;
}

Worker *worker_start(Service *service, Model *model, void (*wake)(void *connection)) {
    Worker *worker = memory_new(sizeof *worker);
    worker->service = service;
    worker->model = model;
    worker->wake = wake;
    worker->capacity = service->queue > MAX_CHOICES ? service->queue : MAX_CHOICES;
    worker->waiting = memory_new(sizeof(Completion *) * (size_t)worker->capacity);
    pthread_mutex_init(&worker->lock, NULL);
    pthread_cond_init(&worker->work, NULL);
    bool good = open_decode_slots(worker);
    worker->started = good && pthread_create(&worker->thread, NULL, worker_loop, worker) == 0;
    if (worker->started) return worker;
    if (good) error_message("raise the limit of processes: ulimit -u", "cannot start a thread");
    worker_free(worker);
    return NULL;
}

void worker_stop(Worker *worker) {
    worker_lock(worker);
    worker->stopping = true;
    pthread_cond_signal(&worker->work);
    worker_unlock(worker);
    if (worker->started) pthread_join(worker->thread, NULL);
    worker->started = false;
}

void worker_free(Worker *worker) {
    if (!worker) return;
    speculation_free(worker->speculation);
    for (long i = 0; i < worker->service->rows && worker->slots; i++) {
        batch_free(worker->slots[i].batch);
        decoder_close(worker->slots[i].decoder);
    }
    free(worker->slots);
    free(worker->stepped);
    free(worker->batches);
    free(worker->good);
    together_free(worker->together);
    prefixes_free(worker->prefixes);
    pthread_mutex_destroy(&worker->lock);
    pthread_cond_destroy(&worker->work);
    free(worker->waiting);
    free(worker);
}
