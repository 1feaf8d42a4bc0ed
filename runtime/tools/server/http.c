#include "tools/server/http.h"

#include "abi/json_make.h"
#include "base/message.h"

#ifndef HAVE_MICROHTTPD

bool http_serve(Service *service, Model *model, long port, const char *line) {
    (void)service, (void)model, (void)port, (void)line;
    return error_message("install libmicrohttpd-dev (Debian package) and rebuild",
                         "moec serve requires libmicrohttpd, but this moec was built without it");
}

#else

#include "base/clock.h"
#include "base/lazy_library.h"
#include "base/memory.h"
#include "tools/server/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <dlfcn.h>
#include <microhttpd.h>

/* ---- the library ----
 *
 * The functions of libmicrohttpd. The library is opened when something is served: it brings those
 * of its cryptography, which would cost every other command 10 ms at its start. */
#define HTTP_FUNCTIONS(F)                                                                          \
    F(start_daemon)                                                                                \
    F(stop_daemon)                                                                                 \
    F(get_daemon_info)                                                                             \
    F(get_connection_info)                                                                         \
    F(lookup_connection_value)                                                                     \
    F(get_connection_values)                                                                       \
    F(suspend_connection)                                                                          \
    F(resume_connection)                                                                           \
    F(create_response_from_buffer)                                                                 \
    F(create_response_from_callback)                                                               \
    F(add_response_header)                                                                         \
    F(queue_response)                                                                              \
    F(destroy_response)

typedef struct HttpLibrary {
#define HTTP_MEMBER(name) __typeof__(MHD_##name) *name;
    HTTP_FUNCTIONS(HTTP_MEMBER)
#undef HTTP_MEMBER
} HttpLibrary;

static HttpLibrary http;

/* Fills `http`; false after a message. */
static bool http_library_open(void) {
    static const char *const names[] = {"libmicrohttpd.so.12", "libmicrohttpd.so", NULL};
    const LibrarySymbol functions[] = {
#define HTTP_SYMBOL(name) {&http.name, "MHD_" #name},
        HTTP_FUNCTIONS(HTTP_SYMBOL)
#undef HTTP_SYMBOL
    };
    const char *remedy = "install libmicrohttpd12 (Debian package)";
    void *handle = lazy_library_open("", names);
    if (!handle) return error_message(remedy, "moec serve requires libmicrohttpd: %s", dlerror());
    const char *missing =
        lazy_library_take(handle, functions, sizeof functions / sizeof *functions);
    return !missing ||
           error_message(remedy, "libmicrohttpd is too old: function %s is missing", missing);
}

/* Bytes of a path and of the headers; beyond the memory of a connection libmicrohttpd answers by
 * itself, and not in JSON. */
enum { MAX_PATH = 4 << 10, MAX_HEAD = 32 << 10, MEMORY = 256 << 10 };

typedef struct HttpServer {
    Service *service;
    Worker *worker;
    Connections *connections;
    struct MHD_Daemon *daemon;
} HttpServer;

typedef enum MHD_Result Result;
typedef struct MHD_Connection Handle;

typedef struct HttpExchange HttpExchange;

typedef struct Route {
    const char *path, *method;
    Result (*answer)(HttpExchange *exchange, Handle *handle); /* NULL: a request with a body */
    AnswerForm form;
    bool open; /* to clients without the key, too */
} Route;

/* One exchange on a connection. */
struct HttpExchange {
    HttpServer *server;
    Handle *handle;
    Connection *connection;
    const Route *route;
    Problem refusal; /* sent when the body has been read, so that the client gets to see it */
    bool answered;
    Text body;
    TextRequest *request;
};

