/* threads: the number of threads of OpenMP and the time that a waiting thread keeps its processor.
 *
 * OpenMP reads both from the environment before main. Its threads wait actively, for milliseconds
 * by default. On a machine with other load, programs of many short steps then are ten times slower,
 * because the waiting threads keep the others from running.
 */
#ifndef THREADS_H
#define THREADS_H

#include <stdbool.h>

/* Sets OMP_NUM_THREADS to `count`. If that is 0 and the variable is not set, processes of a
 * launcher share the processors of the host (launch_threads). With `wait` sets a short active wait,
 * unless the environment sets one (GOMP_SPINCOUNT, OMP_WAIT_POLICY). Starts the process again with
 * argv if this changes the environment, else returns. */
void threads_begin(char **argv, long count, bool wait);

#endif
