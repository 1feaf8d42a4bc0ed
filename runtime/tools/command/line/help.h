/* help: texts from the tables of commands, and the documented environment variables. */
#ifndef HELP_H
#define HELP_H

#include "tools/command/line/arguments.h"

#include <stdio.h>

/* help: texts from the tables of commands, for the terminal. */

/* Usage, summary, operands, options in groups, examples and exit codes of a command. */
void help_print(const Command *command, const Option *options);
/* All commands in groups: at most 24 lines. */
void help_overview(FILE *file, CommandList all);

/* The environment variables. */
void help_environment(void);

/* "-o, --out RUN": a new string. */
char *help_flag(const Option *option);
/* The meaning of a metavariable of `forms`: "RUN"; NULL if the name explains itself. */
const char *help_operand(const char *name);
/* The metavariables of `forms` in order, each once, "SPEC", "DATA": their count. */
enum { OPERAND_LIMIT = 8, OPERAND_BYTES = 16 };
int help_operands(const Command *command, char names[OPERAND_LIMIT][OPERAND_BYTES]);
/* "0 success; 1 invalid input; 2 usage error; ...": a new string. */
char *help_exit_codes(const Command *command);

/* environment: the documented environment variables. */

typedef struct EnvironmentVariable {
    const char *name;
    const char *meaning;
} EnvironmentVariable;

/* All variables that moec, libmoec and the Python package read. */
const EnvironmentVariable *environment_variables(int *count);

#endif
