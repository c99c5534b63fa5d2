/* The output of --describe: the list of models, and the layers, counts and recipe of one model. */
#include "tools/describe.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "compute/model.h"
#include "compute/netfile/net_file.h"
#include "compute/tower.h"
#include "stage/log.h"
#include "tools/lib/config/options.h"
#include "tools/lib/config/recipes.h"
#include "tools/lib/run/memory_needs.h"
#include "tools/lib/run/parts_gain.h"
#include "tools/lib/run/run_plan.h"
#include "tools/lib/text/number.h"

#define COLUMNS 79u
#define INPUTS_INDENT 4

static int wider(int width, const char *text)
{
    const int length = (int)strlen(text);
    return length > width ? length : width;
}

/* ---- the list of models ---- */

/* Print a name and, beside it, a text that is wrapped in its own column. */
static void print_beside(const char *name, int width, const char *text, FILE *out)
{
    const size_t room = COLUMNS - (size_t)width - 2;
    while (*text != '\0') {
        size_t bytes = strlen(text);
        if (bytes > room)
            for (bytes = room; bytes > 0 && text[bytes] != ' ';)
                bytes--;
        fprintf(out, "%-*s  %.*s\n", width, name, (int)bytes, text);
        text += bytes + (text[bytes] == ' ');
        name = "";
    }
}

static bool is_alike(const struct model *a, const struct model *b)
{
    return a->input.channels == b->input.channels && a->input.height == b->input.height &&
           a->input.width == b->input.width && a->classes == b->classes;
}

/* Is it the first model in the table with this image size and number of classes? */
static bool is_first(const struct model *model)
{
    for (const struct model *before = model_table; before != model; before++)
        if (is_alike(before, model))
            return false;
    return true;
}

static int find_name_width(void)
{
    int width = 0;
    for (const struct model *model = model_table; model->name != NULL; model++)
        width = wider(width, model->name);
    return width;
}

static void print_model(const struct model *model, int width, FILE *out)
{
    char text[256];
    snprintf(text, sizeof(text), "%s%s%s%s", model->summary, model->alias != NULL ? " (also called " : "",
             model->alias != NULL ? model->alias : "", model->alias != NULL ? ")" : "");
    print_beside(model->name, width, text, out);
}

void describe_models(FILE *out)
{
    const int width = find_name_width();
    for (const struct model *first = model_table; first->name != NULL; first++) {
        if (!is_first(first))
            continue;
        fprintf(out, "%simages of %ux%ux%u, %u classes:\n", first == model_table ? "" : "\n", first->input.height,
                first->input.width, first->input.channels, first->classes);
        for (const struct model *model = first; model->name != NULL; model++)
            if (is_alike(model, first))
                print_model(model, width, out);
    }
    fprintf(out, "\ndata.classes sets another number of classes; --describe=MODEL shows the layers\n");
}

/* ---- one model ---- */

/* The number of trained parameters of a layer. */
static uint64_t layer_parameters(const struct net *net, uint32_t layer)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < net->parameter_count; i++)
        if (net->parameters[i].layer == layer && net->parameters[i].is_trained)
            count += net->parameters[i].count;
    return count;
}

static void describe_window(const struct layer *layer, char *text, size_t text_size)
{
    const uint32_t sides[] = { layer->pad_top, layer->pad_bottom, layer->pad_left, layer->pad_right };
    const int used = snprintf(text, text_size, " %ux%u/%u", layer->kernel_h, layer->kernel_w, layer->stride_h);
    char *const rest = text + used;
    const size_t room = text_size - (size_t)used;
    const bool are_equal = sides[0] == sides[1] && sides[0] == sides[2] && sides[0] == sides[3];
    if (are_equal && sides[0] == 0)
        return;
    if (are_equal)
        snprintf(rest, room, " pad %u", sides[0]);
    else if (sides[0] == sides[2] && sides[1] == sides[3])
        snprintf(rest, room, " pad %u/%u", sides[0], sides[1]);
    else
        snprintf(rest, room, " pad %u,%u,%u,%u", sides[0], sides[1], sides[2], sides[3]);
}

