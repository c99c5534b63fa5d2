/* Reading a text as a network. The text is split into lines, the header opens the net, then the lines are executed in
 * order, lines of a repeat as often as it requests. Problems are collected and reported in the order of the lines. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/netfile/net_text.h"
#include "stage/text/names.h"

/* ---- problems, collected until all are known ---- */

struct problem {
    uint32_t line;
    size_t number;              /* the number of problems reported before this one */
    char *problem;
};

struct problem_list {                 /* initially all 0 */
    struct problem *problems;
    size_t count, room;
    bool is_out_of_memory;      /* a problem could not be stored */
};

#define FIRST_ROOM 16u

/* Make room for another problem. */
static int problem_list_make_room(struct problem_list *list)
{
    if (list->count < list->room)
        return 0;
    const size_t room = list->room > 0 ? 2 * list->room : FIRST_ROOM;
    struct problem *const problems = reallocarray(list->problems, room, sizeof(*problems));
    if (problems == NULL)
        return -ENOMEM;
    list->problems = problems;
    list->room = room;
    return 0;
}

static void problem_list_add(void *arg, uint32_t line, const char *problem)
{
    struct problem_list *const list = arg;
    char *const copy = problem_list_make_room(list) == 0 ? strdup(problem) : NULL;
    if (copy != NULL)
        list->problems[list->count] = (struct problem){ line, list->count, copy };
    list->count += copy != NULL;
    list->is_out_of_memory |= copy == NULL;
}

static int compare_problems(const void *a, const void *b)
{
    const struct problem *const one = a, *const other = b;
    if (one->line != other->line)
        return one->line < other->line ? -1 : 1;
    return one->number < other->number ? -1 : one->number > other->number;
}

static int problem_list_report(struct problem_list *list, const struct net_file_sink *sink)
{
    if (list->is_out_of_memory)
        return -ENOMEM;
    if (list->count > 0)
        qsort(list->problems, list->count, sizeof(*list->problems), compare_problems);
    for (size_t i = 0; i < list->count; i++)
        sink->report(sink->arg, list->problems[i].line, list->problems[i].problem);
    return 0;
}

static void problem_list_release(struct problem_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->problems[i].problem);
    free(list->problems);
    *list = (struct problem_list){ .problems = NULL };
}

/* ---- names of layers ---- */

#define NAMES_MAX (NET_LAYERS_MAX + 1)          /* names of layers and of the image */
#define NAME_IMAGE 0u                           /* index of the image */

struct layer_name {
    char name[sizeof(((struct layer *)0)->name)];       /* "": it could not be read */
    int64_t layer;              /* the layer of this name, or NET_INPUT; negative: its line is wrong */
    uint32_t line;
    bool is_read;
};

struct layer_names {
    uint32_t count;
    struct layer_name of[NAMES_MAX];
};

static void names_init(struct layer_names *names)
{
    names->count = 1;
    names->of[NAME_IMAGE] = (struct layer_name){ .name = "image", .layer = NET_INPUT, .is_read = true };
}

static uint32_t names_find(const struct layer_names *names, const char *name)
{
    for (uint32_t i = 0; i < names->count; i++)
        if (strcmp(names->of[i].name, name) == 0)
            return i;
    return NAMES_MAX;
}

static const char *names_nearest(const struct layer_names *names, const char *name)
{
    struct nearest nearest = { .name = name };
    for (uint32_t i = 0; i < names->count; i++)
        nearest_offer(&nearest, names->of[i].name, names->of[i].name);
    return nearest.best;
}

/* ---- the header: the lines before the first layer ---- */

struct header {
    const char *model;          /* in text */
    struct shape image;
    uint32_t classes;
    float divisor;              /* 0: there is no transform */
    float mean[NET_CHANNELS_MAX], std[NET_CHANNELS_MAX];
    uint32_t mean_count, std_count;             /* 0: not given */
    uint32_t transform_line;
    char text[NET_FILE_LINE_MAX + 1];
};

