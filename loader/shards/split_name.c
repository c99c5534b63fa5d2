/* Sets by the words of file names. Called while a data set is opened. */
#include "loader/shards/split_name.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *word;
    enum split split;
} words[] = {
    { "train", SPLIT_TRAIN },         { "training", SPLIT_TRAIN },     { "trainval", SPLIT_TRAIN },
    { "validation", SPLIT_VALIDATION }, { "valid", SPLIT_VALIDATION }, { "val", SPLIT_VALIDATION },
    { "dev", SPLIT_VALIDATION },      { "eval", SPLIT_VALIDATION },    { "evaluation", SPLIT_VALIDATION },
    { "holdout", SPLIT_VALIDATION },  { "test", SPLIT_TEST },          { "testing", SPLIT_TEST },
};

static enum split split_of_word(const char *word, size_t bytes)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strlen(words[i].word) == bytes && strncasecmp(words[i].word, word, bytes) == 0)
            return words[i].split;
    return SPLIT_UNSAID;
}

enum split split_of_name(const char *name)
{
    enum split last = SPLIT_UNSAID;
    while (*name != '\0') {
        size_t bytes = 0;
        while (isalpha((unsigned char)name[bytes]))
            bytes++;
        const enum split split = split_of_word(name, bytes);
        if (split != SPLIT_UNSAID)
            last = split;
        name += bytes > 0 ? bytes : 1;
    }
    return last;
}
