/* verify: declarations of the parts of `moec verify`. */
#ifndef VERIFY_H
#define VERIFY_H

#include "training/spec.h"
#include "model/call.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { NAME_BYTES = 160 };
/* Ways to round the device's program, then as many to round the model's. */
enum { EACH = 4, WAYS = 2 * EACH };
/* Runs with perturbed values: by four roundings of f32, or one of bf16. */
enum { NOISES = 6 };

typedef enum DeviationKind { OUTPUTS, GRADIENTS, STATES, DECODING, KINDS } DeviationKind;

/* The tensor of a kind that is nearest to its limit. */
typedef struct Worst {
    char name[NAME_BYTES];
    double error, reference, limit;
    int count; /* tensors of this kind */
} Worst;

/* The first tensor of the program that is beyond its limit, with --bisect. */
typedef struct FirstDifference {
    Worst worst; /* name "": none */
    const char *file;
    int line;
    char element[NAME_BYTES]; /* that differs most: "0,3,5" */
    double given, exact;
} FirstDifference;

/* A tensor beyond its limit that rounding alone changes as much. */
typedef struct Undecided {
    char name[NAME_BYTES];
    DeviationKind kind;
    double error, moved;
} Undecided;

/* Sizes at which a model is compared. */
typedef struct VerifyShape {
    long batch, context;
    const char *set;    /* another setting, "train.scan_chunk_size=16", or NULL */
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
    /* the variant that MOEC_VARIANT forces, or NULL; kernels launched in it, and without it */
    const char *variant;
    int variant_launched, variant_missing;
    bool bisect;
    FirstDifference first;
    Undecided *undecided;
    int undecided_count;
} Comparison;

/* Values of a device for the first `count` of `whole` elements of tensor `of`. */
typedef struct Sample {
    const char *name, *of;
    size_t count, whole;
    const float *given;
} Sample;

/* Squared norms: of the definition, and of the deviations by rounding, noise and the device. */
typedef struct Squares {
    double exact, round[WAYS], noise[NOISES], given;
    bool many; /* enough elements that no single one decides */
    bool kept; /* of steps with rounded KV caches */
} Squares;

/* ---- definition.c ---- */

/* Makes later programs of a compiler return every tensor that the spec names. */
void verify_observe(const Comparison *comparison, MoecCompiler *compiler);
/* Weights and states from the seed, the same on both sides. */
bool verify_set_weights(Comparison *comparison);
/* Inputs from the seed: windows of tokens, anything else by itself. */
void verify_set_inputs(const Comparison *comparison, Call *call);
/* Makes this the current graph, without results so far. A graph that was compared before keeps its
 * programs until verify_end. */
void verify_begin(Comparison *comparison, MoecGraph graph, const Call *call);
/* Frees the interpreters and programs of the current graph. */
void verify_end(Comparison *comparison);
/* Runs the exact interpreter and the first `each` ways of both programs once with the inputs of the
 * call; existing interpreters continue. False after a message. */
bool verify_evaluate(Comparison *comparison, int each);
/* Runs the remaining ways to round; true if there were some. */
bool verify_round_all(Comparison *comparison);
/* Runs the current graph with perturbed values. Selections are free in f32, where a tie can be
 * decided either way; with rounded products they were clear. */
void verify_make_noise(Comparison *comparison);
/* The same for the next step of decoding: existing interpreters continue. */
void verify_continue_noise(Comparison *comparison);
/* Whether rounding changes no selection, with a margin. A device rounds the same numbers, and its
 * order of summation has a far smaller effect. */
bool verify_choices_are_clear(const Comparison *comparison);

/* ---- graphs.c ---- */

/* Compare the forward pass and decoding, or training, with the first seed from `seed` on whose
 * selections are clear; the weights stay. False after a message. */
bool verify_refinement(Comparison *comparison); /* true without one */
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

/* ---- verify_mesh.c ---- */

/* Compares the local programs of a mesh, "data=2", with the global program. comparison: the model,
 * its shape and its limit of time. */
bool verify_mesh(const Comparison *comparison, const char *mesh, long seed, json_t *json);

/* ---- bisect.c ---- */

/* Finds the first difference among the outputs of a call, unless there is one already. */
void bisect_outputs(Comparison *comparison, const Call *call);
void bisect_print(const Comparison *comparison);
json_t *bisect_json(const Comparison *comparison);

/* ---- verdict.c ---- */

/* False when the definition has no such tensor. */
bool verify_measure(const Comparison *comparison, const Sample *sample, Squares *squares);
/* Whether the deviation exceeds its limit, without regard to noise. */
bool verify_is_off(const Comparison *comparison, DeviationKind kind, const Squares *squares);
void verify_judge_squares(Comparison *comparison, DeviationKind kind, const char *name,
                          const Squares *squares);
void verify_judge(Comparison *comparison, DeviationKind kind, const Sample *sample);
/* Whether it is beyond its limit and rounding alone does not move it as far. *found: how far. */
bool verify_differs(Comparison *comparison, DeviationKind kind, const Sample *sample, Worst *found);
void verify_judge_outputs(Comparison *comparison, const Call *call);
/* A gradient that is negligible compared with the others is compared with a fraction of the largest
 * one. */
void verify_judge_gradients(Comparison *comparison);
void verify_judge_states(Comparison *comparison);
bool verify_agrees(const Comparison *comparison);
/* A line for a shape that was not compared, as text or as an element of `json`. */
void verify_print_skipped(const Comparison *comparison, const char *problem, json_t *json);
/* The report as text, or appended to the array `json` where that is not NULL. */
void verify_print(const Comparison *comparison, json_t *json);

#endif
