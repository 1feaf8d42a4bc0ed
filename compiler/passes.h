/* passes: the way of a program, in order. driver.c holds the list; `moec dump --after NAME` prints
 * after any of them. */
#ifndef PASSES_H
#define PASSES_H

#include "ir/ir.h"
#include "syntax/tree.h"

#include <stdint.h>

/* ---- text to program ---- */

/* Everything that a model's file says, with the files it uses. */
typedef struct Unit {
    Arena *arena;
    Reports *reports;
    List sources; /* Source *: the file, what it uses in order of reading, then --set texts */
    List layers;  /* Node * NODE_LAYER, and so on */
    List optimizers, schedules, parametrizations, models, experiments, layouts;
    struct Unit *standard; /* see standard_unit */
    Table layers_by_name;  /* Node *: layers, then optimizers, then schedules */
    List overrides;        /* Node * NODE_ENTRY, from --set */
    /* The axes of the outermost layer take the sizes that they have there; NULL: their own. */
    const struct Program *shape;
    bool probing;          /* holds as a condition in GRAPH_MEASURE */
    const char *cotangent; /* the input that splits GRAPH_TRAIN in two, or NULL */
    List own; /* const char *: options of the optimizer that some parameter has for itself */
    /* Of the model that is open, for its optimizer: the program that says what its parameters are,
     * what parameter_flow found in it, and const char *: paths of parameters that are updated whole
     * (GRAPH_STEP) instead of element by element */
    Program *parameters;
    List flows, whole;
} Unit;

/* resolve: reads a file and what it uses (beside it, on `search` (colon separated, may be NULL), in
 * the embedded stdlib). */
Unit *resolve(Arena *arena, Reports *reports, const char *path, const char *search,
              const char *const *sets, int set_count);
/* The same where some files, the first of them, are as an editor shows them. */
Unit *resolve_documents(Arena *arena, Reports *reports, const Source *const *documents, int count,
                        const char *search);
/* The same from sources that are at hand, as a Unit lists them (without the --set texts); nothing
 * is read but the stdlib. */
Unit *resolve_sources(Arena *arena, Reports *reports, const Source *const *sources,
                      int source_count, const char *const *sets, int set_count);
/* rename_words: gives deprecated words of the language in a file of the unit their new names. */
void rename_words(Unit *unit, Node *file);
/* rename_options: the same for names of options, as far as the text alone shows them. */
void rename_options(Unit *unit, Node *file);
/* The same for all experiments of a unit, whose variants are named by these paths. */
void rename_experiments(Unit *unit);
/* The name of a probe for a former one of the standard library, or NULL. */
const char *renamed_probe(const char *name);
/* The current form of a name in a log: val_load.layer is val_expert_load.layer. Probes of the own
 * layers of the unit keep their names. */
const char *renamed_log_name(const Unit *unit, const char *name);
/* The embedded standard library, for what its declarations say of deprecated names. */
Unit *standard_unit(Unit *unit);
/* Adds a file to the text of a bundle, after its first two lines. */
void bundle_add_file(Text *text, const char *path, const char *bytes, size_t length);
/* What a text of moec_bundle holds, Source * and char *: the name of its model, or NULL when it is
 * damaged. */
const char *bundle_read(Arena *arena, const char *text, size_t length, List *sources, List *sets);
/* The text of an embedded stdlib file ("decoder"), or NULL. */
const char *stdlib_text(const char *name, size_t *length);
/* The embedded layouts, Source *. */
List standard_layouts(Arena *arena);
/* Says which stdlib file declares `name`, a layer, an optimizer or a schedule; false when none
 * does. */
bool help_with_use(Reports *reports, const char *name);

/* A value of an option after resolution, for the runtime ("train.lr"). */
typedef enum ValueKind { VALUE_NONE, VALUE_NUMBER, VALUE_FLAG, VALUE_WORD, VALUE_OTHER } ValueKind;
typedef struct Setting {
    const char *path, *text;
    ValueKind kind;
    double number;
    bool real;   /* the option accepts any number, not whole ones alone */
    bool unread; /* nothing in the model reads it with the other options as they are */
} Setting;

/* elaborate: one model of a unit as a program, forward only: every layer applied, every option
 * decided, every axis known. batch and context <= 0 take train.batch_size and
 * train.context_length. `settings` (may be NULL) receives Setting *. GRAPH_UPDATE gives the
 * optimizer's program. NULL after an
 * error. */
Program *elaborate(Unit *unit, const char *model, Graph graph, long batch, long context,
                   List *settings);
/* same_tensors: reports the first parameter or state of one graph's program that the other's has
 * not, or with another shape. */
