/* Compares the settings with which weights were trained with the configuration. */
#include "tools/lib/results/weights_agree.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/model.h"
#include "compute/net_difference.h"
#include "compute/netfile/net_file.h"
#include "stage/log.h"
#include "stage/text/names.h"
#include "tools/lib/config/options.h"
#include "tools/lib/config/pixels.h"
#include "tools/lib/config/settings_model.h"
#include "tools/lib/results/tensor_file.h"
#include "tools/lib/results/tensor_match.h"
#include "tools/lib/results/tensor_naming.h"
#include "tools/lib/results/weights.h"

#define TRANSFORM_SIZE 480u
#define EDIT_SIZE 256u

struct agreement {
    const struct initial_weights *weights;
    const char *path;
    struct settings *settings;
    struct net *net;
    struct net *trained;        /* the network in the metadata; NULL: there is none */
    enum weights_use use;
    struct problems *problems;
    uint32_t differences;
};

/* ---- differences ---- */

__attribute__((format(printf, 2, 3)))
static void add_difference(struct agreement *agreement, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    agreement->differences++;
    if (agreement->settings->model.weights_differ)
        log_message(LOG_RUN, "%s: %s (model.weights_differ = yes)", agreement->path, text);
    else
        problems_add(agreement->problems, agreement->path, "%s", text);
}

static int end_differences(const struct agreement *agreement)
{
    if (agreement->differences == 0 || agreement->settings->model.weights_differ)
        return 0;
    problems_add(agreement->problems, agreement->path, "model.weights_differ = yes loads them all the same");
    return -EINVAL;
}

/* ---- the network of the metadata ---- */

static void ignore_problem(void *arg, uint32_t line, const char *problem)
{
    (void)arg, (void)line, (void)problem;
}

/* Read the network from its text, which is untrusted. *net_out becomes NULL if it describes no network. */
static int read_net(const char *text, struct net **net_out)
{
    const struct net_file_sink sink = { ignore_problem, NULL };
    *net_out = NULL;
    const int rc = text == NULL ? 0 : net_file_read(net_out, text, strlen(text),
                                                    &(const struct model_options){ .dropout = true }, &sink);
    return rc == -ENOMEM ? rc : 0;
}

/* Describe how the loaded layers differ from those of another net. Returns the number of differences, or -ENOMEM. */
static int compare_layers(const struct agreement *agreement, const struct net *other, char *text, size_t text_size)
{
    bool is_loaded[NET_PARAMETERS_MAX];
    char first[NET_DIFFERENCE_SIZE], more[48] = "";
    for (uint32_t i = 0; i < agreement->net->parameter_count; i++)
        is_loaded[i] = initial_weights_loads(agreement->weights, i);
    const int count = net_layers_differ(agreement->net, other, is_loaded, first);
    if (count > 1)
        snprintf(more, sizeof(more), "; %d layers differ in all", count);
    snprintf(text, text_size, "%s%s", first, more);
    return count;
}

static int compare_networks(struct agreement *agreement)
{
    char text[NET_DIFFERENCE_SIZE + 48];
    const int count = compare_layers(agreement, agreement->trained, text, sizeof(text));
    if (count > 0)
        add_difference(agreement, "its network '%s' computes otherwise than '%s': %s", agreement->trained->model,
                       agreement->net->model, text);
    return count < 0 ? count : 0;
}

/* ---- the transform of pixels ---- */

static bool is_same_transform(const struct net *a, const struct net *b)
{
    const struct input_transform *const x = &a->transform, *const y = &b->transform;
    return x->divisor == y->divisor && memcmp(x->mean, y->mean, sizeof(x->mean)) == 0 &&
           memcmp(x->std, y->std, sizeof(x->std)) == 0;
}

/* Does the configuration set the transform, by keys or in the model file? The text of a net in the weights is not
 * configuration. */
static bool is_transform_set(const struct settings *settings)
{
    struct input_transform ignored;
    return pixels_transform(settings, &ignored) ||
           (*settings->model.file != '\0' && settings->model_text != NULL &&
            net_file_has_transform(settings->model_text, settings->model_bytes));
}

static void describe_transform(const struct settings *settings, const struct net *net, char text[TRANSFORM_SIZE])
{
    struct pixels_text pixels;
    pixels_describe(settings, net, &pixels);
    snprintf(text, TRANSFORM_SIZE, "divisor %.24s, mean %.200s, deviation %.200s", pixels.divisor, pixels.mean,
             pixels.deviation);
}

