/* The samples of a conversion: their order, the choice of validation samples, the number of shards. Called by the
 * main thread between prepare of the converter and the writing; sample functions by any thread. */
#include "tools/convert/splits.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/tfrecord.h"
#include "stage/log.h"
#include "tools/convert/convert.h"
#include "tools/convert/image_flaws.h"
#include "tools/convert/record_maker.h"
#include "tools/convert/shard_writer.h"

/* ---- order ---- */

/* A random number below `bound`: the high half of a product. The bias is negligible for realistic counts. */
static uint64_t random_below(struct random_key key, uint64_t index, uint64_t bound)
{
    return (uint64_t)(((unsigned __int128)random_u64(key, index) * bound) >> 64);
}

uint64_t *sample_order(uint64_t count, struct random_key key)
{
    uint64_t *const order = calloc(count > 0 ? count : 1, sizeof(*order));
    if (order == NULL)
        return NULL;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t j = random_below(key, i, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    return order;
}

uint64_t *sample_order_stored(uint64_t count)
{
    uint64_t *const order = calloc(count > 0 ? count : 1, sizeof(*order));
    for (uint64_t i = 0; order != NULL && i < count; i++)
        order[i] = i;
    return order;
}

/* ---- the classes of samples ---- */

/* A sample of a split; `label` identifies its class (see sample_source.label). */
struct labelled { int64_t label; uint64_t index; };

/* A class: its samples are items first ... first + count - 1. */
struct class_group {
    size_t first, count, held_out;
    uint64_t lot;               /* a random number that decides between classes with equal remainders */
};

/* The samples of a source, grouped by class. */
struct class_table {
    struct labelled *items;     /* sorted by label, then by index; NULL: classes are unknown */
    size_t count;
    struct class_group *groups;
    size_t group_count;
};

static int labelled_compare(const void *a, const void *b)
{
    const struct labelled *const left = a, *const right = b;
    if (left->label != right->label)
        return left->label < right->label ? -1 : 1;
    return (left->index > right->index) - (left->index < right->index);
}

static int splits_no_memory(struct stop *stop, uint64_t count)
{
    return convert_fail(stop, EXIT_CODE_MEMORY, -ENOMEM, "no memory for the classes of %" PRIu64 " samples", count);
}

static int read_labels(struct class_table *table, const struct sample_source *source,
                       const struct convert_options *options, struct stop *stop)
{
    void *const scratch = malloc(source->scratch_bytes + 1);
    int rc = scratch != NULL ? 0 : splits_no_memory(stop, source->record_count);

    for (uint64_t i = 0; i < source->record_count && rc == 0; i++) {
        table->items[i].index = i;
        rc = source->label(source->arg, i, scratch, &table->items[i].label);
        if (rc == 0 && options->interrupted != NULL && atomic_load(options->interrupted))
            rc = -ECANCELED;
    }
    free(scratch);
    return rc;
}

static void find_groups(struct class_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        if (i == 0 || table->items[i].label != table->items[i - 1].label)
            table->groups[table->group_count++] = (struct class_group){ .first = i };
        table->groups[table->group_count - 1].count++;
    }
}

static void class_table_release(struct class_table *table)
{
    free(table->items);
    free(table->groups);
    *table = (struct class_table){ 0 };
}

/* Make the table of a source. 0, or a negative errno after stop_fail; call class_table_release in both cases. */
static int class_table_make(struct class_table *table, const struct sample_source *source,
                            const struct convert_options *options, struct stop *stop)
{
    *table = (struct class_table){ .count = (size_t)source->record_count };
    if (source->label == NULL || source->record_count == 0)
        return 0;
    table->items = calloc(table->count, sizeof(*table->items));
    table->groups = calloc(table->count, sizeof(*table->groups));
    if (table->items == NULL || table->groups == NULL)
        return splits_no_memory(stop, source->record_count);
    const int rc = read_labels(table, source, options, stop);
    if (rc < 0)
        return rc;
    qsort(table->items, table->count, sizeof(*table->items), labelled_compare);
    find_groups(table);
    return 0;
}

static bool has_class(const struct class_table *table, int64_t label)
{
    size_t low = 0, high = table->group_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (table->items[table->groups[middle].first].label < label)
            low = middle + 1;
        else
            high = middle;
    }
    return low < table->group_count && table->items[table->groups[low].first].label == label;
}

#define CLASS_TEXT_BYTES 300u