static Connection *connection_of(Handle *handle) {
    return http.get_connection_info(handle, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

/* ---- answers ---- */

static Result send_response(HttpExchange *exchange, Handle *handle, int status,
                            struct MHD_Response *response) {
    Metrics *metrics = &exchange->server->service->metrics;
    atomic_fetch_add(&metrics->answers[status / 100], 1);
    connection_awaits_client(exchange->server->connections, exchange->connection);
    Result result = http.queue_response(handle, (unsigned)status, response);
    http.destroy_response(response);
    return result;
}

/* text: taken over. */
static Result send_text(HttpExchange *exchange, Handle *handle, int status, const char *type,
                        char *text, size_t length) {
    struct MHD_Response *response =
        http.create_response_from_buffer(length, text, MHD_RESPMEM_MUST_FREE);
    http.add_response_header(response, "Content-Type", type);
    if (status == 401) http.add_response_header(response, "WWW-Authenticate", "Bearer");
    if (status == 429 || status == 503) http.add_response_header(response, "Retry-After", "1");
    return send_response(exchange, handle, status, response);
}

static Result send_json(HttpExchange *exchange, Handle *handle, int status, char *text) {
    return send_text(exchange, handle, status, "application/json", text, strlen(text));
}

static Result send_problem(HttpExchange *exchange, Handle *handle, Problem *problem) {
    Result result = send_json(exchange, handle, problem->status, problem_text(problem));
    free(problem->text);
    problem->text = NULL;
    return result;
}

/* The next bytes of events; where there are none yet, the connection sleeps until the worker wakes
 * it. */
static ssize_t read_events(void *context, uint64_t offset, char *to, size_t most) {
    (void)offset;
    HttpExchange *exchange = context;
    TextRequest *request = exchange->request;
    Worker *worker = exchange->server->worker;
    worker_lock(worker);
    size_t left = request->out.length - request->sent, count = left < most ? left : most;
    ssize_t result = (ssize_t)count;
    if (count) {
        memcpy(to, request->out.bytes + request->sent, count);
        request->sent += count;
    } else if (request->complete) {
        result = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        request->connection = exchange->handle;
        http.suspend_connection(exchange->handle);
    }
    worker_unlock(worker);
    return result;
}

static Result send_events(HttpExchange *exchange, Handle *handle) {
    enum { BLOCK = 4096 };
    struct MHD_Response *response =
        http.create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_events, exchange, NULL);
    http.add_response_header(response, "Content-Type", "text/event-stream");
    http.add_response_header(response, "Cache-Control", "no-cache");
    return send_response(exchange, handle, 200, response);
}

/* ---- requests ---- */

static Result send_models(HttpExchange *exchange, Handle *handle) {
    const Service *service = exchange->server->service;
    json_t *list =
        json_make("{s:s, s:[{s:s, s:s, s:I, s:s, s:I}]}", "object", "list", "data", "id",
                  service->name, "object", "model", "created", (json_int_t)service->started,
                  "owned_by", "moec", "max_model_len", (json_int_t)service->context);
    char *text = json_write_new(list, JSON_COMPACT);
    return send_json(exchange, handle, 200, text);
}

static Result send_metrics(HttpExchange *exchange, Handle *handle) {
    Text text = {0};
    metrics_text(&exchange->server->service->metrics, &text);
    return send_text(exchange, handle, 200, "text/plain; version=0.0.4", text.bytes, text.length);
}

static Result send_health(HttpExchange *exchange, Handle *handle) {
    return send_json(exchange, handle, 200, memory_format("{\"status\":\"ok\"}"));
}

static const Route routes[] = {
    {"/health", "GET", send_health, 0, true},
    {"/metrics", "GET", send_metrics, 0, false},
    {"/v1/models", "GET", send_models, 0, false},
    {"/v1/completions", "POST", NULL, FORM_COMPLETION, false},
    {"/v1/chat/completions", "POST", NULL, FORM_CHAT, false},
};

static const char *header(Handle *handle, const char *name) {
    return http.lookup_connection_value(handle, MHD_HEADER_KIND, name);
}

static bool too_long(const HttpExchange *exchange, Problem *problem) {
    return !problem_set(problem, 413, NULL,
                        "the body is too large: send at most %zu bytes, or start the server with a "
                        "larger --max-body-size",
                        exchange->server->service->body);
}

static Result count_head(void *context, enum MHD_ValueKind kind, const char *key,
                         const char *value) {
    (void)kind;
    *(size_t *)context += strlen(key) + (value ? strlen(value) : 0) + 4;
    return MHD_YES;
}

/* Checks the first line and the headers. Returns false after setting *problem. */
static bool check_head(const HttpExchange *exchange, const char *path, const char *method,
                       Problem *problem) {
    const Service *service = exchange->server->service;
    const Route *route = exchange->route;
    Handle *handle = exchange->handle;
    const Headers headers = {header(handle, "Host"), header(handle, "Origin"),
                             header(handle, "Authorization"), header(handle, "Content-Type")};
    const char *length = header(handle, "Content-Length");
    size_t head = 0;
    http.get_connection_values(handle, MHD_HEADER_KIND, count_head, &head);
    if (strlen(path) > MAX_PATH)
        return problem_set(problem, 414, NULL, "the path is longer than %d bytes", MAX_PATH);
    if (head > MAX_HEAD)
        return problem_set(problem, 431, NULL, "the headers are longer than %d bytes", MAX_HEAD);
    if (!(route && route->open ? admission_open : admission_client)(service, &headers, problem))
        return false;
    if (!route)
        return problem_set(problem, 404, NULL,
                           "unknown path: use /v1/completions, /v1/chat/completions, /v1/models, "
                           "/metrics or /health");
    if (strcmp(method, route->method) != 0)
        return problem_set(problem, 405, NULL, "this path supports only the method %s",
                           route->method);
    if (route->answer) return true;
    if (!admission_body(&headers, problem)) return false;
    return !length || strtoull(length, NULL, 10) <= service->body || !too_long(exchange, problem);
}

/* The headers have arrived. A connection that is closed with unread bytes is reset, and the client
 * loses the answer: a refused body is read first, and dropped. With Expect the client waits for an
 * answer before it sends the body. */
static Result begin_exchange(HttpExchange *exchange, Handle *handle, const char *path,
                             const char *method) {
    for (size_t i = 0; i < sizeof routes / sizeof *routes && !exchange->route; i++)
        if (strcmp(routes[i].path, path) == 0) exchange->route = &routes[i];
    if (check_head(exchange, path, method, &exchange->refusal) || !header(handle, "Expect"))
        return MHD_YES;
    exchange->answered = true;
    return send_problem(exchange, handle, &exchange->refusal);
}

/* Sends the result of a request without events. */
static Result send_answer(HttpExchange *exchange, Handle *handle) {
    TextRequest *request = exchange->request;
    Text out = request->out;
    int status = request->problem.status ? request->problem.status : 200;
    request->out = (Text){0};
    return send_text(exchange, handle, status, "application/json", out.bytes, out.length);
}

/* Sleeps until the worker is done, unless it is already. */
static Result wait_for_answer(HttpExchange *exchange, Handle *handle) {
    Worker *worker = exchange->server->worker;
    worker_lock(worker);
    bool complete = exchange->request->complete;
    if (!complete) {
        exchange->request->connection = handle;
        http.suspend_connection(handle);
    }
    worker_unlock(worker);
    return complete ? send_answer(exchange, handle) : MHD_YES;
}

/* The body is there. */
static Result submit_request(HttpExchange *exchange, Handle *handle) {
    HttpServer *server = exchange->server;
    Problem problem = {0};
    const char *body = exchange->body.bytes ? exchange->body.bytes : "";
    TextRequest *request =
        request_read(server->service, exchange->route->form, body, exchange->body.length, &problem);
    text_free(&exchange->body);
    if (!request) return send_problem(exchange, handle, &problem);
    exchange->request = request;
    if (!worker_submit(server->worker, request, &problem))
        return send_problem(exchange, handle, &problem);
    Result result = request->stream ? send_events(exchange, handle) : MHD_YES;
    connection_serves(server->connections, exchange->connection, request);
    return request->stream ? result : wait_for_answer(exchange, handle);
}

static void add_body(HttpExchange *exchange, const char *part, size_t length) {
    Problem *refusal = &exchange->refusal;
    if (refusal->status) return;
    if (exchange->body.length + length <= exchange->server->service->body) {
        text_append(&exchange->body, part, length);
    } else {
        too_long(exchange, refusal);
        text_free(&exchange->body);
    }
}

/* Called when the headers are there, then for each part of the body, at its end, and when a
 * connection that slept was woken. */
static Result answer(void *context, Handle *handle, const char *path, const char *method,
                     const char *version, const char *part, size_t *length, void **slot) {
    HttpServer *server = context;
    HttpExchange *exchange = *slot;
    (void)version;
    if (!exchange) {
        exchange = *slot = memory_new(sizeof *exchange);
        exchange->server = server;
        exchange->handle = handle;
        exchange->connection = connection_of(handle);
        return begin_exchange(exchange, handle, path, method);
    }
    if (exchange->answered) return MHD_YES;
    if (*length) {
        add_body(exchange, part, *length);
        *length = 0;
        return MHD_YES;
    }
    exchange->answered = exchange->refusal.status || exchange->route->answer;
    if (exchange->refusal.status) return send_problem(exchange, handle, &exchange->refusal);
    if (exchange->route->answer) return exchange->route->answer(exchange, handle);
    return exchange->request ? wait_for_answer(exchange, handle) : submit_request(exchange, handle);
}

static void exchange_completed(void *context, Handle *handle, void **slot,
                               enum MHD_RequestTerminationCode why) {
    HttpServer *server = context;
    HttpExchange *exchange = *slot;
    (void)handle, (void)why;
    if (!exchange) return;
    connection_awaits_client(server->connections, exchange->connection);
    if (exchange->request) {
        atomic_store(&exchange->request->cancelled, true);
        worker_lock(server->worker);
        exchange->request->connection = NULL;
        worker_unlock(server->worker);
        worker_release(server->worker, exchange->request);
    }
    text_free(&exchange->body);
    free(exchange->refusal.text);
    free(exchange);
    *slot = NULL;
}

static void connect_or_close(void *context, Handle *handle, void **slot,
                             enum MHD_ConnectionNotificationCode what) {
    HttpServer *server = context;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        int socket =
            http.get_connection_info(handle, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        *slot = connection_add(server->connections, socket);
        atomic_fetch_add(&server->service->metrics.connections, 1);
    } else {
        connection_remove(server->connections, *slot);
        atomic_fetch_sub(&server->service->metrics.connections, 1);
    }
}

/* ---- from start to end ---- */

static void wake(void *connection) {
    http.resume_connection(connection);
}

typedef union SocketAddress {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
} SocketAddress;

static bool read_address(const char *host, long port, SocketAddress *address) {
    *address = (SocketAddress){0};
    if (inet_pton(AF_INET, host, &address->four.sin_addr) == 1) {
        address->four.sin_family = AF_INET;
        address->four.sin_port = htons((uint16_t)port);
        return true;
    }
    address->six.sin6_family = AF_INET6;
    address->six.sin6_port = htons((uint16_t)port);
    return inet_pton(AF_INET6, host, &address->six.sin6_addr) == 1 ||
           error_message("use --host 127.0.0.1 for local connections, 0.0.0.0 for all interfaces",
                         "'%s' is not an IP address", host);
}

static bool listen_at(HttpServer *server, long port) {
    SocketAddress address;
    const char *host = server->service->host;
    if (!read_address(host, port, &address)) return false;
    bool six = address.any.sa_family == AF_INET6;
    const Service *service = server->service;
    server->daemon = http.start_daemon(
        MHD_USE_AUTO_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | (six ? MHD_USE_IPv6 : 0),
        (uint16_t)port, NULL, NULL, answer, server, MHD_OPTION_SOCK_ADDR, &address.any,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)service->connections,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY, MHD_OPTION_STRICT_FOR_CLIENT, -1,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)service->patience + 1, MHD_OPTION_NOTIFY_COMPLETED,
        exchange_completed, server, MHD_OPTION_NOTIFY_CONNECTION, connect_or_close, server,
        MHD_OPTION_END);
    return server->daemon ||
           error_message("choose another --port, or stop the program that uses this one",
                         "cannot listen on %s, port %ld: %s", host, port, strerror(errno));
}

