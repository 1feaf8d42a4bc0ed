/* library: the model of moec.h and the frame of every call.
 *
 * A call is a function on a Request. The function `library_run` collects its messages, switches
 * this thread to the C locale and, in a forked child, moves to a thread with its own OpenMP
 * threads. `library_call` also holds the lock of the model. */
#ifndef LIBRARY_H
#define LIBRARY_H

#include "library/moec.h"
#include "moec.h"
#include "model/decoder.h"
#include "base/text_list.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"
#include "training/checkpoint.h"
#include "training/step.h"

#include <math.h>
#include <pthread.h>

struct MoecModel {
    pthread_mutex_t lock; /* held during each call; error-checking */
    bool busy;            /* a call runs; protected by the lock */
    bool broken;          /* the process was forked during a call of another thread */
    MoecModel *next;      /* in the list of all models */
    MoecCompiler *compiler;
    Safetensors *file;
    Tokenizer *tokenizer; /* NULL: tokens are bytes */
    Model *model;
    Call *run, *train; /* NULL: not loaded */
    bool split;        /* training is moec_forward and moec_backward */
    Decoder *decoder;
    Settings settings;
    Stepper stepper;
    long step;
    long length;      /* maximum number of tokens of a text */
    int32_t *windows; /* samples of moec_logits, which have no next tokens */
};

/* The arguments of a call; each call reads the members that it has. */
typedef struct Request {
    MoecModel *model;
    const char *text; /* path, prompt or text */
    size_t count;     /* bytes of the text, or number of tokens */
    const MoecLoad *load;
    const MoecGeneration *how;
    const MoecTraining *training;
    const int32_t *tokens;
    MoecKind kind;
    int index;
    uint64_t seed;
    MoecPart part;
    void *data;     /* a tape, or the memory of moec_bind */
    void *result;   /* address of the result */
    size_t *length; /* address of the length of the result, or NULL */
} Request;

typedef bool Work(const Request *request);

/* Both return 0, or 1 after a message that moec_message returns to this thread. */
int library_run(Work *work, const Request *request);
int library_call(Work *work, const Request *request);

/* Initialize the lock and add the model to the list of all models; remove it again. */
void library_add(MoecModel *model);
void library_remove(MoecModel *model);

/* The options of a model: "key=value" texts. False after a message if one is NULL or there are too
 * many. */
bool library_sets(const char *const *sets, int count, TextList *list);
/* Opens a spec or run by path, or the text of a spec. NULL after a message. */
MoecCompiler *library_spec(const char *path, const char *text, const TextList *sets);

/* False after a message that names the argument if the pointer is NULL. */
bool library_given(const void *pointer, const char *argument);
/* False after a message if one of the tokens is negative or not below the limit; a limit of 0 is no
 * limit. */
bool library_tokens(const int32_t *tokens, size_t count, long limit);

#endif
