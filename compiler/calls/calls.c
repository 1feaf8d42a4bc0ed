/* calls: see calls.h. */
#include "calls/calls.h"

const CallRow *const call_table[] = {
#define CALL(name, row) [CALL_##name] = &row,
#include "ir/call.def"
#undef CALL
};
