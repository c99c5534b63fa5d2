/* What is done to pixels on their way from an image to the network's input, by the settings: for the stages
 * that do it, and in words for who wants to repeat it. */
#ifndef PIPETRAIN_PIXELS_H
#define PIPETRAIN_PIXELS_H

#include <stdbool.h>
#include <stdio.h>

#include "compute/net.h"
#include "loader/augment/augment.h"
#include "tools/config/settings.h"

/* "SECTION.KEY" of what decides how validation images are scaled. */
#define PIXELS_SETTINGS 4u
extern const char *const pixels_settings[PIXELS_SETTINGS];

/* The network's input is (pixel / divisor - mean) / deviation, where mean and deviation are one number
 * for all channels or, with blanks between them, one for each. */
struct pixels_text {
    char divisor[24], mean[24 * NET_CHANNELS_MAX], deviation[24 * NET_CHANNELS_MAX];
    char images[PHASE_COUNT][256];       /* augment_describe */
    char settings[PIXELS_SETTINGS][64]; /* the values of pixels_settings */
};

/* Of augment.evaluation_scale and augment.evaluation_resize the one decides that was given last: on the command line
 * before in the file before by the model. Where both were given there, evaluation_resize does. */
void pixels_choose_scaling(struct settings *settings);
/* What evaluation_resize cannot do with images of the network is a problem. */
void pixels_check_resize(struct settings *settings, const struct net *net, struct problems *problems);
struct augment pixels_augment(const struct settings *settings);
/* Whether the settings replace the transform of the model. */
bool pixels_transform(const struct settings *settings, struct input_transform *transform_out);
/* Warn on stderr of a mean or deviation that is in another unit than pixel / divisor. After settings_finish. */
void pixels_warn(const struct settings *settings);
void pixels_describe(const struct settings *settings, const struct net *net, struct pixels_text *text_out);
/* A line on the input, and where images are loaded one on those of each pass. */
void pixels_print(const struct settings *settings, const struct net *net, FILE *out);

#endif
