/* The main thread finds the images of the command line; other threads read and decode them, each taking the next one in
 * order. */
#include "tools/predict/predict_images.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader/shards/shard_list.h"
#include "stage/log.h"
#include "stage/stop.h"
#include "stage/text/program_folder.h"
#include "stage/text/text_stream.h"
#include "stage/thread.h"
#include "tools/convert/image_folder.h"
#include "tools/predict/image_decoder.h"
#include "tools/predict/image_stream.h"

/* ---- arguments of the command line ---- */

static int out_of_memory(void)
{
    log_message(LOG_ERROR, "the list of images: %s", strerror(ENOMEM));
    return EXIT_CODE_MEMORY;
}

static int add_path(struct image_words *words, const char *path)
{
    if (words->count == words->room) {
        const uint64_t room = words->room > 0 ? 2 * words->room : 64;
        char **const larger = reallocarray(words->paths, room, sizeof(*larger));
        if (larger == NULL)
            return out_of_memory();
        words->paths = larger;
        words->room = room;
    }
    words->paths[words->count] = strdup(path);
    return words->paths[words->count] != NULL ? (words->count++, 0) : out_of_memory();
}

/* Add shards. A comma in an argument is part of a name. */
static int add_shards(struct image_words *words, const char *pattern)
{
    const size_t used = words->shards != NULL ? strlen(words->shards) : 0;
    char *const joined = realloc(words->shards, used + 2 * strlen(pattern) + 2);
    if (joined == NULL)
        return out_of_memory();
    char *at = joined + used;
    if (used > 0)
        *at++ = ',';
    for (; *pattern != '\0'; pattern++) {
        if (*pattern == ',')
            *at++ = '\\';
        *at++ = *pattern;
    }
    *at = '\0';
    words->shards = joined;
    return 0;
}

/* ---- folders ---- */

/* Add a file by its path relative to the folder. */
static int add_file(struct image_words *words, const char *folder, const char *name)
{
    const size_t length = strlen(folder);
    char *path;
    if (asprintf(&path, "%s%s%s", folder, length > 0 && folder[length - 1] == '/' ? "" : "/", name) < 0)
        return out_of_memory();
    const int code = add_path(words, path);
    free(path);
    return code;
}

static int add_files(struct image_words *words, const char *folder, struct image_list *list)
{
    int code = 0;
    image_list_sort(list);
    for (size_t i = 0; i < list->count && code == 0; i++)
        if (!list->files[i].is_folder)
            code = add_file(words, folder, image_list_path(list, &list->files[i]));
    return code;
}

/* Report files that are not images by kind, and unreadable files one by one, up to a maximum. */
static void report_others(struct image_words *words, const char *folder, struct image_choice *choice)
{
    char text[1500];
    image_choice_report(choice, folder);
    if (choice->refused_count > 0) {
        image_choice_list_refused(choice, folder, text, sizeof(text));
        log_message(LOG_ERROR, "%s: %" PRIu64 " cannot be read%s%s", folder, choice->refused_count,
                    text[0] != '\0' ? ": " : "", text);
    }
    words->unread += choice->refused_count;
    if (choice->image_count > 0)
        return;
    log_message(LOG_RUN, "%s: has no images (JPEG, PNG) and no shards", folder);
    words->empty_folders++;
}

static int walk(struct image_folder *tree, const char *folder)
{
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int rc = fd >= 0 ? image_folder_walk(tree, fd) : -errno;
    if (fd >= 0)
        close(fd);
    if (rc == 0)
        return 0;
    log_message(LOG_ERROR, "%s: cannot look for images: %s", folder, exit_cause(rc));
    return (int)exit_code_of(rc, EXIT_CODE_DATA);
}

/* Add the images of the folder that a conversion would use. */
static int add_folder(struct image_words *words, const char *folder)
{
    struct image_choice choice;
    struct image_list list = { .count = 0 };
    struct image_folder tree = { .choice = &choice, .list = &list };
    image_choice_begin(&choice, IMAGE_CHOICE_SHOWN, 0);
    progress_keep_to_terminal(&choice.progress);
    int code = walk(&tree, folder);
    if (code == 0) {
        report_others(words, folder, &choice);
        code = add_files(words, folder, &list);
    }
    image_list_release(&list);
    image_choice_release(&choice);
    return code;
}

/* Replace the path of a shard by the glob of all shards of its split, NAME-*-of-NNNNN, because the loader would report
 * the other shards of a single path as missing. Shards with other names, and shards in a folder whose name looks like a
 * glob, keep their path. */
