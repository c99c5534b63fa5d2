/* Lines about a run. Devices and libraries are those of the operation tables that the run uses. */
#include "tools/lib/run/about.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "loader/loader.h"
#include "stage/stop.h"
#include "stage/text/program_folder.h"
#include "stage/text/shell_word.h"
#include "stage/text/text_stream.h"
#include "tools/lib/config/options.h"
#include "tools/lib/results/run_names.h"
#include "tools/lib/text/number.h"
#include "tools/lib/text/wrapped.h"

#define COLUMNS 80u
#define INDENT 10u              /* the column at which the values of the first lines begin */
#define LIBRARIES_MAX 16u
#define HOSTS_NAMED 6u
#define HOSTS_BYTES 512u
#define READING_BYTES 192u
#define VERSION_BYTES 32u

struct libraries {
    const struct library *of[LIBRARIES_MAX];
    uint32_t count;
};

static void add_libraries(struct libraries *libraries, const struct library *rows)
{
    for (; rows != NULL && rows->name != NULL; rows++) {
        assert(libraries->count < LIBRARIES_MAX);
        libraries->of[libraries->count++] = rows;
    }
}

static struct libraries find_libraries(const struct run_devices *plan, bool reads)
{
    struct libraries libraries = { .count = 0 };
    add_libraries(&libraries, plan->ops->libraries);
    add_libraries(&libraries, plan->backend->libraries);
    add_libraries(&libraries, plan->reduce->libraries);
    add_libraries(&libraries, reads ? loader_libraries : NULL);
    return libraries;
}

/* On the CPU all towers use the same device. */
static uint32_t device_count(const struct run_devices *plan)
{
    return plan->ops->host_memory ? 1 : plan->count;
}

/* Describe device `i` of the run. False if it does not exist. */
static bool find_device(const struct run_devices *plan, uint32_t i, struct device_description *description_out)
{
    *description_out = (struct device_description){ .name = "" };
    return plan->ops->describe(plan->index[i], description_out) == 0;
}

static bool is_same(const struct device_description *a, const struct device_description *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->more, b->more) == 0 && a->memory_bytes == b->memory_bytes;
}

/* Append an item to a list, on a new line if it does not fit on the current one. Returns the new column. */
static size_t put_item(FILE *out, size_t column, const char *item)
{
    const bool is_first = column == INDENT;
    const size_t bytes = strlen(item) + 1;          /* with a comma */
    if (is_first || column + 1 + bytes <= COLUMNS) {
        fprintf(out, "%s%s", is_first ? "" : ", ", item);
        return column + bytes + !is_first;
    }
    fprintf(out, ",\n%*s%s", (int)INDENT, "", item);
    return INDENT + bytes;
}

static void print_device(const struct device_description *device, uint32_t count, FILE *out)
{
    char item[COLUMNS];
    size_t column = INDENT;
    fprintf(out, "%-*s", (int)INDENT, "device");
    if (count > 1)
        snprintf(item, sizeof(item), "%u x %.60s", count, device->name);
    else
        snprintf(item, sizeof(item), "%.66s", device->name);
    column = put_item(out, column, item);
    column = put_item(out, column, device->more);
    snprintf(item, sizeof(item), "%s memory%s", number_bytes(device->memory_bytes).text, count > 1 ? " each" : "");
    put_item(out, column, item);
    fputc('\n', out);
}

/* Print the devices; consecutive equal ones once, with their number. */
static void print_devices(const struct run_devices *plan, FILE *out)
{
    struct device_description device, next;
    uint32_t count = 0;
    for (uint32_t i = 0; i < device_count(plan); i++) {
        if (!find_device(plan, i, &next))
            continue;
        if (count > 0 && !is_same(&device, &next)) {
            print_device(&device, count, out);
            count = 0;
        }
        device = next;
        count++;
    }
    if (count > 0)
        print_device(&device, count, out);
}

static void print_libraries(const struct libraries *libraries, FILE *out)
{
    size_t column = INDENT;
    fprintf(out, "%-*s", (int)INDENT, "libraries");
    for (uint32_t i = 0; i < libraries->count; i++) {
        char version[VERSION_BYTES], item[COLUMNS];
        libraries->of[i]->version(version, sizeof(version));
        snprintf(item, sizeof(item), "%s %s", libraries->of[i]->name, version);
        column = put_item(out, column, item);
    }
    fputc('\n', out);
}

/* Leave out the run directory, which is on the first line; the seed, which is printed before the others; and a model
 * name that model.file overrides. */