static void compare_transforms(struct agreement *agreement)
{
    struct net *const net = agreement->net;
    char here[TRANSFORM_SIZE], there[TRANSFORM_SIZE];
    if (net->input.channels != agreement->trained->input.channels || is_same_transform(net, agreement->trained))
        return;
    describe_transform(agreement->settings, net, here);
    describe_transform(agreement->settings, agreement->trained, there);
    if (!is_transform_set(agreement->settings)) {
        net_use_transform(net, &agreement->trained->transform);
        log_message(LOG_RUN, "%s: pixels of %s, as it was trained", agreement->path, there);
        return;
    }
    add_difference(agreement, "trained with pixels of %s; the configuration sets %s (without model.divisor, .mean and "
                   ".deviation those of the weights are used)", there, here);
}

int weights_use_transform(const char *net_text, const struct settings *settings, struct net *net)
{
    struct net *trained = NULL;
    const int rc = is_transform_set(settings) ? 0 : read_net(net_text, &trained);
    if (trained != NULL && trained->input.channels == net->input.channels)
        net_use_transform(net, &trained->transform);
    net_close(trained);
    return rc;
}

/* ---- settings ---- */

static bool is_given(struct settings *settings, const struct option_row *option)
{
    return settings_origin(settings, option->section, option->key)->origin > ORIGIN_MODEL;
}

/* Set an option to a text of the metadata, which is untrusted. */
static bool use_text(struct settings *settings, const struct option_row *option, const char *text)
{
    char problem[256];
    return text != NULL && option_parse(option, settings, text, problem, sizeof(problem)) == 0;
}

static const char *text_of(const struct agreement *agreement, size_t setting)
{
    char key[96];
    snprintf(key, sizeof(key), WEIGHTS_SETTING "%s", pixels_settings[setting]);
    return initial_weights_text(agreement->weights, key);
}

/* The value of a scaling option in the weights. Earlier versions lacked some options; their weights were scaled as with
 * the default. */
static const char *scaling_of(const struct agreement *agreement, size_t setting)
{
    const char *const text = text_of(agreement, setting);
    return text != NULL ? text : pixels_option(setting)->initial;
}

static bool has_scaling(const struct agreement *agreement)
{
    size_t i = 0;
    while (i < PIXELS_SCALING && text_of(agreement, i) == NULL)
        i++;
    return i < PIXELS_SCALING;
}

static void describe_scaling(const struct settings *settings, char *text, size_t text_size)
{
    struct augment augment = pixels_augment(settings, NULL);
    augment.orientation = ORIENTATION_NONE;     /* compared like other options on how images are read */
    augment_describe(&augment, PHASE_EVALUATE, text, text_size);
}

/* Use the weights' values for scaling options that the configuration does not set. The filter that it sets may not
 * support evaluation_resize. */
static void use_scaling(struct agreement *agreement)
{
    struct settings *const settings = agreement->settings;
    for (size_t i = 0; i < PIXELS_SCALING; i++) {
        const struct option_row *const option = pixels_option(i);
        if (!is_given(settings, option) && use_text(settings, option, scaling_of(agreement, i)))
            settings_origin(settings, option->section, option->key)->origin = ORIGIN_MODEL;
    }
    pixels_choose_scaling(settings);
    if (settings->augment.filter != FILTER_BILINEAR && settings->augment.filter != FILTER_BICUBIC)
        settings->augment.evaluation_resize = 0;
}

/* A value that the options do not have, as of a later version: the weights' scaling is not known. */
static void report_unknown_scaling(const struct agreement *agreement, size_t setting)
{
    char shown[128];
    log_plain(scaling_of(agreement, setting), shown, sizeof(shown));
    log_message(LOG_RUN, "%s: trained with %s = %s, which this version does not know: its images are scaled as here, "
                "perhaps otherwise than in training", agreement->path, pixels_settings[setting], shown);
}

/* Compare the scaling of validation images; `theirs` are settings into which the weights' values are read. */
static void compare_scaling(struct agreement *agreement, struct settings *theirs)
{
    const struct net *const net = agreement->net, *const trained = agreement->trained;
    char here[256], there[256];
    if (net->input.height != trained->input.height || net->input.width != trained->input.width ||
        !has_scaling(agreement))
        return;
    for (size_t i = 0; i < PIXELS_SCALING; i++)
        if (!use_text(theirs, pixels_option(i), scaling_of(agreement, i))) {
            report_unknown_scaling(agreement, i);
            return;
        }
    if (agreement->use != WEIGHTS_TRAINED_ON)
        use_scaling(agreement);
    describe_scaling(agreement->settings, here, sizeof(here));
    describe_scaling(theirs, there, sizeof(there));
    if (strcmp(here, there) == 0)
        return;
    if (agreement->use != WEIGHTS_TRAINED_ON)
        add_difference(agreement, "its validation images were %s; the configuration sets %s (without "
                       "augment.evaluation, .evaluation_scale, .evaluation_resize and .filter those of the weights are "
                       "used)", there, here);
    else
        log_message(LOG_RUN, "%s: its validation images were %s; those of this run are %s", agreement->path, there,
                    here);
}

