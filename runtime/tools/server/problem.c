#include "tools/server/request.h"

#include "abi/json_make.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* The code of an error without a more specific one, by status. */
static const struct {
    int status;
    const char *code;
} status_codes[] = {
    {400, "invalid_value"},     {401, "invalid_api_key"},        {403, "forbidden"},
    {404, "unknown_url"},       {405, "method_not_allowed"},     {413, "request_too_large"},
    {414, "url_too_long"},      {415, "unsupported_media_type"}, {429, "rate_limit_exceeded"},
    {431, "headers_too_large"}, {500, "server_error"},           {503, "service_unavailable"},
    {504, "timeout"},
};

static const char *status_code_name(int status) {
    for (size_t i = 0; i < sizeof status_codes / sizeof *status_codes; i++)
        if (status_codes[i].status == status) return status_codes[i].code;
    return NULL;
}

bool problem_code(Problem *problem, const char *code) {
    problem->code = code;
    return false;
}

bool problem_set(Problem *problem, int status, const char *param, const char *format, ...) {
    va_list arguments;
    free(problem->text);
    va_start(arguments, format);
    if (vasprintf(&problem->text, format, arguments) < 0) problem->text = NULL;
    va_end(arguments);
    problem->status = status;
    problem->type = status >= 500 ? "server_error" : "invalid_request_error";
    problem->param = param;
    problem->code = status_code_name(status);
    return false;
}

char *problem_text(const Problem *problem) {
    json_t *error =
        json_make("{s:{s:s?, s:s, s:s?, s:s?}}", "error", "message", problem->text, "type",
                  problem->type, "param", problem->param, "code", problem->code);
    return json_write_new(error, JSON_COMPACT);
}
