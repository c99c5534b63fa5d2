/* pipetrain predict: command line -> settings -> predictions. Main thread only. */
#include "tools/predict/predict.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage/clock.h"
#include "stage/file/file.h"
#include "stage/log.h"
#include "stage/text/output.h"
#include "stage/text/program_folder.h"
#include "tools/lib/config/options.h"
#include "tools/lib/config/program_option.h"
#include "tools/lib/phase.h"
#include "tools/lib/run/run_data.h"
#include "tools/lib/signals.h"
#include "tools/lib/text/columns.h"
#include "tools/lib/text/number.h"
#include "tools/predict/image_stream.h"
#include "tools/predict/known_names.h"
#include "tools/predict/latencies.h"
#include "tools/predict/predict_images.h"
#include "tools/predict/prediction.h"
#include "tools/predict/rows_file.h"
#include "tools/predict/trained.h"

#define NAME_BYTES 4200u        /* "SHARD:RECORD" */

struct predict_request {
    const char *weights;        /* file */
    uint64_t top, batch;        /* number of classes to print for an image; largest batch size */
    enum prediction_form form;
    const char *logits, *embeddings;    /* file; "": in the lines; NULL: not wanted */
    bool may_replace;           /* replace an existing file */
    bool has_lengths;           /* standard input has images with their lengths */
    uint64_t latency_ms;        /* how long an image may wait for others to fill its batch */
};

struct prediction_run {
    struct settings *settings;
    const struct image_words *words;
    const struct predict_request *request;
    struct trained trained;
    struct known_names names;
    struct prediction_printer printer;
    struct rows_file logits, embeddings;
    float *embedding;                   /* [embedding_count], of the image that is printed; NULL: not wanted */
    uint32_t embedding_count;
    struct image_source *source;        /* source of image files; NULL: shards are read */
    struct image_stream *stream;        /* or images of standard input; NULL: none */
    struct latencies latencies;         /* of the stream's images, and when the first came and the last was answered */
    uint64_t first_arrived_ns, last_answered_ns;
    uint64_t answered;                  /* images, whether they can be read or not */
    uint64_t turned;                    /* images with an EXIF orientation other than upright */
    char turned_first[PATH_MAX];        /* name of the first of them */
    uint64_t unreadable;
    uint64_t nonfinite;                 /* images with NaN or infinite outputs */
    int file_code;                      /* exit code of the first row that could not be written; 0: none */
};

/* ---- images ---- */

/* Use shards, ignoring labels; damaged records are reported and skipped. */
static int set_shards(struct settings *settings, const char *patterns)
{
    char problem[256];
    const struct option_row *const option = option_find(SECTION_DATA, "validation");
    const int rc = option_parse(option, settings, patterns, problem, sizeof(problem));
    if (rc == -ENOMEM)
        return network_no_memory(patterns);
    if (rc != 0) {
        log_message(LOG_ERROR, "%s: %s", patterns, problem);
        return EXIT_CODE_USAGE;
    }
    settings->data.validation_split = 0;
    settings->data.on_corrupt = ON_CORRUPT_SKIP;
    settings->data.max_corrupt = UINT32_MAX;
    return 0;
}

static int open_shards(struct prediction_run *run)
{
    const int code = set_shards(run->settings, run->words->shards);
    return code == 0 ? trained_open_data(&run->trained, true) : code;
}

/* The number of samples; of a stream only those of a batch are known. */
static uint64_t sample_count(const struct prediction_run *run)
{
    if (run->words->is_stream)
        return run->request->batch;
    return run->trained.dataset != NULL ? run->trained.dataset->record_count : run->words->count;
}

static size_t shown_columns(const char *path)
{
    char shown[PATH_MAX];
    log_plain(path, shown, sizeof(shown));
    return columns_count(shown);
}

static uint32_t longest_path(const struct prediction_run *run)
{
    size_t longest = run->words->is_stream ? UINT32_MAX : 0;
    for (uint64_t i = 0; i < run->words->count; i++) {
        const size_t columns = shown_columns(run->words->paths[i]);
        longest = columns > longest ? columns : longest;
    }
    for (uint32_t i = 0; run->trained.dataset != NULL && i < run->trained.dataset->shard_count; i++) {
        const size_t columns = shown_columns(run->trained.dataset->paths[i]) + 8;
        longest = columns > longest ? columns : longest;
    }
    return longest < UINT32_MAX ? (uint32_t)longest : UINT32_MAX;
}