/* The kind of the layer and its attributes. */
static void describe_what(const struct layer *layer, char *text, size_t text_size)
{
    const int used = snprintf(text, text_size, "%s", layer_word(layer));
    char *const rest = text + used;
    const size_t room = text_size - (size_t)used;
    if (layer->kernel_h > 0)
        describe_window(layer, rest, room);
    if (layer->groups > 1)
        snprintf(text + strlen(text), text_size - strlen(text), " groups %u", layer->groups);
    if (layer->kind == LAYER_DROPOUT || layer->kind == LAYER_STOCHASTIC_DEPTH)
        snprintf(rest, room, " %g", (double)layer->rate);
    else if (layer->kind == LAYER_ACTIVATION && layer->limit > 0)
        snprintf(rest, room, " limit %g", (double)layer->limit);
    else if (layer->kind == LAYER_AUXILIARY_LOSS)
        snprintf(rest, room, " x %g", (double)layer->loss_weight);
}

static void describe_shape(struct shape shape, char *text, size_t text_size)
{
    if (shape.height == 1 && shape.width == 1)
        snprintf(text, text_size, "%u", shape.channels);
    else
        snprintf(text, text_size, "%ux%ux%u", shape.channels, shape.height, shape.width);
}

/* A row of the table, and the widths of the columns. A number that is 0 is printed as an empty cell. */
struct row {
    const char *name;
    char what[64], shape[40], parameters[32], macs[32];
};

struct widths { int name, what, shape, parameters, macs; };

static struct row describe_row(const struct net *net, uint32_t index)
{
    const struct layer *const layer = &net->layers[index];
    const uint64_t parameters = layer_parameters(net, index);
    struct row row = { .name = layer->name };
    describe_what(layer, row.what, sizeof(row.what));
    describe_shape(layer->out, row.shape, sizeof(row.shape));
    if (parameters > 0)
        snprintf(row.parameters, sizeof(row.parameters), "%s", number_grouped(parameters).text);
    if (layer->macs > 0)
        snprintf(row.macs, sizeof(row.macs), "%.3f", (double)layer->macs / 1e6);
    return row;
}

static const struct row head = { "layer", "kind", "out CxHxW", "trained", "MACs, M" };

static void widen(struct widths *widths, const struct row *row)
{
    widths->name = wider(widths->name, row->name);
    widths->what = wider(widths->what, row->what);
    widths->shape = wider(widths->shape, row->shape);
    widths->parameters = wider(widths->parameters, row->parameters);
    widths->macs = wider(widths->macs, row->macs);
}

/* Columns are as wide as their contents; the column of names gets the rest of the line. */
static struct widths find_widths(const struct net *net)
{
    struct widths widths = { 0 };
    widen(&widths, &head);
    for (uint32_t i = 0; i < net->layer_count; i++) {
        const struct row row = describe_row(net, i);
        widen(&widths, &row);
    }
    const int room = (int)COLUMNS - 6 - widths.what - widths.shape - widths.parameters - widths.macs;
    const int least = (int)strlen(head.name);
    if (widths.name > room)
        widths.name = room > least ? room : least;
    return widths;
}

/* A name that is too long is printed on a line of its own. */
static void print_row(const struct row *row, const struct widths *widths, FILE *out)
{
    char line[512];
    const bool is_above = (int)strlen(row->name) > widths->name;
    if (is_above)
        fprintf(out, "%s\n", row->name);
    int length = snprintf(line, sizeof(line), "%-*s  %-*s  %-*s %*s %*s", widths->name, is_above ? "" : row->name,
                          widths->what, row->what, widths->shape, row->shape, widths->parameters, row->parameters,
                          widths->macs, row->macs);
    while (length > 0 && line[length - 1] == ' ')
        length--;
    fprintf(out, "%.*s\n", length, line);
}

static const char *input_name(const struct net *net, uint32_t input)
{
    return input == NET_INPUT ? "the image" : net->layers[input].name;
}

