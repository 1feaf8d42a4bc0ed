/* seconds: a clock that only goes forward. */
#ifndef SECONDS_H
#define SECONDS_H

/* Since some moment that stays the same while the machine runs. */
double seconds_now(void);
/* Of processor time that this thread has had. */
double seconds_of_thread(void);

#endif
