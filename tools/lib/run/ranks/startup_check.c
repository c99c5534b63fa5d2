/* Rank 0 receives the status of every rank, reports, and sends the common exit code to all. */
#include "tools/lib/run/ranks/startup_check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage/log.h"
#include "stage/stop.h"
#include "tools/lib/run/ranks/startup_report.h"

/* A status is sent as this header, followed by the log messages and the facts, both terminated. */
struct status_header {
    int32_t code;
    uint32_t dropped;
    uint64_t messages_bytes, facts_bytes;       /* with the terminators; without facts facts_bytes is 0 */
};

static int out_of_memory(void)
{
    log_message(LOG_ERROR, "comparing the ranks of the run: %s", strerror(ENOMEM));
    return EXIT_CODE_MEMORY;
}

int startup_begin(uint32_t rank)
{
    log_hold();
    if (rank == 0)
        return 0;
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere < 0 || dup2(nowhere, STDOUT_FILENO) < 0) {
        log_message(LOG_ERROR, "/dev/null: %s", strerror(errno));
        return EXIT_CODE_OUTPUT;
    }
    close(nowhere);
    return 0;
}

/* ---- a status as a message ---- */

static int send_status(struct ranks *ranks, const struct rank_status *status)
{
    const struct status_header header = {
        .code = status->code,
        .dropped = status->dropped,
        .messages_bytes = strlen(status->messages) + 1,
        .facts_bytes = status->facts != NULL ? strlen(status->facts) + 1 : 0,
    };
    const size_t bytes = sizeof(header) + header.messages_bytes + header.facts_bytes;
    char *const data = malloc(bytes);
    if (data == NULL)
        return -ENOMEM;
    memcpy(data, &header, sizeof(header));
    memcpy(data + sizeof(header), status->messages, header.messages_bytes);
    if (status->facts != NULL)
        memcpy(data + sizeof(header) + header.messages_bytes, status->facts, header.facts_bytes);
    const int rc = ranks_send(ranks, 0, MESSAGE_COLLECTIVE, data, bytes);
    free(data);
    return rc;
}

/* Decode a message. If it has another form, its rank runs another version of the program; it then counts as a rank with
 * an error, because no fact shows the version. */
static struct rank_status read_status(const struct message *message, const char *name)
{
    const struct rank_status other = { .name = name, .code = EXIT_CODE_USAGE,
                                        .messages = "Ais another version of pipetrain than rank 0\n" };
    struct status_header header;
    if (message->bytes < sizeof(header))
        return other;
    memcpy(&header, message->data, sizeof(header));
    const char *const messages = (const char *)message->data + sizeof(header);
    const char *const end = (const char *)message->data + message->bytes;
    const size_t rest = message->bytes - sizeof(header);
    if (header.messages_bytes == 0 || header.messages_bytes > rest ||
        header.facts_bytes != rest - header.messages_bytes || messages[header.messages_bytes - 1] != '\0' ||
        end[-1] != '\0')
        return other;
    return (struct rank_status){ .name = name, .code = header.code, .messages = messages, .dropped = header.dropped,
                                  .facts = header.facts_bytes > 0 ? messages + header.messages_bytes : NULL };
}

/* ---- rank 0 ---- */

/* Receive and report the statuses of all ranks; statuses[0] is set already. 0 with the common code, or a negative
 * errno. */
static int gather(struct ranks *ranks, struct rank_status *statuses, struct message **messages, int *code_out)
{
    const uint32_t count = ranks_size(ranks);
    for (uint32_t rank = 1; rank < count; rank++) {
        const int rc = ranks_receive(ranks, rank, MESSAGE_COLLECTIVE, &messages[rank]);
        if (rc != 0)
            return rc;
        statuses[rank] = read_status(messages[rank], ranks_name(ranks, rank));
    }
    const bool holds = log_release();
    *code_out = startup_report(statuses, count);
    if (holds)
        log_hold();
    return ranks_send_all(ranks, MESSAGE_COLLECTIVE, code_out, sizeof(*code_out));
}

static int lead(struct ranks *ranks, const struct rank_status *own, int *code_out)
{
    const uint32_t count = ranks_size(ranks);
    struct rank_status *const statuses = calloc(count, sizeof(*statuses));
    struct message **const messages = calloc(count, sizeof(*messages));
    int rc = statuses != NULL && messages != NULL ? 0 : -ENOMEM;
    if (rc == 0) {
        statuses[0] = *own;
        rc = gather(ranks, statuses, messages, code_out);
    }
    for (uint32_t rank = 1; messages != NULL && rank < count; rank++)
        free(messages[rank]);
    free(messages);
    free(statuses);
    return rc;
}

/* ---- the others ---- */

static int follow(struct ranks *ranks, const struct rank_status *own, int *code_out)
{
    struct message *message = NULL;
    int rc = send_status(ranks, own);
    if (rc == 0)
        rc = ranks_receive(ranks, 0, MESSAGE_COLLECTIVE, &message);
    if (rc == 0)
        memcpy(code_out, message->data, sizeof(*code_out));
    free(message);
    return rc;
}

/* ---- all ---- */

int startup_check(struct ranks *ranks, int code, const char *facts)
{
    struct rank_status own = { .code = code, .facts = facts };
    if (ranks == NULL)
        return code;
    char *const messages = log_take_held(&own.dropped);
    own.name = ranks_name(ranks, ranks_rank(ranks));
    own.messages = messages;
    int agreed = 0;
    int rc = messages == NULL ? -ENOMEM : 0;
    if (rc == 0)
        rc = ranks_rank(ranks) == 0 ? lead(ranks, &own, &agreed) : follow(ranks, &own, &agreed);
    if (rc != 0 && messages != NULL)
        (void)startup_report(&own, 1);          /* the log holds the messages again, until startup_end */
    free(messages);
    if (rc == -ENOMEM)
        return out_of_memory();
    return rc != 0 ? ranks_failure_code(ranks) : agreed;
}

int startup_check_facts(struct ranks *ranks, int code, const struct startup_facts *facts)
{
    char *text = NULL;
    if (ranks == NULL)
        return code;
    if (code == 0 && startup_facts_write(facts, &text) != 0)
        code = out_of_memory();
    const int agreed = startup_check(ranks, code, text);
    free(text);
    return agreed;
}

void startup_end(const struct ranks *ranks)
{
    static char name[LOG_SENDER_MAX + 1];       /* static, because log_sender keeps the pointer */
    if (ranks_rank(ranks) > 0) {
        snprintf(name, sizeof(name), "%s", ranks_name(ranks, ranks_rank(ranks)));
        log_sender(name);
        log_only_errors();
    }
    (void)log_release();
}
