/* Reading saved states. Nothing of a file is believed before all of it is found to be as it was written. Used by main
 * only. */
#ifndef PIPETRAIN_CHECKPOINT_READER_H
#define PIPETRAIN_CHECKPOINT_READER_H

#include "compute/tower.h"
#include "tools/checkpoint/mark.h"
#include "tools/config/config.h"

struct checkpoint_reader;

/* What is wrong with a file, in words. */
struct checkpoint_problem { char text[512]; };

/* Open the file of the newest state in the folder that is whole; newer ones that are not are told of on stderr.
 * -ENOENT: there is none (no folder either), -EBADMSG: none is whole. -ENOMEM, or a negative errno: the folder cannot
 * be read. */
int checkpoint_reader_find(struct checkpoint_reader **reader_out, const char *folder,
                           struct checkpoint_problem *problem);
/* The same of the states behind less than `before` steps. */
int checkpoint_reader_find_before(struct checkpoint_reader **reader_out, const char *folder, uint64_t before,
                                  struct checkpoint_problem *problem);
/* Open a file: 0, or a negative errno with what is wrong in *problem. Reads all of it. */
int checkpoint_reader_open(struct checkpoint_reader **reader_out, const char *path, struct checkpoint_problem *problem);
/* Accepts NULL. */
void checkpoint_reader_close(struct checkpoint_reader *reader);

/* Valid as long as the reader. */
const char *checkpoint_reader_path(const struct checkpoint_reader *reader);
const struct checkpoint_mark *checkpoint_reader_mark(const struct checkpoint_reader *reader);
const char *checkpoint_reader_settings(const struct checkpoint_reader *reader);
/* What its metadata say under the key, NULL: nothing. */
const char *checkpoint_reader_text(const struct checkpoint_reader *reader, const char *key);
uint32_t checkpoint_reader_towers(const struct checkpoint_reader *reader);

/* Write tower `index` of `towers`, which has its memory and does no steps yet: its own state where the file is of as
 * many towers; else what all have in common, and the mean of what each has of its own. 0; -EINVAL: the file does not
 * fit, with the reason in *problem; -ENOMEM; or a negative errno of reading or of the device. */
int checkpoint_reader_write(const struct checkpoint_reader *reader, struct tower *tower, uint32_t index,
                            uint32_t towers, struct checkpoint_problem *problem);

#endif
