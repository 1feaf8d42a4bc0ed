/* moec: the compiler as a library. Text in, checked programs, costs and C text out; it opens no
 * device and reads no weights.
 *
 *     MoecCompiler *compiler = moec_open("model.moe", NULL, NULL, 0, NULL);
 *     if (moec_failed(compiler)) fputs(moec_reports(compiler), stderr);
 *     ...
 *     moec_close(compiler);
 *
 * Nothing exits or prints. Strings and structs that are returned belong to the compiler and live
 * until moec_close.
 */
#ifndef MOEC_H
#define MOEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct MoecCompiler MoecCompiler;
typedef struct Program MoecProgram;

/* MOEC_MEASURE: MOEC_FORWARD with an output "nats" instead of those of many numbers: of each token
 * how unlikely it was. MOEC_STEP: what optimizers do to parameters that they see as a whole; where
 * there are any, it is emitted with MOEC_UPDATE. MOEC_GATHER: see moec_gathers. */
typedef enum MoecGraph {
    MOEC_FORWARD,
    MOEC_TRAIN,
    MOEC_DECODE,
    MOEC_UPDATE,
    MOEC_MEASURE,
    MOEC_STEP,
    MOEC_GATHER
} MoecGraph;

/* Reads FILE and what it uses. model: NULL means the only or the last model of the file. search:
 * more folders for `use`, colon separated, or NULL. sets: "key=value" texts. Errors are collected:
 * see moec_failed. */
MoecCompiler *moec_open(const char *file, const char *model, const char *const *sets, int set_count,
                        const char *search);
/* The same from a spec that was saved with moec_bundle (checkpoints). */
MoecCompiler *moec_open_bundle(const char *bundle, size_t length, const char *const *sets,
                               int set_count);
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
/* What is likely not what was meant, and no error: text or a JSON array; "" and [] when nothing is.
 */
const char *moec_warnings(MoecCompiler *compiler);
const char *moec_warnings_json(MoecCompiler *compiler);

/* What each parameter gets by the transfer that the model names, as a table or as JSON; NULL when
 * it names none. */
const char *moec_transfer(MoecCompiler *compiler, bool json);
/* From now on MOEC_FORWARD has the activations of the model among its outputs, each under the name
 * of the weight that made it; those inside a repeat with the iteration as first axis. */
void moec_observe(MoecCompiler *compiler);
/* From now on "probing" holds in MOEC_MEASURE: what is too much to measure always is measured. */
void moec_probe(MoecCompiler *compiler);
/* From now on MOEC_TRAIN has the gradients of real inputs among its outputs, before all others:
 * "gradient:NAME". */
void moec_differentiate_inputs(MoecCompiler *compiler);
/* From now on MOEC_TRAIN comes in two parts (MoecRun.part): what needs nothing of the real input
 * `name`, which the loss is linear in, and all that does, gradients among it. The outputs of the
 * model are among its own, before all others; its loss, that of any number for that input, is not,
 * and nothing scales it. */
void moec_split_training(MoecCompiler *compiler, const char *name);
/* From now on C for the host says when each unit of work ends: see MoecHost.mark. */
void moec_mark_units(MoecCompiler *compiler);
/* Whether some states are means over all micro-batches of a step. The outputs of MOEC_GATHER, under
 * the names of those states, are what one micro-batch gives; the states are to be their mean before
 * MOEC_TRAIN sees the first micro-batch. */
bool moec_gathers(const MoecCompiler *compiler);
const char *moec_model(const MoecCompiler *compiler);
/* Everything needed to open the same model again without its files: all sources and overrides as
 * one text. */
const char *moec_bundle(MoecCompiler *compiler);
/* Whether the text of a --set, "train.steps=20" or "train={steps=20}", sets that option. */
bool moec_sets(const char *set, const char *path);
/* The value of an option as resolved, "train.lr"; NULL when the model has no such option. */
const char *moec_option(MoecCompiler *compiler, const char *path);
/* All options as resolved, those of layers inside by their paths: a JSON object of texts,
 * "train.lr": "0.003", in the order in which they are decided. Options that nothing reads with the
 * others as they are, are left out. */
const char *moec_options_json(MoecCompiler *compiler);
/* Whether products are of bf16 (train.precision). */
bool moec_rounded(MoecCompiler *compiler);
double moec_option_number(MoecCompiler *compiler, const char *path, double otherwise);
/* Whether it takes any number, not whole ones alone. */
bool moec_option_real(MoecCompiler *compiler, const char *path);
/* A parameter with a row for each place of the sequence, as learned positions are; NULL: none. */
const char *moec_learned_places(MoecCompiler *compiler);
/* Programs compiled from now on share weights with training: inference.weight_dtype has no effect
 * on them. */
