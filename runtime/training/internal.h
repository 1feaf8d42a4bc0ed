/* internal: declarations that only files of this folder use. */
#ifndef TRAINING_INTERNAL_H
#define TRAINING_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

/* account: the file DIR/run.json: spec with all included files, seed, data and length of the run,
 * and for each start the command, the machine and the version. */

typedef struct Account {
    char **command; /* as typed, NULL-terminated; NULL: of a program */
    const char *model, *spec, *device, *data, *validation, *tokenizer; /* some may be NULL */
    uint64_t seed, data_tokens;
    long step, steps;       /* steps done at this start; steps in total */
    double tokens_per_step; /* or examples */
    bool text;              /* data is byte-level text */
} Account;

/* Writes the file; keeps the starts of a resumed run. False after a message. */
bool account_write(const char *folder, const Account *account);

/* Name of the processor, a new string; NULL if it is unknown. */
char *processor_name(void);

/* processes: a run on several processes. */

typedef struct Device Device;
typedef struct TrainRun TrainRun;

typedef struct MoecCompiler MoecCompiler;

/* Whether the mesh and the settings fit the processes of the launcher; false after a message. Sets
 * the mesh of the compiler. */
bool processes_check(TrainRun *run, const Device *device, MoecCompiler *compiler);
/* Starts the mesh. device: NULL if there is none; good: this process can start. False after one
 * message of all processes. */
bool processes_join(TrainRun *run, const Device *device, bool good);
/* Copies the state of the run, initialized or read from the checkpoint, from process 0 to all. */
bool processes_share(TrainRun *run);
/* Before a checkpoint: process 0 receives the weights, and the optimizer state if `optimizer`, of
 * all. After it, processes_drop releases the memory of values that only others need. */
void processes_collect(const TrainRun *run, bool optimizer);
void processes_drop(const TrainRun *run);
/* After the first step: the memory over rows that it used gets huge pages. */
void processes_settle(const TrainRun *run);
/* Between programs that use different parts of the memory over rows: releases all of it. */
void processes_drop_rows(const TrainRun *run);
/* Every process receives all weights. */
void processes_complete(const TrainRun *run);
/* Before an evaluation: every process receives the averages of the weights, if there are any. */
void processes_average(const TrainRun *run);

/* differences: changes of a spec since the start of a run. */

/* Compares two specs, as returned by moec_bundle. If they do not train the same model in the same
 * way, prints a note with the lines that occur in only one of them; lines of the standard library
 * only if no others differ. */
void differences_tell(const char *then, const char *now);

#endif
