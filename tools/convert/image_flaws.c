/* Damaged images of a conversion. Added by the writing threads, printed by the main thread. Flaws are rare, so a
 * single lock is enough. */
#include "tools/convert/image_flaws.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/log.h"
#include "stage/text/program_folder.h"

struct image_flaws *image_flaws_open(void)
{
    struct image_flaws *const flaws = calloc(1, sizeof(*flaws));

    if (flaws != NULL)
        pthread_mutex_init(&flaws->lock, NULL);
    return flaws;
}

void image_flaws_close(struct image_flaws *flaws)
{
    if (flaws == NULL)
        return;
    pthread_mutex_destroy(&flaws->lock);
    free(flaws->marks);
    free(flaws);
}

static bool is_before(const struct image_flaw *a, const struct image_flaw *b)
{
    return a->source != b->source ? a->source < b->source : a->index < b->index;
}

/* Insert the flaw into the sorted list of the first flaws, if it is one of them. */
static void insert_flaw(struct image_flaw *list, size_t *listed, const struct image_flaw *flaw)
{
    size_t at = *listed;

    while (at > 0 && is_before(flaw, &list[at - 1]))
        at--;
    if (at == FLAWS_LISTED)
        return;
    *listed += *listed < FLAWS_LISTED;
    memmove(&list[at + 1], &list[at], (*listed - at - 1) * sizeof(*list));
    list[at] = *flaw;
}

void image_flaws_add(struct image_flaws *flaws, enum flaw_kind kind, const struct sample_source *source, uint64_t index,
                     const char *text)
{
    struct image_flaw flaw = { .source = source, .index = index };

    snprintf(flaw.text, sizeof(flaw.text), "%s", text);
    pthread_mutex_lock(&flaws->lock);
    flaws->kinds[kind].count++;
    insert_flaw(flaws->kinds[kind].first, &flaws->kinds[kind].listed, &flaw);
    if (flaws->marks != NULL && (kind == FLAW_UNDECODABLE || kind == FLAW_UNKNOWN))
        flaws->marks[index] = (uint8_t)(1 + kind);
    pthread_mutex_unlock(&flaws->lock);
    if (kind == FLAW_UNDECODABLE)
        atomic_store(&flaws->is_undecodable, true);
}

bool image_flaws_refuse(const struct image_flaws *flaws)
{
    return atomic_load(&flaws->is_undecodable);
}

const char *image_flaws_text(const struct image_flaws *flaws, uint64_t index)
{
    const int kind = flaws->marks[index] - 1;

    for (size_t i = 0; kind >= 0 && i < flaws->kinds[kind].listed; i++)
        if (flaws->kinds[kind].first[i].index == index)
            return flaws->kinds[kind].first[i].text;
    return "cannot be decoded";
}

void image_flaws_name(const struct sample_source *source, uint64_t index, char *name, size_t name_size)
{
    snprintf(name, name_size, "%s sample %" PRIu64, source->split, index);
    if (source->name != NULL)
        source->name(source->arg, index, name, name_size);
}

static void print_flaws(const struct image_flaws *flaws, enum flaw_kind kind, enum log_level level)
{
    char name[1024];

    for (size_t i = 0; i < flaws->kinds[kind].listed; i++) {
        const struct image_flaw *const flaw = &flaws->kinds[kind].first[i];
        image_flaws_name(flaw->source, flaw->index, name, sizeof(name));
        log_message(level, "%s: %s", name, flaw->text);
    }
}

static void report_ignored(const struct image_flaws *flaws, bool is_stored)
{
    const uint64_t count = flaws->kinds[FLAW_IGNORED].count;

    print_flaws(flaws, FLAW_IGNORED, LOG_RUN);
    if (count > FLAWS_LISTED)
        log_message(LOG_RUN, "and %" PRIu64 " more: %spipetrain-shards check --decode lists all of the output",
                    count - FLAWS_LISTED, program_folder());
    if (count > 0 && is_stored)
        log_message(LOG_RUN, "%" PRIu64 " damaged image%s stored: training decodes %s as far as possible", count,
                    count == 1 ? " is" : "s are", count == 1 ? "it" : "them");
}

/* Report images of a single colour. A few are normal; many of them mean that the pictures were lost before the
 * conversion. */
static void report_flat(const struct image_flaws *flaws)
{
    const uint64_t count = flaws->kinds[FLAW_FLAT].count;
    const struct image_flaw *const first = &flaws->kinds[FLAW_FLAT].first[0];
    char name[1024];

    if (count == 0)
        return;
    image_flaws_name(first->source, first->index, name, sizeof(name));
    log_message(LOG_RUN, "%" PRIu64 " image%s nearly of one colour: %s%s%s", count, count == 1 ? " is" : "s are",
                count == 1 ? "" : "the first is ", name, first->text);
}

int image_flaws_report(struct image_flaws *flaws, bool has_encoded, bool may_skip, struct stop *stop)
{
    const uint64_t unknown = has_encoded ? flaws->kinds[FLAW_UNKNOWN].count : 0;
    const uint64_t count = flaws->kinds[FLAW_UNDECODABLE].count + unknown;

    report_ignored(flaws, count == 0);
    if (count == 0) {
        report_flat(flaws);
        return 0;
    }
    print_flaws(flaws, FLAW_UNDECODABLE, LOG_PROBLEM);
    if (unknown > 0)
        print_flaws(flaws, FLAW_UNKNOWN, LOG_PROBLEM);
    stop_fail(stop, EXIT_CODE_DATA, "%" PRIu64 " image%s cannot be decoded%s: nothing was written: replace or remove "
              "%s, or give --skip-unreadable to leave %s out%s", count, count == 1 ? "" : "s",
              count > FLAWS_LISTED ? " (the first ones are listed)" : "", count == 1 ? "it" : "them",
              count == 1 ? "it" : "them", may_skip ? ", or give --no-decode to store all images unchecked" : "");
    return -EBADMSG;
}
