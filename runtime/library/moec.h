/* moec: train, load, run, differentiate and generate with models and specs from C.
 *
 *     MoecModel *model;
 *     if (moec_load("run", NULL, &model) != 0) { fputs(moec_message(), stderr); exit(1); }
 *     char *text;
 *     moec_generate(model, "In the beginning", NULL, &text);
 *     puts(text);
 *     moec_release(text);
 *     moec_free(model);
 *
 * Errors: functions that can fail return 0, or 1 and a message that moec_message returns. They
 * check every argument: NULL, sizes, token numbers, ranges. A model that moec_free has received
 * must not be used again, nor its arrays. The process ends if it runs out of memory; no other error
 * ends it.
 *
 * Threads: any thread may call any function. Calls with different models run at the same time.
 * Calls with one model run one after the other. Results in memory of the model (moec_logits,
 * moec_array) are overwritten by the next call with this model from any thread. Threads that share
 * a model must hold their own lock from the call until they have read or copied the results.
 * Only one thread may call moec_free, after the last call of the others. Each call computes with
 * the OpenMP threads of its calling thread.
 *
 * Processes: after fork, the child may use the models of the parent and load others. The weights
 * are then separate copies. A model that another thread used during the fork returns an error in
 * the child.
 *
 * Versions: until version 1.0, releases with the same first two numbers have the same binary
 * interface, and the SONAME has both (libmoec.so.0.2). See runtime/CHANGELOG.md.
 *
 * Link with -lmoec. The first load of a program compiles it for this machine with the system's C
 * compiler (MOEC_CC) and stores it in $XDG_CACHE_HOME/moec.
 */
#ifndef MOEC_LIBRARY_H
#define MOEC_LIBRARY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct MoecModel MoecModel;

/* The version of the library, "0.2.0". */
const char *moec_version(void);

/* The messages of the last call of this thread, "" if it had none. Valid until its next call. */
const char *moec_message(void);

/* ---- models ---- */

/* Uses of a model; fewer uses load faster. */
enum { MOEC_CAN_RUN = 1, MOEC_CAN_TRAIN = 2, MOEC_CAN_GENERATE = 4 };

typedef struct MoecLoad {
    const char *spec;        /* text of a spec, instead of a path */
    const char *const *sets; /* "key=value": options of the model, as --set of the command */
    int set_count;
    int can;             /* sum of MOEC_CAN_...; 0: run and generate */
    long batch, context; /* sequences, tokens of each; 0: those of the spec */
    uint64_t seed;       /* of fresh weights, if there is no checkpoint */
    /* 1: training also computes the gradients of real inputs, as outputs "gradient:NAME" */
    int input_gradients;
    /* Name of a real input that the loss is linear in, sum[...] y[...] * dy[...]: the gradient of
     * the loss with respect to output y. Training then consists of moec_forward and moec_backward
     * and has no loss. NULL: none. */
    const char *cotangent;
} MoecLoad;

/* path: the folder of a run, a checkpoint, or a spec, FILE or FILE:MODEL. load: NULL for all
 * zeros. */
int moec_load(const char *path, const MoecLoad *load, MoecModel **model);
/* NULL is allowed. */
void moec_free(MoecModel *model);
/* The weights and the spec as a checkpoint, which every command reads. */
int moec_save(MoecModel *model, const char *path);

/* Sequences per call; tokens per sequence; vocabulary size. 0 if the model has none, or is NULL. */
long moec_batch(const MoecModel *model);
long moec_context(const MoecModel *model);
long moec_vocabulary(const MoecModel *model);
/* Micro-batches per optimizer step (train.gradient_accumulation_steps); 0 if the model cannot
 * train. */
long moec_accumulation(const MoecModel *model);

/* ---- tokens in, numbers out ---- */

/* tokens: [batch, context]; *logits: [batch, context, vocabulary], valid until the next call. */
int moec_logits(MoecModel *model, const int32_t *tokens, const float **logits);
/* windows: [batch, context + 1], each token with the next one. */
int moec_loss(MoecModel *model, const int32_t *windows, double *loss);
/* The same with the gradients of all parameters: MOEC_GRADIENT below. */
int moec_gradients(MoecModel *model, const int32_t *windows, double *loss);
/* One step of the optimizer of the spec, with its learning rate and clipping; `loss`, from before
 * the step, may be NULL. windows: [moec_accumulation, batch, context + 1]. */
int moec_step(MoecModel *model, const int32_t *windows, double *loss);

/* ---- arrays ---- */

typedef enum MoecKind {
    MOEC_WEIGHT,    /* as checkpoints name them; may be written to */
    MOEC_GRADIENT,  /* in the same order */
    MOEC_RUN_INPUT, /* of the graph that runs */
    MOEC_RUN_OUTPUT,
    MOEC_TRAIN_INPUT, /* of the graph that trains */
    MOEC_TRAIN_OUTPUT
} MoecKind;

enum { MOEC_RANK = 10 };

typedef struct MoecArray {
    const char *name, *axes; /* "block.0.attention.query", "dim,head,head_dim" */
    void *data;              /* float, or int32_t where is_int; row by row */
    int is_int, rank;
    long shape[MOEC_RANK];
} MoecArray;

