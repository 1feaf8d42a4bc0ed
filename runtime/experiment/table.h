/* table: what a sweep has found, as moec compare says it (comparison.h). */
#ifndef TABLE_OF_SWEEP_H
#define TABLE_OF_SWEEP_H

#include "experiment/plan.h"

/* Prints it, and writes DIR/table.json and DIR/table.csv; false after a message. */
bool table_write(const Plan *plan);

#endif
