/* worker: the thread that runs the model: texts that wait, batches of them, several batches in
 * turns, so that a new text need not wait for the end of long ones. */
#ifndef SERVER_WORKER_H
#define SERVER_WORKER_H

#include "tools/server/request.h"

typedef struct Worker Worker;

/* wake: called, under the lock, for the connection of a request that has news. NULL after a
 * message. The model stays the caller's. */
Worker *worker_start(Service *service, Model *model, void (*wake)(void *connection));
/* Requests that are not finished are ended with a problem. */
void worker_stop(Worker *worker);
/* Waits until nobody uses it. */
void worker_free(Worker *worker);

/* Adds a request to the queue and a reference to it; sets *problem if the queue is full. */
bool worker_submit(Worker *worker, Request *request, Problem *problem);
/* Lock for data shared with the worker. */
void worker_lock(Worker *worker);
void worker_unlock(Worker *worker);
/* Lets a request go; the last of its holders frees it. */
void worker_release(Worker *worker, Request *request);

#endif
