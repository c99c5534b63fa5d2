/* Opens the network that the settings describe. */
#include "tools/lib/config/settings_model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/model.h"
#include "compute/netfile/net_file.h"
#include "compute/share.h"
#include "stage/text/names.h"
#include "tools/lib/config/config.h"
#include "tools/lib/config/model_hints.h"
#include "tools/lib/config/pixels.h"

/* ---- a name or a file ---- */

/* Clear a text field. */
static void clear(char *field)
{
    field[0] = '\0';
}

/* Choose between model.name and model.file, of which only one may be set; the command line overrides the file. */
static void choose(struct settings *settings, struct problems *problems)
{
    struct model_settings *const model = &settings->model;
    const enum origin name = settings_origin(settings, SECTION_MODEL, "name")->origin;
    const enum origin file = settings_origin(settings, SECTION_MODEL, "file")->origin;
    if (*model->file == '\0' && *model->name == '\0')
        settings_report(settings, problems, SECTION_MODEL, "name", "is missing");
    if (*model->file == '\0' || *model->name == '\0')
        return;
    if (name > file)
        clear(model->file);
    else if (name == file)
        settings_report(settings, problems, SECTION_MODEL, "file",
                        "name is set as well: set only one of them");
    else
        clear(model->name);
}

static bool is_file(const char *model)
{
    const size_t length = strlen(model);
    return strchr(model, '/') != NULL || (length > 4 && strcmp(model + length - 4, ".net") == 0);
}

int settings_choose_model(struct settings *settings, const char *where, const char *model, struct problems *problems)
{
    struct model_settings *const fields = &settings->model;
    const struct option_row *const option = option_find(SECTION_MODEL, is_file(model) ? "file" : "name");
    char problem[MODEL_HINT_SIZE];
    int rc = option_parse(option, settings, model, problem, sizeof(problem));
    if (rc == 0 && !is_file(model) && model_find(model) == NULL) {
        model_hint(model, problem);
        rc = -EINVAL;
    }
    if (rc == 0)
        clear(is_file(model) ? fields->name : fields->file);
    else if (rc == -EINVAL)
        problems_add(problems, where, "%s", problem);
    else
        problems_add(problems, "pipetrain", "%s: %s", where, strerror(-rc));
    return rc;
}

/* ---- a file ---- */

/* Where the problems of a model file are reported. */
struct file_problems { const struct settings *settings; struct problems *problems; };

static void add_file_problem(void *arg, uint32_t line, const char *problem)
{
    const struct file_problems *const target = arg;
    char where[512];
    if (line == 0)
        snprintf(where, sizeof(where), "%.500s", target->settings->model.file);
    else
        snprintf(where, sizeof(where), "%.490s:%u", target->settings->model.file, (unsigned)line);
    problems_add(target->problems, where, "%s", problem);
}

static void ignore_problem(void *arg, uint32_t line, const char *problem)
{
    (void)arg;
    (void)line;
    (void)problem;
}

static int read_text(struct settings *settings, struct problems *problems)
{
    char *text = NULL;
    size_t bytes = 0;
    const int rc = config_text_read(settings->model.file, NET_FILE_MAX, "description of a network", &text, &bytes,
                                    problems);
    if (rc != 0)
        return rc;
    free(settings->model_text);
    settings->model_text = text;
    settings->model_bytes = bytes;
    return 0;
}

/* ---- the network ---- */

/* `size` is the height and width of images, 0 for the model's own. */
static int open_net(const struct settings *settings, const struct input_transform *transform, uint32_t size,
                    const struct net_file_sink *sink, struct net **net_out)
{
    const struct model_options options = { .classes = (uint32_t)settings->data.classes,
                                           .dropout = settings->model.dropout,
                                           .auxiliary = settings->model.auxiliary,
                                           .transform = transform,
                                           .height = size, .width = size };
    if (settings->model_text != NULL)
        return net_file_read(net_out, settings->model_text, settings->model_bytes, &options, sink);
    return model_open(net_out, settings->model.name, &options);
}

