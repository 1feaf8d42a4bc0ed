/* interpreted: a graph in the reference interpreter, with the weights and the inputs of a call. */
#ifndef INTERPRETED_H
#define INTERPRETED_H

#include "base/memory.h"
#include "model/call.h"

/* ---- interpreted.c ---- */

/* An interpreter of a program with the weights of a model in host memory; states: those of its
 * layers, in host memory. NULL if the program is NULL or not supported. */
MoecInterpreter *interpreted_open(MoecCompiler *compiler, MoecProgram *program, const Model *model,
                                  const float *states);
AUTO_POINTER(MoecInterpreter, moec_interpreter_free)
/* Sets the inputs of the program to those of a call. */
void interpreted_set_inputs(MoecInterpreter *interpreter, const Call *call);
/* Estimated seconds of one run, on one core. */
double interpreted_seconds(const MoecProgram *program);
/* Whether tensors of that size in the interpreter fit into the memory of the machine. */
bool interpreted_has_room(double bytes);

/* ---- first_fault.c: the first value of a run that is not finite ---- */

/* Limit of the interpreter for one run, in seconds. */
enum { FAULT_SECONDS = 300 };

typedef enum FaultFound {
    FAULT_FOUND,  /* printed */
    FAULT_NONE,   /* all results are finite in the interpreter */
    FAULT_COSTLY, /* the interpreter needs too much time or memory; after a note */
    FAULT_FAILED  /* after a message */
} FaultFound;

/* Runs the graph of a call with its present inputs in the interpreter, in f32. Prints the first
 * value that is not finite with its equation and operands. The weights are copied from the device.
 *
 *   compiler   of the same spec
 *   states     of the layers before the run, in host memory; NULL: the present ones
 */
FaultFound fault_print(MoecCompiler *compiler, const Call *call, const float *states, uint64_t seed,
                       bool last_micro_batch);

#endif
