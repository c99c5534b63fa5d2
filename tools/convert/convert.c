/* pipetrain-convert: converts a data set to TFRecord shards. This file runs a conversion from the first check to the
 * commit at the end; convert_command.c parses the command line, and the converters (convert_mnist.c, ...) provide the
 * samples. */
#include "tools/convert/convert.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/log.h"
#include "stage/text/output.h"
#include "tools/convert/convert_command.h"
#include "tools/convert/set_description.h"
#include "tools/convert/shard_writer.h"
#include "tools/convert/splits.h"
#include "tools/phase.h"
#include "tools/signals.h"
#include "tools/version.h"

static int commit(struct shard_set *set, const struct conversion *conversion, const struct convert_options *options,
                  struct stop *stop)
{
    phase_enter(RUN_PHASE_SAVING);
    char *const text = set_description(conversion, set, options);
    if (text == NULL)
        stop_fail(stop, EXIT_CODE_MEMORY, "no memory for " MANIFEST_NAME);
    const int rc = text != NULL ? shard_set_commit(set, text) : -ENOMEM;
    free(text);
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
    const struct shard_set_spec spec = {
        .directory = options->output, .sources = conversion->sources, .source_count = conversion->source_count,
        .may_replace = options->may_replace, .image_key = conversion->image_key, .packing = options->packing,
    };
    const struct shard_writer_options writer = {
        .jobs = (uint32_t)options->jobs, .seed = options->seed, .keeps_order = options->keeps_order,
        .change = options->change, .interrupted = options->interrupted,
    };
    struct shard_set set;

    int rc = shard_set_open(&set, &spec, stop);
    if (rc == 0)
        rc = shards_write(&set, &writer);
    if (rc == 0)
        rc = commit(&set, conversion, options, stop);
    if (rc == 0)
        set_description_warn(&set, options->output);
    shard_set_close(&set);
    if (rc == 0 && !options->is_quiet)
        report(conversion, options->output);
    if (rc == 0 && conversion->remark != NULL && *conversion->remark != '\0')
        log_message(LOG_RUN, "%s", conversion->remark);
    return rc;
}

/* Images are read under the key of the input and, with --raw, written under another. */
static void set_image_keys(struct convert_options *options, struct conversion *conversion)
{
    options->change.image_key = conversion->image_key;
    if (options->change.is_raw)
        conversion->image_key = IMAGE_CHANGE_RAW_KEY;
}

static int convert(struct convert_command *command, struct stop *stop)
{
    struct convert_options *const options = &command->options;
    const struct converter *const converter = command->converter;
    struct conversion conversion = { .name = converter->name, .image_key = "image_raw", .label_key = "label" };
    struct hold_out hold_out = { 0 };

    int rc = converter_prepare(converter, options, stop, &conversion);
    set_image_keys(options, &conversion);
    if (rc == 0)
        rc = set_description_check(&conversion, stop);
    if (rc == 0 && (converter->takes & CONVERT_TRAIN) == 0)
        rc = splits_hold_out(&hold_out, &conversion, options, stop);
    if (rc == 0)
        rc = splits_count_shards(&conversion, options, stop);
    if (rc == 0)
        rc = write_shards(options, &conversion, stop);
    hold_out_release(&hold_out);
    converter_release(converter, &conversion);
    return rc;
}

static int run(struct convert_command *command)
{
    struct stop *stop;

    /* A second signal ends the process at once; the next conversion removes what it leaves. */
    signals_note(SA_RESTART);
    phase_begin();
    int rc = output_start();

    if (rc < 0) {
        log_message(LOG_ERROR, "cannot start the output thread: %s", exit_cause(rc));
        return EXIT_CODE_MEMORY;
    }
    if (stop_open(&stop) < 0) {
        log_message(LOG_ERROR, "cannot start the conversion: %s", strerror(ENOMEM));
        return EXIT_CODE_MEMORY;
    }
    command->options.interrupted = signals_requested();
    rc = convert(command, stop);
    const int code = stop_failed(stop) ? (int)stop_code(stop) : EXIT_CODE_OK;
    stop_close(stop);
    if (rc != -ECANCELED || code != EXIT_CODE_OK)
        return code;
    signals_report("nothing was changed");
    return signals_exit_code();
}

static int dispatch(struct convert_command *command)
{
    if (!command->wants_help && !command->wants_version)
        return run(command);
    (void)output_start();       /* if it fails, output is written directly */
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
    /* Writing to a closed pipe, or over the file size limit, fails with an error instead of a signal. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    if (convert_command_parse(&command, argc, argv) < 0)
        return EXIT_CODE_USAGE;
    const int code = dispatch(&command);
    return output_end() != 0 && code == EXIT_CODE_OK ? EXIT_CODE_OUTPUT : code;
}
