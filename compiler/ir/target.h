/* target: facts about a machine that passes and the schedule use. Its syntax: see PrintStyle
 * in print/print.h. */
#ifndef TARGET_H
#define TARGET_H

#include <stdbool.h>

typedef struct Target {
    const char *name;
    /* Reserved words in addition to those of C and C++, then NULL; or NULL. */
    const char *const *keywords;

    /* The host launches kernels and cannot read their memory. Each launch has a cost: work moves
     * between kernels to save launches, and the nests of a large kernel are launched separately. */
    bool launches;
    /* Kernels with fewer operations stay in one thread or one block. */
    double small_work;
    /* Threads that keep all of the machine at work; 0: the schedule does not count threads. */
    double threads;
    /* Size of a temporary in bytes above which larger chunks are not faster. */
    long part_bytes;
    /* Elements of local rows that a kernel may keep on the stack or in the memory of a block. */
    long row_room;
    /* One thread sums several adjacent columns. */
    bool column_sums;
    /* The C compiler vectorizes loops whose iterations are independent. */
    bool vector_loops;

    /* Independent products with at most this number of rows (dispatched: for each weight, on
     * average) share a call; those of row_products share a launch. */
    long joined_rows;

    /* Available kernels: products, attention; otherwise both are loops. */
    bool products, attention;

    /* Available templates: products that may round their operands; products of a single row and a
     * matrix; products with an epilogue; sums of exponentials in the loop that computes the
     * maximum. */
    bool rounded_products, row_products, epilogues, online_softmax;
    /* Products copy f32 operands faster than bf16, unless the machine multiplies bf16: numbers of
     * small formats stay f32. */
    bool small_as_f32;

    /* The widest heads of an attention with bf16 operands; 0: the limit of attend.c. Whether it
     * stores gradients of its operands as bf16. */
    long rounded_heads;
    bool rounded_gradients;
    /* Kernels of attention read the elements of a mask as bits. */
    bool mask_words;
} Target;

extern const Target target_processor, target_device;

#endif
