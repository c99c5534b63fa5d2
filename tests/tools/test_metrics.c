/* Tests of the table of metrics: that its rows agree with each other, that values pass through JSON, and that the pages
 * of doc/ name every metric. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/file/file.h"
#include "tests/helpers/test.h"
#include "tools/lib/run/metrics.h"

#define EACH_METRIC(name) const struct metric *name = metric_table; name->help != NULL; name++

static const enum metric_place places[] = {
    IN_TRAIN, IN_VALIDATION, IN_EPOCH, IN_EPOCH_VALIDATION, IN_PROGRESS, IN_SPEED, IN_TIME, IN_LEARNED, IN_COSTS,
    IN_FAULTS, IN_MEMORY, IN_SPENT,
};
#define PLACES (sizeof(places) / sizeof(*places))

static bool are_equal(const char *one, const char *other)
{
    return one == other || (one != NULL && other != NULL && strcmp(one, other) == 0);
}

TEST(a_name_belongs_to_one_metric)
{
    for (EACH_METRIC(one))
        for (const struct metric *other = metric_table; other < one; other++) {
            assert_false(one->path != NULL && are_equal(one->path, other->path));
            assert_false(one->tag != NULL && are_equal(one->tag, other->tag));
            assert_false(one->compared != NULL && are_equal(one->compared, other->compared));
            assert_false(one->prometheus != NULL && are_equal(one->prometheus, other->prometheus) &&
                         are_equal(one->labels, other->labels));
        }
}

TEST(every_metric_is_shown_where_it_is_measured)
{
    for (EACH_METRIC(metric)) {
        assert_true(metric->path != NULL || metric->prometheus != NULL || metric->tag != NULL);
        if (metric->tag != NULL)
            assert_true((metric->places & (IN_TRAIN | IN_VALIDATION)) != 0);
        if (metric->compared != NULL)
            assert_true((metric->places & IN_SUMMARY) != 0 && metric->type == METRIC_DOUBLE);
        if (metric->counts_again)
            assert_non_null(metric->prometheus);
    }
}

TEST(the_report_page_shows_what_files_have)
{
    unsigned strong[CHART_COUNT] = { 0 }, faint[CHART_COUNT] = { 0 };
    for (EACH_METRIC(metric)) {
        assert_true(metric->label == NULL || (metric->places & IN_SUMMARY) != 0);
        assert_true(!metric->is_headline || metric->label != NULL);
        const unsigned rows = metric_charts[metric->chart].is_of_validation ? IN_VALIDATION : IN_TRAIN;
        assert_true(metric->chart == CHART_NONE || (metric->path != NULL && (metric->places & rows) != 0));
        *(metric->is_faint ? &faint[metric->chart] : &strong[metric->chart]) += 1;
    }
    for (size_t i = CHART_NONE + 1; i < CHART_COUNT; i++) {
        bool has_whole = metric_charts[i].whole == NULL;
        for (EACH_METRIC(metric))
            has_whole = has_whole || are_equal(metric->path, metric_charts[i].whole);
        assert_true(has_whole && strong[i] == 1 && faint[i] <= !metric_charts[i].has_validation);
    }
}

/* The text of a place in which every metric has a value of its own: its index. */
static json_t *written(enum metric_place place, unsigned has)
{
    struct metric_values values = { .has = has };
    struct json json;
    for (EACH_METRIC(metric))
        metric_set(metric, &values, (double)metric_index(metric));
    json_init(&json, false);
    json_open_object(&json, NULL);
    metrics_write(&values, place, &json);
    json_close_object(&json);
    json_t *const object = json_loads(json_text(&json), JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(object);
    json_release(&json);
    return object;
}

static const json_t *value_at(const json_t *value, const char *path)
{
    char text[128], *rest = text;
    snprintf(text, sizeof(text), "%s", path);
    for (const char *key = strsep(&rest, "."); key != NULL; key = strsep(&rest, "."))
        value = json_object_get(value, key);
    return value;
}

/* JSON_REJECT_DUPLICATES finds an object that is opened twice. Fields are shared by metrics of several names. */
TEST(a_place_has_its_metrics_in_the_objects_of_their_paths)
{
    for (size_t i = 0; i < PLACES; i++) {
        json_t *const object = written(places[i], ~0u);
        for (EACH_METRIC(metric)) {
            if (metric->path == NULL)
                continue;
            const json_t *const value = value_at(object, metric->path);
            assert_true((value != NULL) == ((metric->places & places[i]) != 0));
            if (value != NULL && metric->type == METRIC_DOUBLE)
                assert_true(json_is_number(value));
            if (value != NULL && metric->type == METRIC_BOOL)
                assert_true(json_is_boolean(value));
        }
        json_decref(object);
    }
}

TEST(a_metric_is_left_out_without_what_it_needs)
{
    for (size_t i = 0; i < PLACES; i++) {
        json_t *const object = written(places[i], 0);
        for (EACH_METRIC(metric))
            if (metric->path != NULL && metric->needs != 0)
                assert_null(value_at(object, metric->path));
        json_decref(object);
    }
}

TEST(what_is_unknown_is_null)
{
    const struct metric_values values = { .correct = METRIC_UNKNOWN, .loss = NAN, .accuracy = INFINITY };
    struct json json;
    json_init(&json, false);
    json_open_object(&json, NULL);
    metrics_write(&values, IN_VALIDATION, &json);
    json_close_object(&json);
    assert_string_equal(json_text(&json), "{\"images\":0,\"loss\":null,\"accuracy\":null,\"balanced_accuracy\":0,"
                                          "\"macro\":{\"precision\":0,\"recall\":0,\"f1\":0},"
                                          "\"weighted\":{\"precision\":0,\"recall\":0,\"f1\":0},\"seconds\":0,"
                                          "\"images_per_second\":0,\"correct\":null}");
    json_release(&json);
}

/* ---- doc/ ---- */

static char *page_of(const char *name)
{
    const char *const folder = getenv("srcdir");
    char path[4096], *text = NULL;
    size_t bytes;
    snprintf(path, sizeof(path), "%s/doc/%s", folder != NULL ? folder : ".", name);
    assert_int_equal(file_load(path, 1 << 20, &text, &bytes), 0);
    return text;
}

static bool is_of_word(char letter)
{
    return letter != '\0' && strchr("abcdefghijklmnopqrstuvwxyz0123456789_", letter) != NULL;
}

static void assert_named(const char *page, const char *page_name, const char *name)
{
    const size_t bytes = strlen(name);
    for (const char *at = strstr(page, name); at != NULL; at = strstr(at + 1, name))
        if ((at == page || !is_of_word(at[-1])) && !is_of_word(at[bytes]))
            return;
    fail_msg("doc/%s does not name %s", page_name, name);
}

TEST(the_pages_name_every_metric)
{
    char *const formats = page_of("formats.md"), *const observing = page_of("observing.md");
    char *const compare = page_of("compare.md");
    for (EACH_METRIC(metric)) {
        char text[128], *rest = text;
        snprintf(text, sizeof(text), "%s", metric->path != NULL ? metric->path : "");
        for (const char *key = strsep(&rest, "."); key != NULL && *key != '\0'; key = strsep(&rest, "."))
            assert_named(formats, "formats.md", key);
        snprintf(text, sizeof(text), "pipetrain_%s", metric->prometheus != NULL ? metric->prometheus : "");
        if (metric->prometheus != NULL)
            assert_named(observing, "observing.md", text);
        if (metric->tag != NULL)
            assert_named(observing, "observing.md", metric->tag);
        if (metric->compared != NULL)
            assert_named(compare, "compare.md", metric->compared);
    }
    free(formats);
    free(observing);
    free(compare);
}

TESTS_MAIN(NULL, NULL)
