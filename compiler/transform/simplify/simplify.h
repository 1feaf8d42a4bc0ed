/* simplify: the steps of the pass.
 *
 *     simplify.c   the pass: rounds of the steps below, then the unused goes
 *     contract.c   sums over products
 *     common.c     two statements of the same value
 *     copies.c     tensors that only repeat another one
 *     hoist.c      what is the same in every turn of a repeat
 */
#ifndef SIMPLIFY_H
#define SIMPLIFY_H

#include "analysis/survey.h"

/* The steps; true when something was changed. */
bool contract_sums(Program *program);
bool join_common(Program *program);
bool remove_copies(Program *program);
bool hoist_invariants(Program *program);

#endif
