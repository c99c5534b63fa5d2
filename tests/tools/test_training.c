/* Tests of how the settings train: what optimizers are usually used with, and their words. */
#include <math.h>
#include <string.h>

#include "tests/helpers/test.h"
#include "tools/lib/config/config.h"
#include "tools/lib/config/options.h"
#include "tools/lib/config/training.h"

/* The settings of these assignments, and what finds them wrong, until the next call. */
static struct settings settings;
static char problem[512];

static void read_settings(const char *const *assignments)
{
    struct problems problems;
    settings_release(&settings);
    problems_init(&problems);
    assert_int_equal(settings_init(&settings), 0);
    assert_int_equal(config_set(&settings, "input.source=synthetic", &problems), 0);
    for (; *assignments != NULL; assignments++)
        assert_int_equal(config_set(&settings, *assignments, &problems), 0);
    (void)settings_finish(&settings, &problems);
    snprintf(problem, sizeof(problem), "%s", problems.count > 0 ? problems.lines[0] : "");
    problems_release(&problems);
}

#define SETTINGS(...) read_settings((const char *const[]){ __VA_ARGS__, NULL })

static const char *described(void)
{
    static char text[TRAINING_TEXT_SIZE];
    training_describe_optimizer(&settings.train, text, sizeof(text));
    return text;
}

TEST(an_optimizer_has_what_it_is_usually_used_with)
{
    SETTINGS("train.batch=1");
    assert_string_equal(described(), "adadelta, rho 0.95, epsilon 1e-08");
    assert_true(settings.train.learning_rate == 1);
    SETTINGS("train.optimizer=sgd");
    assert_string_equal(described(), "sgd");
    assert_true(settings.train.learning_rate == 0.01);
    SETTINGS("train.optimizer=momentum");
    assert_true(settings.train.learning_rate == 0.01);
    SETTINGS("train.optimizer=nesterov", "train.weight_decay=0.0005");
    assert_string_equal(described(), "nesterov, momentum 0.9, weight decay 0.0005");
    assert_true(settings.train.learning_rate == 0.01);
    SETTINGS("train.optimizer=sgd", "train.weight_decay=0.0005", "train.decay_scope=all");
    assert_string_equal(described(), "sgd, weight decay 0.0005 of all parameters");
    SETTINGS("train.optimizer=sgd", "train.clip_norm=0.5", "train.clip_value=0.25");
    assert_string_equal(described(), "sgd, gradients at most 0.25, norm of gradients at most 0.5");
    SETTINGS("train.optimizer=sgd", "train.label_smoothing=0.1");
    assert_string_equal(described(), "sgd, labels smoothed by 0.1");
    SETTINGS("train.optimizer=sgd", "train.ema=0.99999999");
    assert_string_equal(described(), "sgd; evaluated and saved: averages of weights, decay 0.99999999");
    SETTINGS("train.optimizer=rmsprop");
    assert_string_equal(described(), "rmsprop, momentum 0.9, rho 0.9, epsilon 1");
    assert_true(settings.train.learning_rate == 0.01);
    SETTINGS("train.optimizer=rmsprop_keras");
    assert_string_equal(described(), "rmsprop_keras, rho 0.9, epsilon 1e-08");
    SETTINGS("train.optimizer=rmsprop_pytorch");
    assert_string_equal(described(), "rmsprop_pytorch, momentum 0.9, rho 0.9, epsilon 1e-08");
    assert_true(settings.train.learning_rate == 0.001);
    SETTINGS("train.optimizer=adam");
    assert_string_equal(described(), "adam, betas 0.9 0.999, epsilon 1e-08");
    assert_true(settings.train.learning_rate == 0.001);
    SETTINGS("train.optimizer=adamw");
    assert_string_equal(described(), "adamw, betas 0.9 0.999, epsilon 1e-08, weight decay 0.01");
    SETTINGS("train.optimizer=lars");
    assert_string_equal(described(), "lars, momentum 0.9, trust 0.001");
    assert_true(settings.train.learning_rate == 1);
    assert_string_equal(problem, "");
}

