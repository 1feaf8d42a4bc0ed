/* template: renders the messages of a chat as one text with the chat template of the model. */
#ifndef SERVER_TEMPLATE_H
#define SERVER_TEMPLATE_H

#include "tools/server/request.h"

/* Parses a template from a template file, or from the key `chat_template` of a
 * tokenizer_config.json, which also defines bos_token and eos_token. NULL after a message that
 * names `path`. */
Template *template_open(const char *path, const char *text, size_t length);
/* The template of a model directory from the texts of its files, which may be NULL. Returns NULL if
 * there is no template, or after a message that names `path`; *wrong distinguishes the cases. */
Template *template_of_folder(const char *path, const char *jinja, const char *config, bool *wrong);
void template_free(Template *template);
/* Appends the text of messages, up to where the answer begins. False when *problem was set. */
bool template_chat(const Template *template, const json_t *messages, Text *out, Problem *problem);
/* Removes a duplicate of the tokens that both the template and the tokenizer add at the start of a
 * text. */
void template_begin_once(const Tokenizer *tokenizer, TokenList *tokens);

#endif
