/* model: a loaded program with its memory. */
#ifndef MODEL_H
#define MODEL_H

#include "abi/abi.h"
#include "abi/count.h"
#include "data/safetensors.h"
#include "device/device.h"
#include "moec.h"

#include <stdbool.h>

/* module: compiles the C source of a program with the system's C compiler and loads it. Results are
 * cached (cache.h); a second start needs no compiler. */

typedef struct Module {
    void *handle;
    const MoecTable *table;
    bool cached; /* from the cache */
    double compile_seconds;
} Module;

/* Compiles and loads a program; its source has two parts that can be compiled in parallel (see
 * kernels.h). keep: use the cache. NULL after a message. */
Module *module_load(const char *text, bool keep);
/* Compiles the kernels that all programs share into a folder, unless it already contains them.
 * Before kernels are compiled, the folders `kernels` next to the binary and ../lib/moec are
 * searched. */
bool module_prepare(const char *folder);
void module_free(Module *module);

/* public: tensors of a table by their names in files. A tensor that is stacked over a repeat is one
 * tensor per step:
 *
 *     "block.{2*i+1}.ffn.up", "block,dim,hidden", [4, d, f]
 * -->
 *     "block.1.ffn.up" ... "block.7.ffn.up", "dim,hidden", [d, f] */

typedef struct PublicTensor {
    char *name, *axes;
    const MoecTensor *tensor;
    int rank;
    long shape[MOEC_MAX_RANK];
    size_t offset; /* in bytes from the start of its block */
    size_t count;  /* elements */
} PublicTensor;

/* A new array of *public_count tensors; free it with public_free. */
PublicTensor *public_tensors(const MoecTensor *tensors, int count, int *public_count);
void public_free(PublicTensor *tensors, int count);
/* Whether a stacked tensor, "block.{i}.ffn.up", has the public name. */
bool has_public_name(const char *stacked, const char *name);

/* reports: compiler diagnostics on standard error. */

/* Prints the diagnostics if there are errors; returns true if there are none. */
bool reports_good(MoecCompiler *compiler);
AUTO_POINTER(MoecCompiler, moec_close)

/* model: a loaded program with its memory: weights, layer states, gradients, optimizer states, and
 * the temporaries, which all graphs share because only one runs at a time. */

/* Most training shapes of one model. */
enum { TRAIN_SHAPES = 16 };

typedef struct GraphShape {
    MoecGraph graph;
    long batch, context, tokens; /* 0: as in the spec */
} GraphShape;

/* Device memory; on the CPU the blocks of the model itself. */
typedef struct ModelMemory {
    float *weights, *layer_states, *gradients;
    float **moments;
    void *rounded; /* the weights as bf16, if a program reads them in that form */
    unsigned char *arena;
    unsigned char *block; /* all but the moments as one piece, if device memory is separate */
    size_t bytes;
    unsigned char *moment_block; /* from the first model_put on */
} ModelMemory;

typedef struct Model {
    Device *device;
    Module *module;             /* of the CPU */
    MoecDeviceProgram *program; /* of a GPU; both NULL: the model cannot run */
    const MoecTable *table;
    Engine *engine;
    bool cached;            /* nothing was compiled */
    double compile_seconds; /* to compile the program or to find it in the cache */
    PublicTensor *parameters, *states;
    int parameter_count, state_count;
    float *weights, *layer_states, *gradients;
    float **moments; /* the optimizer's states, each laid out like the weights */
    float *own;      /* the trained weights, while their averages replace them */
    /* a separate device has only these elements of the optimizer states */
    bool moment_part;
    size_t moment_start, moment_end;
    size_t arena_bytes;
    bool trains;
    ModelMemory there;
} Model;

/* Compares the hand-written kernels that programs call with the equations of their layers, and
 * refuses those that differ: see tools/against/extern_check.c. */
typedef enum ExternCheck {
    EXTERNS_AGREE,
    EXTERNS_REFUSED, /* some: compile the programs again */
    EXTERNS_FAIL     /* after a message */
} ExternCheck;
typedef ExternCheck ExternComparison(Device *device, MoecCompiler *compiler,
                                     MoecProgram *const *programs, int count);
/* Programs of later model_open call hand-written kernels after this comparison; initially they
 * call none. */
void model_compare_externs(ExternComparison *comparison);
/* Whether programs for the device call hand-written kernels. Programs that are compiled next are
 * those of model_open, until moec_use_externs(compiler, NULL). */