void moec_trains(MoecCompiler *compiler);

/* One graph through all passes; batch and context <= 0 take the spec's. tokens: new tokens of one
 * decode step. NULL after an error (see moec_reports). */
MoecProgram *moec_compile(MoecCompiler *compiler, MoecGraph graph, long batch, long context,
                          long tokens);
/* The same as it is defined, for the interpreter: recurrences go place by place. */
MoecProgram *moec_define(MoecCompiler *compiler, MoecGraph graph, long batch, long context,
                         long tokens);
/* Names of the forms that the passes can give to a program. */
const char *const *moec_form_names(int *count);
/* Which of them the program has, in the same order; lowers it for a processor if moec_lower has not
 * been called. NULL after an error. */
const bool *moec_forms(MoecCompiler *compiler, MoecProgram *program);
/* Chunk size of the recurrences of a forward or training program; 1: all are sequential, 0: there
 * are none. */
long moec_scan_chunk(const MoecProgram *program);
/* Positions from which recurrences are computed in chunks, rows from which large temporaries are
 * computed in parts, where the spec sets neither. */
typedef struct MoecThresholds {
    long scan_positions, strip_rows;
} MoecThresholds;
MoecThresholds moec_thresholds(void);
/* The program as text after a pass ("elaborate", "gradient", ..., "emit"), on its way to a device
 * when `device` or when only devices have the pass; NULL when there is no such pass. */
const char *moec_dump(MoecCompiler *compiler, MoecGraph graph, const char *pass, bool device);
const char *const *moec_passes(int *count);
/* The program as it is for a machine, a device or a processor, with what that keeps as bf16. What
 * is emitted is made so by itself. */
void moec_lower(MoecCompiler *compiler, MoecProgram *program, bool device);
/* Bytes of weights that one run reads, each once: chosen ones by their share, what is looked up by
 * its rows. */
double moec_weight_traffic(MoecProgram *program);
/* Bytes of caches that a step of decoding reads, of all its sequences behind so many places: those
 * that grow as far as they are filled, windows and states whole. */
double moec_cache_traffic(MoecProgram *step, long places);
/* C text that exports `const MoecTable moec_table` (runtime/abi/abi.h) holding these graphs. */
const char *moec_emit_c(MoecCompiler *compiler, MoecProgram *const *programs, int count,
                        bool standalone);
/* A piece of a text of kernels: from the end of the one before it, or the beginning, to its own
 * end. A kernel and each of its other variants are one each. */
enum { MOEC_EVERY_KERNEL = -1 };
typedef struct MoecPiece {
    int kernel; /* by number in MoecTable.kernels; MOEC_EVERY_KERNEL: what all of them need */
    size_t end; /* in bytes of the whole text */
} MoecPiece;

/* CUDA text that includes "kernels.cuh"; to stand alone "fixed.cuh", too, whose kernels are the
 * same in every program. Those of any pieces can be compiled apart from the others. */
typedef struct MoecKernels {
    const char *text;
    const MoecPiece *pieces;
    int count;
} MoecKernels;

/* The same for a device: C text that launches kernels, and the text of those kernels. */
const char *moec_emit_cuda(MoecCompiler *compiler, MoecProgram *const *programs, int count,
                           bool standalone, MoecKernels *kernels);
/* The tensors that a program works with, for those who run it otherwise than from its text
 * (moec_interpreter). Lists are as in its table, numbers as in MoecTensor of runtime/abi/abi.h;
 * weights and states are laid out as when this program is emitted alone. */
typedef enum MoecTensorList {
    MOEC_PARAMETERS,
    MOEC_LAYER_STATES,
    MOEC_INPUT_SLOTS,
    MOEC_OUTPUT_SLOTS
} MoecTensorList;
typedef struct MoecTensorInfo {
    const char *name, *axes; /* axes: "block,dim,hidden" */
    size_t offset;           /* weights and states; else the slot */
    int rank;
    const long *shape;
    bool is_int, matrix, frozen;
    int init; /* parameters and states */
    double a, b;
    int input, scalar; /* inputs */
    long vocabulary;
    int probe; /* outputs */
} MoecTensorInfo;
const MoecTensorInfo *moec_tensors(MoecCompiler *compiler, const MoecProgram *program,
                                   MoecTensorList list, int *count);
/* What the model costs, as a JSON object: see README, moec check --json. */
const char *moec_cost_json(MoecCompiler *compiler);
const char *moec_cost_text(MoecCompiler *compiler);
/* What a machine can do: FLOP and bytes of memory a second. */
typedef struct MoecCeilings {
    double products, memory;
} MoecCeilings;
typedef enum MoecExplainForm {
    MOEC_EXPLAIN_TEXT,
    MOEC_EXPLAIN_JSON,
    MOEC_EXPLAIN_SVG,
    MOEC_EXPLAIN_DOT
} MoecExplainForm;
/* What the compiler made of a graph of the model: its layers, what is fused with what, bytes, FLOPs
 * and time at the ceilings by unit of work, memory over the step. NULL after an error. */
