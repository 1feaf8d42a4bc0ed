/* must: conditions that hold unless the compiler has a bug. */
#ifndef MUST_H
#define MUST_H

/* Tested in release builds, too: where it does not hold, the process prints it and aborts. */
#define MUST(condition)                                                                            \
    ((condition) ? (void)0 : must_fail(#condition, __FILE__, __LINE__, __func__))

_Noreturn void must_fail(const char *condition, const char *file, int line, const char *function);

/* The name of the running pass, or NULL. */
extern _Thread_local const char *must_pass;

#endif
