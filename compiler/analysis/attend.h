/* attend: see attend.c. */
#ifndef ATTEND_H
#define ATTEND_H

#include "ir/ir.h"

/* Tiles of 16 rows a warp, rows of a part, bytes of shared memory; no tiles: the heads are too
 * wide. */
typedef struct AttendShape {
    int tiles, part;
    long bytes;
} AttendShape;

AttendShape attend_forward(const Statement *statement);
/* The same by warpgroups; tiles: how many of them. None where operands do not lie in vectors of 16
 * bytes, or there are fewer places than they have rows. */
AttendShape attend_forward_groups(const Statement *statement);
AttendShape attend_grad_query_groups(const Statement *statement);
AttendShape attend_grad_keys_groups(const Statement *statement, bool keys, bool values);
/* For the gradient of queries; of keys, values or both. */
AttendShape attend_grad_query(const Statement *statement);
AttendShape attend_grad_keys(const Statement *statement, bool keys, bool values);
/* For new tokens against a cache; part: how many heads of 16 keys a warp has on their way. */
AttendShape attend_step(const Statement *statement);
/* How many sets of query heads share no key head and no value head. */
long attend_groups(const Statement *statement);

/* Whether an attention rounds what it multiplies, on a device by tensor cores: queries, keys,
 * values and the gradient of the output may be stored as bf16, and its results too. */
bool attend_rounds(const Program *program, const Statement *statement);

#endif