static void compare_label_offsets(struct agreement *agreement, struct settings *theirs)
{
    struct settings *const settings = agreement->settings;
    const struct option_row *const option = pixels_option(PIXELS_LABEL_OFFSET);
    if (!use_text(theirs, option, text_of(agreement, PIXELS_LABEL_OFFSET)) ||
        initial_weights_head(agreement->weights) == NULL || settings->data.label_offset == theirs->data.label_offset)
        return;
    if (is_given(settings, option) || agreement->use == WEIGHTS_TRAINED_ON)
        add_difference(agreement, "trained with data.label_offset = %" PRId64 "; the configuration has %" PRId64
                       " (without it that of the weights is used)",
                       theirs->data.label_offset, settings->data.label_offset);
    else {
        settings->data.label_offset = theirs->data.label_offset;
        log_message(LOG_RUN, "%s: data.label_offset = %" PRId64 ", as it was trained", agreement->path,
                    theirs->data.label_offset);
    }
}

/* Compare an option on how records are read. If it is not set, the weights' value is used; otherwise values may differ,
 * because other data may need another one. */
static void compare_reading(struct agreement *agreement, size_t setting, struct settings *theirs)
{
    struct settings *const settings = agreement->settings;
    const struct option_row *const option = pixels_option(setting);
    const char *const text = text_of(agreement, setting), *const name = pixels_settings[setting];
    struct option_text room;
    char shown[256];
    if (!use_text(theirs, option, text) || strcmp(option_format(option, settings, &room), text) == 0)
        return;
    log_plain(text, shown, sizeof(shown));
    const char *const here = option_format(option, settings, &room);
    const bool is_evaluated = agreement->use != WEIGHTS_TRAINED_ON;
    if (is_evaluated && !is_given(settings, option)) {
        (void)use_text(settings, option, text);
        log_message(LOG_RUN, "%s: %s = %s, as it was trained", agreement->path, name, shown);
    } else if (is_evaluated && setting == PIXELS_LABEL_KEY)
        add_difference(agreement, "trained with %s = %s; the configuration has '%s' (without it that of the weights is "
                       "used)", name, shown, here);
    else
        log_message(LOG_RUN, "%s: trained with %s = %s; here it is %s", agreement->path, name, shown,
                    *here != '\0' ? here : "not set");
}

/* Compare the shares of held-out records. A larger share includes all records that a smaller one holds out, but not
 * vice versa. */
static void compare_splits(struct agreement *agreement, struct settings *theirs)
{
    struct data_settings *const data = &agreement->settings->data;
    const struct option_row *const option = pixels_option(PIXELS_VALIDATION_SPLIT);
    if (agreement->use != WEIGHTS_EVALUATED || !use_text(theirs, option, text_of(agreement, PIXELS_VALIDATION_SPLIT)))
        return;
    const double split = theirs->data.validation_split;
    if (*data->train != '\0' && *data->validation == '\0' && split > 0 && !is_given(agreement->settings, option)) {
        data->validation_split = split;
        log_message(LOG_RUN, "%s: data.validation_split = %g, as it was trained", agreement->path, split);
    }
    if (data->validation_split > split)
        add_difference(agreement, "trained with data.validation_split = %g; with %g records that it was trained on "
                       "would be evaluated (without it that of the weights is used; name records of another set with "
                       "data.validation)", split, data->validation_split);
}

static int compare_settings(struct agreement *agreement)
{
    struct settings theirs;
    if (settings_init(&theirs) != 0)
        return -ENOMEM;
    compare_scaling(agreement, &theirs);
    compare_label_offsets(agreement, &theirs);
    for (size_t i = PIXELS_LABEL_KEY; i < PIXELS_VALIDATION_SPLIT; i++)
        compare_reading(agreement, i, &theirs);
    compare_splits(agreement, &theirs);
    settings_release(&theirs);
    return 0;
}

/* Is any part of the last layer loaded? Even a part depends on the classes. */
static bool loads_head(const struct net *net, const char *skip)
{
    const struct layer *const head = tensor_match_head(net);
    for (enum parameter_kind i = 0; i < PARAMETER_KIND_COUNT; i++)
        if (layer_has(head, i) && !patterns_match(skip, net->parameters[head->parameters[i]].name))
            return true;
    return false;
}

