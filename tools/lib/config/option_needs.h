/* Options that have an effect only if another option has certain values (uses in option_table). Main thread only. */
#ifndef PIPETRAIN_OPTION_NEEDS_H
#define PIPETRAIN_OPTION_NEEDS_H

#include "tools/lib/config/options.h"

/* The values of another option with which this one has an effect, separated by spaces; NULL: all but its default. The
 * text is in the table or in *text. */
const char *option_use_values(const struct option_row *option, const struct option_use *use, struct option_text *text);
/* Does the option have an effect, because every option that it needs has one of the needed values? */
bool option_is_used(const struct option_row *option, const struct settings *settings);
/* Does the option have an effect while the first option that it needs has this value? False if it needs none. */
bool option_is_for(const struct option_row *option, const char *value);
/* Are all options set by the file or the command line, as in the run.conf that a run writes? */
bool options_are_all_set(const struct settings *settings);
/* Warn of every option that is set to another value than its default but has no effect with these settings. A file that
 * sets all options, as runs write it, gets no warning. After settings_finish. */
void option_needs_warn(const struct settings *settings);

/* Warn of options given by --set that the command does not use. uses: the bits of enum command_use that apply to the
 * command. */
void option_unused_warn(const struct settings *settings, const char *command, unsigned uses);

#endif
