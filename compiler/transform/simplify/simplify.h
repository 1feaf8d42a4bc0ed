/* simplify: the steps of the pass.
 *
 *     simplify.c           the pass: rounds of the steps below and of dead_code.c
 *     contract.c           sums over products
 *     cse.c                statements with the same value
 *     copy_propagation.c   copies of tensors
 *     licm.c               loop-invariant statements of repeats
 */
#ifndef SIMPLIFY_H
#define SIMPLIFY_H

#include "analysis/def_use.h"

/* The steps; each returns true if it changed the program. */
bool contract_sums(Program *program);
bool cse(Program *program);
bool copy_propagation(Program *program);
bool licm(Program *program);

#endif
