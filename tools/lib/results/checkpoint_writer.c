/* Writes checkpoints, and runs the thread that does so during training. The header is made once at the start with the
 * longest possible texts, so that making it later needs no more memory. */
#include "tools/lib/results/checkpoint_writer.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "compute/floats.h"
#include "formats/safetensors.h"
#include "stage/clock.h"
#include "stage/file/file.h"
#include "stage/log.h"
#include "stage/thread.h"

#define ZEROS "0000000000000000"
#define FIXED_TEXTS 10u
#define TENSOR_TEXT_BYTES 640u  /* upper limit in the header */
#define HEADER_TEXT_BYTES 4096u /* upper limit of other texts, without settings */
#define FRONT_PARTS 2u          /* of the file: the length of the header, the header */

struct tensor_hash { char key[sizeof(CHECKPOINT_KEY_TENSOR) + CHECKPOINT_NAME_BYTES], text[20]; };

struct checkpoint_writer {
    struct checkpoint_shape shape;
    struct checkpoint_source source;
    struct checkpoint_layout layout;
    struct safetensors_entry *entries;
    struct safetensors_text *texts;     /* FIXED_TEXTS, a hash of every tensor, and those of about */
    const struct weights_about *about;  /* borrowed */
    struct tensor_hash *hashes;
    struct file_part *parts;            /* the file: FRONT_PARTS, then each tensor in its buffer */
    char *data;                         /* the buffer of tensors that have none in their tower, concatenated */
    uint8_t length[SAFETENSORS_LENGTH_BYTES];
    const char *settings;               /* borrowed */
    struct json header;
    char steps[24], position[72], towers[16], lines[48];
    struct checkpoint_mark mark;        /* of the state that was copied */
    const char *broken;                 /* the name of a tensor that is not finite, NULL: none */
};

static size_t data_bytes(const struct checkpoint_shape *shape, const struct checkpoint_layout *layout)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < layout->count; i++)
        bytes += checkpoint_has_room(shape, layout->tensors[i].place) ? 0 : layout->tensors[i].bytes;
    return bytes;
}

/* For `tensor_bytes` of tensors. */
static size_t all_bytes(const struct checkpoint_shape *shape, const struct checkpoint_layout *layout,
                        const char *settings, size_t tensor_bytes)
{
    const size_t per_tensor = sizeof(struct safetensors_entry) + sizeof(struct safetensors_text) +
                              sizeof(struct tensor_hash) + sizeof(struct checkpoint_tensor) +
                              sizeof(struct file_part) + TENSOR_TEXT_BYTES;
    return sizeof(struct checkpoint_writer) + tensor_bytes + layout->count * per_tensor + 2 * strlen(settings) +
           HEADER_TEXT_BYTES + weights_about_bytes(shape->net) + 2 * FILE_DIRECT_ALIGNMENT;
}

size_t checkpoint_writer_bytes(const struct checkpoint_shape *shape, const char *settings)
{
    struct checkpoint_layout layout;
    if (checkpoint_layout_open(&layout, shape) != 0)
        return 0;
    const size_t bytes = all_bytes(shape, &layout, settings, data_bytes(shape, &layout));
    checkpoint_layout_close(&layout);
    return bytes;
}

size_t checkpoint_file_bytes(const struct checkpoint_shape *shape, const char *settings)
{
    struct checkpoint_layout layout;
    if (checkpoint_layout_open(&layout, shape) != 0)
        return 0;
    const size_t bytes = all_bytes(shape, &layout, settings, layout.bytes);
    checkpoint_layout_close(&layout);
    return bytes;
}

/* ---- opening ---- */

/* Whole blocks, so that they can be written with O_DIRECT; at least one. */
static size_t data_room(size_t bytes)
{
    return (bytes / FILE_DIRECT_ALIGNMENT + 1) * FILE_DIRECT_ALIGNMENT;
}

static int take_room(struct checkpoint_writer *writer)
{
    const size_t count = writer->layout.count;
    writer->entries = calloc(count, sizeof(*writer->entries));
    writer->texts = calloc(count + FIXED_TEXTS + WEIGHTS_ABOUT_TEXTS, sizeof(*writer->texts));
    writer->hashes = calloc(count, sizeof(*writer->hashes));
    writer->parts = calloc(count + FRONT_PARTS, sizeof(*writer->parts));
    const size_t bytes = data_room(data_bytes(&writer->shape, &writer->layout));
    writer->data = aligned_alloc(FILE_DIRECT_ALIGNMENT, bytes);
    if (writer->entries == NULL || writer->texts == NULL || writer->hashes == NULL || writer->parts == NULL ||
        writer->data == NULL)
        return -ENOMEM;
    memset(writer->data, 0, bytes);     /* the kernel provides memory at the first write */
    return 0;
}

