/* pipetrain-shards head: the features of a shard's first records. Called by main. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "formats/example.h"
#include "stage/log.h"
#include "stage/stop.h"
#include "tools/shards/feature_line.h"
#include "tools/shards/shard_paths.h"
#include "tools/shards/shard_walk.h"
#include "tools/shards/shards_command.h"

struct head {
    const char *path;
    struct shard_walk walk;
    struct piece piece;
    uint64_t left;              /* records still to be shown */
    bool is_damaged;
};

static void tell_damage(struct head *head, uint64_t record, uint64_t offset, const struct record_problem *problem)
{
    char text[2048];
    record_place_describe(head->path, record, offset, problem, text, sizeof(text));
    log_message(LOG_ERROR, "%s", text);
    head->is_damaged = true;
}

static int print_feature(void *arg, const char *name, size_t name_bytes, const struct feature *feature)
{
    feature_line_print(arg, name, name_bytes, feature);
    return 0;
}

static void show_record(struct head *head, const struct piece_record *record)
{
    struct record_problem problem = { 0 };
    size_t bad_offset;
    if (!piece_record_verify(record, head->walk.source, &problem)) {
        tell_damage(head, record->record, record->offset, &problem);
        return;
    }
    printf("record %" PRIu64 " at byte %" PRIu64 ": %zu bytes of payload\n", record->record, record->offset,
           record->payload_bytes);
    if (example_visit(record->payload, record->payload_bytes, print_feature, stdout, &bad_offset) == 0)
        return;
    snprintf(problem.text, sizeof(problem.text), "is not a tf.train.Example (byte %zu of its payload)", bad_offset);
    tell_damage(head, record->record, record->offset, &problem);
}

static void show_piece(struct head *head)
{
    struct piece_record record = { 0 };
    while (head->left > 0 && piece_next(&head->piece, &record)) {
        show_record(head, &record);
        head->left--;
    }
}

/* -ENODATA at the end of the shard, -ENOMEM or -ECANCELED; 0 once all wanted are shown. */
static int show_records(struct head *head)
{
    int rc = 0;
    while (head->left > 0 && (rc == 0 || rc == -EBADMSG)) {
        rc = shard_walk_next(&head->walk, &head->piece);
        if (rc == 0)
            show_piece(head);
        else if (rc == -EBADMSG)
            tell_damage(head, head->piece.record, head->piece.offset, &head->piece.problem);
    }
    return rc;
}

/* An exit code. */
static int show(const struct shards_request *request, const char *path)
{
    struct head head = { .path = path, .left = request->records };
    head.walk.is_unwanted = request->is_unwanted;
    int rc = shard_source_open(&head.walk.source, NULL, head.path);
    if (rc < 0) {
        log_message(LOG_ERROR, "%s: cannot be opened: %s", head.path, strerror(-rc));
        return (int)exit_code_of(rc, EXIT_CODE_DATA);
    }
    rc = show_records(&head);
    if (rc == -ENOMEM)
        log_message(LOG_ERROR, "%s: %s", head.path, strerror(ENOMEM));
    shard_walk_release(&head.walk);
    shard_source_close(head.walk.source);
    piece_release(&head.piece);
    return rc == -ENOMEM ? EXIT_CODE_MEMORY : head.is_damaged ? EXIT_CODE_DATA : EXIT_CODE_OK;
}

static int run(const struct shards_request *request)
{
    struct shard_list list;
    const int rc = shard_paths_find(&list, request);
    if (rc < 0)
        return (int)exit_code_of(rc, EXIT_CODE_DATA);
    if (list.count > 1)
        printf("%s, the first of %" PRIu32 " shards:\n", list.paths[0], list.count);
    const int code = show(request, list.paths[0]);
    shard_list_release(&list);
    return code;
}

const struct shards_command command_head = {
    .name = "head",
    .words = "PATTERN",
    .words_least = 1,
    .words_most = 1,
    .options = "n",
    .summary = "the features of a shard's first records",
    .help = "For every feature a line: its name, kind, number of values, and the first of\n"
            "them; of an encoded image its format and size. Names and texts are shown with\n"
            "everything escaped that a terminal may act on. Of several shards it is the first\n"
            "one whose records are shown.\n\n"
            "  " SHARDS_PROGRAM " head train-00000-of-01024\n"
            "  " SHARDS_PROGRAM " head -n 1 mine.tfrecord\n",
    .run = run,
};
