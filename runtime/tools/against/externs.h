/* externs: see extern.c. */
#ifndef EXTERNS_H
#define EXTERNS_H

#include "model/model.h"

/* Compares the hand-written kernels that the programs call with the equations: see
 * model_compare_externs. */
ExternCheck externs_check(Device *device, MoecCompiler *compiler, MoecProgram *const *programs,
                          int count);
/* From now on agreements of earlier processes do not count. */
void externs_compare_again(void);

#endif
