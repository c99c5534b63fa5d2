/* Which network a command puts to use: the words of its command line that say so. Used by main only. */
#ifndef PIPETRAIN_NETWORK_WORDS_H
#define PIPETRAIN_NETWORK_WORDS_H

#include "tools/config/settings.h"

/* All lent; NULL: not given. */
struct network_words {
    const char *config;         /* file of the configuration it was trained with */
    const char *weights;        /* file */
    const char *model;          /* by name, or a file of one: without `config`, where the weights do not tell */
    char **assignments;         /* of --set, which count more */
    int assignment_count;
};

/* 0, or -EINVAL after a message of what does not go together or is missing. `example` is a right command. */
int network_words_check(const struct network_words *words, const char *command, const char *example);
/* Settings that were initialised become those of the configuration, or, without one, what the weights tell. 0, or an
 * exit code after all messages. */
int network_words_settings(struct settings *settings, const struct network_words *words);

#endif