static void watch_server(HttpServer *server) {
    const struct timespec moment = {.tv_nsec = 100000000};
    for (long i = 0; !interrupt_signal(); i++) {
        nanosleep(&moment, NULL);
        connections_sweep(server->connections, server->service->patience);
    }
}

/* Sends final answers to all clients and waits a moment for delivery. */
static void stop_server(HttpServer *server) {
    const struct timespec moment = {.tv_nsec = 50000000};
    worker_stop(server->worker);
    double until = seconds_now() + 1;
    while (seconds_now() < until && connections_busy(server->connections)) nanosleep(&moment, NULL);
    http.stop_daemon(server->daemon);
}

bool http_serve(Service *service, Model *model, long port, const char *line) {
    if (!http_library_open()) return false;
    HttpServer server = {.service = service, .connections = connections_new()};
    signal(SIGPIPE, SIG_IGN);
    interrupt_watch();
    service->started = (long)time(NULL);
    server.worker = worker_start(service, model, wake);
    bool good = server.worker && listen_at(&server, port);
    if (good) {
        int taken = http.get_daemon_info(server.daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
        const char *host = service->host;
        printf(strchr(host, ':') ? "http://[%s]:%d/v1%s\n" : "http://%s:%d/v1%s\n", host, taken,
               line);
        fflush(stdout);
        watch_server(&server);
        stop_server(&server);
    } else if (server.worker) {
        worker_stop(server.worker);
    }
    worker_free(server.worker);
    token_bytes_free(service->bytes);
    connections_free(server.connections);
    return good;
}
#endif
