/* frame: messages, locks, locale and fork safety of the calls of libmoec.
 *
 * Fork: the OpenMP threads of the forking thread do not exist in the child, and the next parallel
 * region would wait for them forever. A new thread has its own OpenMP threads. In a child, the
 * thread that called fork therefore runs every call in a new thread.
 */
#include "library/library.h"

#include "base/message.h"
#include "base/build.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STACK_BYTES = 16 << 20 };

static pthread_once_t prepared = PTHREAD_ONCE_INIT;
static pthread_key_t message_key; /* the message of each thread, freed with the thread */
static bool has_message_key;
static locale_t c_locale;

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static MoecModel *models;
/* This thread called fork and runs in the child. */
static _Thread_local bool is_forked;

/* ---- fork ---- */

static void init_lock(pthread_mutex_t *lock) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

static void before_fork(void) {
    pthread_mutex_lock(&list_lock);
}

static void after_fork_in_parent(void) {
    pthread_mutex_unlock(&list_lock);
}

/* The threads that held locks do not exist in the child. A call that one of them had started never
 * ends, and its model is in an unknown state. */
static void after_fork_in_child(void) {
    is_forked = true;
    for (MoecModel *model = models; model; model = model->next) {
        if (model->busy) model->broken = true;
        model->busy = false;
        init_lock(&model->lock);
    }
    pthread_mutex_unlock(&list_lock);
}

/* When the library is loaded, so that a model that is first loaded in a child works as well. */
__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

void library_add(MoecModel *model) {
    init_lock(&model->lock);
    pthread_mutex_lock(&list_lock);
    model->next = models;
    models = model;
    pthread_mutex_unlock(&list_lock);
}

void library_remove(MoecModel *model) {
    pthread_mutex_lock(&list_lock);
    MoecModel **link = &models;
    while (*link && *link != model) link = &(*link)->next;
    if (*link) *link = model->next;
    pthread_mutex_unlock(&list_lock);
    pthread_mutex_destroy(&model->lock);
}

/* ---- messages ---- */

static void prepare_process(void) {
    has_message_key = pthread_key_create(&message_key, free) == 0;
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

const char *moec_version(void) {
    return MOEC_VERSION;
}

const char *moec_message(void) {
    pthread_once(&prepared, prepare_process);
    const char *text = has_message_key ? pthread_getspecific(message_key) : NULL;
    return text ? text : "";
}

static void keep_message(char *text) {
    char *before = has_message_key ? pthread_getspecific(message_key) : NULL;
    if (has_message_key && pthread_setspecific(message_key, text) == 0)
        free(before);
    else
        free(text);
}

/* ---- calls ---- */

typedef struct LibraryFrame {
    Work *work;
    const Request *request;
    FILE *messages;
    bool locks; /* the call holds the lock of its model */
    bool good;
} LibraryFrame;

static bool work_locked(Work *work, const Request *request) {
    MoecModel *model = request->model;
    if (!library_given(model, "model")) return false;
    if (pthread_mutex_lock(&model->lock) == EDEADLK)
        return error_message("call it after moec_generate has returned",
                             "the callback on_text cannot call a function with the same model");
    bool good = false;
    if (model->broken) {
        error_message("load the model again in this process",
                      "the process was forked while another thread used this model");
    } else {
        model->busy = true;
        good = work(request);
        model->busy = false;
    }
    pthread_mutex_unlock(&model->lock);
    return good;
}

/* Numbers in specs and in generated programs have a decimal point in every locale of the caller. A
 * callback may call the library, so the settings of the outer call are restored. */
static void *perform(void *data) {
    LibraryFrame *frame = data;
    FILE *before = message_to(frame->messages);
    locale_t locale = c_locale ? uselocale(c_locale) : (locale_t)0;
    frame->good =
        frame->locks ? work_locked(frame->work, frame->request) : frame->work(frame->request);
    if (locale) uselocale(locale);
    message_to(before);
    return NULL;
}

static void perform_in_thread(LibraryFrame *frame) {
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    int failed = pthread_create(&thread, &attributes, perform, frame);
    pthread_attr_destroy(&attributes);
    if (!failed) {
        pthread_join(thread, NULL);
        return;
    }
    FILE *before = message_to(frame->messages);
    frame->good = error_message("raise the limit of processes: ulimit -u",
                                "cannot start a thread: %s", strerror(failed));
    message_to(before);
}

static int run_locked(LibraryFrame frame) {
    char *text = NULL;
    size_t length;
    pthread_once(&prepared, prepare_process);
    frame.messages = open_memstream(&text, &length);
    if (is_forked)
        perform_in_thread(&frame);
    else
        perform(&frame);
    if (frame.messages) fclose(frame.messages);
    keep_message(text);
    return frame.good ? 0 : 1;
}

int library_run(Work *work, const Request *request) {
    return run_locked((LibraryFrame){.work = work, .request = request});
}

int library_call(Work *work, const Request *request) {
    return run_locked((LibraryFrame){.work = work, .request = request, .locks = true});
}

/* ---- arguments ---- */

bool library_given(const void *pointer, const char *argument) {
    return pointer || error_message(NULL, "the argument '%s' is NULL", argument);
}

bool library_tokens(const int32_t *tokens, size_t count, long limit) {
    if (count && !library_given(tokens, "tokens")) return false;
    for (size_t i = 0; i < count; i++)
        if (tokens[i] < 0 || (limit && tokens[i] >= limit))
            return limit ? error_message(NULL, "token %zu is %d: expected 0 to %ld", i,
                                         (int)tokens[i], limit - 1)
                         : error_message(NULL, "token %zu is %d: expected 0 or more", i,
                                         (int)tokens[i]);
    return true;
}
