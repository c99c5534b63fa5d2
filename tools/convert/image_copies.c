/* Finds equal images, within a source and in two sources, by hashes of the stored bytes. Hashes are noted by the
 * writing threads, and compared by the main thread. */
#include "tools/convert/image_copies.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "stage/log.h"
#include "tools/convert/image_flaws.h"

#define LABEL_UNKNOWN UINT32_MAX
#define NONE UINT64_MAX
/* Images of a source are compared in parts of about so many. */
#define PART_IMAGES (UINT64_C(1) << 20)

/* An image of a source. In sources other than the training set, the members below are used only in the first of
 * several equal images. */
struct set_image {
    uint64_t hash, index;
    /* index of an equal training image: of the first one with a known label, else of the first one; or NONE */
    uint64_t trained;
    /* index of the first equal training image with another label than the image `trained`; or NONE */
    uint64_t relabelled;
};

struct set_images { struct set_image *items; uint64_t count; };

struct copies_found {
    uint64_t count, other_label;
    uint64_t index, trained;    /* the first pair; if there are pairs with different labels, the first of those */
};

/* The number of images of a source that are equal to one with another label in the same source, and the first pair. */
struct labels_found { uint64_t count, first, other; };

int image_copies_init(struct image_copies *copies, const struct sample_source *sources, size_t count)
{
    *copies = (struct image_copies){ .sources = sources };
    copies->hashes = calloc(count, sizeof(*copies->hashes));
    copies->labels = calloc(count, sizeof(*copies->labels));
    if (copies->hashes == NULL || copies->labels == NULL)
        return -ENOMEM;
    copies->source_count = count;
    for (size_t i = 0; i < count; i++) {
        copies->hashes[i] = calloc(sources[i].record_count + 1, sizeof(**copies->hashes));
        copies->labels[i] = calloc(sources[i].record_count + 1, sizeof(**copies->labels));
        if (copies->hashes[i] == NULL || copies->labels[i] == NULL)
            return -ENOMEM;
    }
    return 0;
}

void image_copies_release(struct image_copies *copies)
{
    for (size_t i = 0; i < copies->source_count; i++) {
        free(copies->hashes[i]);
        free(copies->labels[i]);
    }
    free(copies->hashes);
    free(copies->labels);
    *copies = (struct image_copies){ 0 };
}

void image_copies_note(const struct image_copies *copies, size_t source, uint64_t index,
                       const struct found_sample *sample)
{
    const bool is_list = sample->bytes == NULL;
    const size_t bytes = is_list ? sample->list.entry_bytes : sample->byte_count;

    if (copies->source_count == 0 || sample->image == FOUND_NOTHING || bytes == 0)
        return;
    const uint64_t hash = XXH3_64bits(is_list ? sample->list.entry : sample->bytes, bytes);
    copies->hashes[source][index] = hash != 0 ? hash : 1;
    copies->labels[source][index] = sample->has_label ? (uint32_t)sample->label : LABEL_UNKNOWN;
}

static int compare_images(const void *a, const void *b)
{
    const struct set_image *const one = a, *const other = b;
    if (one->hash != other->hash)
        return one->hash < other->hash ? -1 : 1;
    return (one->index > other->index) - (one->index < other->index);
}

/* List the images in one of `parts` parts of a source, sorted by their hashes. Equal images are in the same part. */
static int list_part(const struct image_copies *copies, size_t source, uint64_t part, uint64_t parts,
                     struct set_images *images)
{
    const uint64_t *const hashes = copies->hashes[source], count = copies->sources[source].record_count;
    uint64_t listed = 0;

    for (uint64_t i = 0; i < count; i++)
        listed += hashes[i] != 0 && hashes[i] % parts == part;
    *images = (struct set_images){ .items = calloc(listed + 1, sizeof(*images->items)) };
    if (images->items == NULL)
        return -ENOMEM;
    for (uint64_t i = 0; i < count; i++) {
        if (hashes[i] != 0 && hashes[i] % parts == part)
            images->items[images->count++] = (struct set_image){ hashes[i], i, NONE, NONE };
    }
    qsort(images->items, images->count, sizeof(*images->items), compare_images);
    return 0;
}

/* The first of the images with this hash; NULL if there is none. */
static struct set_image *find_first(const struct set_images *held, uint64_t hash)
{
    uint64_t low = 0, high = held->count;

    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (held->items[middle].hash < hash)
            low = middle + 1;
        else
            high = middle;
    }
    return low < held->count && held->items[low].hash == hash ? &held->items[low] : NULL;
}

static bool labels_differ(uint32_t one, uint32_t other)
{
    return one != other && one != LABEL_UNKNOWN && other != LABEL_UNKNOWN;
}

static void look_at_trained(const struct image_copies *copies, struct set_images *held)
{
    const uint32_t *const labels = copies->labels[0];

    for (uint64_t i = 0; i < copies->sources[0].record_count; i++) {
        const uint64_t hash = copies->hashes[0][i];
        struct set_image *const first = hash != 0 ? find_first(held, hash) : NULL;
        if (first == NULL)
            continue;
        if (first->trained == NONE || (labels[first->trained] == LABEL_UNKNOWN && labels[i] != LABEL_UNKNOWN))
            first->trained = i;
        if (first->relabelled == NONE && labels_differ(labels[first->trained], labels[i]))
            first->relabelled = i;
    }
}

