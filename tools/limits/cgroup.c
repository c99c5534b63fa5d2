/* Control groups, read from the files the kernel shows them in. Called when memory is planned. */
#include "tools/limits/cgroup.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define LINE_BYTES (PATH_MAX + 64)

/* What the two versions call things; droppable pages are the sum of two rows of memory.stat. */
struct version {
    const char *mount, *limit, *usage, *file_rows[2];
};

static const struct version version_2 = { "/sys/fs/cgroup", "memory.max", "memory.current",
                                          { "inactive_file", "active_file" } };
static const struct version version_1 = { "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                                          { "total_inactive_file", "total_active_file" } };

static FILE *open_file(const char *folder, const char *name)
{
    char path[2 * LINE_BYTES];
    const int bytes = snprintf(path, sizeof(path), "%s/%s", folder, name);
    return bytes < (int)sizeof(path) ? fopen(path, "re") : NULL;
}

/* The number in a file; false when there is none ("max", or no such file). */
static bool read_number(const char *folder, const char *name, uint64_t *number_out)
{
    FILE *const file = open_file(folder, name);
    if (file == NULL)
        return false;
    unsigned long long number;
    const bool is_number = fscanf(file, "%llu", &number) == 1;
    fclose(file);
    if (is_number)
        *number_out = number;
    return is_number;
}

static uint64_t droppable_bytes(const char *folder, const struct version *version)
{
    FILE *const file = open_file(folder, "memory.stat");
    uint64_t sum = 0;
    char key[64];
    unsigned long long bytes;
    while (file != NULL && fscanf(file, "%63s %llu", key, &bytes) == 2)
        if (strcmp(key, version->file_rows[0]) == 0 || strcmp(key, version->file_rows[1]) == 0)
            sum += bytes;
    if (file != NULL)
        fclose(file);
    return sum;
}

static size_t left_in(const char *folder, const struct version *version)
{
    uint64_t limit, used;
    if (!read_number(folder, version->limit, &limit) || !read_number(folder, version->usage, &used))
        return SIZE_MAX;
    const uint64_t droppable = droppable_bytes(folder, version);
    used -= droppable < used ? droppable : used;
    return limit > used ? limit - used : 0;
}

/* From the group at `path` up to the mount. A container may see its own group as the mount, and not
 * the path to it. */
static size_t left_above(const char *root, const struct version *version, const char *path)
{
    char folder[2 * LINE_BYTES];
    const int mount_bytes = snprintf(folder, sizeof(folder), "%s%s", root, version->mount);
    if (mount_bytes + strlen(path) >= sizeof(folder))
        return SIZE_MAX;
    strcpy(folder + mount_bytes, path);
    size_t left = SIZE_MAX;
    for (;;) {
        const size_t here = left_in(folder, version);
        left = here < left ? here : left;
        char *const slash = strrchr(folder + mount_bytes, '/');
        if (slash == NULL)
            return left;
        *slash = '\0';
    }
}

static bool lists_memory(const char *controllers)
{
    char names[LINE_BYTES], *rest = NULL;
    snprintf(names, sizeof(names), "%s", controllers);
    for (char *name = strtok_r(names, ",", &rest); name != NULL; name = strtok_r(NULL, ",", &rest))
        if (strcmp(name, "memory") == 0)
            return true;
    return false;
}

/* A line is NUMBER:CONTROLLERS:PATH; version 2 has no controllers in it. */
static size_t left_by_line(const char *root, char *line)
{
    line[strcspn(line, "\n")] = '\0';
    char *const controllers = strchr(line, ':');
    char *const path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (path == NULL)
        return SIZE_MAX;
    *path = '\0';
    if (controllers[1] == '\0')
        return left_above(root, &version_2, path + 1);
    return lists_memory(controllers + 1) ? left_above(root, &version_1, path + 1) : SIZE_MAX;
}

size_t cgroup_memory_left(const char *root)
{
    FILE *const file = open_file(root, "proc/self/cgroup");
    size_t left = SIZE_MAX;
    char line[LINE_BYTES];
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        const size_t here = left_by_line(root, line);
        left = here < left ? here : left;
    }
    if (file != NULL)
        fclose(file);
    return left;
}