/* Are the logits, --logits without a file, printed with each prediction? */
static bool is_in_lines(const char *output)
{
    return output != NULL && *output == '\0';
}

static int open_printer(struct prediction_run *run)
{
    const int code = known_names_find(&run->names, &run->trained);
    if (code != 0)
        return code;
    if (prediction_printer_init(&run->printer, run->trained.net->classes, (uint32_t)run->request->top) != 0)
        return network_no_memory("the predictions");
    run->printer.form = run->request->form;
    run->printer.out = stdout;
    run->printer.names = run->names.names;
    run->printer.path_columns = longest_path(run);
    run->printer.shows_logits = is_in_lines(run->request->logits);
    run->printer.embedding_count = is_in_lines(run->request->embeddings) ? run->embedding_count : 0;
    return 0;
}

static bool is_in_file(const char *output)
{
    return output != NULL && *output != '\0';
}

/* Refuse an output that is one of the inputs, even with --force. */
static int check_file(const struct settings *settings, const struct image_words *words, const char *weights,
                      const char *output)
{
    if (!is_in_file(output))
        return EXIT_CODE_OK;
    bool is_image = words->shards != NULL && file_is_same(words->shards, output);
    for (uint64_t i = 0; i < words->count && !is_image; i++)
        is_image = file_is_same(words->paths[i], output);
    if (!is_image)
        return network_output_check(settings, weights, output);
    log_message(LOG_ERROR, "%s: is one of the images: name another output", output);
    return EXIT_CODE_USAGE;
}

static int open_files(struct prediction_run *run)
{
    const struct predict_request *const request = run->request;
    int code = 0;
    if (is_in_file(request->logits))
        code = rows_file_open(&run->logits, request->logits, request->may_replace, run->trained.net->classes);
    if (code == 0 && is_in_file(request->embeddings))
        code = rows_file_open(&run->embeddings, request->embeddings, request->may_replace, run->embedding_count);
    return code;
}

/* The embedding is the input of the layer, or if that is a convolution its mean over the pixels. */
static int open_embeddings(struct prediction_run *run)
{
    const struct net *const net = run->trained.net;
    const uint32_t layer = net_embedding_layer(net);
    if (run->request->embeddings == NULL)
        return 0;
    if (layer == NET_INPUT) {
        log_message(LOG_ERROR, "--embeddings: the first layer of %s is also the last with weights: its input is the image",
                    net->model);
        return EXIT_CODE_USAGE;
    }
    const struct shape in = net->layers[layer].in;
    run->embedding_count = net->layers[layer].kind == LAYER_CONV2D ? in.channels : (uint32_t)shape_count(in);
    run->embedding = malloc(run->embedding_count * sizeof(*run->embedding));
    run->trained.plan.keeps_embedding = true;
    return run->embedding != NULL ? 0 : network_no_memory("the embeddings");
}

static int start_stream(void *arg, struct ring *ring)
{
    return image_stream_start(((struct prediction_run *)arg)->stream, ring);
}

static void stop_stream(void *arg)
{
    image_stream_stop(((struct prediction_run *)arg)->stream);
}

static void join_stream(void *arg)
{
    image_stream_join(((struct prediction_run *)arg)->stream);
}

/* Batches of the stream outside the ring and the slots: two of reports (pipeline.h), one that is computed, and one that
 * is read. */
#define STREAM_BATCHES 4u

static int open_stream(struct prediction_run *run)
{
    const struct input_settings *const input = &run->settings->input;
    const struct image_stream_spec spec = {
        .input_fd = STDIN_FILENO,
        .output_fd = STDOUT_FILENO,
        .has_lengths = run->request->has_lengths,
        .latency_ns = run->request->latency_ms * 1000000u,
        .batches_most = (uint32_t)(input->prefetch_depth + input->staging_depth) + STREAM_BATCHES,
        .plan = &run->trained.plan,
        .stop = run->trained.stop,
    };
    const int rc = image_stream_open(&run->stream, &spec);
    if (rc == 0)
        return 0;
    log_message(LOG_ERROR, "standard input cannot be read: %s", exit_cause(rc));
    return (int)exit_code_of(rc, EXIT_CODE_INTERNAL);
}

