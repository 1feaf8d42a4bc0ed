/* moec: the compiler as a library. Input: text. Output: checked programs, costs and C text. It
 * opens no device and reads no weights.
 *
 *     MoecCompiler *compiler = moec_open("model.moe", NULL, NULL, 0, NULL);
 *     if (moec_failed(compiler)) fputs(moec_reports(compiler), stderr);
 *     ...
 *     moec_close(compiler);
 *
 * No function exits or prints. Returned strings and structs belong to the compiler and live until
 * moec_close.
 */
#ifndef MOEC_H
#define MOEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct MoecCompiler MoecCompiler;
typedef struct Program MoecProgram;
typedef struct Target MoecTarget;

/* MOEC_MEASURE: MOEC_FORWARD with an output "nats", the negative log-likelihood of each token,
 * instead of the large outputs. MOEC_STEP: optimizer updates that need whole matrices; emitted with
 * MOEC_UPDATE if there are any. MOEC_GATHER: see moec_gathers. MOEC_REFINE: see moec_refines.
 * MOEC_PREPARE: part of MOEC_DECODE, not compiled alone. */
typedef enum MoecGraph {
    MOEC_FORWARD,
    MOEC_TRAIN,
    MOEC_DECODE,
    MOEC_UPDATE,
    MOEC_MEASURE,
    MOEC_STEP,
    MOEC_GATHER,
    MOEC_REFINE,
    MOEC_PREPARE
} MoecGraph;

/* Reads FILE and the files that it uses. model: NULL selects the only or the last model of the
 * file. search: more folders for `use`, separated by colons, or NULL. sets: "key=value" texts.
 * Errors are collected: see moec_failed. */
MoecCompiler *moec_open(const char *file, const char *model, const char *const *sets, int set_count,
                        const char *search);
/* The same from a spec that was saved with moec_bundle (checkpoints). */
MoecCompiler *moec_open_bundle(const char *bundle, size_t length, const char *const *sets,
                               int set_count);
/* A model of `text` that can apply the layers of an open spec. */
MoecCompiler *moec_open_beside(MoecCompiler *compiler, const char *text, const char *model);
/* Whether two specs train the same model with the same train options. Names of options and files
 * may differ. Options that only one of the specs has are not compared. */
bool moec_same_training(MoecCompiler *then, MoecCompiler *now);
/* The same as moec_open_bundle for moec_log_name alone. */
MoecCompiler *moec_open_names(const char *bundle);
/* The current form of a name in a log of this model: the standard library renames probes. `name`
 * itself if there is no other. */
const char *moec_log_name(MoecCompiler *compiler, const char *name);
void moec_close(MoecCompiler *compiler);

bool moec_failed(const MoecCompiler *compiler);
const char *moec_reports(MoecCompiler *compiler);      /* as text with carets */
const char *moec_reports_json(MoecCompiler *compiler); /* a JSON array */
/* Warnings as text or as a JSON array; "" and [] without warnings. */
const char *moec_warnings(MoecCompiler *compiler);
const char *moec_warnings_json(MoecCompiler *compiler);

/* A file of a spec; in an editor, as shown there. */
typedef struct MoecDocument {
    const char *path, *text;
    size_t length;
} MoecDocument;

typedef enum MoecTransferForm {
    MOEC_TRANSFER_FACTORS, /* table: learning rate, initialization, multiplier */
    MOEC_TRANSFER_JSON,
    MOEC_TRANSFER_FORMULAS /* every setting with its value and formula */
} MoecTransferForm;
/* Settings of each parameter that the transfer of the model derives; NULL without a transfer. */
const char *moec_transfer(MoecCompiler *compiler, MoecTransferForm form);
/* Adds the activations of the model to the outputs of later MOEC_FORWARD programs. Each has the
 * name of the weight that produces it; inside a repeat its first axis is the iteration. */
void moec_observe(MoecCompiler *compiler);
/* Adds the sum over the rows of x x^T to these outputs, for the inputs x of each product with a
 * matrix. It has the name of the matrix and the shape [instances, k, k]. */
void moec_observe_hessians(MoecCompiler *compiler);
/* Later MOEC_FORWARD programs return the results of the layers that are applied to parameters, with
 * the names of these parameters, and nothing else. */
void moec_observe_applied(MoecCompiler *compiler);
/* "parameters=[...]", the setting without these layers; NULL: the model applies none. */
const char *moec_without_layers(const MoecCompiler *compiler);
/* False after a report that it applies one; run: for the help line. */
bool moec_stores_weights(MoecCompiler *compiler, const char *run);
/* Adds the tensor with that name in the spec, "block.{i}.attention.q", to the outputs of later
 * MOEC_FORWARD and MOEC_TRAIN programs, before the declared ones and in the order of
 * computation. */
