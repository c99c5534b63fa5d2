/* The recipes, and the functions that apply them to the settings. */
#include "tools/lib/config/recipes.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "compute/model.h"
#include "tools/lib/config/options.h"
#include "tools/lib/config/settings_model.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- the recipes ---- */

/* Augmentation as in the sources of the recipes (doc/augmentation.md). */
#define CIFAR_IMAGES { "crop", "pad" }, { "flip", "yes" }
#define KERAS_CIFAR_IMAGES { "crop", "shift" }, { "flip", "yes" }
#define IMAGENET_IMAGES { "crop", "box" }, { "flip", "yes" }
#define RESIZED_IMAGES(resize) { "crop", "resized" }, { "flip", "yes" }, { "evaluation_resize", resize }
#define TORCHVISION_IMAGES RESIZED_IMAGES("256")
#define NEWER_IMAGES { "policy", "trivial_augment_wide" }, { "erase", "0.1" }, { "mixup", "0.2" }, { "cutmix", "1" }

static const struct recipe_value keras_mnist[] = {
    { "batch", "128" }, { "optimizer", "adadelta" }, { "learning_rate", "1" }, { NULL, NULL }
};
static const struct recipe_value keras_cifar[] = {
    { "batch", "32" }, { "optimizer", "rmsprop_keras" }, { "learning_rate", "0.0001" },
    { "schedule", "inverse_time" }, { "rate_decay", "1e-06" }, KERAS_CIFAR_IMAGES, { NULL, NULL }
};
static const struct recipe_value cifar_alexnet[] = {
    { "batch", "128" }, { "optimizer", "sgd" }, { "learning_rate", "0.1" }, { "weight_decay", "4e-05" },
    { "schedule", "exponential" }, { "decay_factor", "0.1" }, { "decay_epochs", "100" }, CIFAR_IMAGES,
    { NULL, NULL }
};
static const struct recipe_value cifar_vgg[] = {
    { "batch", "128" }, { "optimizer", "momentum" }, { "learning_rate", "0.1" }, { "momentum", "0.9" },
    { "weight_decay", "0.0005" }, { "decay_scope", "all" },
    { "schedule", "piecewise" }, { "boundaries", "81 122" }, { "factors", "0.1 0.01" },
    CIFAR_IMAGES, { NULL, NULL }
};
/* He et al. 2015 with the last boundary of tf_cnn_benchmarks. */
static const struct recipe_value cifar_resnet[] = {
    { "batch", "128" }, { "optimizer", "momentum" }, { "learning_rate", "0.1" }, { "momentum", "0.9" },
    { "weight_decay", "0.0001" },
    { "schedule", "piecewise" }, { "boundaries", "82 123 300" }, { "factors", "0.1 0.01 0.002" },
    CIFAR_IMAGES, { NULL, NULL }
};
/* Huang et al. 2016. */
static const struct recipe_value cifar_densenet[] = {
    { "batch", "64" }, { "optimizer", "nesterov" }, { "learning_rate", "0.1" }, { "momentum", "0.9" },
    { "weight_decay", "0.0001" },
    { "schedule", "piecewise" }, { "boundaries", "150 225 300" }, { "factors", "0.1 0.01 0.001" },
    CIFAR_IMAGES, { NULL, NULL }
};
/* The defaults of tf_cnn_benchmarks; models differ in the batch size. */
#define PLAIN(batch)                                                                                                 \
    { "batch", batch }, { "optimizer", "sgd" }, { "learning_rate", "0.005" }, { "weight_decay", "4e-05" }
