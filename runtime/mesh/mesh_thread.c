/* mesh_thread: exchanges of a program of a mesh run in a thread while the program computes. The
 * thread runs them one after the other. While exchanges run, only this thread calls MPI; otherwise
 * only the program does. */
#include "mesh/internal.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/message.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* An exchange that has begun. */
typedef struct Running {
    const MoecExchange *exchange;
    const void *from;
    const int *table;
    void *to[MOEC_EXCHANGE_RESULTS];
    bool done;
    struct Running *after;
} Running;

struct ExchangeThread {
    Mesh *mesh;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    Running *first, *last; /* begun and not ended, in this order */
    Running *next;         /* the first that does not run yet, or NULL */
    bool busy;             /* an exchange runs */
    bool ending;
    atomic_int computing;     /* the program does not wait for an exchange */
    long count, early;        /* early: the thread began them while the program computed */
    double exchanged, waited; /* seconds of all exchanges; of the program in their ends */
};

/* Runs the next exchange; the mutex is locked before and after. */
static void run_next(ExchangeThread *thread) {
    Running *running = thread->next;
    thread->next = running->after;
    thread->busy = true;
    pthread_mutex_unlock(&thread->mutex);
    const double start = seconds_now();
    mesh_exchange(thread->mesh, running->exchange, running->from, running->table, running->to);
    const double seconds = seconds_now() - start;
    pthread_mutex_lock(&thread->mutex);
    thread->exchanged += seconds;
    running->done = true;
    thread->busy = false;
    pthread_cond_broadcast(&thread->changed);
}

static void *run_exchanges(void *argument) {
    ExchangeThread *thread = argument;
    hold_thread_messages();
    pthread_mutex_lock(&thread->mutex);
    while (!thread->ending) {
        if (thread->next && !thread->busy) {
            thread->early += atomic_load(&thread->computing);
            run_next(thread);
        } else {
            pthread_cond_wait(&thread->changed, &thread->mutex);
        }
    }
    pthread_mutex_unlock(&thread->mutex);
    return NULL;
}

/* Whether exchanges can run in a thread: some builds of MPI prevent it. */
static bool can_share(Mesh *mesh, const atomic_int *computing) {
    const char *asked = getenv("MOEC_MESH_OVERLAP");
    if (asked && strcmp(asked, "off") == 0) return false;
    return mesh->here->share && mesh->here->share(computing);
}

static ExchangeThread *thread_new(Mesh *mesh) {
    ExchangeThread *thread = memory_new(sizeof *thread);
    thread->mesh = mesh;
    pthread_mutex_init(&thread->mutex, NULL);
    pthread_cond_init(&thread->changed, NULL);
    mesh->overlaps = can_share(mesh, &thread->computing) &&
                     pthread_create(&thread->thread, NULL, run_exchanges, thread) == 0;
    return thread;
}

void mesh_exchange_begin(void *self, const MoecExchange *exchange, const void *from,
                         const int *table, void *const *to) {
    Mesh *mesh = self;
    if (!mesh->exchanges) mesh->exchanges = thread_new(mesh);
    ExchangeThread *thread = mesh->exchanges;
    Running *running = memory_new(sizeof *running);
    *running = (Running){.exchange = exchange, .from = from, .table = table};
    memcpy(running->to, to, sizeof *to * (size_t)exchange_results(exchange));
    pthread_mutex_lock(&thread->mutex);
    *(thread->first ? &thread->last->after : &thread->first) = running;
    thread->last = running;
    if (!thread->next) thread->next = running;
    thread->count++;
    if (mesh->overlaps) {
        atomic_store(&thread->computing, 1);
        pthread_cond_broadcast(&thread->changed);
    } else {
        run_next(thread);
        thread->waited = thread->exchanged;
    }
    pthread_mutex_unlock(&thread->mutex);
}

/* The program runs an exchange that the thread has not taken yet. */
void mesh_exchange_end(void *self, const MoecExchange *exchange) {
    Mesh *mesh = self;
    ExchangeThread *thread = mesh->exchanges;
    const double start = seconds_now();
    pthread_mutex_lock(&thread->mutex);
    Running *running = thread->first;
    assert(running->exchange == exchange);
    atomic_store(&thread->computing, 0);
    while (!running->done) {
        if (thread->next == running && !thread->busy)
            run_next(thread);
        else
            pthread_cond_wait(&thread->changed, &thread->mutex);
    }
    thread->first = running->after;
    atomic_store(&thread->computing, thread->first != NULL);
    if (mesh->overlaps) thread->waited += seconds_now() - start;
    pthread_mutex_unlock(&thread->mutex);
    free(running);
}

void mesh_exchanges_end(Mesh *mesh) {
    ExchangeThread *thread = mesh ? mesh->exchanges : NULL;
    if (mesh) mesh_exchanges_end_there(mesh);
    if (!thread) return;
    pthread_mutex_lock(&thread->mutex);
    thread->ending = true;
    pthread_cond_broadcast(&thread->changed);
    pthread_mutex_unlock(&thread->mutex);
    if (mesh->overlaps) pthread_join(thread->thread, NULL);
    detail_message("buffer of exchanges: %zu bytes after %ld growths", mesh->staged_bytes,
                   mesh->growths);
    detail_message("%ld exchanges, %ld of them during computation: %.3f s, of which the program "
                   "waited for %.3f s",
                   thread->count, thread->early, thread->exchanged, thread->waited);
    pthread_mutex_destroy(&thread->mutex);
    pthread_cond_destroy(&thread->changed);
    free(thread);
    mesh->exchanges = NULL;
}
