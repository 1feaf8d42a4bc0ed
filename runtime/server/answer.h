/* answer: what a request gets, as OpenAI's API writes it. */
#ifndef SERVER_ANSWER_H
#define SERVER_ANSWER_H

#include "server/request.h"

/* The whole answer of a request that is finished: a new string. */
char *answer_text(const Request *request);
/* Appends the event for what a choice has new; the first, and that which says why it ended, too. */
void answer_event(Choice *choice, Text *out);
/* Appends what ends the events of a request. */
void answer_end(const Request *request, Text *out);

#endif