static const struct recipe_value cifar_plain[] = { PLAIN("32"), CIFAR_IMAGES, { NULL, NULL } };
static const struct recipe_value plain_32[] = { PLAIN("32"), IMAGENET_IMAGES, { NULL, NULL } };
static const struct recipe_value plain_64[] = { PLAIN("64"), IMAGENET_IMAGES, { NULL, NULL } };
static const struct recipe_value plain_512[] = { PLAIN("512"), IMAGENET_IMAGES, { NULL, NULL } };
/* The recipe that tf_cnn_benchmarks documents for 76 % on ImageNet, except the batch size of 8 GPUs. */
#define IMAGENET_RESNET(batch)                                                                                       \
    { "batch", batch }, { "optimizer", "momentum" }, { "learning_rate", "0.128" }, { "rate_batch", "256" },          \
    { "momentum", "0.9" }, { "weight_decay", "0.0001" }, { "warmup_epochs", "5" }, { "schedule", "piecewise" },      \
    { "boundaries", "30 60 80 90" }, { "factors", "0.1 0.01 0.001 0.0001" }, IMAGENET_IMAGES, { NULL, NULL }
static const struct recipe_value imagenet_resnet_64[] = { IMAGENET_RESNET("64") };
static const struct recipe_value imagenet_resnet_32[] = { IMAGENET_RESNET("32") };
/* The references of torchvision, except the batch size of 8 GPUs. */
#define TORCHVISION(rate)                                                                                            \
    { "batch", "64" }, { "optimizer", "momentum" }, { "learning_rate", rate }, { "rate_batch", "256" },              \
    { "momentum", "0.9" }, { "weight_decay", "0.0001" }, { "decay_scope", "all" },                                   \
    { "schedule", "exponential" }, { "decay_factor", "0.1" }, { "decay_epochs", "30" }, TORCHVISION_IMAGES,          \
    { NULL, NULL }
static const struct recipe_value torchvision_resnet[] = { TORCHVISION("0.1") };
static const struct recipe_value torchvision_vgg[] = { TORCHVISION("0.01") };
/* Huang et al. 2016, for ImageNet. */
static const struct recipe_value imagenet_densenet[] = {
    { "batch", "64" }, { "optimizer", "nesterov" }, { "learning_rate", "0.1" }, { "rate_batch", "256" },
    { "momentum", "0.9" }, { "weight_decay", "0.0001" }, { "decay_scope", "all" },
    { "schedule", "piecewise" }, { "boundaries", "30 60" }, { "factors", "0.1 0.01" }, TORCHVISION_IMAGES,
    { NULL, NULL }
};
/* Iandola et al. 2016, the solver of SqueezeNet 1.1: linearly to 0. */
static const struct recipe_value squeezenet[] = {
    { "batch", "64" }, { "optimizer", "momentum" }, { "learning_rate", "0.04" }, { "rate_batch", "512" },
    { "momentum", "0.9" }, { "weight_decay", "0.0002" }, { "schedule", "polynomial" }, TORCHVISION_IMAGES,
    { NULL, NULL }
};

