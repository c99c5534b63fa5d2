/* Control groups, version 1 and 2, at their usual mount points. */
#include "tests/torture/group.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/torture/tree.h"

static const struct { const char *root, *limit; } versions[] = {
    { "/sys/fs/cgroup/memory", "memory.limit_in_bytes" },
    { "/sys/fs/cgroup", "memory.max" },
};

static int write_to(const struct group *group, const char *file, const char *text)
{
    char path[PATH_MAX + 32];
    snprintf(path, sizeof(path), "%s/%s", group->path, file);
    return text_write(path, text);
}

int group_open(struct group *group, uint64_t bytes)
{
    char text[24];
    int rc = -ENOENT;
    snprintf(text, sizeof(text), "%llu", (unsigned long long)bytes);
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]) && rc != 0; i++) {
        snprintf(group->path, sizeof(group->path), "%s/pipetrain-torture-%ld", versions[i].root, (long)getpid());
        rc = mkdir(group->path, 0777) == 0 ? write_to(group, versions[i].limit, text) : -errno;
        if (rc != 0)
            group_close(group);
    }
    return rc;
}

int group_join(const struct group *group)
{
    return write_to(group, "cgroup.procs", "0");
}

void group_close(struct group *group)
{
    (void)rmdir(group->path);
}
