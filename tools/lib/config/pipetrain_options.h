/* The options of pipetrain itself (evaluate and predict have their own). */
#ifndef PIPETRAIN_PIPETRAIN_OPTIONS_H
#define PIPETRAIN_PIPETRAIN_OPTIONS_H

#include "tools/lib/config/program_option.h"

/* Options without a letter. WORD_ELSEWHERE: those of --compare and --tune, which parse their own command lines. */
enum pipetrain_word { WORD_SET = 256, WORD_CHECK, WORD_DRY_RUN, WORD_OVERFIT, WORD_PROGRESS, WORD_DESCRIBE, WORD_NET,
                      WORD_DOCTOR, WORD_VERSION, WORD_ELSEWHERE };

extern const struct program_option pipetrain_options[];

#endif
