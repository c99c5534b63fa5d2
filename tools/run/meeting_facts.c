/* What has to be the same in all ranks, as text. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "loader/shards/shard_list.h"
#include "stage/log.h"
#include "stage/text/text_stream.h"
#include "tools/config/options.h"
#include "tools/run/meeting.h"
#include "tools/text/number.h"
#include "tools/version.h"

#define VALUE_BYTES 8192u

static void write_fact(FILE *out, const char *key, const char *value)
{
    char plain[VALUE_BYTES];
    log_plain(value, plain, sizeof(plain));
    fprintf(out, "%s\t%s\n", key, plain);
}

/* ---- settings ---- */

/* Input files may be elsewhere on another host: their contents are compared. Progress is shown by rank 0. */
static bool may_differ(const struct option_row *option)
{
    static const struct { enum section section; const char *key; } keys[] = {
        { SECTION_DATA, "train" }, { SECTION_DATA, "validation" }, { SECTION_DATA, "class_names" },
        { SECTION_MODEL, "file" }, { SECTION_MODEL, "weights" }, { SECTION_REPORT, "progress" },
    };
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
        if (option->section == keys[i].section && strcmp(option->key, keys[i].key) == 0)
            return true;
    return false;
}

static void write_settings(const struct settings *settings, FILE *out)
{
    for (const struct option_row *option = option_table; option->key != NULL; option++) {
        struct option_text text;
        char key[96];
        snprintf(key, sizeof(key), "%s.%s", section_name(option->section), option->key);
        if (!may_differ(option))
            write_fact(out, key, option_format(option, settings, &text));
    }
    fprintf(out, "--overfit\t%lld\n", (long long)settings->overfit);
    if (settings->model_text != NULL)
        fprintf(out, "hash of model.file\t%016" PRIx64 "\n",
                (uint64_t)XXH3_64bits(settings->model_text, settings->model_bytes));
}

/* ---- model ---- */

/* Programs of two versions may build another network from the same settings. */
static uint64_t hash_parameters(const struct net *net)
{
    uint64_t hash = 0;
    for (uint32_t i = 0; i < net->parameter_count; i++) {
        const struct parameter *const parameter = &net->parameters[i];
        const uint32_t traits[] = { parameter->kind, parameter->rank, parameter->is_trained, parameter->is_frozen,
                                    parameter->decays };
        hash = XXH3_64bits_withSeed(parameter->name, strlen(parameter->name), hash);
        hash = XXH3_64bits_withSeed(traits, sizeof(traits), hash);
        hash = XXH3_64bits_withSeed(parameter->dims, parameter->rank * sizeof(*parameter->dims), hash);
    }
    return hash;
}

static void write_model(const struct net *net, FILE *out)
{
    write_fact(out, "model", net->model);
    fprintf(out, "number of weights\t%zu\n", net->trainable_count);
    fprintf(out, "number of classes\t%" PRIu32 "\n", net->classes);
    fprintf(out, "hash of the model\t%016" PRIx64 "\n", hash_parameters(net));
}

/* ---- data ---- */

static void write_shard(const struct dataset *dataset, uint32_t shard, const char *phase, FILE *out)
{
    char name[256];
    log_plain(shard_base_name(dataset->paths[shard]), name, sizeof(name));
    fprintf(out, "data %s shard %s\t%s bytes, %s records\n", phase, name,
            number_grouped(dataset->indexes[shard].bytes).text,
            number_grouped(dataset->indexes[shard].record_count).text);
}

static void write_dataset(const struct dataset *dataset, const char *phase, FILE *out)
{
    fprintf(out, "data number of %s records\t%s\n", phase, number_grouped(dataset->record_count).text);
    for (uint32_t shard = 0; shard < dataset->shard_count; shard++)
        write_shard(dataset, shard, phase, out);
    fprintf(out, "data hash of all %s shards\t%016" PRIx64 "%016" PRIx64 "\n", phase, dataset->fingerprint,
            dataset->contents);
}

static void write_data(const struct dataset *const *datasets, FILE *out)
{
    static const char *const names[PHASE_COUNT] = { [PHASE_TRAIN] = "train", [PHASE_EVALUATE] = "validation" };
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        if (datasets[phase] != NULL)
            write_dataset(datasets[phase], names[phase], out);
}

/* ---- devices ---- */

static void write_libraries(const struct library *library, FILE *out)
{
    for (; library != NULL && library->name != NULL; library++) {
        char version[96], key[96];
        library->version(version, sizeof(version));
        snprintf(key, sizeof(key), "note version of %s", library->name);
        write_fact(out, key, version);
    }
}

static void write_devices(const struct device_plan *plan, FILE *out)
{
    write_fact(out, "kind of devices", plan->ops->kind);
    write_fact(out, "backend", plan->backend->name);
    write_libraries(plan->backend->libraries, out);
}

/* ---- weights ---- */

static size_t largest_parameter(const struct net *net)
{
    size_t most = 0;
    for (uint32_t i = 0; i < net->parameter_count; i++)
        most = net->parameters[i].count > most ? net->parameters[i].count : most;
    return most;
}

int meeting_weights_fact(struct tower *tower, char text[MEETING_WEIGHTS_BYTES])
{
    const struct net *const net = tower_spec(tower)->net;
    float *const plain = malloc((largest_parameter(net) + 1) * sizeof(*plain));
    if (plain == NULL)
        return -ENOMEM;
    uint64_t hash = 0;
    int rc = 0;
    for (uint32_t i = 0; i < net->parameter_count && rc == 0; i++) {
        if (!net->parameters[i].is_trained)
            continue;           /* a tower's own statistics */
        rc = tower_read(tower, i, plain);
        hash = XXH3_64bits_withSeed(plain, net->parameters[i].count * sizeof(*plain), hash);
    }
    free(plain);
    snprintf(text, MEETING_WEIGHTS_BYTES, "hash of the first weights\t%016" PRIx64 "\n", hash);
    return rc;
}

/* ---- all together ---- */

int meeting_facts_write(const struct meeting_facts *facts, char **text_out)
{
    static const char *const kinds[] = { [RUN_CHECK] = "--check", [RUN_DRY] = "--dry-run", [RUN_TRAIN] = "train" };
    char *text = NULL;
    size_t bytes = 0;
    FILE *const out = open_memstream(&text, &bytes);
    if (out == NULL)
        return -ENOMEM;
    write_fact(out, "version of pipetrain", PIPETRAIN_VERSION);
    write_fact(out, "command", kinds[facts->kind]);
    write_settings(facts->settings, out);
    if (facts->net != NULL)
        write_model(facts->net, out);
    if (facts->datasets != NULL)
        write_data(facts->datasets, out);
    if (facts->plan != NULL)
        write_devices(facts->plan, out);
    const int rc = text_stream_end(out, &text);
    if (rc == 0)
        *text_out = text;
    return rc;
}