static struct safetensors_entry entry_of(const struct checkpoint_writer *writer, const struct checkpoint_tensor *tensor)
{
    const struct parameter *const parameter = &writer->shape.net->parameters[tensor->place.parameter];
    struct safetensors_entry entry = { .name = tensor->name, .dtype = "F32", .rank = parameter->rank,
                                      .bytes = tensor->bytes };
    for (uint32_t axis = 0; axis < parameter->rank; axis++)
        entry.dims[axis] = parameter->dims[axis];
    if (tensor->place.part == CHECKPOINT_CARRIED) {
        entry.dtype = "U8";
        entry.rank = 1;
        entry.dims[0] = tensor->bytes;
    }
    return entry;
}

static void place_texts(struct checkpoint_writer *writer)
{
    const struct safetensors_text texts[FIXED_TEXTS] = {
        { "format", "pt" },
        { CHECKPOINT_KEY_HEADER, ZEROS },
        { CHECKPOINT_KEY_VERSION, CHECKPOINT_VERSION },
        { WEIGHTS_STEPS, writer->steps },
        { CHECKPOINT_KEY_SETTINGS, writer->settings },
        { CHECKPOINT_KEY_POSITION, writer->position },
        { CHECKPOINT_KEY_TOWERS, writer->towers },
        { CHECKPOINT_KEY_LINES, writer->lines },
        { CHECKPOINT_KEY_SUMS, writer->mark.sums },
        { CHECKPOINT_KEY_PROGRESS, writer->mark.progress },
    };
    memcpy(writer->texts, texts, sizeof(texts));
    for (uint32_t i = 0; i < writer->layout.count; i++) {
        struct tensor_hash *const hash = &writer->hashes[i];
        snprintf(hash->key, sizeof(hash->key), CHECKPOINT_KEY_TENSOR "%s", writer->layout.tensors[i].name);
        snprintf(hash->text, sizeof(hash->text), ZEROS);
        writer->texts[FIXED_TEXTS + i] = (struct safetensors_text){ hash->key, hash->text };
        writer->entries[i] = entry_of(writer, &writer->layout.tensors[i]);
    }
}

static int make_header(struct checkpoint_writer *writer)
{
    const struct checkpoint_mark *const mark = &writer->mark;
    const uint32_t own_count = FIXED_TEXTS + writer->layout.count;
    uint32_t about_count;
    const struct safetensors_text *const about = weights_about_texts(writer->about, &about_count);
    memcpy(writer->texts + own_count, about, about_count * sizeof(*about));
    snprintf(writer->steps, sizeof(writer->steps), "%" PRIu64, mark->position.step);
    snprintf(writer->position, sizeof(writer->position), "%" PRIu32 " %" PRIu64 " %" PRIu64, mark->position.epoch,
             mark->position.step, mark->position.evaluated);
    snprintf(writer->towers, sizeof(writer->towers), "%" PRIu32, writer->shape.is_same ? 1 : writer->shape.towers);
    snprintf(writer->lines, sizeof(writer->lines), "%" PRIu64 " %" PRIu64, mark->lines_bytes[RUN_METRICS],
             mark->lines_bytes[RUN_QUARANTINE]);
    return safetensors_header(&writer->header, writer->entries, writer->layout.count, writer->texts,
                              own_count + about_count, FILE_DIRECT_ALIGNMENT);
}

static int make_longest_header(struct checkpoint_writer *writer)
{
    struct checkpoint_mark *const mark = &writer->mark;
    *mark = (struct checkpoint_mark){ .position = { UINT32_MAX, UINT64_MAX, UINT64_MAX } };
    for (int i = 0; i < RUN_LINES_COUNT; i++)
        mark->lines_bytes[i] = UINT64_MAX;
    memset(mark->sums, '0', sizeof(mark->sums) - 1);
    memset(mark->progress, '0', sizeof(mark->progress) - 1);
    return make_header(writer);
}

