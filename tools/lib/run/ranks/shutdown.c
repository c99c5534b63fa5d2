/* Rank 0 waits for all ranks, and sends its exit code to them. */
#include "tools/lib/run/ranks/shutdown.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "stage/text/output.h"

#define FLUSH_MS 2000u          /* the same limit as in output_end */

/* The message of rank 0 to all others. */
struct shutdown { int32_t code; struct run_back back; };

/* Is it a code about the whole run, not about a single process? */
static bool is_of_the_run(int code)
{
    return code == EXIT_CODE_OK || code == EXIT_CODE_STALL || code == EXIT_CODE_NONFINITE ||
           code == EXIT_CODE_UNLEARNT || code == EXIT_CODE_STOPPED || code == EXIT_CODE_INTERRUPTED;
}

/* Wait for all other ranks, except those that are silent. */
static void await_others(struct ranks *ranks)
{
    for (uint32_t rank = 1; rank < ranks_size(ranks); rank++) {
        struct message *message = NULL;
        if (ranks_receive(ranks, rank, MESSAGE_COLLECTIVE, &message) == 0)
            free(message);
    }
}

/* Rank 0: wait for the others and send them its code. The run is not rolled back if a rank has failed. */
static int lead(struct ranks *ranks, int code, struct run_back *back)
{
    struct shutdown shutdown;
    memset(&shutdown, 0, sizeof(shutdown));
    await_others(ranks);
    const bool has_failed = ranks_failed(ranks);
    if (has_failed)
        back->folder[0] = '\0';
    shutdown.code = code == 0 && has_failed ? ranks_failure_code(ranks) : code;
    shutdown.back = *back;
    (void)ranks_send_all(ranks, MESSAGE_COLLECTIVE, &shutdown, sizeof(shutdown));
    (void)ranks_flush(ranks);
    return shutdown.code;
}

static int follow(struct ranks *ranks, int code, bool has_failed, struct run_back *back)
{
    struct shutdown shutdown;
    struct message *message;
    (void)ranks_send(ranks, 0, MESSAGE_COLLECTIVE, &code, sizeof(code));
    if (ranks_receive(ranks, 0, MESSAGE_COLLECTIVE, &message) != 0)
        return code != 0 ? code : ranks_failure_code(ranks);
    assert(message->bytes == sizeof(shutdown));
    memcpy(&shutdown, message->data, sizeof(shutdown));
    free(message);
    *back = shutdown.back;
    if (has_failed || code == shutdown.code)
        return code;
    return is_of_the_run(shutdown.code) ? shutdown.code : ranks_failure_code(ranks);
}

int shutdown_agree(struct ranks *ranks, int code, bool has_failed, struct run_back *back)
{
    if (ranks == NULL)
        return code;
    ranks_set_phase(ranks, "ending");
    output_flush(FLUSH_MS);     /* launchers kill all others when the first process ends with a failure */
    return ranks_rank(ranks) == 0 ? lead(ranks, code, back) : follow(ranks, code, has_failed, back);
}
