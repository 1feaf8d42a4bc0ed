/* described: what module_describe makes. */
#ifndef DESCRIBED_H
#define DESCRIBED_H

#include "model/module.h"

/* Frees the tables of a module that was described. */
void module_forget(Module *module);

#endif
