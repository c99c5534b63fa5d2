/* Writes the facts that must be equal in all ranks as text. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "loader/shards/shard_list.h"
#include "stage/log.h"
#include "stage/text/text_stream.h"
#include "tools/lib/config/options.h"
#include "tools/lib/run/ranks/startup_check.h"
#include "tools/lib/text/number.h"
#include "tools/lib/version.h"

#define VALUE_BYTES 8192u

static void write_fact(FILE *out, const char *key, const char *value)
{
    char plain[VALUE_BYTES];
    log_plain(value, plain, sizeof(plain));
    fprintf(out, "%s\t%s\n", key, plain);
}

/* ---- settings ---- */

static void write_settings(const struct settings *settings, FILE *out)
{
    for (const struct option_row *option = option_table; option->key != NULL; option++) {
        struct option_text text;
        char key[96];
        snprintf(key, sizeof(key), "%s.%s", section_name(option->section), option->key);
        if (!option->may_differ)
            write_fact(out, key, option_format(option, settings, &text));
    }
    fprintf(out, "--overfit\t%lld\n", (long long)settings->overfit);
    if (settings->model_text != NULL)
        fprintf(out, "hash of model.file\t%016" PRIx64 "\n",
                (uint64_t)XXH3_64bits(settings->model_text, settings->model_bytes));
}

/* ---- model ---- */

/* Hash the parameters, too: two versions of the program may build different networks from the same settings. */
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

static void write_devices(const struct run_devices *plan, FILE *out)
{
    write_fact(out, "kind of devices", plan->ops->kind);
    write_fact(out, "backend", plan->backend->name);
    if (plan->backend->instructions != NULL)
        write_fact(out, "instruction set (DNNL_MAX_CPU_ISA can lower it)",
                   instructions_name(plan->backend->instructions()));
    write_libraries(plan->backend->libraries, out);
}

/* ---- weights ---- */

/* Buffers for one parameter at a time: as its backend stores it, and in plain order. */
struct parameter_room {
    float *stored, *plain;
};

static int room_open(struct parameter_room *room, const struct tower *tower)
{
    const struct net *const net = tower_net(tower);
    const struct arena *const arena = tower_arena(tower);
    size_t stored = 1, plain = 1;
    for (uint32_t i = 0; i < net->parameter_count; i++) {
        plain = net->parameters[i].count > plain ? net->parameters[i].count : plain;
        stored = arena->ranges[i].count > stored ? arena->ranges[i].count : stored;
    }
    room->stored = malloc(stored * sizeof(*room->stored));
    room->plain = malloc(plain * sizeof(*room->plain));
    return room->stored != NULL && room->plain != NULL ? 0 : -ENOMEM;
}

static void room_close(struct parameter_room *room)
{
    free(room->stored);
    free(room->plain);
}

/* Hash the order in which a parameter is stored: fill it with indexes (modulo 2^24, up to which floats are exact), and
 * hash them as the backend converts them to plain order. */
static int add_layout(struct tower *tower, uint32_t parameter, const struct parameter_room *room, uint64_t *hash)
{
    const uint32_t floats_exact = 1u << 24;
    const struct arena_range *const range = &tower_arena(tower)->ranges[parameter];
    const uint64_t place[] = { range->offset, range->count };
    for (size_t i = 0; i < range->count; i++)
        room->stored[i] = (float)(i % floats_exact);
    const int rc = tower_spec(tower)->backend->plain(tower_backend(tower), parameter, room->stored, room->plain);
    *hash = XXH3_64bits_withSeed(place, sizeof(place), *hash);
    *hash = XXH3_64bits_withSeed(room->plain, tower_net(tower)->parameters[parameter].count * sizeof(float), *hash);
    return rc;
}

static int add_weights(struct tower *tower, uint32_t parameter, const struct parameter_room *room, uint64_t *hash)
{
    const int rc = tower_read_piece(tower, parameter, room->plain);
    *hash = XXH3_64bits_withSeed(room->plain, tower_net(tower)->parameters[parameter].count * sizeof(float), *hash);
    return rc;
}

int startup_weights_facts(struct tower *tower, char text[STARTUP_WEIGHTS_BYTES])
{
    const struct net *const net = tower_net(tower);
    struct parameter_room room;
    uint64_t layout = 0, weights = 0;
    int rc = room_open(&room, tower);
    for (uint32_t i = 0; i < net->parameter_count && rc == 0; i++) {
        if (!net->parameters[i].is_trained || parameter_is_part(net, i))
            continue; /* statistics and parts, which every tower has of its own */
        rc = add_layout(tower, i, &room, &layout);
        if (rc == 0)
            rc = add_weights(tower, i, &room, &weights);
    }
    room_close(&room);
    snprintf(text, STARTUP_WEIGHTS_BYTES,
             "hash of the layout of weights\t%016" PRIx64 "\nhash of the first weights\t%016" PRIx64 "\n", layout,
             weights);
    return rc;
}

/* ---- all together ---- */

int startup_facts_write(const struct startup_facts *facts, char **text_out)
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
    if (facts->class_weights != 0)
        fprintf(out, "hash of train.class_weights\t%016" PRIx64 "\n", facts->class_weights);
    if (facts->plan != NULL)
        write_devices(facts->plan, out);
    const int rc = text_stream_end(out, &text);
    if (rc == 0)
        *text_out = text;
    return rc;
}
