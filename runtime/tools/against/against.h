/* against: foreign code compared with the definition of a layer or a model. */
#ifndef AGAINST_H
#define AGAINST_H

#include "base/text_list.h"
#include "device/device.h"
#include "library/moec_against.h"
#include "model/model.h"
#include "moec.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- against.c ---- */

/* Kernels of a layer of an open spec, as the code: see extern_check.c. */
typedef struct AgainstExtern {
    MoecCompiler *compiler;
    const MoecExtern *forward, *gradient; /* gradient: or NULL */
    Device *device;                       /* of a GPU kernel; NULL: it is in a shared library */
} AgainstExtern;

typedef struct AgainstOptions {
    const AgainstExtern *external; /* or NULL */
    const char *title;             /* of an extern, in messages */
    const char *operand;           /* FILE, FILE:MODEL, FILE:LAYER, or a standard layer */
    const char *code;              /* FILE.py:NAME or FILE.so:NAME */
    const char *device;            /* of the code: "cpu", "cuda" */
    const char *dtypes;            /* "f32,bf16" */
    const char *sizes;             /* of axes: "d=64,h=4", or NULL */
    const char *inputs;            /* domains of inputs: "ids=4,beta=0..1", or NULL */
    long batch, context;           /* 0: several */
    long seed;
    const TextList *sets;
} AgainstOptions;

/* Compares and prints; false after a message, or if they differ. json: receives the report; NULL:
 * it is printed as text. */
bool against_compare(const AgainstOptions *options, json_t *json);

/* ---- subject.c: the definition ---- */

typedef struct AgainstPlan AgainstPlan;

typedef enum AgainstRole {
    AGAINST_ARGUMENT,
    AGAINST_PARAMETER,
    AGAINST_STATE,
    AGAINST_RESULT, /* with a cotangent in the loss of a layer */
    AGAINST_TERM    /* one number of the loss: an auxiliary loss; the loss of a model */
} AgainstRole;

enum { AGAINST_RANK = 8 };

typedef struct AgainstTensor {
    AgainstRole role;
    char *name;       /* for the user and the code: "x", "expert.up" */
    char *path;       /* its value in the interpreter */
    char *gradient;   /* NULL: it has none */
    const char *spec; /* its name in the spec; a result: NULL if it is not known */
    const char *axes; /* "batch,s,d" */
    const char *file; /* of the equation that computes it or reads it first; NULL: unknown */
    int line;
    int rank;
    long shape[AGAINST_RANK];
    size_t count;
    bool integer;
    long limit; /* integers below it */
    int init;   /* parameters: as in MoecTensorInfo */
    double a, b;
} AgainstTensor;

/* A layer in a model that is made for it, or a model. */
typedef struct AgainstSubject {
    const AgainstOptions *options;
    const AgainstPlan *plan; /* its domains are read */
    char *title;             /* "attention" */
    char *text;              /* the spec with the model around a layer; NULL: a model */
    char *path, *model;
    int line; /* of the layer, or 0 */
} AgainstSubject;

/* The definition at one shape. */
typedef struct AgainstShape {
    long batch, context;
    MoecCompiler *compiler;
    MoecProgram *train, *forward; /* forward: of a model, for its outputs; else NULL */
    AgainstTensor *tensors;
    int count;
} AgainstShape;

/* False after a message. */
bool subject_open(AgainstSubject *subject);
void subject_free(AgainstSubject *subject);
bool subject_shape(const AgainstSubject *subject, long batch, long context, AgainstShape *shape);
void subject_shape_free(AgainstShape *shape);
/* The wrapped layer of an extern: sets the sizes of its options. False after a message. */
bool subject_open_extern(AgainstSubject *subject, AgainstOptions *options);
/* Finds the equation that computes a result, or that reads an argument or a parameter first. */
void subject_locate(const AgainstSubject *subject, const AgainstShape *shape,
                    AgainstTensor *tensor);
bool tensor_is_given(const AgainstTensor *tensor);
/* "router [16,8]": a new string. */
char *against_tensor_text(const char *name, int rank, const long *shape);

/* ---- domains.c, cases.c: precisions, shapes, values ---- */

typedef enum AgainstType { AGAINST_F32, AGAINST_BF16, AGAINST_F64, AGAINST_TYPES } AgainstType;
extern const char *const against_type_names[AGAINST_TYPES];

typedef enum AgainstKind {
    KIND_RANDOM,
    KIND_POSITIVE,
    KIND_LARGE,
    KIND_TINY,
    KIND_TIES,
    KIND_ROWS,
    KIND_ZEROS,
    AGAINST_KINDS
} AgainstKind;
extern const char *const against_kind_names[AGAINST_KINDS];

/* Values of the code for all results, then for all gradients, in the order of the tensors. */
typedef struct AgainstAnswer {
    double **results, **gradients; /* by tensor; NULL: none */
    bool *missing;                 /* gradients that the code returns as none */
    char *note;                    /* gradients: the reason why there are none, or NULL */
} AgainstAnswer;

typedef struct AgainstCase {
    AgainstShape *shape;
    AgainstType type;
    AgainstKind kind;
    uint64_t seed;
    double **values; /* by tensor: given values, and cotangents of the results of a layer */
    AgainstAnswer first, second; /* of two calls; second: NULL if it is equal */
    bool repeats;                /* both calls returned the same bits */
} AgainstCase;

