#include "tools/server/internal.h"

#include "base/memory.h"
#include "base/message.h"
#include "base/clock.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { GROUPS = 2 };

/* A running batch; later sequences go to another one. */
typedef struct DecodeGroup {
    Decoder *narrow, *wide; /* of one row, of all rows; wide may be NULL */
    Batch *narrow_batch, *wide_batch;
    Batch *batch;         /* the running batch, or NULL */
    Completion **choices; /* [service->rows] */
    int count;
} DecodeGroup;

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
    DecodeGroup groups[GROUPS];
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
        char *text =
            request->problem.status ? problem_text(&request->problem) : answer_text(request);
        text_append(&news, text, strlen(text));
        free(text);
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

/* ---- groups ---- */

static void count_active(Worker *worker) {
    long active = 0;
    for (int i = 0; i < GROUPS; i++) active += worker->groups[i].count;
    atomic_store(&worker->service->metrics.active, active);
}

/* Adds sequences of the queue to a group. Requires the lock. */
static void take_waiting(Worker *worker, DecodeGroup *group) {
    while (group->count < worker->service->rows && worker->count) {
        group->choices[group->count++] = worker->waiting[worker->first];
        worker->first = (worker->first + 1) % worker->capacity;
        worker->count--;
    }
    atomic_store(&worker->service->metrics.waiting, worker->count);
}

/* Publishes the results of all sequences, and removes finished ones. */
static void tell_all(Worker *worker, DecodeGroup *group) {
    int kept = 0;
    for (int i = 0; i < group->count; i++) {
        Completion *choice = group->choices[i];
        bool ended = choice->row.ended;
        if (ended && group->batch) batch_drop(group->batch, &choice->row);
        report_progress(worker, choice);
        if (!ended) group->choices[kept++] = choice;
    }
    group->count = kept;
    if (!kept) group->batch = NULL;
}

static void fail_all(DecodeGroup *group, int status, const char *text) {
    for (int i = 0; i < group->count; i++) fail_choice(group->choices[i], status, text);
}

static void begin_group(DecodeGroup *group) {
    double now = seconds_now();
    Row **rows = memory_new(sizeof *rows * (size_t)(group->count + 1));
    for (int i = 0; i < group->count; i++) {
        look_at_clock(group->choices[i], now);
        rows[i] = &group->choices[i]->row;
    }
    group->batch = group->count > 1 ? group->wide_batch : group->narrow_batch;
    if (!batch_begin(group->batch, rows, group->count)) fail_all(group, 500, "the device failed");
    free(rows);
}

static void step_group(Worker *worker, DecodeGroup *group) {
    Metrics *metrics = &worker->service->metrics;
    atomic_fetch_add(&metrics->steps, 1);
    atomic_fetch_add(&metrics->rows, (unsigned long)group->count);
    if (batch_active(group->batch) && !batch_step(group->batch))
        fail_all(group, 500, "the device failed");
    double now = seconds_now();
    for (int i = 0; i < group->count; i++) {
        if (group->choices[i]->row.nonsense)
            fail_choice(group->choices[i], 500,
                        "the model produced a logit that is not a finite number");
        look_at_clock(group->choices[i], now);
    }
    tell_all(worker, group);
    count_active(worker);
}

static bool groups_idle(const Worker *worker) {
    for (int i = 0; i < GROUPS; i++)
        if (worker->groups[i].batch) return false;
    return true;
}

/* Under the lock. */
static bool wait_for_work(Worker *worker) {
    while (!worker->stopping && !worker->count && groups_idle(worker))
        pthread_cond_wait(&worker->work, &worker->lock);
    return !worker->stopping;
}

/* Only one group at a time receives sequences from the queue, which keeps few sequences in one
 * batch. */
static DecodeGroup *fill_groups(Worker *worker) {
    for (int i = 0; i < GROUPS; i++) {
        DecodeGroup *group = &worker->groups[i];
        if (group->batch || !worker->count) continue;
        take_waiting(worker, group);
        return group;
    }
    return NULL;
}

static void end_all(Worker *worker) {
    for (int i = 0; i < GROUPS; i++) {
        DecodeGroup *group = &worker->groups[i];
        do {
            fail_all(group, 503, "the server is shutting down");
            tell_all(worker, group);
            worker_lock(worker);
            take_waiting(worker, group);
            worker_unlock(worker);
        } while (group->count);
    }
}

static void *worker_loop(void *argument) {
    Worker *worker = argument;
    for (;;) {
        worker_lock(worker);
        bool goes_on = wait_for_work(worker);
        DecodeGroup *fresh = goes_on ? fill_groups(worker) : NULL;
        worker_unlock(worker);
        if (!goes_on) break;
        if (fresh) begin_group(fresh);
        for (int i = 0; i < GROUPS; i++)
            if (worker->groups[i].batch) step_group(worker, &worker->groups[i]);
    }
    end_all(worker);
    return NULL;
}

/* ---- from start to end ---- */

static bool open_decoders(Worker *worker, DecodeGroup *group) {
    long rows = worker->service->rows, context = worker->service->context;
    group->choices = memory_new(sizeof(Completion *) * (size_t)rows);
    group->narrow = decoder_over(worker->model, 0, context);
    group->narrow_batch = group->narrow ? batch_new(group->narrow) : NULL;
    if (rows == 1) return group->narrow != NULL;
    group->wide = group->narrow ? decoder_over(worker->model, 1, context) : NULL;
    group->wide_batch = group->wide ? batch_new(group->wide) : NULL;
    return group->wide != NULL;
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
    bool good = true;
    for (int i = 0; i < GROUPS && good; i++) good = open_decoders(worker, &worker->groups[i]);
    if (good) service->vocabulary = decoder_vocabulary(worker->groups[0].narrow);
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
    for (int i = 0; i < GROUPS; i++) {
        DecodeGroup *group = &worker->groups[i];
        batch_free(group->narrow_batch);
        batch_free(group->wide_batch);
        decoder_close(group->wide);
        decoder_close(group->narrow);
        free(group->choices);
    }
    pthread_mutex_destroy(&worker->lock);
    pthread_cond_destroy(&worker->work);
    free(worker->waiting);
    free(worker);
}