#define DIVISOR_DEFAULT 255.0f

/* A line of the header. `read` reads its values and returns the problem with them, or NULL. */
struct header_row {
    const char *word, *values;
    bool is_needed;
    const char *(*read)(struct header *header, struct net_words *words);
};

static const char *read_model(struct header *header, struct net_words *words)
{
    const char *const name = net_words_next(words);
    if (name == NULL || !net_name_fits(name))
        return "has to be followed by a name of 1 to 47 of A-Z a-z 0-9 . _ -";
    memcpy(header->text, name, strlen(name) + 1);
    header->model = header->text;
    return NULL;
}

static const char *read_image(struct header *header, struct net_words *words)
{
    const char *end = net_words_next(words);
    struct shape *const image = &header->image;
    const bool fits = end != NULL && net_read_count(end, 1, &image->height, &end) && *end == 'x' &&
                      net_read_count(end + 1, 1, &image->width, &end) && *end == 'x' &&
                      net_read_whole(end + 1, 1, &image->channels);
    return !fits ? "has to be followed by HEIGHTxWIDTHxCHANNELS" : !shape_fits(*image) ? "is too large" : NULL;
}

static const char *read_classes(struct header *header, struct net_words *words)
{
    const char *const count = net_words_next(words);
    const bool fits = count != NULL && net_read_whole(count, 1, &header->classes);
    return fits ? NULL : "has to be followed by a whole number from 1 to 2147483647";
}

/* Read numbers separated by commas: "0.5" or "0.1,0.2,0.3". */
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

static const char *read_transform(struct header *header, struct net_words *words)
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

/* The state of reading the header. lines[row] is the line of the file that has the word of header_rows[row]; 0: no line
 * yet. */
struct header_reader {
    struct header *header;
    struct net_problems *problems;
    struct net_words words;
    uint32_t lines[HEADER_ROWS];
};

static void read_row(struct header_reader *reader, const struct net_line *line, uint32_t number)
{
    struct net_words *const words = &reader->words;
    memcpy(words->text, line->text, line->bytes);
    words->text[line->bytes] = '\0';
    const bool fits = net_words_split(words);
    const size_t row = row_of(net_words_next(words));
    const char *problem = NULL;
    if (reader->lines[row] != 0)
        net_problems_add(reader->problems, number, "'%s' is given twice (first in line %u)", header_rows[row].word,
                         reader->lines[row]);
    else
        problem = header_rows[row].read(reader->header, words);
    if (problem == NULL && reader->lines[row] == 0 && (!fits || words->next < words->count))
        problem = "has too many values";
    if (problem != NULL)
        net_problems_add(reader->problems, number, "'%s' %s", header_rows[row].word, problem);
    if (reader->lines[row] == 0)
        reader->lines[row] = number;
}

/* Without these lines no net can be opened, and only the syntax of the lines of layers is checked. */
static void report_missing(const struct header_reader *reader)
{
    for (size_t row = 0; row < HEADER_ROWS; row++)
        if (header_rows[row].is_needed && reader->lines[row] == 0)
            net_problems_add(reader->problems, 0, "the line '%s %s' is missing", header_rows[row].word,
                             header_rows[row].values);
}

static bool header_read(struct header *header, const struct net_lines *lines, struct net_problems *problems)
{
    const uint32_t problems_before = problems->count;
    struct header_reader reader = { .header = header, .problems = problems };
    bool is_header = true;
    *header = (struct header){ .model = NULL };
    for (uint32_t i = 0; i < lines->count; i++) {
        const enum line_kind kind = lines->line[i].kind;
        is_header = is_header && (kind == LINE_HEADER || kind == LINE_EMPTY || kind == LINE_BROKEN);
        if (kind == LINE_HEADER && !is_header)
            net_problems_add(problems, i + 1, "this line must come before the first layer");
        if (kind == LINE_HEADER)
            read_row(&reader, &lines->line[i], i + 1);
    }
    report_missing(&reader);
    header->transform_line = reader.lines[HEADER_ROWS - 1];
    return problems->count == problems_before;
}