static int plan_stream(struct prediction_run *run)
{
    const struct pipeline_input images = { start_stream, stop_stream, join_stream, run };
    const int code = open_stream(run);
    run->trained.plan.takes_any_count = true;
    return code == 0 ? trained_plan(&run->trained, sample_count(run), &images) : code;
}

static int start_images(void *arg, struct ring *ring)
{
    struct prediction_run *const run = arg;
    const struct image_source_spec spec = {
        .paths = run->words->paths,
        .count = run->words->count,
        .plan = &run->trained.plan,
        .ring = ring,
        .stop = run->trained.stop,
    };
    return image_source_start(&run->source, &spec);
}

static void join_images(void *arg)
{
    struct prediction_run *const run = arg;
    image_source_close(run->source);
    run->source = NULL;
}

static int plan(struct prediction_run *run)
{
    const struct pipeline_input images = { .start = start_images, .join = join_images, .arg = run };
    const uint64_t count = sample_count(run), batch = run->request->batch;
    trained_set_batch(run->settings, (int64_t)(count < batch ? count : batch));
    phase_enter(RUN_PHASE_PLANNING);
    if (run->words->is_stream)
        return plan_stream(run);
    return trained_plan(&run->trained, count, run->trained.dataset == NULL ? &images : NULL);
}

static int prepare(struct prediction_run *run)
{
    int code = trained_open(&run->trained, run->settings, run->request->weights, WEIGHTS_PREDICTED_WITH);
    if (code == 0 && run->words->shards != NULL)
        code = open_shards(run);
    if (code == 0)
        code = open_embeddings(run);
    if (code == 0)
        code = open_printer(run);
    if (code == 0)
        code = plan(run);
    if (code == 0)
        code = open_files(run);
    return code == 0 ? signals_exit_code() : code;
}

/* ---- batches ---- */

/* Has the reader of the output closed it? */
static bool reader_has_gone(void)
{
    struct pollfd out = { .fd = STDOUT_FILENO };
    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}


/* A sample of a batch. */
struct predicted_sample {
    const char *name;           /* the path of an image, or the shard and number of a record */
    const char *problem;        /* NULL: it was decoded */
    bool is_told;               /* the problem was already reported, by the loader */
    bool is_turned;             /* it has an EXIF orientation other than upright */
};

static struct predicted_sample find_record(const struct prediction_run *run, const struct step_report *report,
                                           uint32_t i, char *room)
{
    const struct dataset_place place = dataset_find(run->trained.dataset, report->ids[i]);
    snprintf(room, NAME_BYTES, "%.4096s:%" PRIu64, run->trained.dataset->paths[place.shard],
             dataset_number(run->trained.dataset, &place));
    return (struct predicted_sample){ room, report->labels[i] == BATCH_NO_LABEL ? "is damaged" : NULL, true, false };
}

/* Describe sample `i` of a batch. `room` has NAME_BYTES for a name. */
static struct predicted_sample find_sample(const struct prediction_run *run, const struct step_report *report,
                                           uint32_t i, char *room)
{
    const uint64_t id = report->ids[i];
    if (run->trained.dataset != NULL)
        return find_record(run, report, i, room);
    if (run->stream != NULL) {
        const struct stream_image *const image = image_stream_image(run->stream, id);
        return (struct predicted_sample){ stream_image_name(image, room), image->problem, false, image->is_turned };
    }
    const struct image_state *const state = image_source_state(run->source, id);
    return (struct predicted_sample){ run->words->paths[id], state->problem, false, state->is_turned };
}

/* Are the outputs finite? NaN and infinities are errors (exit code 73), as in an evaluation. */
static bool are_finite(const struct prediction_run *run, const float *logits)
{
    bool all = true;
    for (uint32_t c = 0; c < run->trained.net->classes; c++)
        all = all && isfinite(logits[c]);
    return all;
}

static void print_problem(struct prediction_run *run, const struct predicted_sample *sample)
{
    const bool is_read = sample->problem == NULL;
    const char *const problem = is_read ? "the output of the network is not finite" : sample->problem;
    run->unreadable += !is_read;
    run->nonfinite += is_read;
    if (is_read || !sample->is_told)
        log_message(LOG_RUN, "%s: %s", sample->name, problem);
    prediction_print_problem(&run->printer, sample->name, problem);
}

