/* account: what a run says of itself, DIR/run.json: its spec with all that it uses, its seed, data
 * and length, and of each start the command, the machine and the version. */
#ifndef ACCOUNT_H
#define ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Account {
    char **command; /* as typed, NULL at the end */
    const char *model, *spec, *device, *data, *validation, *tokenizer; /* some may be NULL */
    uint64_t seed, data_tokens;
    long step, steps;       /* done when it starts, in all */
    double tokens_per_step; /* or examples */
    bool text;              /* data of bytes */
} Account;

/* Writes it; the starts of a run that goes on are kept. False after a message. */
bool account_write(const char *folder, const Account *account);

#endif
