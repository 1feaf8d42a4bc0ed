/* request: a client request in the format of OpenAI's API, validated, and the state of its answer.
 * https://platform.openai.com/docs/api-reference */
#ifndef SERVER_REQUEST_H
#define SERVER_REQUEST_H

#include "model/generate/batch.h"
#include "model/generate/speech.h"
#include "tools/server/http.h"

#include <jansson.h>
#include <stdatomic.h>

enum { MAX_LOGPROBS = 20, MAX_STOPS = 16, MAX_CHOICES = 128 };

typedef enum AnswerForm { FORM_COMPLETION, FORM_CHAT } AnswerForm;

/* Why there is no answer. */
typedef struct Problem {
    int status;                      /* of HTTP; 0: there is none */
    const char *type, *code, *param; /* constants; param can be NULL */
    char *text;
} Problem;

/* A token with the most likely alternatives. */
typedef struct Chance {
    int32_t token;
    bool given; /* by `logprob`: the first token of a text has none */
    double logprob;
    Text piece; /* text of the token */
    int best_count;
    int32_t best[MAX_LOGPROBS];
    double best_logprobs[MAX_LOGPROBS];
} Chance;

typedef struct TextRequest TextRequest;

/* One text that is asked for: a row of a batch. */
typedef struct Completion {
    Row row;
    TextRequest *request;
    int index;
    Speech *speech;
    Text text;          /* all that was made, without the prompt */
    size_t told;        /* bytes of it that were sent */
    Stream *spelling;   /* the pieces of tokens */
    Matching *matching; /* of the grammar of the request, or NULL */
    Chance *chances;    /* of the prompt, too, when it is echoed */
    size_t chance_count, chance_capacity, chances_told;
    size_t characters;  /* length of the pieces sent so far, in characters */
    const char *finish; /* "stop", "length" or "tool_calls"; NULL while unfinished */
    json_t *calls;      /* of functions, once it is finished, or NULL */
    size_t cached;      /* tokens of the prompt that were not computed again */
    bool special;       /* a special token ended it */
    bool begun;         /* the first event was sent */
} Completion;

/* Functions of the client that an answer can call. */
typedef struct Tools {
    json_t *list;      /* as the client sent them; NULL: none that can be called */
    json_t *functions; /* those that can be called: the objects of the key "function" */
    enum { TOOLS_AUTO, TOOLS_REQUIRED, TOOLS_NAMED } choice;
} Tools;

typedef struct Prompted {
    Text text; /* as it is echoed */
    TokenList tokens;
} Prompted;

struct TextRequest {
    Service *service;
    AnswerForm form;
    char id[32];
    long created;                  /* seconds since 1970 */
    double began, deadline, first; /* by seconds_now; first: 0 before the first token */
    /* Asked for. */
    Prompted *prompts;
    int prompt_count, copies;
    long limit;
    int logprobs; /* number of alternatives per token; -1 = no log-probabilities */
    bool echo, stream, stream_usage, ignore_eos;
    Sampling sampling;
    TokenBias *biases; /* those of sampling */
    Grammar *grammar;  /* that the texts follow, or NULL */
    Tools tools;
    char *stops[MAX_STOPS];
    int stop_count;
    /* The answer. */
    Completion *choices;
    int choice_count, left; /* left: not finished */
    Problem problem;
    /* Shared by the two threads, under the lock of the worker. */
    Text out;
    size_t sent;
    bool complete;
    int holders;
    atomic_bool cancelled;
    void *connection; /* that waits to be woken, or NULL */
};

/* Parses a body. On failure sets *problem and returns NULL. */
TextRequest *request_read(Service *service, AnswerForm form, const char *body, size_t length,
                          Problem *problem);
void request_free(TextRequest *request);

/* Fills a problem, with the code of its status; returns false. */
bool problem_set(Problem *problem, int status, const char *param, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Sets a code that is more specific than that of the status; returns false. */
bool problem_code(Problem *problem, const char *code);
/* As JSON: a new string. */
char *problem_text(const Problem *problem);

/* admission: which requests are answered at all, judged by their headers: Host and Origin, the key,
 * the type of the body. */

/* Values of headers; NULL: the request has none. */
typedef struct Headers {
    const char *host, *origin, *authorization, *content_type;
} Headers;

/* Checks Host and Origin, then the key. A server with a key accepts any Host and Origin: a web page
 * of another site does not have the key. Returns false after setting *problem. */
bool admission_client(const Service *service, const Headers *headers, Problem *problem);
/* The key alone is not asked for; Host and Origin are. */
bool admission_open(const Service *service, const Headers *headers, Problem *problem);
/* Checks that the body is declared as JSON. */
bool admission_body(const Headers *headers, Problem *problem);
/* True if only this machine can connect to the address. */
bool admission_is_loopback(const char *address);

/* template: renders the messages of a chat as one text with the chat template of the model. */

/* Parses a template from a template file, or from the key `chat_template` of a
 * tokenizer_config.json, which also defines bos_token and eos_token. NULL after a message that
 * names `path`. */
Template *template_open(const char *path, const char *text, size_t length);
/* The template of a model directory from the texts of its files, which may be NULL. Returns NULL if
 * there is no template, or after a message that names `path`; *wrong distinguishes the cases. */
Template *template_of_folder(const char *path, const char *jinja, const char *config, bool *wrong);
void template_free(Template *template);
/* Appends the text of messages; prompt: up to where the answer begins. tools: NULL if there are
 * none. False when *problem was set. */
bool template_render(const Template *template, const json_t *messages, const json_t *tools,
                     bool prompt, Text *out, Problem *problem);
/* The same as a prompt. */
bool template_chat(const Template *template, const json_t *messages, const json_t *tools, Text *out,
                   Problem *problem);
/* Removes a duplicate of the tokens that both the template and the tokenizer add at the start of a
 * text. */
void template_begin_once(const Tokenizer *tokenizer, TokenList *tokens);

#endif
