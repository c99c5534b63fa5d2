/* A message with the exit code of rank 0 and the sets that follow, then a copy of each of these. */
#include "tools/lib/run/ranks/data_share.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage/file/file.h"
#include "stage/log.h"
#include "stage/stop.h"
#include "tools/lib/run/ranks/rank_copy.h"

struct share_head {
    int code;
    bool follows[PHASE_COUNT];
};

struct image {
    uint8_t *data;
    size_t bytes;
};

/* The exit code for an error here. A rank that has failed has reported its cause. */
static int fail(int rc)
{
    if (rc == 0 || rc == -ECANCELED)
        return rc == 0 ? 0 : EXIT_CODE_RANK;
    log_message(LOG_ERROR, "the indexes of the data sets for other ranks: %s", exit_cause(rc));
    return (int)exit_code_of(rc, EXIT_CODE_DATA);
}

/* ---- rank 0 ---- */

/* Pack the sets that other ranks need not open for themselves. */
static void pack(struct dataset *const datasets[PHASE_COUNT], struct image images[PHASE_COUNT], struct share_head *head)
{
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        struct image *const image = &images[phase];
        head->follows[phase] = head->code == 0 && datasets[phase] != NULL &&
                               dataset_start_pack(datasets[phase], &image->data, &image->bytes) == 0;
        if (datasets[phase] != NULL)
            start_records_release(&datasets[phase]->start);
    }
}

int data_share_send(struct ranks *ranks, struct dataset *const datasets[PHASE_COUNT], int code)
{
    struct image images[PHASE_COUNT] = { 0 };
    struct share_head head;
    memset(&head, 0, sizeof(head));
    head.code = code;
    pack(datasets, images, &head);
    int rc = ranks_send_all(ranks, MESSAGE_COLLECTIVE, &head, sizeof(head));
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        if (rc == 0 && head.follows[phase])
            rc = rank_copy_send_memory(ranks, images[phase].data, images[phase].bytes);
        free(images[phase].data);
    }
    return code != 0 ? code : fail(rc);
}

/* ---- the others ---- */

static int receive_head(struct ranks *ranks, struct share_head *head_out)
{
    struct message *message;
    const int rc = ranks_receive(ranks, 0, MESSAGE_COLLECTIVE, &message);
    if (rc != 0)
        return rc;
    const bool is_head = message->bytes == sizeof(*head_out);
    if (is_head)
        memcpy(head_out, message->data, sizeof(*head_out));
    free(message);
    return is_head ? 0 : -EPROTO;
}

static int receive_start(struct ranks *ranks, struct dataset_start *start_out)
{
    uint64_t bytes;
    int fd;
    int rc = rank_copy_receive(ranks, &fd, &bytes);
    if (rc != 0)
        return rc;
    uint8_t *const image = malloc(bytes + 1);
    rc = image != NULL ? file_read_whole(fd, image, bytes) : -ENOMEM;
    close(fd);
    if (rc == 0)
        rc = dataset_start_parse(start_out, image, bytes);
    free(image);
    return rc;
}

int data_share_receive(struct ranks *ranks, struct data_share *share_out)
{
    struct share_head head;
    memset(share_out, 0, sizeof(*share_out));
    memset(&head, 0, sizeof(head));
    int rc = receive_head(ranks, &head);
    if (rc != 0 || head.code != 0)
        return rc != 0 ? fail(rc) : head.code;
    for (int phase = 0; phase < PHASE_COUNT && rc != -ECANCELED; phase++) {
        const int received = head.follows[phase] ? receive_start(ranks, &share_out->starts[phase]) : 0;
        share_out->given[phase] = head.follows[phase] && received == 0 ? &share_out->starts[phase] : NULL;
        rc = rc == 0 ? received : rc;
    }
    return fail(rc);
}

void data_share_release(struct data_share *share)
{
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        dataset_start_release(&share->starts[phase]);
}