/* Set the numbers of all channels: one number is that of every channel. False: the count is neither 1 nor the number of
 * channels. */
static bool spread_channels(float *numbers, uint32_t count, uint32_t channels)
{
    if (count == 1)
        for (uint32_t c = 1; c < NET_CHANNELS_MAX; c++)
            numbers[c] = numbers[0];
    return count <= 1 || count == channels;
}

static int set_transform(struct net *net, const struct header *header, struct net_problems *problems)
{
    struct header full = *header;
    const uint32_t channels = header->image.channels;
    if (!spread_channels(full.mean, full.mean_count, channels) ||
        !spread_channels(full.std, full.std_count, channels)) {
        net_problems_add(problems, header->transform_line,
                         "mean and deviation take one number, or %u: one for each channel", channels);
        return -EINVAL;
    }
    if (net_transform(net, full.divisor, full.mean_count > 0 ? full.mean : NULL,
                      full.std_count > 0 ? full.std : NULL) == 0)
        return 0;
    net_problems_add(problems, header->transform_line, "%s", net_error(net));
    return -EINVAL;
}

static int header_open(const struct header *header, const struct model_options *options, struct net **net_out,
                    struct net_problems *problems)
{
    struct net *net;
    int rc = net_open(&net, header->model, model_image(options, header->image),
                      options->classes != 0 ? options->classes : header->classes);
    if (rc == 0 && header->transform_line != 0) {
        rc = set_transform(net, header, problems);
        if (rc != 0)
            net_close(net);
    }
    if (rc == 0)
        *net_out = net;
    return rc;
}

/* ---- the reader ---- */

#define LAYER_BROKEN (-1)
#define COUNTER_START_MAX 1000000u
#define REPEATED_MAX (256 * NET_LAYERS_MAX)     /* lines of repeats, counted in every iteration */

struct counter { char name[16]; uint32_t value; };      /* name "": the repeat has none */

/* Can the name of a counter contain this byte? */
static bool is_counter_byte(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') || byte == '_';
}

/* The current iteration of a repeat. */
struct iteration {
    struct counter counter;
    uint32_t start;             /* index of the name before its first layer */
};

struct reader {
    const struct net_lines *lines;
    const struct model_options *options;
    struct net_problems problems;
    struct net_file_sink sink;  /* receives the collected problems, filtered by problems.sink */
    struct net *net;            /* NULL: the header is wrong, and each line is checked by itself */
    struct layer_names names;
    struct iteration iterations[NET_FILE_DEPTH_MAX];
    uint32_t depth;
    uint32_t before;            /* index of the name of the line before */
    uint32_t line;              /* the current line, from 1 */
    bool *is_reported;          /* by line: a problem was reported in an earlier iteration */
    bool is_incomplete;         /* some names or counters could not be read, so unknown names and counters are not
                                 * reported */
    uint32_t repeated;          /* lines of repeats that were read, counted in every iteration */
    bool is_full;               /* too many layers, or layers after the loss: the rest is ignored */
    const struct net_form *last;        /* form of the last layer, NULL when it could not be read */
    struct net_words words;
};

/* Report a problem of the current line. */
#define REPORT(...) net_problems_add(&reader->problems, reader->line, __VA_ARGS__)

/* ---- counters ---- */

static const struct counter *find_counter(const struct reader *reader, const char *name, size_t bytes)
{
    for (uint32_t i = reader->depth; i-- > 0;)
        if (strlen(reader->iterations[i].counter.name) == bytes &&
            memcmp(reader->iterations[i].counter.name, name, bytes) == 0)
            return &reader->iterations[i].counter;
    return NULL;
}

