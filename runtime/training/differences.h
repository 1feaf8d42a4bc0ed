/* differences: changes of a spec since the start of a run. */
#ifndef DIFFERENCES_H
#define DIFFERENCES_H

/* Compares two specs, as returned by moec_bundle. If they do not train the same model in the same
 * way, prints a note with the lines that occur in only one of them; lines of the standard library
 * only if no others differ. */
void differences_tell(const char *then, const char *now);

#endif