void moec_observe_name(MoecCompiler *compiler, const char *name);
/* A tensor that an equation computes. */
typedef struct MoecSpecTensor {
    const char *name; /* "block.{i}.attention.q" inside of a repeat */
    const char *axes; /* "batch=2,s=16,d=64", without the iterations */
    bool part;        /* a part of an equation, without a name in the spec */
    const char *file; /* its equation; NULL: none */
    int line;
} MoecSpecTensor;
const MoecSpecTensor *moec_spec_tensors(MoecCompiler *compiler, long batch, long context,
                                        int *count);
/* The first equation that reads an input or a parameter with that name; false: none does. */
bool moec_first_reader(MoecCompiler *compiler, const char *name, const char **file, int *line);
/* Enables expensive probes (condition "probing") in later MOEC_MEASURE programs. */
void moec_probe(MoecCompiler *compiler);
/* Adds the output "proposals" of the spec, tokens that follow the most likely one (condition
 * "speculating"), to later MOEC_DECODE programs, if it has one. */
void moec_speculate(MoecCompiler *compiler);
/* Whether the spec refines inputs. MOEC_REFINE is one refinement: each refined input has an output
 * of its name, its next value, and an input "NAME.given", 1 for elements that the caller sets. It
 * has no other outputs. */
bool moec_refines(const MoecCompiler *compiler);
/* Adds the gradients of real inputs, "gradient:NAME", to the outputs of later MOEC_TRAIN programs,
 * before all other outputs. */
void moec_differentiate_inputs(MoecCompiler *compiler);
/* Splits later MOEC_TRAIN programs into two phases (MoecRun.part). The first does not need the real
 * input `name`, in which the loss is linear; the second needs it and includes the gradients. The
 * outputs of the model come before all others. The loss, which has no meaning for an unset input,
 * is not an output, and nothing scales it. */
void moec_split_training(MoecCompiler *compiler, const char *name);
/* Later C for the host marks the end of each unit of work: see MoecHost.mark. */
void moec_mark_units(MoecCompiler *compiler);
/* True if some states are means over all micro-batches of a step. MOEC_GATHER returns the values of
 * one micro-batch, named after these states. The caller stores their means in the states before
 * MOEC_TRAIN processes the first micro-batch. */
bool moec_gathers(const MoecCompiler *compiler);
/* True if values of the model depend on the context length, not only on the positions so far, such
 * as rotary embeddings that change with it. */
bool moec_reads_length(const MoecCompiler *compiler);
const char *moec_model(const MoecCompiler *compiler);
/* A text that reopens the same model without its files: all sources and overrides. */
const char *moec_bundle(MoecCompiler *compiler);
/* True if the text of a --set, "train.steps=20" or "train={steps=20}", sets that option. */
bool moec_sets(const char *set, const char *path);
/* The resolved value of an option, "train.lr"; NULL if the model has no such option. */
const char *moec_option(MoecCompiler *compiler, const char *path);
/* All resolved options, including those of layers, as a JSON object of texts by path, "train.lr":
 * "0.003", in the order of resolution. Options that nothing reads under the current settings are
 * left out. */
const char *moec_options_json(MoecCompiler *compiler);
/* True if matrix products are in bf16 or in a smaller format (train.precision). */
bool moec_rounded(MoecCompiler *compiler);
/* The same in 4 bits or fewer: a small change of a parameter seldom changes a result. */
bool moec_rounded_coarsely(MoecCompiler *compiler);
double moec_option_number(MoecCompiler *compiler, const char *path, double otherwise);
/* True if the option accepts any number, not only integers. */
bool moec_option_real(MoecCompiler *compiler, const char *path);
/* The first stages of a training run (train.stages), whose steps have settings of their own. */
typedef struct MoecStage {
    long steps;                      /* of the stage */
    long batch, context, accumulate; /* sequences, tokens per sequence, micro-batches */
} MoecStage;
const MoecStage *moec_stages(MoecCompiler *compiler, int *count);
/* A parameter with a row per position, as a learned position embedding has; NULL: none. */
const char *moec_learned_positions(MoecCompiler *compiler);
/* Programs compiled from now on share weights with training: inference.weight_dtype has no effect
 * on them. */
void moec_trains(MoecCompiler *compiler);

/* Hand-written kernels of layers: `extern c "norm.c:norm"`. Programs compiled from now on call
 * those for this target, "c" or "cuda"; NULL, the initial state: they compute the equations alone.
 * True if a layer of the spec has one. */
