/* dispatch: pack, the selected entries of a mask as rows. */
#include "calls/calls.h"

const CallRow call_pack = {
    .name = "pack",
    .has_body = false,
    .selects = false,
    .fuses_store = false,
    .recomputed = true,
    .form = PROGRAM_FORMS, /* DISPATCHED, which route notes */
};
