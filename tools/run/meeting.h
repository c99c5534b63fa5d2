/* Where the ranks of a run meet while it starts: all continue, or all end with the same exit code. */
#ifndef PIPETRAIN_MEETING_H
#define PIPETRAIN_MEETING_H

#include "sync/ranks/ranks.h"

/* Every rank brings its exit code, 0 to continue. Waits for all of them. The code of the lowest rank that has one, in all
 * ranks; EXIT_CODE_RANK if a rank is gone. `ranks` NULL: the code. `facts` are lines that have to be equal in all ranks;
 * NULL: none. Main only. */
int meeting_agree(struct ranks *ranks, int code, const char *facts);

#endif
