/* The options of pipetrain's command line, for what it does with a configuration or without one. */
#ifndef PIPETRAIN_PIPETRAIN_OPTIONS_H
#define PIPETRAIN_PIPETRAIN_OPTIONS_H

#include "tools/config/words/program_option.h"

/* Without a letter. WORD_ELSEWHERE: of programs of their own (--compare, --tune), which are found before. */
enum pipetrain_word { WORD_SET = 256, WORD_CHECK, WORD_DRY_RUN, WORD_OVERFIT, WORD_PROGRESS, WORD_DESCRIBE, WORD_NET,
                      WORD_DOCTOR, WORD_VERSION, WORD_ELSEWHERE };

extern const struct program_option pipetrain_options[];

#endif
