/* A control group with a memory limit, where this process may create one. */
#ifndef PIPETRAIN_TEST_GROUP_H
#define PIPETRAIN_TEST_GROUP_H

#include <limits.h>
#include <stdint.h>

struct group { char path[PATH_MAX]; };

/* Create a group with a limit of `bytes` for this process's next child. 0 or a negative errno. */
int group_open(struct group *group, uint64_t bytes);
/* Called in the child: join the group. 0 or a negative errno. */
int group_join(const struct group *group);
/* Remove the group, whose members have ended. */
void group_close(struct group *group);

#endif
