/* What is done to pixels: from keys to what the stages are told, and to words. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/helpers/capture.h"
#include "tests/helpers/test.h"
#include "tools/lib/config/config.h"
#include "tools/lib/config/pixels.h"
#include "tools/lib/config/settings_model.h"

static int setup(void **state)
{
    static struct settings settings;
    *state = &settings;
    return settings_init(&settings);
}

static int teardown(void **state)
{
    settings_release(*state);
    return 0;
}

static void set(struct settings *settings, const char *assignment)
{
    struct problems problems;
    problems_init(&problems);
    assert_int_equal(config_set(settings, assignment, &problems), 0);
    problems_release(&problems);
}

/* What pixels_print prints. */
static void print(const struct settings *settings, const struct net *net, char *text, size_t text_size)
{
    FILE *const out = fmemopen(text, text_size, "w");
    assert_non_null(out);
    pixels_print(settings, net, out);
    fclose(out);
}

TEST_WITH(training_images_have_the_size_that_is_set_for_them, setup, teardown)
{
    struct settings *const settings = *state;
    const struct net net = { .input = { 3, 32, 24 }, .transform = { .divisor = 255, .is_plain = true } };
    char text[2048];
    assert_int_equal(pixels_train_shape(settings, &net).height, 32);
    assert_int_equal(pixels_train_shape(settings, &net).width, 24);
    print(settings, &net, text, sizeof(text));
    assert_null(strstr(text, "32 x 24"));
    set(settings, "augment.train_size=20");
    assert_int_equal(pixels_train_shape(settings, &net).channels, 3);
    assert_int_equal(pixels_train_shape(settings, &net).height, 20);
    assert_int_equal(pixels_train_shape(settings, &net).width, 20);
    print(settings, &net, text, sizeof(text));
    assert_non_null(strstr(text, "images    train      20 x 20 pixels (validation: 32 x 24),"));
}

TEST_WITH(without_settings_images_of_the_right_size_stay_as_they_are, setup, teardown)
{
    const struct settings *const settings = *state;
    const struct augment augment = pixels_augment(settings, NULL);
    assert_int_equal(augment.crop[PHASE_TRAIN], CROP_AUTO);
    assert_int_equal(augment.crop[PHASE_EVALUATE], CROP_AUTO);
    assert_int_equal(augment.filter, FILTER_BILINEAR);
    assert_false(augment.flips || augment.changes_colour);
    assert_true(augment.seed == 1 && augment.scale == 1.145 && augment.pad == 4 && augment.shift == 0.1);
}

TEST_WITH(every_key_reaches_the_augmentation, setup, teardown)
{
    struct settings *const settings = *state;
    static const char *const keys[] = { "run.seed=7", "augment.crop=shift", "augment.evaluation=central",
                                        "augment.evaluation_scale=1.25", "augment.evaluation_resize=40",
                                        "augment.pad=3", "augment.shift=0.2",
                                        "augment.flip=yes", "augment.colour=yes", "augment.filter=bicubic",
                                        "augment.policy=rand_augment", "augment.operations=3",
                                        "augment.magnitude=11", "augment.erase=0.25",
                                        "augment.vertical_flip=yes", "augment.rotation=12.5",
                                        "augment.orientation=exif", "augment.crop_area=0.25, 0.9",
                                        "augment.crop_aspect=0.5 2" };
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
        set(settings, keys[i]);
    const struct augment augment = pixels_augment(settings, NULL);
    assert_int_equal(augment.seed, 7);
    assert_int_equal(augment.crop[PHASE_TRAIN], CROP_SHIFT);
    assert_int_equal(augment.crop[PHASE_EVALUATE], CROP_CENTRAL);
    assert_int_equal(augment.resize, 40);
    assert_true(augment.scale == 1.25 && augment.pad == 3 && augment.shift == 0.2);
    assert_true(augment.flips && augment.changes_colour);
    assert_int_equal(augment.filter, FILTER_BICUBIC);
    assert_int_equal(augment.policy, POLICY_RAND_AUGMENT);
    assert_true(augment.policy_operations == 3 && augment.policy_magnitude == 11 && augment.erase == 0.25);
    assert_true(augment.flips_vertically && augment.rotation == 12.5);
    assert_int_equal(augment.orientation, ORIENTATION_EXIF);
    assert_true(augment.area.low == 0.25 && augment.area.high == 0.9);
    assert_true(augment.aspect.low == 0.5 && augment.aspect.high == 2);
}

