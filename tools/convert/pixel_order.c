/* Derives the order of pixels from the names of their columns. Programs sort columns as text (pixel0, pixel1,
 * pixel10), or in descending order, or by channel: the numbers and letters in the names determine where a pixel
 * belongs. */
#include "tools/convert/pixel_order.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "stage/text/names.h"

#define SERIES_BYTES 64u        /* of a name, for comparing */
#define NUMBERS_MAX 8u          /* of a name; further numbers are ignored */
#define CHANNELS 3u

/* The numbers in a name. The last element is the channel, if a word in the name means one. */
struct pixel_name { uint32_t numbers[NUMBERS_MAX + 1]; };

/* The ranges of the numbers in all names: number k of a name has `extent` values, beginning with `least`. */
struct grid {
    uint32_t least[NUMBERS_MAX + 1];
    uint64_t extent[NUMBERS_MAX + 1];
    size_t steps[NUMBERS_MAX + 1];      /* distance, in pixels, between two adjacent values of this number */
};

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The channel (0 to 2) that a word means: "r", "red", "g", ...; else -1. */
static int channel_of(struct csv_text word)
{
    static const char *const words[CHANNELS][2] = { { "r", "red" }, { "g", "green" }, { "b", "blue" } };

    for (size_t channel = 0; channel < CHANNELS; channel++)
        for (size_t i = 0; i < 2; i++)
            if (strlen(words[channel][i]) == word.bytes && strncasecmp(words[channel][i], word.text, word.bytes) == 0)
                return (int)channel;
    return -1;
}

/* The channel of the last word in the name that means one; -1 if there is none. */
static int find_channel(struct csv_text name, struct csv_text *word_out)
{
    int found = -1;

    for (size_t i = 0; i < name.bytes; i++) {
        const size_t begin = i;
        while (i < name.bytes && is_letter(name.text[i]))
            i++;
        const struct csv_text word = { name.text + begin, i - begin };
        const int channel = channel_of(word);
        if (channel >= 0) {
            found = channel;
            *word_out = word;
        }
    }
    return found;
}

/* The name, in which the word for a channel is replaced by "?". */
static struct csv_text series_of(struct csv_text name, char out[SERIES_BYTES])
{
    struct csv_text word;
    size_t used = 0;

    if (find_channel(name, &word) < 0)
        return name;
    for (const char *at = name.text; at < name.text + name.bytes && used < SERIES_BYTES; at++) {
        if (at == word.text)
            at += word.bytes - 1;
        out[used++] = at == word.text + word.bytes - 1 ? '?' : *at;
    }
    return (struct csv_text){ out, used };
}

bool pixel_names_are_alike(struct csv_text a, struct csv_text b)
{
    char room_a[SERIES_BYTES], room_b[SERIES_BYTES];
    const struct csv_text one = series_of(a, room_a), other = series_of(b, room_b);

    return names_differ_in_numbers(one.text, one.bytes, other.text, other.bytes);
}

static struct pixel_name read_name(struct csv_text text)
{
    struct pixel_name name = { { 0 } };
    struct csv_text word;
    size_t count = 0;

    for (size_t i = 0; i < text.bytes && count < NUMBERS_MAX; i++) {
        if (!is_digit(text.text[i]))
            continue;
        uint32_t number = 0;
        for (; i < text.bytes && is_digit(text.text[i]); i++)
            number = number < 100000000 ? number * 10 + (uint32_t)(text.text[i] - '0') : UINT32_MAX;
        name.numbers[count++] = number;
    }
    const int channel = find_channel(text, &word);
    name.numbers[NUMBERS_MAX] = channel >= 0 ? (uint32_t)channel : 0;
    return name;
}

static struct grid measure(const struct pixel_name *names, size_t count)
{
    struct grid grid;

    for (size_t k = 0; k <= NUMBERS_MAX; k++) {
        uint32_t least = UINT32_MAX, most = 0;
        for (size_t i = 0; i < count; i++) {
            least = names[i].numbers[k] < least ? names[i].numbers[k] : least;
            most = names[i].numbers[k] > most ? names[i].numbers[k] : most;
        }
        grid.least[k] = least;
        grid.extent[k] = (uint64_t)most - least + 1;
        grid.steps[k] = 0;
    }
    return grid;
}

