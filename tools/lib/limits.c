/* Reads limits of the process, its mapped memory, and limits of its control groups from the kernel. */
#include "tools/lib/limits.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage/log.h"
#include "stage/stop.h"
#include "stage/text/output.h"
#include "tools/lib/text/number.h"

/* ---- limits of the process ---- */

#define LAST_MESSAGE_MS 200u    /* time to write the message of a process that ends at once */
/* The stack size of main and of each thread, with the needs of libraries: training works with 96 KiB, and fails with
 * 64. */
#define STACK_BYTES ((size_t)256 << 10)
/* touched bytes of main's stack: later there may be no memory for these pages */
#define TOUCHED_BYTES (STACK_BYTES / 2)
#define PAGE_BYTES 4096u

static void raise_stack_limit(struct rlimit *limit)
{
    const struct rlimit before = *limit;
    limit->rlim_cur = limit->rlim_max == RLIM_INFINITY || limit->rlim_max > STACK_BYTES ? STACK_BYTES : limit->rlim_max;
    if (setrlimit(RLIMIT_STACK, limit) != 0)
        *limit = before;
}

static void touch_stack(void)
{
    volatile char room[TOUCHED_BYTES];
    for (size_t i = 0; i < sizeof(room); i += PAGE_BYTES)
        room[i] = 0;
}

static int prepare_main_stack(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) != 0)
        return 0;
    if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < STACK_BYTES)
        raise_stack_limit(&limit);
    if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < STACK_BYTES) {
        log_message(LOG_ERROR, "memory: the stack limit is %s, and %s are needed: raise it, ulimit -s %zu",
                    number_bytes(limit.rlim_cur).text, number_bytes(STACK_BYTES).text, STACK_BYTES / 1024);
        return -ENOMEM;
    }
    touch_stack();
    return 0;
}

static size_t default_stack(pthread_attr_t *attributes)
{
    size_t bytes = 0;
    if (pthread_getattr_default_np(attributes) != 0)
        return 0;
    pthread_attr_getstacksize(attributes, &bytes);
    return bytes;
}

static void prepare_thread_stacks(void)
{
    pthread_attr_t attributes;
    const size_t bytes = default_stack(&attributes);
    if (bytes == 0)
        return;
    if (bytes < STACK_BYTES && pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0)
        pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
}

/* Limit malloc's arenas: it maps 64 MiB for each thread. */
static void prepare_allocation(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        mallopt(M_ARENA_MAX, 1);
}

/* Called by operator new when memory is missing, even if the library would handle the failure. */
static void end_for_memory(void)
{
    log_message(LOG_ERROR, "memory: a library could not allocate: %s", strerror(ENOMEM));
    output_flush(LAST_MESSAGE_MS);
    _exit(EXIT_CODE_MEMORY);
}

/* Set the handler in loaded C++ libraries (oneDNN's and CUDA's), which would otherwise end the process by a signal. The
 * symbol is std::set_new_handler. */
static void prepare_libraries(void)
{
    void (*(*set_new_handler)(void (*)(void)))(void);
    void *const found = dlsym(RTLD_DEFAULT, "_ZSt15set_new_handlerPFvvE");
    memcpy(&set_new_handler, &found, sizeof(found));
    if (found != NULL)
        set_new_handler(end_for_memory);
}

/* Raise the limit of open files as far as allowed: shards that stay open are not opened again. */
static void raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int limits_prepare(void)
{
    const int rc = prepare_main_stack();
    raise_file_limit();
    prepare_thread_stacks();
    prepare_allocation();
    prepare_libraries();
    return rc;
}

size_t limits_thread_bytes(void)
{
    pthread_attr_t attributes;
    const size_t bytes = default_stack(&attributes);
    if (bytes > 0)
        pthread_attr_destroy(&attributes);
    return bytes + PAGE_BYTES;
}

/* Mapped bytes; the kernel compares `size` with RLIMIT_AS and `data` with RLIMIT_DATA. */
struct mapped { uint64_t size, data; };

static struct mapped find_mapped(void)
{
    struct mapped mapped = { 0, 0 };
    FILE *const file = fopen("/proc/self/status", "re");
    char line[128];
    unsigned long long kib;
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "VmSize: %llu kB", &kib) == 1)
            mapped.size = kib * 1024;
        if (sscanf(line, "VmData: %llu kB", &kib) == 1)
            mapped.data = kib * 1024;
    }
    if (file != NULL)
        fclose(file);
    return mapped;
}

static size_t left_of(int resource, uint64_t used)
{
    struct rlimit limit;
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || used == 0)
        return SIZE_MAX;
    return limit.rlim_cur > used ? (size_t)(limit.rlim_cur - used) : 0;
}

struct limits_left limits_left(void)
{
    const struct mapped mapped = find_mapped();
    return (struct limits_left){ left_of(RLIMIT_AS, mapped.size), left_of(RLIMIT_DATA, mapped.data) };
}

/* Open descriptors, without the one used here. 0 or a negative errno. */
static int count_files(size_t *count_out)
{
    DIR *const entries = opendir("/proc/self/fd");
    if (entries == NULL)
        return -errno;
    *count_out = 0;
    for (const struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries))
        *count_out += entry->d_name[0] != '.';
    closedir(entries);
    (*count_out)--;
    return 0;
}

int limits_check_files(size_t more)
{
    struct rlimit limit;
    size_t open = 0;
    const int rc = count_files(&open);
    if (rc != 0 && rc != -EMFILE)
        return 0;               /* without /proc a lack of descriptors is noticed when a file is opened */
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return 0;
    if (rc == -EMFILE)
        open = (size_t)limit.rlim_cur;
    if (limit.rlim_cur >= open + more)
        return 0;
    log_message(LOG_ERROR, "open files: this process may have %zu, and a run needs %zu: raise the limit, "
                "ulimit -n %zu", (size_t)limit.rlim_cur, open + more, open + more);
    return -EMFILE;
}

/* ---- control groups ---- */

#define LINE_BYTES (PATH_MAX + 64)

/* Called for the folder of each group, from the process' own up to the mount. */
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

/* Read the number in a file. False if there is none ("max", -1, or no such file). */
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

/* The sum of the numbers of two keys in a file of lines "KEY NUMBER". */
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

/* Visit the group at `path` and its parents up to the mount. In a container the mount may be its own group, and the
 * path may not exist. */
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

/* Visit the groups in a line NUMBER:CONTROLLERS:PATH of /proc/self/cgroup; for version 2 there are no controllers. */
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

/* Read a group's free memory. File pages that can be dropped count as free. */
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

/* Read a group's CPU time per period, in microseconds. */
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
    struct stat status;
    const size_t bytes = strlen(folder), kept = bytes < GROUP_NAME_BYTES ? bytes : GROUP_NAME_BYTES - 1;
    snprintf(cpu->name, sizeof(cpu->name), "%s", folder + bytes - kept);
    cpu->id = stat(folder, &status) == 0 ? status.st_ino : 0;
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

uint32_t cgroup_cores(double quota, uint32_t cpus)
{
    const double busy = fmin(ceil(quota), cpus);
    return busy > 1 ? (uint32_t)busy : 1;
}

uint32_t limits_cores(void)
{
    cpu_set_t set;
    const int count = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    return cgroup_cores(cgroup_cpu("").cpus, (uint32_t)count);
}
