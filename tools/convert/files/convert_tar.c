/* The converter of images in tar archives. Archives are walked once: the first bytes of every file are looked at,
 * and where it lies is kept. One that is not compressed is read again when records are written, at any place; one
 * that is compressed has no places to go to, so its images stay in memory. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/inputs/tar.h"
#include "stage/file/file.h"
#include "tools/convert/convert.h"
#include "tools/convert/files/image_set.h"
#include "tools/convert/files/tar_file.h"
#include "tools/limits.h"

#define ARCHIVES_MAX 64u
#define STORE_FIRST ((size_t)1 << 20)

struct tar {
    struct image_set images;
    const struct convert_options *options;
    struct tar_file archives[ARCHIVES_MAX];
    size_t archive_count;
    /* the images of compressed archives, one behind the other */
    uint8_t *store;
    size_t store_bytes, store_room, store_limit;
    struct tar_walk walk;
    uint64_t seen_bytes;            /* of the archive that is walked */
};

/* A file inside the archive that is walked. */
struct member_place {
    struct tar *tar;
    struct tar_file *archive;
    uint64_t place;
};

/* The last archive opened ends the conversion, by a problem of a member or, where that is "", its own. */
static int fail(struct tar *tar, const char *member, int rc, const char *problem)
{
    const struct tar_file *archive = &tar->archives[tar->archive_count - 1];

    if (problem == NULL) {
        member = "";
        problem = rc == -EBADMSG ? "its compressed data is damaged or cut short" : exit_cause(rc);
    }
    stop_fail(tar->images.stop, exit_code_of(rc, EXIT_CODE_DATA), "%s: %s%s%s", archive->path, member,
              *member != '\0' ? " " : "", problem);
    return rc;
}

/* Half of what the machine has, or the control group this process is in: the page cache and the writing need room,
 * too. */
static size_t memory_limit(void)
{
    const size_t machine = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    const size_t group = cgroup_memory_left("");

    return (machine < group ? machine : group) / 2;
}

static int reserve(struct tar *tar, size_t bytes)
{
    size_t room = tar->store_room > 0 ? tar->store_room : STORE_FIRST;

    if (bytes > tar->store_limit - tar->store_bytes)
        return -EFBIG;
    while (room < tar->store_bytes + bytes)
        room = room > tar->store_limit / 2 ? tar->store_limit : 2 * room;
    if (room <= tar->store_room)
        return 0;
    uint8_t *store = realloc(tar->store, room);
    if (store == NULL)
        return -ENOMEM;
    tar->store = store;
    tar->store_room = room;
    return 0;
}

/* Read a member of a compressed archive to the end of the store. */
static int load_member(struct tar *tar, struct tar_file *archive, const struct tar_member *member)
{
    size_t done;
    int rc = reserve(tar, (size_t)member->data_bytes);

    if (rc == -EFBIG)
        return fail(tar, "", -ENOMEM,
                    "its images take over half of the memory: unpack it with gzip -d and convert the .tar");
    if (rc == 0)
        rc = tar_file_read(archive, member->data_offset, tar->store + tar->store_bytes, (size_t)member->data_bytes,
                          &done);
    if (rc < 0)
        return fail(tar, member->path, rc, NULL);
    return done == member->data_bytes ? 0 : fail(tar, member->path, -EBADMSG, "is cut short by the archive's end");
}

static int read_bytes(const struct tar *tar, const struct tar_file *archive, uint64_t place, void *out, size_t bytes)
{
    if (!archive->is_compressed)
        return file_read_at(archive->fd, place, out, bytes);
    memcpy(out, tar->store + place, bytes);
    return 0;
}

static int read_head(void *arg, uint8_t *out, size_t bytes)
{
    const struct member_place *member = arg;
    return read_bytes(member->tar, member->archive, member->place, out, bytes);
}

static int read_image(const struct image_set *set, const struct image_file *file, uint8_t *out)
{
    const struct tar *tar = set->arg;
    return read_bytes(tar, &tar->archives[file->input], file->place, out, file->bytes);
}

static int list_member(struct tar *tar, const struct tar_member *member, uint64_t place)
{
    const struct image_file file = {
        .place = place, .bytes = (uint32_t)member->data_bytes, .input = (uint16_t)(tar->archive_count - 1),
        .is_folder = member->is_folder,
    };
    const int rc = image_list_add(&tar->images.list, member->path, &file);

    return rc < 0 ? fail(tar, "", rc, NULL) : 0;
}

static int add_file(struct tar *tar, struct tar_file *archive, const struct tar_member *member)
{
    struct member_place at = { tar, archive, member->data_offset };
    bool is_image;

    if (member->data_bytes > IMAGE_BYTES_MAX) {
        image_choice_too_large(&tar->images.choice, member->path);
        return 0;
    }
    if (archive->is_compressed) {
        const int rc = load_member(tar, archive, member);
        if (rc < 0)
            return rc;
        at.place = tar->store_bytes;
    }
    int rc = image_choice_take(&tar->images.choice, member->path, member->data_bytes, read_head, &at, &is_image);
    if (rc < 0)
        return fail(tar, member->path, rc, NULL);
    if (!is_image)
        return 0;
    rc = list_member(tar, member, at.place);
    if (rc == 0 && archive->is_compressed)
        tar->store_bytes += (size_t)member->data_bytes;
    return rc;
}

