/* pipetrain-convert: makes TFRecord shards of a data set. This file leads a conversion from
 * its first check to the renaming at the end; the command line is read in convert_command.c,
 * and what the samples are is the business of convert_mnist.c and convert_digits.c. */
#include "tools/convert/convert.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "formats/json.h"
#include "stage/log.h"
#include "stage/text/output.h"
#include "tools/convert/convert_command.h"
#include "tools/convert/shard_writer.h"
#include "tools/phase.h"
#include "tools/version.h"

#define DEFAULT_SHARDS 4u

static atomic_bool interrupted;
static volatile sig_atomic_t signal_received, wishes;

/* The first request makes the conversion give up. A second SIGINT or SIGTERM is of somebody who waits:
 * it ends the process at once, and the next run clears up. */
static void on_signal(int number)
{
    wishes += number == SIGINT || number == SIGTERM;
    if (wishes > 1)
        _exit(EXIT_CODE_INTERRUPTED);
    if (signal_received == 0)
        signal_received = number;
    atomic_store(&interrupted, true);
}

/* What is ignored when the program starts stays ignored. */
static void catch_signals(void)
{
    static const int requests[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1 };
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
        sigaddset(&action.sa_mask, requests[i]);
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        struct sigaction before;
        if (sigaction(requests[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(requests[i], &action, NULL);
    }
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

int convert_shard_count(const struct convert_options *options, uint64_t record_count, struct stop *stop,
                        uint32_t *shard_count_out)
{
    const uint64_t wanted = options->shards ? options->shards : DEFAULT_SHARDS;

    if (options->shards > record_count) {
        stop_fail(stop, EXIT_CODE_USAGE, "--shards=%" PRIu64 ": there are only %" PRIu64 " training records",
                  options->shards, record_count);
        return -EINVAL;
    }
    *shard_count_out = (uint32_t)(wanted < record_count ? wanted : record_count);
    return 0;
}

static void describe_split(struct json *json, const struct shard_set *set, const struct sample_source *source)
{
    json_open_object(json, source->split);
    json_u64(json, "records", source->record_count);
    json_open_array(json, "shards");
    for (size_t i = 0; i < set->file_count; i++) {
        const struct shard_file *file = &set->files[i];
        char hash[17];

        if (file->source != source)
            continue;
        snprintf(hash, sizeof(hash), "%016" PRIx64, file->content_hash);
        json_open_object(json, NULL);
        json_quoted(json, "file", file->name);
        json_u64(json, "records", file->record_count);
        json_u64(json, "bytes", file->bytes);
        json_quoted(json, "xxh3", hash);
        json_close_object(json);
    }
    json_close_array(json);
    json_close_object(json);
}

static void describe_image(struct json *json, const struct conversion *conversion)
{
    json_open_object(json, "image");
    json_quoted(json, "key", conversion->image_key);
    if (conversion->height > 0) {
        json_u64(json, "height", conversion->height);
        json_u64(json, "width", conversion->width);
        json_u64(json, "depth", conversion->depth);
    }
    json_close_object(json);
}

static void describe_classes(struct json *json, const struct conversion *conversion)
{
    json_u64(json, "classes", conversion->classes);
    if (conversion->class_names == NULL)
        return;
    json_open_array(json, "class_names");
    for (uint32_t i = 0; i < conversion->classes; i++)
        json_quoted(json, NULL, conversion->class_names[i]);
    json_close_array(json);
}

/* The manifest depends on the data set and the seed only, like the shards. */
static void describe(struct json *json, const struct conversion *conversion, const struct shard_set *set,
                     uint64_t seed)
{
    json_open_object(json, NULL);
    json_quoted(json, "name", conversion->name);
    json_quoted(json, "origin", conversion->origin);
    json_quoted(json, "writer", CONVERT_PROGRAM " " PIPETRAIN_VERSION);
    json_u64(json, "seed", seed);
    describe_classes(json, conversion);
    json_quoted(json, "label_key", conversion->label_key);
    describe_image(json, conversion);
    json_open_object(json, "splits");
    for (size_t i = 0; i < conversion->source_count; i++)
        describe_split(json, set, &conversion->sources[i]);
    json_close_object(json);
    json_close_object(json);
}

static int commit(struct shard_set *set, const struct conversion *conversion, uint64_t seed, struct stop *stop)
{
    struct json json;
    int rc = -ENOMEM;

    phase_enter(RUN_PHASE_SAVING);
    json_init(&json, true);
    describe(&json, conversion, set, seed);
    const char *text = json_text(&json);
    if (text != NULL)
        rc = shard_set_commit(set, text);
    else
        stop_fail(stop, EXIT_CODE_MEMORY, "no memory for " MANIFEST_NAME);
    json_release(&json);
    return rc;
}

static void report(const struct conversion *conversion, const char *output)
{
    printf("%s:", output);
    for (size_t i = 0; i < conversion->source_count; i++) {
        const struct sample_source *source = &conversion->sources[i];
        printf("%s %" PRIu64 " %s records in %" PRIu32 " shard%s", i ? "," : "", source->record_count, source->split,
               source->shard_count, source->shard_count == 1 ? "" : "s");
    }
    printf("\n");
}

static int write_shards(const struct convert_options *options, const struct conversion *conversion, struct stop *stop)
{
    const struct shard_writer_options writer = {
        .jobs = (uint32_t)options->jobs, .seed = options->seed, .interrupted = &interrupted,
    };
    struct shard_set set;

    int rc = shard_set_open(&set, options->output, conversion->sources, conversion->source_count, stop);
    if (rc == 0)
        rc = shards_write(&set, &writer);
    if (rc == 0)
        rc = commit(&set, conversion, options->seed, stop);
    shard_set_close(&set);
    if (rc == 0)
        report(conversion, options->output);
    return rc;
}

static int convert(const struct convert_command *command, struct stop *stop)
{
    struct convert_options options = command->options;
    struct conversion conversion = {
        .name = command->converter->name, .image_key = "image_raw", .label_key = "label",
    };

    options.interrupted = &interrupted;
    int rc = command->converter->prepare(&options, stop, &conversion);
    if (rc == 0)
        rc = write_shards(&options, &conversion, stop);
    command->converter->release(&conversion);
    return rc;
}

static int code_of_signal(void)
{
    return signal_received == SIGINT ? EXIT_CODE_INTERRUPTED : EXIT_CODE_STOPPED;
}

static int run(const struct convert_command *command)
{
    struct stop *stop;

    catch_signals();
    phase_begin();
    int rc = output_start();

    if (rc < 0) {
        log_message(LOG_ERROR, "output could not be begun: %s", exit_cause(rc));
        return EXIT_CODE_MEMORY;
    }
    if (stop_open(&stop) < 0) {
        log_message(LOG_ERROR, "nothing was converted: %s", strerror(ENOMEM));
        return EXIT_CODE_MEMORY;
    }
    rc = convert(command, stop);
    const int code = stop_failed(stop) ? (int)stop_code(stop) : EXIT_CODE_OK;
    stop_close(stop);
    if (rc != -ECANCELED || code != EXIT_CODE_OK)
        return code;
    log_message(LOG_RUN, "interrupted: nothing was changed");
    return code_of_signal();
}

static int dispatch(const struct convert_command *command)
{
    if (!command->wants_help && !command->wants_version)
        return run(command);
    (void)output_start();       /* without it writing is direct */
    if (command->wants_help)
        convert_command_help();
    else
        puts(CONVERT_PROGRAM " " PIPETRAIN_VERSION);
    return EXIT_CODE_OK;
}

int main(int argc, char **argv)
{
    struct convert_command command;

    log_name(CONVERT_PROGRAM);
    output_fill_closed();
    /* A closed pipe and a file that may not grow are errors of the write that meets them. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    if (convert_command_parse(&command, argc, argv) < 0)
        return EXIT_CODE_USAGE;
    const int code = dispatch(&command);
    return output_end() != 0 && code == EXIT_CODE_OK ? EXIT_CODE_OUTPUT : code;
}
