/* Splitting names into words, and the words that name a split. Pure functions. */
#include "formats/split_name.h"

#include <string.h>
#include <strings.h>

#define WORD_BYTES_MAX 32u      /* longer words are not recognised */

struct word { const char *text; size_t bytes; };

static const struct { const char *word; enum split split; } split_words[] = {
    { "train", SPLIT_TRAIN },           { "training", SPLIT_TRAIN },        { "trn", SPLIT_TRAIN },
    { "trainval", SPLIT_TRAIN },        { "trainvalid", SPLIT_TRAIN },
    { "validation", SPLIT_VALIDATION }, { "validate", SPLIT_VALIDATION },   { "valid", SPLIT_VALIDATION },
    { "val", SPLIT_VALIDATION },        { "minival", SPLIT_VALIDATION },    { "dev", SPLIT_VALIDATION },
    { "eval", SPLIT_VALIDATION },       { "evaluation", SPLIT_VALIDATION }, { "holdout", SPLIT_VALIDATION },
    { "heldout", SPLIT_VALIDATION },
    { "test", SPLIT_TEST },             { "testing", SPLIT_TEST },          { "tst", SPLIT_TEST },
    { "pred", SPLIT_UNLABELLED },       { "predict", SPLIT_UNLABELLED },    { "prediction", SPLIT_UNLABELLED },
    { "unlabeled", SPLIT_UNLABELLED },  { "unlabelled", SPLIT_UNLABELLED }, { "inference", SPLIT_UNLABELLED },
};

/* Words that may occur with the name of a split, also as one word: "test_images", "trainset". */
static const char *const neutral_words[] = {
    "set", "sets", "data", "dataset", "split", "images", "image", "imgs", "img", "samples", "folder", "dir", "files",
    "v", "x", "y", "tar", "gz", "tgz", "bz", "xz", "zst", "lz", "zip", "z", "csv", "tsv", "txt", "npy", "npz",
    "tfrecord", "tfrecords", "tfrec", "record", "records", "of",
};

static bool is_word(struct word word, const char *text)
{
    return strlen(text) == word.bytes && strncasecmp(text, word.text, word.bytes) == 0;
}

static bool is_neutral(struct word word)
{
    for (size_t i = 0; i < sizeof(neutral_words) / sizeof(neutral_words[0]); i++)
        if (is_word(word, neutral_words[i]))
            return true;
    return false;
}

static enum split split_of_single(struct word word)
{
    for (size_t i = 0; i < sizeof(split_words) / sizeof(split_words[0]); i++)
        if (is_word(word, split_words[i].word))
            return split_words[i].split;
    return SPLIT_UNSAID;
}

/* May this word and the name of a split be written as one word? */
static bool is_attached(struct word word)
{
    return (word.bytes > 2 && is_neutral(word)) || is_word(word, "x") || is_word(word, "y");
}

/* The split in a compound of two words: "testset", "trainimages"; "imgtrain", "xtrain", "ytest". */
static enum split split_of_compound(struct word word)
{
    for (size_t cut = 1; cut < word.bytes; cut++) {
        const struct word before = { word.text, cut }, after = { word.text + cut, word.bytes - cut };
        const enum split first = split_of_single(before), second = split_of_single(after);
        if (first != SPLIT_UNSAID && after.bytes > 2 && is_neutral(after))
            return first;
        if (second != SPLIT_UNSAID && is_attached(before))
            return second;
    }
    return SPLIT_UNSAID;
}

static enum split split_of_word(struct word word)
{
    if (word.bytes > WORD_BYTES_MAX)
        return SPLIT_UNSAID;
    const enum split split = split_of_single(word);
    return split != SPLIT_UNSAID ? split : split_of_compound(word);
}

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

/* All bytes of non-ASCII characters count as letters, so that the name of a split is not found inside a foreign
 * word. */
static bool is_letter(char c)
{
    return is_lower(c) || is_upper(c) || (unsigned char)c >= 0x80;
}

/* Does a new word begin at text[i], as in "testSet" and "RGBTrain"? */
static bool changes_case(const char *text, size_t i, size_t bytes)
{
    return is_upper(text[i]) &&
           (is_lower(text[i - 1]) || (is_upper(text[i - 1]) && i + 1 < bytes && is_lower(text[i + 1])));
}

/* Split off the next word; its length is 0 at the end of the text. */
static struct word next_word(const char **text, const char *end)
{
    while (*text < end && !is_letter(**text))
        (*text)++;
    struct word word = { *text, 0 };
    const size_t bytes = (size_t)(end - *text);
    while (word.bytes < bytes && is_letter(word.text[word.bytes]) &&
           (word.bytes == 0 || !changes_case(word.text, word.bytes, bytes)))
        word.bytes++;
    *text += word.bytes;
    return word;
}

/* Are the two words a spelling of hold-out ("hold-out", "held_out")? */
static bool is_hold_out(struct word word, struct word next)
{
    return (is_word(word, "hold") || is_word(word, "held")) && is_word(next, "out");
}

static void add_rest(struct split_name *name, struct word word)
{
    size_t used = strlen(name->rest);
    if (used > 0 && used + 1 < sizeof(name->rest))
        name->rest[used++] = ' ';
    for (size_t i = 0; i < word.bytes && used + 1 < sizeof(name->rest); i++)
        name->rest[used++] = (char)(is_upper(word.text[i]) ? word.text[i] - 'A' + 'a' : word.text[i]);
    name->rest[used] = '\0';
}

/* Combine the names of two splits: "train_val" is for training; a name with both train and test, as "train_test_split",
 * is no split. */
static enum split add_split(enum split before, enum split split, bool *is_several)
{
    if ((before == SPLIT_TRAIN && split == SPLIT_TEST) || (before == SPLIT_TEST && split == SPLIT_TRAIN))
        *is_several = true;
    const bool trains = (before == SPLIT_TRAIN && split == SPLIT_VALIDATION) ||
                        (before == SPLIT_VALIDATION && split == SPLIT_TRAIN);
    return trains ? SPLIT_TRAIN : split;
}

struct split_name split_name_read(const char *name, size_t bytes)
{
    struct split_name found = { .split = SPLIT_UNSAID };
    bool is_several = false;
    const char *at = name, *const end = name + bytes;
    size_t words = 0;

    for (struct word word = next_word(&at, end); word.bytes > 0; word = next_word(&at, end), words++) {
        const char *after = at;
        enum split split = split_of_word(word);
        if (is_hold_out(word, next_word(&after, end))) {
            split = SPLIT_VALIDATION;
            at = after;
        }
        if (split != SPLIT_UNSAID) {
            found.split = add_split(found.split, split, &is_several);
            found.is_bare = words == 0 && word.bytes == bytes && split_of_single(word) != SPLIT_UNSAID;
        } else if (!is_neutral(word)) {
            add_rest(&found, word);
        }
    }
    if (is_several)
        found.split = SPLIT_UNSAID;
    found.is_whole = found.split != SPLIT_UNSAID && found.rest[0] == '\0';
    return found;
}

const char *split_text(enum split split)
{
    static const char *const texts[] = { "", "train", "validation", "test", "unlabelled" };
    return texts[split];
}