bool moec_use_externs(MoecCompiler *compiler, const char *target);
/* The size of an axis: dimension `back` before the end of operand `operand`, inputs first. */
typedef struct MoecExternSize {
    const char *name;
    int operand, back;
    long size;
} MoecExternSize;
/* A number times sizes, by number. */
typedef struct MoecExternProduct {
    long factor;
    const int *sizes;
    int count;
} MoecExternProduct;
/* A kernel that a program calls at these sizes. Its function receives the rows, the sizes, the
 * inputs and the outputs; one of gradients the inputs, the gradients of the outputs, and those of
 * the real inputs, which it writes. The workspace is last. */
typedef struct MoecExtern {
    const char *name, *function; /* "norm.c:norm", "norm" */
    const char *path, *text;     /* of its file */
    const char *emitted;         /* its name in a standalone folder */
    const char *spec;            /* file with the statement */
    int line;                    /* of the statement */
    const char *equation;        /* file:line of the equation of the first result */
    const char *layer;
    const char *const *options; /* of the layer, "eps=1e-06" */
    int option_count;
    const char *types, *parameters;             /* of the function, without and with names */
    const char *const *inputs, *const *outputs; /* names in the spec */
    const bool *integers;                       /* by input */
    int input_count, output_count;
    bool gradient; /* computes the gradients of the inputs from those of the outputs */
    int forward;   /* gradient: the number of the other one */
    long rows;     /* the product of the dimensions before the named ones */
    int named;     /* dimensions of the first input */
    const MoecExternSize *sizes;
    int size_count;
    /* per row: thread blocks of a GPU; floats of the workspace, 0: none */
    MoecExternProduct blocks, workspace;
    long threads, shared; /* GPU: of a block; bytes */
    const void *key;      /* for moec_refuse_extern */
} MoecExtern;
/* Those of a program, each once for its sizes. */
const MoecExtern *moec_externs(MoecCompiler *compiler, MoecProgram *program, int *count);
/* Programs compiled from now on do not call it. */
void moec_refuse_extern(MoecCompiler *compiler, const MoecExtern *external);
/* The programs that call the function of an `extern` statement. */
typedef struct MoecExternUse {
    const char *target, *name, *spec; /* "c", "norm.c:norm", file with the statement */
    int line;
    const char *declaration; /* of the function; NULL: no program calls it */
    const char *programs;    /* that call it: "forward, training, decoding" */
    const char *reason;      /* why others compute the equations, or NULL */
} MoecExternUse;
/* All `extern` statements of the spec; NULL after an error. */
const MoecExternUse *moec_extern_uses(MoecCompiler *compiler, int *count);
/* The files of hand-written kernels that the spec names; their text is a string. */
const MoecDocument *moec_extern_files(MoecCompiler *compiler, int *count);
/* Compiles one graph with all machine-independent passes. batch and context <= 0 use the values of
 * the spec. tokens: new tokens per decode step. Returns NULL after an error (see moec_reports). */
MoecProgram *moec_compile(MoecCompiler *compiler, MoecGraph graph, long batch, long context,
                          long tokens);
/* Compiles the definition for the interpreter: recurrences are sequential. */
MoecProgram *moec_define(MoecCompiler *compiler, MoecGraph graph, long batch, long context,
                         long tokens);
/* Names of the program forms that the passes can produce. */
const char *const *moec_form_names(MoecCompiler *compiler, int *count);
/* The forms that the program has, in the same order. Lowers it for the CPU unless moec_lower has
 * been called. NULL after an error. */
const bool *moec_forms(MoecCompiler *compiler, MoecProgram *program);
/* Scan chunk size of a forward or training program; 1: all recurrences are sequential, 0: there are
 * none. */
long moec_scan_chunk(const MoecProgram *program);
/* Positions from which recurrences are chunked, and rows from which large temporaries are
 * strip-mined, if the spec sets neither. */
typedef struct MoecThresholds {
    long scan_positions, strip_rows;
} MoecThresholds;
MoecThresholds moec_thresholds(void);
/* The machine of a target language: "c" is the CPU, "cuda" the GPU; NULL: another name. */
const MoecTarget *moec_target(const char *language);
/* The program as text after a pass ("elaborate", "gradient", ..., "emit"); for a GPU if only GPUs
 * have the pass. NULL if there is no such pass. */
const char *moec_dump(MoecCompiler *compiler, MoecGraph graph, const char *pass,
                      const MoecTarget *target);
