/* Which options do something only where another one has a certain value. Used by main only. */
#ifndef PIPETRAIN_OPTION_NEEDS_H
#define PIPETRAIN_OPTION_NEEDS_H

#include "tools/config/options.h"

struct option_need {
    enum section section;
    const char *key;
    enum section of;            /* the option that has to have one of the values */
    const char *of_key;
    const char *values;         /* with blanks between them; NULL: any but its default */
};

/* Ended by a row whose key is NULL. */
extern const struct option_need option_needs[];

/* Warn of every option that was set to something else than its default and changes nothing in these settings, a line
 * each. Not of a file that sets all options, which a run wrote. After settings_finish. */
void option_needs_tell(const struct settings *settings);

#endif
