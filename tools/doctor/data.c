/* The shards of a run: where they are stored, how much of them is in the page cache, how fast the disk is. */
#include "tools/doctor/topics.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "loader/dataset_shards.h"
#include "stage/clock.h"
#include "tools/lib/limits.h"
#include "tools/lib/text/number.h"

#define TOPIC "data"
#define READ_BYTES ((uint64_t)64 << 20)
#define READ_NS UINT64_C(1000000000)
#define COUNT_NS UINT64_C(1000000000)   /* time limit for counting pages in the page cache */
#define FILES_READ 8u                   /* read from so many files at most, evenly spread over all */
#define PROBLEM_BYTES 4096u
#define WINDOW_BYTES ((uint64_t)1 << 30)        /* bytes of a file that are mapped at a time */
#define BLOCK_BYTES ((size_t)2 << 20)           /* bytes of one read */
#define ALIGNMENT 4096u

/* ---- page cache and disk ---- */

/* For a file of another user that this user may not write, mincore reports every page as present. */
static bool may_count(int fd, const char *path)
{
    struct stat status;
    return fstat(fd, &status) == 0 && (status.st_uid == geteuid() || access(path, W_OK) == 0);
}

static int count_window(int fd, uint64_t offset, uint64_t bytes, uint64_t page, unsigned char *residence,
                        uint64_t *cached)
{
    void *const mapped = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, (off_t)offset);
    if (mapped == MAP_FAILED)
        return -errno;
    const int rc = mincore(mapped, bytes, residence) == 0 ? 0 : -errno;
    for (uint64_t i = 0; rc == 0 && i * page < bytes; i++)
        if (residence[i] & 1)
            *cached += bytes - i * page < page ? bytes - i * page : page;
    munmap(mapped, bytes);
    return rc;
}

int page_cache_count(int fd, const char *path, uint64_t file_bytes, uint64_t *cached_out)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (!may_count(fd, path))
        return -EPERM;
    unsigned char *const residence = malloc(WINDOW_BYTES / page);
    uint64_t cached = 0;
    int rc = residence != NULL ? 0 : -ENOMEM;
    for (uint64_t offset = 0; rc == 0 && offset < file_bytes; offset += WINDOW_BYTES) {
        const uint64_t left = file_bytes - offset;
        rc = count_window(fd, offset, left < WINDOW_BYTES ? left : WINDOW_BYTES, page, residence, &cached);
    }
    free(residence);
    if (rc == 0)
        *cached_out = cached;
    return rc;
}

static int read_blocks(int fd, void *block, uint64_t begin, uint64_t bytes_most, uint64_t ns_most,
                       struct disk_read *sum)
{
    uint64_t offset = begin;
    while (sum->bytes < bytes_most && sum->elapsed_ns < ns_most) {
        const uint64_t before_ns = clock_now_ns();
        const ssize_t bytes = pread(fd, block, BLOCK_BYTES, (off_t)offset);
        if (bytes < 0)
            return -errno;
        sum->elapsed_ns += clock_now_ns() - before_ns;
        sum->bytes += (uint64_t)bytes;
        offset += (uint64_t)bytes;
        if ((size_t)bytes < BLOCK_BYTES)
            return 0;
    }
    return 0;
}

int disk_read(const char *path, uint64_t file_bytes, uint64_t bytes_most, uint64_t ns_most, struct disk_read *sum)
{
    const int fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    void *const block = aligned_alloc(ALIGNMENT, BLOCK_BYTES);
    const uint64_t middle = file_bytes / 2 / ALIGNMENT * ALIGNMENT;
    const int rc = block != NULL ? read_blocks(fd, block, middle, bytes_most, ns_most, sum) : -ENOMEM;
    free(block);
    close(fd);
    return rc;
}

/* ---- the files of a data set ---- */

struct files {
    uint64_t count, bytes;
    uint64_t counted, cached;           /* bytes that were examined, and those of them that are in the page cache */
    /* there are files of another user, for which the kernel does not report what is in the page cache */
    bool is_withheld;
    long system;                        /* statfs.f_type of the first file */
    struct disk_read read;
    int read_rc;
};

/* File systems that read over a network, by their number in statfs(2). */
static const char *network_system(long type)
{
    static const struct { unsigned long type; const char *name; } systems[] = {
        { 0x6969, "NFS" }, { 0xff534d42, "CIFS" }, { 0xfe534d42, "SMB" }, { 0x517b, "SMB" }, { 0x0bd00bd0, "Lustre" },
        { 0x00c36400, "Ceph" }, { 0x01021997, "9P" }, { 0x47504653, "GPFS" },
    };
    for (size_t i = 0; i < sizeof(systems) / sizeof(systems[0]); i++)
        if (systems[i].type == ((unsigned long)type & 0xffffffff))
            return systems[i].name;
    return NULL;
}

static bool is_in_memory(long type)
{
    return type == 0x01021994 || (unsigned long)type == 0x858458f6;     /* tmpfs, ramfs */
}

static void count_cached(struct files *files, const char *path, uint64_t bytes)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    uint64_t cached = 0;
    const int rc = fd >= 0 ? page_cache_count(fd, path, bytes, &cached) : -errno;
    files->is_withheld |= rc == -EPERM;
    if (rc == 0) {
        files->counted += bytes;
        files->cached += cached;
    }
    if (fd >= 0)
        close(fd);
}

