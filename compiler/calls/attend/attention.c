/* attention: the rows of attention and of its gradient. */
#include "calls/attend/attention.h"

#include "calls/calls.h"

static void print(Text *text, const Statement *statement) {
    const AttendOptions *attention = &statement->attention;
    text_add(text, "; scale = %.9g", attention->scale);
    if (attention->mask == MASK_CAUSAL) text_add(text, ", mask = causal");
    if (attention->mask == MASK_NONE) text_add(text, ", mask = none");
    if (attention->mask == MASK_WINDOW) text_add(text, ", window = %ld", attention->window);
    if (attention->cap != 0) text_add(text, ", cap = %.9g", attention->cap);
    if (attention->sink) text_add(text, ", sink");
    if (attention->documents) text_add(text, ", documents");
    if (attention->scaled[0]) text_add(text, ", k scaled");
    if (attention->scaled[1]) text_add(text, ", v scaled");
    if (attention->position) text_add(text, ", position");
    if (attention->best) text_add(text, ", best = %ld", attention->best);
}

const CallRow call_attend = {
    .name = "attend",
    .has_body = false,
    .selects = false,
    .fuses_store = true,
    .recomputed = true,
    .form = HAS_ATTENTION,
    .check = check_attend,
    .print = print,
};

const CallRow call_attend_grad = {
    .name = "attend_grad",
    .has_body = false,
    .selects = false,
    .fuses_store = false,
    .recomputed = true,
    .form = HAS_ATTENTION_GRADIENT,
    .check = check_attend_grad,
    .print = print,
};