static void name_sample(const struct sample_source *source, uint64_t index, char text[CLASS_TEXT_BYTES])
{
    char name[CLASS_TEXT_BYTES - 16];

    snprintf(name, sizeof(name), "sample %" PRIu64, index);
    if (source->name != NULL)
        source->name(source->arg, index, name, sizeof(name));
    snprintf(text, CLASS_TEXT_BYTES, "the class of %s", name);
}

/* A name for the class of a sample: "cat", "label 3", or "the class of" the sample. */
static void class_text(const struct conversion *conversion, const struct sample_source *source,
                       const struct labelled *item, char text[CLASS_TEXT_BYTES])
{
    const int64_t label = item->label;
    const bool is_number = label >= 0 && label < UINT32_MAX;

    if (is_number && conversion->class_names != NULL && label < (int64_t)conversion->classes)
        snprintf(text, CLASS_TEXT_BYTES, "%s", conversion->class_names[label]);
    else if (is_number)
        snprintf(text, CLASS_TEXT_BYTES, "label %" PRIi64, label);
    else
        name_sample(source, item->index, text);
}

static int check_split(const struct conversion *conversion, const struct class_table *train,
                       const struct sample_source *source, const struct convert_options *options, struct stop *stop)
{
    struct class_table table;
    const struct labelled *first = NULL;
    size_t classes = 0, samples = 0;

    const int rc = class_table_make(&table, source, options, stop);
    if (rc == 0 && train->group_count > 1 && table.group_count == 1 && table.count > 1)
        log_message(LOG_RUN, "all %zu %s samples have the same class: are their labels placeholders, as in tables to "
                    "fill in?", table.count, source->split);
    for (size_t i = 0; rc == 0 && i < table.group_count; i++) {
        const struct labelled *const item = &table.items[table.groups[i].first];
        if (item->label == INT64_MIN || has_class(train, item->label))
            continue;
        first = classes++ == 0 ? item : first;
        samples += table.groups[i].count;
    }
    char text[CLASS_TEXT_BYTES] = "";
    if (classes > 0)
        class_text(conversion, source, first, text);
    class_table_release(&table);
    if (rc < 0 || classes == 0)
        return rc;
    return convert_fail(stop, EXIT_CODE_DATA, -EBADMSG, "%s is not a class of the training set: %zu %s sample%s of %zu "
                        "class%s cannot be learned: remove %s, or add training samples of the class%s", text, samples,
                        source->split, samples == 1 ? "" : "s", classes, classes == 1 ? "" : "es",
                        samples == 1 ? "it" : "them", classes == 1 ? "" : "es");
}

/* Report labels without training samples: labels may begin at 1 or be ids with gaps, or there may be a list of more
 * classes. */
static void report_gaps(const struct conversion *conversion, const struct class_table *train)
{
    const size_t classes = conversion->classes, there = train->group_count;
    uint32_t first = 0;

    if (there == 0 || there >= classes)
        return;
    while (has_class(train, first))
        first++;
    if (conversion->class_names != NULL) {
        log_message(LOG_RUN, "%zu of %zu classes have no training sample, such as %s", classes - there, classes,
                    conversion->class_names[first]);
        return;
    }
    log_message(LOG_RUN, "%zu of %zu labels have no training sample, such as %" PRIu32 ", and each is an output of the "
                "network: number the classes 0, 1, 2, ...%s", classes - there, classes, first,
                first == 0 && classes - there == 1 ? "; these begin at 1, so subtract 1" : "");
}

int splits_check_classes(const struct conversion *conversion, const struct convert_options *options, struct stop *stop)
{
    const struct sample_source *const source = &conversion->sources[0];
    const bool may_have_gaps = source->sample != NULL;
    struct class_table train;

    if (conversion->classes == 1)
        log_message(LOG_RUN, "all samples are of one class: a network learns nothing from them");
    if ((conversion->source_count < 2 && !may_have_gaps) || source->label == NULL)
        return 0;
    int rc = class_table_make(&train, source, options, stop);
    if (rc == 0 && may_have_gaps)
        report_gaps(conversion, &train);
    for (size_t i = 1; i < conversion->source_count && rc == 0; i++)
        rc = check_split(conversion, &train, &conversion->sources[i], options, stop);
    class_table_release(&train);
    return rc;
}

/* ---- splits ---- */

#define TRAIN_SHARDS 4u
#define SHARD_BYTES ((uint64_t)1 << 30)
#define BYTES_MAX ((uint64_t)1 << 60)
#define CHANGED_MEASURED UINT64_C(32)   /* records from which the size of changed records is estimated */