int checkpoint_writer_open(struct checkpoint_writer **writer_out, const struct checkpoint_shape *shape,
                           const struct checkpoint_source *source, const char *settings,
                           const struct weights_about *about)
{
    struct checkpoint_writer *const writer = calloc(1, sizeof(*writer));
    if (writer == NULL)
        return -ENOMEM;
    writer->shape = *shape;
    if (source != NULL)
        writer->source = *source;
    writer->settings = settings;
    writer->about = about;
    json_init(&writer->header, false);
    int rc = checkpoint_layout_open(&writer->layout, shape);
    if (rc == 0)
        rc = take_room(writer);
    if (rc == 0) {
        place_texts(writer);
        rc = make_longest_header(writer);
    }
    if (rc != 0) {
        checkpoint_writer_close(writer);
        return rc;
    }
    *writer_out = writer;
    return 0;
}

void checkpoint_writer_close(struct checkpoint_writer *writer)
{
    if (writer == NULL)
        return;
    json_release(&writer->header);
    free(writer->data);
    free(writer->parts);
    free(writer->hashes);
    free(writer->texts);
    free(writer->entries);
    checkpoint_layout_close(&writer->layout);
    free(writer);
}

/* ---- saving ---- */

static bool is_finite(const struct checkpoint_tensor *tensor, const void *data)
{
    const size_t count = tensor->bytes / sizeof(float);
    const bool is_value = tensor->place.part == CHECKPOINT_VALUE || tensor->place.part == CHECKPOINT_RAW;
    return !is_value || floats_find_nonfinite(data, count) == count;
}

/* Hashes a tensor and checks it for NaN, while it is in the caches. */
static void check_tensor(struct checkpoint_writer *writer, uint32_t i, const void *data)
{
    const struct checkpoint_tensor *const tensor = &writer->layout.tensors[i];
    if (writer->broken == NULL && !is_finite(tensor, data))
        writer->broken = tensor->name;
    snprintf(writer->hashes[i].text, sizeof(writer->hashes[i].text), "%016" PRIx64,
             (uint64_t)XXH3_64bits(data, tensor->bytes));
}

static int take_tensor(const struct checkpoint_writer *writer, const struct checkpoint_tensor *tensor,
                       struct snapshot *const *snapshots, void *out)
{
    const struct checkpoint_source *const source = &writer->source;
    return checkpoint_is_here(&writer->shape, tensor->place.tower)
               ? checkpoint_take(&writer->shape, tensor->place, snapshots, out)
               : source->take(source->arg, tensor->place.tower, out, tensor->bytes);
}

/* After an error it goes on, because other processes are sending what follows. */
int checkpoint_writer_copy(struct checkpoint_writer *writer, struct snapshot *const *snapshots,
                           const struct checkpoint_mark *mark)
{
    char *next = writer->data;
    int rc = 0;
    writer->broken = NULL;
    for (uint32_t i = 0; i < writer->layout.count; i++) {
        const struct checkpoint_tensor *const tensor = &writer->layout.tensors[i];
        void *const room = checkpoint_room(&writer->shape, tensor->place, snapshots);
        void *const out = room != NULL ? room : next;
        next += room != NULL ? 0 : tensor->bytes;
        writer->parts[FRONT_PARTS + i] = (struct file_part){ out, tensor->bytes };
        const int taken = take_tensor(writer, tensor, snapshots, out);
        if (taken == 0)
            check_tensor(writer, i, out);
        else if (rc == 0)
            rc = taken;
    }
    writer->mark = *mark;
    return rc;
}

/* The hash of the header with zeros in place of the hash. */
static void hash_header(struct json *header)
{
    char text[CHECKPOINT_HASH_DIGITS + 1];
    char *const place = strstr(header->text, "\"" CHECKPOINT_KEY_HEADER "\":\"") + sizeof(CHECKPOINT_KEY_HEADER) + 3;
    snprintf(text, sizeof(text), "%016" PRIx64, (uint64_t)XXH3_64bits(header->text, header->bytes));
    memcpy(place, text, CHECKPOINT_HASH_DIGITS);
}

/* Makes the header of the copied state. The lines whose lengths it contains are synced first. 0 or a negative errno. */
static int finish_header(struct checkpoint_writer *writer, struct run_directory *directory, const char **broken_out)
{
    *broken_out = writer->broken;
    if (writer->broken != NULL)
        return -EDOM;
    const int rc = make_header(writer);
    if (rc != 0)
        return rc;
    hash_header(&writer->header);
    safetensors_length(writer->header.bytes, writer->length);
    writer->parts[0] = (struct file_part){ writer->length, sizeof(writer->length) };
    writer->parts[1] = (struct file_part){ writer->header.text, writer->header.bytes };
    return run_directory_sync_lines(directory);
}