/* Count an image that is also in the training set. `first` is the first image of the source that is equal to it. */
static void count_copy(const struct image_copies *copies, size_t source, const struct set_image *first, uint64_t index,
                       struct copies_found *found)
{
    const uint32_t *const trained_labels = copies->labels[0], label = copies->labels[source][index];
    const bool is_like_first = !labels_differ(label, trained_labels[first->trained]);
    const uint64_t trained = is_like_first && first->relabelled != NONE ? first->relabelled : first->trained;
    const bool is_other_label = labels_differ(label, trained_labels[trained]);
    const bool is_better = is_other_label ? found->other_label == 0 || index < found->index
                                          : found->other_label == 0 && (found->count == 0 || index < found->index);

    found->count++;
    found->other_label += is_other_label;
    if (is_better) {
        found->index = index;
        found->trained = trained;
    }
}

static struct copies_found count_copies(const struct image_copies *copies, size_t source,
                                        const struct set_images *held)
{
    const struct set_image *first = held->items;
    struct copies_found found = { 0 };

    for (uint64_t i = 0; i < held->count; i++) {
        const struct set_image *const image = &held->items[i];
        first = image->hash != first->hash ? image : first;
        if (first->trained != NONE)
            count_copy(copies, source, first, image->index, &found);
    }
    return found;
}

static void report_copies(const struct image_copies *copies, size_t source, const struct copies_found *found)
{
    const struct sample_source *const held = &copies->sources[source];
    char one[1024], other[1024], labels[64] = "";

    image_flaws_name(held, found->index, one, sizeof(one));
    image_flaws_name(&copies->sources[0], found->trained, other, sizeof(other));
    if (found->other_label > 0)
        snprintf(labels, sizeof(labels), ", %" PRIu64 " of them with another label", found->other_label);
    log_message(LOG_RUN, "%" PRIu64 " of %" PRIu64 " %s images %s in the training set, too%s, such as %s and %s: what "
                "is trained on cannot %s", found->count, held->record_count, held->split,
                found->count == 1 ? "is" : "are", labels, one, other,
                strcmp(held->split, "test") == 0 ? "test" : "validate");
}

/* Count the images among `count` equal ones, in the order of the source, if their labels differ. */
static void count_relabelled(const uint32_t *labels, const struct set_image *equal, uint64_t count,
                             struct labels_found *found)
{
    const struct set_image *first = NULL, *other = NULL;
    uint64_t labelled = 0;

    for (uint64_t i = 0; i < count; i++) {
        const uint32_t label = labels[equal[i].index];
        if (label == LABEL_UNKNOWN)
            continue;
        labelled++;
        if (first == NULL)
            first = &equal[i];
        else if (other == NULL && label != labels[first->index])
            other = &equal[i];
    }
    if (other == NULL)
        return;
    if (found->count == 0 || first->index < found->first) {
        found->first = first->index;
        found->other = other->index;
    }
    found->count += labelled;
}

static void look_at_labels(const uint32_t *labels, const struct set_images *images, struct labels_found *found)
{
    uint64_t next;

    for (uint64_t i = 0; i < images->count; i = next) {
        for (next = i + 1; next < images->count && images->items[next].hash == images->items[i].hash;)
            next++;
        count_relabelled(labels, &images->items[i], next - i, found);
    }
}

static void report_contradictions(const struct sample_source *source, const struct labels_found *found)
{
    char first[1024], other[1024];

    image_flaws_name(source, found->first, first, sizeof(first));
    image_flaws_name(source, found->other, other, sizeof(other));
    log_message(LOG_RUN, "%" PRIu64 " of %" PRIu64 " %s images are equal to one of another class, such as %s and %s: "
                "an image has one class", found->count, source->record_count, source->split, first, other);
}

/* Report equal images of a source with different labels. They are found part by part, because the training set may
 * have many millions. */
static int report_labels(const struct image_copies *copies, size_t source)
{
    const uint64_t parts = copies->sources[source].record_count / PART_IMAGES + 1;
    struct labels_found found = { 0 };

    for (uint64_t part = 0; part < parts; part++) {
        struct set_images images;
        if (list_part(copies, source, part, parts, &images) < 0)
            return -ENOMEM;
        look_at_labels(copies->labels[source], &images, &found);
        free(images.items);
    }
    if (found.count > 0)
        report_contradictions(&copies->sources[source], &found);
    return 0;
}

/* Report images of a source that are also in the training set. */
static int report_trained(const struct image_copies *copies, size_t source)
{
    struct set_images held;

    if (list_part(copies, source, 0, 1, &held) < 0)
        return -ENOMEM;
    look_at_trained(copies, &held);
    const struct copies_found found = count_copies(copies, source, &held);
    free(held.items);
    if (found.count > 0)
        report_copies(copies, source, &found);
    return 0;
}

int image_copies_report(const struct image_copies *copies)
{
    int rc = 0;

    for (size_t source = 0; rc == 0 && source < copies->source_count; source++)
        rc = report_labels(copies, source);
    for (size_t source = 1; rc == 0 && source < copies->source_count; source++)
        rc = report_trained(copies, source);
    return rc;
}
