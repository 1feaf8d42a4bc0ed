/* account: the file DIR/run.json: spec with all included files, seed, data and length of the run,
 * and for each start the command, the machine and the version. */
#ifndef ACCOUNT_H
#define ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Account {
    char **command; /* as typed, NULL-terminated; NULL: of a program */
    const char *model, *spec, *device, *data, *validation, *tokenizer; /* some may be NULL */
    uint64_t seed, data_tokens;
    long step, steps;       /* steps done at this start; steps in total */
    double tokens_per_step; /* or examples */
    bool text;              /* data is byte-level text */
} Account;

/* Writes the file; keeps the starts of a resumed run. False after a message. */
bool account_write(const char *folder, const Account *account);

#endif