void same_tensors(const Program *forward, const Program *other);

/* transfer: what the parametrization that a model names makes of its parameters. `program` is the
 * model as it was elaborated, with parameter_facts. NULL when it names none, and after an error. */
typedef struct Tuning Tuning;
Tuning *transfer(Unit *unit, Program *program);
/* The same as a table, and as JSON. */
char *tuning_text(Arena *arena, const Tuning *tuning);
char *tuning_json(Arena *arena, const Tuning *tuning);

/* What an experiment asks. A choice sets options; a dimension has one choice after the other, and
 * dimensions are crossed. */
typedef struct Alternative {
    const char *label; /* NULL: it is called by what it sets */
    List overrides;    /* Node * NODE_ENTRY */
} Alternative;
typedef struct Dimension {
    const Node *node;
    List choices; /* Alternative *, at least one */
} Dimension;
typedef enum Budget {
    BUDGET_NONE,
    BUDGET_TOKENS,
    BUDGET_STEPS,
    BUDGET_FLOPS,
    BUDGET_SECONDS
} Budget;
typedef struct Experiment {
    const Node *node;
    const char *base, *model;      /* model: what is trained: the base, or derived from it */
    List vary, tune;               /* Dimension *; of what is tuned the best choice counts */
    const Node *match, *solved[2]; /* NODE_EQUALISE or NULL; the options: NODE_NAME or NULL */
    const Node *transfer;          /* NODE_NAME, NODE_MADE or NULL */
    long seeds;
    Budget budget;
    double amount;
    const char *metric;    /* NULL: the loss of held-out data, or of the last tenth of the steps */
    bool higher;           /* is better */
    double limit;          /* a run whose loss is above has diverged; 0: none */
    double gflops, gbytes; /* of the machine that `match time` is about: products, memory */
    List halvings;         /* double *: the shares of a run at which the better half goes on */
    List overrides;        /* Node * NODE_ENTRY, of every variant */
    List paths;            /* Node *: every option that the experiment sets, by its name */
} Experiment;

/* experiment: NULL after an error. find: without a name, the last one that the file declares. */
const Experiment *experiment_read(Unit *unit, const Node *node);
const Experiment *experiment_find(Unit *unit, const char *name);

/* layouts: those of a unit, Layout *. */
List layouts_read(Unit *unit);

/* ---- program to program ---- */
/* Gives the parameters of a program, as elaborated, what a transfer made for them. */
void tune(const Tuning *tuning, Program *program);
/* Activations become outputs. */
void observe(Program *program);
/* Positions from which a recurrence is computed in chunks, rows from which a large temporary is
 * computed in parts, where the spec sets neither. */
enum { SCAN_MIN_POSITIONS = 128, STRIP_MIN_ROWS = 1024 };
/* Recurrences that are linear in their state by products, so many places at a time; 0: chosen, 1:
 * none. */
void chunk_scan(Program *program, long places);
/* Factors on what a product made go to what it is made of. */
void reassociate(Program *program);
/* Appends the backward pass; recompute: remat = layer. */
void gradient(Program *program, bool recompute);
/* A program of one step; reports equations that are not causal. */
void decode(Program *program, long tokens);
/* How unlikely the next tokens are, instead of the logits. */
void measure(Program *program);
/* What follows from places alone, once and in double precision. */
void tables(Program *program);
/* Dead statements, folding, common expressions, copies. */
void simplify(Program *program);
/* On a device, or where products round: what is added at one place of a row goes into the row's
 * equation. */
void scatter_to_select(Program *program);
/* When products may round: those that decide a choice stay exact. */
void precision(Program *program);
/* The same whatever the program says of products. */
void mark_exact(Program *program);
/* Products read parameters from copies that take less room, as program->weights says. */
void smaller_weights(Program *program);
/* What products read parameters as where nothing is trained (inference.weight_dtype; NULL: not
 * said). int8
 * is for weights alone: then nothing else is rounded. */
void choose_weights(Program *program, const char *weights);
/* What is kept of every place from step to step (inference.kv_cache_dtype; NULL: not said); where
 * products
 * round, the operands of attention are bf16 anyway. */
void choose_caches(Program *program, const char *type);
/* Whether a device can run it; else reports why not. */
bool weights_fit(const Program *program, Reports *reports);
/* What is only ever rounded is stored rounded. */
void storage(Program *program);
/* Lines of what products touch begin at multiples of 16 bytes. */
void pad(Program *program);
/* Masked statements onto packed rows. */
void route(Program *program);
/* Rows fetched for products alone are not fetched before. */
void gather_fusion(Program *program);
/* A part of an axis is read where it lies. */
void views(Program *program);
/* Large temporaries a part of their rows at a time; rows of a part, 0: chosen. */
void strip_mine(Program *program, long rows);

