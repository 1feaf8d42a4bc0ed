#include "base/startup.h"

#include "base/seconds.h"

#include <stdio.h>
#include <string.h>

void startup_begin(Startup *startup) {
    startup->began = startup->marked = seconds_now();
    startup->text[0] = '\0';
}

void startup_part(Startup *startup, const char *phase, double seconds) {
    size_t length = strlen(startup->text);
    snprintf(startup->text + length, sizeof startup->text - length, "%s%s %.2f", length ? ", " : "",
             phase, seconds);
    startup->marked += seconds;
}

void startup_mark(Startup *startup, const char *phase) {
    startup_part(startup, phase, seconds_now() - startup->marked);
}

double startup_seconds(const Startup *startup) {
    return startup->marked - startup->began;
}
