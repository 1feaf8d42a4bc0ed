/* commit: the commit that this program was built from, "61f090e4c1"; "unknown" without git. The
 * build makes it. */
#ifndef COMMIT_H
#define COMMIT_H

extern const char build_commit[];

#endif