/* The inputs of the layer, on lines of their own, unless its only input is the layer before it. */
static void print_inputs(const struct net *net, uint32_t index, FILE *out)
{
    const struct layer *const layer = &net->layers[index];
    const uint32_t before = index == 0 ? NET_INPUT : index - 1;
    char text[LAYER_INPUTS_MAX * (sizeof(layer->name) + 3) + 8] = "of ";
    if (layer->input_count == 1 && layer->inputs[0] == before)
        return;
    for (uint32_t i = 0; i < layer->input_count; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s",
                 i == 0 ? "" : layer->kind == LAYER_ADD ? " + " : layer->kind == LAYER_MULTIPLY ? " * " : ", ",
                 input_name(net, layer->inputs[i]));
    print_beside("", INPUTS_INDENT - 2, text, out);
}

static void print_layers(const struct net *net, FILE *out)
{
    const struct widths widths = find_widths(net);
    print_row(&head, &widths, out);
    for (uint32_t i = 0; i < net->layer_count; i++) {
        const struct row row = describe_row(net, i);
        print_row(&row, &widths, out);
        print_inputs(net, i, out);
    }
}

/* The counts are defined in doc/models.md, "Counts". */
static void print_counts(const struct net *net, FILE *out)
{
    const size_t trained = net->trainable_count, statistics = net->statistic_count;
    fprintf(out, "\nparameters   P = %s, trained (%s)\n", number_grouped(trained).text,
            number_bytes(trained * sizeof(float)).text);
    fprintf(out, "variables    G = %s: P, %s statistics, a step counter\n",
            number_grouped(trained + statistics + 1).text, number_grouped(statistics).text);
    fprintf(out, "MACs         %s an image, forward\n", number_grouped(net->macs).text);
}

static void print_recipe(const struct net *net, FILE *out)
{
    const struct recipe_value *const recipe = recipe_find(net->model);
    char text[RECIPE_TEXT_SIZE];
    if (recipe == NULL)
        return;
    recipe_describe(recipe, text);
    print_beside("recipe", 11, text, out);
}

/* What model.parts sends, or would send, if the net ends in dense layers. */
static void print_parts(const struct net *net, const struct settings *settings, FILE *out)
{
    const uint32_t towers = settings_towers(settings), parts = (uint32_t)settings->model.parts;
    const uint32_t slices = settings->train.slices > 0 ? (uint32_t)settings->train.slices : towers;
    const uint32_t batch = (uint32_t)settings_global_batch(settings);
    struct parts_step step = { .parts = parts > 0 ? parts : towers, .towers = towers,
                               .rows = (batch + slices - 1) / slices * slices };
    struct parts_gain gain;
    char layers[PARTS_TEXT_SIZE], sent[PARTS_TEXT_SIZE], what[PARTS_TEXT_SIZE + 64], text[3 * PARTS_TEXT_SIZE];
    if (!parts_gain_find(&gain, net, &step)) {
        step = (struct parts_step){ .parts = 1, .towers = 1, .rows = batch };
        if (!parts_gain_find(&gain, net, &step))
            return;
    }
    parts_gain_layers(&gain.head, net, layers);
    parts_gain_describe(&gain, sent);
    if (parts > 0)
        snprintf(what, sizeof(what), "%s in %u part%s", layers, parts, parts == 1 ? "" : "s");
    else if (step.towers > 1)
        snprintf(what, sizeof(what), "model.parts = %u would divide %s", step.parts, layers);
    else
        snprintf(what, sizeof(what), "model.parts would divide %s", layers);
    if (step.towers > 1)
        snprintf(text, sizeof(text), "%s: %s (batch %u, %u towers); less below a batch of %s", what, sent, batch, towers,
                 number_grouped(gain.batch).text);
    else
        snprintf(text, sizeof(text), "%s: towers send less than all gradients below a batch of %s", what,
                 number_grouped(gain.batch).text);
    print_beside("parts", 11, text, out);
}

/* The fastest backend for this CPU, chosen as in a run. */
static const struct backend_ops *find_backend(struct backend_spec *spec)
{
    const struct backend_ops *const fast = backend_find("onednn");
    const struct backend_ops *const ops = fast != NULL ? fast : &backend_reference_ops;
    struct unsupported_reason reason;
    if (ops->supports(spec, &reason) != 0) {
        spec->precision = PRECISION_FP32;
        spec->layout = LAYOUT_AUTO;
    }
    return ops;
}