const char *const *moec_passes(int *count);
/* The wall-clock time of a pass in all programs of a compiler so far. */
typedef struct MoecPassTime {
    const char *name;
    int runs;
    double seconds;
} MoecPassTime;
const MoecPassTime *moec_pass_times(MoecCompiler *compiler, int *count);
/* Lowers the program for a machine, including its bf16 storage. The emitters call it. */
void moec_lower(MoecCompiler *compiler, MoecProgram *program, const MoecTarget *target);
/* Bytes of weights that one run reads, each counted once: selected weights by their fraction,
 * lookup tables by the rows read. */
double moec_weight_traffic(MoecProgram *program);
/* Bytes of caches that a decoding step reads for all its sequences at position `position`: growing
 * caches up to their fill level, windows and states in full. */
double moec_cache_traffic(MoecProgram *step, long position);
/* C text that exports `const MoecTable moec_table` (runtime/abi/abi.h) with these graphs. */
const char *moec_emit_c(MoecCompiler *compiler, MoecProgram *const *programs, int count,
                        bool standalone);
/* A parameter or layer state that a freestanding program reads, in the order of its memory. */
typedef struct MoecStored {
    const char *name, *axes;
    bool is_state;   /* of a layer */
    int type;        /* of MoecType */
    size_t from;     /* index of the first f32 number in the weights, or in the states */
    size_t at;       /* index of its first element among those of its type */
    size_t elements; /* of quantized types, structures; without a rest to 16 */
} MoecStored;

/* An array of the copies of weights in one type. */
typedef struct MoecStoredArray {
    const char *structure, *name;
    int type;               /* of MoecType */
    size_t bytes, elements; /* bytes of an element */
} MoecStoredArray;
enum { MOEC_STORED_ARRAYS = 8 };

/* A decoding program in C99 that needs no library and no memory but its state. */
typedef struct MoecFreestanding {
    const char *text; /* functions, from the sizes to run_decode; see plain_model.c */
    const MoecStored *stored;
    int stored_count;
    size_t floats; /* in f32 */
    MoecStoredArray copies[MOEC_STORED_ARRAYS];
    long vocabulary, context;
    size_t cache_bytes, arena_bytes; /* of the state */
    size_t local_bytes;              /* of the arrays of a kernel: the largest sum of one kernel */
    int products, kernels;
} MoecFreestanding;

/* The decoding program of one sequence and one token; NULL after an error. */
const MoecFreestanding *moec_emit_freestanding(MoecCompiler *compiler, MoecProgram *program);

/* A piece of a kernel text: from the end of the previous piece, or the beginning, to its own end.
 * Each variant of a kernel is one piece. */
enum { MOEC_EVERY_KERNEL = -1 };
typedef struct MoecPiece {
    int kernel;   /* number in MoecTable.kernels; MOEC_EVERY_KERNEL: shared by all kernels */
    size_t end;   /* in bytes of the whole text */
    bool foreign; /* written by hand: it does not wait for the previous launch, see moec_begin */
} MoecPiece;

/* CUDA text that includes "kernels.cuh"; standalone text also includes "fixed.cuh", whose kernels
 * are the same in every program. The kernels of any pieces can be compiled separately. */
typedef struct MoecKernels {
    const char *text;
    const MoecPiece *pieces;
    int count;
} MoecKernels;

/* Programs for a GPU as data, for an engine that executes step lists (runtime/abi/steps.h). It
 * outlives the compiler, except for the text of the kernels. */
typedef struct MoecSteps MoecSteps;
typedef struct MoecDeviceProgram {
    struct MoecTable *table; /* without functions */
    /* the host programs: by graph of the table; of the optimizer's launch and of the conversion of
       weights, or NULL: see compiler/module/lowered.h */
    const MoecSteps *const *graphs, *update, *round;
    MoecKernels kernels;
} MoecDeviceProgram;

/* NULL after an error. */
MoecDeviceProgram *moec_device_program(MoecCompiler *compiler, MoecProgram *const *programs,
                                       int count);
void moec_device_program_free(MoecDeviceProgram *program);
/* The factor of the learning rate at zero-based `step` of `steps`: MoecUpdate.rate. */
double moec_rate(const MoecDeviceProgram *program, double step, double steps);
/* Standalone programs for a GPU: C text that launches kernels, and the text of those kernels. */
const char *moec_emit_cuda(MoecCompiler *compiler, MoecProgram *const *programs, int count,
                           MoecKernels *kernels);
/* A model as the text of a PyTorch model for the transformers library. NULL after an error: the
 * model has equations that cannot be written. */
