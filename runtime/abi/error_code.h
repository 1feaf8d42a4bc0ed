/* error_code: the stable code of an error message. Both sides print it; compiler/base/error_code.c
 * defines it. */
#ifndef ERROR_CODE_H
#define ERROR_CODE_H

/* "E0123", the code of the format that makes the message: the one with the most characters of its
 * own if there are several. NULL: the message has no code. */
const char *error_code(const char *message);

#endif
