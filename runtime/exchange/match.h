/* match: the tensors of a model against those that a family has for them.
 */
#ifndef EXCHANGE_MATCH_H
#define EXCHANGE_MATCH_H

#include "data/shards.h"
#include "exchange/convert.h"
#include "model/model.h"

/* What is written when `shards`, laid out as the family does, become the parameters of the model;
 * NULL after messages that name every tensor that is missing, of another shape, or not known. */
Conversion *match_import(MoecCompiler *layouts, const char *layout, MoecCompiler *compiler,
                         const Model *model, const Shards *shards);
/* The other way: from a checkpoint of the model. */
Conversion *match_export(MoecCompiler *layouts, const char *layout, MoecCompiler *compiler,
                         const Model *model, const Safetensors *file);

#endif
