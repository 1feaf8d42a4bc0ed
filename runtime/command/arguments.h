/* arguments: a command's options as a table: how they are written, where their values go, what they
 * mean. */
#ifndef ARGUMENTS_H
#define ARGUMENTS_H

#include <stdbool.h>

typedef enum OptionKind {
    OPTION_END,
    OPTION_FLAG,   /* bool * */
    OPTION_TEXT,   /* const char ** */
    OPTION_COUNT,  /* long *: a whole number from 0 */
    OPTION_NUMBER, /* double * */
    OPTION_LIST    /* TextList *: may be given again */
} OptionKind;

enum { LIST_LIMIT = 64 };

typedef struct TextList {
    const char *items[LIST_LIMIT + 1]; /* the last: for what a command adds */
    int count;
} TextList;

typedef struct Option {
    OptionKind kind;
    const char *name;     /* "--steps" */
    const char *argument; /* "N"; NULL for flags */
    void *value;
    const char *help;
} Option;

typedef struct Command {
    const char *name;
    int (*run)(int argc, char **argv);
    bool computes;       /* runs programs, whose threads wait for each other */
    const char *forms;   /* what stands after the name, for the usage line */
    const char *summary; /* one line */
} Command;

enum { EXIT_INPUT = 1, EXIT_USAGE = 2 };

/* Reads argv[1..]; an argument that is no option goes to *operand, and there must be exactly one,
 * or none where `operand` is NULL. options ends with OPTION_END. Returns -1 to go on, otherwise the
 * exit code: 0 after --help, EXIT_USAGE after a message. */
int arguments_read(const Command *command, const Option *options, int argc, char **argv,
                   const char **operand);
/* The same for commands that take at least one such argument and as many as are given. */
int arguments_read_all(const Command *command, const Option *options, int argc, char **argv,
                       TextList *operands);
/* Prints how the command is used; returns EXIT_USAGE. */
int arguments_wrong(const Command *command, const char *remedy, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