bool weights_label_offset(const struct settings *settings, int64_t *offset_out)
{
    char problem[256];
    struct tensor_file file;
    struct settings theirs;
    struct net *net = NULL;
    bool is_known = false;
    if (*settings->model.weights == '\0' ||
        tensor_file_open(&file, settings->model.weights, problem, sizeof(problem)) != 0)
        return false;
    const char *const offset = safetensors_index_text(&file.index, WEIGHTS_SETTING "data.label_offset");
    (void)read_net(safetensors_index_text(&file.index, WEIGHTS_NET), &net);
    if (offset != NULL && net != NULL && settings_init(&theirs) == 0) {
        is_known = loads_head(net, settings->model.skip) &&
                   use_text(&theirs, pixels_option(PIXELS_LABEL_OFFSET), offset);
        *offset_out = theirs.data.label_offset;
        settings_release(&theirs);
    }
    net_close(net);
    tensor_file_close(&file);
    return is_known;
}

/* ---- weights without metadata ---- */

/* Describe how the network's computation differs from that of a named model; "" if it does not. */
static int describe_other(const struct agreement *agreement, const struct net *other, char *text, size_t text_size)
{
    char layers[NET_DIFFERENCE_SIZE + 48], here[TRANSFORM_SIZE], there[TRANSFORM_SIZE];
    const int count = compare_layers(agreement, other, layers, sizeof(layers));
    const bool is_same = is_same_transform(agreement->net, other);
    describe_transform(agreement->settings, agreement->net, here);
    describe_transform(agreement->settings, other, there);
    snprintf(text, text_size, "%s%s", count > 0 ? ": " : "", layers);
    if (!is_same)
        snprintf(text + strlen(text), text_size - strlen(text), "%spixels of %s, there %s", count > 0 ? "; " : ": ",
                 here, there);
    return count < 0 ? count : 0;
}

/* The first loaded layer with an order of inputs that its shape does not determine (it reads a flattened image); NULL:
 * there is none. */
static const struct layer *find_flattening(const struct agreement *agreement)
{
    const struct net *const net = agreement->net;
    for (uint32_t i = 0; i < net->layer_count; i++) {
        const struct layer *const layer = &net->layers[i];
        if (layer->kind == LAYER_DENSE && layer->in.channels > 1 && layer->in.height * layer->in.width > 1 &&
            initial_weights_loads(agreement->weights, layer->parameters[PARAMETER_WEIGHT]))
            return layer;
    }
    return NULL;
}

/* Report assumptions, because tensors determine neither the transform of pixels nor the order of channels, padding and
 * activations. */
static void report_assumptions(const struct agreement *agreement)
{
    const struct net *const net = agreement->net;
    const struct layer *const dense = find_flattening(agreement);
    char pixels[TRANSFORM_SIZE], order[160] = "";
    describe_transform(agreement->settings, net, pixels);
    if (dense != NULL)
        snprintf(order, sizeof(order), "; '%s' reads %ux%ux%u in the order C, H, W (Keras: H, W, C)", dense->name,
                 dense->in.channels, dense->in.height, dense->in.width);
    log_message(LOG_RUN, "%s: does not say how it was trained; assumed: %spixels of %s; padding and activations of "
                "'%s'%s", agreement->path, net->input.channels == 3 ? "RGB " : "", pixels, net->model, order);
}

/* ---- weights with names of timm ---- */

/* Describe how the network computes otherwise than a variant, which is a network of the model's tensors. Returns the
 * number of layers that differ, -ENOMEM, or -ENOENT: the file has other tensors. */
static int compare_variant(const struct agreement *agreement, const struct model *model,
                           const struct tensor_variant *variant, char *text, size_t text_size)
{
    struct net *const other = tensor_match_open(initial_weights_index(agreement->weights), model);
    if (other == NULL)
        return -ENOENT;
    tensor_variant_apply(variant, other);
    const int count = compare_layers(agreement, other, text, text_size);
    net_close(other);
    return count;
}

static void report_variant(const struct agreement *agreement, const struct tensor_naming *naming,
                           const struct tensor_variant *variant, const char *others)
{
    char pixels[TRANSFORM_SIZE];
    describe_transform(agreement->settings, agreement->net, pixels);
    log_message(LOG_RUN, "%s: read as weights of %s's %s%s; assumed: RGB pixels of %s, which its pretrained_cfg must have "
                "as mean and std", agreement->path, naming->owner, variant->name, others, pixels);
}