/* ---- what it costs ---- */
typedef struct LayerCost {
    const char *path;
    double parameters, active, flops; /* flops of the forward pass for one token */
} LayerCost;
typedef struct Cost {
    double parameters, active, embedding;
    double flops_forward, flops_train; /* for one token; a multiply-add is two */
    List layers;                       /* LayerCost * */
    List paths; /* const char *, of each statement but repeats, in program order: the layer
                            that it belongs to, "block.{i}.ffn", or NULL */
} Cost;
Cost *cost(Arena *arena, Program *forward);
/* Arithmetic of one run of a statement. */
double statement_flops(const Program *program, const Statement *statement);
/* What one more token of one sequence adds to the caches of a decoding step. */
long cache_bytes_per_token(const Program *step);
/* What one sequence keeps besides, however long it is: windows, the states of its scans. */
long constant_bytes(const Program *step);
/* Bytes of weights that a run of the program reads. */
double traffic(Program *program);
/* How many elements a read touches while its loops run once; in all its steps, or in one. */
double access_elements(const Expr *read, bool one_step);

/* ---- what it means ---- */

/* interpreter: runs any program in double precision, statement by statement. Memory of a tensor is
 * a row-major array, double for reals and long for TYPE_INT; the caller sets parameters, states,
 * inputs and caches before, and reads anything after. */
typedef struct Interpreter Interpreter;
Interpreter *interpreter_new(Program *program);
double *interpreter_real(Interpreter *interpreter, const Tensor *tensor);
long *interpreter_int(Interpreter *interpreter, const Tensor *tensor);
/* Returns NULL, or a message (a token outside the vocabulary, with its place). */
const char *interpreter_run(Interpreter *interpreter, uint64_t seed, bool last_micro_batch);
void interpreter_free(Interpreter *interpreter);
/* The runs that follow have every value off by up to `share` of itself: what rounding of that size
 * does to results. Others with each seed; 0: exact again. */
void interpreter_noise(Interpreter *interpreter, double share, uint64_t seed);
/* From now on products round their operands to bf16: 1 as those of a device do when the program
 * asks for it; 2 and up: other numbers up and down, equally well. */
void interpreter_rounded(Interpreter *interpreter, int way);
/* From now on it makes the choices that `other` made in its last run. */
void interpreter_follow(Interpreter *interpreter, const Interpreter *other);
/* How clear the choices of the last run were: of each row how far the least chosen is above the
 * largest that is not. */
const double *interpreter_margins(const Interpreter *interpreter, size_t *count);

/* ---- program to text ---- */

/* fuse and plan: see kernel.h. Programs with their schedules are emitted into one C text with one
 * exported table. */
struct Schedule;
struct MoecKernels;
typedef enum Hosting { TARGET_HOSTED, TARGET_MARKED, TARGET_STANDALONE } Hosting;
char *emit_c(Arena *arena, struct Schedule *const *schedules, int count, Hosting hosting);
/* The same of programs for a device, and the text of their kernels. */
char *emit_cuda(Arena *arena, struct Schedule *const *schedules, int count, Hosting hosting,
                struct MoecKernels *device);

/* The loops of its kernels, as an emitter writes them down. */
List emit_forms(Arena *arena, struct Schedule *schedule);

/* The arena that a compiler of moec.h works in. */
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
/* Whether two settings of an option have the same value, under its current or a former name. */
bool same_value(Unit *unit, const Setting *one, const Setting *other);
/* The same model with more overrides (Node * NODE_ENTRY). What is wrong with it is in its reports,
 * and in those of `compiler` when `tell`. To be closed before `compiler`. */
struct MoecCompiler *moec_vary(struct MoecCompiler *compiler, const List *overrides, bool tell);
/* What a decoding step of one sequence keeps and does, and what stands in its way. */
typedef struct Decoding {
    long bytes_per_token;  /* of caches */
    long constant_bytes;   /* however long the sequence is */
    double flops;          /* of a token, on average over `places` */
    long places;           /* the longest sequence */
    const char *hindrance; /* what prevents it, with its place; NULL: a step can be derived */
} Decoding;
Decoding moec_decoding(struct MoecCompiler *compiler);
/* How a compiled program is executed, for the machine that it is for; the optimizer's, which is one
 * kernel, has no units. */
struct Schedule *moec_schedule(struct MoecCompiler *compiler, Program *program);

#endif
