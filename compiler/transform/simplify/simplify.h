/* simplify: the steps of the pass.
 *
 *     simplify.c   the pass: rounds of the steps below, then the unused goes
 *     contract.c   sums over products
 *     cse.c     two statements of the same value
 *     copy_propagation.c     tensors that only repeat another one
 *     licm.c      what is the same in every step of a repeat
 */
#ifndef SIMPLIFY_H
#define SIMPLIFY_H

#include "analysis/def_use.h"

/* The steps; true when something was changed. */
bool contract_sums(Program *program);
bool cse(Program *program);
bool copy_propagation(Program *program);
bool licm(Program *program);

#endif
