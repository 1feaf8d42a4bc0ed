/* commands: the table of commands. Each function receives its row and its arguments, argv[0] is
 * the name of the command, and returns the exit code: 0, EXIT_INPUT for invalid input, EXIT_USAGE
 * for an invalid command line, 128 + signal after an interrupt. Only main.c calls the table, which
 * refers to every command. */
#ifndef COMMANDS_H
#define COMMANDS_H

#include "moec.h"
#include "tools/command/line/arguments.h"

#include <jansson.h>

CommandRun command_check, command_transfer, command_coordcheck, command_fmt, command_doc,
    command_dump, command_diff, command_explain, command_plan, command_init, command_import,
    command_export, command_merge, command_quantize, command_tensors, command_forward,
    command_tokenize, command_tokenizer, command_train, command_sweep, command_eval,
    command_generate, command_serve, command_sample, command_emit, command_compare, command_report,
    command_log, command_verify, command_bench, command_lsp, command_version, command_precompile,
    command_inspect;
int command_completion(const Command *command, CommandList all, int argc, char **argv);
int command_reference(const Command *command, CommandList all, int argc, char **argv);

/* The table of all commands. */
CommandList command_table(void);
/* The command of that name, or NULL. */
const Command *command_row(const char *name);
/* The command with that old name, or NULL. */
const Command *command_renamed(const char *old);

/* json_result: the result of a command with --json: one value on stdout. */

/* Prints the value, indented, and releases it. */
void json_result_print(json_t *result);
/* Prints {"path": path, "bytes": size of the file, or of the files in the folder} and the fields of
 * `others`, which is released. */
void json_result_written(const char *path, json_t *others);
/* EXIT_USAGE after a message if both the file and the result of --json go to stdout; else -1. */
int json_result_check(const Command *command, bool json, const char *out);

/* pass_times: the time of the passes of the compiler, as a table. */

#define TIME_OPTION(value)                                                                         \
    { OPTION_FLAG, "--time-passes", NULL, value, "time of each compiler pass on stderr" }

/* Prints one line per pass to stderr: executions, milliseconds. */
void pass_times_print(MoecCompiler *compiler);

#endif
