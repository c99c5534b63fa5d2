/* The shards of a run: whether the disk or the page cache feeds it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "loader/dataset_shards.h"
#include "stage/clock.h"
#include "tools/config/number.h"
#include "tools/doctor/page_cache.h"
#include "tools/doctor/topics.h"
#include "tools/limits/cgroup.h"

#define TOPIC "data"
#define READ_BYTES ((uint64_t)64 << 20)
#define READ_NS UINT64_C(1000000000)
#define LOOK_NS UINT64_C(1000000000)    /* for looking at the page cache */
#define FILES_READ 8u                   /* of all, spread over them */
#define PROBLEM_BYTES 4096u

struct files {
    uint64_t count, bytes;
    uint64_t looked_at, cached;         /* bytes */
    bool is_withheld;                   /* the kernel does not tell of a file of somebody else */
    long system;                        /* statfs.f_type of the first one */
    struct disk_read read;
    int read_rc;
};

/* File systems on which reads go over a network. Numbers of statfs(2). */
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

static void look_at_cache(struct files *files, const char *path, uint64_t bytes)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    uint64_t cached;
    const int rc = fd >= 0 ? page_cache_count(fd, path, bytes, &cached) : -errno;
    files->is_withheld |= rc == -EPERM;
    if (rc == 0) {
        files->looked_at += bytes;
        files->cached += cached;
    }
    if (fd >= 0)
        close(fd);
}

static void look_at_files(struct files *files, const struct shard_list *list)
{
    const uint64_t end_ns = clock_now_ns() + LOOK_NS;
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
            look_at_cache(files, list->paths[i], (uint64_t)status.st_size);
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

/* 0: unknown. The page cache counts towards the limits of control groups, too. */
static uint64_t memory_there(const struct machine *machine)
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
        findings_judge(findings, JUDGEMENT_NOTE, "what is not in the page cache is read over the network, as fast as "
                       "that and others' use of it are: a copy on a disk of this machine does not depend on them");
}

/* Memory that is free holds pages of the shards. */
static void add_cache(struct findings *findings, const struct machine *machine, const char *name,
                      const struct files *files)
{
    const uint64_t there = memory_there(machine);
    if (is_in_memory(files->system))
        return;
    if (files->looked_at == 0) {
        if (files->is_withheld)
            findings_add(findings, TOPIC, "page cache", "not told of %s: the files belong to somebody else", name);
        return;
    }
    findings_add(findings, TOPIC, "page cache", "%.0f %% of %s of %s are in it",
                 100 * (double)files->cached / (double)files->looked_at, number_bytes(files->looked_at).text, name);
    if (there > 0 && files->bytes - files->cached > there)
        findings_judge(findings, JUDGEMENT_NOTE, "the files do not fit into the %s that can be had: every epoch reads "
                       "from disk again; more memory, or smaller images (pipetrain-convert), keep them in it",
                       number_bytes(there).text);
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
                 "so an epoch is read in %.1f %s", speed / 1e6, number_bytes(files->read.bytes).text,
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
    look_at_files(&files, &list);
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
        findings_add(findings, TOPIC, "none", "--doctor -c run.conf looks at the shards of a configuration, too");
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