/* The references of torchvision, whose batches are those of all GPUs, as far as there are settings for them. */
static const struct recipe_value mobilenet_v2[] = {
    { "batch", "64" }, { "optimizer", "momentum" }, { "learning_rate", "0.045" }, { "rate_batch", "256" },
    { "momentum", "0.9" }, { "weight_decay", "4e-05" }, { "decay_scope", "all" },
    { "schedule", "exponential" }, { "decay_factor", "0.98" }, { "decay_epochs", "1" }, TORCHVISION_IMAGES,
    { NULL, NULL }
};
static const struct recipe_value regnet[] = {
    { "batch", "64" }, { "optimizer", "momentum" }, { "learning_rate", "0.8" }, { "rate_batch", "1024" },
    { "momentum", "0.9" }, { "weight_decay", "5e-05" }, { "decay_scope", "all" },
    { "warmup_epochs", "5" }, { "warmup_from", "0.1" }, { "schedule", "cosine" }, TORCHVISION_IMAGES, { NULL, NULL }
};
/* Xie et al. 2017, for CIFAR-10. */
static const struct recipe_value cifar_resnext[] = {
    { "batch", "128" }, { "optimizer", "nesterov" }, { "learning_rate", "0.1" }, { "momentum", "0.9" },
    { "weight_decay", "0.0005" }, { "decay_scope", "all" },
    { "schedule", "piecewise" }, { "boundaries", "150 225" }, { "factors", "0.1 0.01" }, CIFAR_IMAGES,
    { NULL, NULL }
};
/* chenyaofo/pytorch-cifar-models, whose accuracies are of 200 epochs. */
static const struct recipe_value cifar_mobilenet[] = {
    { "batch", "256" }, { "optimizer", "nesterov" }, { "learning_rate", "0.1" }, { "momentum", "0.9" },
    { "weight_decay", "0.0005" }, { "schedule", "cosine" }, CIFAR_IMAGES, { NULL, NULL }
};
static const struct recipe_value mobilenet_v3[] = {
    { "batch", "64" }, { "optimizer", "rmsprop_pytorch" }, { "learning_rate", "0.064" }, { "rate_batch", "1024" },
    { "momentum", "0.9" }, { "rho", "0.9" }, { "epsilon", "0.0316" }, { "weight_decay", "1e-05" },
    { "decay_scope", "all" }, { "schedule", "exponential" }, { "decay_factor", "0.973" }, { "decay_epochs", "2" },
    TORCHVISION_IMAGES, { "policy", "auto_augment" }, { "erase", "0.2" }, { NULL, NULL }
};
/* Tan, Le 2019, whose epsilon of 0.001 is inside the root; the rate is that of 4,096 images divided by 4. */
static const struct recipe_value efficientnet_b0[] = {
    { "batch", "64" }, { "optimizer", "rmsprop_pytorch" }, { "learning_rate", "0.064" }, { "rate_batch", "1024" },
    { "momentum", "0.9" }, { "rho", "0.9" }, { "epsilon", "0.0316" }, { "weight_decay", "1e-05" }, { "ema", "0.9999" },
    { "warmup_epochs", "5" }, { "schedule", "exponential" }, { "decay_factor", "0.97" }, { "decay_epochs", "2.4" },
    TORCHVISION_IMAGES, { "filter", "bicubic" }, { "policy", "auto_augment" }, { NULL, NULL }
};
static const struct recipe_value efficientnet_v2[] = {
    { "batch", "64" }, { "optimizer", "momentum" }, { "learning_rate", "0.5" }, { "rate_batch", "1024" },
    { "momentum", "0.9" }, { "weight_decay", "2e-05" }, { "label_smoothing", "0.1" },
    { "ema", "0.9999" }, { "warmup_epochs", "5" }, { "warmup_from", "0.01" }, { "schedule", "cosine" },
    RESIZED_IMAGES("384"), { "train_size", "300" }, NEWER_IMAGES, { NULL, NULL }
};
static const struct recipe_value convnext[] = {
    { "batch", "64" }, { "optimizer", "adamw" }, { "learning_rate", "0.001" }, { "rate_batch", "1024" },
    { "weight_decay", "0.05" }, { "label_smoothing", "0.1" },
    { "ema", "0.9999" }, { "warmup_epochs", "5" }, { "warmup_from", "0.01" }, { "schedule", "cosine" },
    RESIZED_IMAGES("236"), { "train_size", "176" }, NEWER_IMAGES, { NULL, NULL }
};