static void note_turned(struct prediction_run *run, const struct predicted_sample *sample)
{
    if (sample->is_turned && run->turned++ == 0)
        snprintf(run->turned_first, sizeof(run->turned_first), "%s", sample->name);
}

/* Set the embedding of sample `i`. */
static void find_embedding(struct prediction_run *run, const struct step_report *report, uint32_t i)
{
    if (run->embedding == NULL)
        return;
    const struct net *const net = run->trained.net;
    const size_t count = shape_count(net->layers[net_embedding_layer(net)].in), pixels = count / run->embedding_count;
    const float *values = report->embeddings + i * count;
    for (uint32_t c = 0; c < run->embedding_count; c++, values += pixels) {
        double sum = 0;
        for (size_t p = 0; p < pixels; p++)
            sum += (double)values[p];
        run->embedding[c] = (float)(sum / (double)pixels);
    }
}

static void add_rows(struct prediction_run *run, const struct predicted_sample *sample, const float *logits)
{
    const bool is_read = sample->problem == NULL;
    if (run->file_code == 0)
        run->file_code = rows_file_add(&run->logits, is_read ? logits : NULL);
    if (run->file_code == 0)
        run->file_code = rows_file_add(&run->embeddings, is_read ? run->embedding : NULL);
}

static void print_sample(struct prediction_run *run, const struct step_report *report, uint32_t i)
{
    char room[NAME_BYTES];
    const struct predicted_sample sample = find_sample(run, report, i, room);
    const float *const logits = report->logits + (size_t)i * run->trained.net->classes;
    note_turned(run, &sample);
    find_embedding(run, report, i);
    run->answered++;
    if (sample.problem == NULL && are_finite(run, logits))
        prediction_print(&run->printer, sample.name, logits, run->embedding);
    else
        print_problem(run, &sample);
    add_rows(run, &sample, logits);
}

/* The batch's answers were written: note how long they took since the images came, and give the images back. */
static void finish_stream_batch(struct prediction_run *run, const struct step_report *report)
{
    const uint64_t now_ns = clock_now_ns();
    for (uint32_t i = 0; i < report->local.count; i++) {
        const uint64_t arrived_ns = image_stream_image(run->stream, report->ids[i])->arrived_ns;
        if (run->latencies.count == 0)
            run->first_arrived_ns = arrived_ns;
        latencies_add(&run->latencies, now_ns - arrived_ns);
    }
    run->last_answered_ns = now_ns;
    image_stream_give_back(run->stream, report->ids[0], report->local.count);
}

/* Print a batch. False to end: the reader of the output has closed it, or a file cannot be written. */
static bool print_batch(void *arg, const struct step_report *report)
{
    struct prediction_run *const run = arg;
    if (report->local.first_of_phase)
        prediction_print_head(&run->printer);
    for (uint32_t i = 0; i < report->local.count; i++)
        print_sample(run, report, i);
    (void)fflush(stdout);
    if (run->stream != NULL)
        finish_stream_batch(run, report);
    return !ferror(stdout) && run->file_code == 0;
}

static void report_turned(const struct prediction_run *run)
{
    const bool is_one = run->turned == 1;
    if (run->turned > 0)
        log_message(LOG_RUN, "%" PRIu64 " image%s an EXIF orientation (%s%s), which is %s", run->turned,
                    is_one ? " has" : "s have", is_one ? "" : "the first ", run->turned_first,
                    run->settings->augment.orientation == ORIENTATION_EXIF
                        ? "applied (augment.orientation = exif)"
                        : "ignored: augment.orientation = exif turns them upright");
}

static void report_speed(const struct prediction_run *run)
{
    const double seconds = (double)(run->last_answered_ns - run->first_arrived_ns) / 1e9;
    if (run->latencies.count > 0)
        log_message(LOG_RUN, "%s image%s, %s images/s; from arrival to answer p50 %.2f ms, p99 %.2f ms",
                    number_grouped(run->answered).text, run->answered == 1 ? "" : "s",
                    number_rate((double)run->answered / seconds).text,
                    (double)latencies_quantile(&run->latencies, 0.5) / 1e6,
                    (double)latencies_quantile(&run->latencies, 0.99) / 1e6);
}

