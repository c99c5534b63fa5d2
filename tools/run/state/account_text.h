/* The sums of a run as a text, for a saved state. Pure functions, any thread. */
#ifndef PIPETRAIN_ACCOUNT_TEXT_H
#define PIPETRAIN_ACCOUNT_TEXT_H

#include <stddef.h>

#include "tools/run/account.h"

#define ACCOUNT_TEXT_BYTES 1536u        /* any sums, and the end of the text */

/* Numbers with blanks between them; doubles are the shortest decimals that read back as themselves. */
void account_text_write(const struct account_state *state, char text_out[ACCOUNT_TEXT_BYTES]);
/* 0, or -EINVAL when the text has another form, or has numbers that are impossible: more correct answers than
 * images. */
int account_text_read(struct account_state *state_out, const char *text);

#endif
