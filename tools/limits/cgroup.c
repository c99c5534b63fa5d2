/* What control groups leave, read from the files the kernel shows them in. Called when memory is planned, and by
 * --doctor. */
#include "tools/limits/cgroup.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define LINE_BYTES (PATH_MAX + 64)

/* Called for a group's folder, from the process' own up to the mount. */
typedef void visit(void *arg, const char *folder, bool is_version_2);

struct walk {
    const char *root, *controller;
    visit *visit;
    void *arg;
};

static FILE *open_file(const char *folder, const char *name)
{
    char path[2 * LINE_BYTES];
    const int bytes = snprintf(path, sizeof(path), "%s/%s", folder, name);
    return bytes < (int)sizeof(path) ? fopen(path, "re") : NULL;
}

/* The number in a file; false when there is none ("max", -1, or no such file). */
static bool read_number(const char *folder, const char *name, uint64_t *number_out)
{
    FILE *const file = open_file(folder, name);
    if (file == NULL)
        return false;
    int64_t number;
    const bool is_number = fscanf(file, "%" SCNd64, &number) == 1 && number >= 0;
    fclose(file);
    if (is_number)
        *number_out = (uint64_t)number;
    return is_number;
}

/* The sum of the rows of a file "KEY NUMBER" that have one of two keys. */
static uint64_t read_rows(const char *folder, const char *name, const char *const keys[2])
{
    FILE *const file = open_file(folder, name);
    uint64_t sum = 0;
    char key[64];
    unsigned long long number;
    while (file != NULL && fscanf(file, "%63s %llu", key, &number) == 2)
        if (strcmp(key, keys[0]) == 0 || strcmp(key, keys[1]) == 0)
            sum += number;
    if (file != NULL)
        fclose(file);
    return sum;
}

/* ---- from the process to its groups ---- */

/* From the group at `path` up to the mount. A container may see its own group as the mount, and not
 * the path to it. */
static void walk_up(const struct walk *walk, bool is_version_2, const char *path)
{
    char folder[2 * LINE_BYTES];
    const int mount_bytes = snprintf(folder, sizeof(folder), "%s/sys/fs/cgroup%s%s", walk->root,
                                     is_version_2 ? "" : "/", is_version_2 ? "" : walk->controller);
    if (mount_bytes + strlen(path) >= sizeof(folder))
        return;
    strcpy(folder + mount_bytes, path);
    for (;;) {
        walk->visit(walk->arg, folder, is_version_2);
        char *const slash = strrchr(folder + mount_bytes, '/');
        if (slash == NULL)
            return;
        *slash = '\0';
    }
}

static bool lists(const char *controllers, const char *controller)
{
    char names[LINE_BYTES], *rest = NULL;
    snprintf(names, sizeof(names), "%s", controllers);
    for (char *name = strtok_r(names, ",", &rest); name != NULL; name = strtok_r(NULL, ",", &rest))
        if (strcmp(name, controller) == 0)
            return true;
    return false;
}

/* A line is NUMBER:CONTROLLERS:PATH; version 2 has no controllers in it. */
static void walk_line(const struct walk *walk, char *line)
{
    line[strcspn(line, "\n")] = '\0';
    char *const controllers = strchr(line, ':');
    char *const path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (path == NULL)
        return;
    *path = '\0';
    if (controllers[1] == '\0')
        walk_up(walk, true, path + 1);
    else if (lists(controllers + 1, walk->controller))
        walk_up(walk, false, path + 1);
}

static void walk_groups(const struct walk *walk)
{
    FILE *const file = open_file(walk->root, "proc/self/cgroup");
    char line[LINE_BYTES];
    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        walk_line(walk, line);
    if (file != NULL)
        fclose(file);
}

/* ---- memory ---- */

/* Droppable pages are the sum of two rows. */
static void see_memory(void *arg, const char *folder, bool is_version_2)
{
    static const char *const rows[2][2] = { { "total_inactive_file", "total_active_file" },
                                            { "inactive_file", "active_file" } };
    size_t *const left = arg;
    uint64_t limit, used;
    if (!read_number(folder, is_version_2 ? "memory.max" : "memory.limit_in_bytes", &limit) ||
        !read_number(folder, is_version_2 ? "memory.current" : "memory.usage_in_bytes", &used))
        return;
    const uint64_t droppable = read_rows(folder, "memory.stat", rows[is_version_2]);
    used -= droppable < used ? droppable : used;
    const size_t here = limit > used ? limit - used : 0;
    *left = here < *left ? here : *left;
}

size_t cgroup_memory_left(const char *root)
{
    size_t left = SIZE_MAX;
    walk_groups(&(struct walk){ root, "memory", see_memory, &left });
    return left;
}

/* ---- processor time ---- */

/* Microseconds of processor time in each period. */
static bool read_quota(const char *folder, bool is_version_2, uint64_t *quota_out, uint64_t *period_out)
{
    if (!is_version_2)
        return read_number(folder, "cpu.cfs_quota_us", quota_out) &&
               read_number(folder, "cpu.cfs_period_us", period_out);
    FILE *const file = open_file(folder, "cpu.max");
    const bool is_limited = file != NULL && fscanf(file, "%" SCNu64 " %" SCNu64, quota_out, period_out) == 2;
    if (file != NULL)
        fclose(file);
    return is_limited;
}

static void see_cpu(void *arg, const char *folder, bool is_version_2)
{
    static const char *const throttled[2] = { "nr_throttled", "" }, *const periods[2] = { "nr_periods", "" };
    struct cgroup_cpu *const cpu = arg;
    uint64_t quota, period;
    if (!read_quota(folder, is_version_2, &quota, &period) || period == 0)
        return;
    const double cpus = (double)quota / (double)period;
    if (cpus >= cpu->cpus)
        return;
    cpu->cpus = cpus;
    cpu->periods = read_rows(folder, "cpu.stat", periods);
    cpu->throttled = read_rows(folder, "cpu.stat", throttled);
}

struct cgroup_cpu cgroup_cpu(const char *root)
{
    struct cgroup_cpu cpu = { .cpus = INFINITY };
    walk_groups(&(struct walk){ root, "cpu", see_cpu, &cpu });
    return cpu;
}
