/* differences: changes of a spec since the start of a run. */
#ifndef DIFFERENCES_H
#define DIFFERENCES_H

/* Prints a note with the lines that occur in only one of two specs, as returned by moec_bundle.
 * Prints nothing if only file paths differ. */
void differences_tell(const char *then, const char *now);

#endif