/* Write the value of the counter {NAME} at `text` to `out`. Returns the bytes of {NAME}, 0 after reporting that
 * there is no such counter. */
static size_t put_counter(struct reader *reader, const char *text, size_t bytes, char *out, size_t room)
{
    size_t length = 0;
    while (1 + length < bytes && is_counter_byte(text[1 + length]))
        length++;
    const bool is_closed = length > 0 && 1 + length < bytes && text[1 + length] == '}';
    const struct counter *const counter = !is_closed ? NULL : find_counter(reader, text + 1, length);
    if (counter != NULL && snprintf(out, room, "%u", counter->value) < (int)room)
        return length + 2;
    if (counter != NULL)
        REPORT("the line is longer than %u bytes", NET_FILE_LINE_MAX);
    else if (!is_closed)
        REPORT("'{' is not followed by the name of a counter and '}'");
    else if (!reader->is_incomplete)
        REPORT("there is no counter '%.*s' here (repeat N as NAME)", length < 40 ? (int)length : 40, text + 1);
    return 0;
}

static bool split_words(struct reader *reader, const struct net_line *line)
{
    char *const out = reader->words.text;
    size_t used = 0;
    for (size_t i = 0; i < line->bytes;) {
        size_t taken = 1;
        if (line->text[i] == '{') {
            taken = put_counter(reader, line->text + i, line->bytes - i, out + used, NET_FILE_LINE_MAX + 1 - used);
            if (taken == 0)
                return false;
            used += strlen(out + used);
        } else if (used < NET_FILE_LINE_MAX) {
            out[used++] = line->text[i];
        } else {
            REPORT("the line is longer than %u bytes", NET_FILE_LINE_MAX);
            return false;
        }
        i += taken;
    }
    out[used] = '\0';
    if (net_words_split(&reader->words))
        return true;
    REPORT("there are more than %u words", NET_WORDS_MAX);
    return false;
}

/* ---- names ---- */

/* The index of the name that a layer reads. NAMES_MAX: there is none, which is reported unless names are incomplete. */
static uint32_t find_input(struct reader *reader, const char *name)
{
    if (strcmp(name, "before") == 0)
        return reader->before;
    if (strcmp(name, "start") == 0 && reader->depth > 0)
        return reader->iterations[reader->depth - 1].start;
    const uint32_t place = names_find(&reader->names, name);
    if (place != NAMES_MAX || reader->is_incomplete)
        return place;
    const char *const near = names_nearest(&reader->names, name);
    if (strcmp(name, "start") == 0)
        REPORT("'start' can be used only inside a repeat");
    else if (near != NULL)
        REPORT("no layer above is called '%.60s' (did you mean '%s'?)", name, near);
    else
        REPORT("no layer above is called '%.60s'", name);
    return NAMES_MAX;
}

/* Find the layers that the line reads. False: some do not exist. */
static bool find_inputs(struct reader *reader, const struct net_layer_text *text, uint32_t from[LAYER_INPUTS_MAX])
{
    static const char *const usual[] = { "before" };
    const bool is_given = text->from_count > 0;
    bool are_there = true;
    for (uint32_t i = 0; i < (is_given ? text->from_count : 1); i++) {
        const uint32_t place = find_input(reader, is_given ? text->from[i] : usual[0]);
        if (place == NAMES_MAX || reader->names.of[place].layer == LAYER_BROKEN) {
            are_there = false;
            continue;
        }
        reader->names.of[place].is_read = true;
        from[i] = (uint32_t)reader->names.of[place].layer;
    }
    return are_there;
}

static void add_name(struct reader *reader, const char *name, int64_t layer)
{
    reader->before = reader->names.count;
    struct layer_name *const added = &reader->names.of[reader->names.count++];
    *added = (struct layer_name){ .layer = layer, .line = reader->line };
    memcpy(added->name, name, strlen(name) + 1);
}

