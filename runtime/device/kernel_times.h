/* kernel_times: time per device kernel, or per CPU unit of work, in a run. */
#ifndef KERNEL_TIMES_H
#define KERNEL_TIMES_H

/* Sum over all launches; flops: 0 if unknown. */
typedef struct KernelTime {
    char *name; /* NULL: see `unit` */
    int unit;   /* number of the unit, see MoecHost.mark; negative: none */
    long launches;
    double seconds, flops;
} KernelTime;

typedef struct KernelTimes {
    KernelTime *rows;
    int count;
} KernelTimes;

/* Clock for CPU units of work. With a single thread it counts processor time of that thread,
 * unaffected by other processes. */
double kernel_times_clock(void);
/* Adds one launch to the row of this name or unit. */
void kernel_times_add(KernelTimes *times, const char *name, int unit, double seconds, double flops);
double kernel_times_sum(const KernelTimes *times);
void kernel_times_free(KernelTimes *times);

#endif
