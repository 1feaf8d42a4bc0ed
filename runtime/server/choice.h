/* choice: one text as the model makes it: its pieces, its log-probabilities, why it ends. */
#ifndef SERVER_CHOICE_H
#define SERVER_CHOICE_H

#include "server/request.h"

/* Makes request->choices, ready for a batch. */
void choices_make(Request *request);
void choices_free(Request *request);
/* The row has ended, or is to end: what is left of its text, and why. */
void choice_finish(Choice *choice);

#endif
