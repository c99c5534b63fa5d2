/* Ranks agree on an exit code. */
#include "tools/run/meeting.h"
#include <stdlib.h>
#include <string.h>
int meeting_agree(struct ranks *ranks, int code, const char *facts)
{
    (void)facts;
    if (ranks == NULL)
        return code;
    if (ranks_rank(ranks) == 0) {
        for (uint32_t r = 1; r < ranks_size(ranks); r++) {
            struct mail *mail;
            if (ranks_receive(ranks, r, MAIL_MEETING, &mail) != 0)
                return EXIT_CODE_RANK;
            int theirs;
            memcpy(&theirs, mail->data, sizeof(theirs));
            free(mail);
            if (code == 0)
                code = theirs;
        }
        (void)ranks_send_all(ranks, MAIL_MEETING, &code, sizeof(code));
        return code;
    }
    (void)ranks_send(ranks, 0, MAIL_MEETING, &code, sizeof(code));
    struct mail *mail;
    if (ranks_receive(ranks, 0, MAIL_MEETING, &mail) != 0)
        return EXIT_CODE_RANK;
    memcpy(&code, mail->data, sizeof(code));
    free(mail);
    return code;
}