/* Let the tower have the first parts of the head and the first slices, if the settings have parts. */
static void add_parts(struct tower_spec *spec, const struct settings *settings)
{
    const uint32_t towers = settings_towers(settings), parts = (uint32_t)settings->model.parts;
    const uint32_t slices = (uint32_t)settings->train.slices;
    if (parts == 0)
        return;
    spec->slices = (struct tower_slices){ .all = slices, .count = slices / towers };
    spec->parts = (struct tower_parts){ .all = parts, .count = parts / towers,
                                        .batch = (uint32_t)settings_global_batch(settings) };
}

/* The bytes of activations and gradients, from a plan: nothing is allocated. */
static int find_values(const struct net *net, const struct settings *settings, const struct backend_ops *ops,
                       const struct backend_spec *backend_spec, size_t *bytes_out)
{
    struct tower_spec spec = { .net = net, .backend = ops, .backend_spec = *backend_spec,
                               .train_counts = { backend_spec->local_max } };
    add_parts(&spec, settings);
    struct tower_needs needs;
    const int rc = memory_needs_tower(&spec, &device_host_ops, &needs);
    if (rc == 0)
        *bytes_out = needs.backend.values;
    return rc;
}

/* The largest microbatch of a tower. */
static uint32_t find_local_max(struct settings *settings, int64_t towers)
{
    const struct train_settings *const train = &settings->train;
    const int64_t batch = train->batch > 0 ? train->batch : train->batch_per_tower * towers;
    const int64_t parts = train->slices > 0 ? train->slices : towers;
    return (uint32_t)(((batch > 0 ? batch : TRAIN_BATCH_DEFAULT) + parts - 1) / parts);
}

static int make_spec(struct settings *settings, struct backend_spec *spec_out)
{
    const struct device_settings *const devices = &settings->devices;
    const int64_t towers = devices->towers > 0 ? devices->towers : 1;
    const int rc = recipe_apply(settings);
    *spec_out = (struct backend_spec){
        .threads = run_plan_threads(settings, (uint32_t)towers), .local_max = find_local_max(settings, towers),
        .layout = devices->layout, .convolution = devices->convolution,
        .batch_statistics = devices->batch_statistics, .allow_ref = devices->allow_ref,
        .precision = devices->precision, .graph = devices->graph, .fuses = devices->fuse != FUSE_NO,
        .workspace_max = (size_t)devices->workspace,
    };
    return rc;
}

/* The device of a training step, the bytes of its activations and gradients, and (on a GPU) its calls. */
struct step { const char *place; size_t value_bytes; struct step_counts counts; };

static int find_step_on_cpu(const struct net *net, const struct settings *settings, struct backend_spec *spec,
                            struct step *step_out)
{
    const struct backend_ops *const ops = find_backend(spec);
    step_out->place = "the CPU";
    return find_values(net, settings, ops, spec, &step_out->value_bytes);
}

/* The calls are counted without queuing them, so no GPU is needed. */
static int find_step_on_gpu(const struct net *net, struct backend_spec *spec, struct step *step_out)
{
    const struct backend_ops *const ops = backend_find("cuda");
    if (ops == NULL) {
        log_message(LOG_ERROR, "devices.kind = cuda: this program was built without CUDA");
        return -ENODEV;
    }
    struct unsupported_reason reason;
    const struct backend_spec wishes = { .net = net, .precision = spec->precision,
                                         .batch_statistics = spec->batch_statistics };
    if (ops->supports(&wishes, &reason) != 0) {
        log_message(LOG_ERROR, "%s", reason.why);
        return -EINVAL;
    }
    spec->net = net;
    const int rc = ops->count_step(spec, spec->local_max, &step_out->counts);
    step_out->place = "a GPU";
    step_out->value_bytes = step_out->counts.value_bytes;
    return rc;
}