static struct pixels_text describe(struct settings *settings, const char *model)
{
    struct pixels_text text;
    struct net *net;
    struct problems problems;
    problems_init(&problems);
    assert_int_equal(settings_choose_model(settings, "--describe", model, &problems), 0);
    assert_int_equal(settings_open_net(settings, &net), 0);
    pixels_describe(settings, net, &text);
    net_close(net);
    return text;
}

static void assert_input(const struct pixels_text *text, const char *divisor, const char *mean, const char *deviation)
{
    assert_string_equal(text->divisor, divisor);
    assert_string_equal(text->mean, mean);
    assert_string_equal(text->deviation, deviation);
}

TEST_WITH(the_transform_is_the_model_s_own_until_a_key_replaces_it, setup, teardown)
{
    struct settings *const settings = *state;
    struct pixels_text text = describe(settings, "resnet20_v1");
    assert_input(&text, "127.5", "1", "1");
    text = describe(settings, "mnist_cnn");
    assert_input(&text, "255", "0", "1");
    set(settings, "model.mean=0.4914, 0.4822, 0.4465");
    text = describe(settings, "resnet20_v1");
    assert_input(&text, "255", "0.4914 0.4822 0.4465", "1");
    set(settings, "model.deviation=0.2023 0.1994 0.2010");
    text = describe(settings, "resnet20_v1");
    assert_input(&text, "255", "0.4914 0.4822 0.4465", "0.2023 0.1994 0.201");
    set(settings, "model.mean=0.5 0.4 0.5");
    set(settings, "model.deviation=0.2 0.2 0.3");
    text = describe(settings, "resnet20_v1");
    assert_input(&text, "255", "0.5 0.4 0.5", "0.2 0.2 0.3");
    set(settings, "model.mean=");
    set(settings, "model.deviation=");
    set(settings, "model.divisor=1");
    text = describe(settings, "resnet20_v1");
    assert_input(&text, "1", "0", "1");
}

TEST_WITH(one_number_is_for_all_channels, setup, teardown)
{
    struct settings *const settings = *state;
    struct input_transform transform;
    assert_false(pixels_transform(settings, &transform));
    set(settings, "model.deviation=0.25");
    assert_true(pixels_transform(settings, &transform));
    assert_false(transform.is_plain);
    for (uint32_t c = 0; c < NET_CHANNELS_MAX; c++)
        assert_true(transform.mean[c] == 0 && transform.std[c] == 0.25f);
    const struct pixels_text text = describe(settings, "resnet20_v1");
    assert_input(&text, "255", "0", "0.25");
}

TEST_WITH(erased_pixels_are_the_mean_of_the_input_s_transform, setup, teardown)
{
    struct settings *const settings = *state;
    struct net *net;
    set(settings, "model.name=resnet20_v1");
    set(settings, "model.mean=0.485 0.456 0.406");
    set(settings, "model.deviation=0.229 0.224 0.225");
    assert_int_equal(settings_open_net(settings, &net), 0);
    struct augment augment = pixels_augment(settings, net);
    assert_true(augment.erased[0] == 124 && augment.erased[1] == 116 && augment.erased[2] == 104);
    net_close(net);
    set(settings, "model.divisor=1");
    set(settings, "model.mean=123.68");
    assert_int_equal(settings_open_net(settings, &net), 0);
    augment = pixels_augment(settings, net);
    assert_true(augment.erased[0] == 124 && augment.erased[2] == 124);
    net_close(net);
    assert_int_equal(pixels_augment(settings, NULL).erased[0], 0);
}

/* A line in place of what is wrong, "" when nothing is. */
static void finish(struct settings *settings, char *line, size_t line_size)
{
    struct problems problems;
    problems_init(&problems);
    (void)settings_finish(settings, &problems);
    snprintf(line, line_size, "%s", problems.count == 0 ? "" : problems.lines[0]);
    problems_release(&problems);
}

TEST_WITH(numbers_for_other_channels_than_the_model_has_are_refused, setup, teardown)
{
    struct settings *const settings = *state;
    char line[512];
    set(settings, "input.source=synthetic");
    set(settings, "model.name=resnet20_v1");
    set(settings, "model.mean=1 2 3");
    finish(settings, line, sizeof(line));
    assert_string_equal(line, "");
    set(settings, "model.deviation=1 2");
    finish(settings, line, sizeof(line));
    assert_string_equal(line, "--set model.deviation: has 2 numbers, and images of 'resnet20_v1' have 3 "
                              "channels");
}

