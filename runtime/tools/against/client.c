/* client: the process that runs foreign code: Python with client.py, or a child of this program
 * with a shared library. A crash ends the child, not the comparison. */
#include "tools/against/against.h"

#include "abi/embedded_file.h"
#include "abi/json_make.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/message.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern const EmbeddedFile against_files[];

enum { USUAL_LIMIT = 300 }; /* seconds */

/* ---- the process ---- */

/* "FILE" and "NAME" of FILE:NAME; false after a message. */
static bool split_code(const char *code, char **file, char **name) {
    const char *colon = strrchr(code, ':');
    *file = memory_format("%.*s", colon ? (int)(colon - code) : 0, code);
    *name = memory_format("%s", colon ? colon + 1 : "");
    if (**file && **name) return true;
    return error_message("examples: --against attention.py:attention, --against lib.so:attention",
                         "--against expects FILE.py:NAME or LIBRARY.so:NAME, got '%s'", code);
}

static bool has_ending(const char *text, const char *end) {
    const size_t length = strlen(text), own = strlen(end);
    return length > own && !strcmp(text + length - own, end);
}

/* The interpreter command as words: PYTHON may have arguments. */
static char **python_words(char *python, const char *file, const char *name, const char *device) {
    char **words = memory_new(sizeof *words * 32), *rest = NULL;
    int count = 0;
    for (char *word = strtok_r(python, " ", &rest); word && count < 24;
         word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    words[count++] = "-c";
    words[count++] = (char *)(uintptr_t)against_files[0].text;
    words[count++] = (char *)(uintptr_t)file;
    words[count++] = (char *)(uintptr_t)name;
    words[count++] = (char *)(uintptr_t)device;
    return words;
}

/* Descriptors 3 and 4 are the ends of the pipes; prints of the code go to stderr. */
_Noreturn static void become_client(char **words, int from, int to) {
    const int in = fcntl(from, F_DUPFD, 5), out = fcntl(to, F_DUPFD, 5);
    dup2(in, 3);
    dup2(out, 4);
    dup2(2, 1);
    for (int descriptor = 5; descriptor <= 5 + 16; descriptor++) close(descriptor);
    execvp(words[0], words);
    _exit(127);
}

static void start_child(AgainstClient *client, char **words, const char *file, const char *name,
                        const AgainstExtern *external) {
    int down[2], up[2];
    if (pipe2(down, O_CLOEXEC) != 0) return;
    if (pipe2(up, O_CLOEXEC) != 0) {
        close(down[0]);
        close(down[1]);
        return;
    }
    fflush(NULL);
    client->process = fork();
    if (client->process == 0) {
        close(down[1]);
        close(up[0]);
        if (words) become_client(words, down[0], up[1]);
        dup2(2, 1);
        _exit(library_serve(file, name, external, down[0], up[1]));
    }
    close(down[0]);
    close(up[1]);
    client->to = down[1];
    client->from = up[0];
}

/* How the child ended, after it stopped answering. */
static bool ended_message(AgainstClient *client) {
    int status = 0;
    close(client->to);
    client->to = -1;
    while (waitpid(client->process, &status, 0) < 0 && errno == EINTR) continue;
    client->process = 0;
    if (WIFSIGNALED(status))
        return error_message("run the code on the same sizes under a debugger or a sanitizer",
                             "%s ended by signal %d (%s)", client->name, WTERMSIG(status),
                             strsignal(WTERMSIG(status)));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return error_message("set PYTHON to a Python with PyTorch", "cannot start %s",
                             getenv("PYTHON") ? getenv("PYTHON") : "python3");
    return error_message("the code must return, not exit", "%s ended the process, exit code %d",
                         client->name, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

bool client_open(AgainstClient *client, const AgainstOptions *options) {
    AUTO_FREE char *file = NULL, *name = NULL;
    *client = (AgainstClient){.to = -1, .from = -1};
    client->name = memory_format("%s", options->external ? options->title : options->code);
    client->device = options->external && options->external->device ? options->external : NULL;
    if (!seconds_limit("MOEC_AGAINST_TIMEOUT", USUAL_LIMIT, &client->limit)) return false;
    if (client->device) return true;
    bool good = split_code(options->code, &file, &name);
    const bool python = has_ending(file, ".py"), library = has_ending(file, ".so");
    if (good && !python && !library)
        good = error_message("examples: attention.py:attention, ./lib.so:attention",
                             "--against expects a file .py or .so, got '%s'", file);
    if (good && !file_exists(file))
        good = error_message("check the path", "cannot read '%s': no such file", file);
    if (good && library && strcmp(options->device, "cpu") != 0)
        good = error_message("use --device cpu", "a shared library computes on the CPU");
    if (good) {
        const char *asked = getenv("PYTHON");
        AUTO_FREE char *command = memory_format("%s", asked && *asked ? asked : "python3");
        AUTO_FREE char **words = python ? python_words(command, file, name, options->device) : NULL;
        signal(SIGPIPE, SIG_IGN);
        start_child(client, words, file, name, options->external);
        if (client->process <= 0)
            good = error_message("close other programs", "cannot start a process: %s",
                                 strerror(errno));
    }
    return good;
}

void client_close(AgainstClient *client) {
    if (client->to >= 0) close(client->to);
    if (client->from >= 0) close(client->from);
    while (client->process > 0 && waitpid(client->process, NULL, 0) < 0 && errno == EINTR) continue;
    json_decref(client->described);
    free(client->name);
}

/* ---- messages ---- */

/* Waits until the code answers; one that does not within the limit is ended. False after a
 * message. */
static bool answers_in_time(AgainstClient *client) {
    struct pollfd from = {.fd = client->from, .events = POLLIN};
    const double end = seconds_now() + client->limit;
    for (double left = client->limit; left > 0; left = end - seconds_now()) {
        const int ready = poll(&from, 1, left > 1000 ? 1000000 : (int)(1e3 * left) + 1);
        if (ready > 0) return true;
        if (ready < 0 && errno != EINTR) return true; /* reading reports the error */
    }
    kill(client->process, SIGKILL);
    return error_message("MOEC_AGAINST_TIMEOUT sets the limit in seconds",
                         "%s did not return within %g s", client->name, client->limit);
}

/* The answer to a message, or NULL after a message. */
static json_t *client_answer(AgainstClient *client) {
    if (!answers_in_time(client)) return NULL;
    json_t *answer = against_receive(client->from);
    if (!answer) {
        ended_message(client);
        return NULL;
    }
    const char *error = json_field_text(answer, "error"), *where = json_field_text(answer, "where"),
               *help = json_field_text(answer, "help");
    if (!error) return answer;
    error_message(help, "%s: %s", where ? where : client->name, error);
    json_decref(answer);
    return NULL;
}

bool client_describe(AgainstClient *client, json_t *options) {
    if (client->device) {
        client->described = json_make("{s:s, s:b}", "kind", "library", "any", 1);
        return extern_device_build(client->device);
    }
    json_auto_t *message = json_make("{s:O}", "options", options);
    if (against_send(client->to, message))
        client->described = client_answer(client);
    else
        ended_message(client);
    return client->described != NULL;
}

static json_t *case_json(const AgainstCase *one) {
    json_t *tensors = json_array(), *results = json_array();
    for (int i = 0; i < one->shape->count; i++) {
        const AgainstTensor *tensor = &one->shape->tensors[i];
        json_t *entry = json_make("{s:s, s:o}", "name", tensor->name, "shape",
                                  json_integers(tensor->shape, tensor->rank));
        if (tensor_is_given(tensor)) {
            static const char *const roles[] = {"argument", "parameter", "state"};
            json_object_set_new(entry, "role", json_text(roles[tensor->role]));
            json_object_set_new(entry, "integer", json_boolean(tensor->integer));
            json_object_set_new(entry, "gradient", json_boolean(tensor->gradient != NULL));
        } else {
            json_object_set_new(entry, "term", json_boolean(tensor->role == AGAINST_TERM));
            json_object_set_new(entry, "cotangent", json_boolean(one->values[i] != NULL));
        }
        json_array_append_new(tensor_is_given(tensor) ? tensors : results, entry);
    }
    return json_make("{s:s, s:o, s:o}", "type", against_type_names[one->type], "tensors", tensors,
                     "results", results);
}

static bool send_values(const AgainstClient *client, const AgainstCase *one) {
    bool good = true;
    for (int given = 1; given >= 0; given--)
        for (int i = 0; i < one->shape->count && good; i++) {
            const AgainstTensor *tensor = &one->shape->tensors[i];
            if (one->values[i] && tensor_is_given(tensor) == given)
                good = against_send_values(client->to, one->values[i], tensor->count);
        }
    return good;
}

/* ---- answers ---- */

void answer_free(AgainstAnswer *answer, int count) {
    for (int i = 0; i < count; i++) {
        if (answer->results) free(answer->results[i]);
        if (answer->gradients) free(answer->gradients[i]);
    }
    free(answer->results);
    free(answer->gradients);
    free(answer->missing);
    free(answer->note);
    *answer = (AgainstAnswer){0};
}

char *described_text(const json_t *described) {
    const char *name = json_field_text(described, "name");
    const json_t *shape = json_object_get(described, "shape");
    long sizes[64];
    int rank = 0;
    for (size_t i = 0; i < json_array_size(shape) && i < 64; i++)
        sizes[rank++] = (long)json_integer_value(json_array_get(shape, i));
    return against_tensor_text(name ? name : "?", rank, sizes);
}

static char *joined_list(char *text, char *more) {
    char *longer = memory_append(text, "%s%s", text ? ", " : "", more);
    free(more);
    return longer;
}

/* Both sides of a result that is missing or has another shape. */
static bool results_message(const AgainstClient *client, const AgainstShape *shape,
                            const json_t *results) {
    AUTO_FREE char *wanted = NULL, *got = NULL;
    for (int i = 0; i < shape->count; i++)
        if (!tensor_is_given(&shape->tensors[i]))
            wanted = joined_list(wanted,
                                 against_tensor_text(shape->tensors[i].name, shape->tensors[i].rank,
                                                     shape->tensors[i].shape));
    for (size_t i = 0; i < json_array_size(results); i++)
        got = joined_list(got, described_text(json_array_get(results, i)));
    line_message("  the spec has     %s", wanted ? wanted : "no results");
    line_message("  the code returns %s", got ? got : "nothing");
    return error_message("return a tensor, a tuple in the order of the spec, or a dictionary",
                         "%s returns other results than the spec", client->name);
}

bool has_described_shape(const AgainstTensor *tensor, const json_t *described) {
    const json_t *shape = json_object_get(described, "shape");
    bool same = json_array_size(shape) == (size_t)tensor->rank;
    for (int i = 0; same && i < tensor->rank; i++)
        same = json_integer_value(json_array_get(shape, (size_t)i)) == tensor->shape[i];
    return same;
}

int tensor_called(const AgainstShape *shape, const char *name, bool given) {
    for (int i = 0; name && i < shape->count; i++)
        if (tensor_is_given(&shape->tensors[i]) == given && !strcmp(shape->tensors[i].name, name))
            return i;
    return -1;
}

static bool receive_tensors(AgainstClient *client, const AgainstShape *shape, const json_t *list,
                            bool given, AgainstAnswer *answer) {
    double **to = given ? answer->gradients : answer->results;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        const int which = tensor_called(shape, json_field_text(entry, "name"), given);
        if (which < 0) return ended_message(client);
        const size_t count = shape->tensors[which].count;
        if (given) answer->missing[which] = json_is_true(json_object_get(entry, "missing"));
        to[which] = memory_new(sizeof **to * (count + 1));
        if (!against_receive_values(client->from, to[which], count)) return ended_message(client);
    }
    return true;
}

bool client_run(AgainstClient *client, const AgainstCase *one, AgainstAnswer *answer) {
    const AgainstShape *shape = one->shape;
    const size_t count = (size_t)shape->count + 1;
    *answer = (AgainstAnswer){.results = memory_new(sizeof(double *) * count),
                              .gradients = memory_new(sizeof(double *) * count),
                              .missing = memory_new(sizeof(bool) * count)};
    if (client->device) return extern_device_run(client->device, one, answer, client->limit);
    json_t *message = case_json(one);
    bool good = against_send(client->to, message) && send_values(client, one);
    json_decref(message);
    json_auto_t *reply = NULL;
    if (good)
        good = (reply = client_answer(client)) != NULL;
    else
        ended_message(client);
    const json_t *results = json_object_get(reply, "results"),
                 *gradients = json_object_get(reply, "gradients");
    size_t found = 0, wanted = 0;
    for (int i = 0; i < shape->count; i++) wanted += !tensor_is_given(&shape->tensors[i]);
    for (size_t i = 0; good && i < json_array_size(results); i++) {
        const json_t *entry = json_array_get(results, i);
        const int which = tensor_called(shape, json_field_text(entry, "name"), false);
        found += which >= 0 && has_described_shape(&shape->tensors[which], entry);
    }
    if (good && (found != wanted || json_array_size(results) != wanted))
        good = results_message(client, shape, results);
    const char *note = json_field_text(reply, "note");
    if (note) answer->note = memory_format("%s", note);
    return good && receive_tensors(client, shape, results, false, answer) &&
           receive_tensors(client, shape, gradients, true, answer);
}