static bool is_listed(const struct option_row *row, const struct settings *settings, const struct settings *usual)
{
    struct option_text ours, theirs;
    const char *const value = option_format(row, settings, &ours);
    return settings->origins[option_index(row)].origin > ORIGIN_MODEL && strcmp(row->key, "seed") != 0 &&
           strcmp(row->key, "dir") != 0 && *value != '\0' && strcmp(value, option_format(row, usual, &theirs)) != 0;
}

static void write_settings(const struct settings *settings, const struct settings *usual, FILE *out)
{
    fprintf(out, "settings  seed %lld", (long long)settings->run.seed);
    for (const struct option_row *row = option_table; row->key != NULL; row++) {
        struct option_text value;
        if (is_listed(row, settings, usual))
            fprintf(out, ", %s.%s %s", section_name(row->section), row->key, option_format(row, settings, &value));
    }
}

/* Returns a text that the caller frees; NULL: out of memory. */
static char *settings_text(const struct settings *settings, const struct settings *usual)
{
    char *text = NULL;
    size_t bytes;
    FILE *const out = open_memstream(&text, &bytes);
    if (out == NULL)
        return NULL;
    write_settings(settings, usual, out);
    text_stream_end(out, &text);
    return text;
}

/* Print the settings; on one long line if there is no memory for wrapping it. */
static void print_settings(const struct settings *settings, const struct settings *usual, FILE *out)
{
    char *const text = settings_text(settings, usual);
    if (text != NULL) {
        wrapped_write(out, text);
    } else {
        write_settings(settings, usual, out);
        fputc('\n', out);
    }
    free(text);
}

void about_settings(const struct settings *settings, FILE *out)
{
    struct settings usual;
    if (settings_usual(&usual, settings) == 0)
        print_settings(settings, &usual, out);
    settings_release(&usual);
}

void about_print(const struct run_devices *plan, bool reads, FILE *out)
{
    const struct libraries libraries = find_libraries(plan, reads);
    print_devices(plan, out);
    if (libraries.count > 0)
        print_libraries(&libraries, out);
}

/* The number of ranks on the host of `rank`; 0 if a lower rank is on the same host, so that each host is counted
 * once. */
static uint32_t ranks_beside(const struct ranks *ranks, uint32_t rank)
{
    uint32_t beside = 0;
    for (uint32_t other = 0; other < ranks_size(ranks); other++) {
        const bool is_same = strcmp(ranks_host(ranks, other), ranks_host(ranks, rank)) == 0;
        if (is_same && other < rank)
            return 0;
        beside += is_same;
    }
    return beside;
}

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static uint32_t count_in_pairs(const struct ranks *ranks)
{
    uint32_t hosts = 0;
    for (uint32_t rank = 0; rank < ranks_size(ranks); rank++)
        hosts += ranks_beside(ranks, rank) > 0;
    return hosts;
}

/* Without memory for a sorted list of the names, they are compared in pairs. */
uint32_t about_host_count(const struct ranks *ranks)
{
    const uint32_t size = ranks_size(ranks);
    uint32_t hosts = 1;
    if (ranks == NULL)
        return hosts;
    const char **const names = calloc(size, sizeof(*names));
    if (names == NULL)
        return count_in_pairs(ranks);
    for (uint32_t rank = 0; rank < size; rank++)
        names[rank] = ranks_host(ranks, rank);
    qsort(names, size, sizeof(*names), compare_names);
    for (uint32_t i = 1; i < size; i++)
        hosts += strcmp(names[i - 1], names[i]) != 0;
    free(names);
    return hosts;
}

/* Write the first few hosts and their numbers of ranks: "node7 2, node8 2". */
static void name_hosts(const struct ranks *ranks, char *text, size_t text_size)
{
    uint32_t named = 0;
    size_t length = 0;
    for (uint32_t rank = 0; rank < ranks_size(ranks) && length < text_size; rank++) {
        const uint32_t beside = ranks_beside(ranks, rank);
        if (beside == 0)
            continue;
        if (++named > HOSTS_NAMED) {
            snprintf(text + length, text_size - length, ", ...");
            return;
        }
        length += (size_t)snprintf(text + length, text_size - length, "%s%s %u", named > 1 ? ", " : "",
                                   ranks_host(ranks, rank), beside);
    }
}

