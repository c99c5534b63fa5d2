/* Provides the samples of a set of encoded images. Prepared by the main thread; samples are requested by the writing
 * threads. */
#include "tools/convert/image_set.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage/file/file.h"
#include "tools/convert/image_flaws.h"
#include "tools/convert/shard_writer.h"

#define FEATURES_BYTES 300u     /* approximate size of a record without its image */

static int refuse_image(const struct image_set *set, const struct image_file *file, int rc, const char *problem)
{
    return convert_fail(set->stop, EXIT_CODE_DATA, rc, "%s: %s: %s", set->input, image_list_path(&set->list, file),
                        problem);
}

/* Read an image and its header. The header was valid when the set was prepared. */
static int read_image(const struct image_set *set, const struct image_file *file, uint8_t *bytes,
                      struct image_header *header_out)
{
    static const char changed[] = "changed during the conversion: convert it again";
    const char *problem;

    const int rc = set->read(set, file, bytes);
    if (rc < 0)
        return refuse_image(set, file, rc, rc == -EBADMSG ? changed : exit_cause(rc));
    if (image_header_read(bytes, file->bytes, header_out, &problem) < 0)
        return refuse_image(set, file, -EBADMSG, changed);
    return 0;
}

static struct example_value number_value(const char *name, int64_t value)
{
    return (struct example_value){ .name = name, .kind = FEATURE_INT64S, .int64 = value };
}

static struct example_value bytes_value(const char *name, const void *bytes, size_t byte_count)
{
    return (struct example_value){ .name = name, .kind = FEATURE_BYTES, .bytes = bytes, .byte_count = byte_count };
}

static struct example_value text_value(const char *name, const char *value)
{
    return bytes_value(name, value, strlen(value));
}

static int image_sample(void *arg, uint64_t index, void *scratch, struct example_value values_out[SAMPLE_VALUES_MAX],
                        size_t *count_out)
{
    static const char *const formats[] = { [IMAGE_FORMAT_JPEG] = "JPEG", [IMAGE_FORMAT_PNG] = "PNG" };
    const struct image_source *source = arg;
    const struct image_set *set = source->set;
    const struct image_file *file = &set->list.files[source->split->first + index];
    struct image_header header;
    size_t count = 0;

    const int rc = read_image(set, file, scratch, &header);
    if (rc < 0)
        return rc;
    values_out[count++] = number_value("image/channels", header.channels);
    values_out[count++] = number_value("image/class/label", file->label);
    if (set->layout.class_names != NULL)
        values_out[count++] = text_value("image/class/text", set->layout.class_names[file->label]);
    values_out[count++] = bytes_value("image/encoded", scratch, file->bytes);
    values_out[count++] = text_value("image/filename", image_list_path(&set->list, file) + file->name_at);
    values_out[count++] = text_value("image/format", formats[header.format]);
    values_out[count++] = number_value("image/height", header.height);
    values_out[count++] = number_value("image/width", header.width);
    *count_out = count;
    return 0;
}

static int image_label(void *arg, uint64_t index, void *scratch, int64_t *label_out)
{
    const struct image_source *const source = arg;

    (void)scratch;
    *label_out = source->set->list.files[source->split->first + index].label;
    return 0;
}

static void image_name(void *arg, uint64_t index, char *text, size_t text_size)
{
    const struct image_source *const source = arg;
    const struct image_set *const set = source->set;

    snprintf(text, text_size, "%s: %s", set->input,
             image_list_path(&set->list, &set->list.files[source->split->first + index]));
}

static struct sample_source make_source(struct image_source *image_source)
{
    const struct image_split *split = image_source->split;
    struct sample_source source = {
        .split = split->name, .record_count = split->count, .sample = image_sample, .label = image_label,
        .name = image_name,
        .arg = image_source,
    };

    for (size_t i = 0; i < split->count; i++) {
        const size_t bytes = image_source->set->list.files[split->first + i].bytes;
        source.bytes += bytes + FEATURES_BYTES;
        if (source.scratch_bytes <= bytes)
            source.scratch_bytes = bytes + 1;
    }
    return source;
}