/* After all images: an input that ended early, or without any image. 0, or an exit code after a message. */
static int check_stream(const struct prediction_run *run)
{
    const char *const problem = run->stream != NULL ? image_stream_problem(run->stream) : "";
    if (*problem != '\0') {
        log_message(LOG_ERROR, "standard input %s", problem);
        return EXIT_CODE_DATA;
    }
    if (run->stream == NULL || run->answered > 0 || run->request->has_lengths || reader_has_gone())
        return 0;
    image_words_report_none();
    return EXIT_CODE_USAGE;
}

static int compute(struct prediction_run *run)
{
    int code = trained_evaluate(&run->trained, print_batch, run);
    report_turned(run);
    report_speed(run);
    if (code == 0)
        code = run->file_code;
    if (code == 0 && !ferror(stdout))
        code = rows_file_finish(&run->logits);
    if (code == 0 && !ferror(stdout))
        code = rows_file_finish(&run->embeddings);
    if (code == 0)
        code = check_stream(run);
    if (code != 0)
        return code;
    if (run->unreadable > 0)
        log_message(LOG_ERROR, "%" PRIu64 " of %" PRIu64 " images could not be read", run->unreadable,
                    run->answered);
    if (run->nonfinite > 0) {
        log_message(LOG_ERROR, "%s: the output of the network is not finite for %" PRIu64 " of %" PRIu64 " images",
                    run->request->weights, run->nonfinite, run->answered);
        return EXIT_CODE_NONFINITE;
    }
    return run->unreadable + run->words->empty_folders + run->words->unread > 0 ? EXIT_CODE_DATA : 0;
}

static int predict(struct settings *settings, const struct image_words *words, const struct predict_request *request)
{
    struct prediction_run run = { .settings = settings, .words = words, .request = request };
    int code = prepare(&run);
    if (code == 0)
        code = compute(&run);
    trained_close(&run.trained);
    image_stream_close(run.stream);
    rows_file_drop(&run.logits);
    rows_file_drop(&run.embeddings);
    free(run.embedding);
    prediction_printer_release(&run.printer);
    known_names_release(&run.names);
    return code;
}

/* ---- the command line ---- */

#define TOP_DEFAULT 5u
#define TOP_MOST 1000u
#define BATCH_DEFAULT 64u
#define BATCH_MOST 65536u
#define LATENCY_MOST_MS 60000u

struct arguments {
    struct network_arguments network;
    struct predict_request request;
    char **words;
    int word_count;
};

#define FIELD(name) .offset = offsetof(struct arguments, name)

static const struct program_option options[] = {
    { .letter = 'w', .name = "weights", .value = "FILE", .store = STORE_TEXT, FIELD(network.weights),
      .help = "weights, a checkpoint, or a run directory: its best weights" },
    { .name = "last", .store = STORE_FLAG, FIELD(network.wants_last),
      .help = "of a run: its last weights, not the best ones" },
    { .letter = 'c', .name = "config", .value = "FILE", .store = STORE_TEXT, FIELD(network.config.path),
      .help = "the configuration of the training run, if the weights do not name their network (the default of -w is "
              "then the best weights of the last run)" },
    { .letter = 'm', .name = "model", .value = "NAME", .store = STORE_TEXT, FIELD(network.model),
      .help = "the model instead: a name or a file (mine.net)" },
    { .name = "set", .value = "SECTION.KEY=VALUE", .store = STORE_LIST, FIELD(network.config.assignments),
      .help = "override a key; may be repeated (SECTION. is optional if only one section has KEY)" },
    { .name = "top", .value = "N", .store = STORE_NUMBER, FIELD(request.top), .least = 1, .most = TOP_MOST,
      .help = "print the N most likely classes (default 5)" },
    { .name = "batch", .value = "N", .store = STORE_NUMBER, FIELD(request.batch), .least = 1, .most = BATCH_MOST,
      .help = "largest batch size (default 64)" },
    { .name = "logits", .value = "FILE.npy", .may_lack_value = true, .store = STORE_TEXT, FIELD(request.logits),
      .help = "the network's outputs before the softmax: with --json of all classes, with --tsv a column; or with a "
              "FILE in a NumPy array of one row per image",
      .more = "The array is float32; its row n is image n of the output, from 0, NaN if the image could not be read. The "
              "file appears when all images are classified." },
    { .name = "embeddings", .value = "FILE.npy", .may_lack_value = true, .store = STORE_TEXT, FIELD(request.embeddings),
      .help = "the values before the last dense layer: with --json, or in a NumPy array as --logits" },
    { .letter = 'f', .name = "force", .store = STORE_FLAG, FIELD(request.may_replace),
      .help = "let --logits and --embeddings replace existing files" },
    { .name = "length-prefixed", .store = STORE_FLAG, FIELD(request.has_lengths),
      .help = "with -: standard input has the images themselves, each after its length, 4 bytes, little-endian" },
    { .name = "latency", .value = "MS", .store = STORE_NUMBER, FIELD(request.latency_ms), .least = 0,
      .most = LATENCY_MOST_MS,
      .help = "with -: an image waits at most so many milliseconds for others of its batch while the network is idle "
              "(default 0: a batch has what is there)" },
    { .name = "tsv", .group = PREDICTION_TSV, .help = "tab-separated: image, rank, class, name, probability" },
    { .name = "json", .group = PREDICTION_JSON, .help = "a JSON object per line" },
    { .letter = 'h', .name = "help", .store = STORE_FLAG, FIELD(network.wants_help), .help = "this text" },
    { .name = NULL },
};

