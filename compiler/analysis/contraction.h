/* contraction: what the recognition of dense and of grouped products share. */
#ifndef CONTRACTION_H
#define CONTRACTION_H

#include "schedule/kernel.h"

/* The two factors of a loop statement whose value is a product of two real reads. */
bool product_of_reads(const Statement *statement, Expr **a, Expr **b);
/* A product over the packed rows of a relation, or NULL. */
Contraction *grouped_contraction(Program *program, const Statement *statement);

#endif
