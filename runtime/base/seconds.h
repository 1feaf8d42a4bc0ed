/* seconds: monotonic clock. */
#ifndef SECONDS_H
#define SECONDS_H

/* Wall-clock seconds since an arbitrary fixed moment. */
double seconds_now(void);
/* Processor time of the current thread in seconds. */
double seconds_of_thread(void);

#endif
