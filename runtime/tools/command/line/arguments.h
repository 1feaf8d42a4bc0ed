/* arguments: the command line of one command, described by tables. */
#ifndef ARGUMENTS_H
#define ARGUMENTS_H

#include "base/text_list.h"

#include <stdbool.h>
#include <stdio.h>

/* arguments: the command line of one command, described by tables.
 *
 * The complete table of a command has its own options, the settings that it accepts (flags.h) and
 * the options of every command: -h, -q, -v, --color, and -t where it uses threads. Parsing, help,
 * CLI.md, man pages and shell completion read this table. */

typedef enum OptionKind {
    OPTION_END,    /* after the last one of a complete table */
    OPTION_GROUP,  /* heading in `name` for the following options */
    OPTION_FLAG,   /* bool * */
    OPTION_TEXT,   /* const char **; `argument` a|b|c lists the possible values */
    OPTION_COUNT,  /* long *: an integer from 0 */
    OPTION_NUMBER, /* double * */
    OPTION_LIST,   /* TextList *: repeatable */
    OPTION_SETTING /* FlagSetting *, see flags.h */
} OptionKind;

typedef struct Option {
    OptionKind kind;
    const char *name;     /* "--steps"; flags.h has its short name */
    const char *argument; /* "N"; NULL for flags */
    void *value;
    const char *help; /* noun phrase, default in parentheses */
} Option;

/* Settings that a command accepts as flags; see flags.h. */
enum {
    SET_BATCH = 1,     /* --batch-size */
    SET_CONTEXT = 128, /* --context-length */
    SET_SIZES = SET_BATCH | SET_CONTEXT,
    SET_TRAINING = 2,  /* --lr, --steps */
    SET_PRECISION = 4, /* --precision */
    SET_STORAGE = 8,   /* --weight-dtype, --kv-cache-dtype */
    SET_THREADS = 16,  /* --threads */
    SET_WAIT = 32,     /* a short active wait of threads: the command runs kernels */
    STOPS_WITH_0 = 64  /* no flag: SIGINT and SIGTERM end the command with exit code 0 */
};

typedef struct Command Command;
/* command: its row. Returns the exit code. */
typedef int CommandRun(const Command *command, int argc, char **argv);

struct Command {
    const char *name;
    CommandRun *run;
    const char *group;       /* heading in `moec help`; NULL: not listed */
    unsigned settings;       /* of the enum above */
    const char *forms;       /* the part of the usage line after the name */
    const char *summary;     /* one line, imperative */
    const char *examples[2]; /* without "moec " */
    const char *failure;     /* meaning of exit code 1; NULL: invalid input */
};

typedef struct CommandList {
    const Command *rows;
    int count;
} CommandList;

enum { EXIT_INPUT = 1, EXIT_USAGE = 2 };

/* Reads argv[1..] and starts the process again if the number of threads changes. Exactly one
 * argument is an operand, or none if `operand` is NULL. Settings are appended to the list of --set.
 * Returns -1 to continue, otherwise the exit code: 0 after --help, EXIT_USAGE after a message. */
int arguments_read(const Command *command, const Option *options, int count, int argc, char **argv,
                   const char **operand);
/* The same for commands with one operand or more. */
int arguments_read_all(const Command *command, const Option *options, int count, int argc,
                       char **argv, TextList *operands);
/* A table of options and its length, as two arguments. */
#define OPTIONS(table) table, (int)(sizeof table / sizeof table[0])
/* Prints an error, the help line (NULL: an example) and the usage line; returns EXIT_USAGE. */
int arguments_wrong(const Command *command, const char *help, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Sets the whole command line, argv[0] included, and the old name of the command that was used, or
 * NULL. */
void arguments_begin(char **argv, const char *old_name);

enum { TABLE_LIMIT = 64 };

/* Calls `show` with the complete table of the command. */
typedef void ShowOptions(const Command *command, const Option *options, void *data);
void arguments_describe(const Command *command, ShowOptions *show, void *data);

#define DEVICE_OPTION(value)                                                                       \
    { OPTION_TEXT, "--device", "DEVICE", value, "device: cpu, cuda or cuda:N (default cpu)" }
#define SET_OPTION(value)                                                                          \
    { OPTION_LIST, "--set", "PATH=VALUE", value, "model option; repeatable" }

/* flags: names of flags that several commands share, old names, names of other programs. Each name
 * has one meaning in all commands. */

/* The short name of a flag, or 0. */
char flag_letter(const char *name);

/* An option of the spec that has a flag. */
typedef struct FlagSetting {
    unsigned mask;    /* SET_BATCH ... */
    OptionKind kind;  /* of its values: OPTION_TEXT, OPTION_COUNT, OPTION_NUMBER */
    const char *path; /* "train.steps" */
    const char *name, *argument, *help;
    const char *text; /* the value on the command line, or NULL */
} FlagSetting;
FlagSetting *flag_settings(int *count);
/* The path of the option that a flag sets: "train.steps" for "--steps". */
const char *flag_path(const char *name);

/* A flag that has a new name. */
typedef struct RenamedFlag {
    const char *command; /* NULL: every command with the new name */
    const char *old, *name;
    const char *value; /* value of the old flag; the new one has none */
} RenamedFlag;
const RenamedFlag *flag_renamed(const char *command, const char *old);
const RenamedFlag *flags_renamed(int *count);
/* The new name of a value, or NULL: --mode measure is now --mode eval. */
const char *flag_renamed_value(const char *name, const char *value);
/* The flag for a name that other programs use, or NULL. */
const char *flag_of_others(const char *name);

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
/* Prints a note about each variable whose value is none of its words. */
void environment_check(void);

#endif
