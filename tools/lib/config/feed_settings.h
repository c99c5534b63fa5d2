/* The options that libpipetrain-feed takes as text: those of sections data, input and augment, with the names, ranges
 * and meanings that they have in a configuration. Any thread. */
#ifndef PIPETRAIN_FEED_SETTINGS_H
#define PIPETRAIN_FEED_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/lib/config/options.h"
#include "tools/lib/config/problems.h"
#include "tools/lib/config/settings.h"

/* The options of a feed that are not text, for checks. */
struct feed_facts {
    uint32_t height, width, channels;   /* of the images; not used if is_raw */
    uint32_t batch;             /* samples of a step over all ranks */
    uint32_t ranks;
    bool is_evaluation, is_raw;
};

/* Set every option to its default, then apply `text` (NULL: none), lines "SECTION.KEY = VALUE" of which later ones
 * win, and check that the options fit each other and the facts. Lines are separated by newlines; empty ones are
 * skipped. The value is the rest of its line without the blanks around it. Options without an effect are logged
 * (log_message). 0 with settings that the caller releases; or with problems added -EINVAL or -ENOMEM. */
int feed_settings_read(struct settings *settings_out, const char *text, const struct feed_facts *facts,
                       struct problems *problems);

/* Option `index` of those that the text may set, in the order of the table; NULL after the last. */
const struct option_row *feed_settings_option(size_t index);

#endif