static void report_taken(struct reader *reader, const char *name, const struct layer_name *taken)
{
    const bool is_this = taken->line == reader->line;
    const char *const counter = reader->depth > 0 ? reader->iterations[reader->depth - 1].counter.name : "";
    if (is_this && *counter != '\0')
        REPORT("every iteration names its layer '%s': put {%s} into the name", name, counter);
    else if (is_this)
        REPORT("every iteration names its layer '%s': add a counter (repeat N as i) and put {i} into the name", name);
    else
        REPORT("another layer is called '%s' (line %u)", name, taken->line);
}

/* Is the next word already a word of the form, followed by its value, instead of a name? */
static bool is_name_missing(const struct net_words *words)
{
    const uint32_t next = words->next;
    return next == words->count || (next + 1 < words->count && net_form_has_word(words->word[next]) &&
                                    !net_form_has_word(words->word[next + 1]));
}

/* Read the name of the layer; "" when it is missing, wrong or taken. */
static const char *read_name(struct reader *reader)
{
    const bool is_missing = is_name_missing(&reader->words);
    const char *const name = is_missing ? "" : net_words_next(&reader->words);
    if (!net_name_fits(name)) {
        if (is_missing)
            REPORT("the layer's name is missing after '%.60s'", reader->words.word[0]);
        else
            REPORT("'%.60s' is no name of a layer (1 to 47 of A-Z a-z 0-9 . _ -)", name);
        reader->is_incomplete = true;
        return "";
    }
    const uint32_t taken = names_find(&reader->names, name);
    if (net_name_is_reserved(name))
        REPORT("'%s' is a reserved word and cannot name a layer", name);
    else if (taken != NAMES_MAX)
        report_taken(reader, name, &reader->names.of[taken]);
    return taken == NAMES_MAX ? name : "";
}

/* ---- layers ---- */

/* Append the layer. After an error the net is restored, so that the next layer can be tried. */
static int64_t append_layer(struct reader *reader, const struct net_form *form, const char *name, const uint32_t *from,
                      const struct net_layer_text *text)
{
    struct net *const net = reader->net;
    const uint32_t parameters = net->parameter_count, layers = net->layer_count;
    const int64_t layer = net_form_append(form, net, name, from, text);
    if (layer >= 0)
        return layer;
    reader->is_full = layers > 0 && net->layers[layers - 1].kind == LAYER_SOFTMAX_LOSS;
    REPORT("%s", net_error(net));
    net->error[0] = '\0';
    net->parameter_count = parameters;
    net->layer_count = layers;
    return LAYER_BROKEN;
}

static bool is_loss(const struct net *net, uint32_t layer)
{
    return layer != NET_INPUT && net->layers[layer].kind == LAYER_AUXILIARY_LOSS;
}

/* Is the layer omitted where the options omit dropout? */
static bool is_dropout(const struct net_form *form)
{
    return form == &net_forms[LAYER_DROPOUT] || form == &net_forms[LAYER_STOCHASTIC_DEPTH];
}

/* Append a layer whose output has the shape of its input. When that fails, or the layer is omitted (dropout), the
 * layers after it read its input instead, so that they are checked, too. */
static int64_t append_keeping(struct reader *reader, const struct net_form *form, const char *name, uint32_t from,
                              const struct net_layer_text *text)
{
    if (is_dropout(form) && !reader->options->dropout)
        return from;
    const int64_t layer = append_layer(reader, form, name, &from, text);
    return layer != LAYER_BROKEN || is_loss(reader->net, from) ? layer : from;
}

/* Read the rest of the line. Returns the layer that later lines read by this line's name: the new layer; its input if
 * it keeps the shape and is broken or omitted; else LAYER_BROKEN. */
