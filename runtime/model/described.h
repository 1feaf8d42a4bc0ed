/* described: cleanup for module_describe. */
#ifndef DESCRIBED_H
#define DESCRIBED_H

#include "model/module.h"

/* Frees the tables of a module from module_describe. */
void module_forget(Module *module);

#endif
