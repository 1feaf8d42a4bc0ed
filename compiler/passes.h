/* passes: declarations of all passes, in their order. driver.c holds the table; `moec dump --after
 * NAME` prints the program after a pass. */
#ifndef PASSES_H
#define PASSES_H

#include "moec.h"
#include "ir/ir.h"
#include "syntax/tree.h"

#include <stdint.h>

/* ---- text to program ---- */

/* All declarations of a file and of the files that it uses. */
typedef struct Unit {
    Arena *arena;
    Reports *reports;
    List sources; /* Source *: the file, the files that it uses in order of reading, then --set
                     texts */
    List externs; /* ExternFile *: the functions that `extern` statements name */
    List kernels; /* Source *: their files */
    const char *extern_target; /* programs call those for this target: "c", "cuda"; NULL: none */
    List refused;              /* const ExternFunction *: those that are not called */
    List unused;               /* ExternUnused *: of the last program */
    long processes; /* that divide the sequences of the next program; 0, 1: one has all of them */
    List layers;    /* Node * NODE_LAYER, and so on */
    List optimizers, schedules, parametrizations, models, experiments, layouts, machines;
    struct Unit *standard;       /* see standard_unit */
    List declared;               /* Node *: layers, then optimizers, then schedules */
    Table layers_by_name;        /* the same by name */
    List overrides;              /* Node * NODE_ENTRY, from --set */
    const CallRow *const *calls; /* for its programs: see ir/call.h */
    /* Program whose axis sizes the outermost layer uses; NULL: its own sizes. */
    const struct Program *shape;
    const Target *target;  /* of its programs; NULL: selected when they are lowered */
    bool probing;          /* "probing" holds in GRAPH_MEASURE */
    bool speculating;      /* "speculating" holds in GRAPH_DECODE */
    bool counts_training;  /* "training" holds in GRAPH_FORWARD: see training_flops */
    const char *cotangent; /* the input that splits GRAPH_TRAIN into two phases, or NULL */
    List own;              /* const char *: optimizer options that single parameters override */
    /* Facts about the open model for its optimizer: the program that declares its parameters; the
     * results of parameter_flow; const char *: paths of parameters that are updated as whole
     * matrices (GRAPH_STEP) instead of element by element */
    Program *parameters;
    List flows, whole;
    const char *without_layers; /* see moec_without_layers */
    Span applied;               /* one of these layers */
    List stages; /* Stage *: train.stages of the open model, then the rest of the run */
    /* double[3]: the operation and operands of comparisons and roundings at compile time; NULL: not
     * recorded */
    List *decisions;
} Unit;

/* Steps of a training run with settings of their own. */
typedef struct Stage {
    long steps;                      /* of the last stage: of the run */
    long batch, context, accumulate; /* as in `train`: sequences, tokens, micro-batches */
} Stage;

/* resolve: reads a file and the files that it uses (from its folder, from `search` (separated by
 * colons, may be NULL), from the embedded standard library). */
Unit *resolve(Arena *arena, Reports *reports, const char *path, const char *search,
              const char *const *sets, int set_count);
/* The same with the text of some files, including the first, from an editor. */
Unit *resolve_documents(Arena *arena, Reports *reports, const Source *const *documents, int count,
                        const char *search);
/* The same from sources in memory, as a Unit lists them (without the --set texts); reads only the
 * standard library. */
Unit *resolve_sources(Arena *arena, Reports *reports, const Source *const *sources,
                      int source_count, const char *const *sets, int set_count);
/* extern_file: the function that a statement `extern c "norm.c:norm"` names. */
typedef struct ExternFile {
    const Node *node;
    ExternFunction function;
} ExternFile;
/* Reads the files of all `extern` statements below a node; given: from the sources of the unit
 * alone. Reports faults. */
