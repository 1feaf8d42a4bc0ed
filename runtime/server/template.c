#include "server/template.h"

#include "base/message.h"

struct Template {
    int unused;
};

Template *template_open(const char *path, const char *text, size_t length) {
    (void)text, (void)length;
    error_message("use completions, and write the text of the chat there",
                  "%s: templates of chats are not read yet", path);
    return NULL;
}

void template_free(Template *template) {
    (void)template;
}

bool template_chat(const Template *template, const json_t *messages, Text *out, Problem *problem) {
    (void)template, (void)messages, (void)out;
    return problem_set(problem, 400, "messages", "templates of chats are not read yet");
}
