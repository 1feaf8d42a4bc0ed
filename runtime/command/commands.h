/* commands: what `moec` can do, one function a command. Each gets its own arguments (argv[0] is the
 * command's name) and returns the exit code: 0, EXIT_INPUT for input that is wrong, EXIT_USAGE for
 * a wrong command line, 128 + signal when interrupted. */
#ifndef COMMANDS_H
#define COMMANDS_H

#include "command/arguments.h"

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
int command_weights(int argc, char **argv);
int command_run(int argc, char **argv);
int command_tokenize(int argc, char **argv);
int command_tokenizer(int argc, char **argv);
int command_train(int argc, char **argv);
int command_sweep(int argc, char **argv);
int command_eval(int argc, char **argv);
int command_generate(int argc, char **argv);
int command_serve(int argc, char **argv);
int command_draw(int argc, char **argv);
int command_emit(int argc, char **argv);
int command_compare(int argc, char **argv);
int command_report(int argc, char **argv);
int command_log(int argc, char **argv);
int command_verify(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_lsp(int argc, char **argv);
int command_prepare(int argc, char **argv);

/* The row of a command by its name; the table stands in main.c. */
const Command *command_row(const char *name);

#endif