static void widen(char *path)
{
    char *const of = strstr(strrchr(path, '/') != NULL ? strrchr(path, '/') : path, "-of-");
    char *first = of;
    while (first != NULL && first > path && first[-1] >= '0' && first[-1] <= '9')
        first--;
    if (first == of || strpbrk(path, "*?[") != NULL)
        return;
    *first = '*';
    memmove(first + 1, of, strlen(of) + 1);
}

/* Add all shards of the folder, of any split, or, if there are none, its images. */
static int look_into(struct image_words *words, const char *folder)
{
    struct shard_list list = { .count = 0 };
    int code = shard_list_folder(&list, folder) == -ENOMEM ? out_of_memory() : 0;
    shard_list_sort(&list);
    for (uint32_t i = 0; i < list.count && code == 0; i++) {
        widen(list.paths[i]);
        if (i == 0 || strcmp(list.paths[i], list.paths[i - 1]) != 0)
            code = add_shards(words, list.paths[i]);
    }
    if (code == 0 && list.count == 0)
        code = add_folder(words, folder);
    shard_list_release(&list);
    return code;
}

/* ---- arguments ---- */

/* Read all of standard input, with a terminating NUL. */
static int read_list(char **list_out, size_t *bytes_out)
{
    char *list = NULL, block[65536];
    FILE *const all = open_memstream(&list, bytes_out);
    if (all == NULL)
        return out_of_memory();
    for (size_t bytes; (bytes = fread(block, 1, sizeof(block), stdin)) > 0;)
        fwrite(block, 1, bytes, all);
    if (text_stream_end(all, &list) != 0)
        return out_of_memory();
    *list_out = list;
    if (!ferror(stdin))
        return 0;
    log_message(LOG_ERROR, "the list on standard input cannot be read");
    return EXIT_CODE_DATA;
}

/* Add the paths of a list. They are separated by newlines, or by NUL if the list contains any, as from find -print0. */
static int add_paths(struct image_words *words, char *list, size_t bytes)
{
    const char end = memchr(list, '\0', bytes) != NULL ? '\0' : '\n';
    int code = 0;
    for (char *at = list; at < list + bytes && code == 0;) {
        char *const behind = memchr(at, end, (size_t)(list + bytes - at));
        if (behind != NULL)
            *behind = '\0';
        if (*at != '\0')
            code = add_path(words, at);
        at = behind != NULL ? behind + 1 : list + bytes;
    }
    return code;
}

static int add_list(struct image_words *words)
{
    char *list = NULL;
    size_t bytes = 0;
    int code = read_list(&list, &bytes);
    if (code == 0 && image_stream_is_image(list, bytes)) {
        log_message(LOG_ERROR, "standard input " IMAGE_STREAM_NO_PATHS);
        code = EXIT_CODE_DATA;
    }
    if (code == 0)
        code = add_paths(words, list, bytes);
    free(list);
    return code;
}

static int add_word(struct image_words *words, const char *word)
{
    struct stat status;
    const char *const slash = strrchr(word, '/');
    const bool is_there = stat(word, &status) == 0;
    if (strcmp(word, "-") == 0)
        return add_list(words);
    if (is_there && S_ISDIR(status.st_mode))
        return look_into(words, word);
    if (shard_list_is_shard(slash != NULL ? slash + 1 : word) || (!is_there && strpbrk(word, "*?[") != NULL))
        return add_shards(words, word);
    return add_path(words, word);
}

void image_words_report_none(void)
{
    log_message(LOG_ERROR, "there are no images to classify (see %spipetrain predict --help)", program_folder());
}

int image_words_read(struct image_words *words, char *const *argv, int count)
{
    int code = 0;
    for (int i = 0; i < count && code == 0; i++)
        code = add_word(words, argv[i]);
    if (code != 0 || (words->count > 0) != (words->shards != NULL))
        return code;
    if (words->count == 0 && words->empty_folders + words->unread > 0)
        return EXIT_CODE_DATA;
    if (words->count > 0)
        log_message(LOG_ERROR, "shards and images cannot be combined: run the command once for each");
    else
        image_words_report_none();
    return EXIT_CODE_USAGE;
}

void image_words_release(struct image_words *words)
{
    for (uint64_t i = 0; i < words->count; i++)
        free(words->paths[i]);
    free(words->paths);
    free(words->shards);
    *words = (struct image_words){ .count = 0 };
}

/* ---- decoding threads ---- */