void resolve_externs(Unit *unit, const Source *from, Node *node, bool given);
/* NULL after a report. */
const ExternFunction *extern_function(const Unit *unit, const Node *node);
/* A regular file as a string; NULL and a problem on failure. */
char *read_source_text(Arena *arena, const char *path, size_t *length, const char **problem);
/* An application of a layer whose `extern` cannot replace its equations. */
typedef struct ExternUnused {
    const ExternFunction *function;
    const char *reason;
} ExternUnused;
/* Replaces deprecated words of the language in a file of the unit. */
void rename_words(Unit *unit, Node *file);
/* The same for names of options, as far as the text alone shows them. */
void rename_options(Unit *unit, Node *file);
/* The same for all experiments of a unit, whose variants are named by these paths. */
void rename_experiments(Unit *unit);
/* inherit: the entries of an experiment and those that it inherits from `experiment NAME = BASE`,
 * NODE_RECORD. An own entry replaces the inherited one at its position. */
Node *inherited_plan(const Unit *unit, const Node *experiment);
/* False after a report of a base that is unknown or based on itself. */
bool check_experiment_base(const Unit *unit, const Node *experiment);
/* The current name of a probe with this former name in the standard library, or NULL. */
const char *renamed_probe(const char *name);
/* The current form of a name in a log: val_load.layer is val_expert_load.layer. Probes of the own
 * layers of the unit keep their names. */
const char *renamed_log_name(const Unit *unit, const char *name);
/* The embedded standard library, whose declarations list the deprecated names. */
Unit *standard_unit(Unit *unit);
/* Appends a file to the text of a bundle. */
void bundle_add_file(Text *text, const char *path, const char *bytes, size_t length);
/* Decodes a text of moec_bundle into Source * and char *; returns the name of its model, or NULL if
 * it is damaged. */
const char *bundle_read(Arena *arena, const char *text, size_t length, List *sources, List *sets);
/* The text of an embedded file of the standard library ("decoder"), or NULL. */
const char *stdlib_text(const char *name, size_t *length);
/* The files of the embedded standard library, Source *: the layouts, or all others. */
List standard_sources(Arena *arena, bool layouts);
/* Reports the file of the standard library that declares the layer, optimizer or schedule `name`;
 * returns false if there is none. */
bool help_with_use(Reports *reports, const char *name);

/* A resolved option for the runtime ("train.lr"). */
typedef enum ValueKind { VALUE_NONE, VALUE_NUMBER, VALUE_FLAG, VALUE_WORD, VALUE_OTHER } ValueKind;
typedef struct Setting {
    const char *path, *text;
    ValueKind kind;
    double number;
    bool real;   /* the option accepts any number, not only integers */
    bool unread; /* nothing in the model reads it under the current settings */
} Setting;

/* elaborate: one model of a unit as a forward program, with all layers applied, options resolved
 * and axis sizes known. batch and context <= 0 use train.batch_size and train.context_length.
 * `settings` (may be NULL) receives Setting *. GRAPH_UPDATE returns the program of the optimizer.
 * NULL after an error. */
Program *elaborate(Unit *unit, const char *model, Graph graph, long batch, long context,
                   List *settings);
/* same_tensors: reports the first parameter or state of one program that is missing in the other or
 * has another shape there. */
void same_tensors(const Program *forward, const Program *other);
/* The parameter or state with this path, or NULL. */
const Tensor *tensor_at_path(const Program *program, const char *path);

/* transfer: applies the parametrization of a model to its parameters. `program` is the elaborated
 * model with parameter_facts. NULL if the model has no transfer, and after an error. */
typedef struct Tuning Tuning;
Tuning *transfer(Unit *unit, Program *program);
/* Its result as a table of factors, as text with formulas, and as JSON. */
char *tuning_factors(Arena *arena, const Tuning *tuning);
char *tuning_text(Arena *arena, const Tuning *tuning);
char *tuning_json(Arena *arena, const Tuning *tuning);

/* The declaration of an experiment. A choice sets options, a dimension lists choices, and
 * dimensions are crossed. */
