/* sweep_table: what a sweep has found, as moec compare says it (comparison.h). */
#ifndef SWEEP_TABLE_H
#define SWEEP_TABLE_H

#include "experiment/sweep_plan.h"

/* Prints it, and writes DIR/table.json and DIR/table.csv; false after a message. */
bool table_write(const Plan *plan);

#endif
