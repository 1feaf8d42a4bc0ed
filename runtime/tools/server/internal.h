/* internal: declarations that only files of this folder use. */
#ifndef SERVER_INTERNAL_H
#define SERVER_INTERNAL_H

#include "tokenizer/text/text.h"
#include "tools/server/request.h"

#include <jansson.h>

/* reading: state of the rendering of a template: position, errors, values that it keeps, work. */

enum { VALUE_BYTES = 64 }; /* approximate size of a value */

/* State of the rendering of a template. */
typedef struct Rendering {
    const char *text;
    size_t at, end;
    bool live;     /* false: the text is parsed but not evaluated */
    json_t *scope; /* names; changed by set */
    json_t *made;  /* array that owns all values */
    char *problem; /* reason of the failure, NULL so far */
    bool raised;   /* raised by the template itself */
    bool refused;  /* because of the values, which other messages change */
    Text *out;
    /* approximate bytes produced and read so far; an untrusted template may require too much */
    size_t work;
    int depth; /* nesting depth of expressions */
} Rendering;

/* Whether a value counts as true. */
bool reading_true(const json_t *value);
/* Keeps a new value until the end of the rendering; returns it. */
json_t *reading_keep(Rendering *r, json_t *value);
/* Counts work in bytes, or the size of a value; too much is an error. */
void reading_spend(Rendering *r, size_t bytes);
void reading_spend_on(Rendering *r, json_t *value);

/* Spaces passed over; whether a sign or a word comes next, which then is passed; a name, "" when
 * there is none. */
