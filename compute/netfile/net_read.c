/* A text becomes a network: its lines are gone through once, those of a repeat as often as it says. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/netfile/net_header.h"
#include "compute/netfile/net_reader.h"
#include "compute/netfile/net_report.h"

#define COUNTER_START_MAX 1000000u
#define REPEATED_MAX (256 * NET_LAYERS_MAX)     /* lines of repeats, those of each turn: many more than layers have */
#define TELL(...) NET_TELL(reader, __VA_ARGS__)

/* A line is told of in the first turn in which something is wrong with it. */
static void tell_once(void *arg, uint32_t line, const char *problem)
{
    const struct net_reader *const reader = arg;
    if (line == 0 || !reader->were_told[line - 1])
        reader->sink.tell(reader->sink.arg, line, problem);
}

/* Of the line i + 1 enough is told where there are problems since `before`. */
static void mark_told(struct net_reader *reader, uint32_t i, uint32_t before)
{
    reader->were_told[i] |= reader->problems.count > before;
}

/* ---- repeats ---- */

static bool is_counter(const char *name)
{
    size_t length = 0;
    while (net_is_counter_byte(name[length]))
        length++;
    return length > 0 && length < sizeof(((struct net_counter *)0)->name) && name[length] == '\0';
}

/* "as NAME", "from NUMBER" behind it. */
static const char *read_counter(struct net_reader *reader, struct net_counter *counter)
{
    const char *word = net_words_next(&reader->words);
    if (word == NULL)
        return NULL;
    const char *const name = net_words_next(&reader->words);
    if (strcmp(word, "as") != 0 || name == NULL || !is_counter(name))
        return "takes behind the number: as NAME, as NAME from NUMBER";
    if (net_reader_counter(reader, name, strlen(name)) != NULL)
        return "counts with the name of a repeat around it";
    memcpy(counter->name, name, strlen(name) + 1);
    word = net_words_next(&reader->words);
    const char *const first = word == NULL ? "1" : net_words_next(&reader->words);
    if ((word != NULL && strcmp(word, "from") != 0) || first == NULL ||
        !net_read_whole(first, 0, &counter->value) || counter->value > COUNTER_START_MAX)
        return "takes behind the counter: from NUMBER, at most 1000000";
    return net_words_next(&reader->words) != NULL ? "has more behind it than it takes" : NULL;
}

/* "repeat" and its number, then the counter. What cannot be read is gone through once. */
static uint32_t read_repeat(struct net_reader *reader, const struct net_line *line, struct net_counter *counter)
{
    uint32_t turns = 1;
    *counter = (struct net_counter){ .value = 1 };
    if (!net_reader_cut(reader, line)) {
        reader->is_unsure = true;
        return 1;
    }
    net_words_next(&reader->words);
    const char *const number = net_words_next(&reader->words);
    const char *problem = NULL;
    if (number == NULL || !net_read_whole(number, 1, &turns) || turns > NET_LAYERS_MAX)
        problem = "has to be followed by how often, from 1 to 1024";
    const char *const of_counter = number == NULL ? NULL : read_counter(reader, counter);
    problem = problem != NULL ? problem : of_counter;
    if (problem == NULL)
        return turns;
    TELL("'repeat' %s", problem);
    reader->is_unsure = true;
    return 1;
}

static void go_through(struct net_reader *reader, uint32_t first, uint32_t end);

/* Each turn adds the names of its layers, so that all of them end where there are too many. */
static void take_turns(struct net_reader *reader, uint32_t line, uint32_t turns)
{
    struct net_turn *const turn = &reader->turns[reader->depth - 1];
    for (uint32_t i = 0; i < turns && !reader->is_full; i++, turn->counter.value++) {
        const uint32_t names_before = reader->names.count;
        turn->start = reader->before;
        go_through(reader, line + 1, reader->lines->line[line].end);
        if (reader->names.count > names_before || reader->is_full)
            continue;
        reader->line = line + 1;
        TELL("repeat: there is no layer to repeat");
        return;
    }
}

static void repeat(struct net_reader *reader, uint32_t line)
{
    const uint32_t problems_before = reader->problems.count;
    struct net_counter counter;
    const uint32_t turns = read_repeat(reader, &reader->lines->line[line], &counter);
    mark_told(reader, line, problems_before);
    reader->turns[reader->depth++] = (struct net_turn){ .counter = counter };
    take_turns(reader, line, turns);
    mark_told(reader, line, problems_before);
    reader->depth--;
}

