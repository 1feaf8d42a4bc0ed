/* call_table: see call_table.h. */
#include "calls/call_table.h"

const CallRow *const call_table[] = {
#define CALL(name, row) [CALL_##name] = &row,
#include "ir/call.def"
#undef CALL
};
