/* differences: what of a spec is not as it was when a run began. */
#ifndef DIFFERENCES_H
#define DIFFERENCES_H

/* Two specs as moec_bundle gives them. Says which lines only one of them has; nothing when they
 * differ in the places of their files alone. */
void differences_tell(const char *then, const char *now);

#endif