/* Store the form of --tsv or --json, which is the row's group. */
static int store_form(void *out, const struct program_option *option, const char *value)
{
    struct predict_request *const request = &((struct arguments *)out)->request;
    const enum prediction_form form = (enum prediction_form)option->group;
    (void)value;
    if (request->form != PREDICTION_TABLE && request->form != form) {
        log_message(LOG_ERROR, "predict: give --tsv or --json, not both");
        return -EINVAL;
    }
    request->form = form;
    return 0;
}

static const struct program_command command_line = {
    .name = "predict", .usage = "pipetrain predict", .options = options, .store = store_form,
};

static void print_usage(FILE *out)
{
    fputs("Usage: pipetrain predict -w FILE [OPTION]... IMAGE... | FOLDER | SHARDS | -\n"
          "Classify images with a trained network.\n\n", out);
    program_option_help(options, out);
    fputs("\n"
          "An IMAGE is a JPEG or PNG file of any size. A FOLDER stands for all images in it\n"
          "and its sub-folders, recognised by content; hidden files and folders of\n"
          "systems (__MACOSX, @eaDir, ...) are skipped, other files are counted. SHARDS are\n"
          "TFRecord files, folders of them, or quoted globs; their labels are ignored. With\n"
          "- paths are read from standard input, one per line, or NUL-terminated as from\n"
          "find -print0, and answered while it is open, each batch as it is computed.\n"
          "Images are decoded and scaled like the validation images in training. An image\n"
          "that cannot be read is reported on standard error and skipped; the exit status\n"
          "is then 3.\n\n"
          "  pipetrain predict -w runs/run photo.jpg\n"
          "  pipetrain predict -w best.safetensors --top 1 --tsv photos > classes.tsv\n"
          "  pipetrain predict -w resnet50.safetensors -m torchvision_resnet50 cat.jpg\n"
          "  pipetrain predict -w best.safetensors --logits=logits.npy photos > table\n"
          "  find photos -name '*.jpg' | pipetrain predict -w best.safetensors --json -\n"
          "  client | pipetrain predict -w best.safetensors --json --length-prefixed -\n", out);
}

/* Numbers are printed in a form for programs, or into a file, whose name follows an equals sign. 0 or -EINVAL. */
static int check_output(const struct arguments *arguments, const char *name, const char *output)
{
    if (!is_in_lines(output))
        return 0;
    for (int i = 0; i < arguments->word_count; i++) {
        const char *const end = strrchr(arguments->words[i], '.');
        if (end != NULL && strcmp(end, ".npy") == 0)
            return program_usage_error(&command_line, "%s: write --%s=%s, with an equals sign", arguments->words[i],
                                       name, arguments->words[i]);
    }
    return arguments->request.form != PREDICTION_TABLE
               ? 0
               : program_usage_error(&command_line, "--%s needs --json%s, or a file: --%s=FILE.npy", name,
                                     strcmp(name, "logits") == 0 ? " or --tsv" : "", name);
}