static const struct { const char *model; const struct recipe_value *values; } recipes[] = {
    { "mnist_cnn", keras_mnist }, { "mnist_cnn2", keras_mnist }, { "multigpu_mnist", keras_mnist },
    { "cifar10_cnn", keras_cifar }, { "small_cifar", keras_cifar },
    { "cifar_alexnet", cifar_alexnet }, { "cifar_trivial", cifar_plain },
    { "cifar_vgg19", cifar_vgg }, { "cifar_vgg19_bn", cifar_vgg },
    { "resnet20_v1", cifar_resnet }, { "resnet32_v1", cifar_resnet }, { "resnet44_v1", cifar_resnet },
    { "resnet56_v1", cifar_resnet }, { "resnet110_v1", cifar_resnet },
    { "resnet20_v2", cifar_resnet }, { "resnet32_v2", cifar_resnet }, { "resnet44_v2", cifar_resnet },
    { "resnet56_v2", cifar_resnet }, { "resnet110_v2", cifar_resnet },
    { "densenet40_k12", cifar_densenet }, { "densenet100_k12", cifar_densenet }, { "densenet100_k24", cifar_densenet },
    { "imagenet_alexnet", plain_512 }, { "imagenet_trivial", plain_32 }, { "googlenet", plain_32 },
    { "inception3", plain_32 }, { "lenet", plain_32 }, { "overfeat", plain_32 },
    { "vgg11", plain_64 }, { "vgg16", plain_64 }, { "vgg19", plain_64 },
    { "resnet50_v1", imagenet_resnet_64 }, { "resnet50_v1.5", imagenet_resnet_64 },
    { "resnet50_v2", imagenet_resnet_64 },
    { "resnet101_v1", imagenet_resnet_32 }, { "resnet101_v1.5", imagenet_resnet_32 },
    { "resnet101_v2", imagenet_resnet_32 },
    { "resnet152_v1", imagenet_resnet_32 }, { "resnet152_v1.5", imagenet_resnet_32 },
    { "resnet152_v2", imagenet_resnet_32 },
    { "torchvision_resnet18", torchvision_resnet }, { "torchvision_resnet34", torchvision_resnet },
    { "torchvision_resnet50", torchvision_resnet }, { "torchvision_resnet101", torchvision_resnet },
    { "torchvision_resnet152", torchvision_resnet },
    { "torchvision_vgg11", torchvision_vgg }, { "torchvision_vgg13", torchvision_vgg },
    { "torchvision_vgg16", torchvision_vgg }, { "torchvision_vgg19", torchvision_vgg },
    { "torchvision_vgg16_bn", torchvision_vgg }, { "torchvision_alexnet", torchvision_vgg },
    { "wide_resnet50_2", torchvision_resnet }, { "densenet121", imagenet_densenet }, { "squeezenet1_1", squeezenet },
    { "resnext50_32x4d", torchvision_resnet }, { "resnext29_8x64d", cifar_resnext },
    { "mobilenet_v2", mobilenet_v2 }, { "mobilenet_v2_cifar", cifar_mobilenet }, { "regnet_y_1_6gf", regnet },
    { "mobilenet_v3_large", mobilenet_v3 }, { "efficientnet_b0", efficientnet_b0 },
    { "efficientnet_v2_s", efficientnet_v2 }, { "convnext_tiny", convnext },
};

const struct recipe_value *recipe_find(const char *model)
{
    for (size_t i = 0; i < COUNT(recipes); i++)
        if (strcmp(recipes[i].model, model) == 0)
            return recipes[i].values;
    return NULL;
}

enum section recipe_section(const struct recipe_value *value)
{
    return option_find(SECTION_TRAIN, value->key) != NULL ? SECTION_TRAIN : SECTION_AUGMENT;
}

/* ---- into the settings ---- */

static bool is_one_of(const char *key, const char *const *keys, size_t count)
{
    size_t i = 0;
    while (i < count && strcmp(keys[i], key) != 0)
        i++;
    return i < count;
}

static bool is_given_in(struct settings *settings, enum section section, const char *key)
{
    return settings_origin(settings, section, key)->origin > ORIGIN_MODEL;
}

static bool is_given(struct settings *settings, const char *key)
{
    return is_given_in(settings, SECTION_TRAIN, key);
}

static bool is_own_optimizer(const struct settings *settings, const struct recipe_value *recipe)
{
    const struct option_row *const row = option_find(SECTION_TRAIN, "optimizer");
    while (strcmp(recipe->key, row->key) != 0)
        recipe++;
    return strcmp(option_choice_name(row, (int)settings->train.optimizer), recipe->value) == 0;
}

