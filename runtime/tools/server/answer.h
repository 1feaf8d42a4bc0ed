/* answer: responses in the format of OpenAI's API. */
#ifndef SERVER_ANSWER_H
#define SERVER_ANSWER_H

#include "tools/server/request.h"

/* The whole answer of a request that is finished: a new string. */
char *answer_text(const Request *request);
/* Appends the event with the new text of a completion; also the first event, and the one with the
 * finish reason. */
void answer_event(Choice *choice, Text *out);
/* Appends the final events of a request. */
void answer_end(const Request *request, Text *out);

#endif