/* If all data is in one buffer it is one part, so that it is written at once. */
static int write_parts(const struct checkpoint_writer *writer, struct run_directory *directory, const char *name,
                       int (*write)(struct run_directory *directory, const char *file, const struct file_part *parts,
                                    size_t count))
{
    const struct file_part whole[] = { writer->parts[0], writer->parts[1], { writer->data, writer->layout.bytes } };
    if (!writer->shape.stays)
        return write(directory, name, whole, sizeof(whole) / sizeof(whole[0]));
    return write(directory, name, writer->parts, FRONT_PARTS + writer->layout.count);
}

static int prepare_newest(const struct checkpoint_writer *writer, struct run_directory *directory)
{
    char name[CHECKPOINT_FILE_BYTES];
    checkpoint_file_name(writer->mark.position.step, name);
    return write_parts(writer, directory, name, run_directory_prepare);
}

int checkpoint_writer_write(struct checkpoint_writer *writer, struct run_directory *directory, uint32_t keep,
                            const char **broken_out)
{
    const unsigned files = writer->mark.files;
    int rc = finish_header(writer, directory, broken_out);
    if (rc != 0)
        return rc;
    if ((files & CHECKPOINT_NEWEST) != 0)
        rc = prepare_newest(writer, directory);
    if (rc == 0 && (files & CHECKPOINT_NEWEST) != 0)
        rc = checkpoint_writer_appear(writer, directory, keep);
    const int best_rc = (files & CHECKPOINT_BEST) != 0
                            ? write_parts(writer, directory, CHECKPOINT_BEST_FILE, run_directory_write) : 0;
    return rc != 0 ? rc : best_rc;
}

int checkpoint_writer_prepare(struct checkpoint_writer *writer, struct run_directory *directory,
                              const char **broken_out)
{
    const int rc = finish_header(writer, directory, broken_out);
    return rc == 0 ? prepare_newest(writer, directory) : rc;
}

int checkpoint_writer_appear(struct checkpoint_writer *writer, struct run_directory *directory, uint32_t keep)
{
    char name[CHECKPOINT_FILE_BYTES];
    checkpoint_file_name(writer->mark.position.step, name);
    const int rc = run_directory_appear(directory, name);
    if (rc == 0)
        run_directory_keep(directory, checkpoint_file_step, writer->mark.position.step, keep);
    return rc;
}

void checkpoint_writer_drop(struct checkpoint_writer *writer, struct run_directory *directory)
{
    char name[CHECKPOINT_FILE_BYTES];
    checkpoint_file_name(writer->mark.position.step, name);
    run_directory_drop(directory, name);
}

/* ---- the saving thread ---- */

struct checkpoint_saver {
    struct checkpoint_saver_spec spec;
    struct thread *thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct checkpoint_counts counts;    /* under the lock, as is what follows */
    bool has_state, is_ended;
    struct snapshot **snapshots;        /* of the state that is waiting */
    struct checkpoint_mark mark;
    struct snapshot **taken;            /* from here on only the thread's */
    struct checkpoint_mark taken_mark;
};

/* Waits for a checkpoint. False: there will be no more. */
static bool take_state(struct checkpoint_saver *saver)
{
    pthread_mutex_lock(&saver->lock);
    while (!saver->has_state && !saver->is_ended)
        pthread_cond_wait(&saver->changed, &saver->lock);
    const bool found = saver->has_state;
    if (found) {
        memcpy(saver->taken, saver->snapshots, saver->spec.towers * sizeof(*saver->taken));
        saver->taken_mark = saver->mark;
        saver->has_state = false;
    }
    pthread_cond_broadcast(&saver->changed);
    pthread_mutex_unlock(&saver->lock);
    return found;
}