TEST_WITH(numbers_in_another_unit_are_warned_of, setup, teardown)
{
    struct settings *const settings = *state;
    static const struct { const char *mean, *deviation, *divisor, *warning; } cases[] = {
        { "0.485,0.456,0.406", "0.229,0.224,0.225", "0", "" },
        { "123.68,116.78,103.94", "", "0", "model.mean = 123.68: pixel / 255 is 1 at most: numbers for pixels of 0 to "
          "255 need model.divisor = 1\n" },
        { "123.68,116.78,103.94", "58.4,57.1,57.4", "1", "" },
        { "", "58.4,57.1,57.4", "0", "model.deviation = 58.4: pixel / 255 is 1 at most: numbers for pixels of 0 to 255 "
          "need model.divisor = 1\n" },
        { "103.939,116.779,123.68", "1", "1", "model.mean = 103.939, 116.779, 123.68 is in the order blue, green, red; "
          "JPEG and PNG images are read as red, green, blue: 123.68, 116.779, 103.939, and weights for BGR need the "
          "input channels of their first layer reversed\n" },
        { "0.406,0.456,0.485", "0.225,0.224,0.229", "255", "model.mean = 0.406, 0.456, 0.485 is in the order blue, "
          "green, red; JPEG and PNG images are read as red, green, blue: 0.485, 0.456, 0.406, and weights for BGR need "
          "the input channels of their first layer reversed\n" },
        { "0.4914,0.4822,0.4465", "0.247,0.243,0.261", "255", "" },
        { "1", "1", "127.5", "" },
        { "0.5", "1", "256", "" },
        { "0.485,0.456,0.406", "0.229,0.224,0.225", "1", "model.mean = 0.485: pixel / 1 goes to 255: numbers for "
          "pixels of 0 to 1 need model.divisor = 255\n" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct capture capture;
        char text[512], assignment[128];
        snprintf(assignment, sizeof(assignment), "model.mean=%s", cases[i].mean);
        set(settings, assignment);
        snprintf(assignment, sizeof(assignment), "model.deviation=%s", cases[i].deviation);
        set(settings, assignment);
        snprintf(assignment, sizeof(assignment), "model.divisor=%s", cases[i].divisor);
        set(settings, assignment);
        capture_begin(&capture);
        pixels_warn(settings);
        capture_end(&capture, text, sizeof(text));
        assert_string_equal(text, cases[i].warning);
    }
}

TEST_WITH(torchvisions_networks_resize_to_256_unless_another_scaling_is_given, setup, teardown)
{
    struct settings *const settings = *state;
    static const struct { const char *assignment; int64_t resize; const char *line; } cases[] = {
        { "input.source=real", 256, "" },
        { "augment.evaluation_resize=232", 232, "" },
        { "augment.evaluation_resize=0", 0, "" },
        { "augment.evaluation_scale=1.145", 0, "" },
        { "augment.evaluation=none", 0, "" },
        { "augment.evaluation=central", 256, "" },
        { "augment.filter=bicubic", 256, "" },
        { "augment.filter=area", 0, "" },
        { "model.name=resnet50_v1", 0, "" },
        { "augment.evaluation_resize=200", 200, "--set augment.evaluation_resize: resized to 200 "
          "pixels an image is smaller than the network's 224 x 224: at least 224" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char line[512];
        settings_release(settings);
        assert_int_equal(settings_init(settings), 0);
        set(settings, "data.train=x");
        set(settings, "model.name=torchvision_resnet18");
        set(settings, cases[i].assignment);
        finish(settings, line, sizeof(line));
        assert_string_equal(line, cases[i].line);
        assert_int_equal(settings->augment.evaluation_resize, cases[i].resize);
    }
}

TEST_WITH(the_scaling_that_is_given_last_decides, setup, teardown)
{
    struct settings *const settings = *state;
    static const char file[] = "[data]\ntrain = x\n[model]\nname = mnist_cnn\n[augment]\nevaluation_scale = 1.5\n"
                               "evaluation_resize = 32\n";
    struct problems problems;
    char line[512];
    problems_init(&problems);
    assert_int_equal(config_parse(settings, "x.conf", file, sizeof(file) - 1, &problems), 0);
    finish(settings, line, sizeof(line));
    assert_string_equal(line, "");
    assert_int_equal(pixels_augment(settings, NULL).resize, 32);
    set(settings, "augment.evaluation_scale=1.25");
    finish(settings, line, sizeof(line));
    assert_string_equal(line, "");
    assert_true(pixels_augment(settings, NULL).resize == 0 && pixels_augment(settings, NULL).scale == 1.25);
    set(settings, "augment.evaluation_resize=30");
    set(settings, "augment.filter=nearest");
    finish(settings, line, sizeof(line));
    assert_string_equal(line, "--set augment.evaluation_resize: needs filter = bilinear or "
                              "bicubic; with other filters use evaluation_scale");
    problems_release(&problems);
}

TESTS_MAIN(NULL, NULL)