typedef struct Alternative {
    const char *label; /* NULL: named after the options that it sets */
    List overrides;    /* Node * NODE_ENTRY */
} Alternative;
typedef struct Dimension {
    const Node *node;
    List choices; /* Alternative *, at least one */
} Dimension;
typedef enum Budget {
    BUDGET_NONE,
    BUDGET_TOKENS,
    BUDGET_TOKENS_PER_PARAMETER, /* activated parameters */
    BUDGET_STEPS,
    BUDGET_FLOPS,
    BUDGET_SECONDS
} Budget;
typedef struct Experiment {
    const Node *node;
    const char *base, *model;      /* model: the trained model: the baseline, or derived from it */
    List vary, tune;               /* Dimension *; only the best choice of `tune` counts */
    const Node *match, *solved[2]; /* NODE_EQUALISE or NULL; the options: NODE_NAME or NULL */
    const Node *transfer;          /* NODE_NAME, NODE_MADE or NULL */
    long seeds;
    Budget budget;
    double amount;
    const char *metric;     /* NULL: the validation loss, or the loss of the last tenth of the
                              steps */
    bool higher;            /* is better */
    double limit;           /* a run with a higher loss has diverged; 0: none */
    double gflops, gbytes;  /* peak of the machine for `match time`: products, memory */
    List halvings;          /* double *: fractions of a run after which only the better half
                              continues */
    const Node *ladder;     /* names the option of `vary` that changes the size; or NULL */
    const char *hypothesis; /* a text, or NULL */
    MoecStatistics statistics;
    List overrides; /* Node * NODE_ENTRY, for every variant */
    List paths;     /* Node *: every option that the experiment sets */
} Experiment;

/* experiment: NULL after an error. find: without a name, the last one that the file declares. */
const Experiment *experiment_read(Unit *unit, const Node *node);
const Experiment *experiment_find(Unit *unit, const char *name);

/* machine: the numbers of a declared machine; those that it does not set are 0, fractions 1. */
typedef enum MachineField {
    MACHINE_GFLOPS,          /* peak of products, GFLOP/s */
    MACHINE_GBYTES,          /* peak of the memory, GB/s */
    MACHINE_MEMORY,          /* GB of a process */
    MACHINE_PROCESSES,       /* of a node */
    MACHINE_NODE_GBYTES,     /* GB/s that a process sends within a node */
    MACHINE_NODE_LATENCY,    /* seconds */
    MACHINE_NETWORK_GBYTES,  /* GB/s that a process sends between nodes */
    MACHINE_NETWORK_LATENCY, /* seconds */
    MACHINE_REACHED_GFLOPS,  /* fractions of the peaks */
    MACHINE_REACHED_GBYTES,
    MACHINE_REACHED_NODE,
    MACHINE_REACHED_NETWORK,
    MACHINE_SPREAD, /* standard deviation of the time of a step, relative */
    MACHINE_FIELDS
} MachineField;
typedef struct MachineRecord {
    const Node *node;
    const char *name;
    double value[MACHINE_FIELDS];
} MachineRecord;
/* NULL after a report at `span`, the location of the name, or in the declaration. */
const MachineRecord *machine_find(Unit *unit, const char *name, Span span, Reports *reports);
/* Whether it states the connections that so many processes need; false after a report. */
bool machine_connects(Unit *unit, const MachineRecord *machine, long processes);

/* layouts: the Layout * of a unit. */
List layouts_read(Unit *unit);

/* ---- program to program ---- */
/* Applies the settings of a transfer to the parameters of an elaborated program. */
void tune(const Tuning *tuning, Program *program);
/* Activations become outputs. */
void observe(Program *program);
/* The results of layers that are applied to parameters become the outputs, with the names of these
 * parameters; there are no others. They are computed in f32. */
void observe_applied(Program *program);
/* Tensors with the weights of attention calls: those with these names, "attended_weights"; NULL:
 * all. */
void attention_weights(Program *program, const List *names);
/* Tensors with these names in the spec (const char *) become outputs. */
void observe_by_name(Program *program, const List *names);
/* Positions from which a recurrence is chunked, and rows from which a large temporary is
 * strip-mined, if the spec sets neither. */
enum { SCAN_MIN_POSITIONS = 128, STRIP_MIN_ROWS = 1024 };
/* Chunkwise-parallel form of linear recurrences with this chunk size; 0: automatic, 1:
 * sequential. */
