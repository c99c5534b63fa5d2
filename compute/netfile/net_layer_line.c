/* The line of a layer: its words with counters put in, its name, what it reads. */
#include "compute/netfile/net_reader.h"

#include <string.h>

#include "compute/netfile/net_word.h"

#define LAYER_BROKEN (-1)
#define TELL(...) NET_TELL(reader, __VA_ARGS__)


/* ---- counters ---- */

const struct net_counter *net_reader_counter(const struct net_reader *reader, const char *name, size_t bytes)
{
    for (uint32_t i = reader->depth; i-- > 0;)
        if (strlen(reader->turns[i].counter.name) == bytes && memcmp(reader->turns[i].counter.name, name, bytes) == 0)
            return &reader->turns[i].counter;
    return NULL;
}

/* The bytes of {NAME} at `text`, whose value goes to `out`; 0 after it was told that there is none. */
static size_t put_counter(struct net_reader *reader, const char *text, size_t bytes, char *out, size_t room)
{
    size_t length = 0;
    while (1 + length < bytes && net_is_counter_byte(text[1 + length]))
        length++;
    const bool is_closed = length > 0 && 1 + length < bytes && text[1 + length] == '}';
    const struct net_counter *const counter = !is_closed ? NULL : net_reader_counter(reader, text + 1, length);
    if (counter != NULL && snprintf(out, room, "%u", counter->value) < (int)room)
        return length + 2;
    if (counter != NULL)
        TELL("the line is longer than %u bytes", NET_FILE_LINE_MAX);
    else if (!is_closed)
        TELL("'{' is not followed by the name of a counter and '}'");
    else if (!reader->is_unsure)
        TELL("there is no counter '%.*s' here (repeat N as NAME)", length < 40 ? (int)length : 40, text + 1);
    return 0;
}

bool net_reader_cut(struct net_reader *reader, const struct net_line *line)
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
            TELL("the line is longer than %u bytes", NET_FILE_LINE_MAX);
            return false;
        }
        i += taken;
    }
    out[used] = '\0';
    if (net_words_cut(&reader->words))
        return true;
    TELL("there are more than %u words", NET_WORDS_MAX);
    return false;
}

/* ---- names ---- */

/* The place of what a layer is to read, NET_NAMES_MAX when there is none: told, or unsure. */
static uint32_t find_input(struct net_reader *reader, const char *name)
{
    if (strcmp(name, "before") == 0)
        return reader->before;
    if (strcmp(name, "start") == 0 && reader->depth > 0)
        return reader->turns[reader->depth - 1].start;
    const uint32_t place = net_names_find(&reader->names, name);
    if (place != NET_NAMES_MAX || reader->is_unsure)
        return place;
    const char *const near = net_names_nearest(&reader->names, name);
    if (strcmp(name, "start") == 0)
        TELL("'start' is where a turn of a repeat begins, and here is none");
    else if (near != NULL)
        TELL("no layer above is called '%.60s' (did you mean '%s'?)", name, near);
    else
        TELL("no layer above is called '%.60s'", name);
    return NET_NAMES_MAX;
}

/* The layers that the line reads. Are they all there? */
static bool find_inputs(struct net_reader *reader, const struct net_layer_text *text, uint32_t from[LAYER_INPUTS_MAX])
{
    static const char *const usual[] = { "before" };
    const bool is_said = text->from_count > 0;
    bool are_there = true;
    for (uint32_t i = 0; i < (is_said ? text->from_count : 1); i++) {
        const uint32_t place = find_input(reader, is_said ? text->from[i] : usual[0]);
        if (place == NET_NAMES_MAX || reader->names.of[place].layer == LAYER_BROKEN) {
            are_there = false;
            continue;
        }
        reader->names.of[place].is_read = true;
        from[i] = (uint32_t)reader->names.of[place].layer;
    }
    return are_there;
}

static void add_name(struct net_reader *reader, const char *name, int64_t layer)
{
    reader->before = reader->names.count;
    struct net_name *const added = &reader->names.of[reader->names.count++];
    *added = (struct net_name){ .layer = layer, .line = reader->line };
    memcpy(added->name, name, strlen(name) + 1);
}

static void tell_taken(struct net_reader *reader, const char *name, const struct net_name *taken)
{
    const bool is_this = taken->line == reader->line;
    const char *const counter = reader->depth > 0 ? reader->turns[reader->depth - 1].counter.name : "";
    if (is_this && *counter != '\0')
        TELL("the layer of each turn is called '%s': put {%s} into the name", name, counter);
    else if (is_this)
        TELL("the layer of each turn is called '%s': count the turns (repeat N as i) and put {i} into the name", name);
    else
        TELL("another layer is called '%s' (line %u)", name, taken->line);
}

/* Is the next word one that a value follows, and no name? */
static bool is_name_missing(const struct net_words *words)
{
    const uint32_t next = words->next;
    return next == words->count || (next + 1 < words->count && net_word_find(words->word[next]) != WORD_COUNT &&
                                    net_word_find(words->word[next + 1]) == WORD_COUNT);
}