static int subset_sample(void *arg, uint64_t index, void *scratch, struct example_value values_out[SAMPLE_VALUES_MAX],
                       size_t *count_out)
{
    const struct sample_subset *const subset = arg;
    return subset->whole.sample(subset->whole.arg, subset->chosen[index], scratch, values_out, count_out);
}

static int subset_payload(void *arg, uint64_t index, void *scratch, const uint8_t **payload_out, size_t *bytes_out)
{
    const struct sample_subset *const subset = arg;
    return subset->whole.payload(subset->whole.arg, subset->chosen[index], scratch, payload_out, bytes_out);
}

static void subset_name(void *arg, uint64_t index, char *text, size_t text_size)
{
    const struct sample_subset *const subset = arg;
    subset->whole.name(subset->whole.arg, subset->chosen[index], text, text_size);
}

static int subset_label(void *arg, uint64_t index, void *scratch, int64_t *label_out)
{
    const struct sample_subset *const subset = arg;
    return subset->whole.label(subset->whole.arg, subset->chosen[index], scratch, label_out);
}

static int number_compare(const void *a, const void *b)
{
    const uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* A source with the chosen samples of another one, in their original order. */
static struct sample_source make_subset(struct sample_subset *subset, const struct sample_source *whole,
                                        const char *split, uint64_t *chosen, uint64_t count)
{
    qsort(chosen, count, sizeof(*chosen), number_compare);
    *subset = (struct sample_subset){ .whole = *whole, .chosen = chosen };
    struct sample_source source = *whole;
    source.split = split;
    source.record_count = count;
    source.bytes = (uint64_t)((double)whole->bytes / (double)whole->record_count * (double)count);
    source.sample = subset_sample;
    source.payload = whole->payload != NULL ? subset_payload : NULL;
    source.name = whole->name != NULL ? subset_name : NULL;
    source.label = whole->label != NULL ? subset_label : NULL;
    source.arg = subset;
    return source;
}

/* ---- unreadable images ---- */

static bool is_unreadable(const struct image_flaws *flaws, uint64_t index, bool has_encoded)
{
    return flaws->marks[index] == 1 + FLAW_UNDECODABLE || (has_encoded && flaws->marks[index] == 1 + FLAW_UNKNOWN);
}

/* Report the first unreadable images of a source, and add all to those left out. */
static void leave_out(struct conversion *conversion, const struct sample_source *source,
                      const struct image_flaws *flaws, bool has_encoded)
{
    char name[1024];

    for (uint64_t i = 0; i < source->record_count; i++) {
        if (!is_unreadable(flaws, i, has_encoded))
            continue;
        const bool is_listed = conversion->left_out.count < LEFT_OUT_LISTED;
        const char *const problem = image_flaws_text(flaws, i);
        image_flaws_name(source, i, name, sizeof(name));
        conversion_leave_out(conversion, name, problem);
        if (is_listed)
            log_message(LOG_RUN, "left out %s: %s", name, problem);
    }
}

/* Keep the readable images of a source. */
static int keep_readable(struct kept_samples *kept, struct conversion *conversion, size_t number,
                         const struct image_flaws *flaws, bool has_encoded, struct stop *stop)
{
    struct sample_source *const source = &conversion->sources[number];
    const struct sample_source whole = *source;
    uint64_t *const chosen = calloc(whole.record_count + 1, sizeof(*chosen));
    uint64_t count = 0;

    kept->chosen[number] = chosen;
    if (chosen == NULL)
        return splits_no_memory(stop, whole.record_count);
    for (uint64_t i = 0; i < whole.record_count; i++)
        if (!is_unreadable(flaws, i, has_encoded))
            chosen[count++] = i;
    leave_out(conversion, source, flaws, has_encoded);
    if (count == 0)
        return convert_fail(stop, EXIT_CODE_DATA, -EBADMSG, "none of the %" PRIu64 " %s images can be decoded",
                            whole.record_count, whole.split);
    if (count < whole.record_count)
        *source = make_subset(&kept->subsets[number], &whole, whole.split, chosen, count);
    return 0;
}

static int skip_unreadable_of(struct kept_samples *kept, struct conversion *conversion, size_t number,
                              const struct convert_options *options, struct stop *stop)
{
    const struct sample_source *const source = &conversion->sources[number];
    const struct shard_writer_options check = {
        .jobs = (uint32_t)options->jobs, .keeps_order = true, .interrupted = options->interrupted,
        .change = { .is_checked = true, .image_key = options->change.image_key },
    };
    struct image_flaws *const flaws = image_flaws_open();
    bool has_encoded = false;
    int rc = flaws != NULL ? 0 : splits_no_memory(stop, source->record_count);

    if (rc == 0) {
        flaws->marks = calloc(source->record_count + 1, 1);
        rc = flaws->marks != NULL ? images_check(source, &check, "looking for unreadable images", flaws, &has_encoded,
                                                 stop)
                                  : splits_no_memory(stop, source->record_count);
    }
    if (rc == 0)
        rc = keep_readable(kept, conversion, number, flaws, has_encoded, stop);
    image_flaws_close(flaws);
    return rc;
}

int splits_skip_unreadable(struct kept_samples *kept, struct conversion *conversion,
                           const struct convert_options *options, struct stop *stop)
{
    const uint64_t before = conversion->left_out.count;
    int rc = 0;

    for (size_t i = 0; i < conversion->source_count && options->skips_unreadable && rc == 0; i++) {
        if (conversion->sources[i].record_count == 0)
            rc = convert_fail(stop, EXIT_CODE_DATA, -EBADMSG, "no %s image can be read", conversion->sources[i].split);
        else if (options->change.is_checked)
            rc = skip_unreadable_of(kept, conversion, i, options, stop);
    }
    if (rc < 0)
        return rc;
    if (conversion->left_out.count > LEFT_OUT_LISTED && conversion->left_out.count > before)
        log_message(LOG_RUN, "and %" PRIu64 " more are left out", conversion->left_out.count - LEFT_OUT_LISTED);
    return rc;
}

void kept_samples_release(struct kept_samples *kept)
{
    for (size_t i = 0; i < CONVERT_SOURCES_MAX; i++)
        free(kept->chosen[i]);
    *kept = (struct kept_samples){ 0 };
}

/* Compute how many of `count` samples to hold out: at least one, but not all. */
static int held_out_count(const struct convert_options *options, uint64_t count, struct stop *stop,
                          uint64_t *held_out_count_out)
{
    const uint64_t held_out = options->validation_share > 0
                                  ? (uint64_t)((double)count * options->validation_share + 0.5)
                                  : options->validation;
    if (held_out < count && (held_out > 0 || options->validation_share <= 0)) {
        *held_out_count_out = held_out;
        return 0;
    }
    return convert_fail(stop, EXIT_CODE_USAGE, -EINVAL, "--validation takes %" PRIu64 " of %" PRIu64 " samples: none "
                        "would be left for %s", held_out, count, held_out > 0 ? "training" : "validation");
}

static bool has_validation(const struct conversion *conversion)
{
    for (size_t i = 0; i < conversion->source_count; i++) {
        if (strcmp(conversion->sources[i].split, "validation") == 0)
            return true;
    }
    return false;
}

/* ---- choosing validation samples from each class ---- */

/* A class, and the fraction of a sample that rounding down has left over from its exact share. */
struct share { double owed; uint64_t lot; struct class_group *group; };

static int share_compare(const void *a, const void *b)
{
    const struct share *const left = a, *const right = b;
    if (left->owed != right->owed)
        return left->owed > right->owed ? -1 : 1;
    return (left->lot > right->lot) - (left->lot < right->lot);
}

/* Distribute `wanted` samples over the classes in proportion to their sizes. Shares are rounded so that their sum is
 * `wanted`, but each class keeps a training sample. Returns the sum. */
static uint64_t share_out(struct class_table *table, uint64_t wanted, struct random_key key, struct share *shares)
{
    uint64_t given = 0;

    for (size_t i = 0; i < table->group_count; i++) {
        struct class_group *const group = &table->groups[i];
        const double exact = (double)wanted * (double)group->count / (double)table->count;
        group->held_out = exact < (double)group->count - 1 ? (size_t)exact : group->count - 1;
        given += group->held_out;
        shares[i] = (struct share){ exact - (double)group->held_out, random_u64(key, i), group };
    }
    qsort(shares, table->group_count, sizeof(*shares), share_compare);
    for (bool has_room = true; has_room && given < wanted;) {
        has_room = false;
        for (size_t i = 0; i < table->group_count && given < wanted; i++) {
            struct class_group *const group = shares[i].group;
            const bool gives = group->held_out + 1 < group->count;
            group->held_out += gives;
            given += gives;
            has_room |= gives;
        }
    }
    return given;
}

/* Move the held-out samples to the front of the order: of each class, the first ones in this random order. 0 or
 * -ENOMEM. */
static int draw(const struct class_table *table, uint64_t *order)
{
    uint32_t *const groups = calloc(table->count, sizeof(*groups));
    uint64_t *const rest = calloc(table->count, sizeof(*rest));
    size_t *const left = calloc(table->group_count, sizeof(*left));
    size_t drawn = 0, kept = 0;

    if (groups == NULL || rest == NULL || left == NULL) {
        free(groups);
        free(rest);
        free(left);
        return -ENOMEM;
    }
    for (size_t g = 0; g < table->group_count; g++) {
        left[g] = table->groups[g].held_out;
        for (size_t i = 0; i < table->groups[g].count; i++)
            groups[table->items[table->groups[g].first + i].index] = (uint32_t)g;
    }
    for (size_t i = 0; i < table->count; i++) {
        size_t *const more = &left[groups[order[i]]];
        if (*more > 0)
            order[drawn++] = order[i];
        else
            rest[kept++] = order[i];
        *more -= *more > 0;
    }
    memcpy(order + drawn, rest, kept * sizeof(*rest));
    free(groups);
    free(rest);
    free(left);
    return 0;
}

/* Report classes of one or two samples, and classes without a validation sample. */
static void report_few(const struct conversion *conversion, const struct class_table *table)
{
    const struct sample_source *const source = &conversion->sources[0];
    const struct class_group *few = NULL, *none = NULL;
    size_t one_count = 0, two_count = 0, none_count = 0;
    char text[CLASS_TEXT_BYTES];

    for (size_t i = 0; i < table->group_count; i++) {
        const struct class_group *const group = &table->groups[i];
        one_count += group->count == 1;
        two_count += group->count == 2;
        few = few == NULL && group->count <= 2 ? group : few;
        none = none == NULL && group->held_out == 0 ? group : none;
        none_count += group->held_out == 0;
    }
    if (few != NULL) {
        class_text(conversion, source, &table->items[few->first], text);
        log_message(LOG_RUN, "--validation: of %zu classes %zu ha%s one sample and %zu two, such as %s",
                    table->group_count, one_count, one_count == 1 ? "s" : "ve", two_count, text);
    }
    if (none == NULL)
        return;
    class_text(conversion, source, &table->items[none->first], text);
    log_message(LOG_RUN, "--validation: %zu of %zu classes have no validation sample, such as %s", none_count,
                table->group_count, text);
}

/* Choose at most *held_out samples to hold out, and move them to the front of the order. */
static int choose_by_class(struct hold_out *hold_out, const struct conversion *conversion, uint64_t *held_out,
                           const struct convert_options *options, struct stop *stop)
{
    const struct random_key lots = random_key(options->seed, RANDOM_HOLD_OUT, 1);
    struct class_table table;
    int rc = class_table_make(&table, &conversion->sources[0], options, stop);

    struct share *const shares = rc == 0 ? calloc(table.group_count + 1, sizeof(*shares)) : NULL;
    if (rc == 0 && shares == NULL)
        rc = splits_no_memory(stop, table.count);
    if (rc == 0 && table.items != NULL && *held_out > 0) {
        const uint64_t given = share_out(&table, *held_out, lots, shares);
        if (given == 0)
            rc = convert_fail(stop, EXIT_CODE_USAGE, -EINVAL, "--validation: every class has one sample only, which is "
                              "for training");
        else if (draw(&table, hold_out->order) < 0)
            rc = splits_no_memory(stop, table.count);
        if (rc == 0 && given < *held_out)
            log_message(LOG_RUN, "--validation: holding out %" PRIu64 " samples instead of %" PRIu64 ": each of the "
                        "%zu classes keeps one for training", given, *held_out, table.group_count);
        if (rc == 0)
            report_few(conversion, &table);
        *held_out = given;
    }
    free(shares);
    class_table_release(&table);
    return rc;
}

int splits_hold_out(struct hold_out *hold_out, struct conversion *conversion, const struct convert_options *options,
                    struct stop *stop)
{
    const struct sample_source whole = conversion->sources[0];
    uint64_t held_out = 0;

    if (!options->has_validation)
        return 0;
    if (has_validation(conversion))
        return convert_fail(stop, EXIT_CODE_USAGE, -EINVAL, "--validation: %s has a validation set already "
                            "(a test set becomes one where there is no other): leave the option out, or convert what "
                            "is for training alone", conversion->name);
    int rc = held_out_count(options, whole.record_count, stop, &held_out);
    if (rc < 0)
        return rc;
    hold_out->order = sample_order(whole.record_count, random_key(options->seed, RANDOM_HOLD_OUT, 0));
    if (hold_out->order == NULL)
        return splits_no_memory(stop, whole.record_count);
    rc = choose_by_class(hold_out, conversion, &held_out, options, stop);
    if (rc < 0)
        return rc;
    conversion->sources[0] = make_subset(&hold_out->subsets[0], &whole, "train", hold_out->order + held_out,
                                       whole.record_count - held_out);
    conversion->sources[conversion->source_count++] =
        make_subset(&hold_out->subsets[1], &whole, "validation", hold_out->order, held_out);
    return 0;
}

void hold_out_release(struct hold_out *hold_out)
{
    free(hold_out->order);
    *hold_out = (struct hold_out){ 0 };
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Make `count` records, evenly distributed over the source, to measure their mean size. */
static int measure_records(const struct sample_source *source, uint64_t count, struct record_maker *maker,
                           double *mean_out)
{
    uint64_t sum = 0;

    for (uint64_t i = 0; i < count; i++) {
        const uint64_t index = (uint64_t)((double)source->record_count / (double)count * (double)i);
        const uint8_t *payload;
        size_t bytes;
        const int rc = record_maker_payload(maker, source, index, &payload, &bytes);
        if (rc < 0)
            return rc;
        sum += rc == 0 ? bytes + TFRECORD_FRAME_BYTES : 0;
    }
    *mean_out = (double)sum / (double)count;
    return 0;
}

/* Estimate the bytes of a source's records: the number given by the source, else from the first record or, if images
 * are changed, from some records. */
static int find_bytes(struct sample_source *source, const struct image_change *change, struct stop *stop)
{
    const bool is_changed = image_change_is_any(change);
    struct record_maker maker;
    double mean = 0;

    if ((source->bytes > 0 && !is_changed) || source->record_count == 0)
        return 0;
    int rc = record_maker_open(&maker, source, 1, change, stop);
    if (rc == 0)
        rc = measure_records(source, is_changed ? smaller(source->record_count, CHANGED_MEASURED) : 1, &maker, &mean);
    record_maker_close(&maker);
    const double bytes = mean * (double)source->record_count;
    source->bytes = bytes < (double)BYTES_MAX ? (uint64_t)bytes : BYTES_MAX;
    return rc;
}

/* Set the number of shards so that each has about `shard_bytes`, but to at least `least`. */
static int count_by_bytes(struct sample_source *source, uint64_t shard_bytes, uint64_t least, struct stop *stop)
{
    const uint64_t needed = source->bytes / shard_bytes + (source->bytes % shard_bytes > 0);
    const uint64_t count = smaller(needed > least ? needed : least, source->record_count);
    if (count > SHARD_COUNT_MAX)
        return convert_fail(stop, EXIT_CODE_USAGE, -EINVAL, "%s would be %" PRIu64 " shards, more than %u: give a "
                            "larger --shard-size", source->split, count, SHARD_COUNT_MAX);
    source->shard_count = (uint32_t)count;
    return 0;
}

static int count_as_requested(struct sample_source *source, uint64_t shards, struct stop *stop)
{
    if (shards > source->record_count)
        return convert_fail(stop, EXIT_CODE_USAGE, -EINVAL, "--shards=%" PRIu64 ": there are only %" PRIu64 " training "
                            "records", shards, source->record_count);
    source->shard_count = (uint32_t)shards;
    return 0;
}

int splits_count_shards(struct conversion *conversion, const struct convert_options *options, struct stop *stop)
{
    const uint64_t shard_bytes = options->shard_bytes > 0 ? options->shard_bytes : SHARD_BYTES;
    const uint64_t train_least = options->shard_bytes > 0 ? 1 : TRAIN_SHARDS;
    int rc = 0;

    for (size_t i = 0; i < conversion->source_count && rc == 0; i++) {
        struct sample_source *const source = &conversion->sources[i];
        rc = find_bytes(source, &options->change, stop);
        if (rc == 0)
            rc = i == 0 && options->shards > 0
                     ? count_as_requested(source, options->shards, stop)
                     : count_by_bytes(source, shard_bytes, i == 0 ? train_least : 1, stop);
    }
    return rc;
}