int moec_count(const MoecModel *model, MoecKind kind);
int moec_array(MoecModel *model, MoecKind kind, int index, MoecArray *array);
/* Moves an input or output to memory of the caller, aligned to 4 bytes; NULL: back to memory of the
 * model. Functions with tokens as arguments move the inputs for tokens back. */
int moec_bind(MoecModel *model, MoecKind kind, int index, void *data);
/* Run the graph that runs, or the one that trains, on the values of its inputs. Gradients are those
 * of this call alone. seed: of dropout. */
int moec_run(MoecModel *model, uint64_t seed);
int moec_differentiate(MoecModel *model, uint64_t seed);

/* The two halves of moec_differentiate, for a model with a cotangent. The function `moec_forward`
 * computes the outputs of the model, which are among those of training. The function
 * `moec_backward` computes the gradients. It reads the cotangent, and the inputs and outputs of
 * moec_forward at the same addresses. The argument `tape` is memory of the caller of
 * moec_tape_bytes bytes, aligned to 64 bytes, for the values that moec_backward reads and
 * overwrites. With other tapes, other calls may run between the two. */
size_t moec_tape_bytes(const MoecModel *model);
int moec_forward(MoecModel *model, uint64_t seed, void *tape);
int moec_backward(MoecModel *model, uint64_t seed, void *tape);

/* ---- training runs ---- */

/* State of a run after an optimizer step. */
typedef struct MoecProgress {
    long step, steps; /* steps done, and planned */
    double loss;      /* training loss before the update in nats/token; its mean over the step */
    double grad_norm; /* global gradient norm before clipping */
    double lr;        /* learning rate of the step */
    double val_loss;  /* of the last evaluation in nats/token; NaN before the first one */
    int evaluated;    /* 1: val_loss was computed after this step */
} MoecProgress;

typedef struct MoecTraining {
    const char *spec;        /* text of a spec, instead of a path */
    const char *const *sets; /* "key=value", as in MoecLoad */
    int set_count;
    const char *data;      /* training data: text, token files, examples, as --data */
    const char *val_data;  /* validation data; NULL: the end of the training data */
    const char *tokenizer; /* path of a tokenizer.json; NULL: the tokens of a text are its bytes */
    const char *out;       /* run directory, which is created */
    const char *init_from; /* run or checkpoint with the initial weights; NULL: random weights */
    int init_missing;      /* 1: random initialization of parameters that init_from lacks */
    const char *device;    /* "cpu", "cuda" or "cuda:N"; NULL: "cpu" */
    long steps;            /* total number of optimizer steps; 0: train.steps of the spec */
    uint64_t seed;         /* of weights, data order and dropout, below 2^63; 0: train.seed */
    long stop_after;       /* step to stop after, as after on_step; 0: none */
    double diverged_above; /* loss above which the run fails; 0: none */
    int resume;            /* 1: continue from out/last.safetensors, if there is one */
    int tensorboard;       /* 1: also write the log for TensorBoard */
    /* Called after each step. A result other than 0 stops the run with a checkpoint. It may call
     * the functions of models, and no function that trains in the same run directory. NULL: not
     * called. */
    int (*on_step)(void *context, const MoecProgress *progress);
    void *context; /* of on_step */
} MoecTraining;

/* Trains a model as `moec train` does, with the same losses and files (runtime/FILES.md): the
 * directory `out` receives last.safetensors, best.safetensors, log.jsonl and run.json, and
 * moec_load(out, ...) loads the result. path: a spec, FILE or FILE:MODEL; NULL with the member
 * `spec`. The members data and out are required.
 *
 * Returns 0 after the last step, after stop_after, or after on_step has stopped the run; `resume`
 * continues a stopped run. Returns 1 for wrong arguments, a spec with errors, data that does not
 * fit, a directory that already contains a run, and for a loss, gradient or weight that is not
 * finite. The last checkpoint is then unchanged. The message names the flags of `moec train`. It
 * contains notes also after a result of 0: for example a spec that has changed since the start of
 * a resumed run. */
int moec_train(const char *path, const MoecTraining *training);

/* ---- text ---- */

typedef struct MoecGeneration {
    long tokens;              /* to make at most (default 256) */
    double temperature;       /* 0: the most likely */
    long top_k;               /* 0: all */
    double top_p;             /* 0: all */
    double min_p, repetition; /* 0: none */
    uint64_t seed;
    const char *stop; /* ends the text, or NULL */
    /* Called after each token of the prompt and of the text, with the new bytes of the text, often
     * none. A result other than 0 ends the text. It may use other models, but not this one. NULL:
     * not called. */
    int (*on_text)(void *context, const char *bytes, size_t length);
    void *context;  /* of on_text */
    int ignore_eos; /* special tokens, for example end of text, do not end the text */
} MoecGeneration;

/* The completion of the prompt with a final zero, for moec_release. on_text also reports zero bytes
 * within the text. how: NULL for zeros. */
int moec_generate(MoecModel *model, const char *prompt, const MoecGeneration *how, char **text);
/* The tokens of a text, for moec_release. */
int moec_encode(MoecModel *model, const char *text, size_t length, int32_t **tokens, size_t *count);
/* The text of tokens with a final zero, for moec_release. length: of the text in bytes, which may
 * contain zeros; may be NULL. */
int moec_decode(MoecModel *model, const int32_t *tokens, size_t count, char **text, size_t *length);
/* NULL is allowed. */
void moec_release(void *memory);

#ifdef __cplusplus
}
#endif

#endif
