/* How weights are updated, by the settings: for the towers that do it, and in words. */
#ifndef PIPETRAIN_TRAINING_H
#define PIPETRAIN_TRAINING_H

#include "compute/learning_rate.h"
#include "compute/optimizer.h"
#include "stage/schedule.h"
#include "tools/config/settings.h"

#define TRAINING_TEXT_SIZE 512

struct optimizer training_optimizer(const struct train_settings *train);
/* "adam, betas 0.9 0.999, epsilon 1e-08": the rule and the numbers it has. */
void training_describe_optimizer(const struct train_settings *train, char *text, size_t text_size);

/* Of a run of this schedule. */
struct learning_rate training_rate(const struct train_settings *train, const struct schedule *schedule);
/* "0.1, 0.01 behind epoch 82, warm-up of 5 epochs": how large it is when. */
void training_describe_rate(const struct train_settings *train, const struct learning_rate *rate, char *text,
                            size_t text_size);

#endif
