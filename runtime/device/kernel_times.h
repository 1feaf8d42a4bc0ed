/* kernel_times: what the kernels of a device, or the units of work of a processor, took in a run.
 */
#ifndef KERNEL_TIMES_H
#define KERNEL_TIMES_H

/* All launches together; flops: 0 where they are not known. */
typedef struct KernelTime {
    char *name; /* NULL: that of the unit */
    int unit;   /* its number, see MoecHost.mark; negative: it has none */
    long launches;
    double seconds, flops;
} KernelTime;

typedef struct KernelTimes {
    KernelTime *rows;
    int count;
} KernelTimes;

/* The clock for units of work of a processor. Where one thread does everything it is that thread's
 * own: others who use the machine do not count. */
double kernel_times_clock(void);
/* Adds one launch to the row of that name, or of that unit. */
void kernel_times_add(KernelTimes *times, const char *name, int unit, double seconds, double flops);
double kernel_times_sum(const KernelTimes *times);
void kernel_times_free(KernelTimes *times);

#endif