TEST(what_is_given_stays)
{
    SETTINGS("train.optimizer=rmsprop", "train.rho=0.95", "train.epsilon=1e-08", "train.learning_rate=1");
    assert_string_equal(described(), "rmsprop, momentum 0.9, rho 0.95, epsilon 1e-08");
    assert_true(settings.train.learning_rate == 1);
    SETTINGS("train.optimizer=adamw", "train.weight_decay=0");
    assert_true(settings.train.weight_decay == 0);
}

/* What a run keeps says the same once more. */
TEST(settings_that_are_written_read_back_as_they_are)
{
    static char text[16384];
    struct problems problems;
    SETTINGS("train.optimizer=rmsprop");
    FILE *const out = fmemopen(text, sizeof(text), "w");
    assert_non_null(out);
    assert_int_equal(settings_write(&settings, out), 0);
    assert_int_equal(fclose(out), 0);
    settings_release(&settings);
    problems_init(&problems);
    assert_int_equal(settings_init(&settings), 0);
    assert_int_equal(config_parse(&settings, "run.conf", text, strlen(text), &problems), 0);
    assert_int_equal(settings_finish(&settings, &problems), 0);
    problems_release(&problems);
    assert_string_equal(described(), "rmsprop, momentum 0.9, rho 0.9, epsilon 1");
}

TEST(towers_get_the_numbers_of_the_settings)
{
    SETTINGS("train.optimizer=adamw", "train.betas=0.8, 0.99", "train.epsilon=0.25", "train.momentum=0.5",
             "train.rho=0.75", "train.trust=0.125", "train.weight_decay=0.0625", "train.decay_scope=weights",
             "train.clip_value=7", "train.clip_norm=3");
    const struct optimizer optimizer = training_optimizer(&settings.train);
    assert_int_equal(optimizer.kind, OPTIMIZER_ADAMW);
    assert_true(optimizer.beta1 == 0.8 && optimizer.beta2 == 0.99 && optimizer.epsilon == 0.25f);
    assert_true(optimizer.momentum == 0.5f && optimizer.rho == 0.75 && optimizer.trust == 0.125);
    assert_true(optimizer.weight_decay == 0.0625f && optimizer.decay_scope == DECAY_WEIGHTS);
    assert_true(optimizer.clip_value == 7 && optimizer.clip_norm == 3);
}

/* The training set has 1,000 records, the batch 128: 8 steps an epoch. */
static struct learning_rate rate_of(const char **text_out)
{
    static char text[TRAINING_TEXT_SIZE];
    const struct schedule schedule = { .records = { 1000, 0 }, .batch = (uint32_t)settings_global_batch(&settings),
                                       .towers = 1, .epochs = (uint32_t)settings.train.epochs,
                                       .steps = (uint64_t)settings.train.steps };
    const struct learning_rate rate = training_rate(&settings.train, &schedule);
    training_describe_rate(&settings.train, &rate, text, sizeof(text));
    *text_out = text;
    return rate;
}

static void expect_rate(const char *text, uint64_t step, double rate)
{
    const char *found;
    const struct learning_rate of = rate_of(&found);
    assert_string_equal(problem, "");
    assert_string_equal(found, text);
    assert_true(fabs(learning_rate_at(&of, step) - rate) <= 1e-12);
}

