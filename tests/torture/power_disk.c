/* Files by inode, and the changes of their names. */
#include "tests/torture/power_disk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PENDING_MAX 64u

void power_disk_init(struct power_disk *disk)
{
    *disk = (struct power_disk){ .file_count = 0 };
}

void power_disk_release(struct power_disk *disk)
{
    for (uint32_t i = 0; i < disk->file_count; i++) {
        content_release(&disk->files[i].now);
        content_release(&disk->files[i].synced);
    }
    free(disk->files);
    free(disk->changes);
    power_disk_init(disk);
}

/* The newest file of that number. */
static struct disk_file *find_file(const struct power_disk *disk, uint64_t inode)
{
    for (uint32_t i = disk->file_count; i > 0; i--)
        if (disk->files[i - 1].inode == inode)
            return &disk->files[i - 1];
    return NULL;
}

static int resize(struct content *content, size_t count)
{
    char *const bytes = realloc(content->bytes, count + 1);
    if (bytes == NULL)
        return -ENOMEM;
    if (count > content->count)
        memset(bytes + content->count, 0, count - content->count);
    *content = (struct content){ bytes, count };
    return 0;
}

static int copy_content(struct content *to, const struct content *from)
{
    if (resize(to, from->count) != 0)
        return -ENOMEM;
    if (from->count > 0)
        memcpy(to->bytes, from->bytes, from->count);
    return 0;
}

static struct disk_file *add_file(struct power_disk *disk, uint64_t inode)
{
    struct disk_file *const files = realloc(disk->files, (disk->file_count + 1) * sizeof(*files));
    if (files == NULL)
        return NULL;
    disk->files = files;
    files[disk->file_count] = (struct disk_file){ .inode = inode };
    return &files[disk->file_count++];
}

static int add_change(struct power_disk *disk, const struct disk_change *change)
{
    struct disk_change *const changes = realloc(disk->changes, (disk->change_count + 1) * sizeof(*changes));
    if (changes == NULL)
        return -ENOMEM;
    disk->changes = changes;
    changes[disk->change_count++] = *change;
    return 0;
}

int power_disk_add(struct power_disk *disk, const char *path, uint64_t inode, const struct content *content)
{
    const struct disk_change change = { .op = content != NULL ? OP_CREATE : OP_MKDIR, .path = path, .other = "",
                                        .file = disk->file_count, .is_synced = true };
    if (add_change(disk, &change) != 0)
        return -ENOMEM;
    if (content == NULL)
        return 0;
    struct disk_file *const file = add_file(disk, inode);
    return file == NULL || copy_content(&file->now, content) != 0 ? -ENOMEM : copy_content(&file->synced, content);
}

/* ---- operations ---- */

static int create(struct power_disk *disk, const struct op_record *record)
{
    const struct disk_change change = { .op = OP_CREATE, .path = record->path, .other = "",
                                        .file = disk->file_count };
    return add_file(disk, record->head.inode) != NULL ? add_change(disk, &change) : -ENOMEM;
}

static int write_bytes(struct disk_file *file, const struct op_record *record)
{
    const size_t end = record->head.offset + record->head.bytes;
    if (end > file->now.count && resize(&file->now, end) != 0)
        return -ENOMEM;
    memcpy(file->now.bytes + record->head.offset, record->bytes, record->head.bytes);
    return 0;
}

static int change_file(struct power_disk *disk, const struct op_record *record)
{
    struct disk_file *const file = find_file(disk, record->head.inode);
    if (file == NULL)
        return -EPROTO;
    file->has_hash = false;
    if (record->head.op == OP_WRITE)
        return write_bytes(file, record);
    return record->head.op == OP_TRUNCATE ? resize(&file->now, record->head.offset)
                                          : copy_content(&file->synced, &file->now);
}

static bool is_in(const char *path, const char *folder)
{
    const char *const slash = strrchr(path, '/');
    const size_t bytes = slash != NULL ? (size_t)(slash - path) : 0;
    return strlen(folder) == bytes && strncmp(path, folder, bytes) == 0;
}

static void sync_names(struct power_disk *disk, const char *folder)
{
    for (uint32_t i = 0; i < disk->change_count; i++) {
        struct disk_change *const change = &disk->changes[i];
        change->is_synced |= is_in(change->path, folder) || (*change->other != '\0' && is_in(change->other, folder));
    }
}

int power_disk_do(struct power_disk *disk, const struct op_record *record)
{
    const struct disk_change change = { .op = (enum op)record->head.op, .path = record->path, .other = record->other };
    switch (change.op) {
    case OP_CREATE: return create(disk, record);
    case OP_MKDIR:
    case OP_RENAME:
    case OP_UNLINK: return add_change(disk, &change);
    case OP_WRITE:
    case OP_TRUNCATE:
    case OP_SYNC: return change_file(disk, record);
    case OP_SYNC_NAMES: sync_names(disk, record->path); return 0;
    }
    return -EPROTO;
}

/* ---- what is left ---- */

uint32_t power_disk_pending(const struct power_disk *disk)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < disk->change_count; i++)
        count += !disk->changes[i].is_synced;
    return count < PENDING_MAX ? count : PENDING_MAX;
}

static struct disk_name *find_name(struct disk_name *names, uint32_t count, const char *path)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(names[i].path, path) == 0)
            return &names[i];
    return NULL;
}

static void remove_name(struct disk_name *names, uint32_t *count, const char *path)
{
    struct disk_name *const name = find_name(names, *count, path);
    if (name != NULL)
        *name = names[--*count];
}

/* A change of a missing name has no effect. */
static void apply(struct disk_name *names, uint32_t *count, const struct disk_change *change)
{
    struct disk_name *const name = find_name(names, *count, change->path);
    if (change->op == OP_UNLINK) {
        remove_name(names, count, change->path);
    } else if (change->op == OP_RENAME && name != NULL) {
        const struct disk_name moved = { change->other, name->file, name->is_folder };
        remove_name(names, count, change->path);
        remove_name(names, count, change->other);
        names[(*count)++] = moved;
    } else if (change->op != OP_RENAME) {
        remove_name(names, count, change->path);
        names[(*count)++] = (struct disk_name){ change->path, change->file, change->op == OP_MKDIR };
    }
}

struct disk_name *power_disk_names(const struct power_disk *disk, uint64_t chosen, uint32_t *count_out)
{
    struct disk_name *const names = calloc(disk->change_count + 1, sizeof(*names));
    uint32_t count = 0, pending = 0;
    for (uint32_t i = 0; i < disk->change_count && names != NULL; i++) {
        const struct disk_change *const change = &disk->changes[i];
        const bool is_there = change->is_synced || (pending < PENDING_MAX && (chosen >> pending & 1) != 0);
        pending += !change->is_synced;
        if (is_there)
            apply(names, &count, change);
    }
    *count_out = count;
    return names;
}

const char *disk_file_left(const struct disk_file *file, enum unsynced unsynced, size_t *bytes_out, size_t *zeros_out)
{
    const size_t now = file->now.count, synced = file->synced.count, grown = now > synced ? now - synced : 0;
    const bool is_synced = unsynced == UNSYNCED_LOST || (unsynced == UNSYNCED_ZEROS && grown > 0);
    *zeros_out = unsynced == UNSYNCED_ZEROS ? grown : 0;
    *bytes_out = is_synced ? synced : unsynced == UNSYNCED_TORN ? now - grown / 2 : now;
    return is_synced ? file->synced.bytes : file->now.bytes;
}
