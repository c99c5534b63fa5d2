/* Image files that are in a set several times, through symbolic or hard links. Called by the main thread of the converter
 * of folders. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/log.h"
#include "tools/convert/convert.h"
#include "tools/convert/image_set.h"

struct mention { const struct image_file *file; size_t split; };

/* Files that are there again: in another class, in another set, or in the same class. */
struct repeats { size_t count; struct mention first, second; };

/* Equal files are in the order of the list. */
static int compare_mentions(const void *a, const void *b)
{
    const struct mention *const one = a, *const other = b;
    const int order = file_identity_compare(&one->file->identity, &other->file->identity);
    return order != 0 ? order : (one->file > other->file) - (one->file < other->file);
}

static size_t list_mentions(const struct image_set *set, struct mention *mentions)
{
    size_t count = 0;

    for (size_t split = 0; split < set->layout.split_count; split++)
        for (size_t i = 0; i < set->layout.splits[split].count; i++)
            mentions[count++] = (struct mention){ &set->list.files[set->layout.splits[split].first + i], split };
    qsort(mentions, count, sizeof(*mentions), compare_mentions);
    return count;
}

static void count_repeat(struct repeats *repeats, const struct mention *first, const struct mention *second)
{
    if (repeats->count++ > 0)
        return;
    repeats->first = *first;
    repeats->second = *second;
}

static void say_repeats(const struct image_set *set, const struct repeats *repeats, const char *where, const char *result)
{
    if (repeats->count > 0)
        log_message(LOG_RUN, "%s: %zu link%s to an image in %s, such as %s and %s, one file: %s", set->input, repeats->count,
                    repeats->count == 1 ? " leads" : "s lead", where, image_list_path(&set->list, repeats->first.file),
                    image_list_path(&set->list, repeats->second.file), result);
}

static int refuse_two_classes(const struct image_set *set, const struct repeats *repeats)
{
    const struct image_file *const one = repeats->first.file, *const other = repeats->second.file;

    return convert_fail(set->stop, EXIT_CODE_DATA, -EBADMSG, "%s: %s and %s are one file, through a link, in the classes "
                        "%s and %s (%zu such image%s): an image has one class: remove one of them; "
                        "--folders-are-classes trains on both", set->input, image_list_path(&set->list, one),
                        image_list_path(&set->list, other), set->layout.class_names[one->label],
                        set->layout.class_names[other->label], repeats->count, repeats->count == 1 ? "" : "s");
}

int image_set_check_repeats(const struct image_set *set)
{
    struct repeats classes = { 0 }, sets = { 0 }, same = { 0 };
    struct mention *const mentions = calloc(set->list.count + 1, sizeof(*mentions));

    if (mentions == NULL)
        return convert_fail(set->stop, EXIT_CODE_MEMORY, -ENOMEM, "%s: no memory to compare its files", set->input);
    const size_t count = list_mentions(set, mentions);
    for (size_t i = 1; i < count; i++) {
        const struct mention *const one = &mentions[i - 1], *const other = &mentions[i];
        if (file_identity_compare(&one->file->identity, &other->file->identity) != 0)
            continue;
        count_repeat(one->file->label != other->file->label ? &classes : one->split != other->split ? &sets : &same, one,
                     other);
    }
    free(mentions);
    if (classes.count > 0 && !set->folders_are_classes)
        return refuse_two_classes(set, &classes);
    say_repeats(set, &classes, "another class", "an image has one class");
    say_repeats(set, &sets, "another set", "what is trained on cannot test");
    say_repeats(set, &same, "its class", "it counts as often as it is there");
    return 0;
}
