/* Tests of what is compared: keys, values, products. */
#include <errno.h>
#include <string.h>

#include "tests/helpers/test.h"
#include "tools/compare/axes.h"
#include "tools/lib/trial/trial.h"

static struct axes axes;
static struct settings settings;
static struct problems problems;

static int set_up(void **state)
{
    (void)state;
    axes = (struct axes){ 0 };
    problems_init(&problems);
    return settings_init(&settings);
}

static int tear_down(void **state)
{
    (void)state;
    axes_release(&axes);
    problems_release(&problems);
    settings_release(&settings);
    return 0;
}

static int add(const char *text)
{
    return axes_add(&axes, text, &settings, &problems);
}

TEST_WITH(a_key_that_is_one_of_its_kind_needs_no_section, set_up, tear_down)
{
    for (const struct option_row *row = option_table; row->key != NULL; row++) {
        char text[160], full[128];
        size_t same = 0;
        snprintf(full, sizeof(full), "%s.%s", section_name(row->section), row->key);
        for (const struct option_row *other = option_table; other->key != NULL; other++)
            same += strcmp(other->key, row->key) == 0;
        snprintf(text, sizeof(text), "%s=1", row->key);
        const int rc = add(text);
        assert_int_equal(rc, same > 1 || row->in_trials != NULL ? -EINVAL : 0);
        if (rc == 0) {
            assert_string_equal(axes.axes[0].key, full);
            assert_string_equal(axes.axes[0].name, row->key);
        }
        axes_release(&axes);
    }
}

TEST_WITH(says_which_keys_a_short_name_may_be, set_up, tear_down)
{
    assert_int_equal(add("name=a,b"), -EINVAL);
    assert_string_equal(problems.lines[0], "--compare: 'name' may be run.name or model.name");
    assert_int_equal(add("model.name=a,b"), 0);
    assert_string_equal(axes.axes[0].name, "model.name");
}

TEST_WITH(refuses_what_is_no_key_or_not_to_vary, set_up, tear_down)
{
    static const struct { const char *text, *says; } refused[] = {
        { "towers", "wants a key and its values" }, { "=1", "wants a key and its values" },
        { "twers=1,2", "'towers' in [devices]" },   { "lr=1,2", "learning_rate" },
        { "input.towers=1,2", "belongs in [devices]" }, { "train.steps=1,2", "is the same in all variants" },
        { "run.dir=a,b", "is the same in all variants" },
    };
    for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
        assert_int_equal(add(refused[i].text), -EINVAL);
        assert_int_equal(problems.count, i + 1);
        assert_non_null(strstr(problems.lines[i], refused[i].says));
    }
}

TEST_WITH(values_are_what_stands_between_commas, set_up, tear_down)
{
    assert_int_equal(add("devices.list=0,0\\,1,,2\\,\\x"), 0);
    assert_int_equal(axes.axes[0].count, 4);
    assert_string_equal(axes.axes[0].values[0], "0");
    assert_string_equal(axes.axes[0].values[1], "0,1");
    assert_string_equal(axes.axes[0].values[2], "");
    assert_string_equal(axes.axes[0].values[3], "2,\\x");
    assert_int_equal(add("list=3"), 0);
    assert_int_equal(axes.count, 1);
    assert_int_equal(axes.axes[0].count, 5);
    assert_string_equal(axes.axes[0].values[4], "3");
}

TEST_WITH(variants_are_all_combinations, set_up, tear_down)
{
    static const char *const names[] = {
        "towers=1 source=real layout=x", "towers=1 source=cached layout=x", "towers=1 source=synthetic layout=x",
        "towers=2 source=real layout=x", "towers=2 source=cached layout=x", "towers=2 source=synthetic layout=x",
    };
    char name[64];
    assert_int_equal(axes_variants(&axes), 1);
    assert_int_equal(add("towers=1,2") + add("source=real,cached,synthetic") + add("layout=x"), 0);
    assert_int_equal(axes_variants(&axes), 6);
    for (uint64_t v = 0; v < 6; v++) {
        axes_name(&axes, v, name, sizeof(name));
        assert_string_equal(name, names[v]);
    }
    axes_name(&axes, 0, name, 12);
    assert_string_equal(name, "towers=1 so");
}

/* In front of ways of working together, unless towers are compared themselves, or there is one anyhow. */
TEST_WITH(one_tower_alone_comes_first, set_up, tear_down)
{
    static const char *const names[] = { "one tower", "mode=replicated sync.every=1", "mode=replicated sync.every=5",
                                         "mode=averaging sync.every=1", "mode=averaging sync.every=5" };
    char name[64];
    assert_int_equal(add("sync.mode=replicated,averaging") + add("sync.every=1,5"), 0);
    axes_add_one_tower(&axes, &settings);
    assert_int_equal(axes_variants(&axes), 4);
    settings.devices.towers = 3;
    axes_add_one_tower(&axes, &settings);
    assert_int_equal(axes_variants(&axes), 5);
    for (uint64_t v = 0; v < 5; v++) {
        axes_name(&axes, v, name, sizeof(name));
        assert_string_equal(name, names[v]);
    }
    assert_string_equal(axes_value(&axes, 0, 0), "replicated");
    assert_string_equal(axes_value(&axes, 0, 1), "1");
    assert_string_equal(axes_value(&axes, 4, 1), "5");
    assert_int_equal(add("towers=2,4"), 0);
    axes_add_one_tower(&axes, &settings);
    assert_int_equal(axes_variants(&axes), 8);
}

TEST_WITH(counts_no_more_variants_than_can_be, set_up, tear_down)
{
    static const char *const keys[] = { "towers", "source", "layout", "precision", "crop", "flip", "seed", "pad" };
    char text[2048];
    for (size_t i = 0; i < AXES_MAX; i++) {
        size_t used = (size_t)snprintf(text, sizeof(text), "%s=0", keys[i]);
        while (used < 1000)
            used += (size_t)snprintf(text + used, sizeof(text) - used, ",0");
        assert_int_equal(add(text), 0);
    }
    assert_int_equal(axes_variants(&axes), UINT64_MAX);
    assert_int_equal(add("bucket=1"), -EINVAL);
    assert_string_equal(problems.lines[0], "--compare: at most 8 keys can be compared at a time");
    assert_int_equal(add("towers=1"), 0);
}

TESTS_MAIN(NULL, NULL)
