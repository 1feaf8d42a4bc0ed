/* gradient_sum: sums of gradients over the micro-batches of a step and over the processes of a
 * mesh.
 *
 * Consecutive micro-batches form lanes. The gradients of a lane are added one after the other,
 * those of the lanes as a tree: neighbors in pairs, then pairs of pairs; a last lane without a
 * neighbor moves up. Each process has consecutive whole lanes, and its lanes are a branch of the
 * tree. So the sum has the same bits for any number of processes.
 *
 *     lanes          0   1     2   3     4   5
 *     pairs          0 + 1     2 + 3     4 + 5       also the lanes of 3 processes
 *     pairs of pairs   (0 + 1) + (2 + 3)
 *     sum                      ((0 + 1) + (2 + 3)) + (4 + 5)
 */
#ifndef GRADIENT_SUM_H
#define GRADIENT_SUM_H

#include "mesh/mesh.h"
#include "model/model.h"

enum { SUM_LEVELS = 24 };

typedef struct GradientSum {
    Mesh *mesh;
    long parts;   /* micro-batches of a step */
    long lanes;   /* 0 counts as 1: one after the other */
    bool fast;    /* over processes: in the order that the library chooses */
    bool sharded; /* each process updates its range and stores that optimizer state (ZeRO-1) */
    const MeshPart
        *needed; /* parts of the weights, by the processes that read them; NULL: all do */
    int needed_count;
    float *sums[SUM_LEVELS]; /* of 2^level lanes; memory of the first use */
    bool held[SUM_LEVELS];   /* the sum of that level is used */
} GradientSum;

/* Whether the lanes divide the micro-batches, and the processes the lanes as shown above; false
 * after a message. */
bool gradient_sum_fits(long parts, long lanes, int processes);
/* Checks mesh, parts, lanes and order. With lanes, a CPU computes all products by its own
 * kernels, whose results do not depend on the number of threads. False after a message. */
bool gradient_sum_prepare(const GradientSum *sum, Model *model);
/* The micro-batches of this process: from `first`, `count` of them. */
void gradient_sum_parts(const GradientSum *sum, long *first, long *count);
/* Whether the micro-batch begins a lane; its gradient then replaces the previous one. */
bool gradient_sum_begins(const GradientSum *sum, long part);
/* After each micro-batch: adds a complete lane to the tree. False after a message. */
bool gradient_sum_add(GradientSum *sum, const Model *model, long part);
/* After the last own micro-batch: the gradients of the model become the sum over all; if `sharded`,
 * those of the own range. False after a message. */
bool gradient_sum_finish(GradientSum *sum, const Model *model);
/* The sum of squares of all gradients, with the same bits as device_square_sum. False after a
 * device error, which was printed. */
bool gradient_sum_squares(const GradientSum *sum, const Model *model, double *squares);
/* The elements that this process updates. */
MeshRange gradient_sum_range(const GradientSum *sum, const Model *model);
void gradient_sum_release(GradientSum *sum, const Model *model);

#endif