static bool has_root(size_t count)
{
    size_t side = 0;

    while (side * side < count)
        side++;
    return side * side == count;
}

/* Find which number is the channel, if the images may have three channels: the word, or the last number that has
 * three values. NUMBERS_MAX + 1 if there is none; then channels are in the order of the columns. */
static size_t choose_channel(const struct grid *grid, size_t count)
{
    if (count % CHANNELS != 0 || !has_root(count / CHANNELS))
        return NUMBERS_MAX + 1;
    for (size_t k = NUMBERS_MAX + 1; k-- > 0;)
        if (grid->extent[k] == CHANNELS)
            return k;
    return NUMBERS_MAX + 1;
}

/* Does the first of two numbers change faster in the order of the columns, as in x0_y0, x1_y0, ...? */
static bool is_first_fastest(const struct pixel_name *names, size_t count, size_t first, size_t second)
{
    size_t i = 1;

    while (i < count && names[i].numbers[first] == names[0].numbers[first] &&
           names[i].numbers[second] == names[0].numbers[second])
        i++;
    return i < count && names[i].numbers[second] == names[0].numbers[second];
}

/* Are these the numbers of rows and columns of a square image? The channels may be among the columns. */
static bool is_square_grid(uint64_t rows, uint64_t columns)
{
    return rows == columns || CHANNELS * rows == columns;
}

/* Set the steps of the numbers that vary: the channel varies fastest, then usually the last number. Returns the
 * number of pixels of the grid, or 0 if it is larger than `count`. *is_square_out is false if exactly two other
 * numbers vary, and they are not rows and columns of a square image. */
static size_t set_steps(struct grid *grid, const struct pixel_name *names, size_t count, bool *is_square_out)
{
    const size_t channel = choose_channel(grid, count);
    size_t order[NUMBERS_MAX + 2], used = 0, pixels = 1;

    if (channel <= NUMBERS_MAX)
        order[used++] = channel;
    const size_t begin = used;
    for (size_t k = NUMBERS_MAX + 1; k-- > 0;)
        if (k != channel && grid->extent[k] > 1)
            order[used++] = k;
    if (used == begin + 2 && is_first_fastest(names, count, order[begin + 1], order[begin])) {
        const size_t fast = order[begin + 1];
        order[begin + 1] = order[begin];
        order[begin] = fast;
    }
    *is_square_out = used != begin + 2 || is_square_grid(grid->extent[order[begin + 1]], grid->extent[order[begin]]);
    for (size_t i = 0; i < used; i++) {
        grid->steps[order[i]] = pixels;
        if (grid->extent[order[i]] > count / pixels)
            return 0;
        pixels *= grid->extent[order[i]];
    }
    return pixels;
}

/* Find the place of each name in the grid. -EINVAL if two names have the same place. */
static int set_places(const struct grid *grid, const struct pixel_name *names, size_t count, uint32_t *places_out)
{
    bool *const taken = calloc(count, sizeof(*taken));
    int rc = taken != NULL ? 0 : -ENOMEM;

    for (size_t i = 0; i < count && rc == 0; i++) {
        size_t place = 0;
        for (size_t k = 0; k <= NUMBERS_MAX; k++)
            place += (names[i].numbers[k] - grid->least[k]) * grid->steps[k];
        rc = taken[place] ? -EINVAL : 0;
        taken[place] = true;
        places_out[i] = (uint32_t)place;
    }
    free(taken);
    return rc;
}

int pixel_order_find(const struct csv_text *names, size_t count, uint32_t *places_out)
{
    struct pixel_name *const read = calloc(count, sizeof(*read));

    if (read == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        read[i] = read_name(names[i]);
    struct grid grid = measure(read, count);
    bool is_square;
    const size_t pixels = set_steps(&grid, read, count, &is_square);
    const int rc = pixels == count ? set_places(&grid, read, count, places_out) : pixels == 1 ? 0 : -EINVAL;
    for (size_t i = 0; i < count && pixels == 1; i++)
        places_out[i] = (uint32_t)i;
    free(read);
    return rc == 0 && !is_square ? -ERANGE : rc;
}