static int64_t read_form(struct reader *reader, const struct net_form *form, const char **name_out)
{
    const uint32_t problems_before = reader->problems.count;
    uint32_t from[LAYER_INPUTS_MAX];
    struct net_layer_text text;
    net_form_set_defaults(&text);
    text.activation = form->activation;
    text.classes = reader->net == NULL ? 1 : reader->net->classes;
    *name_out = read_name(reader);
    net_form_read(form, &reader->words, &text, reader->line, &reader->problems);
    const bool is_right = reader->problems.count == problems_before;
    const bool are_there = find_inputs(reader, &text, from);
    if (reader->net == NULL || (!form->keeps_shape && !(is_right && are_there)))
        return LAYER_BROKEN;
    if (!form->keeps_shape)
        return append_layer(reader, form, *name_out, from, &text);
    if (!is_right)
        return are_there && text.from_count <= 1 ? (int64_t)from[0] : LAYER_BROKEN;
    /* If an input does not exist, the values of the line are checked with the image as input. */
    const int64_t layer = append_keeping(reader, form, *name_out, are_there ? from[0] : NET_INPUT, &text);
    return are_there ? layer : LAYER_BROKEN;
}

static void report_unknown(struct reader *reader, const char *word, const char *near)
{
    if (near != NULL)
        REPORT("there is no layer '%.60s' (did you mean '%s'?)", word, near);
    else
        REPORT("there is no layer '%.60s' (doc/model-files.md lists all)", word);
}

/* Read a line. Returns the layer that others read by its name. */
static int64_t read_words(struct reader *reader, const char **name_out)
{
    const char *near = NULL;
    const char *const word = net_words_next(&reader->words);
    reader->last = net_form_find(word, &near);
    if (reader->last != NULL)
        return read_form(reader, reader->last, name_out);
    report_unknown(reader, word, near);
    *name_out = read_name(reader);
    return LAYER_BROKEN;
}

static void read_layer(struct reader *reader, const struct net_line *line)
{
    if (reader->names.count == NAMES_MAX) {
        REPORT("more than %u layers", NET_LAYERS_MAX);
        reader->is_full = true;
        return;
    }
    const char *name = "";
    int64_t layer = LAYER_BROKEN;
    reader->last = NULL;
    if (split_words(reader, line))
        layer = read_words(reader, &name);
    else
        reader->is_incomplete = true;
    add_name(reader, name, layer);
}

/* Report the problems of a line only in the first iteration that has any. */
static void report_once(void *arg, uint32_t line, const char *problem)
{
    const struct reader *const reader = arg;
    if (line == 0 || !reader->is_reported[line - 1])
        reader->sink.report(reader->sink.arg, line, problem);
}

/* Note whether problems of line i + 1 were reported since there were `before` problems. */
static void mark_reported(struct reader *reader, uint32_t i, uint32_t before)
{
    reader->is_reported[i] |= reader->problems.count > before;
}

/* ---- repeats ---- */

static bool is_counter(const char *name)
{
    size_t length = 0;
    while (is_counter_byte(name[length]))
        length++;
    return length > 0 && length < sizeof(((struct counter *)0)->name) && name[length] == '\0';
}

/* Read "as NAME", "as NAME from NUMBER" or nothing. */
static const char *read_counter(struct reader *reader, struct counter *counter)
{
    const char *word = net_words_next(&reader->words);
    if (word == NULL)
        return NULL;
    const char *const name = net_words_next(&reader->words);
    if (strcmp(word, "as") != 0 || name == NULL || !is_counter(name))
        return "takes after the number: as NAME, as NAME from NUMBER";
    if (find_counter(reader, name, strlen(name)) != NULL)
        return "has the counter of an enclosing repeat";
    memcpy(counter->name, name, strlen(name) + 1);
    word = net_words_next(&reader->words);
    const char *const first = word == NULL ? "1" : net_words_next(&reader->words);
    if ((word != NULL && strcmp(word, "from") != 0) || first == NULL ||
        !net_read_whole(first, 0, &counter->value) || counter->value > COUNTER_START_MAX)
        return "takes after the counter: from NUMBER, at most 1000000";
    return net_words_next(&reader->words) != NULL ? "has too many values" : NULL;
}