typedef struct MoecTorch {
    const char *modeling, *configuration; /* modeling_NAME.py, configuration_NAME.py */
    const char *class_name;               /* "Tiny" of TinyForCausalLM and TinyConfig */
    const char *options;                  /* of the spec, as a JSON object with numbers */
    long vocabulary, context;
    const char *arguments; /* of generate(): "ids, question=question" */
    const char *hindrance; /* the reason why it cannot decode, or NULL */
    bool by_training;      /* some equations, such as dropout, are not in it: training has them */
} MoecTorch;
const MoecTorch *moec_emit_torch(MoecCompiler *compiler);
/* The tensors of a program as in the table that it exports (runtime/abi/abi.h), for callers that
 * run it without its text (moec_interpreter) or not at all. Weights and states have the offsets of
 * this program alone; there are no functions, products and caches. */
typedef struct MoecTable MoecTable;
const MoecTable *moec_table(MoecCompiler *compiler, const MoecProgram *program);
/* The type of a parameter, such as "int4", if the program reads it in this type only; NULL if it
 * reads it in f32, or not at all. name: of the parameter in the table. */
const char *moec_weight_type(MoecProgram *program, const char *name);
/* The cost of the model as a JSON object: see README, moec check --json. */
const char *moec_cost_json(MoecCompiler *compiler);
const char *moec_cost_text(MoecCompiler *compiler);
/* Peak of a machine: FLOP/s and bytes of memory per second. */
typedef struct MoecCeilings {
    double products, memory;
} MoecCeilings;
typedef enum MoecExplainForm {
    MOEC_EXPLAIN_TEXT,
    MOEC_EXPLAIN_JSON,
    MOEC_EXPLAIN_SVG,
    MOEC_EXPLAIN_DOT
} MoecExplainForm;
/* Explains how the compiler executes a graph of the model: layers, fusion, bytes, FLOPs and lower
 * bound of the time per unit of work, memory over the step. NULL after an error. */
const char *moec_explain(MoecCompiler *compiler, MoecGraph graph, const MoecTarget *target,
                         MoecCeilings ceilings, MoecExplainForm form);
/* The mesh of the compiler, "data=4". data: the size of `data` if the text has none, or
 * "data=auto"; 0: as many processes as one group of the others. False after an error. */
typedef struct MoecMesh {
    long data, keys; /* keys: of the axis that divides parameters by the keys of rows */
} MoecMesh;
bool moec_set_mesh(MoecCompiler *compiler, const char *text, long data);
MoecMesh moec_mesh(MoecCompiler *compiler);
/* Programs that are compiled later are those of one process of the mesh. sharing: processes that
 * have the sequences of one micro-batch; the others have other micro-batches; 0: as many as in
 * training, see moec_sharing. */
void moec_divide(MoecCompiler *compiler, long sharing);
/* How many processes share the sequences of a micro-batch if a step has `parts` of them; 0: one
 * number does not divide the other. */
long moec_sharing(long parts, long processes);
/* Results of the local programs of all processes of the mesh, compared with those of the global
 * program, both in the interpreter: outputs, gradients, states. */
typedef struct MoecMeshReport {
    bool agrees;
    int processes, collectives; /* collectives: in the local program */
    int compared;               /* tensors */
    int amplified; /* those beyond the limit, but not beyond the effect of rounding errors */
    int noise_runs;
    double error;        /* the largest of the others, relative to the norm of the tensor */
    const char *worst;   /* this tensor */
    const char *message; /* why the programs did not run, or NULL */
} MoecMeshReport;
/* apart: of one group of processes that divide parameters, with a micro-batch each, as in training;
 * else the processes share the sequences of one. NULL after an error: the model cannot be
 * divided. */
const MoecMeshReport *moec_mesh_verify(MoecCompiler *compiler, MoecGraph graph, long batch,
                                       long context, bool apart, uint64_t seed);
/* The collectives of a process of the mesh: kind, runs per micro-batch, bytes, equation; the sums
 * of gradients at the end of a step. The processes share the micro-batches of a step if their
 * number divides them, else the sequences of a micro-batch: see moec_sharing. machine: a declared
 * one, for times and the units that compute meanwhile; or NULL. NULL after an error. */
const char *moec_mesh_explain(MoecCompiler *compiler, MoecGraph graph, const char *machine);
/* Predicted time and memory of a training step on each mesh of that many processes of a declared
 * machine, "h100", as text or JSON; those that cannot be used, with the reason. NULL after an
 * error: an unknown machine, sequences that cannot be distributed. */
const char *moec_plan(MoecCompiler *compiler, long processes, const char *machine, bool json);
/* The candidate most similar to a name that is not among them, or NULL if none is similar. */
const char *moec_nearest(const char *name, const char *const *candidates, int count);
/* Whether notes about deprecated names are printed on stderr; the initial state. */
void moec_print_notes(bool print);
/* The file in canonical format, or NULL with reports. */
const char *moec_format(MoecCompiler *compiler);