bool model_use_externs(const Device *device, MoecCompiler *compiler);
/* trust: whether files of hand-written kernels may run. Call externs_trust for a spec from disk. */
void externs_trust(MoecCompiler *compiler);
/* Whether the text of each file was trusted on this machine; else prints a note. */
bool externs_are_trusted(MoecCompiler *compiler);
/* Compiles graphs with hand-written kernels for the device, again without those that differ. False
 * after a message. */
bool compile_with_externs(Device *device, MoecCompiler *compiler, const GraphShape *shapes,
                          int count, MoecProgram **programs);
/* Compiles and loads the graphs; adds MOEC_GATHER to MOEC_TRAIN if the model needs it. keep: use
 * the cache. The compiler may be closed afterwards. NULL after a message. */
Model *model_open(Device *device, MoecCompiler *compiler, const GraphShape *shapes, int count,
                  bool keep);
/* One graph whose weights can be read but which cannot run: nothing is compiled. Close it before
 * the compiler. */
Model *model_describe(MoecCompiler *compiler, const GraphShape *shape);
void model_close(Model *model);
AUTO_POINTER(Model, model_close)
/* Copies weights and all states to the device after a change on the host, or back before the host
 * reads them. No effect if the memory is shared. */
bool model_put(Model *model);
bool model_put_weights(const Model *model); /* without states */
/* Computes values that depend on weights alone, after the device has changed the weights: prepared
 * tensors and copies in smaller types. */
bool model_prepare(const Model *model);
/* Releases the memory of weights that only model_prepare reads. model_put is then impossible. */
void model_release_weights(const Model *model);
bool model_get(const Model *model, bool optimizer);
bool model_get_moments(const Model *model);
/* Weight averages (EMA, optimizer state `average`): model_take_averages swaps them into the weights
 * for evaluation, model_give_averages swaps them back. False after a message. */
bool model_take_averages(Model *model);
bool model_give_averages(Model *model);
bool model_get_gradients(const Model *model);
/* *finite: whether weights and optimizer states on the device are finite. False if it cannot be
 * determined. */
bool model_finite(const Model *model, bool *finite);
/* Prints "WHAT not a finite number", for example "the loss is", and the first weight that is not
 * finite. Returns false. */
bool model_tell_nonsense(const Model *model, const char *what);
/* The first graph of that kind, or NULL. */
const MoecGraphEntry *model_graph(const Model *model, MoecGraphKind kind);
/* The graph of that kind and shape, or NULL. */
const MoecGraphEntry *model_graph_of_shape(const Model *model, MoecGraphKind kind, long batch,
                                           long context);
/* Bytes of all blocks above. */
size_t model_bytes(const Model *model);
/* Elements of all parameters. */
size_t model_elements(const Model *model);

/* Initializes all parameters and states as their `~` specifies, each a function of (seed, public
 * name, element). */
void model_initialise(Model *model, uint64_t seed);
/* True if the parameters in the file have the shapes of the model; otherwise, prints an error. */
bool model_fits(const Model *model, const Safetensors *file);
/* Reads parameters, states and, if `optimizer`, optimizer states from a file; false after a
 * message. States that the file lacks are unchanged. */
bool model_read(Model *model, const Safetensors *file, bool optimizer);
/* Initial weights of a run: reads the weights and states that model and file share. Tensors missing
 * in the file have the values of model_initialise if `lacking` permits it, extra tensors are
 * ignored; both are listed. False after messages about all mismatches. */
bool model_begin(Model *model, const Safetensors *file, bool lacking, uint64_t seed);
/* The entries to write a file; *count receives their number. NULL after a device error, which was
 * printed. Adds the axes of each to `notes`. Free with entries_free. */
TensorEntry *model_entries(const Model *model, bool optimizer, json_t *notes, int *count);
void entries_free(TensorEntry *entries, int count);

/* toolchain: a compiler as a process. */

/* Starts it with its output in the file `log`; words: the command, then NULL. -1, with errno set,
 * if it cannot be started. */
pid_t compiler_start(char *const *words, const char *log);
/* Its exit status; -1 for a child of -1. */
int compiler_wait(pid_t child);
/* Prints the first lines of the output. */
void compiler_print_log(const char *log);

/* "4, 16" with ", " between the sizes, a new string. */
char *tensor_sizes_text(const long *shape, int rank, const char *between);
/* "[4, 16]", a new string. */
char *tensor_shape_text(const long *shape, int rank);

#endif
