/* A control group with a limit of memory, made where this process may make one. */
#ifndef PIPETRAIN_TEST_GROUP_H
#define PIPETRAIN_TEST_GROUP_H

#include <limits.h>
#include <stdint.h>

struct group { char path[PATH_MAX]; };

/* A group for this process's next child, with so many bytes. 0, or a negative errno where none can be made. */
int group_open(struct group *group, uint64_t bytes);
/* In the child: become a member. 0 or a negative errno. */
int group_join(const struct group *group);
/* Its members have ended. */
void group_close(struct group *group);

#endif
