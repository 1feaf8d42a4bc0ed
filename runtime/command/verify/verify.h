/* verify: what the parts of `moec verify` share. */
#ifndef VERIFY_H
#define VERIFY_H

#include "command/spec.h"
#include "model/call.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { NAME_BYTES = 160 };
/* Ways to round the device's program, then as many to round the model's. */
enum { EACH = 4, WAYS = 2 * EACH };
/* Runs with every value off, by so much: four roundings of f32, one of bf16. */
enum { NOISES = 6 };

typedef enum Kind { OUTPUTS, GRADIENTS, STATES, DECODING, KINDS } Kind;

/* The tensor of a kind that comes nearest to its limit. */
typedef struct Worst {
    char name[NAME_BYTES];
    double error, reference, limit;
    int count; /* tensors of this kind */
} Worst;

/* A tensor that is off, and that rounding alone moves as far. */
typedef struct Undecided {
    char name[NAME_BYTES];
    Kind kind;
    double error, moved;
} Undecided;

/* Sizes at which a model is compared. */
typedef struct VerifyShape {
    long batch, context;
    const char *set;    /* another setting, "train.places=16", or NULL */
    const char *source; /* of the sizes, " (from train)"; "" without a note */
    bool asked;         /* --batch-size or --context-length was given: there is no limit of time */
} VerifyShape;

typedef struct Comparison {
    const char *operand;
    const TextList *sets; /* those of the shape included */
    VerifyShape shape;
    double seconds; /* limit of the interpreter for this shape */
    Device *device;
    MoecCompiler *compiler;
    MoecCompiler *meaning;    /* of the programs that are interpreted, while a graph is compared */
    MoecProgram *programs[2]; /* of the graph: as defined, and as rounded; NULL until needed */
    Model *model;
    float *states; /* those of the layers, as they are before a graph runs */
    uint64_t seed;
    long context;
    bool rounded;         /* products of bf16 */
    bool smaller_weights; /* the graphs that train nothing read bf16 or int8 weights */
    bool *forms; /* by number of moec_form_names: some graph has the form; NULL: not asked */
    /* of the graph that is being compared; round: NULL in f32, and where no more were needed */
    MoecInterpreter *exact, *round[WAYS];
    MoecInterpreter *noise[NOISES]; /* of the same; NULL until something is off */
    MoecGraph graph;
    const Call *call;
    double scale; /* least norm that an error is relative to */
    Worst worst[KINDS];
    Undecided *undecided;
    int undecided_count;
} Comparison;

/* What a device gave for the first `count` numbers of tensor `of`, which has `whole`. */
typedef struct Sample {
    const char *name, *of;
    size_t count, whole;
    const float *given;
} Sample;

/* Squares of norms: of the definition, of what rounding alone, noise and the device are off by. */
typedef struct Squares {
    double exact, round[WAYS], noise[NOISES], given;
    bool many; /* so many numbers that no single one decides */
    bool kept; /* of steps whose caches round what they keep */
} Squares;

/* ---- definition.c ---- */

/* Weights and states from the seed, the same on both sides. */
bool verify_set_weights(Comparison *comparison);
/* Inputs from the seed: windows of tokens, anything else by itself. */
void verify_set_inputs(const Comparison *comparison, Call *call);
/* Makes this the current graph, without results so far. A graph that was compared before keeps its
 * programs until verify_end. */
void verify_begin(Comparison *comparison, MoecGraph graph, const Call *call);
/* Frees the interpreters and programs of the current graph. */
void verify_end(Comparison *comparison);
/* The exact interpreter and the first `each` ways of either program run once with the inputs of the
 * call; those that there are go on. False after a message. */
bool verify_evaluate(Comparison *comparison, int each);
/* Ways to round that were not needed so far run as well; true if there were some. */
bool verify_round_all(Comparison *comparison);
/* Runs of the graph at hand with every value off. Choices are free in f32, where a tie may go
 * either way; with rounded products they were clear. */
void verify_make_noise(Comparison *comparison);
/* No choice is turned over by rounding, nor comes near to it: a device rounds the same numbers, and
 * its own sums move a choice far less than that. */
bool verify_choices_are_clear(const Comparison *comparison);

/* ---- graphs.c ---- */

/* Compare the forward pass and decoding, or training, with the first seed from `seed` on whose
 * selections are clear; the weights stay. False after a message. */
bool verify_forward(Comparison *comparison, long seed);
bool verify_training(Comparison *comparison);

/* ---- verify_shapes.c ---- */

enum { SHAPE_LIMIT = 24 };

/* Lists the shapes that reach every form of the model: returns their count. */
int verify_shapes(MoecCompiler *compiler, VerifyShape *shapes);
/* Whether the interpreter can run the shape in the memory of the machine and, unless the user asked
 * for it, within the limit of time. Otherwise *problem and *help are new strings: the reason, and
 * the command to type. */
bool verify_fits(const Comparison *comparison, char **problem, char **help);

/* ---- verdict.c ---- */

/* False when the definition has no such tensor. */
bool verify_measure(const Comparison *comparison, const Sample *sample, Squares *squares);
void verify_judge_squares(Comparison *comparison, Kind kind, const char *name,
                          const Squares *squares);
void verify_judge(Comparison *comparison, Kind kind, const Sample *sample);
void verify_judge_outputs(Comparison *comparison, const Call *call);
/* Single ones can be next to nothing beside the others, and are then held against a share of the
 * largest. */
void verify_judge_gradients(Comparison *comparison);
void verify_judge_states(Comparison *comparison);
bool verify_agrees(const Comparison *comparison);
/* A line for a shape that was not compared, as text or as an element of `json`. */
void verify_print_skipped(const Comparison *comparison, const char *problem, json_t *json);
/* The report as text, or appended to the array `json` where that is not NULL. */
void verify_print(const Comparison *comparison, json_t *json);

#endif