static bool is_resize(const struct recipe_value *value)
{
    return strcmp(value->key, "evaluation_resize") == 0;
}

static bool is_of_evaluation(const struct recipe_value *value)
{
    return is_resize(value) || strcmp(value->key, "filter") == 0;
}

/* The recipe resizes validation images unless the user sets how they are scaled. */
static bool is_scaling_given(struct settings *settings)
{
    const enum filter filter = settings->augment.filter;
    return settings->augment.evaluation == CROP_NONE ||
           is_given_in(settings, SECTION_AUGMENT, "evaluation_scale") ||
           (filter != FILTER_BILINEAR && filter != FILTER_BICUBIC);
}

/* May the recipe set the key? Optimizer parameters only if the user set no other optimizer, schedule parameters only if
 * the user set no schedule, and rate_batch only if the user set no rate. Synthetic images are not augmented. */
static bool is_open(struct settings *settings, const struct recipe_value *recipe, const struct recipe_value *value)
{
    const char *const key = value->key;
    static const char *const of_schedules[] = { "schedule",     "boundaries", "factors",       "decay_factor",
                                                "decay_epochs", "rate_decay", "warmup_epochs", "warmup_from" };
    if (is_resize(value) && is_scaling_given(settings))
        return false;
    if (recipe_section(value) == SECTION_AUGMENT)
        return settings->input.source != INPUT_SYNTHETIC && !is_given_in(settings, SECTION_AUGMENT, key);
    if (strcmp(key, "batch") == 0)
        return settings->train.batch == 0 && settings->train.batch_per_tower == 0;
    if (is_given(settings, "optimizer") && !is_own_optimizer(settings, recipe))
        return false;
    if (strcmp(key, "rate_batch") == 0 && is_given(settings, "learning_rate"))
        return false;
    return !is_given(settings, key) &&
           !(is_given(settings, "schedule") && is_one_of(key, of_schedules, COUNT(of_schedules)));
}

static int use(struct settings *settings, const struct recipe_value *value)
{
    char problem[256];
    const int rc = option_parse(option_find(recipe_section(value), value->key), settings, value->value, problem,
                                sizeof(problem));
    assert(rc != -EINVAL);
    settings_origin(settings, recipe_section(value), value->key)->origin = ORIGIN_MODEL;
    return rc;
}

static int apply(struct settings *settings, bool is_evaluation_alone)
{
    const struct model *const model = model_find(settings->model.name);
    const struct recipe_value *const recipe = model != NULL ? recipe_find(model->name) : NULL;
    int rc = 0;
    if (recipe == NULL)
        return 0;
    for (const struct recipe_value *value = recipe; value->key != NULL && rc == 0; value++)
        if ((!is_evaluation_alone || is_of_evaluation(value)) && is_open(settings, recipe, value))
            rc = use(settings, value);
    return rc;
}

int recipe_apply(struct settings *settings)
{
    return apply(settings, false);
}

int recipe_apply_evaluation(struct settings *settings)
{
    return apply(settings, true);
}

/* ---- in words ---- */

static void add(char text[RECIPE_TEXT_SIZE], const char *key, const char *value)
{
    const size_t used = strlen(text);
    snprintf(text + used, RECIPE_TEXT_SIZE - used, "%s%s%s%s", used > 0 ? ", " : "", key, *value != '\0' ? " = " : "",
             value);
}

bool recipe_describe_used(const struct settings *settings, char text[RECIPE_TEXT_SIZE])
{
    *text = '\0';
    for (const struct option_row *row = option_table; row->key != NULL; row++)
        if (settings->origins[option_index(row)].origin == ORIGIN_MODEL)
            add(text, row->key, "");
    return *text != '\0';
}

void recipe_describe(const struct recipe_value *recipe, char text[RECIPE_TEXT_SIZE])
{
    *text = '\0';
    for (; recipe->key != NULL; recipe++)
        add(text, recipe->key, recipe->value);
}