static void print_step(const struct step_counts *counts, FILE *out)
{
    char text[256];
    snprintf(text, sizeof(text), "%" PRIu32 " own kernels, %" PRIu32 " convolutions by cuDNN, %" PRIu32
             " products by cuBLASLt, %" PRIu32 " cop%s, and the update; %s", counts->kernels, counts->convolutions,
             counts->products, counts->copies, counts->copies == 1 ? "y" : "ies",
             counts->is_recorded ? "replayed as a few CUDA graphs" : "queued call by call");
    print_beside("a step is", 11, text, out);
}

static size_t step_bytes(const struct step_counts *counts)
{
    size_t bytes = 0;
    for (int work = 0; work < STEP_WORK_COUNT; work++)
        bytes += counts->bytes[work];
    return bytes;
}

/* In decimal units, as bandwidths are. */
static void print_step_bytes(const struct step_counts *counts, FILE *out)
{
    static const char *const names[STEP_WORK_COUNT] = {
        [STEP_CONVOLUTIONS] = "convolutions", [STEP_NORMS] = "normalisation", [STEP_SUMS] = "sums of branches",
        [STEP_OTHERS] = "the rest",
    };
    const double all = (double)step_bytes(counts), unit = all < 1e9 ? 1e6 : 1e9;
    char text[256];
    int at = snprintf(text, sizeof(text), "%.1f %s read and written in device memory:", all / unit,
                      unit == 1e6 ? "MB" : "GB");
    for (int work = 0; work < STEP_WORK_COUNT; work++)
        at += snprintf(text + at, sizeof(text) - (size_t)at, "%s %s %.1f", work > 0 ? "," : "", names[work],
                       (double)counts->bytes[work] / unit);
    snprintf(text + at, sizeof(text) - (size_t)at, "; %.1f read from the cache of an H100, as expected",
             (double)counts->cached_bytes / unit);
    print_beside("bytes moved", 11, text, out);
}

int describe_net(const struct net *net, struct settings *settings, FILE *out)
{
    struct backend_spec spec;
    struct step step = { .value_bytes = 0 };
    const bool is_on_gpu = settings->devices.kind == DEVICE_CHOICE_CUDA;
    int rc = make_spec(settings, &spec);
    if (rc == 0)
        rc = is_on_gpu ? find_step_on_gpu(net, &spec, &step) : find_step_on_cpu(net, settings, &spec, &step);
    if (rc != 0)
        return rc;
    fprintf(out, "%s: image %ux%ux%u, %u class%s\n\n", net->model, net->input.height, net->input.width,
            net->input.channels, net->classes, net->classes == 1 ? "" : "es");
    print_layers(net, out);
    print_counts(net, out);
    fprintf(out, "activations  %s with gradients, training at batch %u on %s in %s%s\n",
            number_bytes(step.value_bytes).text, spec.local_max, step.place, precision_name(spec.precision),
            is_on_gpu && settings->model.parts > 0 ? ", without parts" : "");
    print_parts(net, settings, out);
    if (is_on_gpu)
    {
        print_step(&step.counts, out);
        print_step_bytes(&step.counts, out);
    }
    print_recipe(net, out);
    return 0;
}

/* Print the rows of a section as comments, which can be copied into a configuration file without the comment marks. */
static void print_recipe_section(const struct recipe_value *recipe, enum section section, FILE *out)
{
    bool is_first_of_section = true;
    for (; recipe->key != NULL; recipe++) {
        if (recipe_section(recipe) != section)
            continue;
        if (is_first_of_section)
            fprintf(out, "# [%s]\n", section_name(section));
        fprintf(out, "# %s = %s\n", recipe->key, recipe->value);
        is_first_of_section = false;
    }
}

int describe_as_file(const struct net *net, const struct settings *settings, FILE *out)
{
    const struct recipe_value *const recipe = recipe_find(net->model);
    const int rc = net_file_write(net, out);
    if (rc != 0 || recipe == NULL || *settings->model.file != '\0')
        return rc;
    fprintf(out, "\n# A file has no recipe. That of %s, for the configuration that names this file:\n", net->model);
    print_recipe_section(recipe, SECTION_TRAIN, out);
    print_recipe_section(recipe, SECTION_AUGMENT, out);
    return 0;
}