static void drop_folders(struct image_list *list)
{
    size_t kept = 0;

    for (size_t i = 0; i < list->count; i++) {
        if (!list->files[i].is_folder)
            list->files[kept++] = list->files[i];
    }
    list->count = kept;
}

/* Add the images that cannot be decoded to the refused files. Afterwards the set cannot be used. */
static int refuse_undecodable(struct image_set *set, const struct convert_options *options, struct image_flaws *flaws)
{
    const struct shard_writer_options check = { .jobs = (uint32_t)options->jobs, .keeps_order = true,
                                                .change = { .is_checked = true }, .interrupted = options->interrupted };
    struct image_split all = { .name = "train" };
    struct image_source images = { set, &all };

    drop_folders(&set->list);
    all.count = set->list.count;
    if (all.count == 0)
        return 0;
    const struct sample_source source = make_source(&images);
    bool has_encoded;
    const int rc = images_check(&source, &check, "checking the other images", flaws, &has_encoded, set->stop);
    for (size_t i = 0; rc == 0 && i < flaws->kinds[FLAW_UNDECODABLE].listed; i++) {
        const struct image_flaw *const flaw = &flaws->kinds[FLAW_UNDECODABLE].first[i];
        image_choice_refuse(&set->choice, image_list_path(&set->list, &set->list.files[flaw->index]), flaw->text);
    }
    set->choice.refused_count += flaws->kinds[FLAW_UNDECODABLE].count - flaws->kinds[FLAW_UNDECODABLE].listed;
    return rc;
}

int image_set_end_choice(struct image_set *set, const struct convert_options *options)
{
    struct image_choice *const choice = &set->choice;
    const bool is_checked = options->change.is_checked && !options->skips_unreadable && choice->refused_count > 0;
    struct image_flaws *const flaws = is_checked ? image_flaws_open() : NULL;

    progress_end(&choice->progress);
    choice->skips_refused = options->skips_unreadable;
    const int rc = flaws != NULL ? refuse_undecodable(set, options, flaws) : 0;
    image_flaws_close(flaws);
    return rc < 0 ? rc : image_choice_end(choice, set->input, set->stop);
}

int image_set_refuse(struct image_set *set, const char *path, int error)
{
    if (exit_code_of(-error, EXIT_CODE_DATA) == EXIT_CODE_DATA) {
        image_choice_refuse(&set->choice, path, strerror(error));
        return 0;
    }
    return convert_fail(set->stop, EXIT_CODE_MEMORY, -error, "%s: cannot look at its images: %s", set->input,
                        exit_cause(-error));
}

int image_set_read_file(const struct image_set *set, const struct image_file *file, int folder, uint8_t *out)
{
    const int fd = openat(folder, image_list_path(&set->list, file), O_RDONLY | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return -errno;
    const int rc = file_read_whole(fd, out, file->bytes);
    close(fd);
    return rc;
}

/* Add the refused files to those that the conversion leaves out. */
static void describe_left_out(const struct image_set *set, struct conversion *conversion)
{
    for (uint64_t i = 0; i < set->choice.refused_count; i++)
        conversion_leave_out(conversion, set->input, i < set->choice.refused_listed ? set->choice.refused[i] : "");
}

void image_set_describe(struct image_set *set, struct conversion *conversion)
{
    const struct image_layout *layout = &set->layout;

    describe_left_out(set, conversion);

    conversion->image_key = "image/encoded";
    conversion->label_key = "image/class/label";
    conversion->classes = layout->class_count;
    conversion->class_names = (const char *const *)layout->class_names;
    conversion->remark = layout->remark;
    conversion->height = set->choice.common.height;
    conversion->width = set->choice.common.width;
    conversion->depth = set->choice.common.channels;
    for (size_t i = 0; i < layout->split_count; i++) {
        set->sources[i] = (struct image_source){ set, &layout->splits[i] };
        conversion->sources[i] = make_source(&set->sources[i]);
    }
    conversion->source_count = layout->split_count;
}

void image_set_release(struct image_set *set)
{
    image_list_release(&set->list);
    image_choice_release(&set->choice);
    for (uint32_t i = 0; set->layout.class_names != NULL && i < set->layout.class_count; i++)
        free(set->layout.class_names[i]);
    free(set->layout.class_names);
}