/* ---- for editors ---- */

/* Its text may differ from the file on disk. */
/* Reads documents[0]; the others replace the files with their paths. */
MoecCompiler *moec_open_document(const MoecDocument *documents, int count, const char *model,
                                 const char *search);
/* The models declared in the file itself, in order. */
const char *const *moec_models(MoecCompiler *compiler, int *count);

/* Describes the text at a byte offset of the file, as Markdown; NULL if it is unknown. */
const char *moec_hover(MoecCompiler *compiler, size_t offset);
/* Location of its declaration: bytes of a text, which belongs to the standard library if
 * `standard`. */
typedef struct MoecLocation {
    const char *path, *text;
    bool standard;
    size_t start, end;
} MoecLocation;
bool moec_definition(MoecCompiler *compiler, size_t offset, MoecLocation *location);
/* Possible completions at that offset. */
typedef enum MoecCompletionKind {
    MOEC_COMPLETES_OPTION,
    MOEC_COMPLETES_WORD,
    MOEC_COMPLETES_LAYER,
    MOEC_COMPLETES_TENSOR,
    MOEC_COMPLETES_FUNCTION,
    MOEC_COMPLETES_KEYWORD
} MoecCompletionKind;
typedef struct MoecCompletion {
    const char *label, *detail; /* detail: its declaration, or NULL */
    MoecCompletionKind kind;
} MoecCompletion;
const MoecCompletion *moec_complete(MoecCompiler *compiler, size_t offset, int *count);

/* ---- documentation of declarations ---- */

/* Reads the declarations of FILE and of the files that it uses, without a model; NULL: those of the
 * standard library. */
MoecCompiler *moec_open_declarations(const char *file, const char *search);
typedef enum MoecDocForm { MOEC_DOC_TEXT, MOEC_DOC_MARKDOWN, MOEC_DOC_JSON } MoecDocForm;
/* Describes a layer, optimizer, schedule, parametrization or builtin function, or an option
 * ("attention.window", "window"). The text form of a group ("layers", "optimizers", "schedules",
 * "parametrizations", "functions"; NULL: all groups) is a list. NULL: the name is unknown. */
const char *moec_doc(MoecCompiler *compiler, const char *name, MoecDocForm form);
/* True for a name like "E0136". */
bool moec_is_error_code(const char *name);
/* Describes an error code: form of the message, help, example. A new string; NULL: no message has
 * the code. */
char *moec_error_doc(const char *code, MoecDocForm form);
/* The known name that is nearest to an unknown one, or NULL. */
const char *moec_doc_nearest(MoecCompiler *compiler, const char *name);

/* ---- experiments ---- */

/* One model that an experiment compares: its model with `sets`, "key=value" texts. */
typedef struct MoecVariant {
    const char *name; /* valid as a folder name; the first is "base" */
    const char *const *sets;
    int set_count;
    const char *structure; /* the name without tuned options: only the best variant of each
                              structure counts */
    const char *tuned;     /* "train.lr = 1e-3", or NULL */
    const char *same;      /* an earlier variant that is the same model, or NULL */
    const char *solved;    /* the option value found by `match` and the remaining difference, or
                              NULL */
    double parameters, active, flops_train; /* flops: per token */
    bool rounded;                           /* trained in bf16 */
    double cache;                           /* bytes per token; 0 if the experiment does not use
                                               it */
    double nanoseconds;                     /* per token at peak speed; 0 if the experiment does not
                                               use it */
    double step_tokens;
    double steps, tokens; /* of one run */
    double disk;          /* bytes of the checkpoints of one run */
    uint64_t fingerprint; /* hash of the definition of the variant */
    const int *levels;    /* number of its value of each factor; NULL: none */
} MoecVariant;
/* An option that the variants of an experiment combine with others, or several that change
 * together. */
