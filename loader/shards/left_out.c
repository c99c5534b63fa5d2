/* What directories hold besides the sets that are meant. Called once the shards of all sets are found. */
#include "loader/shards/left_out.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "loader/shards/text.h"
#include "stage/log.h"

#define NAMED_MAX 3u
#define TEXT_BYTES 1024u

/* A file of a list. */
struct member {
    dev_t device;
    ino_t inode;
    const char *path;
    uint32_t place;             /* 0 of those that are taken, else counted from 1 in the order of the lists */
};

struct members {
    struct member *all;
    size_t count;
};

static int compare_places(const void *a, const void *b)
{
    const struct member *const one = a, *const other = b;
    return (one->place > other->place) - (one->place < other->place);
}

/* Of the same file first what takes it. */
static int compare_files(const void *a, const void *b)
{
    const struct member *const one = a, *const other = b;
    if (one->device != other->device)
        return one->device < other->device ? -1 : 1;
    if (one->inode != other->inode)
        return one->inode < other->inode ? -1 : 1;
    return compare_places(a, b);
}

static bool is_same_file(const struct member *one, const struct member *other)
{
    return one->device == other->device && one->inode == other->inode;
}

/* What is not there is in no directory either. */
static void add(struct members *members, const char *path, uint32_t place)
{
    struct stat status;
    if (stat(path, &status) == 0)
        members->all[members->count++] = (struct member){ status.st_dev, status.st_ino, path, place };
}

static void add_all(struct members *members, const struct shard_list *lists, uint32_t count)
{
    uint32_t place = 0;
    for (uint32_t k = 0; k < count; k++) {
        for (uint32_t i = 0; i < lists[k].count; i++)
            add(members, lists[k].paths[i], 0);
        for (uint32_t i = 0; i < lists[k].left_out_count; i++)
            add(members, lists[k].left_out[i], ++place);
    }
}

/* Leave those that no list takes, each once, in the order of the lists. */
static void keep_left_out(struct members *members)
{
    size_t kept = 0;
    struct member first = { .path = NULL };
    qsort(members->all, members->count, sizeof(*members->all), compare_files);
    for (size_t i = 0; i < members->count; i++) {
        const struct member member = members->all[i];
        const bool is_first = first.path == NULL || !is_same_file(&member, &first);
        if (is_first)
            first = member;
        if (is_first && member.place > 0)
            members->all[kept++] = member;
    }
    members->count = kept;
    qsort(members->all, members->count, sizeof(*members->all), compare_places);
}

static void tell(const struct members *members)
{
    char buffer[TEXT_BYTES];
    struct text text;
    text_init(&text, buffer, sizeof(buffer));
    for (size_t i = 0; i < members->count && i < NAMED_MAX; i++) {
        text_add(&text, i > 0 ? ", " : "");
        text_add_escaped(&text, members->all[i].path);
    }
    if (members->count > NAMED_MAX)
        text_add(&text, " and %zu more", members->count - NAMED_MAX);
    log_message(LOG_RUN, "left out %zu shard%s: %s: of a directory a set takes only the files whose names tell of it; "
                "name files or a glob to take others", members->count, members->count == 1 ? "" : "s", buffer);
}

int left_out_tell(const struct shard_list *lists, uint32_t count)
{
    size_t room = 1;
    for (uint32_t k = 0; k < count; k++)
        room += (size_t)lists[k].count + lists[k].left_out_count;
    struct members members = { .all = calloc(room, sizeof(*members.all)) };
    if (members.all == NULL)
        return -ENOMEM;
    add_all(&members, lists, count);
    keep_left_out(&members);
    if (members.count > 0)
        tell(&members);
    free(members.all);
    return 0;
}
