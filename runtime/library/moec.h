/* moec: trained models and specs from C: load, run, differentiate, train, generate.
 *
 *     MoecModel *model;
 *     if (moec_load("run", NULL, &model) != 0) { fputs(moec_message(), stderr); exit(1); }
 *     char *text;
 *     moec_generate(model, "In the beginning", NULL, &text);
 *     puts(text);
 *     moec_release(text);
 *     moec_free(model);
 *
 * Functions that can fail return 0, or 1 after which moec_message() says why. Memory that cannot be
 * had ends the process, as does nothing else. One model is used by one thread at a time; several
 * models by several. What is computed runs on OpenMP's threads.
 *
 * Link with -lmoec. The program is compiled for this machine when it is loaded for the first time,
 * by the system's C compiler (MOEC_CC), and kept in $XDG_CACHE_HOME/moec.
 */
#ifndef MOEC_LIBRARY_H
#define MOEC_LIBRARY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct MoecModel MoecModel;

/* What the last call of this thread that failed has to say: lines of text, "" at the beginning. */
const char *moec_message(void);

/* ---- models ---- */

/* What a model is to do; the fewer, the sooner it is loaded. */
enum { MOEC_CAN_RUN = 1, MOEC_CAN_TRAIN = 2, MOEC_CAN_GENERATE = 4 };

typedef struct MoecLoad {
    const char *spec;        /* text of a spec, instead of a path */
    const char *const *sets; /* "key=value": options of the model, as --set of the command */
    int set_count;
    int can;             /* of MOEC_CAN_...; 0: run and generate */
    long batch, context; /* sequences, tokens of each; 0: as the spec says */
    uint64_t seed;       /* of fresh weights, where no checkpoint gives them */
    int input_gradients; /* training gives those of real inputs, too: outputs "gradient:NAME" */
    /* A real input that the loss is linear in, sum[...] y[...] * dy[...]: what comes back to an
     * output. Training then is moec_forward and moec_backward, and has no loss. NULL: none. */
    const char *cotangent;
} MoecLoad;

/* path: the folder of a run, a checkpoint, or a spec, FILE or FILE:MODEL. load: NULL for all
 * zeros. */
int moec_load(const char *path, const MoecLoad *load, MoecModel **model);
void moec_free(MoecModel *model);
/* The weights and the spec as a checkpoint, which every command reads. */
int moec_save(MoecModel *model, const char *path);

/* Sequences of a call, tokens of each, how many there are; 0 where a model has none. */
long moec_batch(const MoecModel *model);
long moec_context(const MoecModel *model);
long moec_vocabulary(const MoecModel *model);

/* ---- tokens in, numbers out ---- */

/* tokens: [batch, context]; *logits: [batch, context, vocabulary], valid until the next call. */
int moec_logits(MoecModel *model, const int32_t *tokens, const float **logits);
/* windows: [batch, context + 1], each token with the one after it. */
int moec_loss(MoecModel *model, const int32_t *windows, double *loss);
/* The same with the gradients of all parameters: MOEC_GRADIENT below. */
int moec_gradients(MoecModel *model, const int32_t *windows, double *loss);
/* One step of the optimizer of the spec, its learning rate and clipping included; `loss`, of before
 * the step, may be NULL. windows: train.accumulate of the above, one after the other. */
int moec_step(MoecModel *model, const int32_t *windows, double *loss);

/* ---- arrays, where they lie ---- */

typedef enum MoecKind {
    MOEC_WEIGHT,    /* as checkpoints name them; may be written to */
    MOEC_GRADIENT,  /* in the same order */
    MOEC_RUN_INPUT, /* of the graph that runs */
    MOEC_RUN_OUTPUT,
    MOEC_TRAIN_INPUT, /* of the graph that trains */
    MOEC_TRAIN_OUTPUT
} MoecKind;

enum { MOEC_RANK = 8 };

typedef struct MoecArray {
    const char *name, *axes; /* "block.0.attention.query", "dim,head,head_dim" */
    void *data;              /* float, or int32_t where is_int; row by row */
    int is_int, rank;
    long shape[MOEC_RANK];
} MoecArray;

int moec_count(const MoecModel *model, MoecKind kind);
int moec_array(MoecModel *model, MoecKind kind, int place, MoecArray *array);
/* From now on an input or output lies at `data`, which is the caller's; NULL: where it was. */
int moec_bind(MoecModel *model, MoecKind kind, int place, void *data);
/* Runs the graph that runs, or trains, on what its inputs hold. Gradients are those of this call
 * alone. seed: of dropout. */
int moec_run(MoecModel *model, uint64_t seed);
int moec_differentiate(MoecModel *model, uint64_t seed);

/* The two halves of that, for a model with a cotangent: the first gives the outputs of the model,
 * which are among those of training, the second the gradients, with the cotangent at hand and
 * inputs and outputs where and as they were. tape: memory of the caller, moec_tape_bytes at a
 * multiple of 64, for what is kept from one to the other; with other tapes
 * others may be under way between them. moec_backward leaves nothing in it. */
size_t moec_tape_bytes(const MoecModel *model);
int moec_forward(MoecModel *model, uint64_t seed, void *tape);
int moec_backward(MoecModel *model, uint64_t seed, void *tape);

/* ---- text ---- */

typedef struct MoecGeneration {
    long tokens;              /* to make at most (default 256) */
    double temperature;       /* 0: the most likely */
    long top_k;               /* 0: all */
    double top_p;             /* 0: all */
    double min_p, repetition; /* 0: none */
    uint64_t seed;
    const char *stop; /* ends the text, or NULL */
} MoecGeneration;

/* What comes after the prompt, ended by a zero; to be released. how: NULL for zeros. */
int moec_generate(MoecModel *model, const char *prompt, const MoecGeneration *how, char **text);
/* The tokens of a text, to be released; and back. */
int moec_encode(MoecModel *model, const char *text, size_t length, int32_t **tokens, size_t *count);
int moec_decode(MoecModel *model, const int32_t *tokens, size_t count, char **text);
void moec_release(void *memory);

#ifdef __cplusplus
}
#endif

#endif
