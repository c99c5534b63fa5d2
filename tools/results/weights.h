/* Weights to and from people's tools: one safetensors file with PyTorch-style names. */
#ifndef PIPETRAIN_WEIGHTS_H
#define PIPETRAIN_WEIGHTS_H

#include <stdbool.h>
#include <stdint.h>

#include "compute/tower.h"
#include "tools/results/run_directory.h"
#include "tools/results/weights_about.h"

#define WEIGHTS_FILE "weights.safetensors"       /* in a run directory */

struct weights;

/* What is saved. */
struct weights_spec {
    const struct net *net;      /* lent; NULL: nothing */
    bool borrows;               /* what is trained is put together where the tower has its gradients, which lie in the
                                 * host's memory: no memory is taken for it */
    const char *learned;        /* of WEIGHTS_LEARNED, lent; NULL: the data */
};

/* What weights_open takes, or a little more, for the plan. */
size_t weights_bytes(struct weights_spec spec);
/* The file is no larger. */
size_t weights_file_bytes(const struct net *net);
/* Take all that saving needs, with what is done to pixels in the metadata. 0 or -ENOMEM. */
int weights_open(struct weights **weights_out, struct weights_spec spec, const struct pixels_text *pixels);
/* The names of classes for the metadata, a text that is taken over; one that is longer than WEIGHTS_CLASS_BYTES a class
 * allows is left out. Before the first weights_save. 0 or -ENOMEM. */
int weights_name_classes(struct weights *weights, char *names);
/* What the file says of itself, valid until weights_close. */
const struct weights_about *weights_about(const struct weights *weights);
/* Accepts NULL. */
void weights_close(struct weights *weights);
/* Write the tower's weights as `file` in the run directory, atomically, with the xxh3 of
 * every tensor in the metadata; allocates nothing. 0 or a negative errno: -EDOM when a weight is not
 * a finite number, nothing is written then and *broken_out names its tensor; -ENOMEM, or -EREMOTEIO when the tower
 * cannot be read for another reason. The tower does no more steps and its gradients are not read any more: they are
 * lost where they are borrowed. */
int weights_save(struct weights *weights, struct run_directory *directory, const char *file, struct tower *tower,
                 uint64_t steps, const char **broken_out);

#endif
