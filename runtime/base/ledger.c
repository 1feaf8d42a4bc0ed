#include "base/ledger.h"

#include "base/seconds.h"

#include <stdio.h>
#include <string.h>

void ledger_begin(Ledger *ledger) {
    ledger->began = ledger->marked = seconds_now();
    ledger->text[0] = '\0';
}

void ledger_part(Ledger *ledger, const char *phase, double seconds) {
    size_t length = strlen(ledger->text);
    snprintf(ledger->text + length, sizeof ledger->text - length, "%s%s %.2f", length ? ", " : "",
             phase, seconds);
    ledger->marked += seconds;
}

void ledger_mark(Ledger *ledger, const char *phase) {
    ledger_part(ledger, phase, seconds_now() - ledger->marked);
}

double ledger_seconds(const Ledger *ledger) {
    return ledger->marked - ledger->began;
}