static int check_outputs(const struct arguments *arguments)
{
    const struct predict_request *const request = &arguments->request;
    if (check_output(arguments, "logits", request->logits) != 0 ||
        check_output(arguments, "embeddings", request->embeddings) != 0)
        return -EINVAL;
    if (is_in_lines(request->embeddings) && request->form == PREDICTION_TSV)
        return program_usage_error(&command_line, "--embeddings needs --json, or a file: --embeddings=FILE.npy");
    if (is_in_file(request->logits) && is_in_file(request->embeddings) &&
        strcmp(request->logits, request->embeddings) == 0)
        return program_usage_error(&command_line, "--logits and --embeddings need a file each");
    return 0;
}

static bool reads_only_stdin(const struct arguments *arguments)
{
    return arguments->word_count == 1 && strcmp(arguments->words[0], "-") == 0;
}

static int check_stream_options(const struct arguments *arguments)
{
    const struct predict_request *const request = &arguments->request;
    if (reads_only_stdin(arguments) || (!request->has_lengths && request->latency_ms == 0))
        return 0;
    return program_usage_error(&command_line, "--%s is for images from standard input: give - in place of images",
                               request->has_lengths ? "length-prefixed" : "latency");
}

/* Are images classified as they come? A list in a file is read as a whole before, so its batches are always the
 * same. */
static bool is_stream(const struct arguments *arguments)
{
    struct stat status;
    if (arguments->request.has_lengths)
        return true;
    return reads_only_stdin(arguments) && !(fstat(STDIN_FILENO, &status) == 0 && S_ISREG(status.st_mode));
}

static int check_arguments(void *out, char **words, int count)
{
    struct arguments *const arguments = out;
    arguments->words = words;
    arguments->word_count = count;
    if (check_outputs(arguments) != 0 || check_stream_options(arguments) != 0)
        return -EINVAL;
    const int rc =
        network_arguments_check(&arguments->network, "predict", "predict -w runs/run photo.jpg");
    if (rc != 0 || arguments->word_count > 0)
        return rc;
    log_message(LOG_ERROR, "no images given: %spipetrain predict -w runs/run photo.jpg (see --help)",
                program_folder());
    return -EINVAL;
}

/* Classify the images. From now on a signal ends the command after the current batch. So does a closed output, whose
 * signal ends the process, as usual for filters, but only when temporary files are removed. */
static int predict_images(struct settings *settings, const struct image_words *words,
                          const struct predict_request *request)
{
    signals_block();
    signal(SIGPIPE, SIG_IGN);
    int code = network_command_start_signals();
    if (code == 0)
        code = predict(settings, words, request);
    output_end_with_reader();
    if (reader_has_gone())
        raise(SIGPIPE);
    return code;
}

static int run_predict(struct settings *settings, const void *out, char **argv, uint64_t process_start_ns)
{
    const struct arguments *const arguments = out;
    struct predict_request request = arguments->request;
    struct image_words words = { .count = 0 };
    struct found_weights found;
    request.weights = found.path;
    trained_settle(settings, argv, process_start_ns);
    words.is_stream = is_stream(arguments);
    int code = words.is_stream ? 0 : image_words_read(&words, arguments->words, arguments->word_count);
    if (code == 0)
        network_arguments_warn(&arguments->network, settings, "predict",
                           words.shards != NULL ? USED_FOR_SHARDS : USED_FOR_IMAGES);
    if (code == 0)
        code = network_weights(&arguments->network, settings, &found);
    if (code == 0)
        code = check_file(settings, &words, found.path, request.logits);
    if (code == 0)
        code = check_file(settings, &words, found.path, request.embeddings);
    if (code == 0)
        found_weights_report(&found);
    if (code == 0)
        code = predict_images(settings, &words, &request);
    image_words_release(&words);
    return code;
}

static const struct network_command command = {
    .line = &command_line, .print_usage = print_usage, .check = check_arguments, .run = run_predict,
};

int predict_command(int argc, char **argv, uint64_t process_start_ns)
{
    struct arguments arguments = { .request = { .top = TOP_DEFAULT, .batch = BATCH_DEFAULT } };
    return network_command_run(&command, &arguments.network, argc, argv, process_start_ns);
}
