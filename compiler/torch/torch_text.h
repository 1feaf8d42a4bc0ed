/* torch_text: the Python text around the equations, from the folder text/. */
#ifndef TORCH_TEXT_H
#define TORCH_TEXT_H

#include "abi/embedded_file.h"

extern const EmbeddedFile torch_files[];

#endif