static void examine_files(struct files *files, const struct shard_list *list)
{
    const uint64_t end_ns = clock_now_ns() + COUNT_NS;
    struct statfs system;
    if (list->count > 0 && statfs(list->paths[0], &system) == 0)
        files->system = (long)system.f_type;
    for (uint32_t i = 0; i < list->count; i++) {
        struct stat status;
        if (stat(list->paths[i], &status) != 0 || !S_ISREG(status.st_mode))
            continue;
        files->count++;
        files->bytes += (uint64_t)status.st_size;
        if (clock_now_ns() < end_ns && status.st_size > 0)
            count_cached(files, list->paths[i], (uint64_t)status.st_size);
    }
}

static void read_files(struct files *files, const struct shard_list *list)
{
    const uint32_t count = list->count < FILES_READ ? list->count : FILES_READ;
    for (uint32_t i = 0; i < count && files->read_rc == 0; i++) {
        struct stat status;
        const char *const path = list->paths[(uint64_t)i * list->count / count];
        if (stat(path, &status) == 0 && S_ISREG(status.st_mode))
            files->read_rc = disk_read(path, (uint64_t)status.st_size, READ_BYTES * (i + 1) / count,
                                       READ_NS * (i + 1) / count, &files->read);
    }
}

/* Memory that the page cache can use: it counts towards the limits of control groups as well. 0: unknown. */
static uint64_t available_memory(const struct machine *machine)
{
    const uint64_t left = cgroup_memory_left(machine->root);
    uint64_t kib;
    if (!machine_row_number(machine, "proc/meminfo", "MemAvailable", &kib))
        return 0;
    return kib * 1024 < left ? kib * 1024 : left;
}

static void add_files(struct findings *findings, const char *name, const struct files *files, const char *pattern)
{
    const char *const network = network_system(files->system);
    findings_add(findings, TOPIC, name, "%s in %llu file%s%s%s (%s)", number_bytes(files->bytes).text,
                 (unsigned long long)files->count, files->count == 1 ? "" : "s", network != NULL ? " on " : "",
                 network != NULL ? network : is_in_memory(files->system) ? " in memory" : "", pattern);
    if (network != NULL)
        findings_judge(findings, JUDGEMENT_NOTE, "what is not in the page cache is read over the network, so "
                       "its speed depends on other users: copy the shards to a disk of this machine");
}

static void add_cache(struct findings *findings, const struct machine *machine, const char *name,
                      const struct files *files)
{
    const uint64_t available = available_memory(machine);
    if (is_in_memory(files->system))
        return;
    if (files->counted == 0) {
        if (files->is_withheld)
            findings_add(findings, TOPIC, "page cache", "unknown for %s: the files belong to another user", name);
        return;
    }
    findings_add(findings, TOPIC, "page cache", "%.0f %% of %s of %s are in it",
                 100 * (double)files->cached / (double)files->counted, number_bytes(files->counted).text, name);
    if (available > 0 && files->bytes - files->cached > available)
        findings_judge(findings, JUDGEMENT_NOTE, "the files do not fit into the %s of available memory, so every "
                       "epoch reads them from disk: use more memory, or smaller images (pipetrain-convert)",
                       number_bytes(available).text);
}

static void add_speed(struct findings *findings, const struct files *files)
{
    if (is_in_memory(files->system))
        return;
    if (files->read_rc != 0 || files->read.elapsed_ns == 0) {
        findings_add(findings, TOPIC, "disk", "not measured: %s", files->read_rc == -EINVAL
                     ? "this file system reads only through the page cache" : strerror(-files->read_rc));
        return;
    }
    const double speed = (double)files->read.bytes * 1e9 / (double)files->read.elapsed_ns;
    const double epoch = (double)files->bytes / speed;
    findings_add(findings, TOPIC, "disk", "%.0f MB/s measured past the page cache (%s, one read of 2 MiB at a time): "
                 "an epoch is read in %.1f %s", speed / 1e6, number_bytes(files->read.bytes).text,
                 epoch < 60 ? epoch : epoch / 60, epoch < 60 ? "s" : "minutes");
}

static void add_set(struct findings *findings, const struct machine *machine, const char *name, const char *pattern)
{
    char problem[PROBLEM_BYTES] = "";
    struct text problems;
    struct shard_counts counts = { 0 };
    struct shard_list list = { .count = 0 };
    struct files files = { .count = 0 };
    text_init(&problems, problem, sizeof(problem));
    const int rc = dataset_shards_find(&list, pattern, name, &counts, &problems);
    shard_counts_release(&counts);
    if (rc != 0 || list.count == 0) {
        findings_add(findings, TOPIC, name, "%s", problem[0] != '\0' ? problem : "no shards are found");
        findings_judge(findings, JUDGEMENT_WARN, "a run is refused: see data.%s", name);
        shard_list_release(&list);
        return;
    }
    examine_files(&files, &list);
    if (strcmp(name, "train") == 0)
        read_files(&files, &list);
    add_files(findings, name, &files, pattern);
    add_cache(findings, machine, name, &files);
    if (strcmp(name, "train") == 0)
        add_speed(findings, &files);
    shard_list_release(&list);
}

void topic_data(struct findings *findings, const struct machine *machine)
{
    if (machine->settings == NULL) {
        findings_add(findings, TOPIC, "none", "--doctor -c run.conf examines the shards of a configuration, too");
        return;
    }
    const struct data_settings *const data = &machine->settings->data;
    if (machine->settings->input.source == INPUT_SYNTHETIC) {
        findings_add(findings, TOPIC, "none", "the run reads none: input.source = synthetic");
        return;
    }
    add_set(findings, machine, "train", data->train);
    if (*data->validation != '\0')
        add_set(findings, machine, "validation", data->validation);
}
