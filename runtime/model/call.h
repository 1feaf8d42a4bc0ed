/* call: one graph of a loaded program, ready to run, and the data for its inputs. */
#ifndef CALL_H
#define CALL_H

#include "data/data.h"
#include "model/model.h"

typedef struct Tokenizer Tokenizer;

/* call: a graph ready to run, with its inputs and outputs by name and its caches. */

typedef struct Call {
    Model *model;
    const MoecGraphEntry *graph;
    void **inputs;   /* by slot */
    float **outputs; /* by slot */
    /* The blocks of inputs and outputs: host blocks, and device blocks (`there`), identical on the
     * CPU. */
    unsigned char *input_block, *output_block, *input_block_there, *output_block_there;
    void **inputs_there;
    float **outputs_there;
    size_t input_bytes, output_bytes;
    size_t number_bytes; /* size of the outputs with one value, at the beginning of the block */
    float *cache;        /* in device memory */
    bool owns_cache;
    bool pinned; /* the output block on the host, see DeviceKind.pin */
    /* For a training graph in two phases: the phase that call_run executes. `arena` stores the
     * intermediate tensors between the phases, on the CPU only; NULL = arena of all graphs. */
    MoecPart part;
    unsigned char *arena;
    bool begins;  /* training graphs: overwrite the gradients instead of adding to them */
    size_t bytes; /* of inputs, outputs and cache */
} Call;

/* Opens a call. cache: the caches of another call with the same layout, or NULL for new ones. NULL
 * after a message. */
Call *call_open(Model *model, const MoecGraphEntry *graph, float *cache);
void call_close(Call *call);
AUTO_POINTER(Call, call_close)

/* Fills the inputs of kind token and next from samples of sequence + 1 tokens, `batch` of them. */
void call_set_windows(Call *call, const int32_t *windows);
/* Copies the inputs of another call of the same model by name. */
void call_share_inputs(Call *to, const Call *from);
/* Sets the graph->tokens new tokens of each row of a decoding step, and the token after each of
 * them. next: the one after the last of a row; -1: unknown. */
void call_set_tokens(Call *call, const int32_t *tokens, int32_t next);
/* Sets a scalar input; no effect if the graph does not read it. */
void call_set_scalar(Call *call, MoecScalar kind, double value);
bool call_has_scalar(const Call *call, MoecScalar kind);
/* The first input that is neither token, next nor scalar, or NULL. */
const MoecTensor *call_foreign_input(const Call *call);
/* The sequence length of the token input. */
long call_context(const Call *call);
/* Vocabulary size of the token input (0 = any value); 0 if there is none. */
long call_vocabulary(const Call *call);

/* Runs the graph; false after a device error, which was printed. If device memory is separate, the
 * caller fetches outputs with call_get. */
bool call_run(Call *call, uint64_t seed, bool last_micro_batch);
/* An output in host memory; NULL after a message. */
const float *call_get(Call *call, int slot);
/* Fetches all outputs of one value. */
bool call_get_numbers(Call *call);

/* The slot of an output by name, or -1. */
int call_output(const Call *call, const char *name);

/* refine: the iterated refinement of a model (MOEC_REFINE). */

typedef struct Refinement {
    long steps;
    uint64_t seed;
    double temperature;
} Refinement;

/* Refines the inputs of the call from their starting values; those whose "NAME.given" is 1 keep
 * their values. False after a message. */
bool refine_call(Call *call, const Refinement *refinement);

/* The program of one refinement; NULL after a message. */
Model *refining_model(Device *device, MoecCompiler *compiler, const Safetensors *weights,
                      long batch, long context);

/* examples: data for models with inputs other than one token sequence: a safetensors file with one
 * tensor per input of the model, under the name of the input. The first dimension is the example.
 *
 *     input image[n, p]: real      "image" [examples, n, p]
 *     input label: class           "label" [examples], whole numbers
 *     input question[m]: token     "question" [examples, m], where there is more than one text
 *
 * An example is one sample of the data: its inputs in slot order, one 32-bit word per value. */

/* Opens the data of `call`: an example file if it has inputs other than tokens, else tokens. NULL
 * after a message. */
Data *examples_open(const char *path, const Call *call);
/* 32-bit words per example; 0 for a call that reads tokens. */
long examples_words(const Call *call);
/* Fills the inputs with examples, one per sequence of the batch. */
void examples_set(Call *call, const int32_t *windows);

/* texts: training data with a tokenizer; text is tokenized first. */

/* As examples_open. tokenizer: NULL for a model without one, whose text is bytes. NULL after a
 * message. */
Data *texts_open(const char *path, const Tokenizer *tokenizer, const Call *call);
/* Whether the model knows all tokens; false after a message. */
bool texts_fit(const Tokenizer *tokenizer, long vocabulary);

#endif
