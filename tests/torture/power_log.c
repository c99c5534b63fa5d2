/* Read the log, and visit the states. */
#include "tests/torture/power_log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "tests/torture/power_disk.h"

struct start { char *path; uint64_t inode; bool is_folder; struct content content; };

struct power_log {
    char folder[PATH_MAX];
    struct start *starts;
    struct op_record *records;
    char **texts;               /* the paths of the records */
    struct content bytes;
    uint32_t start_count, record_count;
};

/* ---- before ---- */

static int add_start(void *arg, const char *path)
{
    struct power_log *const log = arg;
    char whole[2 * PATH_MAX];
    struct stat status;
    struct start *const starts = realloc(log->starts, (log->start_count + 1) * sizeof(*starts));
    if (starts == NULL)
        return -ENOMEM;
    log->starts = starts;
    snprintf(whole, sizeof(whole), "%s/%s", log->folder, path);
    if (stat(whole, &status) != 0)
        return -errno;
    struct start *const start = &starts[log->start_count++];
    *start = (struct start){ .path = strdup(path), .inode = status.st_ino, .is_folder = S_ISDIR(status.st_mode) };
    if (!start->is_folder)
        start->content = content_read(log->folder, path);
    return start->path == NULL || (!start->is_folder && start->content.bytes == NULL) ? -ENOMEM : 0;
}

static int add_folders_of(struct power_log *log, const char *path)
{
    char folder[PATH_MAX];
    for (const char *slash = strchr(path, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        bool is_known = false;
        snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path), path);
        for (uint32_t i = 0; i < log->start_count; i++)
            is_known |= strcmp(log->starts[i].path, folder) == 0;
        const int rc = is_known ? 0 : add_start(log, folder);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int add_file(void *arg, const char *path)
{
    const int rc = add_folders_of(arg, path);
    return rc == 0 ? add_start(arg, path) : rc;
}

struct power_log *power_log_open(const char *folder)
{
    struct power_log *const log = calloc(1, sizeof(*log));
    if (log == NULL)
        return NULL;
    snprintf(log->folder, sizeof(log->folder), "%s", folder);
    if (tree_visit(folder, add_file, log) == 0)
        return log;
    power_log_close(log);
    return NULL;
}

void power_log_close(struct power_log *log)
{
    if (log == NULL)
        return;
    for (uint32_t i = 0; i < log->start_count; i++) {
        free(log->starts[i].path);
        content_release(&log->starts[i].content);
    }
    for (uint32_t i = 0; i < 2 * log->record_count; i++)
        free(log->texts[i]);
    content_release(&log->bytes);
    free(log->starts);
    free(log->records);
    free(log->texts);
    free(log);
}

/* ---- the log ---- */

static int add_record(struct power_log *log, const char **at)
{
    struct op_record *const records = realloc(log->records, (log->record_count + 1) * sizeof(*records));
    if (records != NULL)
        log->records = records;
    char **const texts = realloc(log->texts, 2 * (log->record_count + 1) * sizeof(*texts));
    if (texts != NULL)
        log->texts = texts;
    if (records == NULL || texts == NULL)
        return -ENOMEM;
    struct op_record *const record = &records[log->record_count];
    memcpy(&record->head, *at, sizeof(record->head));
    *at += sizeof(record->head);
    char *const path = strndup(*at, record->head.path_bytes);
    char *const other = strndup(*at + record->head.path_bytes, record->head.other_bytes);
    record->path = texts[2 * log->record_count] = path;
    record->other = texts[2 * log->record_count + 1] = other;
    record->bytes = *at + record->head.path_bytes + record->head.other_bytes;
    *at = record->bytes + record->head.bytes;
    log->record_count++;
    return path == NULL || other == NULL ? -ENOMEM : 0;
}

int power_log_read(struct power_log *log, const char *path)
{
    log->bytes = content_read(path, "");
    if (log->bytes.bytes == NULL)
        return -EIO;
    const char *at = log->bytes.bytes, *const end = at + log->bytes.count;
    int rc = 0;
    while (at < end && rc == 0)
        rc = add_record(log, &at);
    return rc;
}

uint32_t power_log_ops(const struct power_log *log)
{
    return log->record_count;
}

/* ---- the cuts ---- */

static int begin(const struct power_log *log, struct power_disk *disk)
{
    int rc = 0;
    power_disk_init(disk);
    for (uint32_t i = 0; i < log->start_count && rc == 0; i++) {
        const struct start *const start = &log->starts[i];
        rc = power_disk_add(disk, start->path, start->inode, start->is_folder ? NULL : &start->content);
    }
    return rc;
}

static uint64_t hash_file(struct disk_file *file, enum unsynced unsynced)
{
    for (int i = 0; i < UNSYNCED_COUNT && !file->has_hash; i++) {
        size_t bytes, zeros;
        const char *const left = disk_file_left(file, (enum unsynced)i, &bytes, &zeros);
        file->hash[i] = XXH3_64bits_withSeed(left, bytes, zeros);
    }
    file->has_hash = true;
    return file->hash[unsynced];
}

static int hash_state(const struct power_disk *disk, const struct power_cut *cut, uint64_t *hash_out)
{
    uint32_t count;
    struct disk_name *const names = power_disk_names(disk, cut->names, &count);
    if (names == NULL)
        return -ENOMEM;
    *hash_out = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t content = names[i].is_folder ? 0 : hash_file(&disk->files[names[i].file], cut->unsynced);
        *hash_out += XXH3_64bits_withSeed(names[i].path, strlen(names[i].path), content);
    }
    free(names);
    return 0;
}