struct decode_thread {
    struct image_source *source;
    struct thread *thread;
    struct image_decoder decoder;
};

struct image_source {
    struct image_source_spec spec;
    atomic_uint_fast64_t next;  /* number of the next image to decode */
    struct image_state *states; /* [image]; written before its batch is published */
    struct decode_thread *threads;
    uint32_t thread_count;
};

/* Log a flaw that the decoder tolerated; keep the problem of an unreadable image for the report. */
static int fill_place(struct decode_thread *thread, uint64_t number, struct batch *batch)
{
    struct image_source *const source = thread->source;
    const size_t sample_bytes = source->spec.plan->layout.of[PHASE_EVALUATE].sample_bytes;
    const uint32_t place = (uint32_t)(number - batch->local.first_position);
    char problem[IMAGE_PROBLEM_BYTES];
    const int rc = image_decoder_file(&thread->decoder, source->spec.paths[number], number,
                                      batch->pixels + place * sample_bytes, problem);
    source->states[number].is_turned = thread->decoder.is_turned;
    batch->ids[place] = number;
    batch->labels[place] = BATCH_NO_LABEL;
    if (rc == 0 && problem[0] != '\0')
        log_message(LOG_RUN, "%s: %s", source->spec.paths[number], problem);
    if (rc == 0)
        return 0;
    if (rc == -ENOMEM)
        return stop_fail(source->spec.stop, EXIT_CODE_MEMORY, "%s: %s", source->spec.paths[number], problem);
    memset(batch->pixels + place * sample_bytes, 0, sample_bytes);
    source->states[number].problem = strdup(problem);
    return source->states[number].problem != NULL ? 0 : -ENOMEM;
}

static int fill_next(struct decode_thread *thread)
{
    struct image_source *const source = thread->source;
    const struct schedule *const schedule = &source->spec.plan->schedule;
    const uint64_t number = atomic_fetch_add(&source->next, 1);
    struct local_batch local;
    struct batch *batch;
    if (number >= source->spec.count)
        return -ENODATA;
    int rc = schedule_find(schedule, number / schedule->batch, 0, &local);
    if (rc == 0)
        rc = ring_claim(source->spec.ring, &local, &batch);
    if (rc != 0)
        return rc;
    rc = fill_place(thread, number, batch);
    if (rc == 0)
        ring_fill(source->spec.ring, batch, 1);
    return rc;
}

static void decode_loop(void *arg)
{
    struct decode_thread *const thread = arg;
    if (run_plan_uses_cores(thread->source->spec.plan))
        thread_lower_priority();
    int rc = image_decoder_open(&thread->decoder, thread->source->spec.plan);
    while (rc == 0)
        rc = fill_next(thread);
    image_decoder_close(&thread->decoder);
    if (rc != -ENODATA && rc != -ECANCELED)
        stop_fail(thread->source->spec.stop, exit_code_of(rc, EXIT_CODE_INTERNAL), "images could not be decoded: %s",
                  exit_cause(rc));
}

/* ---- threads ---- */

static int start_threads(struct image_source *source, uint32_t wanted)
{
    int rc = 0;
    for (uint32_t i = 0; i < wanted && rc == 0; i++) {
        struct decode_thread *const thread = &source->threads[i];
        char name[16];
        snprintf(name, sizeof(name), "images%" PRIu32, i % 1000);
        *thread = (struct decode_thread){ .source = source };
        rc = thread_start(&thread->thread, name, decode_loop, thread);
        source->thread_count += rc == 0;
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
    ring_range(spec->ring, 0, schedule_batch_count(&spec->plan->schedule));
    source->states = calloc(spec->count, sizeof(*source->states));
    source->threads = calloc(wanted, sizeof(*source->threads));
    int rc = source->states != NULL && source->threads != NULL ? start_threads(source, wanted) : -ENOMEM;
    if (rc == 0) {
        *source_out = source;
        return 0;
    }
    ring_cancel(spec->ring);
    image_source_close(source);
    return rc;
}

const struct image_state *image_source_state(const struct image_source *source, uint64_t number)
{
    return &source->states[number];
}

void image_source_close(struct image_source *source)
{
    if (source == NULL)
        return;
    for (uint32_t i = 0; i < source->thread_count; i++)
        thread_join(source->threads[i].thread);
    for (uint64_t i = 0; source->states != NULL && i < source->spec.count; i++)
        free(source->states[i].problem);
    free(source->states);
    free(source->threads);
    free(source);
}