/* ---- the whole ---- */

static void read_line(struct net_reader *reader, uint32_t i)
{
    const struct net_line *const line = &reader->lines->line[i];
    const uint32_t problems_before = reader->problems.count;
    reader->line = i + 1;
    if (line->kind == LINE_REPEAT && line->end != 0) {
        repeat(reader, i);
        return;
    }
    reader->is_unsure |= line->kind == LINE_REPEAT || line->kind == LINE_BROKEN;
    if (line->kind == LINE_LAYER)
        net_reader_layer(reader, line);
    mark_told(reader, i, problems_before);
}

static void go_through(struct net_reader *reader, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end && !reader->is_full; i++) {
        if (reader->depth > 0 && reader->repeated++ == REPEATED_MAX) {
            reader->line = i + 1;
            TELL("repeats come to more than %u lines, those without a layer among them", REPEATED_MAX);
            reader->is_full = true;
            return;
        }
        read_line(reader, i);
        if (reader->lines->line[i].kind == LINE_REPEAT && reader->lines->line[i].end != 0)
            i = reader->lines->line[i].end;
    }
}

/* Only where all lines are right is it sure what nothing reads. */
static void check_readers(struct net_reader *reader)
{
    for (uint32_t i = 1; i + 1 < reader->names.count; i++) {
        const struct net_name *const name = &reader->names.of[i];
        const bool is_loss = name->layer != NET_INPUT && reader->net->layers[name->layer].kind == LAYER_AUXILIARY_LOSS;
        if (name->is_read || is_loss)
            continue;
        net_problems_add(&reader->problems, name->line, "nothing reads '%s'", name->name);
        reader->were_told[name->line - 1] = true;
    }
}

static void check_end(struct net_reader *reader)
{
    if (reader->names.count == 1 && reader->problems.count == 0)
        net_problems_add(&reader->problems, 0, "there are no layers");
    else if (reader->last != NULL && reader->last != &net_forms[LAYER_SOFTMAX_LOSS] && !reader->is_full)
        net_problems_add(&reader->problems, reader->names.of[reader->names.count - 1].line,
                         "this is the last layer, and no softmax_loss");
}

static void use_transform(struct net_reader *reader)
{
    const struct input_transform *const transform = reader->options->transform;
    if (transform != NULL && net_use_transform(reader->net, transform) != 0)
        net_problems_add(&reader->problems, 0, "%s", net_error(reader->net));
}

static int finish(struct net_reader *reader)
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

static int read_lines(struct net_reader *reader, struct net_header *header)
{
    int rc = 0;
    if (net_header_read(header, reader->lines, &reader->problems))
        rc = net_header_open(header, reader->options->classes, &reader->net, &reader->problems);
    if (rc == -ENOMEM)
        return rc;
    go_through(reader, 0, reader->lines->count);
    return finish(reader);
}

/* With what is too large for a stack. */
static int read_with(struct net_reader *reader, const struct net_lines *lines)
{
    struct net_header *const header = malloc(sizeof(*header));
    reader->lines = lines;
    reader->were_told = calloc(lines->count, sizeof(*reader->were_told));
    const int rc = header != NULL && reader->were_told != NULL ? read_lines(reader, header) : -ENOMEM;
    free(reader->were_told);
    free(header);
    return rc;
}

static int read_text(struct net **net_out, const char *text, size_t bytes, const struct model_options *options,
                     const struct net_file_sink *sink)
{
    struct net_reader *const reader = calloc(1, sizeof(*reader));
    if (reader == NULL)
        return -ENOMEM;
    struct net_lines lines = { .line = NULL };
    reader->options = options;
    reader->sink = *sink;
    reader->problems.sink = sink;
    net_names_init(&reader->names);
    int rc = net_lines_cut(&lines, text, bytes, &reader->problems);
    reader->problems.sink = &(const struct net_file_sink){ tell_once, reader };
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

/* Lines are cut, put together and looked at as a whole one after the other: what each finds is told by lines. */
int net_file_read(struct net **net_out, const char *text, size_t bytes, const struct model_options *options,
                  const struct net_file_sink *sink)
{
    struct net_report report = { .count = 0 };
    const int rc = read_text(net_out, text, bytes, options, &(const struct net_file_sink){ net_report_add, &report });
    const int told = rc == -EINVAL ? net_report_tell(&report, sink) : 0;
    net_report_release(&report);
    return told != 0 ? told : rc;
}