typedef struct MoecFactor {
    const char *name;
    const char *const *values;
    int count;
} MoecFactor;
/* How the differences of an experiment are tested. 0 or NULL: the default. */
typedef struct MoecStatistics {
    const char
        *correction;      /* of p-values for several comparisons: holm, benjamini_hochberg, none */
    double equivalence;   /* differences below it do not matter; in units of the metric */
    double detect, power; /* a difference to find, and the probability of finding it */
} MoecStatistics;
typedef struct MoecExperiment {
    const char *name, *base;
    const char *model; /* the model whose options the variants set: the baseline, or derived from
                          it */
    long seeds;
    const MoecVariant *variants;
    int count;
    const char *metric;     /* metric of the log; NULL: the loss */
    bool higher;            /* is better */
    const char *hypothesis; /* or NULL */
    MoecStatistics statistics;
    /* Options that the variants combine in all ways: at least two, or a ladder; else none. */
    const MoecFactor *factors;
    int factor_count;
    int ladder;             /* the factor that changes the size, or -1 */
    double limit;           /* of the loss: above it a run has diverged; 0: none */
    double seconds;         /* training time of each run, instead of a number of steps; 0: the steps
                           apply */
    const double *halvings; /* fractions of a run after which only the better half of the variants
                               continues */
    int halving_count;
} MoecExperiment;
/* Reads FILE for one of its experiments; NULL: the only or the last one. */
MoecCompiler *moec_open_experiment(const char *file, const char *experiment,
                                   const char *const *sets, int set_count, const char *search);
/* All variants, the baseline first; NULL after an error. */
const MoecExperiment *moec_expand(MoecCompiler *compiler);
/* True if every variant is a valid model and has the options that are set for equal sizes; solves
 * nothing. Errors are collected. */
bool moec_check_experiment(MoecCompiler *compiler);
/* The names of the experiments declared in the file itself. */
const char *const *moec_experiments(MoecCompiler *compiler, int *count);

/* ---- layouts: tensor and option names of other model families ---- */

/* One value of a configuration, "rope_parameters.rope_theta". */
typedef enum MoecPairKind {
    MOEC_PAIR_NONE, /* null */
    MOEC_PAIR_FLAG,
    MOEC_PAIR_NUMBER,
    MOEC_PAIR_TEXT,
    MOEC_PAIR_LIST, /* of texts, separated by newlines */
    MOEC_PAIR_OTHER /* text: as in the file */
} MoecPairKind;
typedef struct MoecPair {
    const char *key;
    MoecPairKind kind;
    double number; /* flag: 0 or 1 */
    const char *text;
    bool real;  /* any number, not only integers */
    bool least; /* a limit: it may be larger in the configuration of the family */
} MoecPair;

enum { MOEC_LAYOUT_RANK = 16 };
/* A tensor of moec with its name in files. */
typedef struct MoecNamedTensor {
    const char *name, *axes;
    int rank;
    const long *shape;
} MoecNamedTensor;
/* Elements of one moec tensor within one file tensor: theirs = factor * ours + shift, for all
 * values of `rank` indices; strides and offsets count elements. */
typedef struct MoecSlice {
    int tensor; /* index among the moec tensors of the call */
    double factor, shift;
    int rank;
    long size[MOEC_LAYOUT_RANK], their_step[MOEC_LAYOUT_RANK], our_step[MOEC_LAYOUT_RANK];
    long theirs, ours; /* offset of the first element */
} MoecSlice;
typedef struct MoecFileTensor {
    const char *name;
    const char *other_name; /* alternative name in some files; often the same */
    int rank;
    long shape[MOEC_LAYOUT_RANK];
    int slice_count;
    MoecSlice *slices;
} MoecFileTensor;

/* True if `use NAME` refers to a file of the standard library. */
bool moec_standard_file(const char *name);
/* The layouts of FILE and of the files that it uses; NULL: those of the standard library. */
MoecCompiler *moec_open_layouts(const char *file, const char *search);
const char *const *moec_layouts(MoecCompiler *layouts, int *count);
/* True if the file has layouts but neither models nor layers and must be opened with
 * moec_open_layouts. */
bool moec_only_layouts(const MoecCompiler *compiler);
/* Of the layouts whose first rule holds, the first one that knows most of the keys; NULL: none. */
const char *moec_layout_of(MoecCompiler *layouts, const MoecPair *pairs, int count);
/* The text of a file with a model of that name; NULL after an error. others: the keys that are
 * unknown to the layout. */
const char *moec_layout_spec(MoecCompiler *layouts, const char *layout, const char *name,
                             const MoecPair *pairs, int count, const char *const **others,
                             int *other_count);
/* The spec, a text with a model of that name, and the files that it uses outside of the standard
 * library, in the form that moec_open_bundle reads. */
const char *moec_layout_bundle(MoecCompiler *layouts, const char *name, const char *spec);
/* Those files; a new list in the memory of `layouts`. */
const MoecDocument *moec_layout_files(MoecCompiler *layouts, int *count);
/* True if a model, in a file with its name, can have this name: it is no keyword and no file of the
 * standard library or of the layouts has it. */
bool moec_layout_name(MoecCompiler *layouts, const char *name);
/* The configuration of a model in a layout; NULL after an error in the reports of `layouts`: the
 * family cannot represent the model. */
