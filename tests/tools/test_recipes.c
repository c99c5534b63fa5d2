/* Tests of recipes: that every model has one that holds, and what of it the user's own settings leave. */
#include <stdio.h>
#include <string.h>

#include "compute/model.h"
#include "tests/helpers/test.h"
#include "tools/lib/config/config.h"
#include "tools/lib/config/options.h"
#include "tools/lib/config/recipes.h"
#include "tools/lib/config/training.h"

/* The settings of these assignments, until the next call. */
static struct settings settings;

static void read_settings(const char *const *assignments)
{
    struct problems problems;
    settings_release(&settings);
    problems_init(&problems);
    assert_int_equal(settings_init(&settings), 0);
    assert_int_equal(config_set(&settings, "input.source=synthetic", &problems), 0);
    assert_int_equal(config_set(&settings, "data.train=there", &problems), 0);
    for (; *assignments != NULL; assignments++)
        assert_int_equal(config_set(&settings, *assignments, &problems), 0);
    if (settings_finish(&settings, &problems) != 0)
        fail_msg("%s", problems.lines[0]);
    problems_release(&problems);
}

#define SETTINGS(...) read_settings((const char *const[]){ __VA_ARGS__, NULL })

/* The keys that became the recipe's, and what trains then. */
static void expect(const char *used, const char *optimizer, double rate)
{
    char keys[RECIPE_TEXT_SIZE], text[TRAINING_TEXT_SIZE];
    assert_int_equal(recipe_describe_used(&settings, keys), *used != '\0');
    assert_string_equal(keys, used);
    training_describe_optimizer(&settings.train, text, sizeof(text));
    assert_string_equal(text, optimizer);
    assert_true(settings.train.learning_rate == rate);
}

TEST(every_model_has_a_recipe_that_holds)
{
    for (const struct model *model = model_table; model->name != NULL; model++) {
        char name[128], text[RECIPE_TEXT_SIZE];
        const struct recipe_value *const recipe = recipe_find(model->name);
        assert_non_null(recipe);
        snprintf(name, sizeof(name), "model.name=%s", model->name);
        SETTINGS(name, "input.source=real");
        for (const struct recipe_value *value = recipe; value->key != NULL; value++) {
            struct option_text formatted;
            const struct option_row *const row = option_find(recipe_section(value), value->key);
            assert_non_null(row);
            assert_string_equal(option_format(row, &settings, &formatted), value->value);
        }
        recipe_describe(recipe, text);
        assert_true(strlen(text) < RECIPE_TEXT_SIZE - 1);
    }
    assert_null(recipe_find("mnist"));
}

TEST(what_nothing_is_said_of_is_the_recipes)
{
    SETTINGS("model.name=resnet20");
    expect("batch, optimizer, learning_rate, momentum, weight_decay, schedule, boundaries, factors",
           "momentum, momentum 0.9, weight decay 0.0001", 0.1);
    assert_int_equal(settings.train.batch, 128);
    assert_int_equal(settings.train.schedule, RATE_PIECEWISE);
    SETTINGS("model.name=mnist_cnn", "train.batch_per_tower=7");
    expect("optimizer, learning_rate", "adadelta, rho 0.95, epsilon 1e-08", 1);
    assert_int_equal(settings.train.batch, 0);
}

TEST(training_images_change_as_those_of_the_recipe_unless_they_are_drawn)
{
    SETTINGS("model.name=resnet20", "input.source=real", "train.optimizer=adam");
    expect("crop, flip, batch", "adam, betas 0.9 0.999, epsilon 1e-08", 0.001);
    assert_true(settings.augment.crop == CROP_PAD && settings.augment.flip);
    SETTINGS("model.name=resnet20", "input.source=real", "train.optimizer=adam", "augment.crop=auto");
    expect("flip, batch", "adam, betas 0.9 0.999, epsilon 1e-08", 0.001);
    assert_true(settings.augment.crop == CROP_AUTO && settings.augment.flip);
    SETTINGS("model.name=torchvision_resnet18", "input.source=real", "augment.flip=no");
    assert_true(settings.augment.crop == CROP_RESIZED && !settings.augment.flip);
    assert_int_equal(settings.augment.evaluation_resize, 256);
    SETTINGS("model.name=mnist_cnn", "input.source=real");
    assert_true(settings.augment.crop == CROP_AUTO && !settings.augment.flip);
    SETTINGS("model.name=resnet20");
    assert_true(settings.augment.crop == CROP_AUTO && !settings.augment.flip);
}

