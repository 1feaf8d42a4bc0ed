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

#endif
