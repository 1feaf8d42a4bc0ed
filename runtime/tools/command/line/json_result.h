/* json_result: the result of a command with --json: one value on stdout. */
#ifndef JSON_RESULT_H
#define JSON_RESULT_H

#include "tools/command/line/arguments.h"

#include <jansson.h>

/* Prints the value, indented, and releases it. */
void json_result_print(json_t *result);
/* Prints {"path": path, "bytes": size of the file, or of the files in the folder} and the fields of
 * `others`, which is released. */
void json_result_written(const char *path, json_t *others);
/* EXIT_USAGE after a message if both the file and the result of --json go to stdout; else -1. */
int json_result_check(const Command *command, bool json, const char *out);

#endif