TEST(schedules_are_in_epochs_of_the_run)
{
    SETTINGS("train.optimizer=adam");
    expect_rate("0.001", 5, 0.001);
    SETTINGS("train.learning_rate=0.1", "train.schedule=piecewise", "train.boundaries=82 123",
             "train.factors=0.1, .01");
    expect_rate("0.1, 0.01 after epoch 82, 0.001 after epoch 123", 82 * 8, 0.1);
    expect_rate("0.1, 0.01 after epoch 82, 0.001 after epoch 123", 82 * 8 + 1, 0.01);
    SETTINGS("train.learning_rate=0.1", "train.schedule=exponential", "train.decay_factor=0.94",
             "train.decay_epochs=2");
    expect_rate("0.1, times 0.94 every 2 epochs", 15, 0.1);
    expect_rate("0.1, times 0.94 every 2 epochs", 16, 0.094);
    SETTINGS("train.learning_rate=0.1", "train.schedule=exponential", "train.staircase=no");
    expect_rate("0.1, times 0.1 every 30 epochs, a little at every step", 120, 0.1 * sqrt(0.1));
    SETTINGS("train.learning_rate=0.5", "train.schedule=inverse_time", "train.rate_decay=0.01");
    expect_rate("0.5 / (1 + 0.01 * step)", 100, 0.25);
}

TEST(schedules_end_with_the_run_or_where_they_are_set_to)
{
    SETTINGS("train.learning_rate=0.1", "train.schedule=cosine");
    expect_rate("0.1, by a cosine to 0", 40, 0.05);
    SETTINGS("train.learning_rate=0.1", "train.schedule=cosine", "train.steps=20");
    expect_rate("0.1, by a cosine to 0", 10, 0.05);
    SETTINGS("train.learning_rate=0.1", "train.schedule=cosine", "train.schedule_epochs=5", "train.final_rate=0.02");
    expect_rate("0.1, by a cosine to 0.02 in epoch 5", 20, 0.06);
    SETTINGS("train.learning_rate=0.1", "train.schedule=polynomial", "train.power=2");
    expect_rate("0.1, by a polynomial of power 2 to 0", 40, 0.025);
    SETTINGS("train.learning_rate=0.5", "train.schedule=one_cycle", "train.peak=0.5");
    expect_rate("0.5 in one cycle, from 0.02 to 2e-06, largest after 0.5 of the steps", 39, 0.5);
    SETTINGS("train.learning_rate=0.5", "train.schedule=one_cycle", "train.peak=0");
    expect_rate("0.5 in one cycle, to 2e-06, largest at the first step", 0, 0.5);
    SETTINGS("train.learning_rate=0.5", "train.schedule=one_cycle", "train.peak=1");
    expect_rate("0.5 in one cycle, from 0.02, largest at the last step", 79, 0.5);
}

TEST(the_rate_grows_with_the_batch_and_from_0)
{
    SETTINGS("train.learning_rate=0.128", "train.rate_batch=256", "train.batch=512", "train.warmup_epochs=5");
    expect_rate("0.256 (0.128 for a batch of 256), warm-up from 0 over 5 epochs", 0, 0);
    expect_rate("0.256 (0.128 for a batch of 256), warm-up from 0 over 5 epochs", 5, 0.128);
    expect_rate("0.256 (0.128 for a batch of 256), warm-up from 0 over 5 epochs", 10, 0.256);
    SETTINGS("train.learning_rate=0.5", "train.warmup_epochs=1", "train.warmup_from=0.1");
    expect_rate("0.5, warm-up from 0.05 over 1 epoch", 0, 0.05);
}

TEST(what_does_not_go_together_is_reported)
{
    SETTINGS("train.betas=0.9");
    assert_non_null(strstr(problem, "betas: needs two numbers, as in 0.9 0.999, and has 1"));
    SETTINGS("train.schedule=piecewise");
    assert_non_null(strstr(problem, "boundaries: is missing"));
    SETTINGS("train.schedule=piecewise", "train.boundaries=1 2", "train.factors=0.1");
    assert_non_null(strstr(problem, "factors: needs a number for each of the 2 boundaries, and has 1"));
    SETTINGS("train.schedule=piecewise", "train.boundaries=2 2", "train.factors=0.1 0.1");
    assert_non_null(strstr(problem, "boundaries: are not in ascending order"));
    SETTINGS("train.boundaries=2");
    assert_non_null(strstr(problem, "boundaries: has no effect without a schedule"));
    SETTINGS("train.schedule=one_cycle", "train.warmup_epochs=1");
    assert_non_null(strstr(problem, "warmup_epochs: one_cycle has a warm-up of its own"));
    SETTINGS("train.schedule=cosine", "train.warmup_epochs=3", "train.epochs=3");
    assert_non_null(strstr(problem, "warmup_epochs: leaves no epoch for the schedule"));
    SETTINGS("train.schedule=constant", "train.boundaries=2");
    assert_string_equal(problem, "");
}

