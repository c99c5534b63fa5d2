/* A machine in the folder of a test: files as the kernel shows them, and what was found there. */
#ifndef PIPETRAIN_MACHINE_FIXTURE_H
#define PIPETRAIN_MACHINE_FIXTURE_H

#include "tools/doctor/finding.h"
#include "tools/doctor/machine.h"

extern struct machine machine;
extern struct findings findings;

/* What cmocka calls before and after a test: a folder without files, CPUs 0-3 usable, no findings. */
int machine_make(void **state);
int machine_remove(void **state);
/* A file of the machine, with the folders on the way. */
void machine_put(const char *text, const char *path, ...) __attribute__((format(printf, 2, 3)));
void machine_use_cpus(const char *list);
/* The finding is there, is judged so, and its words hold `found` and `advice`. */
void expect_finding(const char *topic, const char *name, enum judgement judgement, const char *found,
                    const char *advice);
void expect_none(const char *topic, const char *name);
void forget_findings(void);

#endif
