/* Decisions about checkpoints, and their parts, as mail. */
#include "tools/lib/run/state_mail.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* About the snapshots after the batch before `next`; NEVER_AGAIN: about these and all later ones. */
struct decision { uint64_t next, is_saved; };
#define NEVER_AGAIN UINT64_MAX

/* A part begins with it; tensors follow. */
struct part_head { int64_t error; };    /* of a tensor in the part, 0: none */

struct state_mail {
    struct ranks *ranks;
    uint32_t towers;            /* of each rank */
    bool is_over;               /* of main: nothing more is saved */
    struct mail *received;      /* rank 0: the current part; NULL: none */
    unsigned char *part;        /* other ranks: the next part, its head included */
    size_t used, room;          /* bytes of the part */
    struct part_head head;
};

static size_t room_of(size_t total)
{
    return sizeof(struct part_head) + (total < STATE_MAIL_PART_BYTES ? total : STATE_MAIL_PART_BYTES);
}

/* The part, and its copy that is on its way. */
size_t state_mail_bytes(size_t total)
{
    return sizeof(struct state_mail) + 2 * (sizeof(struct mail) + room_of(total));
}

int state_mail_open(struct state_mail **mail_out, struct ranks *ranks, uint32_t towers, size_t total)
{
    struct state_mail *const mail = calloc(1, sizeof(*mail));
    if (mail == NULL)
        return -ENOMEM;
    *mail = (struct state_mail){ .ranks = ranks, .towers = towers, .room = room_of(total) };
    if (ranks_rank(ranks) > 0) {
        mail->used = sizeof(mail->head);
        mail->part = calloc(1, mail->room);
        if (mail->part == NULL) {
            state_mail_close(mail);
            return -ENOMEM;
        }
    }
    *mail_out = mail;
    return 0;
}

void state_mail_close(struct state_mail *mail)
{
    if (mail == NULL)
        return;
    free(mail->received);
    free(mail->part);
    free(mail);
}

/* ---- decisions ---- */

void state_mail_decide(struct state_mail *mail, uint64_t next, bool is_saved)
{
    const struct decision decision = { next, is_saved };
    if (!mail->is_over)
        (void)ranks_send_all(mail->ranks, MAIL_SNAPSHOT, &decision, sizeof(decision));
}

void state_mail_give_up(struct state_mail *mail)
{
    state_mail_decide(mail, NEVER_AGAIN, false);
    mail->is_over = true;
}

bool state_mail_await(struct state_mail *mail, uint64_t next)
{
    struct mail *received;
    struct decision decision;
    if (mail->is_over || ranks_receive(mail->ranks, 0, MAIL_SNAPSHOT, &received) != 0)
        return false;
    assert(received->bytes == sizeof(decision));
    memcpy(&decision, received->data, sizeof(decision));
    free(received);
    mail->is_over = decision.next == NEVER_AGAIN;
    assert(mail->is_over || decision.next == next);
    (void)next;
    return decision.is_saved != 0;
}

/* ---- parts ---- */

static int ask(struct state_mail *mail, uint32_t rank)
{
    int rc = ranks_send(mail->ranks, rank, MAIL_STATE, NULL, 0);
    if (rc == 0)
        rc = ranks_receive(mail->ranks, rank, MAIL_STATE, &mail->received);
    if (rc != 0)
        return rc;
    mail->used = sizeof(mail->head);
    memcpy(&mail->head, mail->received->data, sizeof(mail->head));
    return 0;
}

static int take(void *arg, uint32_t tower, void *out, size_t bytes)
{
    struct state_mail *const mail = arg;
    char *next = out;
    int rc = 0;
    while (bytes > 0) {
        const uint32_t rank = tower / mail->towers;
        const int asked = mail->received == NULL ? ask(mail, rank) : 0;
        if (asked != 0)
            return asked;
        assert(mail->received->from == rank);
        const size_t left = mail->received->bytes - mail->used, count = bytes < left ? bytes : left;
        memcpy(next, mail->received->data + mail->used, count);
        mail->used += count;
        next += count;
        bytes -= count;
        rc = mail->head.error != 0 ? (int)mail->head.error : rc;
        if (count == left) {
            free(mail->received);
            mail->received = NULL;
        }
    }
    return rc;
}

struct checkpoint_source state_mail_source(struct state_mail *mail)
{
    return (struct checkpoint_source){ .take = take, .arg = mail };
}

static int flush(void *arg)
{
    struct state_mail *const mail = arg;
    struct mail *request;
    if (mail->used == sizeof(mail->head))
        return 0;
    const int rc = ranks_receive(mail->ranks, 0, MAIL_STATE, &request);
    if (rc != 0)
        return rc;
    free(request);
    memcpy(mail->part, &mail->head, sizeof(mail->head));
    const size_t bytes = mail->used;
    mail->used = sizeof(mail->head);
    mail->head.error = 0;
    return ranks_send(mail->ranks, 0, MAIL_STATE, mail->part, bytes);
}

static int put(void *arg, const void *data, size_t bytes, int error)
{
    struct state_mail *const mail = arg;
    const char *next = data;
    int rc = 0;
    while (bytes > 0 && rc == 0) {
        const size_t left = mail->room - mail->used, count = bytes < left ? bytes : left;
        mail->head.error = error != 0 ? error : mail->head.error;
        memcpy(mail->part + mail->used, next, count);
        mail->used += count;
        next += count;
        bytes -= count;
        if (count == left)
            rc = flush(mail);
    }
    return rc;
}

struct checkpoint_sink state_mail_sink(struct state_mail *mail)
{
    return (struct checkpoint_sink){ .put = put, .flush = flush, .arg = mail };
}
