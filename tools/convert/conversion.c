/* What converters share. Called by the main thread; convert_fail and convert_raw_image by any thread. */
#include "tools/convert/convert.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "stage/log.h"

/* Say that an input is there twice: a validation set that is the training set measures nothing. */
static void report_twice(const struct convert_options *options)
{
    struct stat one, other;

    for (size_t i = 0; i < options->input_count; i++)
        for (size_t k = 0; k < i; k++)
            if (stat(options->inputs[k], &one) == 0 && stat(options->inputs[i], &other) == 0 &&
                one.st_dev == other.st_dev && one.st_ino == other.st_ino)
                log_message(LOG_RUN, "%s and %s are the same: if one is for validation, it cannot test what is "
                            "trained on it", options->inputs[k], options->inputs[i]);
}

/* EMNIST's files hold images with rows and columns exchanged. The name of LEAF's set, whose images are upright, ends with
 * the same letters. */
static void report_emnist(const char *path)
{
    const char *const found = strcasestr(path, "emnist");

    if (found != NULL && (found == path || !isalpha((unsigned char)found[-1])))
        log_message(LOG_RUN, "%s: EMNIST as downloaded has rows and columns of its images exchanged, and is converted as "
                    "it is: exchange them before, if upright images are to be predicted", path);
}

int converter_prepare(const struct converter *converter, const struct convert_options *options, struct stop *stop,
                      struct conversion *conversion)
{
    report_twice(options);
    for (size_t i = 0; i < options->input_count && converter->takes_pixels; i++)
        report_emnist(options->inputs[i]);
    conversion->state = calloc(1, converter->state_bytes);
    return conversion->state != NULL ? converter->prepare(options, stop, conversion)
                                     : convert_fail(stop, EXIT_CODE_MEMORY, -ENOMEM, "no memory");
}

void converter_release(const struct converter *converter, struct conversion *conversion)
{
    if (conversion->state != NULL && converter->release != NULL)
        converter->release(conversion);
    free(conversion->state);
    conversion->state = NULL;
}

int convert_fail(struct stop *stop, enum exit_code otherwise, int rc, const char *format, ...)
{
    char message[4096];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    stop_fail(stop, exit_code_of(rc, otherwise), "%s", message);
    return rc;
}

size_t convert_raw_image(const struct conversion *conversion, const uint8_t *pixels, int64_t label,
                         struct example_value values_out[SAMPLE_VALUES_MAX])
{
    const size_t bytes = (size_t)conversion->height * conversion->width * conversion->depth;

    values_out[0] = (struct example_value){ .name = "depth", .kind = FEATURE_INT64S, .int64 = conversion->depth };
    values_out[1] = (struct example_value){ .name = "height", .kind = FEATURE_INT64S, .int64 = conversion->height };
    values_out[2] = (struct example_value){ .name = "image_raw", .kind = FEATURE_BYTES, .bytes = pixels,
                                           .byte_count = bytes };
    values_out[3] = (struct example_value){ .name = "label", .kind = FEATURE_INT64S, .int64 = label };
    values_out[4] = (struct example_value){ .name = "width", .kind = FEATURE_INT64S, .int64 = conversion->width };
    return 5;
}