const char *moec_explain(MoecCompiler *compiler, MoecGraph graph, bool device,
                         MoecCeilings ceilings, MoecExplainForm form);
/* The candidate nearest to a name that is none of them, or NULL when none is near. */
const char *moec_nearest(const char *name, const char *const *candidates, int count);
/* A file in the one layout, or NULL with reports. */
const char *moec_format(MoecCompiler *compiler);

/* ---- for editors ---- */

/* A file as an editor shows it, which need not be what is on the disk. */
typedef struct MoecDocument {
    const char *path, *text;
    size_t length;
} MoecDocument;
/* Reads documents[0]; the others stand for the files of their paths where it uses them. */
MoecCompiler *moec_open_document(const MoecDocument *documents, int count, const char *model,
                                 const char *search);
/* The models of the file itself, in order. */
const char *const *moec_models(MoecCompiler *compiler, int *count);

/* What stands at a byte offset of the file, as Markdown; NULL: nothing that is known. */
const char *moec_hover(MoecCompiler *compiler, size_t offset);
/* Where it was declared: bytes of a text, which is the standard library's own when `standard`. */
typedef struct MoecLocation {
    const char *path, *text;
    bool standard;
    size_t start, end;
} MoecLocation;
bool moec_definition(MoecCompiler *compiler, size_t offset, MoecLocation *location);
/* What could stand there. */
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

/* ---- experiments ---- */

/* One of the models that an experiment compares: its model with `sets`, "key=value" texts. */
typedef struct MoecVariant {
    const char *name; /* fit for a folder; the first is "base" */
    const char *const *sets;
    int set_count;
    const char *structure; /* the name without what is tuned: of those only the best counts */
    const char *tuned;     /* "train.lr = 1e-3", or NULL */
    const char *same;      /* the earlier variant that is the same model, or NULL */
    const char *solved;    /* what `match` chose and what it leaves, or NULL */
    double parameters, active, flops_train; /* flops: of one token */
    bool rounded;                           /* trained in bf16 */
    double cache;                           /* bytes of one token; 0 where nothing asks for it */
    double nanoseconds;                     /* of one token at the ceilings; the same */
    double step_tokens;
    double steps, tokens; /* of one run */
    uint64_t fingerprint; /* of what the variant means */
} MoecVariant;
typedef struct MoecExperiment {
    const char *name, *base;
    const char *model; /* that every variant sets options of: the base, or derived from it */
    long seeds;
    const MoecVariant *variants;
    int count;
    const char *metric; /* a number of the log; NULL: the loss */
    bool higher;        /* is better */
    double limit;       /* of the loss: above it a run has diverged; 0: none */
    double seconds;     /* how long each run trains, instead of so many steps; 0: the steps hold */
    const double *halvings; /* shares of a run at which the better half of the variants goes on */
    int halving_count;
} MoecExperiment;
/* Reads FILE for an experiment of it; NULL: the only or the last one. */
MoecCompiler *moec_open_experiment(const char *file, const char *experiment,
                                   const char *const *sets, int set_count, const char *search);
/* All that it compares, the base first; NULL after an error. */
const MoecExperiment *moec_expand(MoecCompiler *compiler);
/* Whether every variant of the experiment is a model and has the options that are set for equal
 * sizes; nothing is solved. Errors are collected. */
bool moec_check_experiment(MoecCompiler *compiler);
/* The names of the experiments that the file itself declares. */
const char *const *moec_experiments(MoecCompiler *compiler, int *count);

/* ---- layouts: how files of others name tensors and options ---- */

/* One value of a configuration, "rope_parameters.rope_theta". */
typedef enum MoecPairKind {
    MOEC_PAIR_NONE, /* null */
    MOEC_PAIR_FLAG,
    MOEC_PAIR_NUMBER,
    MOEC_PAIR_TEXT,
    MOEC_PAIR_LIST, /* of texts, which newlines part */
    MOEC_PAIR_OTHER /* text: as it is written */
} MoecPairKind;
typedef struct MoecPair {
    const char *key;
    MoecPairKind kind;
    double number; /* flag: 0 or 1 */
    const char *text;
    bool real;  /* any number, not whole ones alone */
    bool least; /* a limit: it may have been larger in their configuration */
} MoecPair;

enum { MOEC_LAYOUT_RANK = 16 };
/* A tensor of ours under its name in files. */
typedef struct MoecNamedTensor {
    const char *name, *axes;
    int rank;
    const long *shape;
} MoecNamedTensor;
/* Elements of one tensor of ours within one of theirs: theirs = factor * ours + shift, for all
 * values of `rank` indices; steps and places count elements. */
