/* environment: the documented environment variables. */
#ifndef ENVIRONMENT_H
#define ENVIRONMENT_H

typedef struct EnvironmentVariable {
    const char *name;
    const char *meaning;
} EnvironmentVariable;

/* All variables that moec, libmoec and the Python package read. */
const EnvironmentVariable *environment_variables(int *count);

#endif