/* The name of the line's layer, "" when it has none of its own. */
static const char *take_name(struct net_reader *reader)
{
    const bool is_missing = is_name_missing(&reader->words);
    const char *const name = is_missing ? "" : net_words_next(&reader->words);
    if (!net_name_fits(name)) {
        if (is_missing)
            TELL("the layer's name is missing behind '%.60s'", reader->words.word[0]);
        else
            TELL("'%.60s' is no name of a layer (1 to 47 of A-Z a-z 0-9 . _ -)", name);
        reader->is_unsure = true;
        return "";
    }
    const uint32_t taken = net_names_find(&reader->names, name);
    if (net_name_is_kept(name))
        TELL("no layer can be called '%s', which has a meaning of its own", name);
    else if (taken != NET_NAMES_MAX)
        tell_taken(reader, name, &reader->names.of[taken]);
    return taken == NET_NAMES_MAX ? name : "";
}

/* ---- layers ---- */

/* Whatever a refused layer left goes, so that the next can be tried. */
static int64_t append(struct net_reader *reader, const struct net_form *form, const char *name, const uint32_t *from,
                      const struct net_layer_text *text)
{
    struct net *const net = reader->net;
    const uint32_t parameters = net->parameter_count, layers = net->layer_count;
    const int64_t layer = net_form_append(form, net, name, from, text);
    if (layer >= 0)
        return layer;
    reader->is_full = layers > 0 && net->layers[layers - 1].kind == LAYER_SOFTMAX_LOSS;
    TELL("%s", net_error(net));
    net->error[0] = '\0';
    net->parameter_count = parameters;
    net->layer_count = layers;
    return LAYER_BROKEN;
}

static bool is_loss(const struct net *net, uint32_t layer)
{
    return layer != NET_INPUT && net->layers[layer].kind == LAYER_AUXILIARY_LOSS;
}

/* A layer that keeps what it reads as large as it is. Where it cannot be, or is left out, those below read past it, so
 * that they are checked as well. */
static int64_t append_keeping(struct net_reader *reader, const struct net_form *form, const char *name, uint32_t from,
                              const struct net_layer_text *text)
{
    if (form == &net_forms[LAYER_DROPOUT] && !reader->options->dropout)
        return from;
    const int64_t layer = append(reader, form, name, &from, text);
    return layer != LAYER_BROKEN || is_loss(reader->net, from) ? layer : from;
}

/* Behind the line's first word. The layer that others read in its name. */
static int64_t read_form(struct net_reader *reader, const struct net_form *form, const char **name_out)
{
    const uint32_t problems_before = reader->problems.count;
    uint32_t from[LAYER_INPUTS_MAX];
    struct net_layer_text text;
    net_words_usual(&text);
    text.classes = reader->net == NULL ? 1 : reader->net->classes;
    *name_out = take_name(reader);
    net_form_read(form, &reader->words, &text, reader->line, &reader->problems);
    const bool is_right = reader->problems.count == problems_before;
    const bool are_there = find_inputs(reader, &text, from);
    if (reader->net == NULL || (!form->keeps_shape && !(is_right && are_there)))
        return LAYER_BROKEN;
    if (!form->keeps_shape)
        return append(reader, form, *name_out, from, &text);
    if (!is_right)
        return are_there && text.from_count <= 1 ? (int64_t)from[0] : LAYER_BROKEN;
    /* On the image, if not on what it reads, its values can be checked. */
    const int64_t layer = append_keeping(reader, form, *name_out, are_there ? from[0] : NET_INPUT, &text);
    return are_there ? layer : LAYER_BROKEN;
}

static void tell_unknown(struct net_reader *reader, const char *word, const char *near)
{
    if (near != NULL)
        TELL("there is no layer '%.60s' (did you mean '%s'?)", word, near);
    else
        TELL("there is no layer '%.60s' (doc/model-files.md has all)", word);
}

/* The layer that others read in the name of the line. */
static int64_t read_words(struct net_reader *reader, const char **name_out)
{
    const char *near = NULL;
    const char *const word = net_words_next(&reader->words);
    reader->last = net_form_find(word, &near);
    if (reader->last != NULL)
        return read_form(reader, reader->last, name_out);
    tell_unknown(reader, word, near);
    *name_out = take_name(reader);
    return LAYER_BROKEN;
}

void net_reader_layer(struct net_reader *reader, const struct net_line *line)
{
    if (reader->names.count == NET_NAMES_MAX) {
        TELL("more than %u layers", NET_LAYERS_MAX);
        reader->is_full = true;
        return;
    }
    const char *name = "";
    int64_t layer = LAYER_BROKEN;
    reader->last = NULL;
    if (net_reader_cut(reader, line))
        layer = read_words(reader, &name);
    else
        reader->is_unsure = true;
    add_name(reader, name, layer);
}
