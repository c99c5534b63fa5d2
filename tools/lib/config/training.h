/* Optimizer, learning rate and synchronisation mode of the settings, also in words. Main thread only. */
#ifndef PIPETRAIN_TRAINING
#define PIPETRAIN_TRAINING

#include "compute/learning_rate.h"
#include "compute/optimizer.h"
#include "stage/schedule.h"
#include "tools/lib/config/problems.h"
#include "tools/lib/config/settings.h"

#define TRAINING_TEXT_SIZE 512

struct optimizer training_optimizer(const struct train_settings *train);
/* Describe the optimizer: "adam, betas 0.9 0.999, epsilon 1e-08". */
void training_describe_optimizer(const struct train_settings *train, char *text, size_t text_size);

/* The learning rate for a run of this schedule. */
struct learning_rate training_rate(const struct train_settings *train, const struct schedule *schedule);
/* Describe the rate: "0.1, 0.01 after epoch 82, warm-up of 5 epochs". */
void training_describe_rate(const struct train_settings *train, const struct learning_rate *rate, char *text,
                            size_t text_size);

/* The mode for the number of towers; if towers do not compute (!computes), all modes do the same. */
const struct sync_ops *settings_sync(const struct settings *settings, bool computes);
/* Are gradients sent as bf16, or with train.slices rounded as if they were? The first needs several towers. */
bool settings_use_bf16_grads(const struct settings *settings);
/* Report settings that the mode does not support. */
void settings_check_sync(struct settings *settings, struct problems *problems);

#endif
