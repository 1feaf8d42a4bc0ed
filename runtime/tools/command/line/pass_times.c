#include "tools/command/line/pass_times.h"

#include <stdio.h>

void pass_times_print(MoecCompiler *compiler) {
    int count;
    const MoecPassTime *times = moec_pass_times(compiler, &count);
    fprintf(stderr, "%-18s %6s %10s\n", "pass", "runs", "ms");
    for (int i = 0; i < count; i++)
        if (times[i].runs)
            fprintf(stderr, "%-18s %6d %10.2f\n", times[i].name, times[i].runs,
                    1e3 * times[i].seconds);
}