void chunk_scan(Program *program, long chunk_size);
/* Multiplies by the factors of low-rank terms of matrices where this needs fewer operations. */
void low_rank(Program *program);
/* Moves factors of a product result to its operands. */
void reassociate(Program *program);
/* Appends the backward pass; recompute: activation checkpointing per layer. */
void gradient(Program *program, bool recompute);
/* Moves the values that a decoding step computes from weights alone to program->prepare. */
void prepare_weights(Program *program);
/* Makes the program of one decoding step; reports equations that are not causal. */
void decode(Program *program, long tokens);
/* True if the program reads tokens that decoding does not continue; reports the first input. */
bool reads_examples(const Program *program);
/* Outputs the negative log-likelihood of the next tokens instead of the logits. */
void measure(Program *program);
/* Calls of hand-written kernels stop reading the results of their equations. */
void externs(Program *program);
/* Computes values that depend on positions and constants only once, in double precision. */
void tables(Program *program);
/* By id, the roots (by id) and the tensors that they depend on; the caller may change the array.
 * dead_code removes the statements that write none of these, and also returns the other results of
 * the remaining ones. */
bool *live_tensors(Program *program, const bool *roots);
bool *dead_code(Program *program, const bool *roots);
/* Dead statements, constant folding, common expressions, copies. */
void simplify(Program *program);
/* On a GPU, or with bf16 products: replaces adding to one element of a row by a selection in the
 * equation of the row. */
void scatter_to_select(Program *program);
/* With bf16 products: keeps products exact that a selection depends on. */
void precision(Program *program);
/* The same, independent of the precision of the program. small: a selection depends on the last
 * product alone, even if loops compute it. */
void mark_exact(Program *program, bool small);
/* Rounds the operands of products with parameters to program->formats. */
void operand_formats(Program *program);
/* On a GPU: stores these operands in 8 bits, and their scales separately. */
void byte_operands(Program *program);
/* The formats with this name of train.precision; NULL: none. */
const OperandFormats *operand_formats_find(const char *name);
/* True if the rounded weights are numbers of the weight type with this name: fp8 is also that of
 * fp8_tensor. */
bool operand_formats_are(const OperandFormats *one, const char *weights);
/* True for operands in 4 bits or fewer. */
bool operand_formats_are_coarse(const OperandFormats *one);
/* Sets `head` of the parameters.
 *
 * Needs:   parameter_facts. */
void find_head(Program *program);
/* Products read parameters from smaller copies, as program->weights and
 * program->head_weights specify. */
void smaller_weights(Program *program);
/* Sets the types of the weights for inference (inference.weight_dtype, inference.head_dtype; NULL:
 * not set). Integers apply to weights only; nothing else is rounded then.
 *
 * Needs:   parameter_facts. */
void choose_weights(Program *program, const char *weights, const char *head);
/* Sets the type of the caches (inference.kv_cache_dtype; NULL: not set). With bf16 products the
 * operands of attention are bf16 anyway. */
void choose_caches(Program *program, const char *type);
/* True if a GPU can run it; else reports the reason. */
bool weights_fit(const Program *program, Reports *reports);
/* Stores values as bf16 if all readers round them. */
void storage(Program *program);
/* Aligns rows of product operands to 16 bytes. */
void pad(Program *program);
/* The axis, or a longer one with a multiple of `unit` elements. */
Axis *padded_axis(Program *program, Axis *axis, long unit);
/* Adds the equation of zeros after the last element that the writer sets, if there are some. */
void zeros_after_end(Program *program, Block *block, const Statement *writer);
/* The local program of a process of a mesh with these sizes; reports indivisible statements. */
void mesh(Program *program, const MeshSizes *sizes);
/* The same for parameters that rows select, after route. */
void mesh_rows(Program *program, const MeshSizes *sizes);
/* Marks equations that are masks because a value has them as a factor. trains: values have
 * gradients. */
void written_masks(Program *program, bool trains);
/* Moves masked statements to dispatched rows. */
void route(Program *program);
/* Products over dispatched rows gather their operands themselves. */
void gather_fusion(Program *program);
/* The sums of products of the inputs of matrices become outputs. */
void hessians(Program *program);
/* Sets Statement.product of all matrix products. */
void find_products(Program *program);
/* The same for one statement, after a change of its operands. */
void find_product(Program *program, Statement *statement);
/* A statement whose Statement.product a pass has made wrong, or NULL. */
const Statement *changed_product(Program *program);
/* Products read slices of an axis without a copy. */
void mask_words(Program *program);
void views(Program *program);
/* Computes large temporaries in chunks of `rows` rows; 0: automatic. */
void strip_mine(Program *program, long rows);

