/* attend: see attend.c. */
#ifndef ATTEND_H
#define ATTEND_H

#include "ir/ir.h"

/* Tiles of 16 rows per warp, rows of a part, bytes of shared memory; 0 tiles: the heads are too
 * wide. blocks: per multiprocessor, of warpgroups. */
typedef struct AttendShape {
    int tiles, part;
    long bytes;
    int blocks;
} AttendShape;

AttendShape attend_forward(const Statement *statement);
/* The same with warpgroups; tiles: their number. None if operands are not aligned to vectors of 16
 * bytes, or if there are fewer positions than rows. */
AttendShape attend_forward_groups(const Statement *statement);
AttendShape attend_grad_query_groups(const Statement *statement);
AttendShape attend_grad_keys_groups(const Statement *statement, bool keys, bool values);
/* The same with several blocks per multiprocessor. */
AttendShape attend_forward_blocks(const Statement *statement);
AttendShape attend_grad_query_blocks(const Statement *statement);
AttendShape attend_grad_keys_blocks(const Statement *statement, bool keys, bool values);
/* For the gradient of queries; of keys, values or both. */
AttendShape attend_grad_query(const Statement *statement);
AttendShape attend_grad_keys(const Statement *statement, bool keys, bool values);
/* For new tokens against a cache; part: blocks of 16 keys that a warp has in flight. */
AttendShape attend_step(const Statement *statement);
/* The number of sets of query heads that share no key head and no value head. */
long attend_groups(const Statement *statement);

/* The largest number of keys of a query that the mask allows, and of chosen pairs as expected. */
double attended_keys(const AttendOptions *options, double places);
/* True if an attention rounds its operands to bf16 (on a GPU for tensor cores). Queries, keys,
 * values, the gradient of the output and the results may then be stored as bf16. */
bool attend_rounds(const Program *program, const Statement *statement);

#endif
