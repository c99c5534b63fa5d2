/* Loads weights from other programs. Names and shapes are compared before anything is started. */
#include "tools/lib/results/initial_weights.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/floats.h"
#include "stage/log.h"
#include "stage/stop.h"
#include "stage/text/names.h"
#include "tools/lib/config/model_hints.h"
#include "tools/lib/results/checkpoint_format.h"
#include "tools/lib/results/tensor_file.h"
#include "tools/lib/results/tensor_match.h"
#include "tools/lib/results/tensor_naming.h"
#include "tools/lib/results/weights.h"
#include "tools/lib/text/wrapped.h"

#define NAMED_MAX 4u            /* the most tensors that a message names for each kind of difference */
#define LIST_BYTES 512u

/* The number of names, and a list of the first ones. */
struct names { uint32_t count; char list[LIST_BYTES]; };

struct initial_weights {
    const struct net *net;
    const char *path, *skip;
    uint64_t data_classes;      /* 0: unknown */
    struct tensor_file file;
    const struct safetensors_tensor *tensors[NET_PARAMETERS_MAX];   /* [parameter of the network]; NULL: skipped */
    struct names skipped;       /* parameters of the network that model.skip matches */
    struct names aside;         /* tensors of the file that model.skip matches, and that the network does not have */
    uint32_t batch_counts, of_state;    /* numbers of tensors of the file that are not used */
    char prefix[128];           /* removed from names of the file; "" = none */
    bool is_prefix_of_all;      /* names that model.skip matches have the prefix, too */
    const struct tensor_naming *naming;     /* from which names of the file were translated; NULL: none were */
    const char **given;         /* [tensor of the file]: its name there, without the prefix */
    char (*translated)[TENSOR_NAMING_BYTES];
};

static void add_name(struct names *names, const char *name)
{
    const size_t used = strlen(names->list);
    if (names->count++ < NAMED_MAX)
        snprintf(names->list + used, LIST_BYTES - used, "%s%.100s", used == 0 ? "" : ", ", name);
}

/* A text for the names that are not listed: " and 7 more". */
struct more { char text[32]; };

static struct more more(const struct names *names)
{
    struct more more = { "" };
    if (names->count > NAMED_MAX)
        snprintf(more.text, sizeof(more.text), " and %u more", names->count - NAMED_MAX);
    return more;
}

/* ---- differences ---- */

enum difference { DIFFERENCE_MISSING, DIFFERENCE_UNKNOWN, DIFFERENCE_SHAPE, DIFFERENCE_COUNT };

static const char *const difference_words[DIFFERENCE_COUNT] = {
    [DIFFERENCE_MISSING] = "missing in the file",
    [DIFFERENCE_UNKNOWN] = "unknown to the network",
    [DIFFERENCE_SHAPE] = "with another shape or type",
};

static void shape_text(const uint64_t *dims, uint32_t rank, char *text, size_t text_size)
{
    text[0] = '\0';
    for (uint32_t i = 0; i < rank; i++)
        snprintf(text + strlen(text), text_size - strlen(text), "%s%" PRIu64, i == 0 ? "" : "x", dims[i]);
}

static void add_shape(struct names *names, const struct safetensors_tensor *tensor,
                      const struct parameter *parameter)
{
    char text[256], theirs[96], ours[96];
    uint64_t dims[4];
    for (uint32_t i = 0; i < parameter->rank; i++)
        dims[i] = parameter->dims[i];
    shape_text(tensor->dims, tensor->rank, theirs, sizeof(theirs));
    shape_text(dims, parameter->rank, ours, sizeof(ours));
    snprintf(text, sizeof(text), "%s (%.8s %.30s, not F32 %.30s)", parameter->name, tensor->dtype, theirs, ours);
    add_name(names, text);
}

/* ---- prefixes of modules that wrap the network ---- */

