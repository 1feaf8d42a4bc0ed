#include "base/interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t came;

static void note(int number) {
    came = number;
}

void interrupt_watch(void) {
    struct sigaction action = {.sa_handler = note, .sa_flags = (int)SA_RESETHAND | SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

int interrupt_signal(void) {
    return came;
}
