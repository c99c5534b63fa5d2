/* Members by their names. Called by main while a converter prepares. */
#include "tools/convert/files/tar_members.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "formats/inputs/tar.h"
#include "tools/convert/files/tar_file.h"

static struct tar_wanted *find_wanted(const struct tar_member *member, struct tar_wanted *wanted, size_t count)
{
    const char *const slash = strrchr(member->path, '/'), *const name = slash != NULL ? slash + 1 : member->path;

    for (size_t i = 0; i < count && !member->is_folder; i++) {
        if (strcmp(wanted[i].name, name) == 0)
            return &wanted[i];
    }
    return NULL;
}

static int take_member(struct tar_file *file, const struct tar_member *member, struct tar_wanted *wanted,
                       const char **problem_out)
{
    size_t done;

    *problem_out = wanted->bytes != NULL ? "is there twice" : "is absurdly large";
    if (wanted->bytes != NULL || member->data_bytes > TAR_MEMBER_BYTES_MAX)
        return -EBADMSG;
    wanted->bytes = malloc((size_t)member->data_bytes + 1);
    if (wanted->bytes == NULL)
        return -ENOMEM;
    wanted->byte_count = (size_t)member->data_bytes;
    *problem_out = "is cut short or damaged";
    const int rc = tar_file_read(file, member->data_offset, wanted->bytes, wanted->byte_count, &done);
    return rc == 0 && done < wanted->byte_count ? -EBADMSG : rc;
}

static int walk(struct tar_file *file, struct tar_walk *walk, struct tar_wanted *wanted, size_t count,
                const char **problem_out)
{
    struct tar_member member;
    int rc;

    while ((rc = tar_next(walk, &member, problem_out)) == 0) {
        struct tar_wanted *const one = find_wanted(&member, wanted, count);
        rc = one != NULL ? take_member(file, &member, one, problem_out) : 0;
        if (rc < 0)
            return rc;
    }
    *problem_out = rc == -ENODATA ? "is damaged or cut short" : *problem_out;
    return rc == -ENODATA ? tar_file_end(file) : rc;
}

static void report(const char *path, const char *member, int rc, const char *problem, struct stop *stop)
{
    stop_fail(stop, exit_code_of(rc, EXIT_CODE_DATA), "%s: %s%s%s", path, member, *member != '\0' ? ": " : "",
              rc == -EBADMSG && problem != NULL ? problem : exit_cause(rc));
}

int tar_members_read(const char *path, struct tar_wanted *wanted, size_t count, struct stop *stop)
{
    struct tar_file file = { .fd = -1 };
    struct tar_walk *const members = calloc(1, sizeof(*members));
    const char *problem = NULL;

    int rc = members != NULL ? tar_file_open(&file, path, &problem) : -ENOMEM;
    if (rc == 0) {
        members->source = (struct tar_source){ tar_file_read, &file };
        rc = walk(&file, members, wanted, count, &problem);
    }
    if (rc < 0)
        report(path, members != NULL ? members->path : "", rc, problem, stop);
    tar_file_close(&file);
    free(members);
    return rc;
}
