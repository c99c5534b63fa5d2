/* What a text says of a network as a whole: its name, its image and its classes. */
#include "compute/netfile/net_header.h"

#include <errno.h>
#include <string.h>


#define DIVISOR_DEFAULT 255.0f

/* A line of the header: reads its words, and says what is wrong or NULL. */
struct header_row {
    const char *word, *values;
    bool is_needed;
    const char *(*read)(struct net_header *header, struct net_words *words);
};

static const char *read_model(struct net_header *header, struct net_words *words)
{
    const char *const name = net_words_next(words);
    if (name == NULL || !net_name_fits(name))
        return "has to be followed by a name of 1 to 47 of A-Z a-z 0-9 . _ -";
    memcpy(header->text, name, strlen(name) + 1);
    header->model = header->text;
    return NULL;
}

static const char *read_image(struct net_header *header, struct net_words *words)
{
    const char *end = net_words_next(words);
    struct shape *const image = &header->image;
    const bool fits = end != NULL && net_read_count(end, 1, &image->height, &end) && *end == 'x' &&
                      net_read_count(end + 1, 1, &image->width, &end) && *end == 'x' &&
                      net_read_whole(end + 1, 1, &image->channels);
    return !fits ? "has to be followed by HEIGHTxWIDTHxCHANNELS" : !shape_fits(*image) ? "is too large" : NULL;
}

static const char *read_classes(struct net_header *header, struct net_words *words)
{
    const char *const count = net_words_next(words);
    const bool fits = count != NULL && net_read_whole(count, 1, &header->classes);
    return fits ? NULL : "has to be followed by a whole number from 1 to 2147483647";
}

/* "0.5" or "0.1,0.2,0.3". */
static bool read_numbers(const char *text, float *numbers, uint32_t *count_out)
{
    char number[64];
    uint32_t count = 0;
    for (const char *at = text; at != NULL && count < NET_CHANNELS_MAX; count++) {
        const size_t bytes = strcspn(at, ",");
        if (bytes >= sizeof(number))
            return false;
        memcpy(number, at, bytes);
        number[bytes] = '\0';
        if (!net_read_number(number, &numbers[count]))
            return false;
        at = at[bytes] == ',' ? at + bytes + 1 : NULL;
        if (at != NULL && count + 1 == NET_CHANNELS_MAX)
            return false;
    }
    *count_out = count;
    return true;
}

static const char *read_transform(struct net_header *header, struct net_words *words)
{
    header->divisor = DIVISOR_DEFAULT;
    for (const char *word = net_words_next(words); word != NULL; word = net_words_next(words)) {
        const char *const value = net_words_next(words);
        bool fits = value != NULL;
        if (fits && strcmp(word, "divisor") == 0)
            fits = net_read_number(value, &header->divisor) && header->divisor != 0;
        else if (fits && strcmp(word, "mean") == 0)
            fits = read_numbers(value, header->mean, &header->mean_count);
        else
            fits = fits && strcmp(word, "deviation") == 0 &&
                   read_numbers(value, header->std, &header->std_count);
        if (!fits)
            return "takes divisor NUMBER (not 0), mean NUMBER[,NUMBER...], deviation NUMBER[,NUMBER...]";
    }
    return NULL;
}

static const struct header_row header_rows[] = {
    { "model", "NAME", true, read_model },
    { "image", "HEIGHTxWIDTHxCHANNELS", true, read_image },
    { "classes", "NUMBER", true, read_classes },
    { "transform", "divisor NUMBER mean NUMBER deviation NUMBER", false, read_transform },
};
#define HEADER_ROWS (sizeof(header_rows) / sizeof(*header_rows))

static size_t row_of(const char *word)
{
    size_t row = 0;
    while (row < HEADER_ROWS - 1 && strcmp(header_rows[row].word, word) != 0)
        row++;
    return row;
}

/* Where each row was met, as a line. */
struct header_reader {
    struct net_header *header;
    struct net_problems *problems;
    struct net_words words;
    uint32_t lines[HEADER_ROWS];
};

static void read_row(struct header_reader *reader, const struct net_line *line, uint32_t number)
{
    struct net_words *const words = &reader->words;
    memcpy(words->text, line->text, line->bytes);
    words->text[line->bytes] = '\0';
    const bool is_short = net_words_cut(words);
    const size_t row = row_of(net_words_next(words));
    const char *problem = NULL;
    if (reader->lines[row] != 0)
        net_problems_add(reader->problems, number, "'%s' is said twice (first in line %u)", header_rows[row].word,
                         reader->lines[row]);
    else
        problem = header_rows[row].read(reader->header, words);
    if (problem == NULL && reader->lines[row] == 0 && (!is_short || words->next < words->count))
        problem = "has more behind it than it takes";
    if (problem != NULL)
        net_problems_add(reader->problems, number, "'%s' %s", header_rows[row].word, problem);
    if (reader->lines[row] == 0)
        reader->lines[row] = number;
}

/* Without all it needs there is no net, and no line of a layer can be told more than how it is written. */
static void tell_missing(const struct header_reader *reader)
{
    for (size_t row = 0; row < HEADER_ROWS; row++)
        if (header_rows[row].is_needed && reader->lines[row] == 0)
            net_problems_add(reader->problems, 0, "the line '%s %s' is missing", header_rows[row].word,
                             header_rows[row].values);
}

bool net_header_read(struct net_header *header, const struct net_lines *lines, struct net_problems *problems)
{
    const uint32_t problems_before = problems->count;
    struct header_reader reader = { .header = header, .problems = problems };
    bool is_header = true;
    *header = (struct net_header){ .model = NULL };
    for (uint32_t i = 0; i < lines->count; i++) {
        const enum line_kind kind = lines->line[i].kind;
        is_header = is_header && (kind == LINE_HEADER || kind == LINE_EMPTY || kind == LINE_BROKEN);
        if (kind == LINE_HEADER && !is_header)
            net_problems_add(problems, i + 1, "this belongs in front of the first layer");
        if (kind == LINE_HEADER)
            read_row(&reader, &lines->line[i], i + 1);
    }
    tell_missing(&reader);
    header->transform_line = reader.lines[HEADER_ROWS - 1];
    return problems->count == problems_before;
}

/* A number for all channels, or one for each. */
static bool spread(float *numbers, uint32_t count, uint32_t channels)
{
    if (count == 1)
        for (uint32_t c = 1; c < NET_CHANNELS_MAX; c++)
            numbers[c] = numbers[0];
    return count <= 1 || count == channels;
}

static int set_transform(struct net *net, const struct net_header *header, struct net_problems *problems)
{
    struct net_header full = *header;
    const uint32_t channels = header->image.channels;
    if (!spread(full.mean, full.mean_count, channels) || !spread(full.std, full.std_count, channels)) {
        net_problems_add(problems, header->transform_line,
                         "mean and deviation have one number, or %u, as the image has channels", channels);
        return -EINVAL;
    }
    if (net_transform(net, full.divisor, full.mean_count > 0 ? full.mean : NULL,
                      full.std_count > 0 ? full.std : NULL) == 0)
        return 0;
    net_problems_add(problems, header->transform_line, "%s", net_error(net));
    return -EINVAL;
}

int net_header_open(const struct net_header *header, uint32_t classes, struct net **net_out,
                    struct net_problems *problems)
{
    struct net *net;
    int rc = net_open(&net, header->model, header->image, classes != 0 ? classes : header->classes);
    if (rc == 0 && header->transform_line != 0) {
        rc = set_transform(net, header, problems);
        if (rc != 0)
            net_close(net);
    }
    if (rc == 0)
        *net_out = net;
    return rc;
}
