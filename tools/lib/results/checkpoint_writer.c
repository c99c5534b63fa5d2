/* Writes checkpoints, and runs the thread that does so during training. The header is made once at the start with the
 * longest possible texts, so that making it later needs no more memory. */
#include "tools/lib/results/checkpoint_writer.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/floats.h"
#include "stage/clock.h"
#include "stage/file/file.h"
#include "stage/log.h"
#include "stage/thread.h"
#include "tools/lib/results/file_list.h"
#include "tools/lib/results/tensor_writer.h"

#define OWN_TEXTS 10u           /* number of metadata texts other than hashes and those of weights */
#define HEADER_TEXT_BYTES 4096u /* upper limit of their bytes, without settings */

struct checkpoint_writer {
    struct checkpoint_shape shape;
    struct checkpoint_source source;
    struct checkpoint_layout layout;
    struct tensor_writer file;
    const struct weights_about *about;  /* borrowed */
    char *data;                         /* buffer of all pieces that have none in their tower, concatenated */
    const char *settings;               /* borrowed */
    struct checkpoint_metadata metadata;        /* of the copied state */
};

static size_t data_bytes(const struct checkpoint_shape *shape, const struct checkpoint_layout *layout)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < layout->piece_count; i++)
        bytes += checkpoint_has_room(shape, layout->pieces[i].place) ? 0 : layout->pieces[i].bytes;
    return bytes;
}

/* An upper limit of the bytes of all tensors of the file (of_file), or of those that need a buffer. */
static size_t limit_bytes(const struct checkpoint_shape *shape, const char *settings, bool of_file)
{
    struct checkpoint_layout layout;
    if (checkpoint_layout_open(&layout, shape) != 0)
        return 0;
    const size_t bytes = sizeof(struct checkpoint_writer) + (of_file ? layout.bytes : data_bytes(shape, &layout)) +
                         checkpoint_layout_bytes(shape) + tensor_writer_bytes(layout.count, layout.piece_count) +
                         2 * strlen(settings) + HEADER_TEXT_BYTES + weights_about_bytes(shape->net) +
                         2 * FILE_DIRECT_ALIGNMENT;
    checkpoint_layout_close(&layout);
    return bytes;
}

size_t checkpoint_writer_bytes(const struct checkpoint_shape *shape, const char *settings)
{
    return limit_bytes(shape, settings, false);
}

size_t checkpoint_file_bytes(const struct checkpoint_shape *shape, const char *settings)
{
    return limit_bytes(shape, settings, true);
}

/* ---- opening ---- */

/* The size of the buffer: whole blocks, at least one, so that it can be written with O_DIRECT. */
static size_t data_room(size_t bytes)
{
    return (bytes / FILE_DIRECT_ALIGNMENT + 1) * FILE_DIRECT_ALIGNMENT;
}

static int take_room(struct checkpoint_writer *writer)
{
    const size_t bytes = data_room(data_bytes(&writer->shape, &writer->layout));
    writer->data = aligned_alloc(FILE_DIRECT_ALIGNMENT, bytes);
    if (writer->data == NULL)
        return -ENOMEM;
    memset(writer->data, 0, bytes);     /* the kernel allocates the pages at the first write */
    return tensor_writer_open(&writer->file, writer->layout.count, writer->layout.piece_count,
                              OWN_TEXTS + WEIGHTS_ABOUT_TEXTS, FILE_DIRECT_ALIGNMENT);
}

static void name_tensors(struct checkpoint_writer *writer)
{
    for (uint32_t i = 0; i < writer->layout.count; i++) {
        const struct checkpoint_tensor *const tensor = &writer->layout.tensors[i];
        const bool is_carried = tensor->place.part == CHECKPOINT_CARRIED;
        tensor_writer_name(&writer->file, i, tensor->name,
                           is_carried ? NULL : &writer->shape.net->parameters[tensor->place.parameter], tensor->bytes);
    }
}

