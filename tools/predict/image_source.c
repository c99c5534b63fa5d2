/* Reading and decoding image files. Which place an image has is its number's business: threads take numbers. */
#include "tools/predict/image_source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader/images/image.h"
#include "stage/file/file.h"
#include "stage/log.h"
#include "stage/thread.h"

#define PROBLEM_BYTES 512u
#define FILE_BYTES_MAX ((size_t)1 << 30)

struct worker {
    struct image_source *source;
    struct thread *thread;
    void *codec;
    uint8_t *bytes;             /* of the file; grown to the largest so far */
    size_t room;
};

struct image_source {
    struct image_source_spec spec;
    atomic_uint_fast64_t next;  /* image that no thread has taken */
    char **problems;            /* by image; written before its batch is published */
    struct worker *workers;
    uint32_t worker_count;
};

/* ---- a file ---- */

static int grow(struct worker *worker, size_t bytes)
{
    if (bytes <= worker->room)
        return 0;
    uint8_t *const larger = realloc(worker->bytes, bytes);
    if (larger == NULL)
        return -ENOMEM;
    worker->bytes = larger;
    worker->room = bytes;
    return 0;
}

static int read_open(struct worker *worker, int fd, size_t *bytes_out, char *problem)
{
    struct stat status;
    int rc = fstat(fd, &status) == 0 ? 0 : -errno;
    if (rc == 0 && !S_ISREG(status.st_mode)) {
        snprintf(problem, PROBLEM_BYTES, "is %s, not a file", S_ISDIR(status.st_mode) ? "a folder"
                                                                                      : file_kind(status.st_mode));
        return -EBADMSG;
    }
    if (rc == 0)
        rc = (uint64_t)status.st_size <= FILE_BYTES_MAX ? grow(worker, (size_t)status.st_size + 1) : -EFBIG;
    if (rc == 0)
        rc = file_read_whole(fd, worker->bytes, (size_t)status.st_size);
    *bytes_out = (size_t)status.st_size;
    if (rc != 0)
        snprintf(problem, PROBLEM_BYTES, "cannot be read: %s", rc == -EBADMSG ? "it changes meanwhile" : strerror(-rc));
    return rc;
}

static int read_file(struct worker *worker, const char *path, size_t *bytes_out, char *problem)
{
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) {
        snprintf(problem, PROBLEM_BYTES, "cannot be read: %s", strerror(errno));
        return -ENODATA;
    }
    const int rc = read_open(worker, fd, bytes_out, problem);
    close(fd);
    return rc;
}

/* ---- a place in a batch ---- */

static int decode(struct worker *worker, uint64_t number, uint8_t *pixels, char *problem)
{
    const struct image_source_spec *const spec = &worker->source->spec;
    const struct batch_layout *const layout = &spec->plan->layout;
    size_t bytes;
    if (read_file(worker, spec->paths[number], &bytes, problem) != 0)
        return -EBADMSG;
    const struct stored_image image = {
        .bytes = worker->bytes,
        .byte_count = bytes,
        .height.said = IMAGE_SIZE_UNSAID,
        .width.said = IMAGE_SIZE_UNSAID,
        .channels.said = IMAGE_SIZE_UNSAID,
    };
    const struct image_request request = {
        .augment = &spec->plan->augment,
        .phase = PHASE_EVALUATE,
        .position = number,
        .shape = { layout->height, layout->width, layout->channels },
    };
    return image_encoded_ops.decode(worker->codec, &image, &request, pixels, problem, PROBLEM_BYTES);
}

