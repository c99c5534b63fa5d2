/* File systems in mount namespaces of a process of the driver. */
#include "tests/torture/disk.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/torture/tree.h"

/* A user is root in a user namespace of its own. */
static int become_root(uid_t user, gid_t group)
{
    char text[64];
    int rc = text_write("/proc/self/setgroups", "deny");
    snprintf(text, sizeof(text), "0 %u 1", (unsigned)user);
    if (rc == 0)
        rc = text_write("/proc/self/uid_map", text);
    snprintf(text, sizeof(text), "0 %u 1", (unsigned)group);
    return rc == 0 ? text_write("/proc/self/gid_map", text) : rc;
}

int disk_enter(void)
{
    const uid_t user = geteuid();
    const gid_t group = getegid();
    if (unshare(CLONE_NEWNS | (user != 0 ? CLONE_NEWUSER : 0)) != 0)
        return -errno;
    const int rc = user != 0 ? become_root(user, group) : 0;
    if (rc != 0)
        return rc;
    return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 ? 0 : -errno;
}

int disk_mount(const char *path, uint64_t bytes)
{
    char options[40];
    snprintf(options, sizeof(options), "size=%llu", (unsigned long long)bytes);
    return mount("none", path, "tmpfs", 0, options) == 0 ? 0 : -errno;
}

int disk_make_read_only(const char *path)
{
    return mount("none", path, NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0 ? 0 : -errno;
}

void disk_unmount(const char *path)
{
    (void)umount2(path, MNT_DETACH);
}

bool disk_is_possible(void)
{
    const pid_t child = fork();
    if (child == 0)
        _exit(disk_enter() == 0 && disk_mount("/tmp", 1 << 20) == 0 ? 0 : 1);
    int status = 1;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
