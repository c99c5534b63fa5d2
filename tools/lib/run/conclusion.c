/* The end of a run of several ranks. */
#include "tools/lib/run/conclusion.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "stage/text/output.h"

#define FLUSH_MS 2000u          /* as long as output_end */

struct conclusion { int32_t code; struct run_back back; };

/* Codes that say how the run as a whole ended. */
static bool is_common(int code)
{
    return code == EXIT_CODE_OK || code == EXIT_CODE_STALL || code == EXIT_CODE_NONFINITE ||
           code == EXIT_CODE_UNLEARNT || code == EXIT_CODE_STOPPED || code == EXIT_CODE_INTERRUPTED;
}

/* All others are here, but for those that are silent. */
static void await_others(struct ranks *ranks)
{
    for (uint32_t rank = 1; rank < ranks_size(ranks); rank++) {
        struct mail *mail = NULL;
        if (ranks_receive(ranks, rank, MAIL_MEETING, &mail) == 0)
            free(mail);
    }
}

/* After a failure of a rank there is no way back. */
static int lead(struct ranks *ranks, int code, struct run_back *back)
{
    struct conclusion conclusion;
    memset(&conclusion, 0, sizeof(conclusion));
    await_others(ranks);
    const bool has_failed = ranks_failed(ranks);
    if (has_failed)
        back->folder[0] = '\0';
    conclusion.code = code == 0 && has_failed ? ranks_failure_code(ranks) : code;
    conclusion.back = *back;
    (void)ranks_send_all(ranks, MAIL_MEETING, &conclusion, sizeof(conclusion));
    (void)ranks_flush(ranks);
    return conclusion.code;
}

static int follow(struct ranks *ranks, int code, bool has_failed, struct run_back *back)
{
    struct conclusion conclusion;
    struct mail *mail;
    (void)ranks_send(ranks, 0, MAIL_MEETING, &code, sizeof(code));
    if (ranks_receive(ranks, 0, MAIL_MEETING, &mail) != 0)
        return code != 0 ? code : ranks_failure_code(ranks);
    assert(mail->bytes == sizeof(conclusion));
    memcpy(&conclusion, mail->data, sizeof(conclusion));
    free(mail);
    *back = conclusion.back;
    if (has_failed || code == conclusion.code)
        return code;
    return is_common(conclusion.code) ? conclusion.code : ranks_failure_code(ranks);
}

int conclusion_reach(struct ranks *ranks, int code, bool has_failed, struct run_back *back)
{
    if (ranks == NULL)
        return code;
    ranks_at_phase(ranks, "ending");
    output_flush(FLUSH_MS);     /* launchers kill all others when the first process ends with a failure */
    return ranks_rank(ranks) == 0 ? lead(ranks, code, back) : follow(ranks, code, has_failed, back);
}
