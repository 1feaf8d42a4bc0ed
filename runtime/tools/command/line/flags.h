/* flags: names of flags that several commands share, old names, names of other programs. Each name
 * has one meaning in all commands. */
#ifndef FLAGS_H
#define FLAGS_H

#include "tools/command/line/arguments.h"

/* The short name of a flag, or 0. */
char flag_letter(const char *name);

/* An option of the spec that has a flag. */
typedef struct Setting {
    unsigned mask;    /* SET_SIZES ... */
    OptionKind kind;  /* of its values: OPTION_TEXT, OPTION_COUNT, OPTION_NUMBER */
    const char *path; /* "train.steps" */
    const char *name, *argument, *help;
    const char *text; /* the value on the command line, or NULL */
} Setting;
Setting *flag_settings(int *count);
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

#endif