/* Read "repeat", its number and its counter. Returns the number of iterations, 1 when the line is wrong. */
static uint32_t read_repeat(struct reader *reader, const struct net_line *line, struct counter *counter)
{
    uint32_t count = 1;
    *counter = (struct counter){ .value = 1 };
    if (!split_words(reader, line)) {
        reader->is_incomplete = true;
        return 1;
    }
    net_words_next(&reader->words);
    const char *const number = net_words_next(&reader->words);
    const char *problem = NULL;
    if (number == NULL || !net_read_whole(number, 1, &count) || count > NET_LAYERS_MAX)
        problem = "has to be followed by how often, from 1 to 1024";
    const char *const of_counter = number == NULL ? NULL : read_counter(reader, counter);
    problem = problem != NULL ? problem : of_counter;
    if (problem == NULL)
        return count;
    REPORT("'repeat' %s", problem);
    reader->is_incomplete = true;
    return 1;
}

static void read_range(struct reader *reader, uint32_t first, uint32_t end);

/* Every iteration adds the names of its layers, so that too many iterations end at the limit of names. */
static void iterate(struct reader *reader, uint32_t line, uint32_t count)
{
    struct iteration *const iteration = &reader->iterations[reader->depth - 1];
    for (uint32_t i = 0; i < count && !reader->is_full; i++, iteration->counter.value++) {
        const uint32_t names_before = reader->names.count;
        iteration->start = reader->before;
        read_range(reader, line + 1, reader->lines->line[line].end);
        if (reader->names.count > names_before || reader->is_full)
            continue;
        reader->line = line + 1;
        REPORT("repeat: there is no layer to repeat");
        return;
    }
}

static void repeat(struct reader *reader, uint32_t line)
{
    const uint32_t problems_before = reader->problems.count;
    struct counter counter;
    const uint32_t count = read_repeat(reader, &reader->lines->line[line], &counter);
    mark_reported(reader, line, problems_before);
    reader->iterations[reader->depth++] = (struct iteration){ .counter = counter };
    iterate(reader, line, count);
    mark_reported(reader, line, problems_before);
    reader->depth--;
}

/* ---- the whole ---- */

static void read_line(struct reader *reader, uint32_t i)
{
    const struct net_line *const line = &reader->lines->line[i];
    const uint32_t problems_before = reader->problems.count;
    reader->line = i + 1;
    if (line->kind == LINE_REPEAT && line->end != 0) {
        repeat(reader, i);
        return;
    }
    reader->is_incomplete |= line->kind == LINE_REPEAT || line->kind == LINE_BROKEN;
    if (line->kind == LINE_LAYER)
        read_layer(reader, line);
    mark_reported(reader, i, problems_before);
}

static void read_range(struct reader *reader, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end && !reader->is_full; i++) {
        if (reader->depth > 0 && reader->repeated++ == REPEATED_MAX) {
            reader->line = i + 1;
            REPORT("repeats expand to more than %u lines, including lines without a layer", REPEATED_MAX);
            reader->is_full = true;
            return;
        }
        read_line(reader, i);
        if (reader->lines->line[i].kind == LINE_REPEAT && reader->lines->line[i].end != 0)
            i = reader->lines->line[i].end;
    }
}

/* Report layers that no layer reads. Called only if all lines are valid, because an invalid line may be meant to read
 * the layer. */
static void check_readers(struct reader *reader)
{
    for (uint32_t i = 1; i + 1 < reader->names.count; i++) {
        const struct layer_name *const name = &reader->names.of[i];
        if (name->is_read || is_loss(reader->net, (uint32_t)name->layer))
            continue;
        net_problems_add(&reader->problems, name->line, "nothing reads '%s'", name->name);
        reader->is_reported[name->line - 1] = true;
    }
}