const MoecPair *moec_layout_pairs(MoecCompiler *layouts, const char *layout, MoecCompiler *model,
                                  int *count);
/* True if a key of the configuration does not affect the model. */
bool moec_layout_unread(MoecCompiler *layouts, const char *layout, const char *key);
/* The tensors of the family for those of a model; NULL after an error. */
const MoecFileTensor *const *moec_layout_tensors(MoecCompiler *layouts, const char *layout,
                                                 MoecCompiler *model,
                                                 const MoecNamedTensor *tensors, int tensor_count,
                                                 int *count);
/* True if files of the family may contain a tensor that does not affect the model. */
bool moec_layout_ignores(MoecCompiler *layouts, const char *layout, const char *name);

/* The reference interpreter: runs a program in double precision. Tensors have the names of its
 * table of parameters, inputs and outputs: parameter paths ("block.3.attention.query"), "gradient:"
 * + path, "input:" or "output:" + name, "scalar:" + name of an input that the runtime sets,
 * "cache:" + name. The prefix is optional if no parameter and no state has the name. */
typedef struct MoecInterpreter MoecInterpreter;
/* A tensor that decoding keeps between its steps. */
typedef struct MoecCacheTensor {
    MoecSpecTensor spec;    /* that it has values of; name: "key_rotary_y" if the spec has none */
    MoecNamedTensor stored; /* name: in the table of the program; with the iterations */
    const char *reference;  /* name of the interpreter */
} MoecCacheTensor;
const MoecCacheTensor *moec_cache_tensors(MoecCompiler *compiler, MoecProgram *program, int *count);
MoecInterpreter *moec_interpreter_new(MoecCompiler *compiler, MoecProgram *program);
/* Cost of one run: arithmetic operations and bytes of its tensors. */
typedef struct MoecInterpreterCost {
    double operations, bytes;
} MoecInterpreterCost;
MoecInterpreterCost moec_interpreter_cost(const MoecProgram *program);
bool moec_interpreter_set(MoecInterpreter *interpreter, const char *name, const double *values,
                          size_t count);
bool moec_interpreter_get(MoecInterpreter *interpreter, const char *name, double *values,
                          size_t count);
const char *moec_interpreter_run(MoecInterpreter *interpreter, uint64_t seed,
                                 bool last_micro_batch); /* NULL or a message */
/* Perturbs every value of later runs by up to `share` of itself, with numbers that depend on the
 * seed: the effect of rounding errors of that size. 0: exact again. */
void moec_interpreter_noise(MoecInterpreter *interpreter, double share, uint64_t seed);
/* The same for other code, which may compute a value in another way: every value has its own
 * perturbation. sums: the share of partial results of sums; code in bf16 adds in f32. */
void moec_interpreter_rounding(MoecInterpreter *interpreter, double share, double sums,
                               uint64_t seed);
/* Rounds every value of later runs to f32, as compiled programs do, and traces values that are not
 * finite. A run ends at a loss that is not finite. */
void moec_interpreter_trace(MoecInterpreter *interpreter);
/* The reason that the loss of the last run is not finite, or else a gradient or an output: notes
 * about the first such value, its equation and operands. NULL: all are finite. */
const char *moec_interpreter_fault(const MoecInterpreter *interpreter);
/* Rounds the operands of later products to bf16: 1 as a GPU does if the model asks for it; 2 and
 * up: other, equally accurate roundings. */
void moec_interpreter_rounded(MoecInterpreter *interpreter, int way);
/* True if a decoding step may differ from the same position of the full program: attention reads
 * the best values only, caches round, or the spec tests `decoding`. */
bool moec_step_differs(MoecProgram *step);
/* True if a decoding step can return to an earlier position: its caches are of all positions, or of
 * the window of an attention. */
bool moec_step_returns(const MoecProgram *step);
/* Makes later runs repeat the selections of the last run of `other` on the same graph. */
void moec_interpreter_follow(MoecInterpreter *interpreter, const MoecInterpreter *other);
/* Margins of the selections of the last run: the smallest selected value minus the largest other
 * value. */
const double *moec_interpreter_margins(const MoecInterpreter *interpreter, size_t *count);
/* True if a selection of positions in the last run had equal values at a selected position and at
 * another one: a program that rounds them in different ways selects others. */
bool moec_interpreter_is_tied(const MoecInterpreter *interpreter);
/* True if the comparisons that masks depend on have the same results in the last runs of two
 * interpreters of one program, with a margin: more than `share` of the largest deviation. */
bool moec_interpreter_decides_alike(const MoecInterpreter *one, const MoecInterpreter *other,
                                    double share);
void moec_interpreter_free(MoecInterpreter *interpreter);

#endif
