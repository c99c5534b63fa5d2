/* Weights that a network starts with, from a safetensors file with PyTorch's names: those of training (model.weights)
 * and of evaluation. Used by main only. */
#ifndef PIPETRAIN_INITIAL_WEIGHTS_H
#define PIPETRAIN_INITIAL_WEIGHTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "compute/tower.h"
#include "formats/safetensors.h"
#include "tools/lib/config/problems.h"

struct initial_weights;

/* Open the file and compare it with `net` (borrowed): it must have all parameters and statistics, and nothing else
 * except PyTorch's counters and the other tensors of a checkpoint. A prefix that all names of the file have, or all
 * that `skip` does not match, and those of the network have not is removed ("module."). `skip` (stage/text/names.h;
 * borrowed; NULL: nothing may be skipped) are patterns of names that are neither required nor loaded; each must match a
 * name of the network or of the file. `data_classes`, for messages: how many classes the description of the data set
 * says, or 0. Gives 0; or, with problems added, -EINVAL for another network's weights (which are missing, unknown, or
 * have another shape); -EBADMSG when it is no safetensors file; -ENODATA when it cannot be read; or -ENOMEM. */
int initial_weights_open(struct initial_weights **weights_out, const char *path, const struct net *net,
                         const char *skip, uint64_t data_classes, struct problems *problems);
/* The text of a key of the file's metadata, which is untrusted; valid as long as the weights. NULL: there is none. */
const char *initial_weights_text(const struct initial_weights *weights, const char *key);
/* Is the parameter of the net loaded from the file, not skipped? */
bool initial_weights_loads(const struct initial_weights *weights, uint32_t parameter);
/* The name of the network's last layer; NULL: its weights are skipped. */
const char *initial_weights_head(const struct initial_weights *weights);
/* The tensors of the file, without the prefix that was removed from their names. */
const struct safetensors_index *initial_weights_index(const struct initial_weights *weights);
/* Load them into a tower that runs no steps (NULL: read and check them only); skipped parameters are unchanged. 0, or a
 * negative errno after a message: -EDOM when a number is not finite, -ERANGE when a variance is below 0, -EBADMSG when
 * the file has become shorter, -EILSEQ when a hash differs, -ENOMEM, -EREMOTEIO for another error of the tower. */
int initial_weights_write(const struct initial_weights *weights, struct tower *tower);
/* Lines of the plan: how many are loaded, which are skipped, and which of the file are not used. */
void initial_weights_print(const struct initial_weights *weights, FILE *out);
/* Report on stderr the prefix that was removed, if any; initial_weights_print does so, too. */
void initial_weights_report_prefix(const struct initial_weights *weights);
/* Accepts NULL. */
void initial_weights_close(struct initial_weights *weights);

#endif
