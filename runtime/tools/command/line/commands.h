/* commands: the table of commands. Each function receives its arguments, argv[0] is the name of
 * the command, and returns the exit code: 0, EXIT_INPUT for invalid input, EXIT_USAGE for an
 * invalid command line, 128 + signal after an interrupt. */
#ifndef COMMANDS_H
#define COMMANDS_H

#include "tools/command/line/arguments.h"

int command_check(int argc, char **argv);
int command_transfer(int argc, char **argv);
int command_coordcheck(int argc, char **argv);
int command_fmt(int argc, char **argv);
int command_doc(int argc, char **argv);
int command_dump(int argc, char **argv);
int command_diff(int argc, char **argv);
int command_explain(int argc, char **argv);
int command_init(int argc, char **argv);
int command_import(int argc, char **argv);
int command_export(int argc, char **argv);
int command_tensors(int argc, char **argv);
int command_forward(int argc, char **argv);
int command_tokenize(int argc, char **argv);
int command_tokenizer(int argc, char **argv);
int command_train(int argc, char **argv);
int command_sweep(int argc, char **argv);
int command_eval(int argc, char **argv);
int command_generate(int argc, char **argv);
int command_serve(int argc, char **argv);
int command_sample(int argc, char **argv);
int command_emit(int argc, char **argv);
int command_compare(int argc, char **argv);
int command_report(int argc, char **argv);
int command_log(int argc, char **argv);
int command_verify(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_lsp(int argc, char **argv);
int command_completion(int argc, char **argv);
int command_version(int argc, char **argv);
int command_precompile(int argc, char **argv);
int command_reference(int argc, char **argv);

const Command *command_table(int *count);
/* The command of that name, or NULL. */
const Command *command_row(const char *name);
/* The command with that old name, or NULL. */
const Command *command_renamed(const char *old);

#endif
