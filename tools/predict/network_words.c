/* From the words to settings. */
#include "tools/predict/network_words.h"

#include <errno.h>

#include "stage/log.h"
#include "tools/predict/own_network.h"
#include "tools/predict/trained.h"

int network_words_check(const struct network_words *words, const char *command, const char *example)
{
    if (words->config != NULL && words->model != NULL)
        log_message(LOG_ERROR, "%s: '%s' is named by -m, and -c names a network as well: give one of them", command,
                    words->model);
    else if (words->config == NULL && words->weights == NULL)
        log_message(LOG_ERROR, "%s: no weights and no configuration given: pipetrain %s (--help tells more)", command,
                    example);
    else
        return 0;
    return -EINVAL;
}

int network_words_settings(struct settings *settings, const struct network_words *words)
{
    return words->config != NULL ? trained_read_settings(settings, words) : own_network_settings(settings, words);
}
