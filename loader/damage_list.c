/* The list of damaged records. Called by whichever thread meets damage, under the lock of the
 * run's damage, and by main at the end. */
#include "loader/damage_list.h"

#include <stdbool.h>
#include <string.h>

static bool comes_before(const struct damaged_record *a, const struct damaged_record *b)
{
    if (a->pass != b->pass)
        return a->pass < b->pass;
    return a->shard != b->shard ? a->shard < b->shard : a->offset < b->offset;
}

/* Make room at the end, at the cost of the last record when there is none. False when `record`
 * would be that one. */
static bool make_room(struct damage_list *list, const struct damaged_record *record)
{
    if (list->count < DAMAGE_LISTED_MAX) {
        list->count++;
        return true;
    }
    const struct damaged_record *const last = &list->records[DAMAGE_LISTED_MAX - 1];
    const bool comes_in = comes_before(record, last);
    list->unlisted += comes_in ? last->count : record->count;
    return comes_in;
}

void damage_list_add(struct damage_list *list, const struct damaged_record *record)
{
    if (!make_room(list, record))
        return;
    size_t at = list->count - 1;
    for (; at > 0 && comes_before(record, &list->records[at - 1]); at--)
        list->records[at] = list->records[at - 1];
    list->records[at] = *record;
}

void damaged_record_describe(const struct damaged_record *record, char *text, size_t text_size)
{
    record_place_describe(record->path, record->record, record->offset, &record->problem, text, text_size);
}
