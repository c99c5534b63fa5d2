/* The transform from the pixels of an image to the input of the network: for the stages that compute it, and in words
 * for other programs. */
#ifndef PIPETRAIN_PIXELS_H
#define PIPETRAIN_PIXELS_H

#include <stdbool.h>
#include <stdio.h>

#include "compute/net.h"
#include "loader/augment/augment.h"
#include "tools/lib/config/options.h"
#include "tools/lib/config/settings.h"

/* Settings that are stored with weights, as "SECTION.KEY": the scaling of validation images, the label offset, how
 * records are read (only if set), and the share of records that was held out for validation. */
#define PIXELS_SCALING 4u
#define PIXELS_LABEL_OFFSET PIXELS_SCALING
#define PIXELS_LABEL_KEY (PIXELS_LABEL_OFFSET + 1)  /* the first of the settings about records */
#define PIXELS_VALIDATION_SPLIT (PIXELS_LABEL_KEY + 5)
#define PIXELS_SETTINGS (PIXELS_VALIDATION_SPLIT + 1)
extern const char *const pixels_settings[PIXELS_SETTINGS];
const struct option_row *pixels_option(size_t setting);

/* The transform and these settings as texts. The input of the network is (pixel / divisor - mean) / deviation. Mean and
 * deviation are one number for all channels, or one for each, separated by spaces. */
struct pixels_text {
    char divisor[24], mean[24 * NET_CHANNELS_MAX], deviation[24 * NET_CHANNELS_MAX];
    char images[PHASE_COUNT][384];       /* augment_describe */
    char settings[PIXELS_SETTINGS][128]; /* the values of pixels_settings */
};

/* Choose between augment.evaluation_scale and augment.evaluation_resize: the command line overrides the file, which
 * overrides the model; if both are set in the same place, evaluation_resize is used. */
void pixels_choose_scaling(struct settings *settings);
/* Check that evaluation_resize fits the images that are cropped from it: the input of the network. */
void pixels_check_resize(struct settings *settings, struct shape input, struct problems *problems);
/* Check the ranges of the crop, and that automatic augmentation supports the number of channels. */
void pixels_check_augment(struct settings *settings, uint32_t channels, struct problems *problems);
/* The shape of training images, which may be another than that of the network (augment.train_size). */
struct shape pixels_train_shape(const struct settings *settings, const struct net *net);
/* `net` has the mean pixel, which fills erased boxes; without it (NULL) they are 0. */
struct augment pixels_augment(const struct settings *settings, const struct net *net);
/* Returns whether the settings replace the transform of the model, with the new one in *transform_out. */
bool pixels_transform(const struct settings *settings, struct input_transform *transform_out);
/* Warn if mean or deviation seem to have another unit than pixel / divisor. After settings_finish. */
void pixels_warn(const struct settings *settings);
void pixels_describe(const struct settings *settings, const struct net *net, struct pixels_text *text_out);
/* Print a line about the input, and if images are loaded, about training and evaluation images. */
void pixels_print(const struct settings *settings, const struct net *net, FILE *out);

#endif
