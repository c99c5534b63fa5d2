/* What a run is, in words, as Markdown shows it unchanged. Used by main only. */
#ifndef PIPETRAIN_RUN_TEXTS_H
#define PIPETRAIN_RUN_TEXTS_H

#include "tools/run/observe/observation.h"

/* Owned: the plan as it is printed, a configuration file, and the network as a file for model.file. */
struct run_texts { char *plan, *settings, *model; };

/* 0 or -ENOMEM; run_texts_release after either. */
int run_texts_make(struct run_texts *texts, const struct observed_run *run);
/* Accepts a struct of zeros. */
void run_texts_release(struct run_texts *texts);

#endif
