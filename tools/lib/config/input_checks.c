/* Checks of the order and the mixing of samples, for runs and for feeds. */
#include "tools/lib/config/input_checks.h"

#include <stdio.h>

#include "stage/schedule.h"
#include "tools/lib/config/options.h"
#include "tools/lib/config/settings_model.h"

void input_check_lanes(struct settings *settings, struct problems *problems)
{
    const uint32_t lanes = (uint32_t)settings->data.lanes, ranks = settings->ranks;
    char message[256];
    if (lanes <= 1)
        return;
    snprintf(message, sizeof(message), "%u lanes cannot be shared equally by %u ranks: set it to %u, or to another "
             "multiple of the number of ranks; to resume a run of %u lanes start a number of ranks that divides them",
             lanes, ranks, (lanes + ranks - 1) / ranks * ranks, lanes);
    if (settings->data.balance)
        settings_report(settings, problems, SECTION_DATA, "lanes",
                        "a balanced order chooses single records and has no lanes: set only one of lanes and balance");
    else if (settings->data.shuffle != SHUFFLE_BLOCK)
        settings_report(settings, problems, SECTION_DATA, "lanes",
                        "lanes are parts of an order of blocks: set data.shuffle = block, or leave lanes out");
    else if (!schedule_lanes_fit(lanes, ranks))
        settings_report(settings, problems, SECTION_DATA, "lanes", message);
}

void input_check_mixing(struct settings *settings, int64_t batch, struct problems *problems)
{
    static const char alone[] = "has nothing to mix with in batches of one sample: use a larger batch";
    if (batch > 1)
        return;
    if (settings->augment.mixup > 0)
        settings_report(settings, problems, SECTION_AUGMENT, "mixup", alone);
    if (settings->augment.cutmix > 0)
        settings_report(settings, problems, SECTION_AUGMENT, "cutmix", alone);
}

const char *input_balance_problem(const struct settings *settings)
{
    return settings->data.balance && settings->data.shuffle != SHUFFLE_FULL
               ? "chooses single records, and data.shuffle = block and none read them in order: set data.shuffle = full"
               : NULL;
}
