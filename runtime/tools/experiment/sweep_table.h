/* sweep_table: the comparison at the end of a sweep, as moec compare prints it (comparison.h). */
#ifndef SWEEP_TABLE_H
#define SWEEP_TABLE_H

#include "tools/experiment/sweep_plan.h"

/* Prints it or adds it to the result, and writes DIR/table.json and DIR/table.csv; false after a
 * message. */
bool table_write(const Plan *plan);

#endif
