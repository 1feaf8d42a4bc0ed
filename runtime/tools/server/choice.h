/* choice: one text as the model makes it: its pieces, its log-probabilities, why it ends. */
#ifndef SERVER_CHOICE_H
#define SERVER_CHOICE_H

#include "tools/server/request.h"

/* Makes request->choices, ready for a batch. */
void choices_make(Request *request);
void choices_free(Request *request);
/* Ends a completion: appends the rest of its text and sets the finish reason. */
void choice_finish(Choice *choice);

#endif