static int make_header(struct checkpoint_writer *writer)
{
    const struct checkpoint_metadata *const metadata = &writer->metadata;
    char steps[24], position[72], towers[16], lines[48];
    const struct safetensors_text texts[OWN_TEXTS] = {
        { "format", "pt" },
        { CHECKPOINT_KEY_HEADER, CHECKPOINT_NO_HASH },
        { CHECKPOINT_KEY_VERSION, CHECKPOINT_VERSION },
        { WEIGHTS_STEPS, steps },
        { CHECKPOINT_KEY_SETTINGS, writer->settings },
        { CHECKPOINT_KEY_POSITION, position },
        { CHECKPOINT_KEY_TOWERS, towers },
        { CHECKPOINT_KEY_LINES, lines },
        { CHECKPOINT_KEY_SUMS, metadata->sums },
        { CHECKPOINT_KEY_PROGRESS, metadata->progress },
    };
    uint32_t about_count;
    const struct safetensors_text *const about = weights_about_texts(writer->about, &about_count);
    snprintf(steps, sizeof(steps), "%" PRIu64, metadata->position.step);
    checkpoint_position_write(metadata->position, position, sizeof(position));
    snprintf(towers, sizeof(towers), "%" PRIu32, writer->shape.is_same ? 1 : writer->shape.towers);
    snprintf(lines, sizeof(lines), "%" PRIu64 " %" PRIu64, metadata->lines_bytes[RUN_METRICS],
             metadata->lines_bytes[RUN_QUARANTINE]);
    return tensor_writer_head(&writer->file, texts, OWN_TEXTS, about, about_count);
}