/* A flaw that was passed over is told; what could not be read is kept for who prints. */
static int fill_place(struct worker *worker, uint64_t number, struct batch *batch)
{
    struct image_source *const source = worker->source;
    const size_t sample_bytes = source->spec.plan->layout.sample_bytes;
    const uint32_t place = (uint32_t)(number - batch->slice.first_position);
    char problem[PROBLEM_BYTES] = "";
    const int rc = decode(worker, number, batch->pixels + place * sample_bytes, problem);
    batch->ids[place] = number;
    batch->labels[place] = BATCH_NO_LABEL;
    if (rc == 0 && problem[0] != '\0')
        log_message(LOG_RUN, "%s: %s", source->spec.paths[number], problem);
    if (rc == 0)
        return 0;
    if (rc == -ENOMEM)
        return stop_fail(source->spec.stop, EXIT_CODE_MEMORY, "%s: %s", source->spec.paths[number], problem);
    memset(batch->pixels + place * sample_bytes, 0, sample_bytes);
    source->problems[number] = strdup(problem);
    return source->problems[number] != NULL ? 0 : -ENOMEM;
}

static int fill_next(struct worker *worker)
{
    struct image_source *const source = worker->source;
    const struct schedule *const schedule = &source->spec.plan->schedule;
    const uint64_t number = atomic_fetch_add(&source->next, 1);
    struct batch_slice slice;
    struct batch *batch;
    if (number >= source->spec.count)
        return -ENODATA;
    int rc = schedule_find(schedule, number / schedule->batch, 0, &slice);
    if (rc == 0)
        rc = ring_claim(source->spec.ring, &slice, &batch);
    if (rc != 0)
        return rc;
    rc = fill_place(worker, number, batch);
    if (rc == 0)
        ring_fill(source->spec.ring, batch, 1);
    return rc;
}

static void worker_loop(void *arg)
{
    struct worker *const worker = arg;
    if (run_plan_uses_cores(worker->source->spec.plan))
        thread_lower_priority();
    int rc = image_encoded_ops.open(&worker->codec);
    while (rc == 0)
        rc = fill_next(worker);
    if (worker->codec != NULL)
        image_encoded_ops.close(worker->codec);
    free(worker->bytes);
    if (rc != -ENODATA && rc != -ECANCELED)
        stop_fail(worker->source->spec.stop, exit_code_of(rc, EXIT_CODE_INTERNAL), "images could not be decoded: %s",
                  exit_cause(rc));
}

/* ---- threads ---- */

static int start_workers(struct image_source *source, uint32_t wanted)
{
    int rc = 0;
    for (uint32_t i = 0; i < wanted && rc == 0; i++) {
        struct worker *const worker = &source->workers[i];
        char name[16];
        snprintf(name, sizeof(name), "images%" PRIu32, i % 1000);
        *worker = (struct worker){ .source = source };
        rc = thread_start(&worker->thread, name, worker_loop, worker);
        source->worker_count += rc == 0;
    }
    return rc;
}

int image_source_start(struct image_source **source_out, const struct image_source_spec *spec)
{
    const uint32_t threads = spec->plan->decode_threads;
    const uint32_t wanted = spec->count < threads ? (uint32_t)spec->count : threads;
    struct image_source *const source = calloc(1, sizeof(*source));
    if (source == NULL)
        return -ENOMEM;
    source->spec = *spec;
    source->problems = calloc(spec->count, sizeof(*source->problems));
    source->workers = calloc(wanted, sizeof(*source->workers));
    int rc = source->problems != NULL && source->workers != NULL ? start_workers(source, wanted) : -ENOMEM;
    if (rc == 0) {
        *source_out = source;
        return 0;
    }
    ring_cancel(spec->ring);
    image_source_close(source);
    return rc;
}

const char *image_source_problem(const struct image_source *source, uint64_t number)
{
    return source->problems[number];
}

void image_source_close(struct image_source *source)
{
    if (source == NULL)
        return;
    for (uint32_t i = 0; i < source->worker_count; i++)
        thread_join(source->workers[i].thread);
    for (uint64_t i = 0; source->problems != NULL && i < source->spec.count; i++)
        free(source->problems[i]);
    free(source->problems);
    free(source->workers);
    free(source);
}