/* Does the name match model.skip, so that it need not have the prefix? */
static bool has_no_prefix(const char *skip, const char *name)
{
    return strcmp(name, "n_averaged") == 0 || patterns_match(skip, name);
}

/* The length of the longest prefix that all names have and that ends in a dot. */
static size_t common_prefix(const struct safetensors_index *index, const char *skip, const char **first_out)
{
    const char *first = NULL;
    size_t length = 0;
    for (size_t i = 0; i < index->count; i++) {
        const char *const name = index->tensors[i].name;
        size_t same = 0;
        if (has_no_prefix(skip, name))
            continue;
        if (first == NULL) {
            first = name;
            length = strlen(name);
        }
        while (same < length && name[same] == first[same])
            same++;
        length = same;
    }
    while (length > 0 && first[length - 1] != '.')
        length--;
    *first_out = first;
    return length;
}

static bool has_prefix(const struct net *net, const char *prefix, size_t bytes)
{
    for (uint32_t i = 0; i < net->parameter_count; i++)
        if (strncmp(net->parameters[i].name, prefix, bytes) == 0)
            return true;
    return false;
}

/* Is any name of the file, without its first `prefix_bytes`, a name of the network, perhaps in another naming? */
static bool leads_to_names(const struct initial_weights *weights, const char *skip, size_t prefix_bytes)
{
    const struct net *const net = weights->net;
    for (size_t i = 0; i < weights->file.index.count; i++) {
        const char *const name = weights->file.index.tensors[i].name;
        if (!has_no_prefix(skip, name) && strlen(name) > prefix_bytes &&
            (net_parameter_find(net, name + prefix_bytes) != NULL || tensor_naming_knows(net, name + prefix_bytes)))
            return true;
    }
    return false;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* The length of the prefixes that PyTorch's wrappers add to a name. */
static size_t wrappers_of(const char *name)
{
    size_t bytes = 0;
    for (size_t more = 1; more > 0; bytes += more)
        more = begins(name + bytes, "module.") ? 7 : begins(name + bytes, "_orig_mod.") ? 10 : 0;
    return bytes;
}

/* Remove a prefix that all names of the file have: the shortest one without which one of them is a name of the network;
 * or else the prefixes of PyTorch's DataParallel ("module.") and torch.compile ("_orig_mod."). Nothing is removed if
 * names of the network begin with the prefix. Names that `skip` matches need not have it. */
static void strip_prefix(struct initial_weights *weights, const char *skip)
{
    struct safetensors_index *const index = &weights->file.index;
    const size_t used = strlen(weights->prefix);
    const char *first;
    const size_t most = common_prefix(index, skip, &first);
    size_t bytes = 0;
    for (size_t i = 1; i <= most && bytes == 0; i++) {
        if (first[i - 1] != '.')
            continue;
        if (has_prefix(weights->net, first, i))
            return;
        bytes = leads_to_names(weights, skip, i) ? i : 0;
    }
    if (bytes == 0 && most > 0)
        bytes = wrappers_of(first) <= most ? wrappers_of(first) : 0;
    if (bytes == 0 || used + bytes >= sizeof(weights->prefix))
        return;
    memcpy(weights->prefix + used, first, bytes);
    weights->is_prefix_of_all = *skip == '\0';
    for (size_t i = 0; i < index->count; i++)
        if (!has_no_prefix(skip, index->tensors[i].name))
            index->tensors[i].name += bytes;
}

/* Write a text such as "all its names begin with 'module.' (PyTorch's DataParallel)". */
static void describe_prefix(const struct initial_weights *weights, char *text, size_t text_size)
{
    char prefix[sizeof(weights->prefix)];
    const bool is_parallel = strstr(weights->prefix, "module.") != NULL;
    const bool is_compiled = strstr(weights->prefix, "_orig_mod.") != NULL;
    log_escape(weights->prefix, strlen(weights->prefix), prefix, sizeof(prefix));
    snprintf(text, text_size, "all its names %sbegin with '%s'%s%s%s%s",
             weights->is_prefix_of_all ? "" : "that are not skipped ", prefix,
             is_parallel || is_compiled ? " (PyTorch's " : "", is_parallel ? "DataParallel" : "",
             is_parallel && is_compiled ? " and " : "",
             is_compiled ? "torch.compile)" : is_parallel ? ")" : "");
}

/* ---- names of other programs ---- */

/* Give the tensors the names that they have here. A name that another tensor of the file has is not given twice. */
static void use_naming(struct initial_weights *weights, const struct tensor_naming *naming)
{
    struct safetensors_index *const index = &weights->file.index;
    for (size_t i = 0; i < index->count; i++)
        index->tensors[i].name = weights->given[i];
    for (size_t i = 0; i < index->count && naming != NULL; i++)
        if (tensor_naming_translate(naming, weights->given[i], weights->translated[i]) &&
            tensor_find(index, weights->translated[i]) == NULL)
            index->tensors[i].name = weights->translated[i];
}

static int translate_names(struct initial_weights *weights)
{
    const struct safetensors_index *const index = &weights->file.index;
    weights->given = calloc(index->count + 1, sizeof(*weights->given));
    weights->translated = calloc(index->count + 1, sizeof(*weights->translated));
    if (weights->given == NULL || weights->translated == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < index->count; i++)
        weights->given[i] = index->tensors[i].name;
    weights->naming = tensor_naming_find(index, weights->net);
    use_naming(weights, weights->naming);
    return 0;
}

/* Write a text such as "its names are those of timm's mobilenetv2_100". */
static void describe_naming(const struct initial_weights *weights, char *text, size_t text_size)
{
    const char *const network = weights->naming->variants[0].name;
    snprintf(text, text_size, "its names are those of %s%s%s", weights->naming->owner, network != NULL ? "'s " : "",
             network != NULL ? network : "");
}

/* Assign a tensor of the file to a parameter, or count it. */
static void assign_tensor(struct initial_weights *weights, const struct safetensors_tensor *tensor,
                          struct names *unknown)
{
    const struct parameter *const parameter = net_parameter_find(weights->net, tensor->name);
    const bool is_skipped = patterns_match(weights->skip, tensor->name);
    if (parameter != NULL)
        weights->tensors[parameter - weights->net->parameters] = is_skipped ? NULL : tensor;
    else if (tensor_is_counter(tensor->name))
        weights->batch_counts++;
    else if (initial_weights_text(weights, CHECKPOINT_KEY_VERSION) != NULL && checkpoint_name_is_state(tensor->name))
        weights->of_state++;
    else
        add_name(is_skipped ? &weights->aside : unknown, tensor->name);
}

static void compare_names(struct initial_weights *weights, struct names differences[DIFFERENCE_COUNT])
{
    const struct net *const net = weights->net;
    for (size_t i = 0; i < weights->file.index.count; i++)
        assign_tensor(weights, &weights->file.index.tensors[i], &differences[DIFFERENCE_UNKNOWN]);
    for (uint32_t i = 0; i < net->parameter_count; i++) {
        const struct safetensors_tensor *const tensor = weights->tensors[i];
        if (patterns_match(weights->skip, net->parameters[i].name))
            add_name(&weights->skipped, net->parameters[i].name);
        else if (tensor == NULL)
            add_name(&differences[DIFFERENCE_MISSING], net->parameters[i].name);
        else if (!tensor_has_shape(tensor, &net->parameters[i]))
            add_shape(&differences[DIFFERENCE_SHAPE], tensor, &net->parameters[i]);
    }
}

/* Report the models that have all tensors of the file, in each of the namings. */
static void report_models(struct initial_weights *weights, struct problems *problems)
{
    char models[TENSOR_MATCH_SIZE];
    const size_t count = weights->file.index.count - weights->batch_counts - weights->of_state;
    use_naming(weights, NULL);
    tensor_match_models(&weights->file.index, count, models);
    if (models[0] != '\0')
        problems_add(problems, weights->path, "its tensors are those of %s", models);
    for (const struct tensor_naming *naming = tensor_namings; naming->owner != NULL && models[0] == '\0'; naming++) {
        use_naming(weights, naming);
        tensor_match_models(&weights->file.index, count, models);
        if (models[0] != '\0')
            problems_add(problems, weights->path, "its tensors are those of %s, with the names of %s", models,
                         naming->owner);
    }
    use_naming(weights, weights->naming);
}

/* Report the program whose names the file has, where they are not translated. */
static void report_stranger(const struct initial_weights *weights, struct problems *problems)
{
    const struct safetensors_index *const index = &weights->file.index;
    const char *const model = weights->net->model, *const name = strncmp(model, "torchvision_", 12) == 0 ? model + 12
                                                                                                          : model;
    const struct model *const known = model_find(model);
    const char *owner = NULL;
    char shown[256];
    size_t i = 0;
    while (i < index->count && (owner = tensor_naming_stranger(weights->given[i])) == NULL)
        i++;
    if (owner == NULL)
        return;
    log_plain(weights->given[i], shown, sizeof(shown));
    problems_add(problems, weights->path, "its names are those of %s (%s), which are not translated; those of "
                 "torchvision and timm are", owner, shown);
    if (known != NULL && known->is_torchvision)
        problems_add(problems, weights->path, "torchvision's weights: python3 -c \"import torchvision; from "
                     "safetensors.torch import save_file; save_file(torchvision.models.%s(weights='DEFAULT')"
                     ".state_dict(), '%s.safetensors')\"", name, name);
}

/* ---- other classes ---- */

/* The layers with one output for each class, where the file has another number of classes than the network. */
struct heads { uint64_t classes; uint32_t tensors; struct names patterns; };

/* Do a tensor of the file and the parameter differ in the number of classes alone? */
static bool has_other_classes(const struct safetensors_tensor *tensor, const struct parameter *parameter,
                              uint32_t classes)
{
    struct parameter other = *parameter;
    if (tensor == NULL || parameter->dims[0] != classes || tensor->rank == 0 || tensor->dims[0] == classes ||
        tensor->dims[0] > UINT32_MAX)
        return false;
    other.dims[0] = (uint32_t)tensor->dims[0];
    return tensor_has_shape(tensor, &other);
}

static void find_heads(const struct initial_weights *weights, struct heads *heads)
{
    const struct net *const net = weights->net;
    uint32_t layer = UINT32_MAX;
    for (uint32_t i = 0; i < net->parameter_count; i++) {
        const struct parameter *const parameter = &net->parameters[i];
        char pattern[64];
        if (!has_other_classes(weights->tensors[i], parameter, net->classes))
            continue;
        snprintf(pattern, sizeof(pattern), "%s.*", net->layers[parameter->layer].name);
        if (parameter->layer != layer)
            add_name(&heads->patterns, pattern);
        layer = parameter->layer;
        heads->classes = weights->tensors[i]->dims[0];
        heads->tensors++;
    }
}

/* Report a network with a single output, whose softmax is 1 for every image. */
static void report_one_output(const struct initial_weights *weights, const char *otherwise, struct problems *problems)
{
    problems_add(problems, weights->path, "has one output, as a network with a sigmoid has (BCEWithLogitsLoss); "
                 "softmax needs one for each of two classes: save its last layer with two rows, 0 and w (bias: 0 and "
                 "b), because softmax of (0, z) is sigmoid of z%s", otherwise);
}

/* Report that the file has another number of classes than the network. False if that is not the only difference. */
static bool report_classes(const struct initial_weights *weights, const struct names differences[DIFFERENCE_COUNT],
                           bool may_skip, struct problems *problems)
{
    struct heads heads = { .classes = 0 };
    find_heads(weights, &heads);
    if (heads.tensors == 0 || heads.tensors != differences[DIFFERENCE_SHAPE].count ||
        differences[DIFFERENCE_MISSING].count + differences[DIFFERENCE_UNKNOWN].count > 0)
        return false;
    const bool is_fixed = weights->data_classes > 0 && weights->data_classes != heads.classes;
    char otherwise[LIST_BYTES + 96] = "";
    if (heads.classes == 1) {
        if (may_skip)
            snprintf(otherwise, sizeof(otherwise), "; or set model.skip = %s to start with a new last layer",
                     heads.patterns.list);
        report_one_output(weights, otherwise, problems);
        return true;
    }
    if (!is_fixed)
        snprintf(otherwise, sizeof(otherwise), "%sdata.classes = %" PRIu64 "%s", may_skip ? ", or " : "set ",
                 heads.classes, may_skip ? " for a network with as many" : "");
    else if (!may_skip)
        snprintf(otherwise, sizeof(otherwise), "the data set has %" PRIu64 " (its dataset.json), and cannot be "
                 "evaluated with them", weights->data_classes);
    problems_add(problems, weights->path, "has %" PRIu64 " classes, and the network has %u (of data.classes, "
                 "dataset.json or the model): %s%s%s%s", heads.classes, weights->net->classes,
                 may_skip ? "set model.skip = " : "", may_skip ? heads.patterns.list : "",
                 may_skip ? " to start with a new last layer" : "", otherwise);
    return true;
}

/* Report how the tensors whose names begin with the prefix can be loaded. False: they do not fit the network. */
static bool report_part(const struct initial_weights *weights, const char *prefix, bool may_skip,
                        struct problems *problems)
{
    char skip[TENSOR_MATCH_SIZE], shown[4 * sizeof(weights->prefix)], part[sizeof(shown) + 64] = "";
    if (!tensor_match_skip(&weights->file.index, weights->net, prefix, skip))
        return false;
    log_escape(prefix, strlen(prefix), shown, sizeof(shown));
    if (*prefix != '\0')
        snprintf(part, sizeof(part), "its tensors '%s*' have the network's names: ", shown);
    if (may_skip)
        problems_add(problems, weights->path, "%smodel.skip = '%s' loads the rest (what it skips of the network keeps "
                     "random weights)", part, skip);
    else if (*prefix != '\0')
        problems_add(problems, weights->path, "%ssave them alone, without '%s'", part, shown);
    return true;
}

/* Report which tensors can be loaded: those of the whole file, or else those of each prefix that only some of its names
 * have, as in a file of several encoders, or of an encoder and a head. False: none of them fit the network. */
static bool report_parts(const struct initial_weights *weights, bool may_skip, struct problems *problems)
{
    const struct safetensors_index *const index = &weights->file.index;
    const char *const end = weights->net->parameters[0].name;
    bool is_any = false;
    if (report_part(weights, "", may_skip, problems))
        return true;
    for (size_t i = 0; i < index->count; i++) {
        const char *const name = index->tensors[i].name;
        const size_t length = strlen(name), bytes = length > strlen(end) ? length - strlen(end) : 0;
        char prefix[sizeof(weights->prefix)];
        if (bytes == 0 || bytes >= sizeof(prefix) || name[bytes - 1] != '.' || strcmp(name + bytes, end) != 0 ||
            has_prefix(weights->net, name, bytes))
            continue;
        snprintf(prefix, sizeof(prefix), "%.*s", (int)bytes, name);
        is_any |= report_part(weights, prefix, may_skip, problems);
    }
    return is_any;
}

static int report_differences(struct initial_weights *weights,
                              const struct names differences[DIFFERENCE_COUNT], bool may_skip,
                              struct problems *problems)
{
    char prefix[256];
    if (differences[DIFFERENCE_MISSING].count + differences[DIFFERENCE_UNKNOWN].count +
        differences[DIFFERENCE_SHAPE].count == 0)
        return 0;
    if (report_classes(weights, differences, may_skip, problems))
        return -EINVAL;
    problems_add(problems, weights->path, "these are not weights of '%s', which has %u tensors:",
                 weights->net->model, weights->net->parameter_count);
    for (enum difference which = 0; which < DIFFERENCE_COUNT; which++)
        if (differences[which].count > 0)
            problems_add(problems, weights->path, "%u %s: %s%s", differences[which].count, difference_words[which],
                         differences[which].list, more(&differences[which]).text);
    if (weights->prefix[0] != '\0') {
        describe_prefix(weights, prefix, sizeof(prefix));
        problems_add(problems, weights->path, "%s, which was removed", prefix);
    }
    if (weights->naming != NULL)
        problems_add(problems, weights->path, "names of %s were translated to torchvision's", weights->naming->owner);
    report_models(weights, problems);
    report_stranger(weights, problems);
    if (!report_parts(weights, may_skip, problems) && may_skip)
        problems_add(problems, weights->path, "model.skip=PATTERN skips tensors: those of the network keep random "
                     "weights");
    return -EINVAL;
}

/* ---- patterns ---- */

static bool is_matched(const struct initial_weights *weights, const char *pattern)
{
    for (uint32_t i = 0; i < weights->net->parameter_count; i++)
        if (pattern_matches(pattern, weights->net->parameters[i].name))
            return true;
    for (size_t i = 0; i < weights->file.index.count; i++)
        if (pattern_matches(pattern, weights->file.index.tensors[i].name))
            return true;
    return false;
}

static int check_skip(const struct initial_weights *weights, struct problems *problems)
{
    char pattern[PATTERN_BYTES], hint[TENSOR_HINT_SIZE];
    const char *at = weights->skip;
    int rc = 0;
    while (patterns_next(&at, pattern))
        if (!is_matched(weights, pattern)) {
            tensor_hint(weights->net, pattern, hint);
            problems_add(problems, "model.skip", "no tensor of '%s' or of %s is '%s'%s", weights->net->model,
                         weights->path, pattern, hint);
            rc = -EINVAL;
        }
    return rc;
}

static int check_any_loaded(const struct initial_weights *weights, struct problems *problems)
{
    if (weights->skipped.count < weights->net->parameter_count)
        return 0;
    problems_add(problems, "model.skip", "skips all tensors: nothing is loaded from %s", weights->path);
    return -EINVAL;
}

static int check_weights(struct initial_weights *weights, bool may_skip, struct problems *problems)
{
    struct names differences[DIFFERENCE_COUNT] = { [DIFFERENCE_MISSING] = { .count = 0 } };
    compare_names(weights, differences);
    const int skip = check_skip(weights, problems), rc = report_differences(weights, differences, may_skip, problems);
    const int any = check_any_loaded(weights, problems);
    const bool is_one = rc == 0 && weights->net->classes == 1 && initial_weights_head(weights) != NULL;
    if (is_one)
        report_one_output(weights, "", problems);
    return rc != 0 ? rc : skip != 0 ? skip : is_one ? -EINVAL : any;
}

/* Report weights that were not trained on data; they are loaded, because the user named them. */
static void report_learned(const struct initial_weights *weights)
{
    const char *const learned = initial_weights_text(weights, WEIGHTS_LEARNED);
    char shown[256];
    if (learned == NULL)
        return;
    log_plain(learned, shown, sizeof(shown));
    log_message(LOG_RUN, "%s: these weights learned %s", weights->path, shown);
}

/* ---- the public functions ---- */

int initial_weights_open(struct initial_weights **weights_out, const char *path, const struct net *net,
                         const char *skip, uint64_t data_classes, struct problems *problems)
{
    char problem[256] = "";
    struct initial_weights *const weights = calloc(1, sizeof(*weights));
    if (weights == NULL) {
        problems_add(problems, "pipetrain", "%s: %s", path, strerror(ENOMEM));
        return -ENOMEM;
    }
    *weights = (struct initial_weights){ .net = net, .path = path, .skip = skip != NULL ? skip : "",
                                       .data_classes = data_classes,
                                       .file = { .fd = -1 } };
    int rc = tensor_file_open(&weights->file, path, problem, sizeof(problem));
    if (rc != 0)
        problems_add(problems, path, "%s", problem[0] != '\0' ? problem : strerror(-rc));
    else {
        strip_prefix(weights, "");
        if (*weights->skip != '\0')
            strip_prefix(weights, weights->skip);
        rc = translate_names(weights);
        if (rc != 0)
            problems_add(problems, "pipetrain", "%s: %s", path, strerror(-rc));
    }
    if (rc == 0)
        rc = check_weights(weights, skip != NULL, problems);
    if (rc == 0)
        report_learned(weights);
    if (rc == 0)
        *weights_out = weights;
    else
        initial_weights_close(weights);
    return rc;
}

const char *initial_weights_text(const struct initial_weights *weights, const char *key)
{
    return safetensors_index_text(&weights->file.index, key);
}

bool initial_weights_loads(const struct initial_weights *weights, uint32_t parameter)
{
    return weights->tensors[parameter] != NULL;
}

const char *initial_weights_head(const struct initial_weights *weights)
{
    const struct layer *const head = tensor_match_head(weights->net);
    for (enum parameter_kind i = 0; i < PARAMETER_KIND_COUNT; i++)
        if (layer_has(head, i) && initial_weights_loads(weights, head->parameters[i]))
            return head->name;
    return NULL;
}

const struct tensor_naming *initial_weights_naming(const struct initial_weights *weights)
{
    return weights->naming;
}

const struct safetensors_index *initial_weights_index(const struct initial_weights *weights)
{
    return &weights->file.index;
}

/* Buffers for the largest tensor: its bytes in the file, unless it is F32, and its floats. */
struct room { void *bytes; float *numbers; };

static int open_room(const struct initial_weights *weights, struct room *room)
{
    size_t bytes = 1;
    for (uint32_t i = 0; i < weights->net->parameter_count; i++) {
        const struct safetensors_tensor *const tensor = weights->tensors[i];
        if (tensor != NULL && strcmp(tensor->dtype, "F32") != 0 && tensor->bytes > bytes)
            bytes = tensor->bytes;
    }
    *room = (struct room){ malloc(bytes), malloc((net_most_numbers(weights->net) + 1) * sizeof(float)) };
    return room->bytes != NULL && room->numbers != NULL ? 0 : -ENOMEM;
}

static void close_room(struct room *room)
{
    free(room->bytes);
    free(room->numbers);
}

/* Is there a variance below 0? Its square root would make every output NaN. */
static bool has_negative(const float *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (numbers[i] < 0)
            return true;
    return false;
}

/* Read and check a parameter. Of a damaged file a number that is not finite is reported instead of the damage, because
 * it is more specific. */
static int read_parameter(const struct initial_weights *weights, uint32_t parameter, const struct room *room)
{
    const size_t count = weights->net->parameters[parameter].count;
    const int rc = tensor_file_load(&weights->file, weights->tensors[parameter], count, room->bytes, room->numbers);
    if (rc != 0 && rc != -EILSEQ)
        return rc;
    if (floats_find_nonfinite(room->numbers, count) != count)
        return -EDOM;
    if (weights->net->parameters[parameter].kind == PARAMETER_RUNNING_VARIANCE && has_negative(room->numbers, count))
        return -ERANGE;
    return rc;
}

static int write_parameter(const struct initial_weights *weights, struct tower *tower, uint32_t parameter,
                           const struct room *room)
{
    int rc = read_parameter(weights, parameter, room);
    if (rc != 0 || tower == NULL)
        return rc;
    rc = tower_write(tower, parameter, room->numbers);
    return rc == 0 || rc == -ENOMEM ? rc : -EREMOTEIO;
}

static int report_read(const struct initial_weights *weights, const char *name, int rc)
{
    if (rc != 0)
        log_message(LOG_ERROR, "%s: %s: %s", weights->path, name,
                    rc == -EDOM     ? "holds a number that " FINITE_WORDS
                    : rc == -ERANGE ? "is a variance, and holds a number below 0"
                    : rc == -EILSEQ ? "the file is damaged"
                                    : exit_cause(rc));
    return rc;
}

int initial_weights_write(const struct initial_weights *weights, struct tower *tower)
{
    const struct net *const net = weights->net;
    const char *broken = "its weights";
    struct room room;
    int rc = open_room(weights, &room);
    for (uint32_t i = 0; i < net->parameter_count && rc == 0; i++) {
        rc = weights->tensors[i] != NULL ? write_parameter(weights, tower, i, &room) : 0;
        broken = net->parameters[i].name;
    }
    close_room(&room);
    return report_read(weights, broken, rc);
}

int initial_weights_read(const struct initial_weights *weights, uint32_t parameter, float *numbers_out)
{
    const struct safetensors_tensor *const tensor = weights->tensors[parameter];
    const bool is_float = strcmp(tensor->dtype, "F32") == 0;
    const struct room room = { is_float ? NULL : malloc(tensor->bytes + 1), numbers_out };
    const int rc = is_float || room.bytes != NULL ? read_parameter(weights, parameter, &room) : -ENOMEM;
    free(room.bytes);
    return report_read(weights, weights->net->parameters[parameter].name, rc);
}

void initial_weights_print(const struct initial_weights *weights, FILE *out)
{
    const uint32_t all = weights->net->parameter_count, loaded = all - weights->skipped.count;
    char prefix[256], naming[128];
    wrapped_print(out, "weights   %u of %u tensors from %s, by their names", loaded, all, weights->path);
    if (weights->prefix[0] != '\0') {
        describe_prefix(weights, prefix, sizeof(prefix));
        wrapped_print(out, "%*s%s, which was removed", (int)WRAPPED_INDENT, "", prefix);
    }
    if (weights->naming != NULL) {
        describe_naming(weights, naming, sizeof(naming));
        wrapped_print(out, "%*s%s", (int)WRAPPED_INDENT, "", naming);
    }
    if (weights->skipped.count > 0)
        wrapped_print(out, "%*s%u skipped by model.skip: %s%s", (int)WRAPPED_INDENT, "", weights->skipped.count,
                      weights->skipped.list, more(&weights->skipped).text);
    if (weights->aside.count > 0)
        wrapped_print(out, "%*s%u of the file skipped by model.skip: %s%s", (int)WRAPPED_INDENT, "",
                      weights->aside.count, weights->aside.list, more(&weights->aside).text);
    if (weights->batch_counts > 0)
        wrapped_print(out, "%*s%u of the file not used: *.num_batches_tracked", (int)WRAPPED_INDENT, "",
                      weights->batch_counts);
    if (weights->of_state > 0)
        wrapped_print(out, "%*s%u of the file not used: other tensors of a checkpoint", (int)WRAPPED_INDENT, "",
                      weights->of_state);
}

void initial_weights_report_names(const struct initial_weights *weights)
{
    char text[256];
    if (weights->prefix[0] != '\0') {
        describe_prefix(weights, text, sizeof(text));
        log_message(LOG_RUN, "%s: %s, which was removed", weights->path, text);
    }
    if (weights->naming != NULL) {
        describe_naming(weights, text, sizeof(text));
        log_message(LOG_RUN, "%s: %s", weights->path, text);
    }
}

void initial_weights_close(struct initial_weights *weights)
{
    if (weights == NULL)
        return;
    tensor_file_close(&weights->file);
    free(weights->given);
    free(weights->translated);
    free(weights);
}