static void freeze(struct net *net, const char *patterns)
{
    for (uint32_t i = 0; i < net->parameter_count; i++)
        if (net->parameters[i].is_trained && patterns_match(patterns, net->parameters[i].name))
            net_freeze(net, i);
}

int settings_open_net(const struct settings *settings, struct net **net_out)
{
    struct input_transform transform;
    const struct net_file_sink sink = { ignore_problem, NULL };
    const int rc = open_net(settings, pixels_transform(settings, &transform) ? &transform : NULL, 0, &sink, net_out);
    if (rc == 0)
        freeze(*net_out, settings->model.freeze);
    return rc;
}

int settings_open_train_net(const struct settings *settings, const struct net *net, struct net **train_net_out)
{
    const struct net_file_sink sink = { ignore_problem, NULL };
    const struct shape train = pixels_train_shape(settings, net);
    *train_net_out = NULL;
    if (train.height == net->input.height && train.width == net->input.width)
        return 0;
    const int rc = open_net(settings, &net->transform, train.height, &sink, train_net_out);
    if (rc == 0)
        freeze(*train_net_out, settings->model.freeze);
    return rc;
}

/* ---- what has to fit it ---- */

/* Check for one number for all channels, or one for each. */
static void check_numbers(struct settings *settings, struct problems *problems, const char *key,
                          const struct numbers *numbers, const struct net *net)
{
    char message[192];
    const uint32_t channels = net->input.channels;
    if (numbers->count <= 1 || numbers->count == channels)
        return;
    snprintf(message, sizeof(message), "has %u numbers, and images of '%s' have %u channel%s", numbers->count,
             net->model, channels, channels == 1 ? "" : "s");
    settings_report(settings, problems, SECTION_MODEL, key, message);
}

static bool has_auxiliary(const struct net *net)
{
    for (uint32_t i = 0; i < net->layer_count; i++)
        if (net->layers[i].kind == LAYER_AUXILIARY_LOSS)
            return true;
    return false;
}

static void check_auxiliary(struct settings *settings, struct problems *problems, const struct net *net)
{
    char message[192];
    if (!settings->model.auxiliary || (settings->model_text == NULL && has_auxiliary(net)))
        return;
    if (settings->model_text != NULL)
        snprintf(message, sizeof(message), "is for models by name: in a file, lines of auxiliary_loss say it");
    else
        snprintf(message, sizeof(message), "'%s' has no auxiliary head", net->model);
    settings_report(settings, problems, SECTION_MODEL, "auxiliary", message);
}

/* Check the transform; images of many channels need the same numbers for all channels. */
static void check_transform(struct settings *settings, struct problems *problems, const struct net *net)
{
    if (net->input.channels > NET_CHANNELS_MAX && settings->model.mean.count + settings->model.deviation.count > 0)
        settings_report(settings, problems, SECTION_MODEL, settings->model.mean.count > 0 ? "mean" : "deviation",
                        "cannot be set for images of so many channels; divisor can");
    check_numbers(settings, problems, "mean", &settings->model.mean, net);
    check_numbers(settings, problems, "deviation", &settings->model.deviation, net);
}

/* Does the pattern freeze a parameter? *matched_out: does it match any tensor? */
static bool finds_trained(const struct net *net, const char *pattern, bool *matched_out)
{
    *matched_out = false;
    for (uint32_t i = 0; i < net->parameter_count; i++) {
        if (!pattern_matches(pattern, net->parameters[i].name))
            continue;
        *matched_out = true;
        if (net->parameters[i].is_trained)
            return true;
    }
    return false;
}

/* Add a pattern that freezes nothing to the message. */
static void add_pattern(char *message, size_t message_size, const struct net *net, const char *pattern, bool is_matched)
{
    char hint[TENSOR_HINT_SIZE];
    const size_t used = strlen(message);
    tensor_hint(net, pattern, hint);
    snprintf(message + used, message_size - used, "%s'%s' %s%s", used > 0 ? ", " : "", pattern,
             is_matched ? "are statistics, which always continue" : "is no tensor's name", is_matched ? "" : hint);
}

