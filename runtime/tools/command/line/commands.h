/* commands: the table of commands. Each function receives its row and its arguments, argv[0] is
 * the name of the command, and returns the exit code: 0, EXIT_INPUT for invalid input, EXIT_USAGE
 * for an invalid command line, 128 + signal after an interrupt. Only main.c calls the table, which
 * refers to every command. */
#ifndef COMMANDS_H
#define COMMANDS_H

#include "tools/command/line/arguments.h"

int command_check(const Command *command, int argc, char **argv);
int command_transfer(const Command *command, int argc, char **argv);
int command_coordcheck(const Command *command, int argc, char **argv);
int command_fmt(const Command *command, int argc, char **argv);
int command_doc(const Command *command, int argc, char **argv);
int command_dump(const Command *command, int argc, char **argv);
int command_diff(const Command *command, int argc, char **argv);
int command_explain(const Command *command, int argc, char **argv);
int command_init(const Command *command, int argc, char **argv);
int command_import(const Command *command, int argc, char **argv);
int command_export(const Command *command, int argc, char **argv);
int command_tensors(const Command *command, int argc, char **argv);
int command_forward(const Command *command, int argc, char **argv);
int command_tokenize(const Command *command, int argc, char **argv);
int command_tokenizer(const Command *command, int argc, char **argv);
int command_train(const Command *command, int argc, char **argv);
int command_sweep(const Command *command, int argc, char **argv);
int command_eval(const Command *command, int argc, char **argv);
int command_generate(const Command *command, int argc, char **argv);
int command_serve(const Command *command, int argc, char **argv);
int command_sample(const Command *command, int argc, char **argv);
int command_emit(const Command *command, int argc, char **argv);
int command_compare(const Command *command, int argc, char **argv);
int command_report(const Command *command, int argc, char **argv);
int command_log(const Command *command, int argc, char **argv);
int command_verify(const Command *command, int argc, char **argv);
int command_bench(const Command *command, int argc, char **argv);
int command_lsp(const Command *command, int argc, char **argv);
int command_completion(const Command *command, CommandList all, int argc, char **argv);
int command_version(const Command *command, int argc, char **argv);
int command_precompile(const Command *command, int argc, char **argv);
int command_reference(const Command *command, CommandList all, int argc, char **argv);

/* The table of all commands. */
CommandList command_table(void);
/* The command of that name, or NULL. */
const Command *command_row(const char *name);
/* The command with that old name, or NULL. */
const Command *command_renamed(const char *old);

#endif