/* ---- cost ---- */
typedef struct LayerCost {
    const char *path;
    double parameters, active, flops; /* forward FLOPs per token */
} LayerCost;
typedef struct Cost {
    double parameters, active, embedding;
    double flops_forward, flops_train; /* per token; a multiply-add counts as two */
    List layers;                       /* LayerCost * */
    List paths; /* const char *, for each statement except repeats, in program order: the path of
                   its layer, "block.{i}.ffn", or NULL */
} Cost;
Cost *cost(Arena *arena, Program *forward);
/* Floating-point operations of one run of a statement. */
double statement_flops(const Program *program, const Statement *statement);
/* Bytes that one more token of one sequence adds to the caches of a decoding step. */
long cache_bytes_per_token(const Program *step);
/* Bytes of windows and scan states of one sequence, independent of its length. */
long constant_bytes(const Program *step);
/* Memory of the weights of a program for inference. */
typedef struct WeightMemory {
    double smaller, full;  /* bytes of the copies, and of the parameters in f32 */
    double by_type[TYPES]; /* bytes of the copies of each type */
    List wide;             /* const Tensor *: matrices that are read in f32 */
    double prepared;       /* bytes of prepared tensors, in the types that steps read */
    List prepares;         /* const Tensor *: these tensors */
} WeightMemory;
WeightMemory weight_memory(Program *program);
/* Bytes of weights that a run of the program reads. */
double traffic(Program *program);
/* The number of elements that a read accesses while its loops run once; in all steps, or in one. */
double access_elements(const Expr *read, bool one_step);

/* ---- reference interpreter ---- */

/* interpreter: runs any program in double precision, statement by statement. The memory of a tensor
 * is a row-major array of double for reals and long for TYPE_INT. The caller sets parameters,
 * states, inputs and caches before a run and may read any tensor after it. */
typedef struct Interpreter Interpreter;
Interpreter *interpreter_new(Program *program);
double *interpreter_real(Interpreter *interpreter, const Tensor *tensor);
long *interpreter_int(Interpreter *interpreter, const Tensor *tensor);
/* Returns NULL, or a message (for example a token outside of the vocabulary and its position). */
const char *interpreter_run(Interpreter *interpreter, uint64_t seed, bool last_micro_batch);
void interpreter_free(Interpreter *interpreter);
/* Perturbs every value of later runs by up to `share` of itself, with numbers that depend on the
 * seed: the effect of rounding errors of that size. 0: exact again. */
void interpreter_noise(Interpreter *interpreter, double share, uint64_t seed);
void interpreter_rounding(Interpreter *interpreter, double share, double sums, uint64_t seed);
/* Rounds every value of later runs to f32, as compiled programs do. */
void interpreter_single(Interpreter *interpreter);
/* Rounds the operands of later products to bf16: 1 as a GPU does if the program asks for it; 2 and
 * up: other, equally accurate roundings. */
void interpreter_rounded(Interpreter *interpreter, int way);
/* Makes later runs repeat the selections of the last run of `other`. */
void interpreter_follow(Interpreter *interpreter, const Interpreter *other);
/* Margins of the selections of the last run, for each row: the smallest selected value minus the
 * largest other value. */
const double *interpreter_margins(const Interpreter *interpreter, size_t *count);
/* True if a selection of positions in the last run had equal values at a selected position and at
 * another one: a program that rounds them in different ways selects others. */
bool interpreter_is_tied(const Interpreter *interpreter);
/* True if the comparisons that masks depend on have the same results in the last runs of two
 * interpreters of one program, with a margin: more than `share` of the largest deviation. */
bool interpreter_decides_alike(const Interpreter *one, const Interpreter *other, double share);

/* mesh_interpreter: the local program of a mesh for all its processes. */
typedef struct MeshInterpreter MeshInterpreter;
MeshInterpreter *mesh_interpreter_new(Program *program);
int mesh_interpreter_count(const Program *program); /* processes */
Interpreter *mesh_interpreter_rank(const MeshInterpreter *mesh, int rank);
/* whole: the last runs of the global program, whose selections are repeated: one, or one for each
 * process, whose seeds are consecutive. */
