/* What a file of weights says of itself, so that it can be used without anything else: its network, what is done to
 * pixels, the names of classes. Texts for the metadata of safetensors files. */
#ifndef PIPETRAIN_WEIGHTS_ABOUT_H
#define PIPETRAIN_WEIGHTS_ABOUT_H

#include "compute/net.h"
#include "formats/safetensors.h"
#include "tools/config/pixels.h"

/* The network as a text of compute/netfile/net_file.h; behind a prefix the settings of pixels_settings; and the names
 * of classes, lines of INDEX:NAME. */
#define WEIGHTS_NET "pipetrain.net"
#define WEIGHTS_SETTING "pipetrain.setting."
#define WEIGHTS_CLASS_NAMES "pipetrain.class_names"
#define WEIGHTS_CLASS_BYTES 64u         /* of the names of a class on the average, at most */
#define WEIGHTS_STEPS "pipetrain.steps" /* after how many the weights are; not one of these texts */
/* Only where the run was no training on the data: what it learned instead, "made-up images and labels (...)". */
#define WEIGHTS_LEARNED "pipetrain.learned"

struct weights_about;

/* What the texts take in a header and in memory together, or a little more. */
size_t weights_about_bytes(const struct net *net);
/* Texts on `net` (lent) and on what is done to pixels. 0 or -ENOMEM. */
int weights_about_open(struct weights_about **about_out, const struct net *net, const struct pixels_text *pixels);
/* The names of classes, a text that is taken over; one that is longer than WEIGHTS_CLASS_BYTES a class allows is left
 * out. */
void weights_about_classes(struct weights_about *about, char *names);
/* The text of WEIGHTS_LEARNED, lent. */
void weights_about_learned(struct weights_about *about, const char *learned);
/* At most WEIGHTS_ABOUT_TEXTS of them, valid until weights_about_close. */
#define WEIGHTS_ABOUT_TEXTS (10u + PIXELS_SETTINGS)
const struct safetensors_text *weights_about_texts(const struct weights_about *about, uint32_t *count_out);
/* Accepts NULL. */
void weights_about_close(struct weights_about *about);

#endif
