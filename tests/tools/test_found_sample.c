/* Tests of images that are lists of numbers: they are found, with the sizes that stand beside them. */
#include "tests/helpers/example_fixture.h"
#include "tests/helpers/test.h"
#include "tools/shards/found_sample.h"

static uint8_t payload[4 * EXAMPLE_FIXTURE_MAX];
static size_t payload_bytes;

static void add(const char *name, enum feature_kind kind, const void *run, size_t run_bytes)
{
    payload_bytes += example_fixture(name, kind, run, run_bytes, payload + payload_bytes);
}

static struct found_sample find(const char *image_key)
{
    const struct sample_names names = { .image = image_key };
    struct found_sample sample;
    size_t bad;
    assert_int_equal(found_sample_read(&names, payload, payload_bytes, &sample, &bad), 0);
    return sample;
}

static void add_sizes(uint8_t height, uint8_t width, uint8_t depth)
{
    add("height", FEATURE_INT64S, &height, 1);
    add("width", FEATURE_INT64S, &width, 1);
    add("depth", FEATURE_INT64S, &depth, 1);
}

static int begin(void **state)
{
    (void)state;
    payload_bytes = 0;
    return 0;
}

TEST_WITH(lists_of_numbers_are_images, begin, NULL)
{
    static const float floats[784];
    static const uint8_t integers[12];
    add("picture", FEATURE_FLOATS, floats, sizeof(floats));
    add("dots", FEATURE_INT64S, integers, sizeof(integers));
    const struct found_sample of_floats = find("picture");
    assert_int_equal(of_floats.image, FOUND_FLOATS);
    assert_int_equal(of_floats.list.value_count, 784);
    assert_true(of_floats.height == 28 && of_floats.width == 28 && of_floats.channels == 1);
    const struct found_sample of_integers = find("dots");
    assert_int_equal(of_integers.image, FOUND_INTEGERS);
    assert_int_equal(of_integers.width, 0);
}

TEST_WITH(a_list_has_the_sizes_beside_it_where_it_is_as_long, begin, NULL)
{
    static const uint8_t integers[12];
    add("dots", FEATURE_INT64S, integers, sizeof(integers));
    add_sizes(2, 2, 3);
    const struct found_sample fits = find("dots");
    assert_true(fits.height == 2 && fits.width == 2 && fits.channels == 3);
    add_sizes(2, 3, 3);
    assert_int_equal(find("dots").width, 0);
}

TEST_WITH(bytes_are_floats_where_the_sizes_say_so, begin, NULL)
{
    static const float floats[12];
    add("image", FEATURE_BYTES, floats, sizeof(floats));
    assert_int_equal(find(NULL).image, FOUND_UNKNOWN);
    add_sizes(2, 2, 3);
    const struct found_sample found = find(NULL);
    assert_int_equal(found.image, FOUND_FLOATS);
    assert_int_equal(found.byte_count, sizeof(floats));
    assert_true(found.height == 2 && found.width == 2 && found.channels == 3);
    add_sizes(4, 4, 3);
    assert_int_equal(find(NULL).image, FOUND_ROWS);
}

TEST_WITH(one_number_is_no_image, begin, NULL)
{
    add("dots", FEATURE_INT64S, "\7", 1);
    assert_int_equal(find("dots").image, FOUND_NOTHING);
}

TESTS_MAIN(NULL, NULL)
