/* Saves weights as one safetensors file with PyTorch-style names, and metadata that make it usable on its own: the
 * network, the preprocessing of pixels, the names of classes. */
#ifndef PIPETRAIN_WEIGHTS_H
#define PIPETRAIN_WEIGHTS_H

#include <stdbool.h>
#include <stdint.h>

#include "compute/tower.h"
#include "formats/safetensors.h"
#include "tools/lib/config/pixels.h"
#include "tools/lib/results/checkpoint_format.h"
#include "tools/lib/results/run_directory.h"

#define WEIGHTS_FILE "weights.safetensors"      /* in a run directory */

/* Keys of the metadata: the network as a text of compute/netfile/net_file.h; a prefix of the settings in
 * pixels_settings; the names of classes, as lines INDEX:NAME; the number of steps; and, only if the run was not trained
 * on the data set, a description of what it was trained on: "made-up images and labels (...)". */
#define WEIGHTS_NET "pipetrain.net"
#define WEIGHTS_SETTING "pipetrain.setting."
#define WEIGHTS_CLASS_NAMES "pipetrain.class_names"
#define WEIGHTS_STEPS "pipetrain.steps"
#define WEIGHTS_LEARNED "pipetrain.learned"
#define WEIGHTS_SHARDS "pipetrain.trained_on"       /* some shards of the training set (trained_shards.h) */
/* Of best.safetensors: the epoch (from 1) after which it was evaluated, train.best_by, and this measure. */
#define WEIGHTS_EPOCH "pipetrain.epoch"
#define WEIGHTS_BEST_BY "pipetrain.best_by"
#define WEIGHTS_BEST_VALUE "pipetrain.best_value"
#define WEIGHTS_CLASS_BYTES 64u         /* upper limit of the average length of a class name */

/* ---- metadata ---- */

struct weights_about;

/* An upper limit of the bytes of these texts in a header and in memory together. */
size_t weights_about_bytes(const struct net *net);
/* Make the texts for `net` (borrowed) and its preprocessing. 0 or -ENOMEM. */
int weights_about_open(struct weights_about **about_out, const struct net *net, const struct pixels_text *pixels);
/* Accepts NULL. */
void weights_about_close(struct weights_about *about);
/* The texts, except WEIGHTS_STEPS; at most WEIGHTS_ABOUT_TEXTS; valid until weights_about_close. */
#define WEIGHTS_ABOUT_TEXTS (11u + PIXELS_SETTINGS)
#define WEIGHTS_SHARDS_BYTES 1024u
const struct safetensors_text *weights_about_texts(const struct weights_about *about, uint32_t *count_out);

/* ---- weights ---- */

struct weights;

/* The specification of the weights to save. */
struct weights_spec {
    const struct net *net;      /* borrowed; NULL: nothing */
    /* With parts: towers of the run, and those of this process (struct checkpoint_shape). Without, the weights are
     * those of one tower of this process, and these are 0. */
    struct checkpoint_parts parts;
    uint32_t towers;
    struct tower_range here;
    /* The gradients of towers of this process, in host memory, are used as the buffer of their trained parameters, so
     * no memory is allocated for it. */
    bool borrows;
    const char *learned;        /* the text of WEIGHTS_LEARNED, borrowed; NULL: trained on the data set */
    /* weights_save_best is called, with this identity of the run (tools/lib/run/run_identity.h), borrowed; NULL: it is
     * not. */
    const char *best_settings;
};

/* The layout of the weights, for a checkpoint_sender too. */
struct checkpoint_shape weights_shape(struct weights_spec spec);
/* Upper limits of the memory that weights_open allocates, for the plan, and of the size of the file. */
size_t weights_bytes(struct weights_spec spec);
size_t weights_file_bytes(const struct net *net);
/* Allocate all memory for saving. 0 or -ENOMEM. */
int weights_open(struct weights **weights_out, struct weights_spec spec, const struct pixels_text *pixels);
/* Set the text of WEIGHTS_CLASS_NAMES, which is owned from now on; a text longer than WEIGHTS_CLASS_BYTES per class is
 * left out of the file. Called before the first weights_save. 0 or -ENOMEM. */
int weights_name_classes(struct weights *weights, char *names);
/* Set the text of WEIGHTS_SHARDS, which is copied. Before the first weights_save. 0 or -ENOMEM. */
int weights_name_shards(struct weights *weights, const char text[static WEIGHTS_SHARDS_BYTES]);
/* Set where parts of towers of other processes come from. Before the first weights_save, with parts. */
void weights_set_source(struct weights *weights, const struct checkpoint_source *source);
/* Valid until weights_close. */
const struct weights_about *weights_about(const struct weights *weights);
/* Accepts NULL. */
void weights_close(struct weights *weights);
/* Write the towers' weights as `file` in the run directory, atomically, with the XXH3 of every tensor in the metadata.
 * `towers` are those of this process, or without parts the one whose weights these are. They must run no more steps,
 * and borrowed gradients are overwritten. Allocates nothing. 0 or a negative errno: -EDOM if a weight is not finite
 * (nothing is written, and *broken_out is the name of its tensor), -ENOMEM, -ECANCELED from the source (another process
 * has failed), or -EREMOTEIO if a tower cannot be read for another reason. */
int weights_save(struct weights *weights, struct run_directory *directory, const char *file, struct tower *const *towers,
                 uint64_t steps, const char **broken_out);
/* Write the weights of an evaluation as CHECKPOINT_BEST_FILE, in the same way. They are in the towers' snapshots of
 * kind SNAPSHOT_EVALUATED, whose contents are lost; `metadata` describe the evaluation. From any thread, but not while
 * another function uses the weights. Allocates nothing. Returns as weights_save. */
int weights_save_best(struct weights *weights, struct run_directory *directory, struct snapshot *const *snapshots,
                      const struct checkpoint_metadata *metadata, const char **broken_out);

#endif
