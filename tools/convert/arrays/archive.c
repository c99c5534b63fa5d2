/* .npz archives. Opened by main while the npy converter prepares. */
#include "tools/convert/arrays/archive.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/file/file.h"

/* Names that belong together; of a split the first pair counts that is there. */
static const struct name_pair { enum archive_split split; const char *images, *labels; } pairs[] = {
    { ARCHIVE_TRAIN, "x_train", "y_train" },
    { ARCHIVE_TRAIN, "train_images", "train_labels" },
    { ARCHIVE_TRAIN, "images", "labels" },
    { ARCHIVE_TRAIN, "x", "y" },
    { ARCHIVE_TRAIN, "X", "y" },
    { ARCHIVE_TRAIN, "data", "target" },
    { ARCHIVE_TRAIN, "arr_0", "arr_1" },
    { ARCHIVE_VALIDATION, "x_val", "y_val" },
    { ARCHIVE_VALIDATION, "x_valid", "y_valid" },
    { ARCHIVE_VALIDATION, "val_images", "val_labels" },
    { ARCHIVE_TEST, "x_test", "y_test" },
    { ARCHIVE_TEST, "test_images", "test_labels" },
};

/* The member called NAME.npy, as zip_next gives it: -ENODATA where there is none. */
static int find_member(const struct zip *zip, const char *name, struct zip_member *member_out, const char **problem_out)
{
    const size_t bytes = strlen(name);
    size_t place = 0;
    int rc;

    while ((rc = zip_next(zip, &place, member_out, problem_out)) == 0) {
        if (member_out->name_bytes == bytes + 4 && memcmp(member_out->name, name, bytes) == 0 &&
            memcmp(member_out->name + bytes, ".npy", 4) == 0)
            return 0;
    }
    return rc;
}

static int open_pair(struct archive_arrays *arrays, const struct name_pair *pair, const struct zip *zip,
                     const char *path, struct stop *stop)
{
    struct zip_member images, labels;
    const char *problem;

    int rc = find_member(zip, pair->images, &images, &problem);
    if (rc == 0)
        rc = find_member(zip, pair->labels, &labels, &problem);
    if (rc == -EBADMSG)
        stop_fail(stop, EXIT_CODE_DATA, "%s: %s", path, problem);
    if (rc < 0)
        return rc == -ENODATA ? 0 : rc;
    arrays->is_there = true;
    rc = array_open_member(&arrays->images, path, &images, stop);
    return rc < 0 ? rc : array_open_member(&arrays->labels, path, &labels, stop);
}

static int refuse_names(const struct zip *zip, const char *path, struct stop *stop)
{
    char names[512] = "";
    struct zip_member member;
    size_t place = 0, length = 0;
    const char *problem;

    while (zip_next(zip, &place, &member, &problem) == 0 && length < sizeof(names))
        length += (size_t)snprintf(names + length, sizeof(names) - length, " %.*s", (int)member.name_bytes,
                                   member.name);
    stop_fail(stop, EXIT_CODE_DATA, "%s: no images and labels are recognised by their names (x_train.npy and "
              "y_train.npy, images.npy and labels.npy, ...); there are:%s", path, names);
    return -EBADMSG;
}

static int open_pairs(struct archive_arrays arrays[ARCHIVE_SPLITS], const struct zip *zip, const char *path,
                      struct stop *stop)
{
    int rc = 0;

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]) && rc == 0; i++) {
        if (!arrays[pairs[i].split].is_there)
            rc = open_pair(&arrays[pairs[i].split], &pairs[i], zip, path, stop);
    }
    return rc < 0 || arrays[ARCHIVE_TRAIN].is_there ? rc : refuse_names(zip, path, stop);
}

bool archive_is_archive(const char *path)
{
    const size_t bytes = strlen(path);
    return bytes > 4 && strcmp(path + bytes - 4, ".npz") == 0;
}

int archive_open(struct archive_arrays arrays[ARCHIVE_SPLITS], const char *path, struct stop *stop)
{
    const char *problem;
    struct zip zip;
    uint8_t *bytes;
    size_t byte_count;

    for (int i = 0; i < ARCHIVE_SPLITS; i++)
        arrays[i] = (struct archive_arrays){ .images.fd = -1, .labels.fd = -1 };
    int rc = file_load(path, SIZE_MAX, &bytes, &byte_count);
    if (rc < 0) {
        stop_fail(stop, exit_code_of(rc, EXIT_CODE_DATA), "%s: cannot read it: %s", path, exit_cause(rc));
        return rc;
    }
    rc = zip_open(&zip, bytes, byte_count, &problem);
    if (rc < 0)
        stop_fail(stop, EXIT_CODE_DATA, "%s: %s", path, problem);
    else
        rc = open_pairs(arrays, &zip, path, stop);
    free(bytes);
    return rc;
}

void archive_close(struct archive_arrays arrays[ARCHIVE_SPLITS])
{
    for (int i = 0; i < ARCHIVE_SPLITS; i++) {
        array_close(&arrays[i].images);
        array_close(&arrays[i].labels);
    }
}
