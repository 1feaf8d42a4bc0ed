/* checkpoint: a training run as one safetensors file: weights by public name, states of layers,
 * "optimizer.STATE:NAME", and as notes the spec with everything it uses, the tokenizer, the step,
 * the position in the data, the seed and the best loss. All random numbers are functions of seed
 * and step, so these are the state of the random numbers, too. */
#ifndef CHECKPOINT_H
#define CHECKPOINT_H

#include "model/model.h"
#include "tokenizer/tokenizer.h"

typedef struct Place {
    long step;         /* steps done */
    uint64_t position; /* windows of the data read */
    uint64_t seed;
    uint64_t tokens; /* the data had */
    double best;     /* lowest validation loss so far; infinite before the first */
} Place;

/* Texts that travel with the weights. */
typedef struct Companions {
    const char *tokenizer; /* its tokenizer.json, or NULL */
    json_t *files; /* "file:NAME": the text of that file of the folder it came from; or NULL */
} Companions;

/* optimizer: with all that is needed to go on; without, weights and states only. False after a
 * message. */
bool checkpoint_write(const char *path, const Model *model, const char *bundle,
                      const Companions *companions, const Place *place, bool optimizer);
/* The notes of a checkpoint, but for the axes. */
void checkpoint_note(json_t *notes, const char *model, const char *bundle,
                     const Companions *companions, const Place *place);
/* The files among the notes: a new object. */
json_t *checkpoint_files(const Safetensors *file);
/* The text of one, or NULL. */
const char *checkpoint_file(const Safetensors *file, const char *name);
/* The tokenizer that a checkpoint holds. False after a message; *tokenizer NULL: it holds none. */
bool checkpoint_tokenizer(const Safetensors *file, Tokenizer **tokenizer);
/* The notes as a place; false after a message when one is not there or not as it was written. */
bool checkpoint_place(const Safetensors *file, Place *place);
/* The step of a checkpoint; 0 of fresh weights, which have none. */
long checkpoint_step(const Safetensors *file);
/* The best checkpoint of a folder, else the last: a new string, or NULL. */
char *checkpoint_path(const char *folder);
/* Whether a folder holds one. */
bool checkpoint_within(const char *folder);
/* A checkpoint by the name of a run's folder (its best, else its last) or of the file itself. NULL
 * after a message. */
Safetensors *checkpoint_open(const char *operand);
/* The compiler with the spec that the checkpoint holds. NULL after the reports were printed. */
MoecCompiler *checkpoint_spec(const Safetensors *file, const char *const *sets, int set_count);
/* The same without printing reports; NULL only when the file holds no spec, after a message. */
MoecCompiler *checkpoint_spec_quietly(const Safetensors *file, const char *const *sets,
                                      int set_count);
/* Reads a checkpoint of a run back as every command does: checksum, notes, tokenizer and spec.
 * False after a message. */
bool checkpoint_readable(const char *path);

#endif
