/* top: the selection of the largest values. */
#include "calls/calls.h"

const CallRow call_top = {
    .name = "top_k",
    .has_body = false,
    .selects = true,
    .fuses_store = false,
    .recomputed = false, /* rounding could change the selection */
    .form = HAS_TOP,
};
