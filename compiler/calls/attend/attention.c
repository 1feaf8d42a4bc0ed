/* attention: the rows of attention and of its gradient. */
#include "calls/calls.h"

const CallRow call_attend = {
    .name = "attend",
    .has_body = false,
    .selects = false,
    .fuses_store = true,
    .recomputed = true,
    .form = HAS_ATTENTION,
};

const CallRow call_attend_grad = {
    .name = "attend_grad",
    .has_body = false,
    .selects = false,
    .fuses_store = false,
    .recomputed = true,
    .form = HAS_ATTENTION_GRADIENT,
};