typedef struct MoecSlice {
    int tensor; /* among those that were given */
    double factor, shift;
    int rank;
    long size[MOEC_LAYOUT_RANK], their_step[MOEC_LAYOUT_RANK], our_step[MOEC_LAYOUT_RANK];
    long theirs, ours; /* of the first element */
} MoecSlice;
typedef struct MoecFileTensor {
    const char *name;
    const char *other_name; /* that some files have instead; often the same */
    int rank;
    long shape[MOEC_LAYOUT_RANK];
    int slice_count;
    MoecSlice *slices;
} MoecFileTensor;

/* Whether `use NAME` means a file of the standard library. */
bool moec_standard_file(const char *name);
/* The layouts of FILE and of what it uses; NULL: those of the standard library. */
MoecCompiler *moec_open_layouts(const char *file, const char *search);
const char *const *moec_layouts(MoecCompiler *layouts, int *count);
/* Whether the file has layouts and neither models nor layers: moec_open_layouts is for it. */
bool moec_only_layouts(const MoecCompiler *compiler);
/* Of the layouts whose first rule holds the one that knows most of the keys, the first of these;
 * NULL: there is none. */
const char *moec_layout_of(MoecCompiler *layouts, const MoecPair *pairs, int count);
/* The text of a file with a model of that name; NULL after an error. others: the keys that the
 * layout does not know. */
const char *moec_layout_spec(MoecCompiler *layouts, const char *layout, const char *name,
                             const MoecPair *pairs, int count, const char *const **others,
                             int *other_count);
/* The spec, a text with a model of that name, and the files that it uses outside of the standard
 * library, as moec_open_bundle reads them. */
const char *moec_layout_bundle(MoecCompiler *layouts, const char *name, const char *spec);
/* Those files; a new list in the memory of `layouts`. */
const MoecDocument *moec_layout_files(MoecCompiler *layouts, int *count);
/* Whether a model, in a file with its name, can be called so: the name is no keyword, and no file
 * of the standard library or of the layouts has it. */
bool moec_layout_name(MoecCompiler *layouts, const char *name);
/* The configuration that the layout gives a model; NULL after an error in the reports of
 * `layouts`: the family cannot say what the model is. */
const MoecPair *moec_layout_pairs(MoecCompiler *layouts, const char *layout, MoecCompiler *model,
                                  int *count);
/* Whether a key of the configuration says nothing of the model. */
bool moec_layout_unread(MoecCompiler *layouts, const char *layout, const char *key);
/* Which tensors the family has for those of a model; NULL after an error. */
const MoecFileTensor *const *moec_layout_tensors(MoecCompiler *layouts, const char *layout,
                                                 MoecCompiler *model,
                                                 const MoecNamedTensor *tensors, int tensor_count,
                                                 int *count);
/* Whether the family's files may hold a tensor that says nothing of the model. */
bool moec_layout_ignores(MoecCompiler *layouts, const char *layout, const char *name);

/* The meaning: a program in double precision. Tensors are named as in its table of parameters,
 * inputs and outputs: parameter paths ("block.3.attention.query"), "gradient:" + path, "input:" or
 * "output:" + name, "scalar:" + name of an input that the runtime sets, "cache:" + name; without
 * its prefix where no parameter and no state has the
 * name. */
typedef struct MoecInterpreter MoecInterpreter;
MoecInterpreter *moec_interpreter_new(MoecCompiler *compiler, MoecProgram *program);
/* Cost of one run: arithmetic operations, and bytes for its tensors. */
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
/* The runs that follow have every value off by up to `share` of itself, others with each seed: what
 * rounding of that size does to results. 0: exact again. */
void moec_interpreter_noise(MoecInterpreter *interpreter, double share, uint64_t seed);
/* From now on its products round what they multiply to bf16: 1 as those of a device do when the
 * model asks for it; 2 and up: other numbers up and down, equally well. */
void moec_interpreter_rounded(MoecInterpreter *interpreter, int way);
/* Whether a step of decoding means something else than that place of the whole: an attention reads
 * the best values alone, caches round, or the spec asks whether it is `decoding`. */
bool moec_step_differs(MoecProgram *step);
/* From now on it makes the choices that `other` made in its last run of the same graph. */
void moec_interpreter_follow(MoecInterpreter *interpreter, const MoecInterpreter *other);
/* How clear the choices of the last run were: of each, how far the least chosen value was above the
 * largest other. */
const double *moec_interpreter_margins(const MoecInterpreter *interpreter, size_t *count);
void moec_interpreter_free(MoecInterpreter *interpreter);

#endif
