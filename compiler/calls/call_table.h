/* call_table: the table of the operations with a kernel of their own. Only the driver and tests
 * include it; stages use the rows of statements. */
#ifndef CALL_TABLE_H
#define CALL_TABLE_H

#include "ir/call.h"

#define CALL(name, row) extern const CallRow row;
#include "ir/call.def"
#undef CALL

extern const CallRow *const call_table[]; /* by CallKind */

#endif