/* The network has dense layers of 384, 192 and 10 units. */
#define PARTS(count, ...) SETTINGS("model.name=cifar_alexnet", "train.slices=4", "model.parts=" count, __VA_ARGS__)

static void assert_refused(const char *key, const char *why)
{
    if (strstr(problem, key) == NULL || strstr(problem, why) == NULL)
        fail_msg("'%s' has no '%s' of %s", problem, why, key);
}

TEST(what_model_parts_cannot_do_is_reported)
{
    PARTS("2", "devices.towers=2", "train.optimizer=lars", "train.clip_norm=1", "train.on_nan=skip", "train.ema=0.9");
    assert_string_equal(problem, "");
    PARTS("3", "devices.towers=1");
    assert_refused("model.parts:", "units, which 3 parts do not divide: model.parts may be 1, 2");
    PARTS("2", "devices.towers=4");
    assert_refused("model.parts:", "2 parts can be shared by 1 or 2 towers, because sums over parts are added in pairs; "
                   "devices.towers is 4");
    SETTINGS("model.name=cifar_alexnet", "model.parts=2");
    assert_refused("model.parts:", "set train.slices = 2");
    PARTS("2", "sync.mode=parameter_server", "devices.towers=2");
    assert_refused("sync.mode:", "use replicated");
    PARTS("2", "sync.consistency=relaxed", "devices.towers=2");
    assert_refused("sync.consistency:", "use strong");
    PARTS("2", "sync.wire=bf16", "devices.towers=2");
    assert_refused("sync.wire:", "use fp32");
    PARTS("2", "devices.precision=fp16");
    assert_refused("devices.precision:", "use bf16");
}

/* Numbers of classes often have no divisors. */
TEST(more_classes_are_an_answer_where_only_they_do_not_fit)
{
    PARTS("2", "data.classes=11");
    assert_refused("model.parts:", "units, which 2 parts do not divide: use data.classes = 12, with classes that no image has");
    PARTS("4", "data.classes=10");
    assert_refused("model.parts:", "model.parts may be 1, 2; or use data.classes = 12, with classes that no image has");
    PARTS("5", "data.classes=11");
    assert_refused("model.parts:", "units, which 5 parts do not divide: leave model.parts out");
    assert_null(strstr(problem, "data.classes"));
    PARTS("5", "data.classes=10");
    assert_refused("model.parts:", "units, which 5 parts do not divide: model.parts may be 1, 2");
    assert_null(strstr(problem, "data.classes"));
    SETTINGS("model.name=resnet20_v1", "data.classes=11", "train.slices=4", "model.parts=2");
    assert_refused("model.parts:", "2 parts do not divide: model.parts may be 1, 11; or use data.classes = 12");
}

TEST(a_network_without_dense_layers_at_its_end_has_no_parts)
{
    SETTINGS("model.name=densenet40_k12", "train.slices=4", "model.parts=2");
    assert_string_equal(problem, "");
    SETTINGS("model.name=squeezenet1_1", "train.slices=4", "model.parts=2");
    assert_refused("model.parts:", "does not end in a dense layer");
    assert_refused("model.parts:", "leave model.parts out");
}

static int release(void **state)
{
    (void)state;
    settings_release(&settings);
    return 0;
}

TESTS_MAIN(NULL, release)