const char *mesh_interpreter_run(MeshInterpreter *mesh, uint64_t seed, bool last_micro_batch,
                                 const Interpreter *const *whole, int parts);
void mesh_interpreter_free(MeshInterpreter *mesh);

/* ---- meshes ---- */

/* The sizes of a mesh from text, "data=4"; false after an error. data: see moec_set_mesh. */
bool mesh_sizes_read(Reports *reports, MeshSizes *sizes, const char *text, long data);
/* The results of the local program in all processes, compared with those of the global program. */
const struct MoecMeshReport *mesh_compare(Program *whole, Program *local, uint64_t seed);

/* ---- program to text ---- */

/* fuse and plan: see kernel.h. Programs with their schedules become one module, and this one C text
 * with one exported table. */
struct Schedule;
struct Module;
struct MoecKernels;
typedef enum Hosting {
    TARGET_HOSTED,
    TARGET_MARKED,
    TARGET_STANDALONE,
    TARGET_FREESTANDING /* one decoding program in C99, without a table: print_freestanding.c */
} Hosting;
/* plain: sizes are numbers instead of constants. */
struct Module *lower_module(Arena *arena, struct Schedule *const *schedules, int count,
                            const Target *target, Hosting hosting, bool plain);
/* Its loops as printed by `moec dump`. */
const char *dump_module(const struct Module *module);
char *print_c(Arena *arena, const struct Module *module);
/* The same as freestanding C, with the memory that it needs. */
struct MoecFreestanding;
char *print_freestanding(Arena *arena, const struct Module *module,
                         struct MoecFreestanding *program);
/* The same for programs of a GPU, and the text of their kernels, in pieces that can be compiled
 * separately; these kernels alone. */
char *print_cuda(Arena *arena, const struct Module *module, struct MoecKernels *device);
struct MoecKernels print_kernels(Arena *arena, const struct Module *module);

/* The arena of a compiler of moec.h. */
struct MoecCompiler;
Arena *moec_arena(struct MoecCompiler *compiler);
Unit *moec_unit(struct MoecCompiler *compiler);
/* The experiment that it was opened for, or NULL. */
const Experiment *moec_asked(struct MoecCompiler *compiler);
/* Its layouts, Layout *. */
const List *moec_layout_list(struct MoecCompiler *compiler);
/* Its settings, Setting *. */
const List *moec_settings(struct MoecCompiler *compiler);
/* The setting of this path, under its current or a former name; or NULL. */
const Setting *find_setting(struct MoecCompiler *compiler, const char *path);
/* True if two settings of an option have the same value, under its current or a former name. */
bool same_value(Unit *unit, const Setting *one, const Setting *other);
/* The same model with more overrides (Node * NODE_ENTRY). Its errors are in its reports, and in
 * those of `compiler` if `tell`. Close it before `compiler`. */
struct MoecCompiler *moec_vary(struct MoecCompiler *compiler, const List *overrides, bool tell);
/* The same for the forward program alone, without checks of training and of the optimizer: NULL
 * after an error. `decisions`: see Unit. */
struct MoecCompiler *moec_vary_forward(struct MoecCompiler *compiler, const List *overrides,
                                       List *decisions, Program **program);
/* Memory and computation of decoding one sequence, or the reason why it is impossible. */
typedef struct Decoding {
    long bytes_per_token; /* of caches */
    long constant_bytes;  /* independent of the length of the sequence */
    double flops;         /* per token, averaged over `positions` */
    long positions;       /* the longest sequence */
    WeightMemory weights;
    const char *hindrance; /* the equation that prevents decoding, with its location; NULL: decoding
                              is possible */
    const char *equation;  /* the source line of the equation, or NULL */
} Decoding;
Decoding moec_decoding(struct MoecCompiler *compiler);
/* The same reason alone. The caller provides other inputs than the tokens. */
const char *moec_hindrance(struct MoecCompiler *compiler);
/* FLOPs per token of a training step of the model with this forward program, which does not have
 * the equations of `if training`. */
double training_flops(struct MoecCompiler *compiler, Program *forward);
/* The schedule of a compiled program for its machine. The optimizer's program is one kernel and has
 * no units. */
struct Schedule *moec_schedule(struct MoecCompiler *compiler, Program *program);

#endif
