/* Initial weights of a network, from a safetensors file with PyTorch's names: for training (model.weights) and for
 * evaluation. Used by main only. */
#ifndef PIPETRAIN_INITIAL_WEIGHTS_H
#define PIPETRAIN_INITIAL_WEIGHTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "compute/tower.h"
#include "formats/safetensors.h"
#include "tools/lib/config/problems.h"
#include "tools/lib/results/tensor_naming.h"

struct initial_weights;

/* Open the file and compare it with `net` (borrowed): the file must have all parameters and statistics, and nothing
 * else except PyTorch's counters and the other tensors of a checkpoint. Names of timm are translated to torchvision's
 * (tensor_naming.h). A prefix such as "module." is removed if all
 * names of the file have it, or all that `skip` does not match, and the names of the network do not. `skip`
 * (stage/text/names.h; borrowed; NULL: nothing may be skipped) are patterns of names that are neither required nor
 * loaded; each must match a name of the network or of the file. `data_classes`, for messages: the number of classes
 * according to the description of the data set, or 0. Returns 0; or, with problems added, -EINVAL if the tensors are
 * not those of the network (missing, unknown, or of another shape); -EBADMSG if it is no safetensors file; -ENODATA if
 * it cannot be read; or -ENOMEM. */
int initial_weights_open(struct initial_weights **weights_out, const char *path, const struct net *net,
                         const char *skip, uint64_t data_classes, struct problems *problems);
/* The text of a key in the file's metadata, which is untrusted; valid until the weights are closed. NULL: there is
 * none. */
const char *initial_weights_text(const struct initial_weights *weights, const char *key);
/* Is the parameter of the net loaded from the file, not skipped? */
bool initial_weights_loads(const struct initial_weights *weights, uint32_t parameter);
/* The name of the network's last layer; NULL: its weights are skipped. */
const char *initial_weights_head(const struct initial_weights *weights);
/* The naming from which names of the file were translated; NULL: none were. */
const struct tensor_naming *initial_weights_naming(const struct initial_weights *weights);
/* The tensors of the file, with translated names and without the prefix that was removed from them. */
const struct safetensors_index *initial_weights_index(const struct initial_weights *weights);
/* Load the weights into a tower that runs no steps (NULL: read and check them only); skipped parameters are unchanged.
 * 0, or a negative errno after a message: -EDOM if a number is not finite, -ERANGE if a variance is below 0, -EBADMSG
 * if the file has become shorter, -EILSEQ if a hash differs, -ENOMEM, -EREMOTEIO for another error of the tower. */
int initial_weights_write(const struct initial_weights *weights, struct tower *tower);
/* Read a parameter that is loaded from the file: all its numbers. Returns as initial_weights_write. */
int initial_weights_read(const struct initial_weights *weights, uint32_t parameter, float *numbers_out);
/* Print lines of the plan: the number of loaded parameters, the skipped ones, and the unused tensors of the file. */
void initial_weights_print(const struct initial_weights *weights, FILE *out);
/* Report on stderr how names of the file were changed, if they were; initial_weights_print reports it, too. */
void initial_weights_report_names(const struct initial_weights *weights);
/* Accepts NULL. */
void initial_weights_close(struct initial_weights *weights);

#endif