static void report_failure(const struct checkpoint_saver *saver, int rc, const char *broken)
{
    char name[CHECKPOINT_FILE_BYTES];
    checkpoint_file_name(saver->taken_mark.position.step, name);
    if (saver->taken_mark.files == CHECKPOINT_BEST)
        snprintf(name, sizeof(name), CHECKPOINT_BEST_FILE);
    if (rc == -EDOM)
        log_message(LOG_ERROR, "%s/%s: not written: %s holds a number that " FINITE_WORDS,
                    run_directory_path(saver->spec.directory), name, broken);
    else
        log_message(LOG_ERROR, "%s/%s: %s: the run continues, and earlier checkpoints stay",
                    run_directory_path(saver->spec.directory), name, strerror(-rc));
}

void checkpoint_counts_add(struct checkpoint_counts *counts, int rc, uint64_t took_ns)
{
    counts->saved += rc == 0;
    counts->failures += rc != 0;
    if (rc == 0)
        counts->latest_ns = took_ns;
}

static void add_count(struct checkpoint_saver *saver, int rc, uint64_t took_ns)
{
    pthread_mutex_lock(&saver->lock);
    checkpoint_counts_add(&saver->counts, rc, took_ns);
    pthread_mutex_unlock(&saver->lock);
}

static void save_state(struct checkpoint_saver *saver)
{
    const struct checkpoint_saver_spec *const spec = &saver->spec;
    const uint64_t begun_ns = clock_now_ns();
    const char *broken = NULL;
    int rc = spec->sender != NULL ? checkpoint_sender_send(spec->sender, saver->taken)
                                  : checkpoint_writer_copy(spec->writer, saver->taken, &saver->taken_mark);
    for (uint32_t d = 0; d < spec->towers; d++)
        spec->give_back(spec->arg, d, saver->taken[d]);
    if (spec->sender != NULL)
        return;
    if (rc == 0)
        rc = checkpoint_writer_write(spec->writer, spec->directory, spec->keep, &broken);
    add_count(saver, rc, clock_now_ns() - begun_ns);
    if (rc != 0 && rc != -ECANCELED)    /* another process has failed, which ends the run */
        report_failure(saver, rc, broken);
}

static void saver_loop(void *arg)
{
    struct checkpoint_saver *const saver = arg;
    while (take_state(saver))
        save_state(saver);
}

static void saver_release(struct checkpoint_saver *saver)
{
    pthread_cond_destroy(&saver->changed);
    pthread_mutex_destroy(&saver->lock);
    free(saver->snapshots);
    free(saver->taken);
    free(saver);
}

int checkpoint_saver_start(struct checkpoint_saver **saver_out, const struct checkpoint_saver_spec *spec)
{
    struct checkpoint_saver *const saver = calloc(1, sizeof(*saver));
    if (saver == NULL)
        return -ENOMEM;
    saver->spec = *spec;
    pthread_mutex_init(&saver->lock, NULL);
    pthread_cond_init(&saver->changed, NULL);
    saver->snapshots = calloc(spec->towers, sizeof(*saver->snapshots));
    saver->taken = calloc(spec->towers, sizeof(*saver->taken));
    const bool has_room = saver->snapshots != NULL && saver->taken != NULL;
    const int rc = has_room ? thread_start(&saver->thread, "saver", saver_loop, saver) : -ENOMEM;
    if (rc == 0)
        *saver_out = saver;
    else
        saver_release(saver);
    return rc;
}

void checkpoint_saver_put(struct checkpoint_saver *saver, struct snapshot *const *snapshots,
                          const struct checkpoint_mark *mark)
{
    pthread_mutex_lock(&saver->lock);
    while (saver->has_state)
        pthread_cond_wait(&saver->changed, &saver->lock);
    memcpy(saver->snapshots, snapshots, saver->spec.towers * sizeof(*snapshots));
    saver->mark = *mark;
    saver->has_state = true;
    pthread_cond_broadcast(&saver->changed);
    pthread_mutex_unlock(&saver->lock);
}

void checkpoint_saver_count(struct checkpoint_saver *saver, struct checkpoint_counts *counts_out)
{
    if (saver == NULL)
        return;
    pthread_mutex_lock(&saver->lock);
    *counts_out = saver->counts;
    pthread_mutex_unlock(&saver->lock);
}

void checkpoint_saver_end(struct checkpoint_saver *saver, struct checkpoint_counts *counts_out)
{
    if (saver == NULL)
        return;
    pthread_mutex_lock(&saver->lock);
    saver->is_ended = true;
    pthread_cond_broadcast(&saver->changed);
    pthread_mutex_unlock(&saver->lock);
    thread_join(saver->thread);
    *counts_out = saver->counts;
    saver_release(saver);
}
