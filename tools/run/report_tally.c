/* What a tally says of what was learnt, where it says anything. */
#include "tools/run/report.h"

#include <math.h>

/* Where nothing is computed there is no loss. */
double report_loss(const struct report *report, const struct tally *tally)
{
    return report->plan->devices.backend->computes ? tally_loss(tally) : NAN;
}

bool report_labels_tell(const struct report *report)
{
    return report->plan->devices.backend->computes && report->settings->input.source != INPUT_SYNTHETIC;
}

double report_accuracy(const struct report *report, const struct tally *tally)
{
    return report_labels_tell(report) ? tally_accuracy(tally) : NAN;
}

void report_write_correct(const struct report *report, struct json *json, const struct tally *tally)
{
    if (report_labels_tell(report))
        json_u64(json, "correct", tally->correct);
    else
        json_double(json, "correct", NAN);
}
