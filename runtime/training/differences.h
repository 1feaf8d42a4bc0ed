/* differences: changes of a spec since the start of a run. */
#ifndef DIFFERENCES_H
#define DIFFERENCES_H

/* Two specs as moec_bundle gives them. If they do not train the same model in the same way: prints
 * the lines that only one of them has, those of the standard library only if no others differ. */
void differences_tell(const char *then, const char *now);

#endif
