/* Options that have an effect only if another option has a certain value. Main thread only. */
#ifndef PIPETRAIN_OPTION_NEEDS_H
#define PIPETRAIN_OPTION_NEEDS_H

#include "tools/config/options.h"

struct option_need {
    enum section section;
    const char *key;
    enum section of;            /* the option that must have one of the values */
    const char *of_key;
    const char *values;         /* separated by spaces; NULL: any but its default */
};

/* The last row has a NULL key. */
extern const struct option_need option_needs[];

/* Are all options set by the file or the command line, as in the run.conf that a run writes? */
bool options_are_all_set(const struct settings *settings);
/* Warn of every option that is set to another value than its default but has no effect with these settings. A file that
 * sets all options, as runs write it, gets no warning. After settings_finish. */
void option_needs_warn(const struct settings *settings);

#endif