/* The domain of an input: "ids=4". */
typedef struct AgainstDomain {
    char name[64];
    bool documents; /* document ids: integers that do not decrease */
    long integers;  /* below this number, or 0 */
    double low, high;
} AgainstDomain;
enum { DOMAIN_LIMIT = 32 };

struct AgainstPlan {
    AgainstShape *shapes;
    int shape_count;
    AgainstCase *cases;
    int case_count;
    AgainstDomain domains[DOMAIN_LIMIT];
    int domain_count;
    bool types[AGAINST_TYPES];
    int skipped; /* shapes that cost too much in the interpreter */
};

/* Unit roundoff: half the distance from 1 to the next number. */
double against_roundoff(AgainstType type);
/* Domains and types of the command line; false after a message. */
bool plan_read(AgainstPlan *plan, const AgainstOptions *options);
bool plan_make(AgainstPlan *plan, const AgainstSubject *subject);
void plan_free(AgainstPlan *plan);
const AgainstDomain *plan_domain(const AgainstPlan *plan, const char *name);

/* ---- client.c: the process that runs the code ---- */

typedef struct AgainstClient {
    const AgainstExtern *device; /* a GPU kernel, which this process runs; or NULL */
    pid_t process;
    int to, from;
    double limit;      /* seconds until an answer */
    char *name;        /* as the user typed it */
    json_t *described; /* its answer to the first message */
} AgainstClient;

/* Starts it; false after a message. */
bool client_open(AgainstClient *client, const AgainstOptions *options);
void client_close(AgainstClient *client);
/* Sends the options of the spec and receives the description; false after a message. */
bool client_describe(AgainstClient *client, json_t *options);
/* A tensor of a description or an answer, {"name", "shape"}: "y [2,17,16]", a new string. */
char *described_text(const json_t *described);
bool has_described_shape(const AgainstTensor *tensor, const json_t *described);
/* The index of the given tensor or result with that name (NULL: none), or -1. */
int tensor_called(const AgainstShape *shape, const char *name, bool given);
/* Runs the code on a case; false after a message. */
bool client_run(AgainstClient *client, const AgainstCase *one, AgainstAnswer *answer);
void answer_free(AgainstAnswer *answer, int count);

/* Runs all cases twice; false after a message. */
bool against_run_cases(AgainstPlan *plan, AgainstClient *client);

/* ---- messages.c ---- */

/* Messages between the processes; NULL or false when the other one has ended. */
bool against_send(int to, const json_t *message);
json_t *against_receive(int from);
bool against_send_values(int to, const double *values, size_t count);
bool against_receive_values(int from, double *values, size_t count);

/* ---- shared_object.c: a shared library in the child process ---- */

/* Serves the messages until their end. external: the functions of the library; NULL: the function
 * `name`. Returns the exit code. */
int library_serve(const char *path, const char *name, const AgainstExtern *external, int from,
                  int to);

/* ---- extern_check.c, extern_library.c, extern_device.c ---- */

/* Compares the hand-written kernels that the programs call with the equations: see
 * model_compare_externs. */
ExternCheck externs_check(Device *device, MoecCompiler *compiler, MoecProgram *const *programs,
                          int count);
/* From now on agreements of earlier processes do not count. */
void externs_compare_again(void);

/* A path as a string of C: a new string. */
char *extern_path_literal(const char *path);
/* Builds a shared library of the functions; false after a message. */
bool extern_library_build(const AgainstExtern *external, const char *folder, const char *output);
/* The functions of the library as one of this interface; NULL: it lacks one. */
MoecAgainstFunction *extern_library_function(const AgainstExtern *external, void *library);
/* Compiles the kernels of a GPU; runs them on a case; false after a message. One that runs longer
 * than so many seconds ends this process after a message. */
bool extern_device_build(const AgainstExtern *external);
bool extern_device_run(const AgainstExtern *external, const AgainstCase *one, AgainstAnswer *answer,
                       double seconds);
/* A product at other sizes: the rows, then the sizes of the function. */
long extern_product_size(const MoecExternProduct *product, const long *numbers);
/* Floats. */
long extern_workspace_size(const MoecExtern *external, const long *numbers);

/* ---- sides.c ---- */

/* Whether each tensor of the spec has its argument or parameter; false after a message with both
 * sides. */
bool against_match(const AgainstClient *client, const AgainstSubject *subject,
                   const AgainstShape *shape);

/* ---- bounds.c ---- */

typedef struct AgainstDifference {
    const AgainstTensor *tensor;
    bool gradient, missing, again; /* again: in the second call only */
    size_t first, count;           /* elements beyond their bound */
    double given, exact, bound;    /* of the first one */
} AgainstDifference;

typedef struct AgainstVerdict {
    AgainstDifference *differences;
    int difference_count;
    double worst; /* error by bound, of all elements within */
    const AgainstTensor *worst_tensor;
    bool worst_gradient;
    size_t elements, undecided;
    bool gradients; /* were compared */
} AgainstVerdict;

/* Runs the definition, with and without perturbations; false after a message. */
bool judge_case(const AgainstCase *one, AgainstVerdict *verdict);

/* ---- report.c ---- */

typedef struct AgainstReport {
    const AgainstOptions *options;
    const AgainstSubject *subject;
    const AgainstPlan *plan;
    const AgainstVerdict *verdicts; /* by case */
} AgainstReport;

/* "0,3": a new string. */
char *element_index_text(const AgainstTensor *tensor, size_t element);
/* Prints the report, or fills `json`; true if the code agrees. */
bool report_print(const AgainstReport *report, json_t *json);

#endif
