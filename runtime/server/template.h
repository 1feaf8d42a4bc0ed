/* template: the messages of a chat as one text, as the template of the model says. */
#ifndef SERVER_TEMPLATE_H
#define SERVER_TEMPLATE_H

#include "server/request.h"

/* A template as it stands in a file of its own, or in a tokenizer_config.json as `chat_template`,
 * beside which that names bos_token and eos_token. NULL after a message that names `path`. */
Template *template_open(const char *path, const char *text, size_t length);
/* That of a published folder from the texts of its files, each NULL where there is none. NULL where
 * they hold no template, or after a message that names `path`; *wrong tells which. */
Template *template_of_folder(const char *path, const char *jinja, const char *config, bool *wrong);
void template_free(Template *template);
/* Appends the text of messages, up to where the answer begins. False when *problem was set. */
bool template_chat(const Template *template, const json_t *messages, Text *out, Problem *problem);
/* The template may write what the tokenizer puts before a text as well: it stands there once. */
void template_begin_once(const Tokenizer *tokenizer, TokenList *tokens);

#endif