static void check_end(struct reader *reader)
{
    if (reader->names.count == 1 && reader->problems.count == 0)
        net_problems_add(&reader->problems, 0, "there are no layers");
    else if (reader->last != NULL && reader->last != &net_forms[LAYER_SOFTMAX_LOSS] && !reader->is_full)
        net_problems_add(&reader->problems, reader->names.of[reader->names.count - 1].line,
                         "the last layer must be softmax_loss");
}

static void use_transform(struct reader *reader)
{
    const struct input_transform *const transform = reader->options->transform;
    if (transform != NULL && net_use_transform(reader->net, transform) != 0)
        net_problems_add(&reader->problems, 0, "%s", net_error(reader->net));
}

static int finish(struct reader *reader)
{
    check_end(reader);
    if (reader->problems.count == 0)
        use_transform(reader);
    if (reader->problems.count == 0)
        check_readers(reader);
    if (reader->problems.count == 0 && net_finish(reader->net) != 0)
        net_problems_add(&reader->problems, 0, "%s", net_error(reader->net));
    return reader->problems.count == 0 ? 0 : -EINVAL;
}

static int read_lines(struct reader *reader, struct header *header)
{
    int rc = 0;
    if (header_read(header, reader->lines, &reader->problems))
        rc = header_open(header, reader->options, &reader->net, &reader->problems);
    if (rc == -ENOMEM)
        return rc;
    read_range(reader, 0, reader->lines->count);
    return finish(reader);
}

/* Allocate the parts of the reader that are too large for the stack, then read the text. */
static int read_with(struct reader *reader, const struct net_lines *lines)
{
    struct header *const header = malloc(sizeof(*header));
    reader->lines = lines;
    reader->is_reported = calloc(lines->count, sizeof(*reader->is_reported));
    const int rc = header != NULL && reader->is_reported != NULL ? read_lines(reader, header) : -ENOMEM;
    free(reader->is_reported);
    free(header);
    return rc;
}

static int read_text(struct net **net_out, const char *text, size_t bytes, const struct model_options *options,
                     const struct net_file_sink *sink)
{
    struct reader *const reader = calloc(1, sizeof(*reader));
    if (reader == NULL)
        return -ENOMEM;
    struct net_lines lines = { .line = NULL };
    reader->options = options;
    reader->sink = *sink;
    reader->problems.sink = sink;
    names_init(&reader->names);
    int rc = net_lines_split(&lines, text, bytes, &reader->problems);
    reader->problems.sink = &(const struct net_file_sink){ report_once, reader };
    if (rc == 0)
        rc = read_with(reader, &lines);
    if (rc == 0)
        *net_out = reader->net;
    else
        net_close(reader->net);
    net_lines_release(&lines);
    free(reader);
    return rc;
}

/* Problems are found in three passes (lines, layers, the whole network), so they are sorted by line before they are
 * reported. */
int net_file_read(struct net **net_out, const char *text, size_t bytes, const struct model_options *options,
                  const struct net_file_sink *sink)
{
    struct problem_list list = { .count = 0 };
    const int rc = read_text(net_out, text, bytes, options, &(const struct net_file_sink){ problem_list_add, &list });
    const int reported = rc == -EINVAL ? problem_list_report(&list, sink) : 0;
    problem_list_release(&list);
    return reported != 0 ? reported : rc;
}

bool net_file_has_transform(const char *text, size_t bytes)
{
    static const char word[] = "transform";
    const char *const end = text + bytes;
    bool is_found = false;
    for (const char *line = text; line < end && !is_found; line++) {
        while (line < end && (*line == ' ' || *line == '\t'))
            line++;
        const size_t left = (size_t)(end - line);
        is_found = left > sizeof(word) - 1 && memcmp(line, word, sizeof(word) - 1) == 0 &&
                   (line[sizeof(word) - 1] == ' ' || line[sizeof(word) - 1] == '\t');
        while (line < end && *line != '\n')
            line++;
    }
    return is_found;
}