static int make_longest_header(struct checkpoint_writer *writer)
{
    struct checkpoint_metadata *const metadata = &writer->metadata;
    *metadata = (struct checkpoint_metadata){ .position = { UINT32_MAX, UINT64_MAX, UINT64_MAX } };
    for (int i = 0; i < RUN_LINES_COUNT; i++)
        metadata->lines_bytes[i] = UINT64_MAX;
    memset(metadata->sums, '0', sizeof(metadata->sums) - 1);
    memset(metadata->progress, '0', sizeof(metadata->progress) - 1);
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
    int rc = checkpoint_layout_open(&writer->layout, shape);
    if (rc == 0)
        rc = take_room(writer);
    if (rc == 0) {
        name_tensors(writer);
        rc = make_longest_header(writer);
    }
    if (rc == 0 && writer->file.header.bytes > SAFETENSORS_HEADER_MAX) {
        log_message(LOG_ERROR, "checkpoints: the state of %u towers has %u tensors, and a file cannot list so many: use "
                    "fewer towers, train.slices, with which all have one state, or a model without batch statistics",
                    shape->towers, writer->layout.count);
        rc = -EFBIG;
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
    tensor_writer_close(&writer->file);
    free(writer->data);
    checkpoint_layout_close(&writer->layout);
    free(writer);
}

/* ---- saving ---- */

static int take_piece(const struct checkpoint_writer *writer, const struct checkpoint_piece *piece,
                      struct snapshot *const *snapshots, void *out)
{
    const struct checkpoint_source *const source = &writer->source;
    return checkpoint_is_here(&writer->shape, piece->place.tower)
               ? checkpoint_take(&writer->shape, piece->place, snapshots, out)
               : source->take(source->arg, piece->place.tower, out, piece->bytes);
}

/* Does the part contain weights? Averages and statistics count as weights, too. */
static bool is_weight(enum checkpoint_part part)
{
    return part == CHECKPOINT_VALUE || part == CHECKPOINT_RAW;
}

/* After an error the other pieces are still received, because other processes send them. */
int checkpoint_writer_copy(struct checkpoint_writer *writer, struct snapshot *const *snapshots,
                           const struct checkpoint_metadata *metadata)
{
    char *next = writer->data;
    int rc = 0;
    tensor_writer_begin(&writer->file);
    for (uint32_t i = 0; i < writer->layout.piece_count; i++) {
        const struct checkpoint_piece *const piece = &writer->layout.pieces[i];
        void *const room = checkpoint_room(&writer->shape, piece->place, snapshots);
        void *const out = room != NULL ? room : next;
        next += room != NULL ? 0 : piece->bytes;
        const int taken = take_piece(writer, piece, snapshots, out);
        rc = rc != 0 ? rc : taken;
        if (rc == 0)
            tensor_writer_put(&writer->file, piece->tensor, out, piece->bytes, is_weight(piece->place.part));
    }
    writer->metadata = *metadata;
    return rc;
}

/* Make the header of the copied state, after syncing the lines of which it contains the lengths. 0 or a negative
 * errno. */
static int finish_header(struct checkpoint_writer *writer, struct run_directory *directory, const char **broken_out)
{
    struct tensor_writer *const file = &writer->file;
    *broken_out = file->broken;
    if (file->broken != NULL)
        return -EDOM;
    const int rc = make_header(writer);
    if (rc != 0)
        return rc;
    checkpoint_header_seal(file->header.text, file->header.bytes);
    tensor_writer_join(file);
    return run_directory_sync_lines(directory);
}

static int prepare_newest(const struct checkpoint_writer *writer, struct run_directory *directory)
{
    char name[CHECKPOINT_FILE_BYTES];
    checkpoint_file_name(writer->metadata.position.step, name);
    return whole_file_prepare(run_directory_fd(directory), name, writer->file.parts, writer->file.part_count);
}

int checkpoint_writer_write(struct checkpoint_writer *writer, struct run_directory *directory, uint32_t keep,
                            const char **broken_out)
{
    const unsigned files = writer->metadata.files;
    int rc = finish_header(writer, directory, broken_out);
    if (rc != 0)
        return rc;
    if ((files & CHECKPOINT_NEWEST) != 0)
        rc = prepare_newest(writer, directory);
    if (rc == 0 && (files & CHECKPOINT_NEWEST) != 0)
        rc = checkpoint_writer_appear(writer, directory, keep);
    const int best_rc = (files & CHECKPOINT_BEST) != 0
                            ? whole_file_write(run_directory_fd(directory), CHECKPOINT_BEST_FILE, writer->file.parts,
                                                  writer->file.part_count) : 0;
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
    checkpoint_file_name(writer->metadata.position.step, name);
    const int rc = whole_file_finish(run_directory_fd(directory), name);
    if (rc == 0)
        file_list_keep(run_directory_fd(directory), checkpoint_file_step, writer->metadata.position.step, keep);
    return rc;
}

void checkpoint_writer_drop(struct checkpoint_writer *writer, struct run_directory *directory)
{
    char name[CHECKPOINT_FILE_BYTES];
    checkpoint_file_name(writer->metadata.position.step, name);
    whole_file_drop(run_directory_fd(directory), name);
}

/* ---- the saving thread ---- */

struct checkpoint_saver {
    struct checkpoint_saver_spec spec;
    struct thread *thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct checkpoint_counts counts;    /* guarded by the lock, as are the members below */
    bool has_state, is_ended;
    struct snapshot **snapshots;        /* of the waiting state */
    struct checkpoint_metadata metadata;
    struct snapshot **taken;            /* this and the members below are used by the thread only */
    struct checkpoint_metadata taken_metadata;
};

/* Those of an item: of a checkpoint, or of the best weights. */
static uint32_t most_snapshots(const struct checkpoint_saver_spec *spec)
{
    const uint32_t most = spec->towers > spec->best_towers ? spec->towers : spec->best_towers;
    return most > 1 ? most : 1;
}

/* Wait for an item. False: there will be no more. */
static bool take_state(struct checkpoint_saver *saver)
{
    pthread_mutex_lock(&saver->lock);
    while (!saver->has_state && !saver->is_ended)
        pthread_cond_wait(&saver->changed, &saver->lock);
    const bool found = saver->has_state;
    if (found) {
        memcpy(saver->taken, saver->snapshots, most_snapshots(&saver->spec) * sizeof(*saver->taken));
        saver->taken_metadata = saver->metadata;
        saver->has_state = false;
    }
    pthread_cond_broadcast(&saver->changed);
    pthread_mutex_unlock(&saver->lock);
    return found;
}

static void report_failure(const struct checkpoint_saver *saver, int rc, const char *broken)
{
    char name[CHECKPOINT_FILE_BYTES];
    checkpoint_file_name(saver->taken_metadata.position.step, name);
    if ((saver->taken_metadata.files & CHECKPOINT_NEWEST) == 0)
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
                                  : checkpoint_writer_copy(spec->writer, saver->taken, &saver->taken_metadata);
    for (uint32_t d = 0; d < spec->towers; d++)
        spec->give_back(spec->arg, d, saver->taken[d]);
    if (spec->sender != NULL)
        return;
    if (rc == 0)
        rc = checkpoint_writer_write(spec->writer, spec->directory, spec->keep, &broken);
    add_count(saver, rc, clock_now_ns() - begun_ns);
    if (rc != 0 && rc != -ECANCELED)    /* -ECANCELED: another process has failed, which ends the run */
        report_failure(saver, rc, broken);
}

static void save_best(struct checkpoint_saver *saver)
{
    const struct checkpoint_saver_spec *const spec = &saver->spec;
    const char *broken = NULL;
    const int rc = spec->weights_sender != NULL
                       ? checkpoint_sender_send(spec->weights_sender, saver->taken)
                       : weights_save_best(spec->weights, spec->directory, saver->taken, &saver->taken_metadata, &broken);
    for (uint32_t d = 0; d < spec->best_towers; d++)
        spec->give_back(spec->arg, d, saver->taken[d]);
    if (spec->weights_sender != NULL)
        return;
    pthread_mutex_lock(&saver->lock);
    saver->counts.best_failed = rc != 0;
    pthread_mutex_unlock(&saver->lock);
    if (rc != 0 && rc != -ECANCELED)    /* -ECANCELED: as in save_state */
        report_failure(saver, rc, broken);
}

static void saver_loop(void *arg)
{
    struct checkpoint_saver *const saver = arg;
    while (take_state(saver))
        if (saver->taken_metadata.files == CHECKPOINT_BEST_WEIGHTS)
            save_best(saver);
        else
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
    saver->snapshots = calloc(most_snapshots(spec), sizeof(*saver->snapshots));
    saver->taken = calloc(most_snapshots(spec), sizeof(*saver->taken));
    const bool has_room = saver->snapshots != NULL && saver->taken != NULL;
    const int rc = has_room ? thread_start(&saver->thread, "saver", saver_loop, saver) : -ENOMEM;
    if (rc == 0)
        *saver_out = saver;
    else
        saver_release(saver);
    return rc;
}

static void put(struct checkpoint_saver *saver, struct snapshot *const *snapshots, uint32_t count,
                const struct checkpoint_metadata *metadata)
{
    pthread_mutex_lock(&saver->lock);
    while (saver->has_state)
        pthread_cond_wait(&saver->changed, &saver->lock);
    memcpy(saver->snapshots, snapshots, count * sizeof(*snapshots));
    saver->metadata = *metadata;
    saver->has_state = true;
    pthread_cond_broadcast(&saver->changed);
    pthread_mutex_unlock(&saver->lock);
}

void checkpoint_saver_put(struct checkpoint_saver *saver, struct snapshot *const *snapshots,
                          const struct checkpoint_metadata *metadata)
{
    put(saver, snapshots, saver->spec.towers, metadata);
}

void checkpoint_saver_put_best(struct checkpoint_saver *saver, struct snapshot *const *evaluated,
                               const struct checkpoint_metadata *metadata)
{
    assert(metadata->files == CHECKPOINT_BEST_WEIGHTS);
    put(saver, evaluated, saver->spec.best_towers, metadata);
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