/* Write which part of the training set a rank reads: "each reads all records, 1.2 GiB an epoch (...)". */
static void describe_reading(const struct run_plan *plan, const struct settings *settings,
                             const struct dataset *const datasets[PHASE_COUNT], char *text, size_t text_size)
{
    *text = '\0';
    if (settings->input.source == INPUT_SYNTHETIC || datasets[PHASE_TRAIN] == NULL)
        return;
    const struct loader_spec spec = run_plan_loader(plan, settings, datasets);
    const uint64_t kept_bytes = loader_kept_file_bytes(&spec);
    const struct number all = number_bytes(kept_bytes > 0 ? kept_bytes : loader_epoch_bytes(&spec));
    const char *const bytes = all.text;
    const bool has_lanes = plan->schedule.lanes > 1;
    if (kept_bytes > 0)
        snprintf(text, text_size, "; each reads %s once%s%s%s and keeps them in memory",
                 has_lanes ? "the pieces of shards with records of its own lanes" : "all shards",
                 has_lanes ? ", about " : "", has_lanes ? bytes : "", has_lanes ? "," : "");
    else if (settings->data.shuffle == SHUFFLE_BLOCK && !has_lanes)
        snprintf(text, text_size, "; each reads all records, %s an epoch (data.shuffle = block mixes them in memory; "
                 "data.lanes = %u divides them)", bytes, settings->ranks);
    else
        snprintf(text, text_size, "; each reads the records of its own %s, %s an epoch", has_lanes ? "lanes" : "towers",
                 bytes);
}

void about_ranks(const struct ranks *ranks, const struct run_plan *plan, const struct settings *settings,
                 const struct dataset *const datasets[PHASE_COUNT], FILE *out)
{
    char hosts[HOSTS_BYTES], reading[READING_BYTES];
    if (ranks == NULL)
        return;
    const uint32_t host_count = about_host_count(ranks);
    name_hosts(ranks, hosts, sizeof(hosts));
    describe_reading(plan, settings, datasets, reading, sizeof(reading));
    wrapped_print(out, "ranks     %u on %u host%s (%s), %s%s", ranks_size(ranks), host_count,
                  host_count == 1 ? "" : "s", hosts, ranks_library(ranks), reading);
}

static void write_devices(const struct run_devices *plan, struct json *json)
{
    struct device_description device;
    json_open_array(json, "devices");
    for (uint32_t i = 0; i < device_count(plan); i++) {
        if (!find_device(plan, i, &device))
            continue;
        json_open_object(json, NULL);
        json_quoted(json, "name", device.name);
        json_u64(json, "memory_bytes", device.memory_bytes);
        json_close_object(json);
    }
    json_close_array(json);
}

static void write_libraries(const struct libraries *libraries, struct json *json)
{
    json_open_object(json, "libraries");
    for (uint32_t i = 0; i < libraries->count; i++) {
        char version[VERSION_BYTES];
        libraries->of[i]->version(version, sizeof(version));
        json_quoted(json, libraries->of[i]->name, version);
    }
    json_close_object(json);
}

void about_write(const struct run_devices *plan, bool reads, struct json *json)
{
    const struct libraries libraries = find_libraries(plan, reads);
    write_devices(plan, json);
    write_libraries(&libraries, json);
}

void about_files(const struct about_end *end, FILE *out)
{
    if (end->directory == NULL || end->steps == 0)
        return;
    wrapped_print(out, "files     %s/{summary.json, metrics.jsonl, run.conf%s%s%s%s%s}", end->directory,
                  end->settings->model_text != NULL ? ", run.net" : "",
                  end->plan->devices.backend->computes ? ", weights.safetensors" : "",
                  end->saved_best ? ", best.safetensors" : "",
                  end->saves_states ? ", checkpoint-*.safetensors" : "",
                  end->settings->data.on_corrupt == ON_CORRUPT_SKIP ? ", quarantine.jsonl" : "");
}

/* What can be done with the weights. Those of made-up images are for nothing. */
static const char *next_use(const struct about_end *end, char *text, size_t text_size)
{
    char quoted[PATH_MAX];
    text[0] = '\0';
    if (end->settings->input.source == INPUT_SYNTHETIC || end->steps == 0)
        return text;
    const char *const directory = shell_word(end->directory, quoted, sizeof(quoted)), *const folder = program_folder();
    snprintf(text, text_size, "classify images: %spipetrain predict -w %s IMAGE...; use the network elsewhere: "
             "%spipetrain export -w %s -o model.onnx; show curves: %spipetrain-report %s; ", folder, directory, folder,
             directory, folder, directory);
    return text;
}

/* What the same command needs to train again: a run that has ended is left as it is. */
static const char *new_run_option(const struct settings *settings)
{
    if (strcmp(settings->run.resume, "never") == 0 || settings->input.source == INPUT_SYNTHETIC)
        return "";
    return run_name_was_given(settings) ? " --set run.dir=OTHER" : " --set run.resume=never";
}

