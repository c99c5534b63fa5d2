/* Problems by lines. */
#include "compute/netfile/net_report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 16u

/* Room for one more. */
static int make_room(struct net_report *report)
{
    if (report->count < report->room)
        return 0;
    const size_t room = report->room > 0 ? 2 * report->room : FIRST_ROOM;
    struct net_remark *const remarks = reallocarray(report->remarks, room, sizeof(*remarks));
    if (remarks == NULL)
        return -ENOMEM;
    report->remarks = remarks;
    report->room = room;
    return 0;
}

void net_report_add(void *arg, uint32_t line, const char *problem)
{
    struct net_report *const report = arg;
    char *const copy = make_room(report) == 0 ? strdup(problem) : NULL;
    if (copy != NULL)
        report->remarks[report->count] = (struct net_remark){ line, report->count, copy };
    report->count += copy != NULL;
    report->is_short |= copy == NULL;
}

static int compare(const void *a, const void *b)
{
    const struct net_remark *const one = a, *const other = b;
    if (one->line != other->line)
        return one->line < other->line ? -1 : 1;
    return one->number < other->number ? -1 : one->number > other->number;
}

int net_report_tell(struct net_report *report, const struct net_file_sink *sink)
{
    if (report->is_short)
        return -ENOMEM;
    if (report->count > 0)
        qsort(report->remarks, report->count, sizeof(*report->remarks), compare);
    for (size_t i = 0; i < report->count; i++)
        sink->tell(sink->arg, report->remarks[i].line, report->remarks[i].problem);
    return 0;
}

void net_report_release(struct net_report *report)
{
    for (size_t i = 0; i < report->count; i++)
        free(report->remarks[i].problem);
    free(report->remarks);
    *report = (struct net_report){ .remarks = NULL };
}
