/* attend_row: hooks of the rows of attention, see ir/call.h. */
#ifndef ATTEND_ROW_H
#define ATTEND_ROW_H

#include "ir/call.h"

/* attend_check.c */
void check_attend(Verify *verify, const Statement *statement);
void check_attend_grad(Verify *verify, const Statement *statement);

/* attend_interpret.c */
void interpret_attend(Interpreter *interpreter, const Statement *statement);
void interpret_attend_grad(Interpreter *interpreter, const Statement *statement);

/* attend_gradient.c */
void attend_gradient(Backward *backward, const Statement *statement);

/* attend_decode.c */
void attend_decode(Decode *decode, Statement *attend, const Region *region);
void attend_store_caches(Decode *decode, Statement *attend);

/* attend_lower.c, attend_lower_device.c */
void lower_attend(EntryLowering *lowering, const struct ScheduleUnit *unit);
void lower_device_attend(EntryLowering *lowering, const struct ScheduleUnit *unit);
bool attend_fuses_operands(const Program *program, const Statement *statement);
/* The number of positions to attend to; the cache of a window has fewer keys. */
long attend_positions(const Program *program, const Statement *statement);
/* The value of its mask in the kernels. */
const char *mask_name(const AttendOptions *options);

#endif