/* A text of only spaces and commas is an error. */
static void check_patterns(struct settings *settings, struct problems *problems, const char *key, const char *patterns)
{
    char pattern[PATTERN_BYTES];
    const char *at = patterns;
    if (*patterns != '\0' && !patterns_next(&at, pattern))
        settings_report(settings, problems, SECTION_MODEL, key, "names no tensor: a pattern is missing, as in fc.*");
}

static void check_freeze(struct settings *settings, struct problems *problems, struct net *net)
{
    char pattern[PATTERN_BYTES], message[1024] = "";
    bool is_matched;
    for (const char *at = settings->model.freeze; patterns_next(&at, pattern);)
        if (!finds_trained(net, pattern, &is_matched))
            add_pattern(message, sizeof(message), net, pattern, is_matched);
    freeze(net, settings->model.freeze);
    if (net->frozen_count == net->trainable_count)
        snprintf(message, sizeof(message), "freezes all parameters: nothing would learn");
    if (*message != '\0')
        settings_report(settings, problems, SECTION_MODEL, "freeze", message);
}

/* Add the numbers of parts that divide all dense layers at the end. Returns how many above 1 there are. */
static uint32_t add_fitting_parts(const struct net *net, char *text, size_t size)
{
    uint32_t found = 0;
    for (uint32_t parts = 2; parts <= SHARE_PARTS_MAX; parts++) {
        struct unsupported_reason reason;
        struct head head;
        const size_t used = strlen(text);
        if (head_find(&head, net, parts, &reason) == 0)
            snprintf(text + used, size - used, "%s%u", found++ == 0 ? ": model.parts may be 1, " : ", ", parts);
    }
    return found;
}

static bool only_classes_do_not_fit(const struct head *head, uint32_t parts)
{
    for (uint32_t stage = 0; stage + 1 < head->stage_count; stage++)
        if (head->stages[stage].units % parts != 0)
            return false;
    return parts <= SHARE_PARTS_MAX;
}

/* Write advice for dense layers that cannot be divided into so many parts: other numbers of parts, or more classes if
 * only the last layer does not fit. */
static void advise_on_parts(const struct net *net, uint32_t parts, char *text, size_t size)
{
    struct unsupported_reason reason;
    struct head head;
    *text = '\0';
    const bool has_head = head_find(&head, net, 1, &reason) == 0;
    const bool may_be_others = has_head && add_fitting_parts(net, text, size) > 0;
    const size_t used = strlen(text);
    if (has_head && only_classes_do_not_fit(&head, parts))
        snprintf(text + used, size - used, "%s use data.classes = %u, with classes that no image has",
                 may_be_others ? "; or" : ":", (net->classes + parts - 1) / parts * parts);
    else if (!may_be_others)
        snprintf(text, size, ": leave model.parts out");
}

/* Check that the dense layers at the end can be divided, for which only training uses model.parts. */
static void check_parts(struct settings *settings, struct problems *problems, const struct net *net)
{
    const uint32_t parts = (uint32_t)settings->model.parts;
    struct unsupported_reason reason;
    struct head head;
    char advice[256], message[512];
    if (parts == 0 || settings->only_classifies || head_find(&head, net, parts, &reason) == 0)
        return;
    advise_on_parts(net, parts, advice, sizeof(advice));
    snprintf(message, sizeof(message), "%s%s", reason.why, advice);
    settings_report(settings, problems, SECTION_MODEL, "parts", message);
}

static void check_skip(struct settings *settings, struct problems *problems)
{
    if (*settings->model.skip != '\0' && *settings->model.weights == '\0')
        settings_report(settings, problems, SECTION_MODEL, "skip",
                        "has no effect without model.weights");
}

/* The first problem of a model file. */
struct first_problem { char text[192]; };