/* Describe how to make a model file that computes as the variant does; "" if the named model does. */
static void describe_edit(const struct tensor_naming *naming, const struct tensor_variant *variant,
                          char text[EDIT_SIZE])
{
    text[0] = '\0';
    if (variant->edit != NULL)
        snprintf(text, EDIT_SIZE, " (a model file of it: pipetrain --describe=%s --net | sed '%s' >%s.net)",
                 naming->model, variant->edit, variant->name);
}

static void add_variant(struct agreement *agreement, const struct tensor_naming *naming,
                        const struct tensor_variant *variant, const char *text)
{
    char edit[EDIT_SIZE];
    describe_edit(naming, variant, edit);
    add_difference(agreement, "its names are those of %s's %s, which computes otherwise than '%s': %s%s", naming->owner,
                   variant->name, agreement->net->model, text, edit);
}

/* Compare with the networks whose tensors have the names of the file: one of them has to compute the same, and those
 * that do not are reported. Returns -ENOENT if the file has other tensors. */
static int compare_variants(struct agreement *agreement, const struct tensor_naming *naming)
{
    const struct model *const model = model_find(naming->model);
    const struct tensor_variant *same = NULL;
    char text[TENSOR_NAMING_VARIANTS][NET_DIFFERENCE_SIZE + 48] = { "" }, edit[EDIT_SIZE], others[1600] = "";
    for (uint32_t i = 0; i < TENSOR_NAMING_VARIANTS && naming->variants[i].name != NULL; i++) {
        const int count = compare_variant(agreement, model, &naming->variants[i], text[i], sizeof(text[i]));
        if (count < 0)
            return count;
        describe_edit(naming, &naming->variants[i], edit);
        if (count == 0)
            same = &naming->variants[i];
        else
            snprintf(others, sizeof(others), "; its %s has tensors of the same names, and computes otherwise: %s%s",
                     naming->variants[i].name, text[i], edit);
    }
    for (uint32_t i = 0; i < TENSOR_NAMING_VARIANTS && naming->variants[i].name != NULL && same == NULL; i++)
        add_variant(agreement, naming, &naming->variants[i], text[i]);
    if (same != NULL)
        report_variant(agreement, naming, same, others);
    return 0;
}

/* ---- published networks ---- */

/* Compare with the published networks that have the tensors of the file: report one that computes differently, unless
 * another one computes the same. If there is none, report the assumptions. */
static int compare_published(const struct agreement *agreement)
{
    char text[1600], found[1600] = "";
    const char *name = "";
    for (const struct model *model = model_table; model->name != NULL; model++) {
        struct net *other =
            model->is_torchvision ? tensor_match_open(initial_weights_index(agreement->weights), model) : NULL;
        const int rc = other != NULL ? describe_other(agreement, other, text, sizeof(text)) : 0;
        const bool is_this = other != NULL && text[0] == '\0';
        net_close(other);
        if (rc != 0 || is_this)
            return rc;
        if (other != NULL) {
            name = model->name;
            snprintf(found, sizeof(found), "%s", text);
        }
    }
    if (strcmp(name, agreement->net->model) == 0)
        log_message(LOG_PROBLEM, "%s: does not name its network; torchvision's weights of '%s' were trained "
                    "otherwise%s", agreement->path, name, found);
    else if (*name != '\0')
        log_message(LOG_PROBLEM, "%s: does not name its network, and its tensors are those of '%s', too: name that "
                    "model if they are torchvision's, because it computes otherwise than '%s'%s", agreement->path, name,
                    agreement->net->model, found);
    else
        report_assumptions(agreement);
    return 0;
}

/* Compare weights of other programs with the networks that they may be of. */
static int compare_foreign(struct agreement *agreement)
{
    const struct tensor_naming *const naming = initial_weights_naming(agreement->weights);
    const int rc = naming != NULL && naming->model != NULL ? compare_variants(agreement, naming) : -ENOENT;
    return rc == -ENOENT ? compare_published(agreement) : rc;
}

/* ---- the whole ---- */

int weights_agree(const struct initial_weights *weights, const char *path, struct settings *settings, struct net *net,
                  enum weights_use use, struct problems *problems)
{
    struct agreement agreement = { .weights = weights, .path = path, .settings = settings, .net = net, .use = use,
                                   .problems = problems };
    int rc = read_net(initial_weights_text(weights, WEIGHTS_NET), &agreement.trained);
    if (rc == 0 && agreement.trained == NULL)
        rc = compare_foreign(&agreement);
    else if (rc == 0) {
        rc = compare_networks(&agreement);
        compare_transforms(&agreement);
        if (rc == 0)
            rc = compare_settings(&agreement);
    }
    net_close(agreement.trained);
    return rc != 0 ? rc : end_differences(&agreement);
}
