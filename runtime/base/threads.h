/* threads: how long idle OpenMP threads spin before they sleep.
 *
 * By default they spin for milliseconds. On a shared machine a spinning thread can keep the thread
 * it waits for from running: programs with many short steps then become ten times slower. */
#ifndef THREADS_H
#define THREADS_H

/* Restarts the command with a short spin time, because OpenMP reads the setting before main.
 * Returns if the environment already has a setting (GOMP_SPINCOUNT, OMP_WAIT_POLICY) or the restart
 * fails. */
void threads_wait_briefly(char **argv);

#endif