static void keep_first(void *arg, uint32_t line, const char *problem)
{
    struct first_problem *const first = arg;
    if (first->text[0] == '\0' && line > 0)
        snprintf(first->text, sizeof(first->text), ": line %u: %.160s", (unsigned)line, problem);
}

static void report_train_size(struct settings *settings, struct problems *problems, const char *message)
{
    settings_report(settings, problems, SECTION_AUGMENT, "train_size", message);
}

/* Report the layer whose parameters depend on the size of images. */
static void report_sized(struct settings *settings, struct problems *problems, const struct net *net,
                         const struct layer *layer)
{
    char message[320];
    snprintf(message, sizeof(message), "layer '%.47s' reads all pixels (%zu numbers of images of %ux%u), so it has other "
             "weights for another size: a network whose parameters fit every size has a global_average before its first "
             "dense layer", layer->name, shape_count(layer->in), net->input.height, net->input.width);
    report_train_size(settings, problems, message);
}

/* Check that the network has the same parameters for training images of another size. */
static int check_train_size(struct settings *settings, struct problems *problems, const struct net *net)
{
    const uint32_t side = (uint32_t)settings->augment.train_size;
    struct first_problem first = { "" };
    struct net *train_net = NULL;
    char message[320];
    if (side == 0)
        return 0;
    if (net->input.height != net->input.width) {
        snprintf(message, sizeof(message), "makes square images, and those of '%.47s' are %ux%u", net->model,
                 net->input.height, net->input.width);
        report_train_size(settings, problems, message);
        return 0;
    }
    const int rc = open_net(settings, NULL, side, &(const struct net_file_sink){ keep_first, &first }, &train_net);
    const struct layer *const sized = rc == 0 ? net_find_sized(net, train_net) : NULL;
    snprintf(message, sizeof(message), "the network cannot compute images of %ux%u%s", side, side, first.text);
    if (rc == -EINVAL)
        report_train_size(settings, problems, message);
    if (sized != NULL)
        report_sized(settings, problems, net, sized);
    net_close(train_net);
    return rc == -ENOMEM ? rc : 0;
}

static int check_net(struct settings *settings, struct problems *problems)
{
    struct file_problems target = { settings, problems };
    struct net *net;
    const size_t problems_before = problems->count;
    int rc = open_net(settings, NULL, 0, &(const struct net_file_sink){ add_file_problem, &target }, &net);
    if (rc == -EINVAL && problems->count == problems_before)
        settings_report(settings, problems, SECTION_DATA, "classes", "this network cannot have so many");
    if (rc == -ENOMEM)
        problems_add(problems, "pipetrain", "the model: %s", strerror(ENOMEM));
    if (rc != 0)
        return rc;
    check_transform(settings, problems, net);
    pixels_choose_scaling(settings);
    pixels_check_resize(settings, net->input, problems);
    pixels_check_augment(settings, net->input.channels, problems);
    check_auxiliary(settings, problems, net);
    check_patterns(settings, problems, "freeze", settings->model.freeze);
    check_patterns(settings, problems, "skip", settings->model.skip);
    check_freeze(settings, problems, net);
    check_parts(settings, problems, net);
    check_skip(settings, problems);
    rc = check_train_size(settings, problems, net);
    net_close(net);
    return rc;
}

static void check_name(struct settings *settings, struct problems *problems)
{
    char message[MODEL_HINT_SIZE];
    if (*settings->model.name == '\0' || model_find(settings->model.name) != NULL)
        return;
    model_hint(settings->model.name, message);
    settings_report(settings, problems, SECTION_MODEL, "name", message);
}

int settings_find_model(struct settings *settings, struct problems *problems)
{
    const size_t problems_before = problems->count;
    int rc = 0;
    choose(settings, problems);
    check_name(settings, problems);
    if (*settings->model.file != '\0' && problems->count == problems_before)
        rc = read_text(settings, problems);
    if (rc == 0 && problems->count == problems_before)
        rc = check_net(settings, problems);
    return rc == -ENOMEM ? rc : problems->count > problems_before ? -EINVAL : 0;
}