/* The states that were visited, by their hashes. */
struct walk {
    int (*visit)(void *arg, const struct power_cut *cut);
    void *arg;
    uint64_t *visited;
    uint32_t visited_count;
};

static int visit_once(struct walk *walk, const struct power_disk *disk, const struct power_cut *cut)
{
    uint64_t hash;
    int rc = hash_state(disk, cut, &hash);
    for (uint32_t i = 0; i < walk->visited_count && rc == 0; i++)
        if (walk->visited[i] == hash)
            return 0;
    uint64_t *const visited = realloc(walk->visited, (walk->visited_count + 1) * sizeof(*visited));
    if (rc != 0 || visited == NULL)
        return -ENOMEM;
    walk->visited = visited;
    visited[walk->visited_count++] = hash;
    return walk->visit(walk->arg, cut);
}

static uint64_t first_bits(uint32_t count)
{
    return count >= 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1;
}

static int visit_all_after(struct walk *walk, const struct power_disk *disk, uint32_t ops, bool in_order)
{
    const uint32_t pending = power_disk_pending(disk);
    int rc = 0;
    for (uint32_t i = 0; i <= pending && rc == 0; i++) {
        const uint64_t one = UINT64_C(1) << (i % 64);
        const uint64_t names[] = { in_order ? first_bits(i) : first_bits(pending) & ~one, first_bits(pending) & one };
        for (int n = 0; n < (in_order ? 1 : 2); n++)
            for (int unsynced = 0; unsynced < UNSYNCED_COUNT && rc == 0; unsynced++)
                rc = visit_once(walk, disk, &(struct power_cut){ ops, names[n], in_order, (enum unsynced)unsynced });
    }
    return rc;
}

static int visit_cuts(const struct power_log *log, struct walk *walk, bool in_order)
{
    struct power_disk disk;
    int rc = begin(log, &disk);
    for (uint32_t i = 0; i <= log->record_count && rc == 0; i++) {
        rc = visit_all_after(walk, &disk, i, in_order);
        if (rc == 0 && i < log->record_count)
            rc = power_disk_do(&disk, &log->records[i]);
    }
    power_disk_release(&disk);
    return rc;
}

int power_log_visit(const struct power_log *log, int (*visit)(void *arg, const struct power_cut *cut), void *arg)
{
    struct walk walk = { .visit = visit, .arg = arg };
    int rc = visit_cuts(log, &walk, true);
    if (rc == 0)
        rc = visit_cuts(log, &walk, false);
    free(walk.visited);
    return rc;
}

/* ---- writing one ---- */

static int make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        const int rc = mkdir(path, 0777) == 0 || errno == EEXIST ? 0 : -errno;
        *slash = '/';
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int write_file(const struct disk_file *file, enum unsynced unsynced, const char *path)
{
    size_t bytes, zeros;
    const char *const left = disk_file_left(file, unsynced, &bytes, &zeros);
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (fd < 0)
        return -errno;
    const bool is_written = (bytes == 0 || write(fd, left, bytes) == (ssize_t)bytes) &&
                            ftruncate(fd, (off_t)(bytes + zeros)) == 0;
    close(fd);
    return is_written ? 0 : -EIO;
}

/* Are the names of all its folders there? If one is lost, the files in it are lost, too. */
static bool has_folders(const struct disk_name *names, uint32_t count, const char *path)
{
    for (const char *slash = strchr(path, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        bool is_there = false;
        for (uint32_t i = 0; i < count; i++)
            is_there |= names[i].is_folder && strlen(names[i].path) == (size_t)(slash - path) &&
                        strncmp(names[i].path, path, (size_t)(slash - path)) == 0;
        if (!is_there)
            return false;
    }
    return true;
}

static int write_state(const struct power_disk *disk, const struct power_cut *cut, const char *folder)
{
    uint32_t count;
    char path[2 * PATH_MAX];
    struct disk_name *const names = power_disk_names(disk, cut->names, &count);
    int rc = names == NULL ? -ENOMEM : mkdir(folder, 0777) == 0 ? 0 : -errno;
    for (uint32_t i = 0; i < count && rc == 0; i++) {
        if (!has_folders(names, count, names[i].path))
            continue;
        snprintf(path, sizeof(path), "%s/%s%s", folder, names[i].path, names[i].is_folder ? "/" : "");
        rc = make_folders(path);
        if (rc == 0 && !names[i].is_folder)
            rc = write_file(&disk->files[names[i].file], cut->unsynced, path);
    }
    free(names);
    return rc;
}

int power_log_write(const struct power_log *log, const struct power_cut *cut, const char *folder)
{
    struct power_disk disk;
    int rc = begin(log, &disk);
    for (uint32_t i = 0; i < cut->ops && rc == 0; i++)
        rc = power_disk_do(&disk, &log->records[i]);
    if (rc == 0)
        rc = write_state(&disk, cut, folder);
    power_disk_release(&disk);
    return rc;
}
