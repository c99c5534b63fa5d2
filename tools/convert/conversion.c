/* Functions of all converters. Called by the main thread; convert_fail and convert_raw_image by any thread. */
#include "tools/convert/convert.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "stage/file/file.h"
#include "stage/log.h"

#define INPUTS_COMPARED 64u     /* a converter that takes more compares them itself */

/* Report inputs that are given twice: validation with the training set measures nothing. */
static void report_twice(const struct convert_options *options)
{
    if (options->input_count > INPUTS_COMPARED)
        return;
    for (size_t i = 0; i < options->input_count; i++)
        for (size_t k = 0; k < i; k++)
            if (file_is_same(options->inputs[k], options->inputs[i]))
                log_message(LOG_RUN, "%s and %s are the same: if one is for validation, it cannot test what is "
                                     "trained on it",
                            options->inputs[k], options->inputs[i]);
}

/* Does the name contain "emnist", but not at the end of a longer word as in FEMNIST? The images of that set, from
 * LEAF, are upright. */
static bool names_emnist(const char *name)
{
    const char *found = strcasestr(name, "emnist");

    while (found != NULL && found != name && isalpha((unsigned char)found[-1]))
        found = strcasestr(found + 1, "emnist");
    return found != NULL;
}

#define GZIP_HEAD_BYTES 10u
#define GZIP_HAS_EXTRA 4u
#define GZIP_HAS_NAME 8u

/* Read the name that a gzip file contains, which is that of the file before compression; "" if there is none. */
static void read_gzip_name(const char *path, char *name, size_t name_size)
{
    uint8_t head[512] = { 0 };
    struct stat status;
    FILE *const file = stat(path, &status) == 0 && S_ISREG(status.st_mode) ? fopen(path, "rb") : NULL;
    const size_t bytes = file != NULL ? fread(head, 1, sizeof(head) - 1, file) : 0;
    const size_t extra = head[3] & GZIP_HAS_EXTRA ? 2 + head[GZIP_HEAD_BYTES] + 256u * head[GZIP_HEAD_BYTES + 1] : 0;
    const bool has_name = head[0] == 0x1f && head[1] == 0x8b && head[3] & GZIP_HAS_NAME &&
                          GZIP_HEAD_BYTES + extra < bytes;

    if (file != NULL)
        fclose(file);
    snprintf(name, name_size, "%s", has_name ? (const char *)head + GZIP_HEAD_BYTES + extra : "");
}

bool convert_report_emnist(const char *path, bool is_known)
{
    char name[512], *const real = realpath(path, NULL);
    const char *const names[] = { path, real != NULL ? real : "", name };
    size_t i = 0;

    read_gzip_name(path, name, sizeof(name));
    while (!is_known && i < sizeof(names) / sizeof(*names) && !names_emnist(names[i]))
        i++;
    const bool is_emnist = i < sizeof(names) / sizeof(*names);
    if (is_emnist)
        log_message(LOG_RUN, "%s%s%s%s: EMNIST as downloaded has rows and columns of its images exchanged, and is "
                    "converted as it is: exchange them before, if upright images are to be predicted", path,
                    i > 0 ? " (" : "", i > 0 ? names[i] : "", i > 0 ? ")" : "");
    free(real);
    return is_emnist;
}

int converter_prepare(const struct converter *converter, const struct convert_options *options, struct stop *stop,
                      struct conversion *conversion)
{
    report_twice(options);
    for (size_t i = 0; i < options->input_count && converter->takes_pixels; i++)
        convert_report_emnist(options->inputs[i], false);
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
    for (size_t i = 0; i < conversion->left_out.listed; i++)
        free(conversion->left_out.first[i]);
    conversion->left_out = (struct left_out){ 0 };
}

void conversion_leave_out(struct conversion *conversion, const char *name, const char *problem)
{
    struct left_out *const left_out = &conversion->left_out;

    left_out->count++;
    if (left_out->listed < LEFT_OUT_LISTED &&
        asprintf(&left_out->first[left_out->listed], "%s: %s", name, problem) >= 0)
        left_out->listed++;
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