void about_next(const struct about_end *end, bool ended_early, FILE *out)
{
    char quoted[PATH_MAX], use[4 * PATH_MAX];
    if (end->directory == NULL || (ended_early && end->steps == 0))
        return;
    if (ended_early && end->saves_states)
        wrapped_print(out, "next      run the same command again%s to resume after step %s",
                      strcmp(end->settings->run.resume, "never") == 0 ? " with --set run.resume=auto" : "",
                      number_grouped(end->steps).text);
    else if (ended_early && end->plan->devices.backend->computes)
        wrapped_print(out, "next      the same command%s starts from scratch, because no checkpoint was saved "
                           "(checkpoint.on_stop = no); to continue with these weights: "
                           "--set model.weights=%s/weights.safetensors",
                      run_name_was_given(end->settings) ? " with --set run.resume=never" : "",
                      shell_word(end->directory, quoted, sizeof(quoted)));
    else if (!end->plan->devices.backend->computes)
        wrapped_print(out, "next      read in the order of the files: --set data.shuffle=none; all keys: --help");
    else if (end->plan->cores > 1 && end->plan->schedule.towers == 1 &&
             (end->plan->schedule.slices == 0 || schedule_slices_fit(end->plan->schedule.slices, 2)))
        wrapped_print(out, "next      %strain on two towers: --set devices.towers=2%s; all keys: --help",
                      next_use(end, use, sizeof(use)), new_run_option(end->settings));
    else
        wrapped_print(out, "next      %smeasure the input pipeline alone: --set devices.kind=null; all keys: --help",
                      next_use(end, use, sizeof(use)));
}

/* ---- the result of --overfit ---- */

#define FALLS 0.5       /* the loss makes progress if it fell below this fraction of the first one */

static bool has_batch_norm(const struct net *net)
{
    for (uint32_t i = 0; i < net->layer_count; i++)
        if (net->layers[i].kind == LAYER_BATCH_NORM)
            return true;
    return false;
}

/* Why evaluation can be wrong where training is right. */
static const char *find_cause(const struct settings *settings, const struct net *net)
{
    if (settings->data.validation_split > 0 || strcmp(settings->data.train, settings->data.validation) != 0)
        return "evaluation uses another set (data.validation), which need not fit";
    if (settings->train.ema > 0)
        return "evaluation uses averages of the weights (train.ema), which follow slowly; try more steps (--set "
               "train.epochs)";
    if (has_batch_norm(net))
        return "evaluation uses the running statistics of batch normalisation, which follow slowly; try more steps "
               "(--set train.epochs), else check how evaluation preprocesses images (--describe)";
    return "check how evaluation preprocesses images (--describe)";
}

static void print_unevaluated(const struct run_progress *progress, const struct settings *settings,
                              const struct net *net, FILE *out)
{
    wrapped_print(out, "overfit   all samples are right in training, but only %.2f %% in evaluation: %s",
                  100 * run_progress_best(progress), find_cause(settings, net));
}

static void print_slow(const struct stop_rule *rule, double loss, FILE *out)
{
    wrapped_print(out, "overfit   not learned yet: the loss fell from %.4g to %.4g, and %.2f %% are right in "
                       "evaluation. Train longer (--set train.epochs=%" PRId64 ") or with a higher rate (--set "
                       "train.learning_rate=%g)",
                  (double)rule->progress->first_loss / 1e6, loss, 100 * run_progress_best(rule->progress),
                  4 * rule->train->epochs, 3 * rule->train->learning_rate);
}

static void print_stuck(const struct stop_rule *rule, double loss, FILE *out)
{
    wrapped_print(out, "overfit   not learned: the loss went from %.4g to %.4g, and %.2f %% are right in evaluation. "
                       "Try rates ten times lower and higher (now %g); check that not all parameters are frozen "
                       "(model.freeze), that similar images have the same label, and the preprocessing (--describe)",
                  (double)rule->progress->first_loss / 1e6, loss, 100 * run_progress_best(rule->progress),
                  rule->train->learning_rate);
}

int about_overfit(const struct stop_rule *rule, const struct settings *settings, const struct net *net, FILE *out)
{
    const struct run_progress *const progress = rule->progress;
    const struct step_totals *const training = &rule->account->state.phases[PHASE_TRAIN];
    const double loss = totals_loss(training);
    const bool is_learned = progress->best_images > 0 && progress->best_correct == progress->best_images;
    if (is_learned)
        wrapped_print(out, "overfit   all %" PRIu64 " samples are right after %" PRIu64 " steps: this network can "
                           "learn this data", progress->best_images, progress->best_step);
    else if (training->correct == training->images)
        print_unevaluated(progress, settings, net, out);
    else if (loss < FALLS * (double)progress->first_loss / 1e6)
        print_slow(rule, loss, out);
    else
        print_stuck(rule, loss, out);
    return is_learned ? EXIT_CODE_OK : EXIT_CODE_UNLEARNT;
}
