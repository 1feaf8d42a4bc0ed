/* seconds: a clock that only goes forward. */
#ifndef SECONDS_H
#define SECONDS_H

double seconds_now(void);

#endif
