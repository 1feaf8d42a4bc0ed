/* match: matching of the tensors of a model with those of a model family. */
#ifndef EXCHANGE_MATCH_H
#define EXCHANGE_MATCH_H

#include "data/shards.h"
#include "tools/exchange/convert.h"
#include "model/model.h"

/* The conversion from `shards` in the family's layout to the parameters of the model. NULL after
 * messages that name every tensor that is missing, unknown or of another shape. */
Conversion *match_import(MoecCompiler *layouts, const char *layout, MoecCompiler *compiler,
                         const Model *model, const Shards *shards);
/* The reverse: from a checkpoint of the model. */
Conversion *match_export(MoecCompiler *layouts, const char *layout, MoecCompiler *compiler,
                         const Model *model, const Safetensors *file);

#endif
