/* checkpoint: a training run as one safetensors file. Tensors: weights by public name, layer
 * states, optimizer states "optimizer.STATE:NAME". Notes: the spec with all files it uses,
 * tokenizer, step, position in the data, seed, best loss. All random numbers are functions of seed
 * and step, so these notes also restore the random state. */
#ifndef CHECKPOINT_H
#define CHECKPOINT_H

#include "model/model.h"
#include "tokenizer/tokenizer.h"

typedef struct TrainState {
    long step;         /* steps done */
    uint64_t position; /* number of samples read from the data */
    uint64_t seed;
    uint64_t tokens; /* size of the data in tokens */
    double best;     /* lowest validation loss so far; infinite before the first */
    uint64_t lanes;  /* of gradient_sum.h; 0 or 1: one */
} TrainState;

/* Texts stored with the weights. */
typedef struct Companions {
    const char *tokenizer; /* its tokenizer.json, or NULL */
    json_t *files;         /* "file:NAME": text of that file in the imported folder; or NULL */
} Companions;

/* optimizer: also write the state for resuming; otherwise weights and states only. False after a
 * message. */
bool checkpoint_write(const char *path, const Model *model, const char *bundle,
                      const Companions *companions, const TrainState *place, bool optimizer);
/* Adds the notes of a checkpoint, except for the axes. */
void checkpoint_note(json_t *notes, const char *model, const char *bundle,
                     const Companions *companions, const TrainState *place);
/* The text of one, or NULL. */
const char *checkpoint_file(const Safetensors *file, const char *name);
/* The tokenizer of a checkpoint. False after a message; *tokenizer == NULL: it has none. */
bool checkpoint_tokenizer(const Safetensors *file, Tokenizer **tokenizer);
/* Reads the notes into `*place`; false after a message if one is missing or malformed. */
bool checkpoint_place(const Safetensors *file, TrainState *place);
/* The kernel choices of a checkpoint for Device.choices, or NULL; the caller owns them. */
json_t *checkpoint_choices(const Safetensors *file);
/* The step of a checkpoint; 0 of fresh weights, which have none. */
long checkpoint_step(const Safetensors *file);
/* The best checkpoint of a folder, else the last: a new string, or NULL. */
char *checkpoint_path(const char *folder);
/* True if a folder contains a checkpoint. */
bool checkpoint_within(const char *folder);
/* Opens a checkpoint by run directory (best, else last) or file path. NULL after a message. */
Safetensors *checkpoint_open(const char *operand);
/* The compiler with the spec of the checkpoint. NULL after the diagnostics were printed. */
MoecCompiler *checkpoint_spec(const Safetensors *file, const char *const *sets, int set_count);
/* The same without printing diagnostics; NULL only if the file contains no spec, after a
 * message. */
MoecCompiler *checkpoint_spec_quietly(const Safetensors *file, const char *const *sets,
                                      int set_count);
/* Verifies a written checkpoint by reading it as commands do: checksum, notes, tokenizer and spec.
 * False after a message. */
bool checkpoint_readable(const char *path);

#endif