TEST(validation_images_are_resized_as_those_of_torchvisions_weights)
{
    static const struct { const char *model; int64_t resize; enum filter filter; } rows[] = {
        { "model.name=torchvision_resnet50", 256, FILTER_BILINEAR }, { "model.name=mobilenet_v2", 256, FILTER_BILINEAR },
        { "model.name=mobilenet_v3_large", 256, FILTER_BILINEAR }, { "model.name=efficientnet_b0", 256, FILTER_BICUBIC },
        { "model.name=efficientnet_v2_s", 384, FILTER_BILINEAR }, { "model.name=resnext50_32x4d", 256, FILTER_BILINEAR },
        { "model.name=regnet_y_1_6gf", 256, FILTER_BILINEAR }, { "model.name=convnext_tiny", 236, FILTER_BILINEAR },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        SETTINGS(rows[i].model, "input.source=real");
        assert_int_equal(settings.augment.evaluation_resize, rows[i].resize);
        assert_int_equal(settings.augment.filter, rows[i].filter);
    }
    SETTINGS("model.name=efficientnet_v2_s", "input.source=real");
    assert_int_equal(settings.augment.train_size, 300);
    SETTINGS("model.name=convnext_tiny", "input.source=real");
    assert_int_equal(settings.augment.train_size, 176);
    SETTINGS("model.name=convnext_tiny", "input.source=real", "augment.train_size=0");
    assert_int_equal(settings.augment.train_size, 0);
    SETTINGS("model.name=convnext_tiny");
    assert_int_equal(settings.augment.train_size, 0);
    SETTINGS("model.name=efficientnet_b0", "input.source=real", "augment.filter=bilinear");
    assert_true(settings.augment.filter == FILTER_BILINEAR && settings.augment.evaluation_resize == 256);
    SETTINGS("model.name=efficientnet_b0", "input.source=real", "augment.filter=area");
    assert_true(settings.augment.filter == FILTER_AREA && settings.augment.evaluation_resize == 0);
    SETTINGS("model.name=efficientnet_b0", "input.source=real", "augment.evaluation_scale=1.5");
    assert_true(settings.augment.filter == FILTER_BICUBIC && settings.augment.evaluation_resize == 0);
}

TEST(a_number_of_the_users_takes_the_place_of_the_recipes)
{
    SETTINGS("model.name=resnet20_v2", "train.learning_rate=0.05", "train.batch=64", "train.weight_decay=0");
    expect("optimizer, momentum, schedule, boundaries, factors", "momentum, momentum 0.9", 0.05);
    SETTINGS("model.name=resnet50_v1", "train.learning_rate=0.05");
    expect("batch, optimizer, momentum, weight_decay, warmup_epochs, schedule, boundaries, factors",
           "momentum, momentum 0.9, weight decay 0.0001", 0.05);
}

TEST(a_recipe_s_warm_up_begins_at_a_share_of_its_rate)
{
    SETTINGS("model.name=regnet_y_1_6gf");
    assert_true(settings.train.warmup_epochs == 5 && settings.train.warmup_from == 0.1);
    SETTINGS("model.name=convnext_tiny", "train.warmup_epochs=2");
    assert_true(settings.train.warmup_epochs == 2 && settings.train.warmup_from == 0.01);
    SETTINGS("model.name=efficientnet_v2_s", "train.schedule=cosine");
    assert_true(settings.train.warmup_epochs == 0 && settings.train.warmup_from == 0);
    SETTINGS("model.name=resnet50_v1");
    assert_true(settings.train.warmup_epochs == 5 && settings.train.warmup_from == 0);
}

TEST(another_schedule_has_nothing_of_the_recipes)
{
    SETTINGS("model.name=resnet50_v1", "train.schedule=cosine");
    expect("batch, optimizer, learning_rate, momentum, weight_decay, rate_batch",
           "momentum, momentum 0.9, weight decay 0.0001", 0.128);
    assert_int_equal(settings.train.boundaries.count, 0);
    assert_true(settings.train.warmup_epochs == 0);
}

TEST(another_optimizer_has_its_own_numbers)
{
    SETTINGS("model.name=resnet50_v1", "train.optimizer=adam");
    expect("batch", "adam, betas 0.9 0.999, epsilon 1e-08", 0.001);
    assert_int_equal(settings.train.schedule, RATE_CONSTANT);
    SETTINGS("model.name=resnet20_v1", "train.optimizer=momentum");
    expect("batch, learning_rate, momentum, weight_decay, schedule, boundaries, factors",
           "momentum, momentum 0.9, weight decay 0.0001", 0.1);
}

static int release(void **state)
{
    (void)state;
    settings_release(&settings);
    return 0;
}

TESTS_MAIN(NULL, release)
