/* target: what the passes and the schedule have to know of the machine that a program is for. Texts
 * differ in more: see EmitTarget in codegen/emit.h. */
#ifndef TARGET_H
#define TARGET_H

#include <stdbool.h>

typedef struct Target {
    const char *name;

    /* Kernels are launched by a host that cannot look into their memory. A launch costs: work moves
     * between kernels to save some, and the nests of a large one are launched apart. */
    bool launches;
    /* Kernels with fewer operations than this stay in one thread, or in one block. */
    double small_work;
    /* Bytes of a temporary that are as fast to work on as more of it at once. */
    long part_bytes;
    /* Elements of the rows that a kernel keeps beside it, on a stack or in a block's memory. */
    long row_room;
    /* Neighbouring columns of a sum are summed side by side in one thread. */
    bool column_sums;
    /* Its compiler makes vectors of the iterations of a loop that may run side by side. */
    bool vector_loops;

    /* The templates there are: products that may round what they multiply; a single row times a
     * matrix; products whose stores compute; sums of exponentials in the loop that finds the
     * largest. */
    bool rounded_products, row_products, epilogues, online_softmax;

    /* The widest heads of an attention that rounds; 0: what attend.c finds room for. Whether it
     * stores gradients of its operands rounded. */
    long rounded_heads;
    bool rounded_gradients;
} Target;

extern const Target target_processor, target_device;

#endif
