/* run: a training run: data, held-out split, steps, evaluations, checkpoints, log, resume,
 * divergence and interruption. The files of a run directory are those of runtime/FILES.md. With a
 * mesh, every process runs the same functions, and process 0 reads and writes these files. */
#ifndef RUN_H
#define RUN_H

#include "base/launcher.h"
#include "mesh/mesh.h"
#include "training/evaluation.h"
#include "training/record.h"
#include "training/stages.h"
#include "training/checkpoint.h"

typedef struct TrainRun TrainRun;

typedef struct RunOptions {
    const char *data; /* a path, or PATH=WEIGHT,PATH=WEIGHT: see data/mixture.h */
    const char *out;
    const char *validation; /* NULL: the end of `data` */
    const char *tokenizer;  /* NULL: that of the resumed run or of `from`; none = text is bytes */
    const char *from;       /* run or checkpoint with the initial weights; NULL: random weights */
    bool missing;           /* random initialization of parameters that `from` does not have */
    long steps, seed;       /* -1: of the spec */
    long until;             /* step to stop after; 0: the last one */
    double limit;           /* of the loss; 0: none */
    TextList watched;       /* NAME=LIMIT */
    bool resume, tensorboard, no_cache;
    const ProcessGroup *launch; /* the processes that share the run; NULL: this one only */
    const char *mesh;           /* "data=8,expert=2"; NULL: train.mesh of the spec */
    char **command;             /* for run.json, NULL-terminated; NULL: none */
    /* Called when a phase begins, with its name; NULL: not called. */
    void (*on_phase)(const char *phase);
    void (*on_compiled)(MoecCompiler *compiler); /* before it is closed; or NULL */
    /* Called after each step, before its checkpoint. evaluated: the step has a validation loss.
     * True: stop after this step, with a checkpoint. NULL: not called. */
    bool (*on_step)(void *context, const TrainRun *run, const StepResult *result, bool evaluated);
    void *context;
} RunOptions;

struct TrainRun {
    RunOptions options;
    char *bundle; /* the spec with all its files */
    Settings settings;
    Model *model;
    TrainStages stages;
    Call *train, *measure;  /* train: of the last stage */
    WatchedTensors *limits; /* of watched tensors, or NULL */
    Tokenizer *tokenizer;   /* NULL: text is bytes */
    json_t *files;          /* stored with the weights, or NULL */
    Mixture mixture;        /* the training data */
    Data *other;            /* validation data of its own, or NULL */
    bool bytes;             /* every token is a byte of text */
    bool examples;          /* the data are examples, not tokens */
    Mesh *mesh;             /* NULL: one process */
    uint64_t train_tokens;
    Samples held[MIXTURE_LIMIT]; /* validation samples: of each source, or of `other` */
    uint64_t held_windows;       /* of all */
    TrainState place;
    long saved; /* step of the checkpoint on disk; -1: none */
    RunLog record;
    double validation; /* last validation loss in nats/token; NaN before the first evaluation */
    bool probe_told;   /* the note about a probe that is not finite was printed */
    int divided;       /* processes that divide the experts; 1: each has all of them */
    MeshPart *parts;   /* of the weights, if processes have parts of them; NULL: all of them */
    int part_count;
    bool sharded;   /* each process has the optimizer state of its range only */
    bool stopped;   /* by on_step */
    int signal;     /* signal that stopped some process, or 0 */
    bool succeeded; /* no failure */
    bool diverged;  /* the run failed because a loss or gradient was not finite or too large */
};

typedef enum RunEnd {
    RUN_FAILED,      /* after a message; the last checkpoint is kept */
    RUN_INITIALIZED, /* 0 steps: the initial weights are written */
    RUN_COMPLETE,    /* the checkpoint has all steps already */
    RUN_TRAINED      /* to the last step, to `until`, or until on_step stopped it */
} RunEnd;

/* Compiles the spec, releases the compiler, and opens the tokenizer and the data. Connects the
 * processes. compiler: NULL, after a message, if the spec cannot be read; the other processes must
 * know. run_close releases the run in any case, and ends the other processes after a failure. The
 * device must exist until then. False after a message. */
bool run_open(TrainRun *run, Device *device, MoecCompiler *compiler, const RunOptions *options);
/* Restores the checkpoint of the run, or initializes the weights; opens the log. False after a
 * message. */
bool run_start(TrainRun *run);
/* Trains. After every end but RUN_FAILED, the checkpoints have been read back. */
RunEnd run_train(TrainRun *run);
void run_close(TrainRun *run);
/* Whether so many processes can divide the micro-batches of a step, or the sequences of each; false
 * after a message. */
bool run_parts_fit(long parts, long processes);
/* Bytes of the weights that this process needs. */
double run_weight_bytes(const TrainRun *run);

#endif
