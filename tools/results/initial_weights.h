/* Weights that a network begins with, from a safetensors file with PyTorch's names: those of training
 * (model.weights), and of evaluation. Used by main only. */
#ifndef PIPETRAIN_INITIAL_WEIGHTS_H
#define PIPETRAIN_INITIAL_WEIGHTS_H

#include <stdio.h>

#include "compute/tower.h"
#include "tools/config/problems.h"

struct initial_weights;

/* Open the file and compare it with `net` (lent): all its parameters and statistics have to be there, nothing else but
 * PyTorch's counts of batches and what a saved state has besides. What all names of the file begin with and those of
 * the network do not is left out ("module."). Names that match `skip` (stage/text/names.h; lent;
 * NULL: nothing may be left out) are neither looked for nor taken, and each pattern has to match one of the network or
 * of the file. 0; or with problems added -EINVAL when they are another network's, with what is missing, unknown or has
 * another shape; -EBADMSG when it is no such file; -ENODATA when it cannot be read; or -ENOMEM. */
int initial_weights_open(struct initial_weights **weights_out, const char *path, const struct net *net,
                         const char *skip, struct problems *problems);
/* What the file's metadata say under the key, an untrusted text that lives as long as the weights; NULL: nothing. */
const char *initial_weights_text(const struct initial_weights *weights, const char *key);
/* Read all that is taken: 0, or a negative errno after a message, as initial_weights_write. */
int initial_weights_check(const struct initial_weights *weights);
/* Write them into a tower that does no steps now; what is left out stays as it is. 0, or a negative errno after a
 * message: -EDOM when one is not a finite number, -EBADMSG when the file has become shorter, -ENOMEM,
 * -EREMOTEIO when the tower does not take them for another reason. */
int initial_weights_write(const struct initial_weights *weights, struct tower *tower);
/* Lines for people: how many were taken, which were left out, and what of the file is not used. */
void initial_weights_print(const struct initial_weights *weights, FILE *out);
/* Say on stderr what was left out of all names, where that was something; initial_weights_print says it, too. */
void initial_weights_tell_prefix(const struct initial_weights *weights);
/* Accepts NULL. */
void initial_weights_close(struct initial_weights *weights);

#endif
