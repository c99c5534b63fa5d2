/* The data set of drawn digits that look handwritten. Sample i of a split depends only on the seed, the split and i,
 * so a larger data set begins with the samples of a smaller one. */
#include "tools/convert/convert.h"
#include "tools/convert/glyph.h"

#define CLASSES 10u

struct digits_split {
    const struct conversion *conversion;
    struct random_key key;
};

static int digits_sample(void *arg, uint64_t index, void *scratch,
                         struct example_value values_out[SAMPLE_VALUES_MAX], size_t *count_out)
{
    const struct digits_split *split = arg;
    const unsigned digit = (unsigned)(index % CLASSES);

    glyph_draw(digit, split->key, index, scratch);
    *count_out = convert_raw_image(split->conversion, scratch, digit, values_out);
    return 0;
}

static struct sample_source make_source(struct digits_split *split, const char *name, uint64_t record_count)
{
    return (struct sample_source){
        .split = name, .record_count = record_count, .scratch_bytes = GLYPH_PIXELS,
        .sample = digits_sample, .arg = split,
    };
}

static int digits_prepare(const struct convert_options *options, struct stop *stop, struct conversion *conversion)
{
    struct digits_split *const splits = conversion->state;

    (void)stop;
    for (uint32_t i = 0; i < 2; i++)
        splits[i] = (struct digits_split){ conversion, random_key(options->seed, RANDOM_DRAW, i) };
    conversion->origin = "drawn digits";
    conversion->classes = CLASSES;
    conversion->height = conversion->width = GLYPH_SIDE;
    conversion->depth = 1;
    conversion->sources[0] = make_source(&splits[0], "train", options->train);
    conversion->sources[1] = make_source(&splits[1], "validation", options->validation);
    conversion->source_count = 2;
    return 0;
}

const struct converter convert_digits = {
    .name = "digits",
    .summary = "handwritten-like digits drawn by the program, no input needed",
    .inputs = "",
    .takes = CONVERT_TRAIN,
    .state_bytes = 2 * sizeof(struct digits_split),
    .prepare = digits_prepare,
};
