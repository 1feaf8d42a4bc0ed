/* threads: how long a thread that waits for the others keeps its processor.
 *
 * OpenMP's threads wait actively, for milliseconds by default. On a machine that others use, too,
 * the one who is waited for may not be running, and the waiting keeps it from it: programs of many
 * short steps then take ten times as long.
 */
#ifndef THREADS_H
#define THREADS_H

/* Starts the command again with a short active wait, unless the environment says how to wait
 * (GOMP_SPINCOUNT, OMP_WAIT_POLICY): OpenMP reads it before main. Returns when there is nothing to
 * change. */
void threads_wait_briefly(char **argv);

#endif