void reading_spaces(Rendering *r);
bool reading_sign(Rendering *r, const char *sign);
bool reading_word(Rendering *r, const char *word);
bool reading_name(Rendering *r, char name[64]);
/* Whether a byte continues a name or number. */
bool reading_in_name(char byte);
/* Sets the error at the current position, unless one is set already. Returns NULL. */
json_t *reading_wrong(Rendering *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for values that do not fit; nothing where they are not computed. NULL. */
json_t *reading_refused(Rendering *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* expression: parses and evaluates the expressions between {{ and }} of a template in one pass.
 * Values are JSON values; NULL = undefined. */

/* Value of the expression at the current position. */
json_t *expression_read(Rendering *r);

/* values: Python semantics of the values of a template: text, order, arithmetic, slices.
 * Values are those of JSON; NULL is one that is not defined. Results live until the end of the
 * rendering. A wrong operation sets the problem of a live rendering. */

json_t *values_text(Rendering *r, const char *bytes, size_t length);
json_t *values_taken(Rendering *r, Text *text); /* the same; the text is released */
json_t *values_joined(Rendering *r, const json_t *a, const json_t *b); /* as one text */
json_t *values_truth(Rendering *r, bool truth);
json_t *values_integer(Rendering *r, json_int_t number);

/* str(value); "" for a value that is not defined. */
void values_write(const json_t *value, Text *out);
/* json.dumps(value, ensure_ascii=False) */
void values_write_json(const json_t *value, Text *out);

/* True if a == b: 1, 1.0 and true are equal. */
bool values_equal(const json_t *a, const json_t *b);
/* a SIGN b of "<", "<=", ">", ">=". */
json_t *values_compare(Rendering *r, const char *sign, const json_t *a, const json_t *b);
/* True if `part` is in `whole`. */
bool values_contains(Rendering *r, const json_t *whole, const json_t *part);
/* a SIGN b of "+", "-", "*", "/", "//", "%". */
json_t *values_arithmetic(Rendering *r, const char *sign, json_t *a, json_t *b);
json_t *values_negative(Rendering *r, const json_t *value);

/* Characters, items or keys; 0 for a value that is not defined. */
json_t *values_length(Rendering *r, const json_t *value);
/* list(value): characters, items or keys. */
json_t *values_list(Rendering *r, json_t *value);
/* value[key]; NULL where there is none. */
json_t *values_item(Rendering *r, json_t *value, const json_t *key);
/* value[from:to:step]; NULL: left out. */
json_t *values_slice(Rendering *r, json_t *value, const json_t *const bounds[3]);

/* filters: the methods, filters, tests and functions that a template may call. */

enum { MAX_ARGUMENTS = 4 };

typedef struct Arguments {
    json_t *items[MAX_ARGUMENTS];
    int count;
    json_t *named; /* an object, or NULL */
} Arguments;

/* value.name(given) */
json_t *call_method(Rendering *r, json_t *value, const char *name, const Arguments *given);
/* name(given) */
json_t *call_function(Rendering *r, const char *name, const Arguments *given);
/* value | name(given) */
json_t *call_filter(Rendering *r, json_t *value, const char *name, const Arguments *given);
/* value is name */
bool call_test(Rendering *r, const json_t *value, const char *name);

/* letter_case: upper and lower case of texts in UTF-8, as the methods of Python's str define them:
 * "ß" becomes "SS", and a capital sigma at the end of a word becomes "ς". */

typedef enum LetterCase {
    CASE_UPPER,
    CASE_LOWER,
    CASE_CAPITALIZE, /* the first character in title case, all others in lower case */
    CASE_TITLE,      /* the first letter of each run of letters in title case */
    CASE_WORDS       /* as the filter `title` of Jinja: words begin after spaces and -([{< */
} LetterCase;

/* Appends the valid UTF-8 `bytes` in another case. */
void text_append_case(Text *out, const char *bytes, size_t length, LetterCase letter_case);

/* schema: JSON and JSON schemas as grammars. */

/* The values of a schema; of NULL: all objects. Refers to nothing of it. NULL after setting
 * *problem, which names the field `param`. */
Grammar *schema_grammar(const json_t *schema, const char *param, Problem *problem);
/* Calls {"name": ..., "arguments": ...} of one of the functions. */
Grammar *schema_call_grammar(const json_t *functions, const char *param, Problem *problem);

/* tools: calls of functions of the client. */

/* Reads `tools` and `tool_choice`. False after setting *problem. */
bool tools_read(Tools *tools, const json_t *body, Problem *problem);
void tools_free(Tools *tools);
/* The grammar of a call that is required; NULL if none is, or after setting *problem. */
Grammar *tools_grammar(const Tools *tools, Problem *problem);
/* The calls that a text contains, in the format of the API, or NULL; `prefix` begins their ids.
 * *before: bytes of the text before them. */
json_t *tools_calls(const Tools *tools, const Text *text, const char *prefix, size_t *before);

/* answer: responses in the format of OpenAI's API. */

/* The whole answer of a request that is finished: a new string. */
char *answer_text(const TextRequest *request);
/* Appends the event with the new text of a completion; also the first event, and the one with the
 * finish reason. */
void answer_event(Completion *choice, Text *out);
/* Appends the final events of a request. */
void answer_end(const TextRequest *request, Text *out);

/* choice: one text as the model makes it: its pieces, its log-probabilities, why it ends. */

/* Makes request->choices, ready for a batch. */
void choices_make(TextRequest *request);
void choices_free(TextRequest *request);
/* Ends a completion: appends the rest of its text and sets the finish reason. */
void choice_finish(Completion *choice);

/* connection: open connections, with timeouts and detection of disconnected clients. */

typedef struct Connection Connection;
typedef struct Connections Connections;

/* None yet. Freed when all connections have been removed. */
Connections *connections_new(void);
void connections_free(Connections *connections);
Connection *connection_add(Connections *connections, int socket);
void connection_remove(Connections *connections, Connection *connection);
/* Restarts the timeout: the client must send a request or read an answer. */
void connection_awaits_client(Connections *connections, Connection *connection);
/* The client waits for this. */
void connection_serves(Connections *connections, Connection *connection, TextRequest *request);
/* Cancels the requests of disconnected clients, and closes connections after `seconds` without
 * progress of the client. */
void connections_sweep(Connections *connections, double seconds);
/* Whether a client waits for an answer. */
bool connections_busy(Connections *connections);

/* worker: the thread that runs the model: texts that wait, and those that run at the same time,
 * each in a slot of its own. A text begins as soon as another one ends, and its result does not
 * depend on the others. */

typedef struct Worker Worker;

/* wake: called, under the lock, for the connection of a request that has news. NULL after a
 * message. The model stays the caller's. */
Worker *worker_start(Service *service, Model *model, void (*wake)(void *connection));
/* Requests that are not finished are ended with a problem. */
void worker_stop(Worker *worker);
/* Waits until nobody uses it. */
void worker_free(Worker *worker);

/* Adds a request to the queue and a reference to it; sets *problem if the queue is full. */
bool worker_submit(Worker *worker, TextRequest *request, Problem *problem);
/* Lock for data shared with the worker. */
void worker_lock(Worker *worker);
void worker_unlock(Worker *worker);
/* Lets a request go; the last of its holders frees it. */
void worker_release(Worker *worker, TextRequest *request);

#endif