static int add_member(struct tar *tar, struct tar_file *archive, const struct tar_member *member)
{
    if (member->path[0] == '\0' || image_choice_is_hidden(member->path))
        return 0;
    return member->is_folder ? list_member(tar, member, 0) : add_file(tar, archive, member);
}

/* Tell how far into the archive the walk is. */
static void note_progress(struct tar *tar, const struct tar_file *archive, const struct tar_member *member)
{
    const uint64_t at = archive->is_compressed ? tar_file_packed_offset(archive)
                                               : member->data_offset + member->data_bytes;

    if (at > tar->seen_bytes)
        progress_add(&tar->images.choice.progress, at - tar->seen_bytes);
    tar->seen_bytes = at;
}

static int walk_members(struct tar *tar, struct tar_file *archive)
{
    struct tar_member member;
    int rc = 0;

    tar->walk = (struct tar_walk){ .source = { tar_file_read, archive } };
    tar->seen_bytes = 0;
    while (rc == 0) {
        const char *problem = NULL;
        if (atomic_load(tar->options->interrupted))
            return -ECANCELED;
        rc = tar_next(&tar->walk, &member, &problem);
        if (rc == -ENODATA)
            break;
        rc = rc < 0 ? fail(tar, tar->walk.path, rc, problem) : add_member(tar, archive, &member);
        if (rc == 0)
            note_progress(tar, archive, &member);
    }
    if (rc != -ENODATA)
        return rc;
    rc = tar_file_end(archive);
    return rc < 0 ? fail(tar, "", rc, NULL) : 0;
}

static int add_archive(struct tar *tar, const char *path)
{
    struct tar_file *archive = &tar->archives[tar->archive_count++];
    const char *problem = NULL;

    const int rc = tar_file_open(archive, path, &problem);
    return rc < 0 ? fail(tar, "", rc, problem) : walk_members(tar, archive);
}

/* Two members of one name: only one of them would be there if the archive were unpacked. */
static int refuse_doubles(struct tar *tar)
{
    const struct image_list *list = &tar->images.list;

    image_list_sort(&tar->images.list);
    for (size_t i = 1; i < list->count; i++) {
        const struct image_file *a = &list->files[i - 1], *b = &list->files[i];
        if (strcmp(image_list_path(list, a), image_list_path(list, b)) != 0 || (a->is_folder && b->is_folder))
            continue;
        stop_fail(tar->images.stop, EXIT_CODE_DATA, "%s: %s is there twice", tar->archives[b->input].path,
                  image_list_path(list, b));
        return -EBADMSG;
    }
    return 0;
}

static int find_images(struct tar *tar)
{
    struct image_set *images = &tar->images;
    int rc = 0;

    for (size_t i = 0; i < tar->options->input_count && rc == 0; i++)
        rc = add_archive(tar, tar->options->inputs[i]);
    if (rc == 0)
        rc = image_choice_end(&images->choice, images->input, images->stop);
    if (rc == 0)
        rc = refuse_doubles(tar);
    if (rc == 0)
        rc = image_layout_find(&images->layout, &images->list, images->input, images->stop);
    return rc;
}

/* Of all archives that are there. */
static uint64_t count_bytes(const struct convert_options *options)
{
    uint64_t bytes = 0;
    struct stat status;

    for (size_t i = 0; i < options->input_count; i++)
        bytes += stat(options->inputs[i], &status) == 0 ? (uint64_t)status.st_size : 0;
    return bytes;
}

static int tar_prepare(const struct convert_options *options, struct stop *stop, struct conversion *conversion)
{
    struct tar *tar = calloc(1, sizeof(*tar));

    conversion->state = tar;
    if (tar == NULL) {
        stop_fail(stop, EXIT_CODE_MEMORY, "no memory");
        return -ENOMEM;
    }
    tar->options = options;
    tar->store_limit = memory_limit();
    tar->images.input = options->input_count == 1 ? options->inputs[0] : "the archives";
    tar->images.stop = stop;
    image_choice_begin(&tar->images.choice, IMAGE_CHOICE_STORED, 0);
    image_choice_count_bytes(&tar->images.choice, count_bytes(options));
    tar->images.read = read_image;
    tar->images.arg = tar;
    conversion->origin = "images in tar archives";
    const int rc = find_images(tar);
    if (rc == 0)
        image_set_describe(&tar->images, conversion);
    return rc;
}

static void tar_release(struct conversion *conversion)
{
    struct tar *tar = conversion->state;

    if (tar == NULL)
        return;
    for (size_t i = 0; i < tar->archive_count; i++)
        tar_file_close(&tar->archives[i]);
    image_set_release(&tar->images);
    free(tar->store);
    free(tar);
}

const struct converter convert_tar = {
    .name = "tar",
    .summary = "JPEG and PNG images in .tar or .tar.gz archives: CLASS/IMAGE or train/CLASS/IMAGE",
    .inputs = "FILE...",
    .input_count_least = 1,
    .input_count_most = ARCHIVES_MAX,
    .takes = CONVERT_IMAGES | CONVERT_QUALITY,
    .prepare = tar_prepare,
    .release = tar_release,
};
