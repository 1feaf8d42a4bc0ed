/* verify: what the parts of `moec verify` share. */
#ifndef VERIFY_H
#define VERIFY_H

#include "command/arguments.h"
#include "model/call.h"

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

typedef struct Comparison {
    Device *device;
    MoecCompiler *compiler;
    Model *model;
    float *states; /* those of the layers, as they are before a graph runs */
    uint64_t seed;
    long context;
    bool rounded;
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
/* The graph at hand is this one, and nothing of it has been evaluated; call: NULL at the end. */
void verify_begin(Comparison *comparison, MoecGraph graph, const Call *call);
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
void verify_print(const Comparison *comparison, bool json);

#endif
